"""Evidence → state and cause, for one TrainJob with its JobSet, Jobs and pods.

It is read by the same table as a Job's: an end needs the JobSet's word *and* its pods' evidence,
held needs every pod gone. What differs is whose word it is, and that others start it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dispatch.record.names import Cause, ObjectState
from dispatch.schedulers.eks.marks import OUR_SUSPENSION
from dispatch.schedulers.eks.objects import Condition, Job, Pod
from dispatch.schedulers.eks.ranks import (
    Ranks,
    Reading,
    decides,
    end_of,
    going_of,
    newest_ranks,
    nodes_of,
    started_of,
)
from dispatch.schedulers.eks.runs import Runs, Train, run_of, runs_of
from dispatch.schedulers.eks.states import LOST_ROW, PodReading
from dispatch.schedulers.eks.train_objects import JobSet, TrainJob
from dispatch.schedulers.eks.verdict import (
    UNPROVEN,
    Evidence,
    holder_of,
    kept_of,
    orphaned,
    pod_reading,
    stopped_at,
    without_pods,
    words_of,
)
from dispatch.schedulers.eks.words import REASON_CHARS, read_message

ENDED = "ended"
"""For what Dispatch suspends a TrainJob whose end is recorded, so that nothing runs it again."""
NOT_MADE = "TrainJobResourcesCreationFailed"
"""What Trainer tells in an event when it can't make a JobSet."""


@dataclass(frozen=True, slots=True)
class _Case:
    """One TrainJob, with its pods told apart."""

    evidence: Evidence
    train: Train
    runs: Runs
    readings: Mapping[str, PodReading]
    ranks: Ranks
    live: Sequence[Pod]

    @property
    def blind(self) -> bool:
        """Whether nobody asked for the pods."""
        return self.evidence.pods is None

    def of(self, pods: Sequence[Pod]) -> Ranks:
        """Return pods with what they show."""
        return [(p, self.readings[p.meta.uid]) for p in pods]


def read_train(evidence: Evidence, train: Train) -> Reading:
    """Return what a TrainJob, what was made of it, and its pods show."""
    pods = evidence.pods or ()
    runs = runs_of(train, pods)
    readings = {p.meta.uid: pod_reading(evidence, p) for p in pods}
    ranks = [(p, readings[p.meta.uid]) for p in newest_ranks(runs.present)]
    live = [p for p in pods if not p.over]
    case = _Case(evidence, train, runs, readings, ranks, live)
    trainjob = train.trainjob
    found = _without_trainjob(case) if trainjob is None else _read(case, trainjob)
    if found.source == "kept":
        return found
    blind = case.blind and found.state is not ObjectState.FAILED
    told = said_of(evidence, train, runs)
    if runs.restarts and told and found.state not in (ObjectState.SUCCEEDED, ObjectState.FAILED):
        told = f"{found.reason}; the run before ended: {told}".lstrip("; ")
        found = replace(found, reason=told[:REASON_CHARS])
    return replace(found, restarts=runs.restarts, proven=found.proven and not blind)


def _read(case: _Case, trainjob: TrainJob) -> Reading:
    train, jobset = case.train, case.train.jobset
    kept = None if case.live else _kept(case, trainjob)
    if kept is not None:
        return kept
    if train.finished:
        return _finished(case, trainjob)
    if trainjob.meta.deleted is not None:
        return _deleting(case, trainjob)
    if trainjob.suspended:
        return _suspended(case, trainjob)
    if trainjob.finished is not None and trainjob.finished.reason == "DeadlineExceeded":
        # Trainer asks once for its JobSet's deletion, and a refusal is lost: it may go on.
        going = going_of(case.of(case.live))
        said = f"{words_of(trainjob.finished)}; its JobSet is still there"
        return replace(going, state=ObjectState.ENDING, cause=Cause.TIMEOUT, reason=said)
    return _running(case, jobset)


def _kept(case: _Case, trainjob: TrainJob) -> Reading | None:
    """Return the end that the record has; what is made anew stays suspended after it."""
    gated = trainjob.suspended and trainjob.meta.annotations.get(OUR_SUSPENSION) == ENDED
    over = case.train.finished or trainjob.meta.deleted is not None
    if not over and not gated:
        return None
    for restarts in range(case.runs.restarts, -1, -1):
        found = kept_of(trainjob.meta, restarts)
        if found is not None:
            return found if gated or restarts == case.runs.restarts else None
    return None


# --- ends ---


def _finished(case: _Case, trainjob: TrainJob) -> Reading:
    jobset = case.train.jobset
    condition = (jobset.finished if jobset is not None else None) or trainjob.finished
    assert condition is not None
    if case.live:
        going = going_of(case.of(case.live))
        return replace(going, state=ObjectState.ENDING, reason=words_of(condition))
    if condition.kind == "Failed":
        own = trainjob.finished
        return _failed(case, own if own is not None and own.kind == "Failed" else condition)
    return _complete(case, jobset, condition)


def _complete(case: _Case, jobset: JobSet | None, condition: Condition) -> Reading:
    counting = [r for r in case.ranks if _counts(r, jobset, condition)]
    expected = None if jobset is None else jobset.counted
    succeeded = [r for r in counting if r[1].state is ObjectState.SUCCEEDED]
    decided = decides(counting)
    if jobset is not None and jobset.any_suffices and succeeded:
        decided, expected = None, None
    if decided is not None:
        return end_of(counting, decided)
    done = Reading(
        ObjectState.SUCCEEDED,
        exit_code=0 if succeeded else None,
        nodes=nodes_of(counting),
        started_at=started_of(counting),
        ended_at=condition.since,
        reason=words_of(condition),
    )
    if case.blind:
        return replace(done, proven=False, source="trainjob", reason=UNPROVEN)
    missing = 1 - len(succeeded) if expected is None else expected - len(succeeded)
    if missing <= 0:
        return done
    said = f"{condition.kind}, but {missing} of its pods left no evidence: {UNPROVEN}"
    return replace(
        done,
        state=ObjectState.FAILED,
        cause=Cause.LOST,
        exit_code=None,
        reason=said,
        proven=False,
        source="trainjob",
    )


def _counts(rank: tuple[Pod, PodReading], jobset: JobSet | None, condition: Condition) -> bool:
    """Return whether a rank's end is part of the success.

    A JobSet that has succeeded deletes the Jobs that its success didn't wait for.
    """
    pod, reading = rank
    if jobset is not None:
        return jobset.counts(pod.rank[0])
    asked, done = pod.meta.deletion_asked_at, condition.since
    ended_after = asked is not None and done is not None and asked >= done
    return not (ended_after and reading.cause is Cause.STOPPED_OUTSIDE)


def _failed(case: _Case, condition: Condition) -> Reading:
    bare = Reading(
        ObjectState.FAILED,
        nodes=nodes_of(case.ranks),
        started_at=started_of(case.ranks),
        ended_at=condition.since,
        reason=words_of(condition),
        source="trainjob",
    )
    match condition.reason:
        case "DeadlineExceeded":
            return replace(bare, cause=Cause.TIMEOUT)
        case "TrainingRuntimeNotSupported":
            return replace(bare, cause=Cause.INVALID_SPEC)
        case _:
            pass
    decided, jobset = decides(case.ranks), case.train.jobset
    if decided is not None and decided[1].row < LOST_ROW:
        return end_of(case.ranks, decided)
    for job in case.train.children:
        failed = job.condition("Failed")
        if failed is None:
            continue
        if failed.reason == "DeadlineExceeded":
            return replace(bare, cause=Cause.TIMEOUT, reason=words_of(failed), source="job")
        cause, code = read_message(failed.message)
        if cause is not Cause.LOST:
            told = words_of(failed)
            return replace(bare, cause=cause, exit_code=code, reason=told, source="job")
    # A pod that nobody kept may have been on a node that was lost, and its process live on.
    missing = not case.blind and len(case.ranks) < (1 if jobset is None else jobset.total)
    lost_at = condition.since if missing else None
    return replace(bare, cause=Cause.LOST, lost_at=lost_at, proven=False)


def _deleting(case: _Case, trainjob: TrainJob) -> Reading:
    """Read a TrainJob that somebody deletes in the foreground: Trainer may work against it."""
    by = Cause.STOPPED if stopped_at(trainjob.meta) else Cause.STOPPED_OUTSIDE
    jobset = case.train.jobset
    again = jobset is not None and not jobset.suspended
    if case.live or again:
        going = going_of(case.of(case.live))
        cause = going.cause if going.state is ObjectState.ENDING and going.cause else by
        said = "being deleted" + ("" if case.live else ", and Trainer has made its JobSet anew")
        return replace(going, state=ObjectState.ENDING, cause=cause, reason=said)
    return _ended_by(case, by, trainjob)


def _ended_by(case: _Case, by: Cause, trainjob: TrainJob) -> Reading:
    ranks = case.ranks or case.of(newest_ranks(case.runs.before))
    decided = decides(ranks)
    if decided is not None:
        return end_of(ranks, decided)
    if case.blind:
        return Reading(ObjectState.ENDING, by, reason="being deleted", proven=False)
    return Reading(
        ObjectState.FAILED,
        by,
        ended_at=trainjob.meta.deleted or stopped_at(trainjob.meta),
        reason="deleted" if ranks else "deleted before anything ran",
        source="trainjob",
    )


def _without_trainjob(case: _Case) -> Reading:
    if not case.evidence.pods:
        return Reading(ObjectState.ENDING, reason="its TrainJob is gone", source="jobset")
    found = orphaned(replace(case.evidence, pods=case.live or case.runs.present, train=case.train))
    if found.state is ObjectState.SUCCEEDED and not found.proven:
        # How many ranks there should be is told by nothing that is left.
        said = f"its TrainJob is gone, and its pods alone prove no success; {found.reason}"
        lost = replace(found, state=ObjectState.FAILED, cause=Cause.LOST, exit_code=None)
        return replace(lost, reason=said[:REASON_CHARS])
    return found


# --- held ---


def _suspended(case: _Case, trainjob: TrainJob) -> Reading:
    jobset, active = case.train.jobset, [job for job in case.train.children if not _still(job)]
    following = jobset is not None and not jobset.suspended
    if case.live or active or following:
        going = going_of(case.of(case.live))
        if stopped_at(trainjob.meta) is not None:
            return replace(
                going, state=ObjectState.ENDING, cause=Cause.STOPPED, reason="being stopped"
            )
        evicted = case.evidence.workload.condition("Evicted") if case.evidence.workload else None
        cause = Cause.PREEMPTED if evicted is not None else None
        said = "being suspended" if evicted is None else words_of(evicted)
        return replace(going, state=ObjectState.ENDING, cause=cause, reason=said)
    if stopped_at(trainjob.meta) is not None:
        return _ended_by(case, Cause.STOPPED, trainjob)
    holder, cause, said = holder_of(case.evidence, trainjob.meta)
    before = decides(case.of([p for p in case.evidence.pods or () if p.over]))
    if before is not None and not case.runs.restarts:
        said = f"{said}; the run before ended: {before[1].reason}"
    lost = [r.lost_at for r in case.readings.values() if r.lost_at is not None]
    return Reading(
        ObjectState.PENDING,
        cause,
        held=True,
        holder=holder,
        lost_at=max(lost, default=None),
        reason=said[:REASON_CHARS],
    )


def _still(job: Job) -> bool:
    """Return whether a Job of a suspended JobSet has no pod, and won't have one."""
    quiet = not job.active and not job.terminating
    return quiet and (job.suspended or job.finished is not None or job.meta.deleted is not None)


# --- running ---


def _running(case: _Case, jobset: JobSet | None) -> Reading:
    if jobset is None:
        return _without_jobset(case)
    if case.blind:
        return _by_conditions(jobset)
    here = [r for r in case.ranks if not r[0].over]
    decided = decides(case.ranks)
    final = decided is not None and not _replaced(case, decided[0])
    if not here:
        if decided is not None and final:
            return replace(end_of(case.ranks, decided), state=ObjectState.ENDING)
        done = [r for r in case.ranks if r[1].state is ObjectState.SUCCEEDED]
        if done and len(done) >= jobset.total:
            bare = Reading(ObjectState.ENDING, nodes=nodes_of(case.ranks))
            return replace(bare, started_at=started_of(case.ranks))
        makers = [job.meta.uid for job in case.train.children if job.meta.deleted is None]
        waits = without_pods(case.evidence, makers, case.live)
        lost = [r.lost_at for _, r in case.of(case.live) if r.lost_at is not None]
        return replace(waits, lost_at=max(lost, default=None))
    going = going_of(case.ranks)
    if decided is not None and final:
        return replace(end_of(case.ranks, decided), state=ObjectState.ENDING)
    if any(r.state is ObjectState.ENDING for _, r in here):
        return replace(going, state=ObjectState.ENDING)
    return going


def _replaced(case: _Case, pod: Pod) -> bool:
    """Return whether the Job of a pod makes another one in its place."""
    return any(job.replaces and job.meta.uid == pod.owner_uid for job in case.train.children)


def _without_jobset(case: _Case) -> Reading:
    if case.live:
        going = going_of(case.of(case.live))
        cause = going.cause if going.state is ObjectState.ENDING else Cause.STOPPED_OUTSIDE
        said = "its JobSet is gone, or going; Trainer makes another one"
        return replace(going, state=ObjectState.ENDING, cause=cause, reason=said)
    told = [e for e in case.evidence.events if e.reason == NOT_MADE]
    if told and not case.train.jobsets:
        said = f"{NOT_MADE}: {told[-1].message}"[:REASON_CHARS]
        return Reading(ObjectState.PENDING, Cause.INVALID_SPEC, reason=said, source="events")
    going_too = "its JobSet is being deleted" if case.train.jobsets else "no JobSet yet"
    return Reading(ObjectState.PENDING, reason=going_too, source="trainjob")


def _by_conditions(jobset: JobSet) -> Reading:
    restarting = jobset.condition("Restarting")
    said = "" if restarting is None else words_of(restarting)
    return Reading(ObjectState.PENDING, reason=said or "no end is written", proven=False)


# --- earlier runs ---


def said_of(evidence: Evidence, train: Train, runs: Runs) -> str:
    """Return how the run before this one ended, rank by rank; empty where nothing tells."""
    before: dict[tuple[str, int], list[Pod]] = {}
    for pod in runs.before:
        if pod.over:
            before.setdefault(run_of(pod), []).append(pod)
    if not before:
        told = [one.said for one in runs.earlier if one.said]
        return told[-1] if told else ""
    newest = max(before.values(), key=lambda pods: max(map(_born, pods)))
    return told_ranks(evidence, newest)


def _born(pod: Pod) -> float:
    return pod.meta.created.timestamp() if pod.meta.created else 0.0


def told_ranks(evidence: Evidence, pods: Sequence[Pod]) -> str:
    """Return how the ranks of one run ended, those that failed by themselves before the others."""
    ended = [(p, pod_reading(evidence, p)) for p in newest_ranks(pods)]
    ended.sort(key=lambda r: (r[1].row, r[0].rank))
    told = [f"{rank_name(p)}: {r.reason}" for p, r in ended[:16]]
    return ", ".join(told)[: REASON_CHARS // 2]


def rank_name(pod: Pod) -> str:
    """Return a rank as people call it: `node-0-1`."""
    return "-".join(str(part) for part in pod.rank if part != "")
