"""The status a caller reads, and what it waits for (protocol §10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dispatch.core.project import Staleness, State, project
from dispatch.core.steps import Waiting
from dispatch.record.header import Rule
from dispatch.record.names import Action, Cause, Desired, Outcome, UnmatchedPolicy
from tests.core.histories import FULL, GATED, SKEW_S, UNGATED, History, plan, t


def gated() -> History:
    return History().started()


def pending() -> History:
    return History().started().released().later(5).shows("o1", "pending", reason="Priority")


def held_outside() -> History:
    return (
        pending().later(5).shows("o1", "pending", held=True, holder="admin", cause="held_outside")
    )


STATES: list[tuple[str, Callable[[], History], State]] = [
    ("just created", History, State.PENDING),
    ("authorized", lambda: History().authorized(), State.PENDING),
    ("a start in flight", lambda: History().authorized().attempt(), State.STARTING),
    ("a start refused", lambda: History().authorized().attempt().refused(), State.PENDING),
    ("behind the gate", gated, State.STARTING),
    ("queued", pending, State.PENDING),
    ("queued, not chosen", lambda: History().authorized().attempt().replied(), State.PENDING),
    ("held by an admin", held_outside, State.HELD),
    ("running", lambda: History().running(), State.RUNNING),
    ("ending", lambda: History().running().shows("o1", "ending"), State.STOPPING),
    ("over, undecided", lambda: History().ended(), State.PENDING),
    ("held before it began", lambda: History().wants("hold"), State.HELD),
    ("held behind the gate", lambda: gated().wants("hold"), State.HELD),
    ("to be held, running", lambda: History().running().wants("hold"), State.STOPPING),
    (
        "to be held in place",
        lambda: History(capabilities=FULL).running().wants("hold"),
        State.RUNNING,
    ),
    ("in a recovery hold", lambda: History().ended().recovery_hold(), State.HELD),
    ("to be resubmitted", lambda: History().running().wants("resubmit"), State.STOPPING),
    ("cancelled, running", lambda: History().running().wants("cancel"), State.STOPPING),
    (
        "cancelled, a start in flight",
        lambda: History().authorized().attempt().wants("cancel"),
        State.STOPPING,
    ),
    ("cancelled, nothing left", lambda: History().wants("cancel"), State.ENDED),
    ("cancelled, stopped", lambda: History().cancelled_and_stopped(), State.ENDED),
    ("settled", lambda: History().over(), State.ENDED),
    (
        "beside a foreign object",
        lambda: History().shows("x", "running", n=4),
        State.PENDING,
    ),
    (
        "abandoned while running, cancelled",
        lambda: History().running().wants("abandon", target="o1").wants("cancel"),
        State.ENDED,
    ),
]


@pytest.mark.parametrize(
    ("situation", "state"), [pytest.param(make, state, id=name) for name, make, state in STATES]
)
def test_the_state_is_one_word(situation: Callable[[], History], state: State) -> None:
    assert situation().recorded_status().state is state


def test_every_state_is_reached() -> None:
    assert {state for _, _, state in STATES} == set(State)


def test_a_running_job_is_told_whole() -> None:
    history = History(save_window_s=0).running()
    shown = history.sight("o1", "running", restarts=3, nodes=("n1", "n2"))
    history.observed(shown).later(20)
    status = history.status(shown)
    assert (status.job_id, status.name, status.cluster) == ("jabcdefgh", "train", "c1")
    assert (status.submission, status.attempt, status.run, status.ref) == (1, 1, 2, "o1")
    assert status.epoch == 1_000_003
    assert status.nodes == ("n1", "n2")
    assert (status.outcome, status.cause, status.desired) == (None, None, Desired.RUN)
    assert (status.evidence_at, status.discovery_at, status.complete) == (t(10), t(30), True)
    assert (status.cleanup_pending, status.unsettled, status.settled_at) == (False, (), None)


def test_a_job_without_a_submission_has_zeros() -> None:
    status = History().recorded_status()
    assert (status.submission, status.attempt, status.run, status.epoch) == (0, 0, 0, 0)
    assert (status.ref, status.nodes, status.exit_code) == (None, (), None)


def test_a_live_look_adds_its_news_and_keeps_the_records_revision() -> None:
    history = History().running().later(5)
    status = history.status(history.sight("o1", "failed", exit_code=7, cause="app_error"))
    assert status.revision == history.view().revision
    assert (status.state, status.cause, status.exit_code) == (State.PENDING, Cause.APP_ERROR, 7)
    assert history.recorded_status().state is State.RUNNING


def test_a_live_look_changes_nothing_of_a_settled_job() -> None:
    history = History().over().later(5)
    status = history.status(history.sight("o1", "running"))
    assert (status.state, status.settled_at) == (State.ENDED, t(40))


def test_without_a_look_it_says_how_old_its_evidence_is() -> None:
    history = History().running().later(3_600)
    status = history.recorded_status()
    assert (status.evidence_at, status.discovery_at, status.complete) == (t(10), None, None)


def test_an_incomplete_look_says_so_f06() -> None:
    history = History().running().later(60)
    status = history.status(complete=False)
    assert status.complete is False
    assert status.state is State.RUNNING
    assert status.waiting_for[0] == Waiting("find", "a page was lost")


def test_an_incomplete_look_without_a_reason_still_says_so() -> None:
    from dataclasses import replace

    history = History().running().later(60)
    look = replace(history.sees(complete=False), error=None)
    status = project(history.job(), look, t(history.now))
    assert status.waiting_for[0].detail == "the last look wasn't complete"


def test_the_clusters_health_is_handed_through() -> None:
    stale = Staleness(supervisor="s1", last_tick=t(1), last_error="no answer")
    status = project(History().job(), None, t(2), staleness=stale)
    assert status.stale_since == stale


def test_a_signal_and_an_exit_code_are_shown() -> None:
    status = History().ended("failed", signal=9, cause="out_of_memory").recorded_status()
    assert (status.signal, status.cause) == (9, Cause.OUT_OF_MEMORY)


def test_an_outcomes_cause_comes_before_a_questions_before_a_runs() -> None:
    asked = History().ended("failed", cause="timeout").recovery_hold("out_of_memory")
    assert asked.recorded_status().cause is Cause.OUT_OF_MEMORY
    assert asked.wants("give_up").recorded_status().cause is Cause.OUT_OF_MEMORY
    assert History().recorded_status().cause is None
    assert History().running().wants("cancel").recorded_status().cause is None


def test_holds_say_whose_they_are() -> None:
    assert History().wants("hold").recorded_status().holds == ("user bob",)
    assert History().ended().recovery_hold().recorded_status().holds == ("recovery (app_error)",)
    assert held_outside().recorded_status().holds == ("scheduler (admin)",)


def test_the_schedulers_words_are_shown_while_it_waits() -> None:
    assert pending().recorded_status().pending_reason == "Priority"
    running = History().running().shows("o1", "running", reason="fine")
    assert running.recorded_status().pending_reason is None


def test_clean_up_is_told_apart_from_the_outcome() -> None:
    status = History().running().wants("cancel").recorded_status()
    assert (status.outcome, status.cleanup_pending) == (Outcome.CANCELLED, True)
    assert status.unsettled == ("object o1 was last seen running",)
    settled = History().over().recorded_status()
    assert (settled.cleanup_pending, settled.unsettled, settled.waiting_for) == (
        False,
        (),
        (Waiting("retention", "it is settled; late arrivals are still looked for", t(365)),),
    )


def test_escalations_are_shown() -> None:
    status = History().escalated("k", "test", "look").recorded_status()
    assert [(one.key, one.detail) for one in status.escalations] == [("k", "look")]


def test_without_a_look_it_is_judged_as_of_the_newest_evidence() -> None:
    status = History().cancelled_and_stopped().later(600).recorded_status()
    assert status.unsettled == ("the end of o1 is too fresh to be safe from a crash",)


def test_a_record_without_evidence_is_judged_as_of_now() -> None:
    status = History().wants("cancel").recorded_status()
    assert status.unsettled == ()


# --- waiting --------------------------------------------------------------------------------


def waits(history: History, what: str) -> list[tuple[str, Any]]:
    found = history.recorded_status().waiting_for
    return [(one.detail, one.until) for one in found if one.what == what]


def test_it_waits_for_a_person_under_a_hold() -> None:
    assert waits(History().wants("hold"), "person") == [("held by bob: release or cancel it", None)]
    assert waits(History().ended().recovery_hold(), "person") == [
        ("the plan asks what to do about app_error: resubmit, give up or cancel", None)
    ]


def test_a_question_is_shown_with_its_detail() -> None:
    history = History(plan=plan(app_error=Rule(action=Action.RESUBMIT, limit=0))).ended()
    history.add(*history.decide(history.sight("o1", "failed", cause="app_error")).facts)
    ((detail, _),) = waits(history, "person")
    assert detail == (
        "the plan asks what to do about app_error: app_error: 0 of 0 recoveries used: "
        "resubmit, give up or cancel"
    )


def test_it_waits_for_no_person_about_a_hold_once_it_is_over() -> None:
    history = History().ended("succeeded").wants("hold").outcome("succeeded")
    assert waits(history, "person") == []


def test_it_waits_for_a_person_beside_a_foreign_object() -> None:
    history = History().shows("x", "running", n=4)
    assert waits(history, "person") == [
        ("foreign object x blocks every start: abandon or end it", None)
    ]


def test_it_waits_for_a_person_about_an_unmatched_attempt_under_manual() -> None:
    manual = History(unmatched=UnmatchedPolicy.MANUAL).authorized().attempt().later(200)
    assert waits(manual.unmatched(), "person") == [
        ("attempt 1.1 was never seen: resubmit or abandon it", None)
    ]
    assert waits(manual.wants("abandon", target="1.1"), "person") == []


def test_it_waits_for_deadlines() -> None:
    assert waits(History().authorized().attempt(), "deadline") == [
        ("attempt 1.1 may still land", t(120 + SKEW_S))
    ]
    called = History(capabilities=FULL).ended().requeue_call()
    assert waits(called, "deadline") == [
        ("the requeue call on o1 may still land", t(20 + 120 + SKEW_S))
    ]


def test_it_waits_for_windows_and_the_save_window() -> None:
    lost = History().running().shows("o1", "failed", cause="node_lost", lost_at=10)
    assert waits(lost, "window") == [("o1 may still execute on a lost node", t(315))]
    assert waits(lost, "save") == [
        ("a crash of the scheduler could undo the end of o1", t(30)),
    ]
    assert waits(lost.later(400), "window") == []


def test_it_waits_for_capacity() -> None:
    assert waits(pending(), "capacity") == [("Priority", None)]
    limited = History(plan=plan(pending_limit_s=60)).started().released().later(5)
    limited.shows("o1", "pending", cause="no_capacity")
    assert waits(limited, "capacity") == [("the scheduler hasn't started it", t(65 + SKEW_S))]
    assert waits(gated(), "capacity") == []
    assert waits(held_outside(), "capacity") == [("the scheduler hasn't started it", None)]


def test_it_waits_until_a_crash_can_not_put_the_gate_back() -> None:
    assert waits(pending(), "save") == [("a crash of the scheduler could close o1 again", t(25))]
    assert waits(pending().wants("cancel"), "save") == []


def test_it_waits_for_a_person_about_a_hold_that_is_not_ours() -> None:
    history = pending().later(30).shows("o1", "pending").later(5).shows("o1", "pending", held=True)
    assert waits(history, "person") == [("o1 is held at the scheduler, not by Dispatch", None)]


def test_it_waits_for_stops_but_not_for_what_is_foreign_or_abandoned() -> None:
    cancelled = History().running().wants("cancel")
    assert waits(cancelled, "stop") == [
        ("o1 is being stopped: the job's outcome is cancelled", None)
    ]
    assert waits(cancelled.wants("abandon", target="o1"), "stop") == []


def test_it_waits_for_the_plans_back_off_only_while_that_matters() -> None:
    slow = History(plan=plan(Action.RESUBMIT, app_error=Rule(action=Action.RESUBMIT, backoff_s=90)))
    assert waits(slow.ended(), "back_off") == [
        ("the plan waits before it answers app_error", t(110))
    ]
    assert waits(slow.wants("hold"), "back_off") == []
    assert waits(History(capabilities=GATED).ended(), "back_off") == []
    older = History(
        plan=plan(Action.RESUBMIT, app_error=Rule(action=Action.RESUBMIT, backoff_s=90))
    )
    older.ended().later(30).authorized(2)
    assert waits(older, "back_off") == []


def test_it_waits_after_a_refused_start_until_the_next() -> None:
    history = History(capabilities=UNGATED).authorized().attempt().refused(detail="busy")
    assert waits(history, "back_off") == [("the last start was refused: busy", t(15))]
    assert waits(history.later(60), "back_off") == []
    assert waits(History().authorized().attempt().refused().wants("cancel"), "back_off") == []
    retired_ends = History().authorized().attempt().shows("o1").shows("o2").canonical("o1")
    retired_ends.retired("o2").later(5).shows("o2", "failed", cause="stopped")
    assert waits(retired_ends, "back_off") == []


@pytest.mark.parametrize(
    ("end", "outcome", "cause"),
    [
        ({"state": "succeeded", "exit_code": 0}, "succeeded", None),
        ({"state": "failed", "cause": "app_error", "exit_code": 3}, "failed", "app_error"),
    ],
)
def test_after_an_end_that_a_crash_undid_the_status_tells_of_the_run_that_made_the_outcome(
    end: dict[str, Any], outcome: str, cause: str | None
) -> None:
    history = History().ended(**end).outcome(outcome, cause)
    undone = history.later(5).shows("o1", "running")
    for again in (undone, undone.later(5).shows("o1", "failed", cause="stopped", signal=15)):
        status = again.recorded_status()
        assert (status.exit_code, status.signal) == (end["exit_code"], None)


def test_where_no_run_tells_of_the_outcome_the_latest_one_s_exit_is_told() -> None:
    history = History(plan=plan(pending_limit_s=60)).started().released()
    history.shows("o1", "pending", cause="no_capacity").later(70).expired()
    history.later(5).shows("o1", "failed", cause="stopped", signal=15)
    status = history.outcome("failed", "no_capacity").recorded_status()
    assert (status.cause, status.signal) == (Cause.NO_CAPACITY, 15)
