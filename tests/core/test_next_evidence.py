"""Rows 0 to 5 of Next: what is recorded, asked, closed, told, chosen and retired (protocol §6)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dispatch.core.next import next_steps
from dispatch.core.steps import Alert, Append, Lookup, Next, Stop
from dispatch.record import fact as facts
from dispatch.record.evidence import Doubt, Found, Sighting
from dispatch.record.names import Capability, Cause, ObjectState, UnmatchedPolicy
from tests.core.histories import (
    CALL_BOUND_S,
    FULL,
    GATED,
    OTHER_DIGEST,
    SAVE_WINDOW_S,
    SKEW_S,
    History,
    t,
)

ACCOUNTED = (*GATED, Capability.LOOKUP)
DEADLINE = CALL_BOUND_S + SKEW_S


def rows(upcoming: Next) -> list[str]:
    return [step.row for step in upcoming.steps]


def recorded(upcoming: Next) -> list[tuple[str, str]]:
    """What row 1 would write: refs and states; nothing if it isn't first."""
    first = upcoming.steps[0] if upcoming.steps else None
    if not isinstance(first, Append) or first.row != "1":
        return []
    (fact,) = first.facts
    assert isinstance(fact, facts.Observed)
    return [(one.ref, one.state.value) for one in fact.objects]


# --- row 0 ----------------------------------------------------------------------------------


def test_row_0_stops_and_tells_of_ours_that_lives_after_settled() -> None:
    history = History().over().later(60)
    upcoming = history.next(history.sight("o1", "running"))
    assert [type(step) for step in upcoming.steps] == [Stop, Alert]
    assert rows(upcoming) == ["0", "0"]


def test_row_0_stops_a_late_object_that_was_never_recorded() -> None:
    history = History().over().later(60)
    late = history.next(history.sight("late", "pending"))
    assert isinstance(late.steps[0], Stop)
    assert (late.steps[0].ref, late.steps[0].n, late.steps[0].a) == ("late", 1, 1)


@pytest.mark.parametrize("tag", [{"n": 2}, {"spec_digest": OTHER_DIGEST}, {"generation": 2}])
def test_row_0_leaves_what_is_not_ours(tag: dict[str, Any]) -> None:
    history = History().over().later(60)
    assert history.next(history.sight("x", "running", **tag)).steps == ()


def test_row_0_leaves_what_was_foreign_or_abandoned_before() -> None:
    history = History().running().shows("x", "running", generation=1)
    history.wants("abandon", "a1", target="x").wants("abandon", "a2", target="o1").wants("cancel")
    history.later(30).settled().later(30)
    seen = [history.sight("x", "running"), history.sight("o1", "running")]
    assert history.next(*seen).steps == ()


def test_row_0_asks_for_a_complete_find_and_a_live_object() -> None:
    history = History().over().later(60)
    assert history.next(history.sight(), complete=False).steps == ()
    assert history.next(history.sight("o1", "failed")).steps == ()


def test_finds_go_on_covering_a_settled_job_for_retention_and_save_window() -> None:
    history = History().over()
    (waiting,) = history.next().waiting
    assert waiting.what == "retention"
    assert waiting.until == t(40 + 300 + 20 + SKEW_S)
    assert history.at(40 + 300 + 20 + SKEW_S).next().waiting == ()


# --- row 1 ----------------------------------------------------------------------------------


def test_row_1_records_what_is_news_and_nothing_else() -> None:
    history = History().running().later(10)
    assert recorded(history.next(history.sight("o1", "running"))) == []
    assert recorded(history.next(history.sight("o1", "succeeded"))) == [("o1", "succeeded")]


@pytest.mark.parametrize(
    "change",
    [
        {"restarts": 1},
        {"cause": "node_lost"},
        {"held": True},
        {"holder": "admin"},
        {"exit_code": 1},
        {"signal": 9},
        {"nodes": ("n1",)},
        {"started_at": 5},
        {"ended_at": 5},
        {"lost_at": 5},
        {"reason": "busy"},
        {"source": "accounting"},
    ],
)
def test_a_change_in_any_field_is_news(change: dict[str, Any]) -> None:
    history = History().running().later(10)
    assert recorded(history.next(history.sight("o1", "running", **change)))


def test_another_digest_of_the_raw_evidence_is_no_news() -> None:
    history = History().running().later(10)
    assert recorded(history.next(history.sight("o1", "running", digest="abc"))) == []


def test_row_1_takes_positive_evidence_from_an_incomplete_find_f06() -> None:
    history = History().running().later(10)
    upcoming = history.next(history.sight("o1", "succeeded"), complete=False)
    assert recorded(upcoming) == [("o1", "succeeded")]


def test_row_1_takes_no_absence_from_an_incomplete_find_f06() -> None:
    history = History(save_window_s=0).running().later(10)
    upcoming = history.next(complete=False)
    assert upcoming.steps == ()
    assert [one.what for one in upcoming.waiting] == ["find"]


def test_row_1_records_absence_from_a_complete_find() -> None:
    history = History().running().later(10)
    upcoming = history.next()
    assert recorded(upcoming) == [("o1", "gone")]
    (fact,) = upcoming.steps[0].facts  # type: ignore[union-attr]
    (gone,) = fact.objects  # type: ignore[union-attr]
    assert (gone.cause, gone.source) == (Cause.LOST, "absence")


def test_row_1_names_the_cause_of_an_expired_object_that_is_gone() -> None:
    history = History().started().released().later(5).shows("o1", "pending", cause="no_capacity")
    history.expired().later(10)
    (fact,) = history.next().steps[0].facts  # type: ignore[union-attr]
    assert fact.objects[0].cause is Cause.NO_CAPACITY  # type: ignore[union-attr]


def test_row_1_takes_no_absence_from_a_find_begun_before_the_object_was_recorded() -> None:
    """The reply came while the Find was under way; without skew over, it isn't absent yet (F11)."""
    history = History().started().later(SKEW_S + 1)
    assert recorded(history.next(taken=SKEW_S)) == []
    assert recorded(history.next(taken=SKEW_S + 1)) == [("o1", "gone")]


def test_row_1_ignores_a_find_older_than_the_objects_newest() -> None:
    history = History().running().later(100)
    older = history.next(history.sight("o1", "failed"), taken=9)
    assert recorded(older) == []
    assert recorded(history.next(taken=9)) == []


def test_row_1_records_an_ended_objects_absence_only_to_close_a_call() -> None:
    history = History(capabilities=FULL).ended().later(10)
    assert recorded(history.next()) == []
    history.requeue_call().later(DEADLINE)
    assert recorded(history.next()) == [("o1", "gone")]


def test_row_1_records_a_sight_without_news_once_it_closes_a_call() -> None:
    history = History(capabilities=FULL).ended().requeue_call().later(DEADLINE - 1)
    seen = history.sight("o1", "failed")
    assert recorded(history.next(seen)) == []
    history.later(1)
    assert recorded(history.next(seen)) == [("o1", "failed")]


def test_row_1_records_once_that_an_open_gate_can_not_be_put_back_any_more() -> None:
    history = History().running().later(SAVE_WINDOW_S - 1)
    assert recorded(history.next(history.sight())) == []
    assert recorded(history.later(1).next(history.sight())) == [("o1", "running")]
    assert recorded(history.shows().later(60).next(history.sight())) == []
    cancelled = History().running().wants("cancel").later(60)
    assert recorded(cancelled.next(cancelled.sight())) == []
    vouched = History().running().wants("abandon", target="o1").later(60)
    assert recorded(vouched.next(vouched.sight())) == []


def test_row_1_records_a_foreign_object_and_its_end() -> None:
    history = History()
    stranger = history.sight("x", "running", n=4)
    assert recorded(history.next(stranger)) == [("x", "running")]
    history.observed(stranger).later(10)
    assert recorded(history.next()) == [("x", "gone")]


def test_row_1_keeps_the_tag_that_an_object_was_recorded_with() -> None:
    history = History().running().later(10)
    upcoming = history.next(history.sight("o1", "succeeded", n=1, a=2))
    (fact,) = upcoming.steps[0].facts  # type: ignore[union-attr]
    assert (fact.objects[0].n, fact.objects[0].a) == (1, 1)  # type: ignore[union-attr]


def test_row_1_does_not_record_the_absence_of_what_nobody_recorded() -> None:
    history = History().authorized()
    gone = history.sight("o9", "gone")
    assert recorded(history.next(gone)) == []


# --- row 1b ---------------------------------------------------------------------------------


def test_row_1b_asks_accounting_before_an_object_is_gone_f05() -> None:
    history = History(capabilities=ACCOUNTED).running().later(10)
    (step,) = history.next().steps
    assert isinstance(step, Lookup)
    assert (step.row, step.refs, step.attempts) == ("1b", ("o1",), ())


def test_row_1b_takes_accountings_answer_as_the_observation_f05() -> None:
    history = History(capabilities=ACCOUNTED).running().later(85)
    answer = history.sight("o1", "succeeded", source="accounting")
    look = history.sees().with_lookup((answer,), frozenset())
    assert look.sightings == (answer,)
    assert recorded(history.next(*look.sightings)) == [("o1", "succeeded")]


def test_without_a_lag_what_accounting_does_not_know_is_gone() -> None:
    history = History(capabilities=ACCOUNTED).running().later(10)
    assert recorded(history.next(looked_up=["o1"])) == [("o1", "gone")]


def test_with_a_lag_what_accounting_does_not_know_yet_is_waited_for_f05() -> None:
    """RUNNING for an hour, then absent; accounting learns of an end up to 90 s late."""
    history = History(capabilities=ACCOUNTED, lookup_lag_s=90).running().later(3_600)
    first = history.next(looked_up=["o1"])
    assert rows(first) == ["1b"]
    (told,) = first.steps[0].facts  # type: ignore[union-attr]
    assert isinstance(told, facts.Escalated)
    history.add(told)
    assert history.next(looked_up=["o1"]).steps == ()
    (waiting,) = [one for one in history.next(looked_up=["o1"]).waiting if one.what == "lookup"]
    assert waiting.until == t(history.now + 90 + SKEW_S)
    history.later(90 + SKEW_S - 1)
    assert recorded(history.next(looked_up=["o1"])) == []
    history.later(1)
    assert rows(history.next()) == ["1b"]
    assert recorded(history.next(looked_up=["o1"])) == [("o1", "gone")]


def test_an_open_call_past_its_deadline_does_not_spare_accounting_the_question() -> None:
    history = History(capabilities=(*FULL, Capability.LOOKUP)).running().hold_call()
    history.later(DEADLINE)
    (step,) = history.next().steps
    assert isinstance(step, Lookup)


def test_row_1b_asks_about_an_attempt_before_it_is_unmatched_f01() -> None:
    history = History(capabilities=ACCOUNTED).authorized().attempt().later(DEADLINE)
    (step,) = history.next().steps
    assert isinstance(step, Lookup)
    assert (step.refs, step.attempts) == ((), ((1, 1),))
    assert rows(history.next(looked_up=["1.1"])) == ["2"]


def test_row_1b_asks_nothing_of_an_incomplete_find_or_too_early() -> None:
    history = History(capabilities=ACCOUNTED).authorized().attempt().later(DEADLINE)
    assert history.next(complete=False).steps == ()
    assert history.next(taken=DEADLINE - 1).steps == ()
    running = History(capabilities=ACCOUNTED).running().later(10)
    assert running.next(complete=False).steps == ()


def test_row_1b_asks_about_an_attempt_although_a_foreign_object_has_its_tag() -> None:
    history = History(capabilities=ACCOUNTED).authorized().attempt().later(DEADLINE)
    stranger = history.sight("x", "running", spec_digest=OTHER_DIGEST)
    history.observed(stranger).escalated("foreign/x")
    (step,) = history.next(stranger).steps
    assert isinstance(step, Lookup)
    assert step.attempts == ((1, 1),)
    assert rows(history.next(stranger, looked_up=["1.1"])) == ["2"]


# --- row 2 ----------------------------------------------------------------------------------


def test_row_2_closes_an_attempt_after_its_deadline_and_skew() -> None:
    history = History().authorized().attempt().later(DEADLINE + 60)
    assert history.next(taken=DEADLINE - 1).steps == ()
    (step,) = history.next(taken=DEADLINE).steps
    assert step.row == "2"
    assert [type(fact) for fact in step.facts] == [facts.Unmatched]  # type: ignore[union-attr]


def test_row_2_needs_a_complete_find_f06() -> None:
    history = History().authorized().attempt().later(DEADLINE)
    assert history.next(complete=False).steps == ()


def test_row_2_asks_a_person_once_under_manual() -> None:
    manual = History(unmatched=UnmatchedPolicy.MANUAL).authorized().attempt().later(DEADLINE)
    (step,) = manual.next().steps
    unmatched, told = step.facts  # type: ignore[union-attr]
    assert isinstance(told, facts.Escalated)
    assert (told.key, told.code) == ("unmatched/1.1", "unmatched")
    manual.add(told)
    (step,) = manual.next().steps
    assert [type(fact) for fact in step.facts] == [type(unmatched)]  # type: ignore[union-attr]


def test_row_2_adopts_an_object_that_shows_in_time_f01() -> None:
    history = History().authorized().attempt().later(DEADLINE)
    decision = history.decide(history.sight("o1", "pending", held=True))
    assert decision.rows == ("1", "4", "11")
    assert [type(fact) for fact in decision.facts] == [
        facts.Observed,
        facts.Canonical,
        facts.Released,
    ]


# --- row 3 ----------------------------------------------------------------------------------


def test_row_3_tells_a_person_of_a_foreign_object_once() -> None:
    history = History().shows("x", "running", n=3)
    stranger = history.sight("x", "running", n=3)
    (step,) = history.next(stranger).steps
    (told,) = step.facts  # type: ignore[union-attr]
    assert isinstance(told, facts.Escalated)
    assert (step.row, told.key, told.code) == ("3", "foreign/x", "foreign_object")
    assert rows(history.add(told).next(stranger)) == []


def doubted(history: History, *sightings: Sighting, doubts: tuple[Doubt, ...]) -> Next:
    """What follows a look that is whole for every job but this one."""
    job = history.job()
    found = Found("c1", "c1", t(history.now), t(history.now), True, {job.job_id: sightings})
    look = replace(found, doubts={job.job_id: doubts}).discovery(job.job_id)
    return next_steps(job, look, t(history.now))


STRANGE = Doubt("strange_state/o1", "strange_state", "job 1: unknown state token ODD")


def test_row_3_tells_a_person_of_what_cant_be_read_once() -> None:
    history = History().running()
    strange = history.sight("o1", "running")
    other = Doubt("tag_missing/7", "tag_missing", "job 7 has its name and no readable tag")
    (step,) = doubted(history, strange, doubts=(STRANGE, other, other)).steps
    assert isinstance(step, Append)
    assert step.row == "3"
    told = [fact for fact in step.facts if isinstance(fact, facts.Escalated)]
    assert [(fact.key, fact.code, fact.detail) for fact in told] == [
        ("doubt/strange_state/o1", "strange_state", STRANGE.detail),
        ("doubt/tag_missing/7", "tag_missing", other.detail),
    ]
    for fact in told:
        history.add(fact)
    again = doubted(history, strange, doubts=(STRANGE, other))
    assert again.steps == ()
    assert again.waiting[0].what == "find"
    assert STRANGE.detail in again.waiting[0].detail
    assert other.detail in again.waiting[0].detail


def test_nothing_is_concluded_from_a_look_in_doubt_but_what_it_shows_counts() -> None:
    ended = History().cancelled_and_stopped()
    ended.escalated("doubt/strange_state/o1").later(SAVE_WINDOW_S + SKEW_S + 1)
    last = ended.sight("o1", "failed", cause="stopped")
    assert rows(doubted(ended, last, doubts=(STRANGE,))) == []
    assert rows(doubted(ended, last, doubts=())) == ["7"]
    unseen = History().authorized().attempt().escalated("doubt/strange_state/o1")
    unseen.later(DEADLINE + 1)
    assert rows(doubted(unseen, doubts=(STRANGE,))) == []
    assert rows(doubted(unseen, doubts=())) == ["2"]
    running = History().running().escalated("doubt/strange_state/o1").later(60)
    failed = running.sight("o1", "failed", cause="app_error")
    assert rows(doubted(running, failed, doubts=(STRANGE,)))[:1] == ["1"]


# --- row 4 ----------------------------------------------------------------------------------


def chosen(*objects: tuple[str, str]) -> str:
    history = History().authorized().attempt()
    shown: list[Sighting] = [history.sight(ref, state) for ref, state in objects]
    (step,) = history.observed(*shown).next(*shown).steps
    (fact,) = step.facts  # type: ignore[union-attr]
    assert step.row == "4"
    assert isinstance(fact, facts.Canonical)
    return fact.ref


def test_row_4_prefers_what_runs_then_waits_then_ended() -> None:
    assert chosen(("a", "failed"), ("b", "pending"), ("c", "running")) == "c"
    assert chosen(("a", "succeeded"), ("b", "pending")) == "b"
    assert chosen(("a", "pending"), ("c", "ending")) == "c"


def test_row_4_prefers_the_lower_ref_among_equals() -> None:
    assert chosen(("b", "running"), ("a", "running")) == "a"


def test_row_4_prefers_the_lower_attempt() -> None:
    history = History().authorized().attempt().later(DEADLINE).unmatched().attempt(1, 2)
    history.replied(1, 2, ref="a2")
    late, mine = history.sight("a1", "pending"), history.sight("a2", "pending", a=2, held=True)
    history.observed(late, mine)
    assert rows(history.next(late, mine)) == ["4"]
    (fact,) = history.next(late, mine).steps[0].facts  # type: ignore[union-attr]
    assert fact.ref == "a2"  # type: ignore[union-attr]


def test_row_4_passes_over_retired_objects() -> None:
    history = History().authorized().attempt()
    one, two = history.sight("a", "running"), history.sight("b", "pending")
    (step,) = history.observed(one, two).retired("a").next(one, two).steps
    assert step.facts[0].ref == "b"  # type: ignore[union-attr]


def test_row_4_chooses_for_the_latest_submission_only() -> None:
    history = History().authorized().attempt().wants("abandon", target="1.1").authorized(2)
    late = history.sight("late", "pending")
    assert rows(history.observed(late).next(late)) == ["5"]


# --- row 5 ----------------------------------------------------------------------------------


def test_row_5_retires_the_others_of_a_submission_f02() -> None:
    history = History().authorized().attempt()
    one, two = history.sight("a", "running"), history.sight("b", "pending")
    (step,) = history.observed(one, two).canonical("a").next(one, two).steps
    (fact,) = step.facts  # type: ignore[union-attr]
    assert isinstance(fact, facts.Retired)
    assert (step.row, fact.ref) == ("5", "b")


@pytest.mark.parametrize("close", ["refused", "unmatched", "abandoned"])
def test_row_5_retires_what_shows_of_a_closed_attempt(close: str) -> None:
    history = History().authorized().attempt()
    match close:
        case "refused":
            history.refused()
        case "unmatched":
            history.later(DEADLINE).unmatched()
        case _:
            history.wants("abandon", target="1.1")
    late = history.sight("late", "running")
    (step,) = history.observed(late).next(late).steps
    (fact,) = step.facts  # type: ignore[union-attr]
    assert isinstance(fact, facts.Retired)
    assert close in fact.reason


def test_row_5_leaves_what_ended_in_a_submission_without_a_canonical_object() -> None:
    history = History().authorized().attempt().shows("o1", "failed").later(30)
    history.wants("resubmit").authorized(2, "ctl:resubmit")
    assert rows(history.next(history.sight("o1", "failed"))) == ["16"]


def test_row_5_leaves_foreign_objects_alone() -> None:
    history = History().running().shows("x", "running", generation=1).escalated("foreign/x")
    assert history.next(history.sight(), history.sight("x", "running", generation=1)).steps == ()


def test_states_that_row_4_ranks_are_all_states() -> None:
    for state in ObjectState:
        if state is not ObjectState.GONE:
            assert chosen(("only", state.value)) == "only"
