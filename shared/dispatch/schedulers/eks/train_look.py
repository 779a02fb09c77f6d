"""Looking at TrainJobs and all that was made of them: listed by label at every level.

The JobSet controller labels its Jobs and pods itself. So what a TrainJob couldn't label, or lets
go of unlabelled, is seen as well; it is put down to its TrainJob by uid, else by name and age.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Protocol

from dispatch.schedulers.eks.client import METADATA_ONLY, core, jobs, path
from dispatch.schedulers.eks.marks import (
    ATTEMPT_NAME,
    LIVE_SELECTOR,
    OBJECT,
    RECORDED,
    TRAINJOBS,
    Identity,
    tag_selector,
)
from dispatch.schedulers.eks.objects import (
    JOBSET_NAME,
    JOBSET_UID,
    JsonMap,
    Meta,
    read_job,
    read_meta,
    read_pod,
)
from dispatch.schedulers.eks.response import Gathered, Gathering
from dispatch.schedulers.eks.shapes import TRAINJOB
from dispatch.schedulers.eks.train_objects import (
    JOBSET_GROUP,
    TrainJob,
    read_jobset,
    read_trainjob,
)
from dispatch.schedulers.scheduler import Tag

JOBSET_VERSION = "v1alpha2"


class Questions(Protocol):
    """What `Look` can ask."""

    def pages(
        self, where: str, query: dict[str, str], kind: str, accept: str = ""
    ) -> Iterator[JsonMap]:
        """Yield the objects of a whole list, page by page."""
        ...

    def ask_for(
        self, where: str, query: dict[str, str] | None = None, accept: str = ""
    ) -> JsonMap | None:
        """Return the answer to one question, None where the server knows no such object."""
        ...


def jobsets(namespace: str, *name: str) -> str:
    """Return the path of a namespace's JobSets, or of one."""
    return path("apis", JOBSET_GROUP, JOBSET_VERSION, "namespaces", namespace, "jobsets", *name)


class TrainLook:
    """The questions that concern TrainJobs."""

    def __init__(self, questions: Questions) -> None:
        self._ask = questions

    def gather(self, namespace: str, gathered: Gathered) -> None:
        """Add everything of our TrainJobs in a namespace whose end isn't in the record yet.

        Raises:
            NoEvidence: A question failed.
        """
        made = f"{JOBSET_NAME},!{RECORDED}"
        self._fill(namespace, gathered, LIVE_SELECTOR, made)
        self._recorded(gathered)

    def gather_one(self, identity: Identity, tag: Tag) -> Gathered:
        """Return everything that concerns one TrainJob, recorded or not."""
        gathered = Gathered()
        body = self._ask.ask_for(TRAINJOB.where(identity.namespace, identity.name))
        if body is not None:
            _add(gathered, read_trainjob(body))
        # Older runs' JobSets bear the same tag, and what they made bears their common name.
        made = f"{JOBSET_NAME}={identity.name}"
        self._fill(identity.namespace, gathered, tag_selector(tag), made, tops=False)
        gathered.trains = {u: t for u, t in gathered.trains.items() if u == identity.uid}
        gathered.pods = defaultdict(
            list, {u: pods for u, pods in gathered.pods.items() if u == identity.uid}
        )
        return gathered

    def tokens(self, namespace: str) -> dict[str, str]:
        """Return a token for each TrainJob that hasn't ended: its versions at every level."""
        gathered = Gathered()
        for body in self._list(namespace, LIVE_SELECTOR):
            _add(gathered, read_trainjob(body))
        for body in self._ask.pages(
            jobsets(namespace), {"labelSelector": LIVE_SELECTOR}, "JobSetList"
        ):
            _owner(gathered, read_jobset(body).meta).jobsets.append(read_jobset(body))
        versions: dict[str, list[str]] = defaultdict(list)
        query = {"labelSelector": f"{JOBSET_NAME},!{RECORDED}"}
        where = core(namespace, "pods")
        for body in self._ask.pages(where, query, "PartialObjectMetadataList", METADATA_ONLY):
            meta = read_meta(body)
            if _is_ours(meta):
                versions[_key(gathered, meta)].append(f"{meta.uid}:{meta.version}")
        found = {}
        for uid, one in gathered.trains.items():
            if one.trainjob is None or one.train.finished:
                continue
            meta = one.trainjob.meta
            parts = [f"{j.meta.uid}:{j.meta.version}" for j in one.jobsets] + versions[uid]
            ref = Identity(namespace, meta.name, uid, TRAINJOBS).ref
            found[ref] = token_of(meta.version, parts)
        return found

    def _list(self, namespace: str, selector: str) -> Iterator[JsonMap]:
        where, query = TRAINJOB.where(namespace), {"labelSelector": selector}
        return self._ask.pages(where, query, "TrainJobList")

    def _fill(
        self, namespace: str, gathered: Gathered, ours: str, made: str, *, tops: bool = True
    ) -> None:
        """Read one level after the other, from the top: what is below may be younger."""
        if tops:
            for body in self._list(namespace, ours):
                _add(gathered, read_trainjob(body))
        for body in self._ask.pages(jobsets(namespace), {"labelSelector": ours}, "JobSetList"):
            jobset = read_jobset(body)
            _owner(gathered, jobset.meta).jobsets.append(jobset)
        query = {"labelSelector": made}
        for body in self._ask.pages(jobs(namespace), query, "JobList"):
            job = read_job(body)
            if _is_ours(job.meta):
                _of(gathered, job.meta).children.append(job)
        for body in self._ask.pages(core(namespace, "pods"), query, "PodList"):
            pod = read_pod(body)
            if _is_ours(pod.meta):
                gathered.pods[_key(gathered, pod.meta)].append(pod)
                _of(gathered, pod.meta)

    def _recorded(self, gathered: Gathered) -> None:
        """Ask for the TrainJobs that aren't listed and have something new of their own."""
        for uid, one in gathered.trains.items():
            if one.trainjob is not None:
                continue
            body = self._ask.ask_for(TRAINJOB.where(one.namespace, one.name))
            trainjob = None if body is None else read_trainjob(body)
            if trainjob is not None and trainjob.meta.uid == uid:
                one.trainjob = trainjob


def _is_ours(meta: Meta) -> bool:
    """Return whether something was made of a TrainJob of Dispatch's: they have its name."""
    return ATTEMPT_NAME.match(meta.labels.get(JOBSET_NAME, "")) is not None


def _add(gathered: Gathered, trainjob: TrainJob) -> None:
    meta = trainjob.meta
    gathered.trains[meta.uid] = Gathering(meta.namespace, meta.name, trainjob)


def _owner(gathered: Gathered, jobset: Meta) -> Gathering:
    """Return where a JobSet belongs: to the TrainJob that owns it, wherever that is."""
    uid = next(iter(jobset.owners), jobset.uid)
    return gathered.trains.setdefault(uid, Gathering(jobset.namespace, jobset.name))


def _of(gathered: Gathered, meta: Meta) -> Gathering:
    name = meta.labels.get(JOBSET_NAME, "")
    return gathered.trains.setdefault(_key(gathered, meta), Gathering(meta.namespace, name))


def _key(gathered: Gathered, meta: Meta) -> str:
    """Return the uid of the TrainJob that something was made of, as far as anything tells.

    By its JobSet, by the uid that a release wrote on it, by the name of a TrainJob that is older;
    else it is that of its JobSet, and an object of its own.
    """
    jobset = meta.labels.get(JOBSET_UID, "")
    for uid, one in gathered.trains.items():
        if jobset and any(jobset == known.meta.uid for known in one.jobsets):
            return uid
    told = meta.annotations.get(OBJECT)
    if told:
        return told
    name = meta.labels.get(JOBSET_NAME, "")
    for uid, one in gathered.trains.items():
        top = one.trainjob
        born, made = (None if top is None else top.meta.created), meta.created
        if top is not None and top.meta.name == name and born and made and born <= made:
            return uid
    return jobset or name


def token_of(version: str, parts: list[str]) -> str:
    """Return one token for an object and its parts."""
    return hashlib.sha256("\n".join([version, *sorted(parts)]).encode()).hexdigest()[:32]
