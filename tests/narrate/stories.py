"""Histories that people have to understand, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dispatch.record import fact as facts
from dispatch.record.header import Adjust, Plan, Rule
from dispatch.record.names import (
    Action,
    Capability,
    Cause,
    IntentKind,
    ObjectState,
    Outcome,
    UnmatchedPolicy,
)
from dispatch.record.view import Envelope, View
from tests.narrate.written import (
    DECLARED,
    Written,
    at,
    cancelled_while_running,
    given_up,
    held_for_a_person,
    preempted_and_recovered,
)

IN_PLACE = Plan(default=Rule(action=Action.REQUEUE, in_place=True, limit=3))


def new() -> Written:
    return Written(supersedes="jearlierjob00000001")


def waiting_for_capacity() -> Written:
    w = Written(plan=Plan(default=Rule(action=Action.HOLD), pending_limit_s=600))
    w.authorized(1).attempt(2).started(3).released(3)
    return w.saw(
        5,
        w.sighting(ObjectState.PENDING, cause=Cause.NO_CAPACITY, reason="0 of 2 nodes are free"),
    )


def waited_too_long() -> Written:
    w = waiting_for_capacity()
    w.fact(700, facts.Expired, ref=w.ref(), cause=Cause.NO_CAPACITY, trigger="pend:1.1")
    w.ends(705, ObjectState.FAILED, cause=Cause.STOPPED)
    return w.fact(710, facts.RecoveryHold, cause=Cause.NO_CAPACITY, trigger="rec:1.1:h")


def reply_lost() -> Written:
    return Written().authorized(1).attempt(2)


def never_seen_and_manual() -> Written:
    w = Written(unmatched=UnmatchedPolicy.MANUAL).authorized(1).attempt(2)
    w.fact(30, facts.Unmatched, n=1, a=1, taken_at=at(29))
    return w.fact(
        30,
        facts.Escalated,
        key="unmatched/1.1",
        code="unmatched",
        detail="attempt 1.1 was never seen; resubmit, abandon it, or cancel",
    )


def starts_used_up() -> Written:
    w = Written(start_retries=1).authorized(1)
    w.attempt(2).refused(3, 1, 1, Cause.INVALID_SPEC, "no such queue: gpus")
    w.attempt(20, 1, 2).refused(21, 1, 2, Cause.INVALID_SPEC, "no such queue: gpus")
    return w.fact(
        22,
        facts.RecoveryHold,
        cause=Cause.START_FAILED,
        trigger="start/1",
        detail="2 attempts failed; the last: no such queue: gpus",
    )


def duplicate_retired() -> Written:
    w = Written().authorized(1).attempt(2)
    w.fact(30, facts.Unmatched, n=1, a=1, taken_at=at(29))
    w.attempt(31, 1, 2).started(32, 1, 2).released(32, 1, 2)
    w.saw(40, w.sighting(ObjectState.PENDING, 1, 1, held=True))
    return w.fact(
        41, facts.Retired, ref=w.ref(1, 1), reason="attempt 1.1 was unmatched when it showed"
    )


def foreign_object() -> Written:
    w = Written().authorized(1).runs(2)
    strange = w.sighting(ObjectState.RUNNING, 1, 1, generation=4, ref="local/other/1")
    w.saw(10, strange)
    return w.fact(
        11,
        facts.Escalated,
        key="foreign/local/other/1",
        code="foreign_object",
        detail="local/other/1 carries this job's tag but isn't this record's",
    )


def held_by_a_user() -> Written:
    w = Written().authorized(1).runs(2)
    w.intent(6, IntentKind.HOLD, reason="maintenance")
    return w.intent(7, IntentKind.HOLD)


def requeued_in_place() -> Written:
    can = tuple(sorted({*DECLARED.capabilities, Capability.REQUEUE_ENDED}))
    declared = DECLARED.model_copy(update={"capabilities": can})
    w = Written(plan=IN_PLACE, declared=declared).authorized(1).runs(2)
    w.ends(12, ObjectState.FAILED, cause=Cause.PREEMPTED, reason="taken")
    w.fact(
        13,
        facts.RequeueCall,
        ref=w.ref(),
        run=1,
        restarts=0,
        deadline=at(33),
        trigger="rec:1.1",
        cause=Cause.PREEMPTED,
    )
    return w.saw(
        15,
        w.sighting(ObjectState.RUNNING, restarts=1, nodes=("n7",), started_at=at(14)),
    )


def more_memory_after_the_loss_of_a_node() -> Written:
    plan = Plan(default=Rule(action=Action.RESUBMIT, limit=2, memory_factor=2.0, avoid_node=True))
    w = Written(plan=plan).authorized(1).runs(2)
    w.saw(
        12,
        w.sighting(
            ObjectState.FAILED,
            cause=Cause.NODE_LOST,
            lost_at=at(11),
            reason="n1 doesn't answer",
        ),
    )
    return w.authorized(
        60,
        2,
        "rec:1.1",
        cause=Cause.NODE_LOST,
        adjust=Adjust(memory_mb_per_node=1024, avoid_nodes=("n0", "n1")),
    )


def failed_by_itself() -> Written:
    w = Written().authorized(1).runs(2)
    w.ends(12, ObjectState.FAILED, cause=Cause.APP_ERROR, exit_code=3, reason="rank 1 exited 3")
    return w.fact(
        13, facts.OutcomeFact, state=Outcome.FAILED, cause=Cause.APP_ERROR, detail="rank 1 exited 3"
    )


def abandoned() -> Written:
    w = foreign_object()
    w.intent(20, IntentKind.ABANDON, target="local/other/1", reason="of the old cluster")
    return w.intent(21, IntentKind.ABANDON, target="3.1")


def newer_fact() -> View:
    """An entry of a newer build, and a cancel behind it."""
    w = Written().authorized(1).runs(2).intent(9, IntentKind.CANCEL)
    view = w.view
    strange = Envelope("dispatch.fact.v9", '{"at":"2026-03-05T09:00:08.000000Z"}', "t9")
    entries = (*view.entries[:6], strange, *view.entries[6:])
    return replace(view, entries=entries)


def impossible() -> View:
    """A second canonical object of one submission."""
    w = Written().authorized(1).runs(2)
    w.fact(9, facts.Canonical, n=1, ref=w.ref())
    return w.fact(10, facts.OutcomeFact, state=Outcome.SUCCEEDED).view


def broken_header() -> View:
    view = Written().authorized(1).view
    return replace(
        view, header=view.header._replace(body=view.header.body.replace('"train"', '"tr"'))
    )


STORIES: dict[str, tuple[Callable[[], View], float]] = {
    "new": (lambda: new().view, 2),
    "preempted-and-recovered": (lambda: preempted_and_recovered().view, 100),
    "cancelled-while-running": (lambda: cancelled_while_running().view, 100),
    "cancelled-still-stopping": (
        lambda: Written().authorized(1).runs(2).intent(9, IntentKind.CANCEL).view,
        10,
    ),
    "held-for-a-person": (lambda: held_for_a_person().view, 3600),
    "given-up": (lambda: given_up().view, 90_000),
    "waiting-for-capacity": (lambda: waiting_for_capacity().view, 100),
    "waited-too-long": (lambda: waited_too_long().view, 720),
    "reply-lost": (lambda: reply_lost().view, 10),
    "never-seen-and-manual": (lambda: never_seen_and_manual().view, 60),
    "starts-used-up": (lambda: starts_used_up().view, 60),
    "duplicate-retired": (lambda: duplicate_retired().view, 42),
    "foreign-object": (lambda: foreign_object().view, 60),
    "held-by-a-user": (lambda: held_by_a_user().view, 30),
    "requeued-in-place": (lambda: requeued_in_place().view, 20),
    "node-lost": (lambda: more_memory_after_the_loss_of_a_node().view, 61),
    "failed-by-itself": (lambda: failed_by_itself().view, 14),
    "abandoned": (lambda: abandoned().view, 30),
    "newer-fact": (newer_fact, 60),
    "impossible": (impossible, 60),
    "broken-header": (broken_header, 60),
}
"""The record, and the second at which it is told."""
