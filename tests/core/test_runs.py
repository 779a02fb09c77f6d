"""Runs, their ends, and what may outlive them (protocol §5)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from dispatch.core import rules
from dispatch.core.job import Job
from dispatch.core.parts import SchedulerObject
from dispatch.record.names import Cause, ObjectState
from tests.core.histories import (
    NODE_LOSS_WINDOW_S,
    OTHER_DIGEST,
    SAVE_WINDOW_S,
    SKEW_S,
    UNGATED,
    History,
    t,
)


def o1(history: History) -> SchedulerObject:
    return history.job().objects["o1"]


def run_of(history: History) -> tuple[int, str, int]:
    run = o1(history).run
    return run.r, run.state.value, run.restarts


# --- which run a sighting belongs to --------------------------------------------------------


def test_a_reply_makes_the_first_run_and_a_find_goes_on_with_it() -> None:
    started = History().started()
    assert run_of(started) == (1, "pending", 0)
    assert o1(started).run.held
    assert run_of(started.later(5).shows("o1", "running")) == (1, "running", 0)


def test_without_a_gate_a_reply_makes_an_object_that_is_not_held() -> None:
    known = o1(History(capabilities=UNGATED).started())
    assert (known.run.held, known.ours_held) == (False, False)


def test_higher_restarts_are_a_new_run() -> None:
    history = History().running().later(5).shows("o1", "running", restarts=1)
    assert run_of(history) == (2, "running", 1)
    assert [run.r for run in history.job().past["o1"]] == [1]


def test_lower_restarts_are_a_new_run_a_requeue_undone_by_a_crash() -> None:
    history = History().running().later(5).shows("o1", "running", restarts=2)
    assert run_of(history.later(5).shows("o1", "running", restarts=1)) == (3, "running", 1)


@pytest.mark.parametrize("started_at", [None, 10.0, 3.0])
@pytest.mark.parametrize("state", ["pending", "running", "ending"])
def test_an_ended_run_that_lives_again_is_a_new_run_whatever_its_start(
    state: str, started_at: float | None
) -> None:
    ended = History().running().shows("o1", "running", started_at=10).later(5)
    ended.shows("o1", "failed", started_at=10)
    history = ended.later(5).shows("o1", state, started_at=started_at)
    assert run_of(history) == (2, state, 0)


def test_running_and_pending_again_at_the_same_restarts_is_a_new_run() -> None:
    assert run_of(History().running().later(5).shows("o1", "pending")) == (2, "pending", 0)
    ending = History().running().shows("o1", "ending").later(5)
    assert run_of(ending.shows("o1", "pending")) == (2, "pending", 0)


@pytest.mark.parametrize(
    ("state", "fields"),
    [
        ("succeeded", {"ended_at": 15}),
        ("failed", {"cause": "timeout", "ended_at": 15}),
        ("failed", {"ended_at": 16}),
        ("failed", {"ended_at": 15, "started_at": 9}),
    ],
)
def test_another_end_than_the_recorded_one_is_a_new_run(state: str, fields: dict[str, Any]) -> None:
    ended = History().running().later(10).shows("o1", "failed", started_at=8, ended_at=15)
    assert run_of(ended.later(5).shows("o1", state, **fields)) == (2, state, 0)


def test_the_same_end_again_is_the_same_run_and_fills_in_what_was_missing() -> None:
    ended = History().running().later(10).shows("o1", "failed")
    history = ended.later(5).shows(
        "o1",
        "failed",
        started_at=12,
        ended_at=15,
        exit_code=3,
        signal=9,
        nodes=("n1",),
        reason="killed",
    )
    run = o1(history).run
    assert run_of(history) == (1, "failed", 0)
    assert (run.exit_code, run.signal, run.nodes, run.reason) == (3, 9, ("n1",), "killed")
    assert (run.started_at, run.ended_at, run.ended_seen_at) == (t(12), t(15), t(20))


def test_an_end_is_sticky_what_was_known_of_it_stays() -> None:
    ended = History().running().later(10).shows("o1", "failed", exit_code=3, reason="first")
    run = o1(ended.later(5).shows("o1", "failed", exit_code=4, reason="second")).run
    assert (run.exit_code, run.reason) == (3, "first")


def test_an_end_that_is_not_shown_any_more_stays() -> None:
    history = History().ended().later(5).shows("o1", "gone", reason="it isn't shown")
    assert run_of(history) == (1, "failed", 0)
    assert o1(history).run.reason is None


def test_gone_ends_a_run_without_numbering_another() -> None:
    history = History().running().later(5).shows("o1", "gone")
    assert run_of(history) == (1, "gone", 0)
    assert o1(history).cause is Cause.LOST


def test_what_comes_back_after_it_was_gone_is_a_new_run() -> None:
    history = History().running().later(5).shows("o1", "gone").later(5).shows("o1", "running")
    assert run_of(history) == (2, "running", 0)


def test_a_find_older_than_the_objects_newest_is_ignored() -> None:
    history = History().running().later(10).shows("o1", "failed").later(5)
    before = history.job()
    history.observed(history.sight("o1", "running", restarts=7), taken=19, seen=25)
    after = history.job()
    assert after.objects == before.objects


def test_a_live_run_keeps_what_was_known_of_it() -> None:
    history = History().running().later(5).shows("o1", "running", nodes=("n1",), started_at=7)
    run = o1(history.later(5).shows("o1", "running")).run
    assert (run.nodes, run.started_at) == (("n1",), t(7))


def test_runs_are_numbered_as_seen_not_as_the_scheduler_counts() -> None:
    history = History().running().later(5).shows("o1", "running", restarts=5)
    history.later(5).shows("o1", "failed", restarts=5).later(5).shows("o1", "pending", restarts=5)
    assert run_of(history) == (3, "pending", 5)


# --- windows --------------------------------------------------------------------------------


def stopped_from(history: History, *, limit: int = 2_000) -> int:
    """The first second at which o1 counts as stopped."""
    job = history.job()
    known = job.objects["o1"]
    return next(s for s in range(limit) if rules.stopped(known, t(s), job.declarations))


def test_an_end_without_a_lost_node_is_stopped_at_once() -> None:
    assert stopped_from(History().ended()) == 0


def test_a_lost_node_is_waited_out_from_the_schedulers_word() -> None:
    history = History().running().later(10).shows("o1", "failed", cause="node_lost", lost_at=12)
    assert stopped_from(history) == 12 + NODE_LOSS_WINDOW_S + SKEW_S


def test_a_lost_node_without_a_time_is_waited_out_from_the_sight() -> None:
    history = History().running().later(10)
    history.observed(history.sight("o1", "failed", cause="node_lost"), taken=20, seen=27)
    assert stopped_from(history) == 27 + NODE_LOSS_WINDOW_S + SKEW_S


def test_an_end_that_turns_out_to_be_a_lost_node_is_waited_out() -> None:
    history = History().running().later(10).shows("o1", "failed", cause="interrupted")
    assert stopped_from(history) == 0
    history.later(10).shows("o1", "failed", cause="interrupted", lost_at=14)
    assert stopped_from(history) == 14 + NODE_LOSS_WINDOW_S + SKEW_S


def test_the_default_of_a_lost_node_stays_the_first_sight_of_it() -> None:
    history = History().running().later(10).shows("o1", "running", cause="node_lost")
    history.later(50).shows("o1", "failed", cause="node_lost")
    assert stopped_from(history) == 20 + NODE_LOSS_WINDOW_S + SKEW_S


def test_hazard_when_an_earlier_runs_end_was_never_recorded() -> None:
    history = History().running().later(10)
    history.observed(history.sight("o1", "failed", restarts=1), taken=20, seen=26)
    assert stopped_from(history) == 26 + NODE_LOSS_WINDOW_S + SKEW_S


def test_hazard_when_an_earlier_run_ended_by_the_loss_of_its_node() -> None:
    history = History().running().later(10).shows("o1", "failed", cause="node_lost", lost_at=12)
    history.later(10).shows("o1", "failed", restarts=1)
    assert stopped_from(history) == 30 + NODE_LOSS_WINDOW_S + SKEW_S


def test_no_hazard_when_the_earlier_runs_end_was_recorded_f21() -> None:
    preempted = History().running().later(10).shows("o1", "failed", cause="preempted")
    history = preempted.later(10).shows("o1", "failed", restarts=1)
    assert stopped_from(history) == 0


def test_hazard_when_runs_came_and_went_that_nobody_saw() -> None:
    """Runs 2 to 4 were requeued from outside between two looks; one was cut off and ran on."""
    history = History().running().later(10).shows("o1", "failed", cause="preempted", restarts=1)
    history.later(10)
    history.observed(history.sight("o1", "failed", restarts=5), taken=30, seen=33)
    assert stopped_from(history) == 33 + NODE_LOSS_WINDOW_S + SKEW_S


def test_hazard_of_an_object_first_seen_restarted() -> None:
    history = History().authorized().attempt().later(10)
    history.observed(history.sight("o1", "failed", restarts=1), taken=10, seen=14)
    assert stopped_from(history) == 14 + NODE_LOSS_WINDOW_S + SKEW_S


def test_hazard_of_an_object_gone_while_last_seen_running() -> None:
    history = History().running().later(10)
    history.observed(history.sight("o1", "gone"), taken=20, seen=23)
    assert stopped_from(history) == 23 + NODE_LOSS_WINDOW_S + SKEW_S


def test_no_hazard_of_a_gated_object_gone_before_it_could_run() -> None:
    assert stopped_from(History().started().later(10).shows("o1", "gone")) == 0


def test_hazard_of_an_object_gone_where_nothing_was_gated() -> None:
    history = History(capabilities=UNGATED).started().later(10).shows("o1", "gone")
    assert stopped_from(history) == 10 + NODE_LOSS_WINDOW_S + SKEW_S


def test_an_end_recorded_before_it_vanished_leaves_no_hazard() -> None:
    assert stopped_from(History().ended().later(5).shows("o1", "gone")) == 0


def test_an_end_is_saved_a_save_window_after_it_was_first_seen() -> None:
    history = History().running().later(10)
    history.observed(history.sight("o1", "failed"), taken=20, seen=24)
    history.later(30).shows("o1", "failed", exit_code=1)
    job = history.job()
    known = job.objects["o1"]
    first = next(s for s in range(200) if rules.saved(known, t(s), job.declarations))
    assert first == 24 + SAVE_WINDOW_S


def test_a_live_object_is_not_saved() -> None:
    job = History().running().job()
    assert not rules.saved(job.objects["o1"], t(9_999), job.declarations)


def test_deadlines_carry_skew_once() -> None:
    declared = History().header.declarations
    assert not rules.past_deadline(t(120 + SKEW_S - 1), t(120), declared)
    assert rules.past_deadline(t(120 + SKEW_S), t(120), declared)


def test_absence_counts_only_for_a_find_begun_after_the_object_was_recorded() -> None:
    job = History().at(50).started().job()
    known = job.objects["o1"]
    assert not rules.absence_counts(known, t(50 + SKEW_S), job.declarations)
    assert rules.absence_counts(known, t(50 + SKEW_S + 1), job.declarations)


def test_the_last_time_that_can_be_written_leaves_room_for_every_window() -> None:
    ten_years = 10 * 366 * 86_400
    history = History(node_loss_window_s=ten_years, clock_skew_s=ten_years).started().later(10)
    last = datetime(9000, 12, 31, 23, 59, 59, tzinfo=UTC)
    job = history.shows("o1", "failed", cause="node_lost", lost_at=last).job()
    assert not rules.stopped(job.objects["o1"], t(9_999), job.declarations)


# --- attempts and foreign objects -----------------------------------------------------------


def attempt(job: Job) -> str:
    return job.attempts[1, 1].state.value


def test_an_attempt_is_started_by_a_find_that_shows_its_tag() -> None:
    assert attempt(History().authorized().attempt().shows("o1", "pending").job()) == "started"


def test_an_attempt_is_started_by_a_reply() -> None:
    assert attempt(History().authorized().attempt().replied().job()) == "started"


def test_a_reply_confirms_what_a_find_had_shown_f01() -> None:
    job = History().authorized().attempt().shows("o1", "pending").replied().job()
    assert list(job.objects) == ["o1"]
    assert job.attempts[1, 1].ref == "o1"


def test_the_same_reply_again_changes_nothing() -> None:
    once = History().authorized().attempt().replied()
    before = once.job()
    after = once.replied().job()
    after.revision = before.revision
    assert after == before


def test_a_late_reply_after_unmatched_brings_an_object_to_retire() -> None:
    history = History().authorized().attempt().later(200).unmatched().replied()
    assert attempt(history.job()) == "unmatched"
    upcoming = history.shows("o1", "pending").next(history.sight("o1", "pending"))
    assert [step.row for step in upcoming.steps] == ["5"]


def test_a_refusal_after_a_find_showed_the_object_leaves_it_started() -> None:
    job = History().authorized().attempt().shows("o1", "pending").refused().job()
    assert attempt(job) == "started"


@pytest.mark.parametrize("write", [lambda h: h.not_sent(), lambda h: h.refused(cause="name_taken")])
def test_what_was_not_sent_or_met_a_taken_name_does_not_count(write: Any) -> None:
    job = write(History(start_retries=0).authorized().attempt()).job()
    assert attempt(job) == "refused"
    assert not job.attempts[1, 1].counts
    assert job.submissions[0].uncounted == 1
    History(start_retries=0).authorized().attempt().not_sent().attempt(1, 2).job()


@pytest.mark.parametrize(
    "tag", [{"n": 2}, {"a": 2}, {"spec_digest": OTHER_DIGEST}, {"generation": 1}]
)
def test_an_object_with_the_jobs_tag_and_another_record_is_foreign(tag: dict[str, Any]) -> None:
    job = History().authorized().attempt().shows("x", "running", **tag).job()
    assert job.objects["x"].foreign
    assert attempt(job) == "unknown"


def test_foreign_is_sticky_recording_its_attempt_later_does_not_make_it_ours() -> None:
    history = History().authorized().shows("x", "running").wants("abandon", target="x")
    history.attempt().later(5).shows("x", "running")
    job = history.job()
    assert job.objects["x"].foreign
    assert attempt(job) == "unknown"


@pytest.mark.parametrize("end", ["succeeded", "failed", "gone"])
def test_a_foreign_object_is_disposed_once_it_ends_or_is_gone(end: str) -> None:
    history = History().shows("x", "running", generation=4).later(SKEW_S + 1)
    assert rules.undisposed_foreign(history.job())
    assert not rules.undisposed_foreign(history.shows("x", end, generation=4).job())


def test_a_foreign_object_that_lives_again_blocks_again() -> None:
    history = History().shows("x", "failed", generation=4).later(10)
    assert rules.undisposed_foreign(history.shows("x", "running", generation=4).job())


def test_every_state_is_live_or_ended() -> None:
    for state in ObjectState:
        history = History().started().later(10).shows("o1", state.value)
        assert o1(history).ended == (state.value in {"succeeded", "failed", "gone"})


# --- a gate that closed again (ADR 31) ----------------------------------------------------------


def reopened(history: History) -> History:
    """Released and seen open, still waiting for its place."""
    return history.started().released("o1").later(5).shows("o1", "pending")


def test_a_gate_that_closed_again_after_it_was_seen_open_may_hide_a_run() -> None:
    history = reopened(History()).later(5).shows("o1", "pending", held=True)
    assert history.job().objects["o1"].hazard_from == t(history.now)
    shut = history.later(NODE_LOSS_WINDOW_S + SKEW_S - 1).next(
        history.sight("o1", "pending", held=True)
    )
    assert shut.steps == ()
    assert "window" in [one.what for one in shut.waiting]
    over = history.later(1).next(history.sight("o1", "pending", held=True))
    assert [step.row for step in over.steps] == ["11"]


def test_a_gate_that_closed_again_keeps_the_submission_open_for_the_window() -> None:
    history = reopened(History()).later(5).shows("o1", "pending", held=True)
    history.wants("resubmit").later(5).shows("o1", "failed", cause="stopped")
    ended = history.sight("o1", "failed", cause="stopped")
    assert history.later(SAVE_WINDOW_S + SKEW_S).next(ended).steps == ()
    assert [s.row for s in history.later(NODE_LOSS_WINDOW_S).next(ended).steps][:1] == ["14"]


def test_a_gate_that_our_own_hold_closed_hides_nothing() -> None:
    history = reopened(History()).wants("hold").hold_call("o1").later(5)
    history.shows("o1", "pending", held=True)
    assert history.job().objects["o1"].hazard_from is None


def test_a_gate_that_was_never_seen_open_or_that_somebody_else_closed_hides_nothing() -> None:
    never = History().started().released("o1").later(5).shows("o1", "pending", held=True)
    assert never.job().objects["o1"].hazard_from is None
    other = reopened(History()).later(5).shows("o1", "pending", held=True, holder="admin")
    assert other.job().objects["o1"].hazard_from is None
    later = reopened(History()).later(SAVE_WINDOW_S + 1).shows("o1", "pending")
    later.later(5).shows("o1", "pending", held=True)
    assert later.job().objects["o1"].hazard_from is None
