"""Rows 9 to 12b of Next: hold, requeue, release, success and the pending limit (protocol §6)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dispatch.core.steps import Hold, Next, Release, Requeue
from dispatch.record import fact as facts
from dispatch.record.evidence import Sighting
from dispatch.record.names import Capability, Cause, Outcome
from tests.core.histories import (
    CALL_BOUND_S,
    FULL,
    GATED,
    NODE_LOSS_WINDOW_S,
    SAVE_WINDOW_S,
    SKEW_S,
    UNGATED,
    History,
    plan,
    t,
)

DEADLINE = CALL_BOUND_S + SKEW_S


def rows(upcoming: Next) -> list[str]:
    return [step.row for step in upcoming.steps]


def as_recorded(history: History) -> list[Sighting]:
    """A look that shows every object as it is recorded, so that nothing is news."""
    shown = []
    for ref, known in history.job().objects.items():
        run = known.run
        if run.state.value == "gone":
            continue
        shown.append(
            history.sight(
                ref,
                run.state.value,
                n=known.n,
                a=known.a,
                held=run.held,
                holder=run.holder,
                restarts=run.restarts,
                reason=run.reason,
                source=run.source,
                cause=run.cause.value if run.cause else None,
            )
        )
    return shown


def quiet(history: History) -> Next:
    return history.next(*as_recorded(history))


def seen_pending(capabilities: tuple[Capability, ...] = GATED) -> History:
    """The canonical object was released, and is seen pending."""
    history = History(capabilities=capabilities).started()
    if Capability.GATED_START in capabilities:
        history.released()
    return history.later(5).shows("o1", "pending")


# --- row 9 ----------------------------------------------------------------------------------


def test_row_9_holds_a_pending_object_and_records_the_call_first() -> None:
    history = seen_pending().wants("hold")
    (step,) = quiet(history).steps
    assert isinstance(step, Hold)
    assert (step.row, step.fact.ref, step.fact.run, step.fact.restarts) == ("9", "o1", 1, 0)
    assert step.fact.deadline == t(history.now + CALL_BOUND_S)


def test_row_9_holds_a_running_object_only_where_that_is_declared() -> None:
    assert rows(quiet(History(capabilities=FULL).running().wants("hold"))) == ["9"]
    assert rows(quiet(History(capabilities=GATED).running().wants("hold"))) == ["6"]


def test_row_9_holds_for_a_recovery_hold_too() -> None:
    """The plan asked about an end, and then somebody outside requeued the object."""
    history = History().ended().recovery_hold().later(5).shows("o1", "pending", restarts=1)
    assert rows(quiet(history)) == ["9"]


def test_row_9_leaves_a_running_object_in_a_recovery_hold_that_cannot_be_held() -> None:
    history = History().ended().recovery_hold().later(5).shows("o1", "running", restarts=1)
    assert rows(quiet(history)) == []


@pytest.mark.parametrize(
    "history",
    [
        History().started().wants("hold"),
        seen_pending().shows("o1", "pending", held=True, holder="admin").wants("hold"),
        seen_pending().wants("hold").hold_call(),
        seen_pending().shows("x", "running", n=5).escalated("foreign/x").wants("hold"),
        seen_pending().wants("hold").wants("abandon", target="o1"),
        History().ended().wants("hold"),
        seen_pending().wants("hold").wants("cancel"),
    ],
    ids=["gated", "held outside", "call open", "foreign", "abandoned", "ended", "cancelled"],
)
def test_row_9_makes_no_call(history: History) -> None:
    assert "9" not in rows(quiet(history))


def test_row_9_makes_another_call_once_one_expired() -> None:
    history = seen_pending().wants("hold").hold_call().later(DEADLINE).shows("o1", "pending")
    assert rows(quiet(history)) == ["9"]


# --- row 10 ---------------------------------------------------------------------------------


def in_place() -> History:
    return History(capabilities=FULL, plan=plan(in_place=True)).running()


def test_row_10_requeues_in_place_and_records_the_call_first() -> None:
    history = in_place().wants("requeue", "r")
    (step,) = quiet(history).steps
    assert isinstance(step, Requeue)
    assert (step.row, step.fact.trigger, step.fact.cause) == ("10", "ctl:r", None)
    assert step.fact.deadline == t(history.now + CALL_BOUND_S)
    assert quiet(history.add(step.fact)).steps == ()


def test_row_10_waits_under_a_hold_and_for_open_calls_and_foreign_objects() -> None:
    assert rows(quiet(in_place().wants("requeue").wants("hold"))) == ["9"]
    open_call = in_place().wants("requeue").hold_call()
    assert rows(quiet(open_call)) == []
    beside = in_place().shows("x", "running", n=9).escalated("foreign/x").wants("requeue")
    assert rows(quiet(beside)) == []


def test_row_10_leaves_what_the_scheduler_holds_while_it_runs() -> None:
    history = in_place().later(5).shows("o1", "running", held=True).wants("requeue")
    assert "10" not in rows(quiet(history))


@pytest.mark.parametrize("state", ["pending", "ending"])
def test_an_object_that_does_not_run_is_not_requeued_in_place_but_stopped(state: str) -> None:
    history = History(capabilities=FULL, plan=plan(in_place=True)).started().released().later(5)
    history.shows("o1", state).wants("requeue")
    assert rows(quiet(history)) == ["6"]


def test_without_the_capability_a_requeue_is_a_new_submission() -> None:
    history = History(capabilities=GATED, plan=plan(in_place=True)).running().wants("requeue", "r")
    assert rows(quiet(history)) == ["6"]
    history.later(5).shows("o1", "failed", cause="stopped").later(20)
    (step,) = quiet(history).steps
    assert step.row == "14"
    assert step.facts[0].trigger == "ctl:r"  # type: ignore[union-attr]


def test_a_requeue_in_place_that_expires_is_a_new_submission() -> None:
    history = in_place().wants("requeue", "r").requeue_call(trigger="ctl:r").later(DEADLINE)
    history.shows("o1", "running")
    assert rows(quiet(history)) == ["6"]
    history.later(5).shows("o1", "failed", cause="stopped").later(20)
    (step,) = quiet(history).steps
    assert (step.row, step.facts[0].trigger) == ("14", "rec:1.1:f")  # type: ignore[union-attr]


# --- row 11 ---------------------------------------------------------------------------------


def test_row_11_opens_the_gate_and_records_it_the_first_time_only() -> None:
    history = History().started()
    (step,) = quiet(history).steps
    assert isinstance(step, Release)
    assert isinstance(step.fact, facts.Released)
    (again,) = quiet(history.add(step.fact)).steps
    assert isinstance(again, Release)
    assert again.fact is None


def test_row_11_keeps_what_is_held_for_the_plans_question() -> None:
    history = History().ended().recovery_hold().later(5).shows("o1", "pending", restarts=1)
    history.hold_call(run=2, restarts=1).later(5).shows("o1", "pending", restarts=1, held=True)
    assert rows(quiet(history)) == []


def test_row_11_lifts_our_own_landed_hold() -> None:
    history = seen_pending().wants("hold").hold_call().later(5).shows("o1", "pending", held=True)
    (step,) = quiet(history.wants("release")).steps
    assert isinstance(step, Release)
    assert step.fact is None


def test_row_11_never_lifts_a_hold_that_is_not_ours_f25() -> None:
    named = seen_pending().later(5).shows("o1", "pending", held=True, holder="admin")
    assert rows(quiet(named)) == []
    unnamed = seen_pending().later(SAVE_WINDOW_S).shows("o1", "pending")
    unnamed.later(5).shows("o1", "pending", held=True)
    assert rows(quiet(unnamed)) == []
    at_the_gate = History().started().later(5).shows("o1", "pending", held=True, holder="admin")
    assert rows(quiet(at_the_gate)) == []


@pytest.mark.parametrize(
    "history",
    [
        History().started().wants("hold"),
        History().started().wants("hold").wants("release").hold_call(),
        History().started().wants("resubmit"),
        History().started().wants("requeue"),
        History().started().wants("abandon", target="o1"),
        History().started().wants("cancel"),
        History().authorized().attempt().replied(),
        History().started().expired(),
    ],
    ids=[
        "held",
        "call open",
        "resubmit pending",
        "requeue pending",
        "abandoned",
        "cancelled",
        "not canonical",
        "expired",
    ],
)
def test_row_11_keeps_the_gate_shut(history: History) -> None:
    assert "11" not in rows(quiet(history))


def test_row_11_waits_until_every_other_object_is_stopped_windows_included() -> None:
    history = History().running().later(5).shows("o1", "failed", cause="node_lost", lost_at=10)
    history.wants("abandon", target="1.1").wants("resubmit").later(20)
    history.wants("abandon", "vouch", target="o1")
    beside = history.authorized(2, "ctl:resubmit").attempt(2).replied(2, ref="o2")
    beside.canonical("o2", 2)
    assert rows(quiet(beside)) == ["11"]

    lost = History().authorized().attempt().shows("o1", "pending", held=True)
    lost.observed(lost.sight("o1", "pending", held=True), lost.sight("o2", "running"))
    lost.canonical("o1").retired("o2").later(10)
    assert rows(quiet(lost)) == ["6"]
    lost.shows("o2", "failed", cause="node_lost", lost_at=10)
    assert rows(quiet(lost)) == []
    lost.at(10 + NODE_LOSS_WINDOW_S + SKEW_S)
    assert rows(quiet(lost)) == ["11"]


def test_row_11_waits_until_a_crash_can_undo_no_other_end() -> None:
    """Somebody ran an older object again; slurmctld forgot its end, and ran it beside the next."""
    raised = History().running().later(5).shows("o1", "failed", cause="stopped").later(60)
    raised.wants("resubmit").authorized(2, "ctl:resubmit").attempt(2).replied(2, ref="o2")
    raised.canonical("o2", 2).later(5).shows("o1", "running", restarts=1).later(5)
    raised.shows("o1", "succeeded", restarts=1).later(SAVE_WINDOW_S - 1)
    waiting = quiet(raised)
    assert rows(waiting) == []
    assert "save" in [one.what for one in waiting.waiting]
    # The run before it was seen to end, so no other window is open.
    assert rows(quiet(raised.later(1))) == ["11"]


def test_row_11_waits_for_an_earlier_run_of_its_own_on_a_lost_node_f22() -> None:
    history = History(capabilities=FULL).running().later(5)
    history.shows("o1", "ending", cause="node_lost", lost_at=10)
    history.wants("hold").hold_call().at(20).shows("o1", "pending", held=True)
    history.wants("release")
    waiting = quiet(history)
    assert rows(waiting) == []
    assert ("window", t(10 + NODE_LOSS_WINDOW_S + SKEW_S)) in [
        (one.what, one.until) for one in waiting.waiting
    ]
    history.at(10 + NODE_LOSS_WINDOW_S + SKEW_S - 1)
    assert rows(quiet(history)) == []
    history.at(10 + NODE_LOSS_WINDOW_S + SKEW_S)
    assert rows(quiet(history)) == ["11"]


def test_row_10_waits_until_every_other_object_is_stopped() -> None:
    history = History(capabilities=FULL, plan=plan(in_place=True), save_window_s=0)
    two = history.authorized().attempt().shows("o1").shows("o2").canonical("o1").retired("o2")
    two.wants("requeue").later(10)
    assert rows(quiet(two)) == ["6"]
    two.shows("o2", "failed", cause="node_lost", lost_at=10)
    assert rows(quiet(two)) == []
    assert rows(quiet(two.at(10 + NODE_LOSS_WINDOW_S + SKEW_S))) == ["10"]


def test_row_10_waits_for_an_earlier_run_whose_end_nobody_saw() -> None:
    history = History(capabilities=FULL, plan=plan(in_place=True), save_window_s=0).running()
    history.at(15)
    history.shows("o1", "running", restarts=1).wants("requeue")
    waiting = quiet(history)
    assert rows(waiting) == []
    assert ("window", t(15 + NODE_LOSS_WINDOW_S + SKEW_S)) in [
        (one.what, one.until) for one in waiting.waiting
    ]
    history.at(15 + NODE_LOSS_WINDOW_S + SKEW_S)
    shown = history.sight("o1", "running", restarts=1)
    assert rows(history.next(shown)) == ["10"]


def test_row_11_waits_where_only_what_is_left_of_the_run_tells_of_its_lost_node() -> None:
    history = History(capabilities=FULL).running().wants("hold").hold_call().at(20)
    history.shows("o1", "pending", held=True, lost_at=10).wants("release")
    shown = history.sight("o1", "pending", held=True, lost_at=10)
    assert rows(history.next(shown)) == []
    history.at(10 + NODE_LOSS_WINDOW_S + SKEW_S)
    assert rows(history.next(shown)) == ["11"]


def test_row_11_waits_for_a_run_whose_end_nobody_saw_before_a_restart() -> None:
    history = History(capabilities=FULL).running().wants("hold").hold_call().at(20)
    history.shows("o1", "pending", held=True, restarts=1).wants("release")
    assert rows(quiet(history)) == []
    history.at(20 + NODE_LOSS_WINDOW_S + SKEW_S)
    assert rows(quiet(history)) == ["11"]


def test_row_11_releases_at_once_what_was_suspended_with_its_nodes_alive() -> None:
    history = History(capabilities=FULL).running().wants("hold").hold_call().at(20)
    history.shows("o1", "pending", held=True).wants("release")
    assert rows(quiet(history)) == ["11"]


def test_row_11_does_not_wait_for_foreign_objects() -> None:
    history = History().started().shows("x", "running", n=7).escalated("foreign/x")
    assert rows(quiet(history)) == ["11"]


def test_without_a_gate_there_is_nothing_to_release() -> None:
    assert rows(quiet(History(capabilities=UNGATED).started().shows("o1", "pending"))) == []


# --- row 12 ---------------------------------------------------------------------------------


def test_row_12_commits_success_without_waiting_for_the_save_window() -> None:
    (step,) = quiet(History().ended("succeeded")).steps
    (fact,) = step.facts  # type: ignore[union-attr]
    assert step.row == "12"
    assert isinstance(fact, facts.OutcomeFact)
    assert fact.state is Outcome.SUCCEEDED


def test_row_12_waits_for_windows() -> None:
    restarted = History().running().later(10).shows("o1", "succeeded", restarts=1)
    assert rows(quiet(restarted)) == []
    restarted.at(20 + NODE_LOSS_WINDOW_S + SKEW_S)
    assert rows(quiet(restarted)) == ["12"]


@pytest.mark.parametrize("kind", ["requeue", "resubmit"])
def test_row_12_waits_while_something_is_pending(kind: str) -> None:
    assert "12" not in rows(quiet(History().ended("succeeded").wants(kind)))


def test_row_12_waits_until_every_open_call_closes() -> None:
    """A success under an open requeue would be run again by it."""
    history = in_place().wants("requeue").requeue_call(trigger="ctl:requeue").later(5)
    history.shows("o1", "succeeded")
    assert rows(quiet(history)) == []
    held = seen_pending().wants("hold").hold_call().later(5).shows("o1", "succeeded")
    assert rows(quiet(held)) == []


def test_row_12_succeeds_whatever_holds_are_in_force() -> None:
    assert rows(quiet(History().ended("succeeded").wants("hold"))) == ["12"]
    asked = History().ended().recovery_hold().later(5).shows("o1", "succeeded", restarts=1)
    history = asked.wants("abandon", target="o1")
    (step,) = quiet(history).steps
    assert step.row == "12"
    assert history.add(*step.facts).job().recovery is None  # type: ignore[union-attr]


def test_row_12_never_calls_success_what_another_object_did() -> None:
    two = History().authorized().attempt().shows("o1").shows("o2", "succeeded")
    assert "12" not in rows(quiet(two.canonical("o1").retired("o2")))


# --- row 12b --------------------------------------------------------------------------------


def waiting(limit: int | None = 100) -> History:
    history = History(plan=plan(pending_limit_s=limit), save_window_s=0).started().released()
    return history.later(5).shows("o1", "pending", cause="unschedulable")


def test_row_12b_expires_what_waits_too_long_for_what_does_not_go_away() -> None:
    history = waiting().at(5 + 100 + SKEW_S)
    assert rows(quiet(history)) == []
    (step,) = quiet(history.later(1)).steps
    (fact,) = step.facts  # type: ignore[union-attr]
    assert step.row == "12b"
    assert isinstance(fact, facts.Expired)
    assert (fact.cause, fact.trigger) == (Cause.UNSCHEDULABLE, "pend:1.1")


def test_row_12b_counts_from_the_first_sight_of_the_same_cause() -> None:
    history = waiting().later(90).shows("o1", "pending", cause="no_capacity")
    assert rows(quiet(history.later(60))) == []
    assert rows(quiet(history.later(60))) == ["12b"]
    same = waiting().later(90).shows("o1", "pending", cause="unschedulable", reason="still")
    assert rows(quiet(same.later(60))) == ["12b"]


@pytest.mark.parametrize(
    "situation",
    [
        lambda: waiting(None),
        lambda: waiting().wants("hold").hold_call(),
        lambda: waiting().wants("abandon", target="o1"),
        lambda: waiting().later(5).shows("o1", "running"),
        lambda: waiting().later(5).shows("o1", "pending"),
        lambda: waiting().expired(trigger="pend:1.1"),
        lambda: waiting().wants("cancel"),
    ],
    ids=["no limit", "held", "abandoned", "running", "no cause", "expired", "cancelled"],
)
def test_row_12b_expires_nothing(situation: Callable[[], History]) -> None:
    assert "12b" not in rows(quiet(situation().later(500)))


def test_an_expired_object_is_stopped_and_ends_with_its_cause() -> None:
    history = waiting().expired(cause="unschedulable").later(5)
    assert rows(quiet(history)) == ["6"]
    history.shows("o1", "failed", cause="stopped").later(5)
    known = history.job().objects["o1"]
    assert (known.cause, known.run.cause) == (Cause.UNSCHEDULABLE, Cause.STOPPED)
    (step,) = quiet(history).steps
    assert step.row == "13"
    assert step.facts[0].cause is Cause.UNSCHEDULABLE  # type: ignore[union-attr]


def test_what_wins_against_the_pending_limit_and_runs_is_stopped_too() -> None:
    history = waiting().expired().later(5).shows("o1", "running")
    assert rows(quiet(history)) == ["6"]


def test_a_success_in_spite_of_the_pending_limit_is_a_success() -> None:
    history = waiting().expired().later(5).shows("o1", "succeeded")
    assert rows(quiet(history)) == ["12"]
