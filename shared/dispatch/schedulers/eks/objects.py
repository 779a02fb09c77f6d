"""Views of what a Kubernetes API server shows: read with tolerance, never with trust.

Unknown fields are ignored, as an API server may always add some; a known field of another shape
is `Unreadable`, so that a body which isn't what it claims to be never becomes evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

JsonMap = Mapping[str, Any]

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
JOB_NAME = "batch.kubernetes.io/job-name"
CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"

JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
JOBSET_UID = "jobset.sigs.k8s.io/jobset-uid"
JOBSET_ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"
REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
REPLICA = "jobset.sigs.k8s.io/job-index"
"""What the JobSet controller writes on its Jobs and on their pods."""

MAIN = "main"
"""The container that runs the job's process; others are beside it."""
TRAINER = "node"
"""What the same container is called in a runtime of Kubeflow's Trainer."""


class Unreadable(ValueError):
    """A body isn't of the shape that its kind has; nothing in it may be believed."""


def mapping(value: object, field: str) -> JsonMap:
    """Return an object, or an empty one for null; anything else is `Unreadable`."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Unreadable(f"{field} is no object")
    return value


def sequence(value: object, field: str) -> list[Any]:
    """Return a list, or an empty one for null; anything else is `Unreadable`."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise Unreadable(f"{field} is no list")
    return value


def text(value: object, field: str) -> str:
    """Return a string, or an empty one for null; anything else is `Unreadable`."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Unreadable(f"{field} is no string")
    return value


def number(value: object, field: str) -> int:
    """Return an integer, or 0 for null; anything else is `Unreadable`."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int):
        raise Unreadable(f"{field} is no integer")
    return value


def counted(written: str) -> int:
    """Return what a label or an annotation counts; 0 where anybody wrote something else."""
    return int(written) if written.isascii() and written.isdecimal() and len(written) < 7 else 0


def instant(value: object, field: str) -> datetime | None:
    """Return a time in UTC; null and the epoch, which stands for never, are None."""
    written = text(value, field)
    if not written:
        return None
    try:
        read = datetime.fromisoformat(written)
    except ValueError as error:
        raise Unreadable(f"{field} is no time") from error
    if read.utcoffset() != timedelta(0):
        raise Unreadable(f"{field} isn't in UTC")
    return read if read.timestamp() > 0 else None


def _strings(value: object, field: str) -> dict[str, str]:
    return {key: text(item, f"{field}.{key}") for key, item in mapping(value, field).items()}


@dataclass(frozen=True, slots=True)
class Meta:
    """What every object carries about itself.

    Attributes:
        name: Its name.
        namespace: Where it lives; empty for what has none.
        uid: Its identity, unique for ever.
        version: Its resourceVersion; it changes whenever the object does.
        generation: How often its desired state was changed; a graceful delete counts.
        created: When it was created.
        deleted: When it goes, or went as far as its finalizers let it; None while nobody asked.
        grace_s: The seconds that were granted between the request and `deleted`.
        labels: For selection.
        annotations: For everything else.
        finalizers: Who must agree before it may go.
        owners: The uids of what owns it.
    """

    name: str
    namespace: str
    uid: str
    version: str
    generation: int
    created: datetime | None
    deleted: datetime | None
    grace_s: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    finalizers: tuple[str, ...]
    owners: tuple[str, ...]

    @property
    def deletion_asked_at(self) -> datetime | None:
        """When the deletion was asked for, as far as the object still tells."""
        return None if self.deleted is None else self.deleted - timedelta(seconds=self.grace_s)


def read_meta(body: JsonMap) -> Meta:
    """Return what an object says about itself."""
    meta = mapping(body.get("metadata"), "metadata")
    owners = sequence(meta.get("ownerReferences"), "metadata.ownerReferences")
    return Meta(
        name=text(meta.get("name"), "metadata.name"),
        namespace=text(meta.get("namespace"), "metadata.namespace"),
        uid=text(meta.get("uid"), "metadata.uid"),
        version=text(meta.get("resourceVersion"), "metadata.resourceVersion"),
        generation=number(meta.get("generation"), "metadata.generation"),
        created=instant(meta.get("creationTimestamp"), "metadata.creationTimestamp"),
        deleted=instant(meta.get("deletionTimestamp"), "metadata.deletionTimestamp"),
        grace_s=number(meta.get("deletionGracePeriodSeconds"), "deletionGracePeriodSeconds"),
        labels=_strings(meta.get("labels"), "metadata.labels"),
        annotations=_strings(meta.get("annotations"), "metadata.annotations"),
        finalizers=tuple(
            text(f, "metadata.finalizers")
            for f in sequence(meta.get("finalizers"), "metadata.finalizers")
        ),
        owners=tuple(text(mapping(o, "owner").get("uid"), "owner.uid") for o in owners),
    )


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of an object's status."""

    kind: str
    status: str
    reason: str
    message: str
    since: datetime | None
    generation: int

    @property
    def holds(self) -> bool:
        """Whether it is true; Unknown isn't."""
        return self.status == "True"


def read_conditions(status: JsonMap) -> dict[str, Condition]:
    """Return the conditions by type, the last of each."""
    read: dict[str, Condition] = {}
    for raw in sequence(status.get("conditions"), "status.conditions"):
        item = mapping(raw, "condition")
        kind = text(item.get("type"), "condition.type")
        read[kind] = Condition(
            kind=kind,
            status=text(item.get("status"), "condition.status"),
            reason=text(item.get("reason"), "condition.reason"),
            message=text(item.get("message"), "condition.message"),
            since=instant(item.get("lastTransitionTime"), "condition.lastTransitionTime"),
            generation=number(item.get("observedGeneration"), "condition.observedGeneration"),
        )
    return read


@dataclass(frozen=True, slots=True)
class Terminated:
    """How a container ended."""

    exit_code: int
    signal: int | None
    reason: str
    message: str
    started: datetime | None
    finished: datetime | None


@dataclass(frozen=True, slots=True)
class Container:
    """One container's status."""

    name: str
    running_since: datetime | None
    running: bool
    waiting: str
    waiting_message: str
    ended: Terminated | None
    last_ended: Terminated | None


def _terminated(state: JsonMap) -> Terminated | None:
    raw = state.get("terminated")
    if raw is None:
        return None
    item = mapping(raw, "terminated")
    signal = number(item.get("signal"), "terminated.signal")
    return Terminated(
        exit_code=number(item.get("exitCode"), "terminated.exitCode"),
        signal=signal or None,
        reason=text(item.get("reason"), "terminated.reason"),
        message=text(item.get("message"), "terminated.message"),
        started=instant(item.get("startedAt"), "terminated.startedAt"),
        finished=instant(item.get("finishedAt"), "terminated.finishedAt"),
    )


def _containers(value: object, field: str) -> tuple[Container, ...]:
    read = []
    for raw in sequence(value, field):
        item = mapping(raw, field)
        state = mapping(item.get("state"), f"{field}.state")
        running = mapping(state.get("running"), f"{field}.running")
        waiting = mapping(state.get("waiting"), f"{field}.waiting")
        read.append(
            Container(
                name=text(item.get("name"), f"{field}.name"),
                running_since=instant(running.get("startedAt"), f"{field}.startedAt"),
                running="running" in state,
                waiting=text(waiting.get("reason"), f"{field}.waiting.reason"),
                waiting_message=text(waiting.get("message"), f"{field}.waiting.message"),
                ended=_terminated(state),
                last_ended=_terminated(mapping(item.get("lastState"), f"{field}.lastState")),
            )
        )
    return tuple(read)


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod: one rank of one run."""

    meta: Meta
    node: str
    phase: str
    reason: str
    message: str
    conditions: Mapping[str, Condition]
    containers: tuple[Container, ...]
    init: tuple[Container, ...]

    @property
    def over(self) -> bool:
        """Whether its processes have ended by the word of a kubelet or of the pod collector."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def index(self) -> int:
        """Its rank; 0 where it has none."""
        written = self.meta.labels.get(COMPLETION_INDEX) or self.meta.annotations.get(
            COMPLETION_INDEX, ""
        )
        return counted(written)

    @property
    def rank(self) -> tuple[str, int, int]:
        """Which rank it is: of which replicated job, of which of its Jobs, and its index there."""
        labels = self.meta.labels
        return labels.get(REPLICATED_JOB, ""), counted(labels.get(REPLICA, "")), self.index

    @property
    def owner_uid(self) -> str:
        """The uid of the Job that made it, empty where it has none."""
        return self.meta.labels.get(CONTROLLER_UID) or next(iter(self.meta.owners), "")

    @property
    def container(self) -> str:
        """The name of the container that runs the process; its log is the job's."""
        return TRAINER if JOBSET_NAME in self.meta.labels else MAIN

    @property
    def main(self) -> Container | None:
        """The container whose end is the pod's end."""
        named = [c for name in (MAIN, TRAINER) for c in self.containers if c.name == name]
        named = named or list(self.containers)
        if named and named[0].ended is not None and named[0].ended.exit_code == 0:
            return next(
                (c for c in self.containers if c.ended and c.ended.exit_code != 0), named[0]
            )
        return named[0] if named else None


def read_pod(body: JsonMap) -> Pod:
    """Return a pod."""
    spec = mapping(body.get("spec"), "spec")
    status = mapping(body.get("status"), "status")
    return Pod(
        meta=read_meta(body),
        node=text(spec.get("nodeName"), "spec.nodeName"),
        phase=text(status.get("phase"), "status.phase"),
        reason=text(status.get("reason"), "status.reason"),
        message=text(status.get("message"), "status.message"),
        conditions=read_conditions(status),
        containers=_containers(status.get("containerStatuses"), "containerStatuses"),
        init=_containers(status.get("initContainerStatuses"), "initContainerStatuses"),
    )


@dataclass(frozen=True, slots=True)
class Job:
    """One batch/v1 Job: one attempt's object; `replaces` says that it starts pods again itself."""

    meta: Meta
    completions: int
    suspended: bool
    conditions: Mapping[str, Condition]
    active: int
    ready: int
    terminating: int | None
    succeeded: int
    failed: int
    started: datetime | None
    completed: datetime | None
    replaces: bool

    def condition(self, kind: str) -> Condition | None:
        """Return a condition that holds."""
        found = self.conditions.get(kind)
        return found if found is not None and found.holds else None

    @property
    def finished(self) -> Condition | None:
        """The condition that says that it is over for good."""
        return self.condition("Failed") or self.condition("Complete")


def read_job(body: JsonMap) -> Job:
    """Return a Job."""
    spec = mapping(body.get("spec"), "spec")
    status = mapping(body.get("status"), "status")
    terminating = status.get("terminating")
    return Job(
        meta=read_meta(body),
        completions=number(spec.get("completions"), "spec.completions") or 1,
        suspended=spec.get("suspend") is True,
        conditions=read_conditions(status),
        active=number(status.get("active"), "status.active"),
        ready=number(status.get("ready"), "status.ready"),
        terminating=None if terminating is None else number(terminating, "status.terminating"),
        succeeded=number(status.get("succeeded"), "status.succeeded"),
        failed=number(status.get("failed"), "status.failed"),
        started=instant(status.get("startTime"), "status.startTime"),
        completed=instant(status.get("completionTime"), "status.completionTime"),
        replaces=number(spec.get("backoffLimit", 6), "spec.backoffLimit") > 0,
    )


def items(body: JsonMap) -> Iterator[JsonMap]:
    """Yield the objects of a list."""
    for item in sequence(body.get("items"), "items"):
        yield mapping(item, "item")
