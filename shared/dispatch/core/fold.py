"""Fold: replay a history over its header, or refuse what the protocol could not have written.

One `_…` function for each fact, with the refusals of protocol §4 in front of its effect. A
refusal is `InvalidRecord`; it names the job, the entry, the field and the rule.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NoReturn, assert_never

from dispatch.core import rules
from dispatch.core.job import Job
from dispatch.core.observe import observe
from dispatch.core.parts import (
    Attempt,
    AttemptState,
    Call,
    CallKind,
    Ending,
    Escalation,
    RecoveryWait,
    Run,
    SchedulerObject,
    Submission,
)
from dispatch.core.settled import unsettled_because
from dispatch.core.wishes import drop_pending, wish
from dispatch.errors import InvalidRecord, RecordRefused
from dispatch.record import fact as facts
from dispatch.record.codec import Entry, decode_entry, decode_header
from dispatch.record.control import Control
from dispatch.record.header import Header
from dispatch.record.names import Capability, Cause, Desired, ObjectState, Outcome, ReplyResult
from dispatch.record.view import View


def fold(view: View, now: datetime) -> Job:
    """Return the job that a record says (seed, "Fold, Project and Next").

    Everyone who folds the same revision gets an equal job: no entry is judged by `now`.

    Args:
        view: The record as read.
        now: The pass's one time, UTC; kept as the job's `as_of`.

    Raises:
        SchemaRefused, UnknownName: An entry isn't of a schema this build knows.
        InvalidRecord: The protocol could not have written this history.
    """
    header = decode_header(view.header, job=view.job_id)
    if header.job_id != view.job_id:
        raise InvalidRecord(
            f"the header is of job {header.job_id}",
            job=view.job_id,
            entry=0,
            field="job_id",
            rule="other_job",
        )
    job = Job(header=header, as_of=now)
    for number, stored in enumerate(view.entries, start=1):
        _append(job, decode_entry(stored, job=view.job_id, entry=number))
    return job


def replay(header: Header, entries: Iterable[Entry]) -> Job:
    """Return the job that decoded entries say; refuses as `fold` does."""
    job = Job(header=header)
    for entry in entries:
        _append(job, entry)
    return job


def extend(job: Job, entries: Iterable[Entry]) -> Job:
    """Return the job as it stands once these entries are appended; the given one is unchanged."""
    longer = job.copy()
    for entry in entries:
        _append(longer, entry)
    return longer


def refold(job: Job, view: View, now: datetime) -> Job:
    """Return what `fold` returns, or refuses, from the job at an earlier revision of the record.

    Entries never change, so only those appended since are decoded and folded.
    """
    appended = enumerate(view.entries[job.revision :], start=job.revision + 1)
    fresh = (decode_entry(stored, job=view.job_id, entry=number) for number, stored in appended)
    later = extend(job, fresh)
    later.as_of = now
    return later


def _append(job: Job, entry: Entry) -> None:
    job.revision += 1
    try:
        _evolve(job, entry)
    except RecordRefused as refused:
        raise refused.located(job=job.job_id, entry=job.revision) from None


def _refuse(rule: str, field: str, message: str) -> NoReturn:
    raise InvalidRecord(message, field=field, rule=rule)


def _require(holds: bool, rule: str, field: str, message: str) -> None:
    if not holds:
        _refuse(rule, field, message)


def _evolve(job: Job, entry: Entry) -> None:  # noqa: C901, PLR0912 - one case for each fact
    if isinstance(entry, Control):
        wish(job, entry)
        return
    if job.settled_at is not None and not isinstance(entry, facts.Escalated):
        _refuse("after_settled", "fact", f"{entry.fact} after settled")
    match entry:
        case facts.Observed():
            observe(job, entry)
        case facts.Authorized():
            _authorized(job, entry)
        case facts.Attempt():
            _attempt(job, entry)
        case facts.Replied():
            _replied(job, entry)
        case facts.Unmatched():
            _unmatched(job, entry)
        case facts.Canonical():
            _canonical(job, entry)
        case facts.Retired():
            _retired(job, entry)
        case facts.Expired():
            _expired(job, entry)
        case facts.Released():
            _released(job, entry)
        case facts.HoldCall():
            _hold_call(job, entry)
        case facts.RequeueCall():
            _requeue_call(job, entry)
        case facts.RecoveryHold():
            _recovery_hold(job, entry)
        case facts.OutcomeFact():
            _outcome(job, entry)
        case facts.Escalated():
            _escalated(job, entry)
        case facts.Settled():
            _settled(job, entry)
        case _:
            assert_never(entry)


# --- what several facts require -------------------------------------------------------------


def _reserve(job: Job, trigger: str) -> None:
    if trigger in job.triggers:
        _refuse("trigger_used", "trigger", f"{trigger} is used already")
    job.triggers.add(trigger)


def _no_outcome(job: Job) -> None:
    _require(job.ending is None, "after_outcome", "fact", "the job has an outcome")


def _no_foreign(job: Job) -> None:
    foreign = rules.undisposed_foreign(job)
    if foreign:
        _refuse("foreign_undisposed", "fact", f"foreign object {foreign[0].ref} isn't disposed")


def _spend(job: Job, cause: Cause | None, trigger: str) -> None:
    if cause is not None and not trigger.endswith(":f"):
        job.spent[cause] = job.spent.get(cause, 0) + 1


def _latest_canonical(job: Job, ref: str) -> SchedulerObject:
    canonical = job.canonical
    if canonical is None or canonical.ref != ref:
        _refuse("not_canonical", "ref", f"{ref} isn't the latest canonical object")
    return canonical


def _known(job: Job, ref: str) -> SchedulerObject:
    known = job.objects.get(ref)
    if known is None:
        _refuse("unknown_object", "ref", f"no object {ref} is recorded")
    return known


def _attempt_of(job: Job, n: int, a: int) -> Attempt:
    attempt = job.attempts.get((n, a))
    if attempt is None:
        _refuse("unknown_attempt", "a", f"no attempt {n}.{a} is recorded")
    return attempt


# --- starting -------------------------------------------------------------------------------


def _authorized(job: Job, fact: facts.Authorized) -> None:
    last = len(job.submissions)
    if fact.n != last + 1:
        _refuse("not_next_submission", "n", f"{fact.n} after {last}")
    _require(
        (fact.n == 1) == (fact.trigger == "initial"),
        "initial_misplaced",
        "trigger",
        "initial is the trigger of submission 1, and only of it",
    )
    _require(job.desired is not Desired.CANCEL, "cancelled", "fact", "the job is cancelled")
    _no_outcome(job)
    if last:
        because = rules.submission_open_because(job, last, fact.taken_at)
        if because is not None:
            _refuse("submission_open", "taken_at", f"submission {last} isn't closed: {because}")
    _require(
        not rules.open_requeue_calls(job),
        "requeue_call_open",
        "fact",
        "a call that may start something again is open",
    )
    _no_foreign(job)
    _reserve(job, fact.trigger)
    _spend(job, fact.cause, fact.trigger)
    drop_pending(job)
    job.submissions.append(
        Submission(fact.n, fact.trigger, fact.at, fact.taken_at, fact.cause, fact.adjust)
    )


def _attempt(job: Job, fact: facts.Attempt) -> None:
    latest = job.latest
    if latest is None or latest.n != fact.n:
        _refuse("not_latest_submission", "n", f"submission {fact.n} isn't the latest")
    if fact.a != latest.last_a + 1:
        _refuse("not_next_attempt", "a", f"{fact.a} after {latest.last_a}")
    if latest.canonical is not None:
        _refuse("has_canonical", "n", f"{fact.n} has a canonical object")
    if latest.last_a:  # those before it were closed when it was recorded, and stay so
        before = job.attempts[fact.n, latest.last_a]
        if not rules.attempt_closed(before):
            _refuse("attempt_open", "a", f"attempt {before.n}.{before.a} is {before.state}")
    _no_outcome(job)
    _no_foreign(job)
    allowed = 1 + job.header.start_retries + latest.uncounted
    if fact.a > allowed:
        _refuse("retries_used_up", "a", f"attempt {fact.a} of {allowed} allowed")
    _require(fact.deadline > fact.at, "deadline_past", "deadline", "it isn't after `at`")
    job.attempts[fact.n, fact.a] = Attempt(fact.n, fact.a, fact.at, fact.deadline)
    job.submissions[-1] = latest._replace(last_a=fact.a)


def _replied(job: Job, fact: facts.Replied) -> None:
    attempt = _attempt_of(job, fact.n, fact.a)
    if attempt.result is not None:
        if (attempt.result, attempt.ref) != (fact.result, fact.ref):
            _refuse("reply_conflicts", "result", f"attempt {fact.n}.{fact.a} had another reply")
        return
    if fact.result is ReplyResult.STARTED and fact.ref is not None:
        _started_by_reply(job, fact, fact.ref)
    state = attempt.state
    if state is AttemptState.UNKNOWN:
        started = fact.result is ReplyResult.STARTED
        state = AttemptState.STARTED if started else AttemptState.REFUSED
    counts = fact.result is not ReplyResult.NOT_SENT and fact.cause is not Cause.NAME_TAKEN
    job.attempts[fact.n, fact.a] = attempt._replace(
        state=state,
        result=fact.result,
        ref=fact.ref,
        cause=fact.cause,
        detail=fact.detail,
        counts=counts,
    )
    if not counts:
        submission = job.submissions[fact.n - 1]
        job.submissions[fact.n - 1] = submission._replace(uncounted=submission.uncounted + 1)


def _started_by_reply(job: Job, fact: facts.Replied, ref: str) -> None:
    known = job.objects.get(ref)
    if known is not None:
        if (known.n, known.a) != (fact.n, fact.a) or known.foreign:
            _refuse(
                "ref_taken",
                "ref",
                f"{ref} is recorded as the object of attempt {known.n}.{known.a}",
            )
        return
    gated = job.declarations.can(Capability.GATED_START)
    run = Run(1, 0, ObjectState.PENDING, first_seen_at=fact.at, held=gated)
    job.objects[ref] = SchedulerObject(
        ref, fact.n, fact.a, recorded_at=fact.at, run=run, ours_held=gated
    )


def _unmatched(job: Job, fact: facts.Unmatched) -> None:
    attempt = _attempt_of(job, fact.n, fact.a)
    if attempt.state is not AttemptState.UNKNOWN:
        _refuse("attempt_not_unknown", "a", f"attempt {fact.n}.{fact.a} is {attempt.state}")
    if not rules.past_deadline(fact.taken_at, attempt.deadline, job.declarations):
        _refuse("before_deadline", "taken_at", f"attempt {fact.n}.{fact.a} may still land")
    job.attempts[fact.n, fact.a] = attempt._replace(state=AttemptState.UNMATCHED)


# --- choosing -------------------------------------------------------------------------------


def _canonical(job: Job, fact: facts.Canonical) -> None:
    if fact.n > len(job.submissions):
        _refuse("unknown_submission", "n", f"no submission {fact.n} is recorded")
    submission = job.submissions[fact.n - 1]
    if submission.canonical is not None:
        _refuse("second_canonical", "n", f"{fact.n} has one already")
    known = _known(job, fact.ref)
    if known.foreign:
        _refuse("object_foreign", "ref", f"{fact.ref} is foreign")
    if known.n != fact.n:
        _refuse("other_submission", "ref", f"{fact.ref} is of {known.n}")
    if known.retired is not None:
        _refuse("object_retired", "ref", f"{fact.ref} is retired")
    state = job.attempts[known.n, known.a].state
    if state is not AttemptState.STARTED:
        _refuse("attempt_not_started", "ref", f"attempt {known.n}.{known.a} is {state}")
    job.submissions[fact.n - 1] = submission._replace(canonical=fact.ref)


def _retired(job: Job, fact: facts.Retired) -> None:
    known = _known(job, fact.ref)
    if known.foreign:
        _refuse("object_foreign", "ref", f"{fact.ref} is foreign")
    if job.is_canonical(known):
        _refuse("object_canonical", "ref", f"{fact.ref} is canonical")
    if known.retired is not None:
        _refuse("object_retired", "ref", f"{fact.ref} is retired already")
    job.objects[fact.ref] = known._replace(retired=fact.reason, retired_at=fact.at)


def _expired(job: Job, fact: facts.Expired) -> None:
    known = _latest_canonical(job, fact.ref)
    if known.run.state is not ObjectState.PENDING:
        _refuse("not_pending", "ref", f"{fact.ref} isn't pending")
    _no_outcome(job)
    _reserve(job, fact.trigger)
    job.objects[fact.ref] = known._replace(expired=fact.cause, expired_at=fact.at)


def _released(job: Job, fact: facts.Released) -> None:
    known = _latest_canonical(job, fact.ref)
    if known.released_at is not None:
        _refuse("released_twice", "ref", f"{fact.ref} was released")
    job.objects[fact.ref] = known._replace(released_at=fact.at)


# --- calls ----------------------------------------------------------------------------------


def _may_call(job: Job, fact: facts.HoldCall | facts.RequeueCall) -> SchedulerObject:
    known = _latest_canonical(job, fact.ref)
    if (known.run.r, known.run.restarts) != (fact.run, fact.restarts):
        _refuse(
            "not_last_recorded",
            "run",
            f"the last recorded run is {known.run.r} with {known.run.restarts} restarts",
        )
    _require(fact.deadline > fact.at, "deadline_past", "deadline", "it isn't after `at`")
    _require(not rules.open_calls(job), "call_open", "fact", "another call is open")
    _no_outcome(job)
    _no_foreign(job)
    return known


def _hold_call(job: Job, fact: facts.HoldCall) -> None:
    known = _may_call(job, fact)
    job.objects[fact.ref] = known._replace(ours_held=True)
    job.calls.append(
        Call(CallKind.HOLD, fact.ref, known.n, fact.run, fact.restarts, fact.at, fact.deadline)
    )


def _requeue_call(job: Job, fact: facts.RequeueCall) -> None:
    known = _may_call(job, fact)
    _reserve(job, fact.trigger)
    _spend(job, fact.cause, fact.trigger)
    if fact.trigger.startswith("ctl:"):
        job.requeue = None
    job.calls.append(
        Call(
            CallKind.REQUEUE,
            fact.ref,
            known.n,
            fact.run,
            fact.restarts,
            fact.at,
            fact.deadline,
            trigger=fact.trigger,
            cause=fact.cause,
        )
    )


# --- ending ---------------------------------------------------------------------------------


def _recovery_hold(job: Job, fact: facts.RecoveryHold) -> None:
    _no_outcome(job)
    _require(job.recovery is None, "second_recovery_hold", "fact", "one is in force")
    _reserve(job, fact.trigger)
    job.recovery = RecoveryWait(fact.cause, fact.at, fact.trigger, fact.detail)


def _outcome(job: Job, fact: facts.OutcomeFact) -> None:
    _require(fact.state is not Outcome.CANCELLED, "cancelled_by_fact", "state", "only by intent")
    _require(job.ending is None, "second_outcome", "fact", "the job has an outcome")
    if fact.state is Outcome.SUCCEEDED:
        canonical = job.canonical
        _require(
            canonical is not None and canonical.run.state is ObjectState.SUCCEEDED,
            "not_succeeded",
            "state",
            "the canonical object isn't recorded as succeeded",
        )
        _require(
            not rules.open_requeue_calls(job),
            "requeue_call_open",
            "state",
            "a call that may start something again is open",
        )
    drop_pending(job)
    job.recovery = None
    job.ending = Ending(fact.state, fact.at, fact.by, fact.cause, fact.detail)


def _escalated(job: Job, fact: facts.Escalated) -> None:
    if fact.key in job.escalations:
        _refuse("key_used", "key", f"{fact.key} was escalated")
    job.escalations[fact.key] = Escalation(fact.key, fact.code, fact.detail, fact.at)


def _settled(job: Job, fact: facts.Settled) -> None:
    because = unsettled_because(job, fact.taken_at, fact.at)
    if because:
        _refuse("not_settled", "taken_at", "; ".join(because))
    job.settled_at = fact.at
