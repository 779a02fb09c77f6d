"""Hold and requeue calls: open, landed or expired (protocol §5), and what Fold makes of each."""

from __future__ import annotations

import pytest

from dispatch.core import rules
from dispatch.core.parts import Call, CallState
from dispatch.record.names import Capability, Cause
from tests.core.histories import CALL_BOUND_S, FULL, GATED, SAVE_WINDOW_S, SKEW_S, History

AFTER = CALL_BOUND_S + SKEW_S
OPEN, LANDED, EXPIRED = CallState.OPEN, CallState.LANDED, CallState.EXPIRED


def preempted() -> History:
    """The run ended at 20; the plan's in-place requeue is recorded there."""
    history = History(capabilities=FULL).running().later(10)
    return history.shows("o1", "failed", cause="preempted").requeue_call(cause="preempted")


def held() -> History:
    """A pending object, released, with a hold call recorded at 20."""
    history = History(capabilities=GATED).started().released().later(10).shows("o1", "pending")
    return history.wants("hold").later(10).hold_call()


def call(history: History) -> Call:
    job = history.job()
    (one,) = (*job.calls, *job.done_calls)
    return one


# --- requeue --------------------------------------------------------------------------------


def test_a_requeue_call_is_open_until_a_sight_tells() -> None:
    assert call(preempted()).state is OPEN
    assert call(preempted().later(50).shows("o1", "failed", exit_code=1)).state is OPEN


def test_a_requeue_call_has_landed_once_restarts_grew() -> None:
    history = preempted().later(50).shows("o1", "pending", restarts=1)
    assert (call(history).state, call(history).final) == (LANDED, False)
    assert rules.open_calls(history.job()) == []


def test_a_requeue_call_expires_by_a_sight_of_unchanged_restarts_after_its_deadline() -> None:
    early = preempted().later(AFTER - 1).shows("o1", "failed")
    assert call(early).state is OPEN
    late = preempted().later(AFTER).shows("o1", "failed")
    assert (call(late).state, call(late).final) == (EXPIRED, True)


def test_a_requeue_call_has_not_landed_by_a_hold() -> None:
    history = preempted().later(50).shows("o1", "pending", held=True)
    assert call(history).state is OPEN


def test_a_requeue_call_is_judged_by_when_the_find_began_not_by_when_it_was_seen() -> None:
    history = preempted().later(AFTER + 50)
    history.observed(history.sight("o1", "failed", cause="preempted"), taken=20 + AFTER - 1)
    assert call(history).state is OPEN


def test_a_requeue_call_expires_by_absence_after_its_deadline() -> None:
    assert call(preempted().later(AFTER).shows("o1", "gone")).state is EXPIRED
    assert call(preempted().later(AFTER - 1).shows("o1", "gone")).state is OPEN


def test_a_landed_requeue_is_open_again_if_a_crash_undid_it_before_the_deadline() -> None:
    history = preempted().later(30).shows("o1", "pending", restarts=1)
    history.later(30).shows("o1", "failed", restarts=0, cause="preempted")
    assert call(history).state is OPEN


def test_a_landed_requeue_that_a_crash_undid_expires_after_the_deadline() -> None:
    history = preempted().later(30).shows("o1", "pending", restarts=1)
    history.later(AFTER).shows("o1", "failed", restarts=0, cause="preempted")
    assert call(history).state is EXPIRED


def test_a_landed_requeue_stays_landed_when_its_object_vanishes() -> None:
    """Absence shows no restarts: it must not pass for a call that never landed."""
    for wait in (30, AFTER):
        history = preempted().later(30).shows("o1", "running", restarts=1)
        history.later(wait).shows("o1", "gone", restarts=1)
        assert call(history).state is LANDED
        assert history.job().resubmit is None


def test_an_older_find_judges_no_call() -> None:
    history = preempted().later(60).shows("o1", "pending", restarts=1)
    history.observed(history.sight("o1", "failed", cause="preempted"), taken=50, seen=90)
    assert call(history).state is LANDED


def test_a_call_is_judged_by_the_sights_of_its_own_object_only() -> None:
    history = preempted().later(AFTER).shows("o2", "running")
    assert call(history).state is OPEN


def test_a_requeue_that_expires_unlanded_falls_back_to_a_new_submission() -> None:
    job = preempted().later(AFTER).shows("o1", "failed").job()
    assert job.resubmit is not None
    assert (job.resubmit.trigger, job.resubmit.cause) == ("rec:1.1:f", Cause.PREEMPTED)


def test_a_fall_back_is_not_counted_in_the_budget_a_second_time() -> None:
    history = preempted().later(AFTER).shows("o1", "failed", cause="preempted")
    history.later(30).authorized(2, "rec:1.1:f", cause="preempted")
    assert history.job().spent == {Cause.PREEMPTED: 1}


def test_nothing_falls_back_after_an_outcome_or_beside_a_persons_resubmit() -> None:
    cancelled = preempted().wants("cancel").later(AFTER).shows("o1", "failed")
    assert cancelled.job().resubmit is None
    asked = preempted().wants("resubmit", "mine").later(AFTER).shows("o1", "failed")
    resubmit = asked.job().resubmit
    assert resubmit is not None
    assert resubmit.trigger == "ctl:mine"


def test_a_persons_requeue_is_pending_no_more_once_its_call_is_recorded() -> None:
    history = History(capabilities=FULL).running().wants("requeue", "r")
    assert history.job().requeue is not None
    job = history.requeue_call(trigger="ctl:r").job()
    assert job.requeue is None
    assert job.spent == {}


def test_a_plans_requeue_leaves_a_persons_pending() -> None:
    history = History(capabilities=FULL).ended().wants("requeue", "r").requeue_call()
    assert history.job().requeue is not None


def test_a_judged_call_is_kept_apart_once_nothing_can_change_it() -> None:
    job = preempted().later(AFTER).shows("o1", "failed").job()
    assert job.calls == []
    assert [one.state for one in job.done_calls] == [EXPIRED]


# --- hold -----------------------------------------------------------------------------------


def test_a_hold_call_has_landed_once_the_object_is_seen_pending_and_held() -> None:
    assert call(held().later(5).shows("o1", "pending", held=True)).state is LANDED


@pytest.mark.parametrize(
    ("state", "fields"),
    [("running", {"held": True}), ("pending", {"held": False}), ("failed", {})],
)
def test_a_hold_call_has_not_landed_by(state: str, fields: dict[str, bool]) -> None:
    assert call(held().later(5).shows("o1", state, **fields)).state is OPEN


def test_a_hold_seen_by_a_find_from_before_the_call_is_not_the_calls() -> None:
    history = held().later(5)
    history.observed(history.sight("o1", "pending", held=True), taken=20)
    assert call(history).state is OPEN


def test_a_hold_call_has_landed_once_restarts_grew() -> None:
    history = History(capabilities=FULL).running().wants("hold").hold_call().later(5)
    assert call(history.shows("o1", "pending", restarts=1)).state is LANDED


def test_a_hold_call_expires_like_a_requeue_call() -> None:
    assert call(held().later(AFTER - 1).shows("o1", "running")).state is OPEN
    assert call(held().later(AFTER).shows("o1", "running")).state is EXPIRED


def test_a_landed_hold_stays_landed_when_it_is_lifted_again() -> None:
    history = held().later(5).shows("o1", "pending", held=True).wants("release")
    assert call(history.later(5).shows("o1", "pending")).state is LANDED
    assert call(history.later(5).shows("o1", "running")).state is LANDED


def test_a_landed_hold_that_restarts_is_open_again_while_its_object_runs() -> None:
    history = History(capabilities=FULL).running().wants("hold").hold_call()
    history.later(5).shows("o1", "pending", held=True).later(5).shows("o1", "running")
    assert call(history).state is OPEN


def test_an_open_hold_call_counts_as_a_requeue_only_where_holding_restarts() -> None:
    plain = held().job()
    assert rules.open_calls(plain)
    assert rules.open_requeue_calls(plain) == []
    restarting = History(capabilities=FULL).running().hold_call().job()
    assert rules.open_requeue_calls(restarting)


def test_a_recovery_hold_expired_call_does_not_fall_back() -> None:
    assert held().later(AFTER).shows("o1", "running").job().resubmit is None


# --- whose hold -----------------------------------------------------------------------------


def ours(history: History) -> bool:
    return history.job().objects["o1"].ours_held


def test_the_gates_hold_and_our_calls_hold_are_ours() -> None:
    assert ours(History().started())
    assert ours(held())
    assert ours(held().later(5).shows("o1", "pending", held=True))


def test_a_hold_after_the_gate_was_open_for_good_is_not_ours_f25() -> None:
    history = History().started().released().later(5).shows("o1", "pending")
    history.later(SAVE_WINDOW_S).shows("o1", "pending")
    assert not ours(history)
    assert not ours(history.later(5).shows("o1", "pending", held=True))


def test_a_hold_that_a_crash_of_the_scheduler_can_have_put_back_is_ours() -> None:
    """It forgot its last seconds, and the opening of the gate with them."""
    history = History().started().released().later(5).shows("o1", "pending")
    assert ours(history.later(SAVE_WINDOW_S - 1).shows("o1", "pending", held=True))
    without_a_window = History(save_window_s=0).started().released().later(5)
    assert not ours(without_a_window.shows("o1", "pending"))


def test_a_hold_after_our_call_expired_is_not_ours_f25() -> None:
    history = held().later(AFTER).shows("o1", "pending")
    assert not ours(history)
    assert not ours(history.later(5).shows("o1", "pending", held=True))


def test_an_object_first_seen_held_is_the_gates_unless_it_is_foreign() -> None:
    assert ours(History().authorized().attempt().shows("o1", "pending", held=True))
    foreign = History().authorized().shows("o1", "pending", held=True)
    assert not ours(foreign)


def test_clusters_that_restart_to_hold_say_so() -> None:
    assert rules.holding_restarts(History(capabilities=FULL).header.declarations)
    assert not rules.holding_restarts(History(capabilities=GATED).header.declarations)
    assert Capability.HOLD_RUNNING not in GATED
