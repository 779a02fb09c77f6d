"""The order of Next, and what one pass commits and calls (protocol §6)."""

from __future__ import annotations

import pytest

from dispatch.core.decide import MAX_FACTS, decide, key
from dispatch.core.steps import Alert, Append, Lookup, Release, Start, Stop
from dispatch.record import fact as facts
from dispatch.record.header import Rule
from dispatch.record.names import Action, Capability
from tests.core.histories import FULL, GATED, SAVE_WINDOW_S, History, plan, t
from tests.core.test_next_calls import as_recorded, quiet, rows

# --- order ----------------------------------------------------------------------------------


def test_evidence_is_recorded_before_anything_is_decided_by_it() -> None:
    """It succeeded, and a cancel is in force: the end is written before the Stop is considered."""
    history = History().running().wants("cancel").later(5)
    upcoming = history.next(history.sight("o1", "succeeded"))
    assert rows(upcoming) == ["1"]
    decision = history.decide(history.sight("o1", "succeeded"))
    assert decision.repeatable == ()


def test_a_step_that_is_committed_ends_the_list() -> None:
    history = History().authorized().attempt()
    upcoming = history.next(history.sight("o1"), history.sight("o2"))
    assert rows(upcoming) == ["1"]
    shown = [history.sight("o1"), history.sight("o2")]
    assert rows(history.observed(*shown).next(*shown)) == ["4"]
    assert rows(history.canonical("o1").next(*shown)) == ["5"]
    assert rows(history.retired("o2").next(*shown)) == ["6"]


def test_repeatable_calls_do_not_end_the_list() -> None:
    two = History().authorized().attempt().shows("o1", "succeeded").shows("o2")
    assert rows(quiet(two.canonical("o1").retired("o2"))) == ["6", "12"]


def test_attempts_close_before_foreign_objects_are_told_of() -> None:
    history = History().authorized().attempt().later(200).shows("x", "running", n=4)
    assert rows(quiet(history)) == ["2"]
    assert rows(quiet(history.unmatched())) == ["3"]


def test_a_cancel_wins_over_hold_requeue_release_and_recovery() -> None:
    held = History(capabilities=FULL).running().wants("hold")
    assert rows(quiet(held)) == ["9"]
    assert rows(quiet(held.wants("cancel"))) == ["6"]
    gated = History().started()
    assert rows(quiet(gated)) == ["11"]
    assert rows(quiet(gated.wants("cancel"))) == ["6"]
    ended = History().ended()
    assert rows(quiet(ended)) == ["13"]
    assert rows(quiet(ended.wants("cancel"))) == []


def test_a_hold_comes_before_a_requeue() -> None:
    history = History(capabilities=FULL, plan=plan(in_place=True)).running().wants("requeue")
    assert rows(quiet(history)) == ["10"]
    assert rows(quiet(history.wants("hold"))) == ["9"]


def test_a_persons_wish_comes_before_the_plans_answer() -> None:
    history = History(plan=plan(Action.FAIL)).ended().wants("resubmit").later(60)
    assert rows(quiet(history)) == ["14"]


def test_a_success_is_recorded_before_a_recovery_can_answer_it() -> None:
    history = History(plan=plan(Action.FAIL)).running().later(5)
    decision = history.decide(history.sight("o1", "succeeded"))
    assert decision.rows == ("1", "12")


def test_wait_until_is_the_nearest_deadline() -> None:
    history = History().authorized().attempt().later(10)
    assert history.next().wait_until == t(125)
    running = History().running().later(SAVE_WINDOW_S).shows()
    assert running.next(running.sight()).wait_until is None


# --- decide ---------------------------------------------------------------------------------


def test_facts_without_a_call_between_them_go_into_one_commit() -> None:
    first = History().decide()
    assert first.rows == ("15", "16")
    assert [type(fact) for fact in first.facts] == [facts.Authorized, facts.Attempt]
    assert isinstance(first.once, Start)
    assert first.repeatable == ()

    history = History().authorized().attempt().later(5)
    seen = history.decide(history.sight("o1", "pending", held=True))
    assert seen.rows == ("1", "4", "11")
    assert isinstance(seen.repeatable[0], Release)
    assert seen.once is None


def test_a_call_that_is_made_once_ends_the_facts_and_is_alone() -> None:
    """A Stop stands before the Hold: the Hold waits for the next round."""
    two = History(capabilities=FULL).authorized().attempt().shows("o1").shows("o2")
    history = two.canonical("o1").retired("o2").wants("hold")
    decision = decide(history.job(), history.sees(*as_recorded(history)), t(0))
    assert [type(step) for step in decision.repeatable] == [Stop]
    assert (decision.facts, decision.once) == ((), None)
    made = frozenset(key(step) for step in decision.repeatable)
    again = decide(history.job(), history.sees(*as_recorded(history)), t(0), made=made)
    assert again.repeatable == ()
    assert again.once is not None
    assert again.facts == (again.once.fact,)


def test_what_was_called_in_this_pass_is_not_called_again() -> None:
    history = History().running().wants("cancel")
    job, look = history.job(), history.sees(history.sight())
    first = decide(job, look, t(10))
    made = frozenset(key(step) for step in first.repeatable)
    assert made == {("stop", "o1")}
    assert decide(job, look, t(10), made=made).idle


def test_repeatable_calls_are_told_apart() -> None:
    steps = (
        Stop("6", "", "o1", 1, 1),
        Release("11", "", "o1", None),
        Alert("0", "", "o1"),
        Lookup("1b", "", ("o1",)),
        Lookup("1b", "", (), ((1, 1),)),
    )
    assert len({key(step) for step in steps}) == len(steps)


def test_the_record_after_a_decision_is_the_one_it_left_to_commit() -> None:
    history = History()
    decision = history.decide()
    after = history.add(*decision.facts).job()
    assert decision.after == after


def test_a_decision_is_bounded_however_much_is_to_be_said() -> None:
    history = History()
    strangers = [history.sight(f"x{i}", "running", n=9) for i in range(MAX_FACTS + 5)]
    history.observed(*strangers)
    decision = history.decide(*strangers)
    assert len(decision.facts) == MAX_FACTS
    assert set(decision.rows) == {"3"}


def test_steps_that_are_left_out_are_not_taken_and_what_they_would_commit_is_not_said() -> None:
    history = History().authorized()
    job, look = history.job(), history.sees()
    decision = decide(job, look, t(0), without=frozenset({Start}))
    assert decision.idle
    assert [type(step) for step in decision.withheld] == [Start]
    assert decide(job, look, t(0)).withheld == ()


def test_what_stands_beside_a_step_that_is_left_out_is_done() -> None:
    history = History()
    decision = decide(history.job(), history.sees(), t(0), without=frozenset({Start}))
    assert decision.rows == ("15",)
    assert [type(fact) for fact in decision.facts] == [facts.Authorized]


def test_a_waiting_job_is_idle() -> None:
    history = History().running()
    decision = history.decide(history.sight())
    assert decision.idle
    assert decision.next.steps == ()


def test_a_recovery_by_the_plan_is_one_commit_from_the_end_to_the_new_attempt() -> None:
    rule = Rule(action=Action.RESUBMIT)
    history = History(plan=plan(preempted=rule), save_window_s=0).running().later(10)
    decision = history.decide(history.sight("o1", "failed", cause="preempted"))
    assert decision.rows == ("1", "13", "16")
    assert isinstance(decision.once, Start)


@pytest.mark.parametrize("capabilities", [GATED, (*GATED, Capability.LOOKUP)])
def test_a_clean_job_needs_six_commits_at_most(capabilities: tuple[Capability, ...]) -> None:
    """A Start's reply goes with the facts that follow it; every state is seen once."""
    history = History(capabilities=capabilities)
    commits = 0

    def one_pass(*shown: tuple[str, bool], reply: bool = False) -> None:
        nonlocal commits
        if reply:
            history.replied()
        look = [history.sight("o1", state, held=held) for state, held in shown]
        decision = history.decide(*look)
        history.add(*decision.facts)
        commits += 1 if reply or decision.facts else 0
        if isinstance(decision.once, Start):
            one_pass(*shown, reply=True)

    one_pass()
    for shown in (("pending", False), ("running", False), ("succeeded", False)):
        one_pass(shown)
        history.later(30)
    one_pass(("succeeded", False))
    job = history.job()
    assert job.settled_at is not None
    assert job.ending is not None
    assert job.ending.state.value == "succeeded"
    assert commits == 6


def test_what_next_asks_for_says_why() -> None:
    for history in (History(), History().started(), History().running().wants("cancel")):
        for step in quiet(history).steps:
            assert step.why
            assert isinstance(step, Append | Start | Release | Stop)
