"""Rows 13 and 14: what the plan, or a person, makes of a run that is over."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import assert_never

from dispatch.core import rules
from dispatch.core.job import Job
from dispatch.core.parts import SchedulerObject, Submission
from dispatch.core.steps import Append, Requeue, Step
from dispatch.record import fact as facts
from dispatch.record.evidence import Discovery
from dispatch.record.header import Adjust
from dispatch.record.names import Action, Capability, Cause, ObjectState, Outcome

MAX_AVOIDED = 64
"""Nodes a submission can be kept off; the oldest give way."""


def over_because(known: SchedulerObject) -> Cause | None:
    """Return why a canonical object is over without success, or None if it isn't."""
    run = known.run
    if run.state is ObjectState.SUCCEEDED:
        return None
    if run.ended:
        return known.cause or Cause.LOST
    return Cause.LOST if known.abandoned else None


def back_off_until(job: Job, known: SchedulerObject, cause: Cause) -> datetime | None:
    """Return when the plan's back-off for a cause is over; None where there is none."""
    seen = known.run.ended_seen_at
    wait = job.plan.rule(cause).backoff_s
    return None if seen is None or wait == 0 else seen + timedelta(seconds=wait)


def recover(job: Job, discovery: Discovery, now: datetime, by: str) -> list[Step]:
    """Row 13: answer the end of a run by the plan's rule for its cause."""
    known = job.canonical
    if known is None or job.held or job.requeue is not None or job.resubmit is not None:
        return []
    cause = over_because(known)
    if cause is None or rules.undisposed_foreign(job):
        return []
    if call_blocks_recovery(job, discovery.taken_at):
        return []
    if not known.abandoned and not rules.stopped(known, discovery.taken_at, job.declarations):
        return []
    trigger = rules.run_trigger(known)
    if known.run.state is ObjectState.GONE and _can_not_have_run(job, known):
        return _authorize(job, discovery, (now, by, "13"), trigger, None)
    until = back_off_until(job, known, cause)
    if until is not None and now < until:
        return []
    return _by_plan(job, discovery, (now, by, "13"), known, cause)


def call_blocks_recovery(job: Job, taken_at: datetime) -> bool:
    """Return whether a call that may still land forbids to decide about an end."""
    return bool(rules.open_calls(job)) or rules.requeue_may_land(job, taken_at)


def _can_not_have_run(job: Job, known: SchedulerObject) -> bool:
    return (
        job.declarations.can(Capability.GATED_START)
        and not known.abandoned
        and known.expired is None
        and rules.never_executed(known)
    )


def _by_plan(
    job: Job,
    discovery: Discovery,
    said: tuple[datetime, str, str],
    known: SchedulerObject,
    cause: Cause,
) -> list[Step]:
    now, by, row = said
    rule = job.plan.rule(cause)
    trigger = rules.run_trigger(known)
    action, spent = rule.action, job.spent.get(cause, 0)
    detail = known.run.reason
    if action in (Action.REQUEUE, Action.RESUBMIT) and spent >= rule.limit:
        action = rule.after_limit
        detail = f"{cause}: {spent} of {rule.limit} recoveries used" + (
            f"; {detail}" if detail else ""
        )
    match action:
        case Action.FAIL:
            fact = facts.OutcomeFact(
                at=now, by=by, state=Outcome.FAILED, cause=cause, detail=detail
            )
            return [Append(row, f"the plan says to fail on {cause}", (fact,))]
        case Action.HOLD:
            if f"{trigger}:h" in job.triggers:
                return []
            hold = facts.RecoveryHold(
                at=now, by=by, cause=cause, trigger=f"{trigger}:h", detail=detail
            )
            return [Append(row, f"the plan says to ask a person about {cause}", (hold,))]
        case Action.REQUEUE:
            if rule.in_place and _runs_again_in_place(job, known):
                others = rules.others_may_execute(job, known, discovery.taken_at)
                rerun = rules.rerun_may_execute(job, known, discovery.taken_at)
                if others or rerun or not rules.sees_everything(discovery):
                    return []
                return _requeue_ended(job, said, known, cause)
        case Action.RESUBMIT:
            pass
        case _:
            assert_never(action)
    return _authorize(job, discovery, said, trigger, cause)


def _runs_again_in_place(job: Job, known: SchedulerObject) -> bool:
    return (
        job.declarations.can(Capability.REQUEUE_ENDED)
        and known.run.state is ObjectState.FAILED
        and known.expired is None
        and not known.abandoned
    )


def _requeue_ended(
    job: Job, said: tuple[datetime, str, str], known: SchedulerObject, cause: Cause
) -> list[Step]:
    now, by, row = said
    trigger = rules.run_trigger(known)
    if trigger in job.triggers:
        return []
    fact = facts.RequeueCall(
        at=now,
        by=by,
        ref=known.ref,
        run=known.run.r,
        restarts=known.run.restarts,
        deadline=rules.call_deadline(job, now),
        trigger=trigger,
        cause=cause,
    )
    return [Requeue(row, f"the plan says to requeue in place on {cause}", fact)]


def authorize_next(job: Job, discovery: Discovery, now: datetime, by: str) -> list[Step]:
    """Row 14: begin the submission that a person, or an expired requeue, asks for."""
    wanted = job.resubmit or job.requeue
    if wanted is None or job.latest is None or rules.undisposed_foreign(job):
        return []
    return _authorize(job, discovery, (now, by, "14"), wanted.trigger, wanted.cause)


def _authorize(
    job: Job,
    discovery: Discovery,
    said: tuple[datetime, str, str],
    trigger: str,
    cause: Cause | None,
) -> list[Step]:
    now, by, row = said
    latest = job.latest
    if latest is None or trigger in job.triggers or rules.open_requeue_calls(job):
        return []
    if not discovery.complete or rules.requeue_may_land(job, discovery.taken_at):
        return []  # the save window asks for a complete Find
    if not rules.submission_closed(job, latest.n, discovery.taken_at):
        return []
    fact = facts.Authorized(
        at=now,
        by=by,
        n=latest.n + 1,
        trigger=trigger,
        taken_at=discovery.taken_at,
        cause=cause,
        adjust=adjusted(job, latest, cause),
    )
    why = f"submission {latest.n} is over" + (f" ({cause})" if cause else "")
    return [Append(row, why, (fact,))]


def adjusted(job: Job, latest: Submission, cause: Cause | None) -> Adjust | None:
    """Return what the plan changes for the submission after this one."""
    before = latest.adjust or Adjust()
    if cause is None:
        return latest.adjust
    rule = job.plan.rule(cause)
    memory = before.memory_mb_per_node
    base = memory if memory is not None else job.header.spec.memory_mb_per_node
    if rule.memory_factor is not None and base is not None:
        memory = int(base * rule.memory_factor)
    avoid = before.avoid_nodes
    known = job.canonical
    if rule.avoid_node and known is not None:
        fresh = tuple(node for node in known.run.nodes if node not in avoid)
        avoid = (avoid + fresh)[-MAX_AVOIDED:]
    after = Adjust(memory_mb_per_node=memory, avoid_nodes=avoid)
    return None if after == Adjust() else after
