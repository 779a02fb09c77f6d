"""What Fold makes of each control intent (protocol §3)."""

from __future__ import annotations

import re
from typing import assert_never

from dispatch.core.job import Job
from dispatch.core.parts import AttemptState, Effect, Ending, Escalation, Pending, UserHold, Wish
from dispatch.record.control import Control
from dispatch.record.names import (
    Capability,
    Cause,
    Desired,
    IntentKind,
    ObjectState,
    Outcome,
    UnmatchedPolicy,
)

_ATTEMPT = re.compile(r"([1-9][0-9]*)\.([1-9][0-9]*)\Z")

Answer = tuple[Effect, str | None]


def wish(job: Job, control: Control) -> None:
    """Fold one control intent onto the job; a repeated id changes nothing."""
    if control.id in job.wishes:
        return
    effect, note = _applied(job, control)
    job.wishes[control.id] = Wish(
        kind=control.kind,
        by=control.by,
        at=control.at,
        effect=effect,
        note=note,
        outcome=job.ending.state if job.ending else None,
    )


def _applied(job: Job, control: Control) -> Answer:
    if job.settled_at is not None:
        return Effect.NO_EFFECT, "the job is settled"
    match control.kind:
        case IntentKind.CANCEL:
            return _cancel(job, control)
        case IntentKind.ABANDON:
            return _abandon(job, control)
        case _:
            if job.ending is not None:
                return Effect.NO_EFFECT, f"the outcome is {job.ending.state} already"
    match control.kind:
        case IntentKind.HOLD:
            return _hold(job, control)
        case IntentKind.RELEASE:
            return _release(job, control)
        case IntentKind.REQUEUE:
            return _requeue(job, control)
        case IntentKind.RESUBMIT:
            return _resubmit(job, control)
        case _:
            return _give_up(job, control)


def _lift_everything(job: Job) -> None:
    job.user_hold = None
    job.recovery = None
    drop_pending(job)


def drop_pending(job: Job) -> None:
    """Drop a pending requeue or resubmit, so that nothing starts after a cancel."""
    job.requeue = None
    job.resubmit = None


def _cancel(job: Job, control: Control) -> Answer:
    already = job.desired is Desired.CANCEL
    job.desired = Desired.CANCEL
    _lift_everything(job)
    if job.ending is not None:
        effect = Effect.ALREADY if already else Effect.NO_EFFECT
        return effect, f"the outcome is {job.ending.state} already"
    job.ending = Ending(Outcome.CANCELLED, control.at, control.by, detail=control.reason)
    return Effect.APPLIED, None


def _hold(job: Job, control: Control) -> Answer:
    if job.user_hold is not None:
        return Effect.ALREADY, "a user hold is in force"
    job.user_hold = UserHold(control.by, control.at, control.reason)
    job.desired = Desired.HOLD
    return Effect.APPLIED, None


def _release(job: Job, control: Control) -> Answer:
    had_hold, had_recovery = job.user_hold is not None, job.recovery is not None
    if not had_hold and not had_recovery:
        return Effect.ALREADY, "no hold is in force"
    job.user_hold = None
    job.recovery = None
    job.desired = Desired.RUN
    if had_recovery or (had_hold and _was_stopped_to_hold(job)):
        job.resubmit = job.resubmit or Pending(f"ctl:{control.id}", control.at)
    return Effect.APPLIED, None


def _was_stopped_to_hold(job: Job) -> bool:
    """Return whether holding meant to stop the run, so that releasing means to start anew."""
    if job.declarations.can(Capability.HOLD_RUNNING):
        return False
    canonical = job.canonical
    if canonical is None:
        return False
    opened = canonical.released_at is not None or not job.declarations.can(Capability.GATED_START)
    run = canonical.run
    succeeded = run.state is ObjectState.SUCCEEDED
    still_held = run.held and not run.ended
    return opened and not still_held and not succeeded


def _requeue(job: Job, control: Control) -> Answer:
    if job.requeue is not None or job.resubmit is not None:
        return Effect.ALREADY, "a requeue or resubmit is pending"
    job.recovery = None
    job.requeue = Pending(f"ctl:{control.id}", control.at)
    return Effect.APPLIED, None


def _resubmit(job: Job, control: Control) -> Answer:
    abandoned = _abandon_unmatched(job)
    if job.resubmit is not None and not abandoned:
        return Effect.ALREADY, "a resubmit is pending"
    job.recovery = None
    job.resubmit = job.resubmit or Pending(f"ctl:{control.id}", control.at)
    return Effect.APPLIED, None


def _abandon_unmatched(job: Job) -> bool:
    """Mark unmatched attempts abandoned: the answer to the question that `manual` asks."""
    if job.header.unmatched is not UnmatchedPolicy.MANUAL:
        return False
    met = [key for key, one in job.attempts.items() if one.state is AttemptState.UNMATCHED]
    for key in met:
        job.attempts[key] = job.attempts[key]._replace(state=AttemptState.ABANDONED)
    return bool(met)


def _give_up(job: Job, control: Control) -> Answer:
    cause = job.recovery.cause if job.recovery is not None else Cause.GIVEN_UP
    _lift_everything(job)
    job.ending = Ending(Outcome.FAILED, control.at, control.by, cause, control.reason)
    key = f"give_up/{control.id}"
    job.escalations[key] = Escalation(
        key, "given_up", f"{control.by} gave the job up: {cause}", control.at
    )
    return Effect.APPLIED, None


def _abandon(job: Job, control: Control) -> Answer:
    target = control.target or ""
    named = _ATTEMPT.match(target)
    if named is not None:
        return _abandon_attempt(job, (int(named[1]), int(named[2])), control)
    known = job.objects.get(target)
    if known is None:
        return Effect.NO_EFFECT, f"no object {target} is recorded"
    if known.abandoned:
        return Effect.ALREADY, f"object {target} is abandoned"
    job.objects[target] = known._replace(abandoned=True)
    if known.ended:
        return Effect.APPLIED, "the object had ended already"
    return Effect.APPLIED, "if it still runs, nothing of Dispatch will stop it"


def _abandon_attempt(job: Job, key: tuple[int, int], control: Control) -> Answer:
    attempt = job.attempts.get(key)
    if attempt is None:
        return Effect.NO_EFFECT, f"no attempt {control.target} is recorded"
    match attempt.state:
        case AttemptState.ABANDONED:
            return Effect.ALREADY, f"attempt {control.target} is abandoned"
        case AttemptState.STARTED:
            return Effect.NO_EFFECT, f"attempt {control.target} started: abandon its object"
        case AttemptState.REFUSED:
            return Effect.NO_EFFECT, f"attempt {control.target} was refused"
        case AttemptState.UNKNOWN | AttemptState.UNMATCHED:
            job.attempts[key] = attempt._replace(state=AttemptState.ABANDONED)
        case _:
            assert_never(attempt.state)
    if attempt.state is AttemptState.UNKNOWN and control.at < attempt.deadline:
        return Effect.APPLIED, "its deadline hadn't come: it may still land, and is then stopped"
    return Effect.APPLIED, None
