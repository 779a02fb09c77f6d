"""Rows 13 to 17 of Next: recovery by the plan, new submissions, Starts (protocol §6)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dispatch.core.job import Job
from dispatch.core.next import next_steps
from dispatch.core.recover import MAX_AVOIDED
from dispatch.core.steps import Append, Next, Requeue, Start, Step
from dispatch.record import fact as facts
from dispatch.record.header import Adjust, Rule
from dispatch.record.names import Action, Capability, Cause, Outcome, UnmatchedPolicy
from tests.core.histories import (
    BACK_OFF_S,
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
from tests.core.test_next_calls import as_recorded, quiet, rows

DEADLINE = CALL_BOUND_S + SKEW_S


def authorized(upcoming: Next) -> facts.Authorized:
    (step,) = upcoming.steps
    assert isinstance(step, Append)
    (fact,) = step.facts
    assert isinstance(fact, facts.Authorized)
    return fact


# --- row 13: the plan's answers -------------------------------------------------------------


def preempted(rule: Rule, capabilities: tuple[Capability, ...] = GATED) -> History:
    history = History(plan=plan(preempted=rule), capabilities=capabilities).running().later(10)
    return history.shows("o1", "failed", cause="preempted", nodes=("n1", "n2"), reason="by boss")


def test_row_13_fails_where_the_plan_says_so() -> None:
    (step,) = quiet(preempted(Rule(action=Action.FAIL))).steps
    (fact,) = step.facts  # type: ignore[union-attr]
    assert step.row == "13"
    assert isinstance(fact, facts.OutcomeFact)
    assert (fact.state, fact.cause) == (Outcome.FAILED, Cause.PREEMPTED)
    assert fact.detail == "by boss"


def test_row_13_asks_a_person_where_the_plan_says_so_or_nothing() -> None:
    (step,) = quiet(History().ended()).steps
    (fact,) = step.facts  # type: ignore[union-attr]
    assert isinstance(fact, facts.RecoveryHold)
    assert (step.row, fact.trigger, fact.cause) == ("13", "rec:1.1:h", Cause.APP_ERROR)


@pytest.mark.parametrize("action", [Action.RESUBMIT, Action.REQUEUE])
def test_row_13_submits_again_once_the_submission_is_closed(action: Action) -> None:
    history = preempted(Rule(action=action)).later(SAVE_WINDOW_S - 1)
    assert quiet(history).steps == ()
    fact = authorized(quiet(history.later(1)))
    assert (fact.n, fact.trigger, fact.cause) == (2, "rec:1.1", Cause.PREEMPTED)
    assert fact.adjust is None
    history.add(fact).job()


def test_row_13_closes_a_submission_on_a_complete_find_only() -> None:
    history = preempted(Rule(action=Action.RESUBMIT)).later(SAVE_WINDOW_S)
    assert history.next(*as_recorded(history), complete=False).steps == ()


def test_row_13_requeues_in_place_where_plan_and_cluster_allow() -> None:
    history = preempted(Rule(action=Action.REQUEUE, in_place=True), FULL)
    (step,) = quiet(history).steps
    assert isinstance(step, Requeue)
    assert (step.row, step.fact.trigger, step.fact.cause) == ("13", "rec:1.1", Cause.PREEMPTED)
    assert step.fact.deadline == t(history.now + CALL_BOUND_S)


@pytest.mark.parametrize(
    "history",
    [
        preempted(Rule(action=Action.REQUEUE, in_place=True), GATED),
        preempted(Rule(action=Action.REQUEUE, in_place=False), FULL),
        preempted(Rule(action=Action.RESUBMIT, in_place=True), FULL),
        preempted(Rule(action=Action.REQUEUE, in_place=True), FULL).wants("abandon", target="o1"),
    ],
    ids=["not declared", "not asked for", "resubmit", "abandoned"],
)
def test_row_13_requeues_by_a_new_submission_otherwise(history: History) -> None:
    assert authorized(quiet(history.later(60))).trigger == "rec:1.1"


def test_row_13_requeues_in_place_once_every_other_object_is_stopped() -> None:
    rule = Rule(action=Action.REQUEUE, in_place=True)
    history = History(plan=plan(preempted=rule), capabilities=FULL)
    two = history.authorized().attempt().shows("o1").shows("o2").canonical("o1").retired("o2")
    two.later(10).shows("o1", "failed", cause="preempted")
    assert rows(quiet(two)) == ["6"]
    two.shows("o2", "failed", cause="stopped").later(SAVE_WINDOW_S - 1)
    assert rows(quiet(two)) == []
    assert rows(quiet(two.later(1))) == ["13"]


def test_row_13_requeues_nothing_in_place_that_is_gone_or_expired() -> None:
    rule = Rule(action=Action.REQUEUE, in_place=True)
    gone = History(plan=plan(lost=rule), capabilities=FULL).running().later(5).shows("o1", "gone")
    assert authorized(quiet(gone.later(400))).cause is Cause.LOST
    waited = History(plan=plan(no_capacity=rule), capabilities=FULL).started().later(5)
    waited.shows("o1", "pending", cause="no_capacity", held=True).expired().later(5)
    waited.shows("o1", "failed", cause="stopped").later(60)
    assert authorized(quiet(waited)).cause is Cause.NO_CAPACITY


def test_row_13_counts_budgets_and_then_does_what_follows_the_limit() -> None:
    once = preempted(Rule(action=Action.RESUBMIT, limit=1, after_limit=Action.FAIL)).later(60)
    once.authorized(2, "rec:1.1", cause="preempted").attempt(2).replied(2, ref="o2")
    once.canonical("o2", 2).released("o2").later(10).shows("o2", "failed", n=2, cause="preempted")
    (step,) = quiet(once).steps
    (fact,) = step.facts  # type: ignore[union-attr]
    assert isinstance(fact, facts.OutcomeFact)
    assert fact.detail == "preempted: 1 of 1 recoveries used"


def test_row_13_says_why_it_asks_after_the_limit() -> None:
    (step,) = quiet(preempted(Rule(action=Action.RESUBMIT, limit=0))).steps
    (fact,) = step.facts  # type: ignore[union-attr]
    assert isinstance(fact, facts.RecoveryHold)
    assert fact.detail == "preempted: 0 of 0 recoveries used; by boss"


def test_budgets_are_counted_by_cause() -> None:
    history = preempted(Rule(action=Action.RESUBMIT)).later(60)
    history.authorized(2, "rec:1.1", cause="preempted")
    assert history.job().spent == {Cause.PREEMPTED: 1}
    assert Cause.LOST not in history.job().spent


def test_row_13_waits_for_the_back_off() -> None:
    history = preempted(Rule(action=Action.RESUBMIT, backoff_s=100))
    assert quiet(history.at(20 + 99)).steps == ()
    (waiting,) = [one for one in quiet(history).waiting if one.what == "back_off"]
    assert waiting.until == t(120)
    assert authorized(quiet(history.at(120))).n == 2


def test_row_13_waits_for_the_node_loss_window_as_of_the_find() -> None:
    history = History(plan=plan(node_lost=Rule(action=Action.FAIL))).running().later(10)
    history.shows("o1", "failed", cause="node_lost", lost_at=15).at(15 + 300 + SKEW_S + 50)
    shown = as_recorded(history)
    assert history.next(*shown, taken=15 + NODE_LOSS_WINDOW_S + SKEW_S - 1).steps == ()
    assert rows(history.next(*shown, taken=15 + NODE_LOSS_WINDOW_S + SKEW_S)) == ["13"]


@pytest.mark.parametrize(
    "situation",
    [
        lambda: preempted(Rule(action=Action.FAIL)).wants("hold"),
        lambda: preempted(Rule(action=Action.FAIL)).recovery_hold("preempted"),
        lambda: preempted(Rule(action=Action.FAIL)).wants("requeue"),
        lambda: preempted(Rule(action=Action.FAIL)).wants("resubmit"),
        lambda: preempted(Rule(action=Action.FAIL), FULL).requeue_call(),
        lambda: preempted(Rule(action=Action.FAIL)).hold_call(),
        lambda: (
            preempted(Rule(action=Action.FAIL)).shows("x", "running", n=9).escalated("foreign/x")
        ),
        lambda: preempted(Rule(action=Action.FAIL)).wants("cancel"),
        lambda: History(plan=plan(Action.FAIL)).running(),
        lambda: History(plan=plan(Action.FAIL)).authorized().attempt(),
    ],
    ids=[
        "held",
        "asked",
        "requeue pending",
        "resubmit pending",
        "requeue call",
        "hold call",
        "foreign",
        "cancelled",
        "running",
        "no canonical",
    ],
)
def test_row_13_decides_nothing_yet(situation: Callable[[], History]) -> None:
    assert "13" not in rows(quiet(situation()))


def test_row_13_simply_submits_again_what_vanished_behind_the_gate() -> None:
    history = History(plan=plan(Action.FAIL)).started().later(10).shows("o1", "gone").later(20)
    fact = authorized(quiet(history))
    assert (fact.trigger, fact.cause) == ("rec:1.1", None)
    assert history.add(fact).job().spent == {}


@pytest.mark.parametrize(
    "situation",
    [
        lambda: History(plan=plan(Action.FAIL), capabilities=UNGATED).started(),
        lambda: History(plan=plan(Action.FAIL)).started().released(),
        lambda: History(plan=plan(Action.FAIL)).started().shows("o1", "running"),
        lambda: History(plan=plan(Action.FAIL)).started().shows("o1", "pending", restarts=1),
        lambda: History(plan=plan(Action.FAIL)).started().shows("o1", "pending", started_at=0),
        lambda: History(plan=plan(Action.FAIL)).started().shows("o1", "pending", exit_code=1),
        lambda: History(plan=plan(Action.FAIL)).started().wants("abandon", target="o1"),
    ],
    ids=["no gate", "released", "ran", "restarted", "began", "exited", "abandoned"],
)
def test_row_13_asks_the_plan_about_what_may_have_run(situation: Callable[[], History]) -> None:
    history = situation().later(10)
    restarts = history.job().objects["o1"].run.restarts
    history.shows("o1", "gone", restarts=restarts).later(500)
    (step,) = quiet(history).steps
    assert isinstance(step.facts[0], facts.OutcomeFact)  # type: ignore[union-attr]


def test_row_13_asks_the_plan_about_what_expired_behind_the_gate_and_vanished() -> None:
    history = History(plan=plan(Action.FAIL)).started().later(5)
    history.shows("o1", "pending", held=True, cause="no_capacity").expired().later(5)
    history.shows("o1", "gone", cause="no_capacity").later(60)
    (step,) = quiet(history).steps
    assert step.facts[0].cause is Cause.NO_CAPACITY  # type: ignore[union-attr]
    assert isinstance(step.facts[0], facts.OutcomeFact)  # type: ignore[union-attr]


def test_row_13_counts_an_abandoned_run_as_lost_and_does_not_wait_for_it() -> None:
    history = History(plan=plan(lost=Rule(action=Action.RESUBMIT))).running()
    history.wants("abandon", target="o1")
    fact = authorized(quiet(history))
    assert (fact.n, fact.cause) == (2, Cause.LOST)


def test_row_13_takes_the_recorded_cause_of_an_abandoned_run_that_ended() -> None:
    history = preempted(Rule(action=Action.FAIL)).wants("abandon", target="o1")
    (step,) = quiet(history).steps
    assert step.facts[0].cause is Cause.PREEMPTED  # type: ignore[union-attr]


def test_the_reason_is_the_run_as_fold_numbers_it_not_the_schedulers_restarts() -> None:
    history = History(plan=plan(Action.RESUBMIT)).running().later(5)
    history.shows("o1", "failed", restarts=7).at(15 + 300 + SKEW_S)
    assert authorized(quiet(history)).trigger == "rec:1.2"


def test_a_run_whose_reason_is_used_is_not_answered_twice() -> None:
    for action in Action:
        history = preempted(Rule(action=action, in_place=True), FULL).later(60)
        job = history.job()
        job.triggers |= {"rec:1.1", "rec:1.1:h"}
        upcoming = [
            step.row
            for step in _next_of(history, job)
            if not isinstance(step, Append) or not isinstance(step.facts[0], facts.OutcomeFact)
        ]
        assert upcoming == []


def _next_of(history: History, job: Job) -> tuple[Step, ...]:
    return next_steps(job, history.sees(*as_recorded(history)), t(history.now)).steps


# --- what the plan changes ------------------------------------------------------------------


def test_memory_grows_with_every_recovery_that_asks_for_it() -> None:
    rule = Rule(action=Action.RESUBMIT, memory_factor=1.5)
    history = History(plan=plan(out_of_memory=rule)).running().later(10)
    history.shows("o1", "failed", cause="out_of_memory").later(60)
    first = authorized(quiet(history))
    assert first.adjust == Adjust(memory_mb_per_node=1500)
    history.add(first).attempt(2).replied(2, ref="o2").canonical("o2", 2).released("o2").later(10)
    history.shows("o2", "failed", n=2, cause="out_of_memory").later(60)
    assert authorized(quiet(history)).adjust == Adjust(memory_mb_per_node=2250)


def test_memory_that_the_spec_leaves_open_stays_open() -> None:
    rule = Rule(action=Action.RESUBMIT, memory_factor=2.0)
    spec = History().header.spec.model_copy(update={"memory_mb_per_node": None})
    history = History(plan=plan(out_of_memory=rule), spec=spec).running().later(10)
    history.shows("o1", "failed", cause="out_of_memory").later(60)
    assert authorized(quiet(history)).adjust is None


def test_nodes_to_avoid_gather_and_the_oldest_give_way_f36() -> None:
    rule = Rule(action=Action.RESUBMIT, avoid_node=True)
    history = preempted(rule).later(60)
    assert authorized(quiet(history)).adjust == Adjust(avoid_nodes=("n1", "n2"))
    full = (*(f"m{i}" for i in range(MAX_AVOIDED - 1)), "n1")
    history.authorized(2, "rec:1.1", cause="preempted", adjust=Adjust(avoid_nodes=full))
    history.attempt(2).replied(2, ref="o2").canonical("o2", 2).released("o2").later(10)
    history.shows("o2", "failed", n=2, cause="preempted", nodes=("n1", "n9")).later(60)
    adjust = authorized(quiet(history)).adjust
    assert adjust is not None
    assert adjust.avoid_nodes == (*full[1:], "n9")


def test_what_a_plan_changed_stays_when_a_person_submits_again() -> None:
    before = Adjust(memory_mb_per_node=1500)
    history = History().running().wants("resubmit").later(5).shows("o1", "failed").later(60)
    history.authorized(2, "ctl:resubmit", adjust=before).wants("resubmit", "again")
    assert authorized(quiet(history)).adjust == before


# --- row 14 ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["resubmit", "requeue"])
def test_row_14_begins_the_submission_a_person_asked_for(kind: str) -> None:
    history = History().running().wants(kind, "w").later(5).shows("o1", "failed", cause="stopped")
    assert quiet(history.later(SAVE_WINDOW_S - 1)).steps == ()
    fact = authorized(quiet(history.later(1)))
    assert (fact.n, fact.trigger, fact.cause) == (2, "ctl:w", None)


def test_row_14_asks_for_a_complete_find_and_no_foreign_object() -> None:
    history = History().ended().wants("resubmit").later(60)
    assert history.next(*as_recorded(history), complete=False).steps == ()
    history.shows("x", "running", n=8).escalated("foreign/x")
    assert quiet(history).steps == ()


def test_row_14_waits_for_a_call_that_may_start_the_old_object_again() -> None:
    history = History(capabilities=FULL).ended().requeue_call().wants("resubmit").later(60)
    assert quiet(history).steps == ()
    assert rows(history.at(20 + DEADLINE).next(*as_recorded(history))) == ["1"]


def test_row_14_begins_it_under_a_hold_but_starts_nothing() -> None:
    history = History().ended().wants("hold").wants("resubmit").later(60)
    fact = authorized(quiet(history))
    assert quiet(history.add(fact)).steps == ()


def test_row_14_needs_no_object_where_no_attempt_can_land() -> None:
    history = History().authorized().attempt().refused().wants("resubmit")
    assert authorized(quiet(history)).n == 2


# --- row 15 ---------------------------------------------------------------------------------


def test_row_15_authorizes_the_first_submission() -> None:
    fact = authorized(History().next())
    assert (fact.n, fact.trigger, fact.cause, fact.adjust) == (1, "initial", None, None)


def test_row_15_waits_under_a_hold_and_beside_a_foreign_object() -> None:
    assert History().wants("hold").next().steps == ()
    history = History().shows("x", "running").escalated("foreign/x")
    assert quiet(history).steps == ()


def test_row_15_answers_a_wish_for_another_run_that_came_first() -> None:
    fact = authorized(History().wants("resubmit").next())
    assert fact.trigger == "initial"


# --- row 16 ---------------------------------------------------------------------------------


def test_row_16_records_an_attempt_and_starts() -> None:
    history = History().authorized()
    (step,) = history.next().steps
    assert isinstance(step, Start)
    assert (step.row, step.fact.n, step.fact.a) == ("16", 1, 1)
    assert step.fact.deadline == t(CALL_BOUND_S)


def test_row_16_starts_nothing_without_a_complete_find_in_this_pass() -> None:
    assert History().authorized().next(complete=False).steps == ()


@pytest.mark.parametrize(
    "situation",
    [
        lambda: History().authorized().wants("hold"),
        lambda: History().authorized().shows("x", "running", n=3).escalated("foreign/x"),
        lambda: History().authorized().attempt(),
        lambda: History().authorized().attempt().replied(),
        lambda: History().authorized().attempt().refused().shows("o1", "pending").retired(),
    ],
    ids=["held", "foreign", "unknown attempt", "started", "retired object lives"],
)
def test_row_16_starts_nothing(situation: Callable[[], History]) -> None:
    history = situation().later(60)
    assert "16" not in rows(quiet(history))


@pytest.mark.parametrize("kind", ["requeue", "resubmit"])
def test_row_16_gives_way_to_the_submission_a_person_asked_for(kind: str) -> None:
    assert rows(quiet(History().authorized().wants(kind))) == ["14"]


@pytest.mark.parametrize("dispose", ["ended", "abandoned"])
def test_row_16_goes_on_once_a_retired_object_is_ended_or_abandoned(dispose: str) -> None:
    history = History().authorized().attempt().refused().shows("o1", "pending").retired().later(30)
    if dispose == "ended":
        history.shows("o1", "failed", cause="stopped")
    else:
        history.wants("abandon", target="o1")
    assert rows(quiet(history)) == ["16"]


def test_row_16_waits_between_a_refusal_and_the_next_attempt() -> None:
    history = History().authorized().attempt().refused(detail="busy")
    assert quiet(history.at(BACK_OFF_S + SKEW_S - 1)).steps == ()
    (waiting,) = quiet(history).waiting
    assert (waiting.what, waiting.until) == ("back_off", t(BACK_OFF_S + SKEW_S))
    assert history.at(60).next(taken=BACK_OFF_S + SKEW_S - 1).steps == ()
    (step,) = quiet(history).steps
    assert isinstance(step, Start)
    assert step.fact.a == 2


def test_row_16_tries_again_at_once_after_an_unmatched_attempt() -> None:
    history = History().authorized().attempt().later(DEADLINE).unmatched()
    assert rows(quiet(history)) == ["16"]


def test_row_16_leaves_an_unmatched_attempt_to_a_person_under_manual() -> None:
    manual = History(unmatched=UnmatchedPolicy.MANUAL).authorized().attempt().later(DEADLINE)
    manual.unmatched().escalated("unmatched/1.1")
    assert quiet(manual).steps == ()
    assert rows(quiet(manual.wants("abandon", target="1.1"))) == ["16"]


def test_row_16_does_not_count_what_was_not_sent_or_met_a_taken_name() -> None:
    history = History(start_retries=0).authorized().attempt().not_sent().later(60)
    history.attempt(1, 2).refused(1, 2, "name_taken").later(60)
    (step,) = quiet(history).steps
    assert isinstance(step, Start)
    assert step.fact.a == 3


def test_row_16_waits_until_a_taken_name_is_free() -> None:
    """The object of the submission before is going, and still has the name."""
    history = History().running().wants("resubmit").wants("abandon", target="o1")
    history.authorized(2, "ctl:resubmit").attempt(2).refused(2, 1, "name_taken").later(60)
    assert rows(quiet(history)) == ["17"]
    retired = History().authorized().attempt().wants("abandon", target="1.1").authorized(2)
    retired.shows("o1", "pending").retired().attempt(2).refused(2, 1, "name_taken").later(60)
    assert rows(quiet(retired)) == ["6"]
    assert rows(quiet(retired.shows("o1", "failed", cause="stopped"))) == ["16"]


def test_without_a_gate_row_16_waits_until_every_older_object_is_stopped() -> None:
    history = History(capabilities=UNGATED).running().later(10)
    history.shows("o1", "failed", cause="node_lost", lost_at=15)
    history.wants("abandon", target="o1").authorized(2)
    assert rows(quiet(history)) == ["16"]
    other = History(capabilities=UNGATED).authorized().attempt().later(DEADLINE).unmatched()
    other.authorized(2).shows("late", "failed", cause="node_lost", lost_at=125).retired("late")
    assert quiet(other.later(60)).steps == ()
    assert rows(quiet(other.at(125 + 300 + SKEW_S))) == ["16"]


def test_without_a_gate_row_16_waits_until_a_crash_can_undo_no_older_end() -> None:
    late = History(capabilities=UNGATED).authorized().attempt().later(DEADLINE).unmatched()
    late.authorized(2).shows("late", "failed", cause="stopped").retired("late")
    late.later(SAVE_WINDOW_S - 1)
    waiting = quiet(late)
    assert waiting.steps == ()
    assert [one.what for one in waiting.waiting] == ["save"]
    assert rows(quiet(late.later(1))) == ["16"]


def test_without_a_gate_row_16_does_not_wait_for_foreign_objects_that_ended() -> None:
    history = History(capabilities=UNGATED).shows("x", "failed", n=9, cause="node_lost", lost_at=0)
    assert rows(quiet(history.escalated("foreign/x").authorized())) == ["16"]


# --- row 17 ---------------------------------------------------------------------------------


def test_row_17_asks_a_person_once_the_retries_are_used_up() -> None:
    history = History(start_retries=1).authorized().attempt().refused().later(60)
    history.attempt(1, 2).refused(1, 2, detail="no such queue").later(60)
    (step,) = quiet(history).steps
    hold, told = step.facts  # type: ignore[union-attr]
    assert step.row == "17"
    assert isinstance(hold, facts.RecoveryHold)
    assert isinstance(told, facts.Escalated)
    assert (hold.cause, hold.trigger, told.key) == (Cause.START_FAILED, "start/1", "start/1")
    assert hold.detail == "2 attempts failed; the last: no such queue"
    assert quiet(history.add(hold, told)).steps == ()


def test_row_17_tells_and_asks_each_once() -> None:
    history = History(start_retries=0).authorized().attempt().refused().later(60)
    told = history.escalated("start/1")
    (step,) = quiet(told).steps
    assert [type(fact) for fact in step.facts] == [facts.RecoveryHold]  # type: ignore[union-attr]
    job = history.job()
    job.triggers.add("start/1")
    assert _next_of(history, job) == ()


def test_row_17_says_that_a_name_will_not_come_free() -> None:
    history = History().running().wants("abandon", target="o1").wants("resubmit")
    history.authorized(2, "ctl:resubmit").attempt(2).refused(2, 1, "name_taken").later(60)
    (step,) = quiet(history).steps
    hold = step.facts[0]  # type: ignore[union-attr]
    assert isinstance(hold, facts.RecoveryHold)
    assert hold.cause is Cause.NAME_TAKEN


def test_row_17_knows_that_an_abandoned_holder_that_ended_holds_no_name() -> None:
    history = History().ended().wants("abandon", target="o1").wants("resubmit")
    history.authorized(2, "ctl:resubmit").attempt(2).refused(2, 1, "name_taken").later(60)
    assert rows(quiet(history)) == ["16"]


def test_row_17_is_answered_by_a_new_submission() -> None:
    history = History(start_retries=0).authorized().attempt().refused().later(60)
    history.recovery_hold("start_failed", "start/1").wants("release").escalated("start/1")
    fact = authorized(quiet(history))
    assert (fact.n, fact.trigger) == (2, "ctl:release")
    assert rows(quiet(history.add(fact))) == ["16"]
