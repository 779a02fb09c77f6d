"""What an API server answered, read without I/O: errors told apart, lists turned into sightings."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from dispatch.record.evidence import MAX_NODES, Sighting
from dispatch.record.names import ENDED_STATES, Cause
from dispatch.schedulers.eks.around import Event, Node, Workload
from dispatch.schedulers.eks.judge import read_object
from dispatch.schedulers.eks.marks import RECORDED, TRAINJOBS, Identity, canonical, read_tag
from dispatch.schedulers.eks.objects import (
    JOB_NAME,
    JOBSET_NAME,
    Job,
    JsonMap,
    Pod,
    Unreadable,
    mapping,
    number,
    sequence,
    text,
)
from dispatch.schedulers.eks.ranks import Reading
from dispatch.schedulers.eks.runs import Train
from dispatch.schedulers.eks.train_objects import JobSet, TrainJob
from dispatch.schedulers.eks.verdict import Evidence
from dispatch.schedulers.scheduler import Tag

_QUESTION = re.compile(r" cannot (get|list|watch) resource ")
_JUDGED = re.compile(r'admission webhook "[^"]*(trainjob|jobset)[^"]*" denied the request: ')
"""Trainer, JobSet and Kueue refuse what is wrong with a spec as if it weren't allowed."""


class AnswerClass(StrEnum):
    """What an answer is worth.

    `sighting`: it shows an object. `refused`: a definite no. `unknown`: something was accepted,
    what follows must be seen. `not known`: the server doesn't know the object, which is no end.
    `no evidence`: an error of the question, or no answer at all.
    """

    SIGHTING = "sighting"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    NOT_KNOWN = "not known"
    NO_EVIDENCE = "no evidence"


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer.

    Attributes:
        status: The HTTP status.
        body: The decoded body; None where it isn't JSON.
        raw: What came, for bodies that are no JSON by design.
        date: The server's clock as the answer's header gives it.
    """

    status: int
    body: object
    raw: bytes = b""
    date: str = ""

    @property
    def ok(self) -> bool:
        """Whether the server did or answered what was asked."""
        return 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a `Status` that isn't a success says.

    Attributes:
        kind: What it is worth.
        code: The status code.
        reason: Kubernetes' one-word reason.
        message: Its words.
        cause: What it means for a Start.
    """

    kind: AnswerClass
    code: int
    reason: str
    message: str
    cause: Cause | None = None

    @property
    def name_taken(self) -> bool:
        """Whether an object of that name stands in the way."""
        return self.reason == "AlreadyExists"

    @property
    def going(self) -> bool:
        """Whether the object that stands in the way is being deleted."""
        return self.name_taken and self.message.startswith("object is being deleted")

    @property
    def conflict(self) -> bool:
        """Whether a precondition didn't hold; nothing was changed."""
        return self.reason == "Conflict"


def read_refusal(code: int, body: object) -> Refusal:
    """Return what an answer that isn't a success says; what isn't a `Status` says nothing."""
    try:
        status = mapping(body, "Status")
        if status.get("kind") != "Status" or status.get("status") == "Success":
            raise Unreadable("no Status")
        reason = text(status.get("reason"), "reason")
        message = text(status.get("message"), "message")
        code = number(status.get("code"), "code") or code
        details = mapping(status.get("details"), "details")
    except Unreadable:
        words = "the answer is no Kubernetes Status"
        return Refusal(AnswerClass.NO_EVIDENCE, code, "", f"HTTP {code}: {words}")
    kind, cause = _judge(code, reason, message, named=bool(details.get("name")))
    return Refusal(kind, code, reason, message, cause)


def _judge(
    code: int, reason: str, message: str, *, named: bool
) -> tuple[AnswerClass, Cause | None]:
    match code:
        case 404 if reason == "NotFound" and named:
            return AnswerClass.NOT_KNOWN, None
        case 409 if reason == "AlreadyExists":
            return AnswerClass.REFUSED, Cause.NAME_TAKEN
        case 409:
            return AnswerClass.REFUSED, None
        case 400 if message.startswith("field label"):
            return AnswerClass.REFUSED, None
        case 400 | 413 | 415 | 422:
            return AnswerClass.REFUSED, Cause.INVALID_SPEC
        case 403 if _JUDGED.search(message):
            return AnswerClass.REFUSED, Cause.INVALID_SPEC
        case 403 | 405 if not _QUESTION.search(message):
            return AnswerClass.REFUSED, Cause.START_REFUSED
        case _:
            return AnswerClass.NO_EVIDENCE, None


@dataclass(slots=True)
class Gathering:
    """What the lists showed of one TrainJob, beside its pods."""

    namespace: str
    name: str
    trainjob: TrainJob | None = None
    jobsets: list[JobSet] = field(default_factory=list)
    children: list[Job] = field(default_factory=list)

    @property
    def train(self) -> Train:
        """The same as evidence."""
        return Train(self.trainjob, tuple(self.jobsets), tuple(self.children))


@dataclass(slots=True)
class Gathered:
    """What the lists of one namespace showed, whole.

    Attributes:
        jobs: The Jobs, by uid.
        trains: The TrainJobs with what was made of them, by the uid of each; where one is gone
            and nothing tells its uid, by that of its JobSet.
        pods: The pods, by the uid of their Job, or of their TrainJob.
        nodes: The Nodes that were read; None for one that isn't there.
        events: Warnings about Jobs and pods, by the uid they are about.
        workloads: Kueue's Workloads, by the uid of their Job.
    """

    jobs: dict[str, Job] = field(default_factory=dict)
    trains: dict[str, Gathering] = field(default_factory=dict)
    pods: dict[str, list[Pod]] = field(default_factory=lambda: defaultdict(list))
    nodes: dict[str, Node | None] = field(default_factory=dict)
    events: dict[str, list[Event]] = field(default_factory=lambda: defaultdict(list))
    workloads: dict[str, Workload] = field(default_factory=dict)

    def evidence(self, uid: str) -> Evidence:
        """Return all that concerns one object."""
        pods, train = self.pods.get(uid, []), self.trains.get(uid)
        about = [uid, *(p.meta.uid for p in pods)]
        if train is not None:
            about += [one.meta.uid for one in train.jobsets]
            about += [one.meta.uid for one in train.children]
        return Evidence(
            train=None if train is None else train.train,
            job=self.jobs.get(uid),
            pods=pods,
            nodes=self.nodes,
            events=[e for key in about for e in self.events.get(key, [])],
            workload=self.workloads.get(uid),
        )

    @property
    def orphans(self) -> set[str]:
        """The uids of Jobs that have pods here and aren't here themselves."""
        known = {*self.jobs, *self.trains}
        return {uid for uid in self.pods if uid and uid not in known}

    @property
    def doubtful_nodes(self) -> set[str]:
        """The Nodes that must be read, for a process on them may be lost."""
        return {p.node for pods in self.pods.values() for p in pods if p.node and node_matters(p)}

    @property
    def unexplained(self) -> bool:
        """Whether something waits and only an event can say for what."""
        for uid, job in self.jobs.items():
            pods = self.pods.get(uid, [])
            idle = not job.suspended and job.finished is None and job.meta.deleted is None
            if idle and not any(not p.over for p in pods):
                return True
        for uid, train in self.trains.items():
            top, pods = train.trainjob, self.pods.get(uid, [])
            idle = top is not None and not top.suspended and not train.train.finished
            if idle and not any(not p.over for p in pods):
                return True
        return any(p.phase == "Pending" and p.node for pods in self.pods.values() for p in pods)


def node_matters(pod: Pod) -> bool:
    """Return whether a pod shows a sign that its node may be lost."""
    if pod.over:
        disrupted = pod.conditions.get("DisruptionTarget")
        return disrupted is not None and disrupted.reason.startswith("DeletionBy")
    ready = pod.conditions.get("Ready")
    unready = pod.phase == "Running" and ready is not None and not ready.holds
    return unready or pod.meta.deleted is not None


def sightings(gathered: Gathered) -> dict[str, tuple[Sighting, ...]]:
    """Return what the lists show, by the job in the tag; what bears no tag of ours is left out."""
    found: dict[str, list[Sighting]] = defaultdict(list)
    for uid in sorted({*gathered.jobs, *gathered.trains, *(u for u in gathered.pods if u)}):
        seen = sight(gathered.evidence(uid), uid)
        if seen is not None and not _let_go(gathered, uid, seen[1]):
            found[seen[0].job].append(seen[1])
    return {job: tuple(sorted(seen, key=lambda s: s.ref)) for job, seen in found.items()}


def _let_go(gathered: Gathered, uid: str, seen: Sighting) -> bool:
    """Return whether a TrainJob's end is in the record, and nothing of it was started since."""
    train = gathered.trains.get(uid)
    top = None if train is None else train.trainjob
    return top is not None and RECORDED in top.meta.labels and seen.state in ENDED_STATES


def identity_of(evidence: Evidence, uid: str = "") -> Identity | None:
    """Return the identity of the object that the evidence is about; its uid, where it is gone."""
    if evidence.train is not None:
        return _train_identity(evidence, evidence.train, uid)
    if evidence.job is not None:
        meta = evidence.job.meta
        return Identity(meta.namespace, meta.name, meta.uid)
    for pod in evidence.pods or ():
        name = pod.meta.labels.get(JOB_NAME, "")
        if name and pod.owner_uid:
            return Identity(pod.meta.namespace, name, pod.owner_uid)
    return None


def _train_identity(evidence: Evidence, train: Train, uid: str) -> Identity | None:
    if evidence.top is not None:
        top = evidence.top
        return Identity(top.namespace, top.name, top.uid, TRAINJOBS)
    for meta in (*(one.meta for one in train.jobsets), *(p.meta for p in evidence.pods or ())):
        name = meta.labels.get(JOBSET_NAME, meta.name)
        if uid:
            return Identity(meta.namespace, name, uid, TRAINJOBS)
    return None


def tag_of(evidence: Evidence) -> Tag | None:
    """Return the tag that the object carries, or what was made of it where it is gone."""
    if evidence.job is not None:
        return read_tag(evidence.job.meta)
    if evidence.top is not None:
        return read_tag(evidence.top)
    made = () if evidence.train is None else evidence.train.jobsets
    metas = (*(one.meta for one in made), *(pod.meta for pod in evidence.pods or ()))
    return next((tag for meta in metas if (tag := read_tag(meta))), None)


def sight(evidence: Evidence, uid: str = "") -> tuple[Tag, Sighting] | None:
    """Return one object as a sighting, None where it isn't ours."""
    tag, identity = tag_of(evidence), identity_of(evidence, uid)
    if tag is None or identity is None:
        return None
    return tag, to_sighting(tag, identity, read_object(evidence), _digest(evidence))


def to_sighting(tag: Tag, identity: Identity, reading: Reading, digest: str) -> Sighting:
    """Return a reading in the record's terms."""
    reason = reading.reason
    if len(reading.nodes) > MAX_NODES:
        reason = f"{len(reading.nodes)} nodes; {reason}"
    return Sighting(
        ref=identity.ref,
        n=tag.n,
        a=tag.a,
        spec_digest=tag.spec_digest,
        generation=tag.generation,
        state=reading.state,
        cause=reading.cause,
        restarts=reading.restarts,
        held=reading.held,
        holder=reading.holder,
        exit_code=reading.exit_code,
        signal=reading.signal if reading.signal is None or reading.signal < 256 else None,
        nodes=reading.nodes[:MAX_NODES],
        started_at=reading.started_at,
        ended_at=reading.ended_at,
        lost_at=reading.lost_at,
        reason=reason or None,
        source=reading.source,
        digest=digest,
    )


def _digest(evidence: Evidence) -> str:
    versions: list[str] = [] if evidence.top is None else [evidence.top.version]
    versions += sorted(one.meta.version for one in evidence.train.jobsets) if evidence.train else []
    versions += sorted(f"{p.meta.uid}:{p.meta.version}" for p in evidence.pods or ())
    return hashlib.sha256(canonical(versions).encode()).hexdigest()


def next_page(body: JsonMap) -> str:
    """Return the token of the next page, empty at the end of a list."""
    return text(mapping(body.get("metadata"), "metadata").get("continue"), "metadata.continue")


def listed(body: object, kind: str) -> list[JsonMap]:
    """Return the objects of one page of a list.

    Raises:
        Unreadable: It is no list of that kind, so it shows nothing and lacks nothing.
    """
    page = mapping(body, kind)
    if page.get("kind") != kind or "items" not in page:
        raise Unreadable(f"the answer is no {kind}")
    return [mapping(item, kind) for item in sequence(page["items"], f"{kind}.items")]


def by_uid(events: Iterable[Event]) -> Mapping[str, list[Event]]:
    """Return events by the object they are about."""
    found: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        found[event.uid].append(event)
    return found
