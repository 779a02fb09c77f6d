"""Evidence → state and cause, for one Job with its pods: when it runs, is held, or has ended.

An end needs the Job's own condition *and* its pods' evidence: a pod that was deleted and exits 0
makes a Job Complete. Held needs more than the Suspended condition, which stands before the pods
are gone. What several pods show is decided by the row of the table that comes first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from dispatch.record.names import Cause, ObjectState
from dispatch.schedulers.eks.around import Event, Node, Workload
from dispatch.schedulers.eks.marks import (
    KEPT_END,
    OUR_SUSPENSION,
    RANKS,
    RESTARTS,
    STOPPED_AT,
    kept_end,
)
from dispatch.schedulers.eks.objects import (
    KUEUE_QUEUE,
    Condition,
    Job,
    Meta,
    Pod,
    Unreadable,
    counted,
    instant,
)
from dispatch.schedulers.eks.ranks import (
    Ranks,
    Reading,
    current_ranks,
    decides,
    end_of,
    going_of,
    newest_ranks,
    nodes_of,
    restarts_in,
    restarts_of,
    started_of,
)
from dispatch.schedulers.eks.runs import Train
from dispatch.schedulers.eks.states import LOST_ROW, PodReading, Situation, read
from dispatch.schedulers.eks.words import REASON_CHARS, read_message, read_refusal


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a look gathered about one object.

    Attributes:
        job: The Job; None where it is gone and its pods are still there.
        train: A TrainJob with what was made of it, where it is one.
        pods: Its pods; None where nobody asked for them.
        nodes: The Nodes that were read, by name; None for one that isn't there.
        events: What was said about the Job and its pods.
        workload: Kueue's view, where there is one.
        deletion_explains: Whether an exit by SIGTERM or SIGKILL of a deleted pod is put down to
            its deletion.
    """

    job: Job | None
    pods: Sequence[Pod] | None
    nodes: Mapping[str, Node | None] | None = None
    events: Sequence[Event] = ()
    workload: Workload | None = None
    deletion_explains: bool = True
    train: Train | None = None

    @property
    def top(self) -> Meta | None:
        """What the attempt's object says about itself, None where it is gone."""
        if self.train is not None:
            return None if self.train.trainjob is None else self.train.trainjob.meta
        return None if self.job is None else self.job.meta


def read_job_object(evidence: Evidence) -> Reading:
    """Return what a Job and its pods show."""
    job = evidence.job
    if job is None:
        return orphaned(evidence)
    restarts = restarts_of(job)
    ranks = current_ranks(job, evidence.pods or ())
    readings = {p.meta.uid: pod_reading(evidence, p) for p in evidence.pods or ()}
    current = [(p, readings[p.meta.uid]) for p in ranks]
    live = [p for p in evidence.pods or () if not p.over]
    over = job.finished is not None or job.meta.deleted is not None
    kept = None if live or not over else kept_of(job.meta, restarts)
    if kept is not None:
        return kept
    if job.finished is not None:
        found = _finished(evidence, job, job.finished, (current, live))
    elif job.meta.deleted is not None:
        found = _deleting(evidence, job, current, live)
    elif job.suspended:
        found = _suspended(evidence, job, live, readings)
    else:
        found = _running(evidence, job, current, live)
    # Without its pods a Job shows what its controller counted, and no more than that.
    blind = evidence.pods is None and found.state is not ObjectState.FAILED
    # A kept pod of an earlier run is all that tells that its process may live on, on a lost node.
    lost = max((r.lost_at for r in readings.values() if r.lost_at is not None), default=None)
    return replace(
        found,
        restarts=restarts,
        lost_at=found.lost_at or lost,
        proven=found.proven and not blind,
    )


def pod_reading(evidence: Evidence, pod: Pod) -> PodReading:
    """Return what one of its pods shows, with all that is known of the whole."""
    nodes, top = evidence.nodes, evidence.top
    known = nodes is not None and pod.node in nodes
    node = nodes[pod.node] if nodes is not None and known else None
    return read(
        Situation(
            pod=pod,
            node=node,
            node_gone=known and node is None,
            events=[e for e in evidence.events if e.uid == pod.meta.uid],
            told_to_go=evidence.deletion_explains and pod.meta.deleted is not None,
            stopped_at=stopped_at(pod.meta) or (stopped_at(top) if top else None),
        )
    )


def kept_of(meta: Meta, restarts: int) -> Reading | None:
    """Return the end that the record has already, whatever became of the pods since."""
    kept = kept_end(meta.annotations.get(KEPT_END))
    if kept is None or kept.restarts != restarts:
        return None
    return Reading(
        state=kept.state,
        cause=kept.cause,
        restarts=kept.restarts,
        exit_code=kept.exit_code,
        signal=kept.signal,
        nodes=kept.nodes,
        started_at=kept.started_at,
        ended_at=kept.ended_at,
        lost_at=kept.lost_at,
        reason=kept.reason,
        source="kept",
    )


def stopped_at(meta: Meta) -> datetime | None:
    """Return since when Dispatch itself ends this, None where it doesn't."""
    try:
        return instant(meta.annotations.get(STOPPED_AT), STOPPED_AT)
    except Unreadable:
        return None


def _finished(
    evidence: Evidence, job: Job, condition: Condition, pods: tuple[Ranks, Sequence[Pod]]
) -> Reading:
    ranks, live = pods
    if live:
        going = going_of([(p, pod_reading(evidence, p)) for p in live])
        return replace(going, state=ObjectState.ENDING, reason=words_of(condition))
    if condition.kind == "Complete":
        return _complete(evidence, job, ranks)
    return _failed(evidence, condition, ranks)


def _complete(evidence: Evidence, job: Job, ranks: Ranks) -> Reading:
    decided = decides(ranks)
    if decided is not None:
        return end_of(ranks, decided)
    done = Reading(
        state=ObjectState.SUCCEEDED,
        exit_code=0 if ranks else None,
        nodes=nodes_of(ranks),
        started_at=started_of(ranks) or job.started,
        ended_at=job.completed,
        reason="Complete",
    )
    missing = job.completions - len(ranks)
    if missing <= 0:
        return done
    if evidence.pods is None:
        return replace(done, proven=False, source="job", reason=UNPROVEN)
    return replace(
        done,
        state=ObjectState.FAILED,
        cause=Cause.LOST,
        exit_code=None,
        reason=f"Complete, but {missing} of {job.completions} pods left no evidence: " + UNPROVEN,
        proven=False,
        source="job",
    )


UNPROVEN = (
    "Kubernetes counts it as a success; a pod that is deleted or evicted and exits 0 counts "
    "as one too, so it takes the pods' own evidence"
)


def _failed(evidence: Evidence, condition: Condition, ranks: Ranks) -> Reading:
    ended_at, said = condition.since, words_of(condition)
    bare = Reading(
        state=ObjectState.FAILED,
        nodes=nodes_of(ranks),
        started_at=started_of(ranks),
        ended_at=ended_at,
        reason=said,
        source="job",
    )
    if condition.reason == "DeadlineExceeded":
        return replace(bare, cause=Cause.TIMEOUT)
    decided = decides(ranks)
    if decided is not None and decided[1].row < LOST_ROW:
        return end_of(ranks, decided)
    cause, code = read_message(condition.message)
    proven = evidence.pods is not None or cause is not Cause.LOST
    return replace(bare, cause=cause, exit_code=code, proven=proven)


def words_of(condition: Condition) -> str:
    """Return a condition as people read it."""
    return f"{condition.reason}: {condition.message}"[:REASON_CHARS]


def _deleting(evidence: Evidence, job: Job, ranks: Ranks, live: Sequence[Pod]) -> Reading:
    by = Cause.STOPPED if stopped_at(job.meta) else Cause.STOPPED_OUTSIDE
    alive = bool(live) if evidence.pods is not None else job.active + job.ready > 0
    if "orphan" in job.meta.finalizers and alive:
        return Reading(ObjectState.RUNNING, reason="deleted as Orphan: its pods live on")
    if alive:
        going = going_of([(p, pod_reading(evidence, p)) for p in live])
        cause = going.cause if going.state is ObjectState.ENDING and going.cause else by
        return replace(going, state=ObjectState.ENDING, cause=cause, reason="being deleted")
    decided = decides(ranks)
    if decided is not None:
        return end_of(ranks, decided)
    if evidence.pods is None:
        return Reading(ObjectState.ENDING, by, reason="being deleted", proven=False)
    return Reading(
        ObjectState.FAILED,
        by,
        ended_at=job.meta.deleted,
        reason="deleted" if ranks else "deleted before anything ran",
        source="job",
    )


def _suspended(
    evidence: Evidence, job: Job, live: Sequence[Pod], readings: Mapping[str, PodReading]
) -> Reading:
    untouched = job.meta.generation <= 1 and job.active == 0
    settled = untouched or job.condition("Suspended") is not None
    if live or job.active or job.terminating or not settled:
        going = going_of([(p, readings[p.meta.uid]) for p in live])
        return replace(going, state=ObjectState.ENDING, cause=None, reason="being suspended")
    holder, cause, said = holder_of(evidence, job.meta)
    before = decides([(p, readings[p.meta.uid]) for p in evidence.pods or () if p.over])
    if before is not None:
        said = f"{said}; the run before ended: {before[1].reason}"
    return Reading(
        ObjectState.PENDING,
        cause,
        held=True,
        holder=holder,
        reason=said[:REASON_CHARS],
    )


def holder_of(evidence: Evidence, meta: Meta) -> tuple[str | None, Cause | None, str]:
    """Return who holds what is suspended, None for Dispatch; a cause where it stays so."""
    if KUEUE_QUEUE in meta.labels:
        evicted = evidence.workload.condition("Evicted") if evidence.workload else None
        said = "suspended by Kueue until it is admitted"
        if evicted is None:
            return "kueue", None, said
        # What was deactivated isn't admitted again before a person activates it.
        for_good = evicted.reason.startswith(("Deactivated", "InactiveWorkload"))
        return "kueue", Cause.HELD_OUTSIDE if for_good else None, f"{said}; {evicted.reason}"
    ours = meta.annotations.get(OUR_SUSPENSION)
    if ours is not None or RESTARTS not in meta.annotations:
        return None, None, "suspended"
    return "outside", Cause.HELD_OUTSIDE, "suspended by somebody else"


def _running(evidence: Evidence, job: Job, ranks: Ranks, live: Sequence[Pod]) -> Reading:
    if evidence.pods is None:
        return _by_counts(evidence, job)
    here = [r for r in ranks if not r[0].over]
    decided = decides(ranks)
    target = job.condition("FailureTarget")
    if not here:
        failing = decided is not None and not job.replaces
        if failing or target or job.condition("SuccessCriteriaMet"):
            end = end_of(ranks, decided) if decided else Reading(ObjectState.ENDING)
            return replace(end, state=ObjectState.ENDING)
        done = [r for r in ranks if r[1].state is ObjectState.SUCCEEDED]
        if done and len(done) >= job.completions:
            return Reading(ObjectState.ENDING, nodes=nodes_of(ranks), started_at=started_of(ranks))
        return without_pods(evidence, [job.meta.uid], live)
    going = going_of(ranks)
    if decided is not None and not job.replaces:
        return replace(end_of(ranks, decided), state=ObjectState.ENDING)
    if any(r.state is ObjectState.ENDING for _, r in here) or target is not None:
        return replace(going, state=ObjectState.ENDING)
    return going


def without_pods(evidence: Evidence, makers: Collection[str], live: Sequence[Pod]) -> Reading:
    """Return why there is no pod yet; `makers` are the uids of what should make some."""
    if live:
        return Reading(ObjectState.PENDING, reason="waits for the pods of the run before to go")
    refused = sorted(
        (e for e in evidence.events if e.reason == "FailedCreate" and e.uid in makers),
        key=lambda e: e.at.timestamp() if e.at else 0.0,
    )
    if not refused:
        return Reading(ObjectState.PENDING, reason="no pod yet", source="job")
    cause, said = read_refusal(refused[-1].message)
    return Reading(ObjectState.PENDING, cause, reason=said, source="events")


def _by_counts(evidence: Evidence, job: Job) -> Reading:
    bare = Reading(ObjectState.PENDING, proven=False, source="job", reason="no pod is ready")
    target = job.condition("FailureTarget") or job.condition("SuccessCriteriaMet")
    if target is not None:
        return replace(bare, state=ObjectState.ENDING, reason=words_of(target))
    if job.ready:
        return replace(bare, state=ObjectState.RUNNING, started_at=job.started, reason="")
    return without_pods(evidence, [job.meta.uid], ()) if evidence.events else bare


def orphaned(evidence: Evidence) -> Reading:
    """Return what pods show whose Job is gone; alive, they run without it."""
    ranks = [(pod, pod_reading(evidence, pod)) for pod in newest_ranks(evidence.pods or ())]
    live = [(p, pod_reading(evidence, p)) for p in evidence.pods or () if not p.over]
    restarts = max((restarts_in(p.meta) for p, _ in ranks), default=0)
    if live:
        return replace(going_of(live), restarts=restarts)
    decided = decides(ranks)
    if decided is not None:
        return replace(end_of(ranks, decided), restarts=restarts)
    expected = max((counted(p.meta.annotations.get(RANKS, "")) for p, _ in ranks), default=0)
    whole = expected in (0, len(ranks))
    return Reading(
        ObjectState.SUCCEEDED if whole else ObjectState.FAILED,
        None if whole else Cause.LOST,
        restarts=restarts,
        exit_code=0 if whole else None,
        nodes=nodes_of(ranks),
        started_at=started_of(ranks),
        ended_at=max((r.ended_at for _, r in ranks if r.ended_at), default=None),
        reason=f"{len(ranks)} pods without their Job, all succeeded",
        proven=expected == len(ranks),
    )
