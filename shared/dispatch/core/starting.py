"""Rows 15 to 17: authorizing the first submission, and Starts."""

from __future__ import annotations

from datetime import datetime, timedelta

from dispatch.core import rules
from dispatch.core.job import Job
from dispatch.core.parts import AttemptState
from dispatch.core.steps import Append, Start, Step
from dispatch.record import fact as facts
from dispatch.record.evidence import Discovery
from dispatch.record.names import Capability, Cause, UnmatchedPolicy


def authorize_first(job: Job, discovery: Discovery, now: datetime, by: str) -> list[Step]:
    """Row 15: the first submission."""
    if job.submissions or job.held or rules.undisposed_foreign(job):
        return []
    fact = facts.Authorized(at=now, by=by, n=1, trigger="initial", taken_at=discovery.taken_at)
    return [Append("15", "the job has never been started", (fact,))]


def may_start(job: Job, discovery: Discovery) -> bool:
    """Return whether another Start of the latest submission is in order, retries aside."""
    latest = job.latest
    if latest is None or job.held or job.requeue is not None or job.resubmit is not None:
        return False
    if not discovery.complete or foreign_blocks_start(job):
        return False
    for attempt in job.attempts_of(latest.n):
        if not rules.attempt_closed(attempt):
            return False
        manual = job.header.unmatched is UnmatchedPolicy.MANUAL
        if manual and attempt.state is AttemptState.UNMATCHED:
            return False
    for known in job.objects_of(latest.n):
        if known.retired is None or not (known.ended or known.abandoned):
            return False
    if job.declarations.can(Capability.GATED_START):
        return True
    if rules.vouched_for_may_land(job, discovery.taken_at):
        return False  # without a gate it would run at once, beside this one
    return all(
        known.foreign or rules.over_for_good(job, known, discovery.taken_at)
        for known in job.objects.values()
    )


def foreign_blocks_start(job: Job) -> bool:
    """Return whether an undisposed foreign object forbids every Start."""
    return bool(rules.undisposed_foreign(job))


def start_due(job: Job) -> datetime | None:
    """Return when the next attempt may be made after a refusal; None for at once."""
    latest = job.latest
    if latest is None or latest.last_a == 0:
        return None
    last = job.attempts[latest.n, latest.last_a]
    if last.state is not AttemptState.REFUSED:
        return None
    return rules.skewed(last.at + timedelta(seconds=job.plan.start_backoff_s), job.declarations)


def start(job: Job, discovery: Discovery, now: datetime, by: str) -> list[Step]:
    """Rows 16 and 17: try to start, or ask a person once the retries are used up."""
    latest = job.latest
    if latest is None or not may_start(job, discovery):
        return []
    allowed = 1 + job.header.start_retries + latest.uncounted
    if latest.last_a >= allowed:
        failed = "1 attempt" if latest.last_a == 1 else f"{latest.last_a} attempts"
        return _ask(job, (now, by), Cause.START_FAILED, f"{failed} failed")
    if name_wont_come_free(job):
        return _ask(job, (now, by), Cause.NAME_TAKEN, "the name's holder was abandoned")
    if name_is_held(job):
        return []
    due = start_due(job)
    if due is not None and (now < due or discovery.taken_at < due):
        return []
    fact = facts.Attempt(
        at=now, by=by, n=latest.n, a=latest.last_a + 1, deadline=rules.call_deadline(job, now)
    )
    return [Start("16", f"submission {latest.n} is authorized and nothing of it exists", fact)]


def name_wont_come_free(job: Job) -> bool:
    """Return whether a name is taken by an object that a person abandoned."""
    latest = job.latest
    if latest is None or latest.last_a == 0:
        return False
    last = job.attempts[latest.n, latest.last_a]
    return last.cause is Cause.NAME_TAKEN and any(
        known.abandoned and not known.ended for known in job.objects.values()
    )


def name_is_held(job: Job) -> bool:
    """Return whether a name is taken, and an object that may be its holder still lives."""
    latest = job.latest
    if latest is None or latest.last_a == 0:
        return False
    last = job.attempts[latest.n, latest.last_a]
    return last.cause is Cause.NAME_TAKEN and any(not one.ended for one in job.objects.values())


def _ask(job: Job, said: tuple[datetime, str], cause: Cause, detail: str) -> list[Step]:
    now, by = said
    latest = job.latest
    n = 0 if latest is None else latest.n
    last = None if latest is None else job.attempts.get((n, latest.last_a))
    if last is not None and last.detail:
        detail = f"{detail}; the last: {last.detail}"
    trigger = f"start/{n}"
    if trigger in job.triggers:
        return []
    added: list[facts.Fact] = [
        facts.RecoveryHold(at=now, by=by, cause=cause, trigger=trigger, detail=detail)
    ]
    if trigger not in job.escalations:
        added.append(facts.Escalated(at=now, by=by, key=trigger, code=cause.value, detail=detail))
    return [Append("17", detail, tuple(added))]
