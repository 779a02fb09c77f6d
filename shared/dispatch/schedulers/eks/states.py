"""Evidence → state and cause, for one pod: one total table, the first row that matches decides.

The order is that of what Kubernetes forgets first: a disruption's own condition outranks the exit
code that it brought about, and a deletion alone explains only what nothing above it explains. A
process that was told to go and exits 0 has succeeded at stopping, not at its work.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from dispatch.record.names import Cause, ObjectState
from dispatch.schedulers.eks.around import Event, Node
from dispatch.schedulers.eks.objects import Condition, Container, Pod, Terminated
from dispatch.schedulers.eks.words import REASON_CHARS, steady

_TWO_CLOCKS = timedelta(seconds=5)
_TOLD_TO_GO = frozenset({128 + 15, 128 + 9})
"""What a process that a deletion ended exits with: SIGTERM, then SIGKILL."""

_REJECTED = frozenset(
    {"NodeAffinity", "NodeShutdown", "TopologyAffinityError", "UnexpectedAdmissionError"}
)
_POD_REASONS = {
    "DeadlineExceeded": Cause.TIMEOUT,
    "NodeLost": Cause.NODE_LOST,
    "NodeShutdown": Cause.NODE_SHUTDOWN,
    "Preempted": Cause.PREEMPTED,
    "Preempting": Cause.PREEMPTED,
    "Shutdown": Cause.NODE_SHUTDOWN,
    "Terminated": Cause.NODE_SHUTDOWN,
}
_CONTAINER_REASONS = {
    "ContainerCannotRun": Cause.LAUNCH_FAILED,
    "ContainerStatusUnknown": Cause.LOST,
    "OOMKilled": Cause.OUT_OF_MEMORY,
    "StartError": Cause.LAUNCH_FAILED,
}
_DISRUPTIONS = {
    "DeletionByDeviceTaintManager": Cause.DEVICE_FAILED,
    "DeletionByPodGC": Cause.NODE_LOST,
    "EvictionByEvictionAPI": Cause.EVICTED,
    "PreemptionByScheduler": Cause.PREEMPTED,
}
_BY_KUBELET = {
    "Evicted": Cause.NODE_PRESSURE,
    "NodeShutdown": Cause.NODE_SHUTDOWN,
    "Preempted": Cause.PREEMPTED,
    "Preempting": Cause.PREEMPTED,
    "Terminated": Cause.NODE_SHUTDOWN,
}
_WAITING = {
    "CreateContainerConfigError": Cause.INVALID_SPEC,
    "CreateContainerError": Cause.INVALID_SPEC,
    "ErrImageNeverPull": Cause.IMAGE_PULL_FAILED,
    "ErrImagePull": Cause.IMAGE_PULL_FAILED,
    "ImageInspectError": Cause.IMAGE_PULL_FAILED,
    "ImagePullBackOff": Cause.IMAGE_PULL_FAILED,
    "InvalidImageName": Cause.IMAGE_PULL_FAILED,
    "RegistryUnavailable": Cause.IMAGE_PULL_FAILED,
    "RunContainerError": Cause.LAUNCH_FAILED,
    "SignatureValidationFailed": Cause.IMAGE_PULL_FAILED,
}
POD_EVENTS = {
    "FailedAttachVolume": Cause.INVALID_SPEC,
    "FailedCreatePodSandBox": Cause.LAUNCH_FAILED,
    "FailedMapVolume": Cause.INVALID_SPEC,
    "FailedMount": Cause.INVALID_SPEC,
    "FailedScheduling": Cause.NO_CAPACITY,
}
"""Events that alone tell why a pod waits; the pod itself says no more than ContainerCreating."""

_BACK_OFF = re.compile(r"^Back-off pulling image \"[^\"]*\"(: \w+)?(: )?")


@dataclass(frozen=True, slots=True)
class PodReading:
    """What one pod shows.

    Attributes:
        state: What it is doing.
        row: The row of the table that decided; a lower one outranks a higher one.
        cause: Why it ended, goes, or waits without an end.
        exit_code: Of the main process, where it ended.
        signal: Where the runtime names it.
        started_at: When the main process started.
        ended_at: When it ended.
        lost_at: When its node was lost; the process may live on.
        reason: Kubernetes' own words.
    """

    state: ObjectState
    row: int
    cause: Cause | None = None
    exit_code: int | None = None
    signal: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    lost_at: datetime | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Situation:
    """All that may be known about one pod.

    Attributes:
        pod: The pod.
        node: Its Node, where it was read.
        node_gone: Whether the Node object was looked for and isn't there.
        events: What was said about the pod.
        told_to_go: Whether an exit by the signal of a deletion is put down to the deletion.
        stopped_at: When Dispatch itself asked for its end.
    """

    pod: Pod
    node: Node | None = None
    node_gone: bool = False
    events: Sequence[Event] = ()
    told_to_go: bool = False
    stopped_at: datetime | None = None

    @property
    def ended(self) -> Terminated | None:
        """How the main process ended: its state, else the one before."""
        main = self.pod.main
        if main is None:
            return None
        return main.ended or (None if main.running else main.last_ended)


Verdict = tuple[Cause, str] | None
Row = Callable[[Situation], Verdict]


def disruption(pod: Pod) -> Condition | None:
    """Return the condition that says who ends the pod, Kubernetes' or Kueue's."""
    for kind in ("TerminationTarget", "DisruptionTarget"):
        found = pod.conditions.get(kind)
        if found is not None and found.holds:
            return found
    return None


def _said(reason: str, message: str) -> str:
    return f"{reason}: {message}".strip().strip(":").strip()[:REASON_CHARS]


def _disrupted(it: Situation) -> Verdict:
    found = disruption(it.pod)
    if found is None:
        return None
    said = _said(found.reason, found.message)
    if found.kind == "TerminationTarget":
        return Cause.PREEMPTED, said
    if found.reason == "DeletionByTaintManager":
        return (Cause.NODE_LOST if _node_is_lost(it) else Cause.EVICTED), said
    if found.reason == "TerminationByKubelet":
        said = _said(it.pod.reason or found.reason, it.pod.message or found.message)
        return _BY_KUBELET.get(it.pod.reason, Cause.INTERRUPTED), said
    return _DISRUPTIONS.get(found.reason, Cause.INTERRUPTED), said


def _node_is_lost(it: Situation) -> bool:
    if it.node_gone:
        return True
    if it.node is not None:
        return it.node.lost_at is not None
    # Nobody read the Node: its controller marks the pod not ready while the container still runs.
    ready = it.pod.conditions.get("Ready")
    main = it.pod.main
    return ready is not None and not ready.holds and main is not None and main.running


def _evicted_by_kubelet(it: Situation) -> Verdict:
    if it.pod.reason != "Evicted":
        return None
    said = _said(it.pod.reason, it.pod.message)
    its_own = "exceeds the limit" in it.pod.message or "ephemeral" in it.pod.message
    return (Cause.DISK_PRESSURE if its_own else Cause.NODE_PRESSURE), said


def _pod_reason(it: Situation) -> Verdict:
    cause = _POD_REASONS.get(it.pod.reason)
    if cause is None or (it.pod.reason in _REJECTED and not it.pod.containers):
        return None
    return cause, _said(it.pod.reason, it.pod.message)


def _container_reason(it: Situation) -> Verdict:
    if it.ended is None:
        return None
    cause = _CONTAINER_REASONS.get(it.ended.reason)
    return None if cause is None else (cause, _said(it.ended.reason, it.ended.message))


def _stopped_by_us(it: Situation) -> Verdict:
    if it.stopped_at is None or it.pod.meta.deleted is None:
        return None
    finished = None if it.ended is None else it.ended.finished
    if finished is not None and finished < it.stopped_at - _TWO_CLOCKS:
        return None
    return Cause.STOPPED, "stopped" + ("" if it.ended is None else _exited(it.ended))


def _exited(ended: Terminated) -> str:
    return f", exit code {ended.exit_code}"


def _exit_code(it: Situation) -> Verdict:
    if it.ended is None or it.ended.exit_code == 0:
        return None
    if it.told_to_go and it.ended.exit_code in _TOLD_TO_GO:
        return None
    said = f"exit code {it.ended.exit_code}"
    return Cause.APP_ERROR, _said(said, it.ended.message)


def _init_failed(it: Situation) -> Verdict:
    for container in it.pod.init:
        ended = container.ended or container.last_ended
        if ended is not None and ended.exit_code != 0:
            said = f"init container {container.name} exit code {ended.exit_code}"
            return Cause.LAUNCH_FAILED, _said(said, ended.message)
    return None


def _succeeded_at_stopping(it: Situation) -> Verdict:
    if it.pod.phase != "Succeeded" or it.pod.meta.deleted is None or _ended_before(it.pod):
        return None
    return Cause.INTERRUPTED, "exit code 0 after its deletion was asked for"


def _ended_before(pod: Pod) -> bool:
    """Whether the kubelet wrote the end down before it had seen the deletion, which proves it."""
    ready = pod.conditions.get("Ready")
    return ready is not None and 0 < ready.generation < pod.meta.generation


def _rejected(it: Situation) -> Verdict:
    pod = it.pod
    if pod.phase != "Failed" or pod.containers:
        return None
    if pod.reason in _REJECTED or pod.reason.startswith("OutOf"):
        return Cause.NODE_REJECTED, _said(pod.reason, pod.message)
    return None


def _deleted(it: Situation) -> Verdict:
    if it.pod.meta.deleted is None:
        return None
    return Cause.STOPPED_OUTSIDE, "deleted" + ("" if it.ended is None else _exited(it.ended))


def _nothing_recorded(it: Situation) -> Verdict:
    return Cause.LOST, _said(it.pod.reason or "Failed", it.pod.message or "nothing says why")


_ENDS: tuple[Row, ...] = (
    _disrupted,
    _evicted_by_kubelet,
    _pod_reason,
    _container_reason,
    _stopped_by_us,
    _exit_code,
    _init_failed,
    _succeeded_at_stopping,
    _rejected,
    _deleted,
)
SUCCESS_ROW = len(_ENDS)
LOST_ROW = SUCCESS_ROW + 1
LIVE_ROW = LOST_ROW + 1


def read_end(it: Situation) -> tuple[int, Verdict]:
    """Return the first row that explains an end, and what it says; success has no verdict."""
    for row, rule in enumerate(_ENDS):
        if rule is _deleted and it.pod.phase == "Succeeded":
            break
        verdict = rule(it)
        if verdict is not None:
            return row, verdict
    if it.pod.phase == "Succeeded":
        return SUCCESS_ROW, None
    return LOST_ROW, _nothing_recorded(it)


def read(it: Situation) -> PodReading:
    """Return what a pod shows: an end, a going, a run, or a wait."""
    return _over(it) if it.pod.over else _live(it)


def _over(it: Situation) -> PodReading:
    row, verdict = read_end(it)
    cause, said = (None, "exit code 0") if verdict is None else verdict
    ended = it.ended
    lost_at = None
    if cause is Cause.NODE_LOST:
        found = disruption(it.pod)
        lost_at = (it.node.lost_at if it.node else None) or (found.since if found else None)
    return PodReading(
        state=ObjectState.SUCCEEDED if verdict is None else ObjectState.FAILED,
        row=row,
        cause=cause,
        exit_code=None if ended is None or cause is Cause.LOST else ended.exit_code,
        signal=None if ended is None else ended.signal,
        started_at=None if ended is None else ended.started,
        ended_at=None if ended is None else ended.finished,
        lost_at=lost_at,
        reason=said,
    )


def _live(it: Situation) -> PodReading:
    pod, main = it.pod, it.pod.main
    started_at = None if main is None else main.running_since
    going = _disrupted(it) or _stopped_by_us(it) or _deleted(it)
    if going is not None:
        cause, said = going
        lost = it.node.lost_at if it.node else None
        if cause is Cause.NODE_LOST and lost is None:
            ready = pod.conditions.get("Ready")
            lost = ready.since if ready else None
        return PodReading(
            ObjectState.ENDING,
            LIVE_ROW,
            cause,
            started_at=started_at,
            lost_at=lost if cause is Cause.NODE_LOST else None,
            reason=said,
        )
    if pod.phase == "Running" and (main is None or not main.waiting):
        lost = it.node.lost_at if it.node else None
        said = f"node {pod.node} isn't ready" if lost or it.node_gone else ""
        return PodReading(ObjectState.RUNNING, LIVE_ROW, started_at=started_at, reason=said)
    if pod.phase == "Running" and main is not None and main.waiting == "CrashLoopBackOff":
        _, verdict = read_end(it)
        cause, said = verdict or (Cause.APP_ERROR, main.waiting)
        code = None if main.last_ended is None else main.last_ended.exit_code
        return PodReading(
            ObjectState.RUNNING, LIVE_ROW, cause, code, reason=_said(main.waiting, said)
        )
    cause_of_wait, said = _wait(it)
    return PodReading(ObjectState.PENDING, LIVE_ROW, cause_of_wait, reason=said)


def _wait(it: Situation) -> tuple[Cause | None, str]:
    scheduled = it.pod.conditions.get("PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        if scheduled.reason in ("Unschedulable", "SchedulingGated"):
            return Cause.NO_CAPACITY, _said(scheduled.reason, steady(scheduled.message))
        return None, _said(scheduled.reason, steady(scheduled.message))
    for container in (*it.pod.init, *it.pod.containers):
        if container.waiting in _WAITING:
            return _WAITING[container.waiting], _waiting_words(container)
    for event in sorted(it.events, key=lambda e: e.reason):
        if event.warning and event.reason in POD_EVENTS and event.reason != "FailedScheduling":
            return POD_EVENTS[event.reason], _said(event.reason, event.message)
    waiting = next((c.waiting for c in it.pod.containers if c.waiting), "")
    return None, waiting


def _waiting_words(container: Container) -> str:
    said = _BACK_OFF.sub("", container.waiting_message)
    family = "ErrImagePull" if container.waiting == "ImagePullBackOff" else container.waiting
    return _said(family, said)
