"""The derived predicates of the protocol (§5), one small function for each rule.

Deadlines and negative evidence are judged by a Find's `taken_at`; windows that start at a sight
start at its `seen_at`. Skew is added once to each.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

from dispatch.core.job import Job
from dispatch.core.parts import (
    Attempt,
    AttemptState,
    Call,
    CallKind,
    CallState,
    Run,
    SchedulerObject,
)
from dispatch.record.evidence import Discovery
from dispatch.record.header import Declarations
from dispatch.record.names import Capability, ObjectState


def skewed(deadline: datetime, declared: Declarations) -> datetime:
    """Return the first time at which every clock is past a deadline."""
    return deadline + timedelta(seconds=declared.clock_skew_s)


def past_deadline(taken_at: datetime, deadline: datetime, declared: Declarations) -> bool:
    """Return whether a Find began late enough to be negative evidence about a call."""
    return taken_at >= skewed(deadline, declared)


def may_land_vouched_for(attempt: Attempt, taken_at: datetime, declared: Declarations) -> bool:
    """Return whether a Find is too early to tell that what a person vouched for never landed.

    Whose word it is that it won't run can't know what a lost reply did; what landed is shown by
    a look begun after the deadline, and is stopped then.
    """
    abandoned = attempt.state is AttemptState.ABANDONED
    return abandoned and not past_deadline(taken_at, attempt.deadline, declared)


def vouched_for_may_land(job: Job, taken_at: datetime) -> bool:
    """Return whether a Find is too early to tell that nothing vouched for ever landed."""
    return any(
        may_land_vouched_for(one, taken_at, job.declarations) for one in job.attempts.values()
    )


def may_land_after(call: Call, taken_at: datetime, declared: Declarations) -> bool:
    """Return whether a call that runs an object again may land after a Find begun at `taken_at`."""
    return (
        call.state is not CallState.EXPIRED
        and acts_as_requeue(call, declared)
        and not past_deadline(taken_at, call.deadline, declared)
    )


def requeue_may_land(job: Job, taken_at: datetime) -> bool:
    """Return whether any call that runs an object again may land after a Find begun then.

    Until its deadline nothing tells: restarts that grew may be somebody else's doing, and ours
    is still on its way then (ADR 34).
    """
    return any(may_land_after(call, taken_at, job.declarations) for call in job.calls)


def call_deadline(job: Job, now: datetime) -> datetime:
    """Return the last moment at which a call recorded now can take effect."""
    return now + timedelta(seconds=job.declarations.call_bound_s)


def absence_counts(known: SchedulerObject, taken_at: datetime, declared: Declarations) -> bool:
    """Return whether a Find began after the object was recorded, so that its absence counts."""
    return taken_at > skewed(known.recorded_at, declared)


def windows_until(known: SchedulerObject, declared: Declarations) -> list[datetime]:
    """Return the ends of the windows in which something of an object may still execute."""
    window = timedelta(seconds=declared.node_loss_window_s)
    starts = (node_lost_from(known), hazard_from(known))
    return [skewed(start + window, declared) for start in starts if start is not None]


def node_lost_from(known: SchedulerObject) -> datetime | None:
    """Return when the node-loss window of an object's latest run starts, if it has one."""
    return known.run.lost_at


def hazard_from(known: SchedulerObject) -> datetime | None:
    """Return when the window of an earlier run that may still execute starts, if there is one."""
    return known.hazard_from


def earlier_run_until(job: Job, known: SchedulerObject) -> datetime | None:
    """Return until when an earlier run of an object may still execute; None where none may.

    What is suspended is seen held once none of its processes is left, but for one on a lost node.
    Where a scheduler starts an object again, nothing tells whether the run before it has ended.
    """
    declared = job.declarations
    past = job.past.get(known.ref, [])
    starts = [run.lost_at for run in (*past, known.run) if run.lost_at is not None]
    suspended = bool(past) and (
        past[-1].restarts == known.run.restarts and past[-1].state is not ObjectState.GONE
    )
    if known.hazard_from is not None and not suspended:
        starts.append(known.hazard_from)
    starts += _reruns(job, known)
    return _window_after(starts, declared)


def rerun_until(job: Job, known: SchedulerObject) -> datetime | None:
    """Return until when a run may execute that followed an undone end and that nobody saw.

    A crash of the scheduler undoes an end; what runs again then may lose its node and be started
    once more before anybody looks (ADR 42). None where that can't be.
    """
    return _window_after(_reruns(job, known), job.declarations)


def _reruns(job: Job, known: SchedulerObject) -> list[datetime]:
    """Return when runs were first seen with one restart more than one whose end may be undone.

    With more restarts than that, runs came between in any case (`merge.runs_between`).
    """
    if job.declarations.save_window_s == 0:
        return []
    runs = [*job.past.get(known.ref, ()), known.run]
    return [
        after.first_seen_at
        for before, after in pairwise(runs)
        if before.ended
        and after.restarts == before.restarts + 1
        and not closed_between(job, known, before, after)
    ]


def closed_between(job: Job, known: SchedulerObject, before: Run, after: Run) -> bool:
    """Return whether a submission was closed on a run's saved end, before the next run was seen."""
    if known.n >= len(job.submissions) or job.submissions[known.n - 1].canonical != known.ref:
        return False
    closed_at, seen = job.submissions[known.n].taken_at, before.ended_seen_at
    window = timedelta(seconds=job.declarations.save_window_s)
    return seen is not None and seen + window <= closed_at < after.first_seen_at


def _window_after(starts: list[datetime], declared: Declarations) -> datetime | None:
    if not starts:
        return None
    return skewed(max(starts) + timedelta(seconds=declared.node_loss_window_s), declared)


def stopped(known: SchedulerObject, now: datetime, declared: Declarations) -> bool:
    """Return whether an object has ended and all its windows are over."""
    return known.ended and all(now >= end for end in windows_until(known, declared))


def saved_from(known: SchedulerObject, declared: Declarations) -> datetime | None:
    """Return from when on a Find can prove an end to have been saved; None while there is none."""
    seen = known.run.ended_seen_at
    return None if seen is None else seen + timedelta(seconds=declared.save_window_s)


def saved(known: SchedulerObject, taken_at: datetime, declared: Declarations) -> bool:
    """Return whether the scheduler can't forget an object's end any more (save window)."""
    start = saved_from(known, declared)
    return start is not None and taken_at >= start


def stopped_and_saved(known: SchedulerObject, taken_at: datetime, declared: Declarations) -> bool:
    """Return whether an end counts for closing a submission, judged on a Find begun then."""
    return stopped(known, taken_at, declared) and saved_for_closing(known, taken_at, declared)


def saved_for_closing(known: SchedulerObject, taken_at: datetime, declared: Declarations) -> bool:
    """Return whether the save window is over, for closing a submission."""
    return saved(known, taken_at, declared)


def saved_for_starting(known: SchedulerObject, taken_at: datetime, declared: Declarations) -> bool:
    """Return whether the save window is over, for setting something else running (ADR 41)."""
    return saved(known, taken_at, declared)


def over_for_good(job: Job, known: SchedulerObject, taken_at: datetime) -> bool:
    """Return whether nothing of an object can execute beside what a Find begun then sets running.

    A person's word counts as much as windows and a saved end.
    """
    if known.abandoned:
        return True
    if not stopped(known, taken_at, job.declarations):
        return False
    return saved_for_starting(known, taken_at, job.declarations) and not rerun_may_execute(
        job, known, taken_at
    )


def rerun_may_execute(job: Job, known: SchedulerObject, taken_at: datetime) -> bool:
    """Return whether a Find is too early to tell that no unseen rerun of an object executes."""
    until = rerun_until(job, known)
    return until is not None and taken_at < until


def saved_for_settling(known: SchedulerObject, taken_at: datetime, declared: Declarations) -> bool:
    """Return whether the save window is over, for settling."""
    return saved(known, taken_at, declared)


def opened_for_good(known: SchedulerObject, taken_at: datetime, declared: Declarations) -> bool:
    """Return whether no crash of the scheduler can undo any more that an object was opened.

    Until then a hold that it is in again may be the gate that we opened (save window).
    """
    if known.run.held or known.opened_at is None:
        return False
    window = declared.save_window_s
    return window == 0 or taken_at >= known.opened_at + timedelta(seconds=window)


def hold_may_land(job: Job, ref: str) -> bool:
    """Return whether a hold call on an object is open."""
    return any(call.kind is CallKind.HOLD and call.ref == ref for call in open_calls(job))


def undisposed_foreign(job: Job) -> list[SchedulerObject]:
    """Return the foreign objects that aren't ended, gone or abandoned (protocol §5)."""
    strangers = (job.objects[ref] for ref in job.strangers)
    return [one for one in strangers if not one.ended and not one.abandoned]


def holding_restarts(declared: Declarations) -> bool:
    """Return whether holding a running object restarts it on this cluster."""
    return declared.can(Capability.HOLD_RUNNING)


def acts_as_requeue(call: Call, declared: Declarations) -> bool:
    """Return whether an open call may raise an ended object."""
    return call.kind is CallKind.REQUEUE or holding_restarts(declared)


def open_calls(job: Job) -> list[Call]:
    """Return the calls that may still land."""
    return [call for call in job.calls if call.state is CallState.OPEN]


def open_requeue_calls(job: Job) -> list[Call]:
    """Return the open calls that may start something again."""
    return [call for call in open_calls(job) if acts_as_requeue(call, job.declarations)]


def attempt_closed(attempt: Attempt) -> bool:
    """Return whether an attempt is refused, unmatched or abandoned."""
    return attempt.state in (
        AttemptState.REFUSED,
        AttemptState.UNMATCHED,
        AttemptState.ABANDONED,
    )


def submission_closed(job: Job, n: int, taken_at: datetime) -> bool:
    """Return whether nothing of submission `n` can start or run any more, as of a Find."""
    return submission_open_because(job, n, taken_at) is None


def submission_open_because(job: Job, n: int, taken_at: datetime) -> str | None:
    """Return why submission `n` isn't closed, or None if it is (protocol §5)."""
    submission = job.submissions[n - 1]
    declared = job.declarations
    if submission.canonical is not None:
        known = job.objects[submission.canonical]
        if canonical_released_from_closing(known) or stopped_and_saved(known, taken_at, declared):
            return None
        return f"its canonical object {known.ref} isn't verified stopped"
    for attempt in job.attempts_of(n):
        if attempt_closed(attempt):
            continue
        if attempt.state is AttemptState.UNKNOWN:
            return f"attempt {n}.{attempt.a} may still land"
        for known in job.objects_of(n):
            if known.a != attempt.a or known.abandoned:
                continue
            if not stopped_and_saved(known, taken_at, declared):
                return f"object {known.ref} isn't verified stopped"
    return None


def canonical_released_from_closing(known: SchedulerObject) -> bool:
    """Return whether a person vouched for a canonical object, so that it blocks nothing."""
    return known.abandoned


def run_trigger(known: SchedulerObject) -> str:
    """Return the one reason that the end of an object's latest run is; counts runs as seen."""
    return f"rec:{known.n}.{known.run.r}"


def never_executed(known: SchedulerObject) -> bool:
    """Return whether a gated object can't have run: never released, never seen to run."""
    return (
        known.released_at is None
        and not known.run.executed
        and known.run.restarts == 0
        and known.run.r == 1
    )


def sees_everything(discovery: Discovery) -> bool:
    """Return whether a look shows all that may execute, so that something may be set running.

    What an incomplete look misses, or one that isn't believed, isn't recorded (ADR 39).
    """
    return discovery.complete


def others_may_execute(job: Job, canonical: SchedulerObject, taken_at: datetime) -> bool:
    """Return whether any other object of the job isn't over for good."""
    return any(
        not over_for_good(job, other, taken_at)
        for other in job.objects.values()
        if other.ref != canonical.ref and not other.foreign
    )
