"""Next: the steps that should happen next, in the order of protocol §6.

One function for each row. Rows are tried in order; the first that must be committed ends the
list, since what follows it has to be decided on the record as it then stands. Repeatable calls
don't end it. Only negative evidence is taken from the live Find: everything else is read from
the record, into which row 1 has put it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from dispatch.core import news, rules
from dispatch.core.job import Job
from dispatch.core.parts import AttemptState, SchedulerObject
from dispatch.core.recover import authorize_next, recover
from dispatch.core.settled import open_because
from dispatch.core.starting import authorize_first, start
from dispatch.core.steps import (
    Alert,
    Append,
    Hold,
    Next,
    Release,
    Requeue,
    Start,
    Step,
    Stop,
)
from dispatch.core.stopping import in_place, stop_because, stop_due_since
from dispatch.core.waiting import waits
from dispatch.record import fact as facts
from dispatch.record.evidence import Discovery
from dispatch.record.names import (
    ENDED_STATES,
    Capability,
    Desired,
    ObjectState,
    Outcome,
    UnmatchedPolicy,
)

STOP_FAILING_S = 600
"""Seconds for which an object may ignore Stops before a person is told."""

MAX_DETAIL = 1_000
"""Characters of an adapter's words that are kept in an escalation."""

_LAST = (Append, Start, Hold, Requeue)
"""After one of these the record has to be folded again."""

Row = Callable[[Job, Discovery, datetime, str], list[Step]]


def next_steps(job: Job, discovery: Discovery, now: datetime, *, by: str = "supervisor") -> Next:
    """Return the steps that should happen next (seed, "Fold, Project and Next").

    Args:
        job: The folded record.
        discovery: What a look at the cluster says about this job.
        now: The pass's one time, UTC.
        by: Who would write the facts.
    """
    steps = steps_due(job, discovery, now, by=by)
    return Next(steps, tuple(waits(job, discovery, now)))


def steps_due(
    job: Job, discovery: Discovery, now: datetime, *, by: str = "supervisor"
) -> tuple[Step, ...]:
    """Return the steps of `next_steps` alone, without what the job waits for."""
    if job.settled_at is not None:
        return tuple(_after_settled(job, discovery))
    steps: list[Step] = []
    for row in _ROWS if job.ending is None else _ROWS_WITH_OUTCOME:
        found = row(job, discovery, now, by)
        if found:
            steps += found
            if any(isinstance(one, _LAST) for one in found):
                break
    return tuple(steps)


# --- row 0 ----------------------------------------------------------------------------------


def _after_settled(job: Job, discovery: Discovery) -> list[Step]:
    """Stop what others raise of ours after the job is settled, and say so (row 0)."""
    steps: list[Step] = []
    if not discovery.complete:
        return steps
    for sighting in discovery.sightings:
        known = job.objects.get(sighting.ref)
        ours = (
            (sighting.n, sighting.a) in job.attempts
            and sighting.spec_digest == job.header.spec_digest
            and sighting.generation == job.header.lineage.generation
        )
        if known is not None:
            ours = not known.foreign and not known.abandoned
        if ours and sighting.state not in ENDED_STATES:
            why = f"{sighting.ref} is {sighting.state} although the job is settled"
            stop = Stop("0", why, sighting.ref, sighting.n, sighting.a)
            steps += [stop, Alert("0", why, sighting.ref)]
    return steps


# --- rows 1 to 3 ----------------------------------------------------------------------------


def _record(job: Job, discovery: Discovery, now: datetime, by: str) -> list[Step]:
    return news.record(job, discovery, now, by)


def _lookup(job: Job, discovery: Discovery, now: datetime, by: str) -> list[Step]:
    return news.lookup(job, discovery, now, by)


def _close_attempts(job: Job, discovery: Discovery, now: datetime, by: str) -> list[Step]:
    """Row 2: an attempt that no complete Find begun after its deadline shows."""
    if not discovery.complete:
        return []
    steps: list[Step] = []
    asks = job.declarations.can(Capability.LOOKUP)
    for one in job.attempts.values():
        name = f"{one.n}.{one.a}"
        over = rules.past_deadline(discovery.taken_at, one.deadline, job.declarations)
        asked = not asks or name in discovery.looked_up
        if one.state is not AttemptState.UNKNOWN or not over or not asked:
            continue
        added: list[facts.Fact] = [
            facts.Unmatched(at=now, by=by, n=one.n, a=one.a, taken_at=discovery.taken_at)
        ]
        key = f"unmatched/{name}"
        if job.header.unmatched is UnmatchedPolicy.MANUAL and key not in job.escalations:
            detail = f"attempt {name} was never seen; resubmit, abandon it, or cancel"
            added.append(facts.Escalated(at=now, by=by, key=key, code="unmatched", detail=detail))
        steps.append(Append("2", f"attempt {name} can't land any more", tuple(added)))
    return steps


def _escalate_foreign(job: Job, discovery: Discovery, now: datetime, by: str) -> list[Step]:
    """Row 3: tell a person once of each object that carries our tag but isn't ours."""
    return [
        _escalate(
            f"foreign/{known.ref}",
            "foreign_object",
            f"{known.ref} carries this job's tag but isn't this record's",
            (now, by, "3"),
        )
        for known in job.objects.values()
        if known.foreign and f"foreign/{known.ref}" not in job.escalations
    ]


def _escalate_doubts(job: Job, discovery: Discovery, now: datetime, by: str) -> list[Step]:
    """Row 3: tell a person once of each thing that keeps a look from concluding anything."""
    told = [
        facts.Escalated(at=now, by=by, key=key, code=one.code, detail=one.detail[:MAX_DETAIL])
        for one in discovery.doubts
        if (key := f"doubt/{one.key}") not in job.escalations
    ]
    if not told:
        return []
    unique = {one.key: one for one in told}
    return [Append("3", "nothing is concluded from what can't be read", tuple(unique.values()))]


def _escalate(key: str, code: str, detail: str, said: tuple[datetime, str, str]) -> Append:
    now, by, row = said
    fact = facts.Escalated(at=now, by=by, key=key, code=code, detail=detail)
    return Append(row, detail, (fact,))


# --- rows 4 to 7 ----------------------------------------------------------------------------

_PREFERENCE = {
    ObjectState.RUNNING: 0,
    ObjectState.ENDING: 0,
    ObjectState.PENDING: 1,
    ObjectState.SUCCEEDED: 2,
    ObjectState.FAILED: 2,
    ObjectState.GONE: 2,
}


def _choose_canonical(job: Job, discovery: Discovery, now: datetime, by: str) -> list[Step]:
    """Row 4: which object is the run of the latest submission."""
    latest = job.latest
    if latest is None or latest.canonical is not None:
        return []
    eligible = [
        known
        for known in job.objects_of(latest.n)
        if known.retired is None and job.attempts[known.n, known.a].state is AttemptState.STARTED
    ]
    if not eligible:
        return []
    best = min(eligible, key=lambda one: (_PREFERENCE[one.run.state], one.a, one.ref))
    fact = facts.Canonical(at=now, by=by, n=latest.n, ref=best.ref)
    return [Append("4", f"{best.ref} is the run of submission {latest.n}", (fact,))]


def _retire(job: Job, discovery: Discovery, now: datetime, by: str) -> list[Step]:
    """Row 5: every other object, and any of an attempt that was closed without it."""
    added: list[facts.Fact] = []
    for known in job.objects.values():
        if known.foreign or known.retired is not None or job.is_canonical(known):
            continue
        attempt = job.attempts[known.n, known.a]
        if rules.attempt_closed(attempt):
            reason = f"attempt {known.n}.{known.a} was {attempt.state} when it showed"
        elif job.submissions[known.n - 1].canonical is not None:
            reason = "another object is the run of its submission"
        else:
            continue
        added.append(facts.Retired(at=now, by=by, ref=known.ref, reason=reason))
    return [Append("5", "objects that must not run", tuple(added))] if added else []


def _stop(job: Job, discovery: Discovery, now: datetime, by: str) -> list[Step]:
    """Row 6: whatever should not be running; and a person is told of what won't stop."""
    steps: list[Step] = []
    overdue: list[Step] = []
    for known in job.objects.values():
        why = stop_because(job, known)
        if why is None:
            continue
        steps.append(Stop("6", why, known.ref, known.n, known.a))
        since = stop_due_since(job, known)
        key = f"stop_failing/{known.ref}"
        if since is None or key in job.escalations:
            continue
        if now >= since + timedelta(seconds=STOP_FAILING_S):
            detail = f"{known.ref} is still {known.run.state} although it is being stopped"
            overdue.append(_escalate(key, "stop_failing", detail, (now, by, "6")))
    return steps + overdue[:1]


def _settle(job: Job, discovery: Discovery, now: datetime, by: str) -> list[Step]:
    """Row 7: nothing is left running, on this complete Find."""
    if job.ending is None or not discovery.complete:
        return []
    if open_because(job, discovery.taken_at, now):
        return []
    fact = facts.Settled(at=now, by=by, taken_at=discovery.taken_at)
    return [Append("7", "nothing of this job is left anywhere", (fact,))]


# --- rows 9 to 12b --------------------------------------------------------------------------


def _calls_allowed(job: Job) -> bool:
    return not rules.open_calls(job) and not rules.undisposed_foreign(job)


def _live_canonical(job: Job) -> SchedulerObject | None:
    """Return the canonical object if it lives and nothing wants it stopped."""
    canonical = job.canonical
    if canonical is None or canonical.ended or canonical.abandoned:
        return None
    return None if stop_because(job, canonical) is not None else canonical


def _hold(job: Job, discovery: Discovery, now: datetime, by: str) -> list[Step]:
    """Row 9: hold what is wanted held, where the cluster can in this state."""
    canonical = _live_canonical(job)
    if canonical is None or not job.held or canonical.run.held or not _calls_allowed(job):
        return []
    pending = canonical.run.state is ObjectState.PENDING
    needed = Capability.HOLD_PENDING if pending else Capability.HOLD_RUNNING
    if not job.declarations.can(needed):
        return []
    fact = facts.HoldCall(
        at=now,
        by=by,
        ref=canonical.ref,
        run=canonical.run.r,
        restarts=canonical.run.restarts,
        deadline=rules.call_deadline(job, now),
    )
    return [Hold("9", "the job is to be held", fact)]


def _requeue(job: Job, discovery: Discovery, now: datetime, by: str) -> list[Step]:
    """Row 10: run the same object again, where the plan asks for it and the cluster can."""
    canonical = _live_canonical(job)
    if canonical is None or job.requeue is None or job.held or not _calls_allowed(job):
        return []
    if not rules.sees_everything(discovery):
        return []
    if canonical.run.held or not in_place(job, canonical):
        return []
    if rules.others_may_execute(job, canonical, discovery.taken_at):
        return []
    if earlier_run_may_execute(job, canonical, discovery.taken_at):
        return []
    fact = facts.RequeueCall(
        at=now,
        by=by,
        ref=canonical.ref,
        run=canonical.run.r,
        restarts=canonical.run.restarts,
        deadline=rules.call_deadline(job, now),
        trigger=job.requeue.trigger,
    )
    return [Requeue("10", "a person asked to run it again, in place", fact)]


def _release(job: Job, discovery: Discovery, now: datetime, by: str) -> list[Step]:
    """Row 11: open the gate, or lift our own hold, once nothing else may execute."""
    if not rules.sees_everything(discovery):
        return []
    canonical = _live_canonical(job)
    if canonical is None or job.desired is not Desired.RUN or job.held:
        return []
    if job.requeue is not None or job.resubmit is not None or rules.open_calls(job):
        return []
    if not held_by_us(canonical) or rules.others_may_execute(job, canonical, discovery.taken_at):
        return []
    if earlier_run_may_execute(job, canonical, discovery.taken_at):
        return []
    fact = None
    if canonical.released_at is None:
        fact = facts.Released(at=now, by=by, ref=canonical.ref)
    return [Release("11", "nothing else of this job may execute", canonical.ref, fact)]


def held_by_us(known: SchedulerObject) -> bool:
    """Return whether the hold an object is in is the gate or our own hold call's."""
    return known.run.held and known.ours_held and known.run.holder is None


def earlier_run_may_execute(job: Job, canonical: SchedulerObject, taken_at: datetime) -> bool:
    """Return whether a run of the canonical object before this one isn't over for good."""
    until = rules.earlier_run_until(job, canonical)
    return until is not None and taken_at < until


def _succeed(job: Job, discovery: Discovery, now: datetime, by: str) -> list[Step]:
    """Row 12: the run succeeded and nothing can start it again."""
    canonical = job.canonical
    if canonical is None or canonical.run.state is not ObjectState.SUCCEEDED:
        return []
    if call_blocks_success(job, discovery.taken_at):
        return []
    if job.requeue is not None or job.resubmit is not None:
        return []
    if not canonical.abandoned and not rules.stopped(
        canonical, discovery.taken_at, job.declarations
    ):
        return []
    fact = facts.OutcomeFact(at=now, by=by, state=Outcome.SUCCEEDED)
    return [Append("12", f"{canonical.ref} succeeded", (fact,))]


def call_blocks_success(job: Job, taken_at: datetime) -> bool:
    """Return whether a call that may still land forbids to commit a success."""
    return bool(rules.open_calls(job)) or rules.requeue_may_land(job, taken_at)


def _expire(job: Job, discovery: Discovery, now: datetime, by: str) -> list[Step]:
    """Row 12b: it has waited too long for something that doesn't go away by itself."""
    canonical = _live_canonical(job)
    limit = job.plan.pending_limit_s
    if canonical is None or limit is None or job.held or canonical.expired is not None:
        return []
    run = canonical.run
    if run.state is not ObjectState.PENDING or run.cause is None or run.waiting_since is None:
        return []
    trigger = f"pend:{canonical.n}.{run.r}"
    due = rules.skewed(run.waiting_since + timedelta(seconds=limit), job.declarations)
    if now <= due or trigger in job.triggers:
        return []
    fact = facts.Expired(at=now, by=by, ref=canonical.ref, cause=run.cause, trigger=trigger)
    return [Append("12b", f"it has been pending ({run.cause}) for too long", (fact,))]


_ROWS_WITH_OUTCOME: tuple[Row, ...] = (
    _record,
    _lookup,
    _close_attempts,
    _escalate_foreign,
    _escalate_doubts,
    _choose_canonical,
    _retire,
    _stop,
    _settle,
)

_ROWS: tuple[Row, ...] = (
    *_ROWS_WITH_OUTCOME,
    _hold,
    _requeue,
    _release,
    _succeed,
    _expire,
    recover,
    authorize_next,
    authorize_first,
    start,
)
