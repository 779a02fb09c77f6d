"""The settled predicate, with its reasons (seed, "Settling"; protocol §5)."""

from __future__ import annotations

from datetime import datetime

from dispatch.core import rules
from dispatch.core.job import Job
from dispatch.core.parts import AttemptState
from dispatch.record.names import UnmatchedPolicy


def unsettled_because(job: Job, taken_at: datetime, now: datetime) -> list[str]:
    """Return why a job can't be settled on a complete Find begun at `taken_at`; empty if it can.

    That the Find was complete and that all its objects are recorded is the caller's word.
    """
    reasons: list[str] = []
    if job.ending is None:
        reasons.append("there is no outcome")
    reasons += _calls(job, taken_at)
    reasons += _objects(job, taken_at, now)
    reasons += _attempts(job, taken_at)
    return reasons


def open_because(job: Job, taken_at: datetime, now: datetime) -> list[str]:
    """Return why a job isn't to be settled yet; stricter than what a record must have (ADR 42)."""
    reasons = unsettled_because(job, taken_at, now)
    for known in job.objects.values():
        if not known.abandoned and rules.rerun_may_execute(job, known, taken_at):
            reasons.append(f"a run of {known.ref} that nobody saw may still execute")
    return reasons


def _calls(job: Job, taken_at: datetime) -> list[str]:
    """Return which requeue calls may land after a look; one that seems to have landed may, too.

    That restarts grew may be somebody else's doing, and ours is still on its way then.
    """
    return [
        f"the {call.kind} call on {call.ref} may still land"
        for call in job.calls
        if rules.may_land_after(call, taken_at, job.declarations)
    ]


def _objects(job: Job, taken_at: datetime, now: datetime) -> list[str]:
    declared = job.declarations
    reasons = []
    for known in job.objects.values():
        if known.abandoned:
            continue
        if known.foreign:
            if not known.ended:
                reasons.append(f"foreign object {known.ref} isn't disposed")
        elif not known.ended:
            reasons.append(f"object {known.ref} was last seen {known.run.state}")
        elif not rules.stopped(known, now, declared):
            reasons.append(f"object {known.ref} may still execute somewhere")
        elif not rules.saved_for_settling(known, taken_at, declared):
            reasons.append(f"the end of {known.ref} is too fresh to be safe from a crash")
    return reasons


def _attempts(job: Job, taken_at: datetime) -> list[str]:
    manual = job.header.unmatched is UnmatchedPolicy.MANUAL
    reasons = []
    for attempt in job.attempts.values():
        if attempt.state is AttemptState.UNKNOWN:
            reasons.append(f"attempt {attempt.n}.{attempt.a} may still land")
        elif rules.may_land_vouched_for(attempt, taken_at, job.declarations):
            said = f"attempt {attempt.n}.{attempt.a}, which a person vouched for"
            reasons.append(f"{said}, may have landed since that look")
        elif manual and attempt.state is AttemptState.UNMATCHED:
            reasons.append(f"attempt {attempt.n}.{attempt.a} is unmatched and waits for a person")
    return reasons
