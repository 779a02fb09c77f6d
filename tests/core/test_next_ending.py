"""Rows 6 to 8 of Next, and the settled predicate with its reasons (protocol §5, §6)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dispatch.core.settled import unsettled_because
from dispatch.core.steps import Append, Next, Stop
from dispatch.record import fact as facts
from dispatch.record.names import Capability, UnmatchedPolicy
from tests.core.histories import (
    CALL_BOUND_S,
    FULL,
    GATED,
    NODE_LOSS_WINDOW_S,
    OTHER_DIGEST,
    SAVE_WINDOW_S,
    SKEW_S,
    UNGATED,
    History,
    plan,
    t,
)

DEADLINE = CALL_BOUND_S + SKEW_S


def stops(upcoming: Next) -> list[str]:
    return [step.ref for step in upcoming.steps if isinstance(step, Stop)]


# --- row 6 ----------------------------------------------------------------------------------


def retired() -> History:
    two = History().authorized().attempt().shows("o1").shows("o2")
    return two.canonical("o2").retired("o1")


def expired() -> History:
    pending = History().started().released().later(5).shows("o1", "pending", cause="no_capacity")
    return pending.expired()


def cancelled() -> History:
    return History().running().wants("cancel")


def given_up() -> History:
    return History().running().wants("give_up")


def older() -> History:
    """A crash undid the end of submission 1's object, after submission 2 was authorized."""
    return History().ended().later(30).authorized(2).later(5).shows("o1", "running")


def resubmitted() -> History:
    return History().running().wants("resubmit")


def requeued() -> History:
    return History().running().wants("requeue")


def held() -> History:
    return History().running().wants("hold")


def held_pending_where_nothing_can_be_held() -> History:
    bare = History(capabilities=()).started().later(5).shows("o1", "pending")
    return bare.wants("hold")


@pytest.mark.parametrize(
    "situation",
    [
        retired,
        expired,
        cancelled,
        given_up,
        older,
        resubmitted,
        requeued,
        held,
        held_pending_where_nothing_can_be_held,
    ],
    ids=lambda situation: situation.__name__,
)
def test_row_6_stops_what_should_not_run(situation: Callable[[], History]) -> None:
    history = situation()
    objects = history.job().objects
    shown = [history.sight(ref, known.run.state.value) for ref, known in objects.items()]
    if situation is expired:
        shown = [history.sight("o1", "pending", cause="no_capacity")]
    assert stops(history.next(*shown)) == ["o1"]


def test_row_6_leaves_what_runs_as_it_should() -> None:
    history = History().running()
    assert stops(history.next(history.sight())) == []


@pytest.mark.parametrize(
    "history",
    [
        History().cancelled_and_stopped(),
        History().shows("o1", "running", n=2).escalated("foreign/o1").wants("cancel"),
        History().running().wants("cancel").wants("abandon", target="o1"),
    ],
    ids=["ended", "foreign", "abandoned"],
)
def test_row_6_never_stops_what_is_ended_foreign_or_abandoned(history: History) -> None:
    run = history.job().objects["o1"].run
    cause = run.cause.value if run.cause else None
    assert stops(history.next(history.sight("o1", run.state.value, cause=cause))) == []


def test_row_6_leaves_a_running_object_that_the_cluster_can_hold_or_requeue() -> None:
    history = History(capabilities=FULL).running().wants("hold")
    assert stops(history.next(history.sight())) == []
    in_place = History(capabilities=FULL, plan=plan(in_place=True)).running().wants("requeue")
    assert stops(in_place.next(in_place.sight())) == []


def test_row_6_stops_a_requeued_object_where_the_plan_does_not_ask_for_in_place() -> None:
    history = History(capabilities=FULL).running().wants("requeue")
    assert stops(history.next(history.sight())) == ["o1"]


def test_row_6_leaves_an_object_that_is_held_already() -> None:
    history = History().started().wants("hold")
    assert stops(history.next(history.sight("o1", "pending", held=True))) == []


def test_row_6_leaves_an_object_behind_the_gate_where_nothing_else_could_hold_it() -> None:
    history = History(capabilities=(Capability.GATED_START,)).started().wants("hold")
    assert stops(history.next(history.sight("o1", "pending", held=True))) == []


def test_row_6_leaves_an_object_whose_canonical_is_not_chosen_yet() -> None:
    history = History().authorized().attempt().shows("o1", "running")
    assert stops(history.next(history.sight())) == []


def test_row_6_does_not_wait_for_an_open_hold_call() -> None:
    """It was held while pending, and runs before the call lands."""
    history = History().started().released().later(5).shows("o1", "pending").wants("hold")
    history.hold_call().later(5).shows("o1", "running")
    assert stops(history.next(history.sight())) == ["o1"]


def test_row_6_is_repeated_until_the_end_is_seen() -> None:
    history = cancelled()
    for _ in range(3):
        assert stops(history.later(30).next(history.sight())) == ["o1"]


def told(upcoming: Next) -> list[str]:
    return [
        fact.key
        for step in upcoming.steps
        if isinstance(step, Append)
        for fact in step.facts
        if isinstance(fact, facts.Escalated)
    ]


def test_row_6_tells_a_person_once_of_what_will_not_stop() -> None:
    history = cancelled().later(599)
    assert told(history.next(history.sight())) == []
    upcoming = history.later(1).next(history.sight())
    assert told(upcoming) == ["stop_failing/o1"]
    history.escalated("stop_failing/o1")
    assert told(history.next(history.sight())) == []


def test_stop_failing_counts_from_when_it_had_to_stop_not_from_an_older_hold() -> None:
    """It was held for an hour; the resubmit is new."""
    held_long = History().started().released().later(5).shows("o1", "pending").wants("hold")
    held_long.hold_call().later(5).shows("o1", "pending", held=True).later(3_600)
    history = held_long.wants("resubmit")
    assert told(history.next(history.sight("o1", "pending", held=True))) == []


def test_stop_failing_counts_from_when_it_was_seen_for_what_arrives_late() -> None:
    late = History().authorized().attempt().wants("cancel").later(3_600).shows("o1", "pending")
    assert told(late.canonical().next(late.sight("o1", "pending"))) == []


def test_stop_failing_of_a_running_object_under_a_hold_counts_from_the_hold() -> None:
    history = held().later(600)
    assert told(history.next(history.sight())) == ["stop_failing/o1"]


def test_stop_failing_under_a_hold_counts_from_the_start_of_what_began_to_run_since() -> None:
    history = History().started().released().later(5).shows("o1", "pending").wants("hold")
    history.later(700).shows("o1", "running", started_at=690)
    assert told(history.next(history.sight("o1", "running", started_at=690))) == []


def test_one_object_that_will_not_stop_is_told_at_a_time() -> None:
    two = History().authorized().attempt().shows("o1").shows("o2")
    history = two.canonical("o1").retired("o2").wants("cancel").later(600)
    assert stops(history.next(history.sight(), history.sight("o2"))) == ["o1", "o2"]
    assert told(history.next(history.sight(), history.sight("o2"))) == ["stop_failing/o1"]


# --- row 7 ----------------------------------------------------------------------------------


def test_row_7_settles_once_nothing_is_left() -> None:
    history = History().cancelled_and_stopped().later(SAVE_WINDOW_S)
    (step,) = history.next(history.sight("o1", "failed", cause="stopped")).steps
    (fact,) = step.facts  # type: ignore[union-attr]
    assert step.row == "7"
    assert isinstance(fact, facts.Settled)
    history.add(fact).job()


def test_row_7_needs_an_outcome_and_a_complete_find() -> None:
    history = History().cancelled_and_stopped().later(SAVE_WINDOW_S)
    assert history.next(complete=False).steps == ()
    assert History().ended().later(60).wants("hold").next().steps == ()


def test_row_7_judges_by_when_the_find_began() -> None:
    history = History().cancelled_and_stopped().later(500)
    assert history.next(taken=20 + SAVE_WINDOW_S - 1).steps == ()
    assert [one.row for one in history.next(taken=20 + SAVE_WINDOW_S).steps] == ["7"]


def test_a_job_cancelled_before_it_began_settles_on_the_first_find() -> None:
    history = History().wants("cancel")
    assert [one.row for one in history.next().steps] == ["7"]


# --- row 8 ----------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["cancel", "give_up"])
def test_row_8_nothing_is_begun_after_an_outcome(end: str) -> None:
    fresh = History().authorized().wants(end)
    assert [step.row for step in fresh.decide().next.steps] in ([], ["7"])
    for history in (History().running(), History().ended(), History().started()):
        history.wants(end)
        run = history.job().objects["o1"].run
        seen = history.sight("o1", run.state.value, held=run.held)
        assert {step.row for step in history.next(seen).steps} <= {"1", "6", "7"}


# --- the reasons ----------------------------------------------------------------------------


def reasons(history: History, *, taken: float | None = None) -> list[str]:
    began = history.now if taken is None else taken
    return unsettled_because(history.job(), t(began), t(history.now))


def test_a_job_is_unsettled_without_an_outcome() -> None:
    assert reasons(History()) == ["there is no outcome"]


def test_a_job_is_unsettled_while_a_call_that_restarts_may_land() -> None:
    history = History(capabilities=FULL).ended().requeue_call().wants("cancel").later(60)
    assert reasons(history) == ["the requeue call on o1 may still land"]
    assert reasons(history.later(DEADLINE), taken=20 + DEADLINE - 1) == [
        "the requeue call on o1 may still land"
    ]
    assert reasons(history, taken=20 + DEADLINE) == []


def test_a_hold_call_blocks_settling_only_where_holding_restarts() -> None:
    for capabilities, expected in ((GATED, 0), (FULL, 1)):
        history = History(capabilities=capabilities).started().released().later(5)
        history.shows("o1", "pending").hold_call().wants("cancel")
        history.later(5).shows("o1", "failed", cause="stopped").later(60)
        assert len(reasons(history)) == expected


def test_a_call_that_seems_to_have_landed_blocks_settling_until_its_deadline() -> None:
    """That restarts grew may be somebody else's doing, and ours still lands then."""
    history = History(capabilities=FULL).ended().requeue_call().later(5)
    history.shows("o1", "failed", restarts=1).wants("cancel").later(SAVE_WINDOW_S)
    assert history.now < 20 + CALL_BOUND_S
    assert reasons(history) == ["the requeue call on o1 may still land"]
    assert reasons(history.later(DEADLINE), taken=20 + DEADLINE) == []


def test_a_job_is_unsettled_while_an_object_lives() -> None:
    assert reasons(cancelled()) == ["object o1 was last seen running"]


def test_a_job_is_unsettled_within_windows_and_the_save_window() -> None:
    lost = History().running().shows("o1", "failed", cause="node_lost", lost_at=10)
    history = lost.wants("cancel").later(60)
    assert reasons(history) == ["object o1 may still execute somewhere"]
    history.at(10 + NODE_LOSS_WINDOW_S + SKEW_S)
    assert reasons(history, taken=29) == ["the end of o1 is too fresh to be safe from a crash"]
    assert reasons(history, taken=30) == []


def test_a_job_is_unsettled_beside_a_foreign_object_until_it_is_disposed() -> None:
    history = History().shows("x", "running", spec_digest=OTHER_DIGEST).wants("cancel")
    assert reasons(history) == ["foreign object x isn't disposed"]
    assert reasons(history.later(60).shows("x", "failed")) == []


def test_an_abandoned_object_foreign_or_not_blocks_nothing() -> None:
    ours = cancelled().wants("abandon", target="o1")
    assert reasons(ours) == []
    foreign = History().shows("x", "running", generation=1).wants("cancel")
    assert reasons(foreign.wants("abandon", target="x")) == []


def test_a_job_is_unsettled_while_an_attempt_is_unknown() -> None:
    history = History().authorized().attempt().wants("cancel").later(60)
    assert reasons(history) == ["attempt 1.1 may still land"]


def test_a_start_that_a_person_vouched_for_is_waited_for_all_the_same() -> None:
    """It may have landed unseen, or land yet; a look begun after its deadline shows it."""
    history = History().authorized().attempt().wants("cancel").later(5)
    history = history.wants("abandon", target="1.1").later(60)
    told = ["attempt 1.1, which a person vouched for, may have landed since that look"]
    over = DEADLINE
    assert reasons(history, taken=over - 1) == told
    assert reasons(history, taken=over) == []


def test_an_unmatched_attempt_blocks_settling_only_under_manual() -> None:
    for policy in UnmatchedPolicy:
        history = History(unmatched=policy).authorized().attempt().later(DEADLINE).unmatched()
        expected = (
            ["attempt 1.1 is unmatched and waits for a person"]
            if policy is UnmatchedPolicy.MANUAL
            else []
        )
        assert reasons(history.wants("cancel")) == expected


def test_all_reasons_are_given_at_once() -> None:
    two = History().authorized().attempt().shows("o1").shows("x", "running", generation=1)
    assert reasons(two) == [
        "there is no outcome",
        "object o1 was last seen running",
        "foreign object x isn't disposed",
    ]


def test_the_cancel_windows_of_f37_all_settle() -> None:
    """Cancelled before Start, in flight, before it is seen, pending, and after it ended."""
    before = History().authorized().wants("cancel")
    assert reasons(before) == []
    in_flight = History().authorized().attempt().wants("cancel").later(DEADLINE).unmatched()
    assert reasons(in_flight) == []
    unseen = History().authorized().attempt().replied().wants("cancel").later(10)
    unseen.shows("o1", "gone").later(SAVE_WINDOW_S)
    assert reasons(unseen) == []
    pending = History(capabilities=UNGATED).started().later(5).shows("o1", "pending")
    pending.wants("cancel").later(5).shows("o1", "failed", cause="stopped").later(SAVE_WINDOW_S)
    assert reasons(pending) == []
    ended = History().ended().wants("cancel").later(SAVE_WINDOW_S)
    assert reasons(ended) == []


def test_a_late_object_after_a_cancel_is_found_retired_and_waited_for_f37() -> None:
    history = History().authorized().attempt().wants("cancel").later(30)
    late = history.sight("o1", "pending")
    decision = history.decide(late)
    assert decision.rows == ("1", "4", "6")
    history.add(*decision.facts)
    assert reasons(history) == ["object o1 was last seen pending"]
    assert Capability.GATED_START in GATED
