"""The ranks of one run, and what they show together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from dispatch.record.names import Cause, ObjectState
from dispatch.schedulers.eks.marks import RESTARTS
from dispatch.schedulers.eks.objects import Job, Meta, Pod, counted
from dispatch.schedulers.eks.states import LIVE_ROW, PodReading
from dispatch.schedulers.eks.words import REASON_CHARS


@dataclass(frozen=True, slots=True)
class Reading:
    """What one Job and its pods show together.

    Attributes:
        state: What the object is doing.
        cause: Why it ended, goes, or waits without an end.
        restarts: How often it was started again in place.
        held: Whether it is suspended and nothing of it runs.
        holder: Who holds it, where it isn't Dispatch.
        exit_code: Of the process that decided.
        signal: Of the process that decided.
        nodes: Where its ranks run or ran, in their order.
        started_at: When the first rank started.
        ended_at: When the one that decided ended.
        lost_at: When its node was lost.
        reason: Kubernetes' own words.
        proven: Whether every rank's own evidence stands behind the state.
        source: Which of Kubernetes' books it was read from.
    """

    state: ObjectState
    cause: Cause | None = None
    restarts: int = 0
    held: bool = False
    holder: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    nodes: tuple[str, ...] = ()
    started_at: datetime | None = None
    ended_at: datetime | None = None
    lost_at: datetime | None = None
    reason: str = ""
    proven: bool = True
    source: str = "pods"


def restarts_in(meta: Meta) -> int:
    """Return how often an object was started again in place, as it is counted on it."""
    return counted(meta.annotations.get(RESTARTS, ""))


def restarts_of(job: Job) -> int:
    """Return how often a Job was started again in place."""
    return restarts_in(job.meta)


def newest_ranks(pods: Sequence[Pod]) -> list[Pod]:
    """Return the newest pod of each rank, in the ranks' order."""
    newest = {pod.rank: pod for pod in sorted(pods, key=_age)}
    return [newest[rank] for rank in sorted(newest)]


def first_rank(pods: Sequence[Pod]) -> Pod | None:
    """Return the newest pod of the first rank, whose log is the job's: of MPI, the launcher's."""
    ranks = newest_ranks(pods)
    training = [p for p in ranks if not p.rank[0].endswith("-initializer")] or ranks
    return min(training, key=lambda p: (p.rank[0] not in ("", "launcher"), p.rank), default=None)


def current_ranks(job: Job, pods: Sequence[Pod]) -> list[Pod]:
    """Return the newest pod of each rank that belongs to the run that the Job is in now.

    Pods of earlier runs are kept by the evidence finalizer beside those of this one.
    """
    counted = job.meta.annotations.get(RESTARTS)

    def is_of_this_run(pod: Pod) -> bool:
        marked = pod.meta.annotations.get(RESTARTS)
        if counted is not None and marked is not None and marked != counted:
            return False
        asked = pod.meta.deletion_asked_at
        # Two clocks write these times, so the pod's age alone would be a guess.
        return not (
            job.started
            and asked
            and asked <= job.started
            and pod.meta.created
            and pod.meta.created < job.started
        )

    return newest_ranks([pod for pod in pods if is_of_this_run(pod)])


def _age(pod: Pod) -> tuple[float, bool, str]:
    created = pod.meta.created.timestamp() if pod.meta.created else 0.0
    return created, pod.meta.deleted is None, pod.meta.name


Ranks = Sequence[tuple[Pod, PodReading]]


def decides(ranks: Ranks) -> tuple[Pod, PodReading] | None:
    """Return the rank whose end is the object's: the first row, untold to go, then the earliest."""
    ended = [r for r in ranks if r[1].state is ObjectState.FAILED]
    return min(
        ended,
        key=lambda r: (
            r[1].row,
            r[0].meta.deleted is not None,
            r[1].ended_at.timestamp() if r[1].ended_at else 0.0,
            r[0].rank,
        ),
        default=None,
    )


def nodes_of(ranks: Ranks) -> tuple[str, ...]:
    """Return where the ranks run or ran, in their order."""
    return tuple(dict.fromkeys(p.node for p, _ in ranks if p.node))


def started_of(ranks: Ranks) -> datetime | None:
    """Return when the first rank started."""
    return min((r.started_at for _, r in ranks if r.started_at), default=None)


def end_of(ranks: Ranks, decided: tuple[Pod, PodReading]) -> Reading:
    """Return the end of the whole run, told by the rank that decided it."""
    pod, reading = decided
    return Reading(
        state=ObjectState.FAILED,
        cause=reading.cause,
        exit_code=reading.exit_code,
        signal=reading.signal,
        nodes=nodes_of(ranks),
        started_at=started_of(ranks),
        ended_at=reading.ended_at,
        lost_at=reading.lost_at,
        reason=f"pod {pod.meta.name}: {reading.reason}"[:REASON_CHARS],
    )


def going_of(ranks: Ranks) -> Reading:
    """Return what live ranks show: they run once all have started; one that goes names why."""
    here = [r for r in ranks if r[1].row == LIVE_ROW]
    ending = next((r for _, r in here if r.state is ObjectState.ENDING), None)
    waiting = [r for _, r in here if r.state is ObjectState.PENDING]
    bare = Reading(ObjectState.RUNNING, nodes=nodes_of(ranks), started_at=started_of(ranks))
    if ending is not None:
        state = ObjectState.ENDING
        return replace(
            bare, state=state, cause=ending.cause, lost_at=ending.lost_at, reason=ending.reason
        )
    if waiting:
        named = next((r for r in waiting if r.cause), waiting[0])
        return replace(
            bare,
            state=ObjectState.PENDING,
            cause=named.cause,
            started_at=None,
            reason=named.reason,
        )
    told = next((r for _, r in here if r.cause or r.reason), None)
    if told is None:
        return bare
    return replace(bare, cause=told.cause, exit_code=told.exit_code, reason=told.reason)
