"""Small differences that matter in steps and waits: each was missed by a change of one word."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dispatch.core import next as next_module
from dispatch.core import rules
from dispatch.core.fold import fold
from dispatch.core.next import steps_due
from dispatch.core.parts import CallState
from dispatch.core.settled import open_because, unsettled_because
from dispatch.core.steps import Append, Stop, Waiting
from dispatch.core.waiting import waits
from dispatch.errors import InvalidRecord, RecordRefused
from dispatch.record import fact as facts
from dispatch.record.evidence import Doubt
from dispatch.record.names import Action, Capability, Cause, ObjectState
from dispatch.record.view import Envelope
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
from tests.core.test_next_calls import quiet, rows
from tests.core.test_words import said


def in_place(**declared: Any) -> History:
    return History(capabilities=FULL, plan=plan(Action.REQUEUE, in_place=True), **declared)


def waiting(history: History, what: str) -> list[Waiting]:
    return [one for one in waits(history.job(), None, t(history.now)) if one.what == what]


def second_submission() -> History:
    """Submission 1 failed and is closed; submission 2 is authorized."""
    history = History(plan=plan(Action.RESUBMIT)).ended().later(30)
    return history.authorized(2, "rec:1.1", cause="app_error")


# --- what a step from a look says -------------------------------------------------------------


def test_news_is_recorded_with_its_reason() -> None:
    history = History().started().released().later(5)
    assert said(history.next(history.sight("o1", "running")))[0] == (
        "1: the Find has news, or proves that a call expired"
    )


def test_a_sighting_that_says_gone_is_news() -> None:
    history = History().running().later(30)
    (step, *_) = history.next(history.sight("o1", "gone")).steps
    assert (step.row, isinstance(step, Append)) == ("1", True)


def test_a_look_begun_when_the_newest_was_may_tell_of_absence() -> None:
    (step, *_) = History().running().later(30).next(taken=10).steps
    assert isinstance(step, Append)
    (fact,) = step.facts
    assert isinstance(fact, facts.Observed)
    assert [one.state for one in fact.objects] == [ObjectState.GONE]


def test_a_sighting_is_recorded_with_the_tag_that_its_object_has() -> None:
    history = History().running().later(30)
    (step, *_) = history.next(history.sight("o1", "failed", n=3, a=2)).steps
    assert isinstance(step, Append)
    (fact,) = [one for one in step.facts if isinstance(one, facts.Observed)]
    assert [(one.n, one.a) for one in fact.objects] == [(1, 1)]


def test_that_accounting_may_learn_later_is_noted_with_its_reason_and_waited_for() -> None:
    history = History(capabilities=(*GATED, Capability.LOOKUP), lookup_lag_s=60).running()
    upcoming = history.later(30).next(looked_up=["o1"])
    assert said(upcoming) == ["1b: accounting may learn of an end later"]
    (wait,) = [one for one in upcoming.waiting if one.what == "lookup"]
    assert wait.detail == "accounting may still learn how o1 ended"


def test_an_attempt_that_cant_land_any_more_is_closed_though_another_is_not_unknown() -> None:
    history = second_submission().attempt(2).later(CALL_BOUND_S + SKEW_S)
    assert said(quiet(history))[0] == "2: attempt 2.1 can't land any more"


def test_what_cant_be_read_is_told_with_its_reason() -> None:
    history = History().running()
    doubt = Doubt("strange/1", "strange_state", "job 1: unknown state token ODD")
    seen = replace(history.sees(history.sight("o1"), complete=False), doubts=(doubt,))
    (step,) = steps_due(history.job(), seen, t(history.now))
    assert (step.row, step.why) == ("3", "nothing is concluded from what can't be read")


def test_who_decides_is_the_supervisor_unless_another_name_is_given() -> None:
    history = History()
    (step,) = steps_due(history.job(), history.sees(), t(0))
    assert isinstance(step, Append)
    assert step.facts[0].by == "supervisor"


def test_a_canonical_object_is_chosen_with_its_reason() -> None:
    history = History().authorized().attempt().shows("o1")
    assert said(quiet(history))[0] == "4: o1 is the run of submission 1"


def test_a_duplicate_is_retired_with_its_reason() -> None:
    history = History().authorized().attempt().shows("o1").shows("o2").canonical("o1")
    assert said(quiet(history))[0] == "5: objects that must not run"


def test_a_duplicate_is_retired_by_its_own_submission_s_run() -> None:
    """Submission 2 has no run yet, so nothing of it is retired; submission 1's duplicate is."""
    history = second_submission().attempt(2).shows("p1", n=2).shows("o9", "running")
    (step,) = next_module._retire(history.job(), history.sees(), t(history.now), "s1")
    assert isinstance(step, Append)
    assert [fact.ref for fact in step.facts if isinstance(fact, facts.Retired)] == ["o9"]


def test_settling_says_why() -> None:
    history = History().cancelled_and_stopped().later(SAVE_WINDOW_S)
    assert said(quiet(history)) == ["7: nothing of this job is left anywhere"]


def test_holding_says_why() -> None:
    history = History(capabilities=FULL).running().wants("hold")
    assert said(quiet(history)) == ["9: the job is to be held"]


# --- stops ------------------------------------------------------------------------------------


def test_what_lives_of_an_older_submission_is_stopped_by_its_own_tag() -> None:
    history = second_submission().later(5).shows("o1", "running", restarts=1)
    (step,) = [one for one in quiet(history).steps if isinstance(one, Stop)]
    assert (step.ref, step.n, step.a) == ("o1", 1, 1)
    assert step.why == "it is of an older submission"


def test_each_of_several_is_stopped_and_the_one_that_wont_end_is_told_of() -> None:
    history = History().authorized().attempt().shows("o1").shows("o2").canonical("o1")
    history.retired("o2").wants("cancel").later(700)
    upcoming = quiet(history)
    assert [one.ref for one in upcoming.steps if isinstance(one, Stop)] == ["o1", "o2"]
    (told,) = [one for one in upcoming.steps if isinstance(one, Append)]
    assert told.row == "6"
    (fact,) = told.facts
    assert isinstance(fact, facts.Escalated)
    assert (fact.code, fact.key) == ("stop_failing", "stop_failing/o1")


def test_the_second_that_wont_end_is_told_of_though_the_first_was() -> None:
    history = History().authorized().attempt().shows("o1").shows("o2").canonical("o1")
    history.retired("o2").wants("cancel").later(700).escalated("stop_failing/o1")
    (told,) = [one for one in quiet(history).steps if isinstance(one, Append)]
    (fact,) = told.facts
    assert isinstance(fact, facts.Escalated)
    assert fact.key == "stop_failing/o2"


def test_what_runs_held_by_others_is_not_requeued() -> None:
    history = in_place().running().later(5)
    history.shows("o1", "running", held=True, holder="admin").wants("requeue")
    assert "10" not in rows(quiet(history))


def test_what_runs_held_by_us_is_neither_requeued_nor_released_while_a_requeue_is_wanted() -> None:
    history = in_place().running().hold_call(deadline=20)
    history.at(26).shows("o1", "running", held=True).wants("requeue")
    assert rows(quiet(history)) == []


def test_a_gate_stays_closed_while_a_resubmit_is_wanted() -> None:
    history = History().started().wants("resubmit")
    assert "11" not in rows(quiet(history))


def test_a_gate_is_opened_only_on_a_complete_look() -> None:
    history = History().started().later(10)
    shown = history.sight("o1", "pending", held=True)
    assert "11" not in rows(history.shows("o1", "pending", held=True).next(shown, complete=False))
    assert "11" in rows(history.next(shown))


def test_what_runs_is_requeued_in_place_only_on_a_complete_look() -> None:
    history = in_place().running().wants("requeue")
    shown = history.sight("o1", "running")
    assert "10" not in rows(history.next(shown, complete=False))
    assert "10" in rows(history.next(shown))


def test_what_ended_is_requeued_in_place_only_on_a_complete_look() -> None:
    history = in_place().ended().later(30)
    shown = history.sight("o1", "failed")
    assert "13" not in rows(history.next(shown, complete=False))
    assert "13" in rows(history.next(shown))


# --- calls ------------------------------------------------------------------------------------


def seen_open() -> History:
    """The gate of o1 was opened, and it is seen pending and open at 5."""
    return in_place().started().released().at(5).shows("o1", "pending")


def test_a_gate_that_closed_again_is_a_hazard_whatever_other_call_was_made_on_that_run() -> None:
    history = seen_open().requeue_call(deadline=6).at(6 + SKEW_S).shows("o1", "pending")
    history.at(15).shows("o1", "pending", held=True)
    assert history.job().objects["o1"].hazard_from == t(15)


def test_a_gate_that_closed_again_is_a_hazard_though_an_earlier_run_was_to_be_held() -> None:
    history = seen_open().hold_call(deadline=6).at(6 + SKEW_S).shows("o1", "pending")
    history.at(12).shows("o1", "pending", restarts=1, started_at=11)
    hazard = history.job().objects["o1"].hazard_from
    history.at(15).shows("o1", "pending", held=True, restarts=1)
    assert history.job().objects["o1"].hazard_from == t(15) != hazard


def test_a_look_at_one_object_judges_no_call_on_another() -> None:
    """The first call landed; at its deadline only the second submission's object is seen."""
    history = in_place().ended().at(50).requeue_call("o1", "ctl:a")
    history.at(60).shows("o1", "running", restarts=1).at(70).shows("o1", "failed", restarts=1)
    history.at(100).authorized(2, "ctl:b").attempt(2).replied(2, ref="p1").canonical("p1", 2)
    history.released("p1").at(110).shows("p1", "running", n=2).requeue_call("p1", "ctl:c")
    history.at(180).shows("p1", "running", n=2)
    first, second = history.job().calls
    assert (first.ref, first.state, first.final) == ("o1", CallState.LANDED, False)
    assert (second.ref, second.state) == ("p1", CallState.OPEN)


def test_our_hold_stays_ours_while_a_hold_call_on_it_may_land() -> None:
    history = History(capabilities=FULL).running().hold_call().at(40).shows("o1", "running")
    assert history.job().objects["o1"].ours_held is True
    without = History(capabilities=FULL).running().at(40).shows("o1", "running")
    assert without.job().objects["o1"].ours_held is False


def test_a_requeue_that_never_landed_is_answered_from_the_look_that_showed_it() -> None:
    history = in_place().ended().later(30).requeue_call(cause="app_error", deadline=60).at(70)
    resubmit = history.shows("o1", "failed").job().resubmit
    assert resubmit is not None
    assert resubmit.at == t(70)


def test_calls_that_are_done_with_are_all_kept() -> None:
    history = in_place().running().hold_call(deadline=30).at(40).shows("o1", "running")
    history.requeue_call(deadline=60, trigger="ctl:r").at(70).shows("o1", "running")
    assert [call.kind.value for call in history.job().done_calls] == ["hold", "requeue"]


def test_without_a_save_window_our_hold_is_off_with_the_first_look_that_shows_it() -> None:
    history = History(save_window_s=0).started().released()
    history.observed(history.sight("o1", "running"), taken=5, seen=8)
    assert not history.job().objects["o1"].ours_held


def test_what_was_never_seen_open_is_not_open_for_good() -> None:
    known = History(capabilities=UNGATED).started().job().objects["o1"]
    declared = History(capabilities=UNGATED).header.declarations
    assert (known.run.held, known.opened_at) == (False, None)
    assert not rules.opened_for_good(known, t(500), declared)


# --- what is waited for -----------------------------------------------------------------------


def landed(state: str = "running", **declared: Any) -> History:
    """A requeue call of 120 seconds was recorded at 50, and restarts grew since."""
    history = in_place(**declared).ended().at(50).requeue_call(cause="app_error")
    return history.later(10).shows("o1", state, restarts=1)


def test_a_landed_requeue_may_be_anothers_and_is_waited_out_once_the_run_ended() -> None:
    assert waiting(landed(), "deadline") == []
    (wait,) = waiting(landed("succeeded"), "deadline")
    assert wait.detail == "the requeue call on o1 may still land"
    assert wait.until == t(50 + CALL_BOUND_S + SKEW_S)
    (cancelled,) = waiting(landed().wants("cancel"), "deadline")
    assert cancelled == wait


def test_a_success_waits_until_a_landed_requeue_cant_land_any_more() -> None:
    over = 50 + CALL_BOUND_S + SKEW_S
    assert "12" not in rows(quiet(landed("succeeded").at(over - 1)))
    assert "12" in rows(quiet(landed("succeeded").at(over)))


def test_a_failure_is_answered_once_a_landed_requeue_cant_land_any_more() -> None:
    over = 50 + CALL_BOUND_S + SKEW_S
    assert "13" not in rows(quiet(landed("failed", save_window_s=0).at(over - 1)))
    assert "13" in rows(quiet(landed("failed", save_window_s=0).at(over)))


# --- runs that followed an undone end, and that nobody saw ------------------------------------

RERUN_OVER = 60 + NODE_LOSS_WINDOW_S + SKEW_S
"""`landed` sees the next run at 60."""


def test_an_unseen_rerun_is_waited_out_before_the_same_object_runs_again() -> None:
    assert "13" not in rows(quiet(landed("failed").at(RERUN_OVER - 1)))
    assert "13" in rows(quiet(landed("failed").at(RERUN_OVER)))
    (wait,) = waiting(landed("failed"), "window")
    assert wait.detail == "a run of o1 that nobody saw may still execute"
    assert wait.until == t(RERUN_OVER)
    assert waiting(landed("failed").at(RERUN_OVER), "window") == []


def test_an_unseen_rerun_is_waited_out_before_the_next_gate_opens() -> None:
    history = landed("failed").at(70 + CALL_BOUND_S).wants("resubmit")
    history.authorized(2, "ctl:resubmit").attempt(2).replied(2, ref="o2").canonical("o2", 2)
    assert rows(quiet(history.at(RERUN_OVER - 1))) == []
    assert rows(quiet(history.at(RERUN_OVER))) == ["11"]


def test_an_unseen_rerun_is_waited_out_before_a_live_requeue_in_place() -> None:
    history = landed().at(50 + CALL_BOUND_S + SKEW_S).shows("o1", "running", restarts=1)
    history.wants("requeue")
    assert "10" not in rows(quiet(history.at(RERUN_OVER - 1)))
    assert "10" in rows(quiet(history.at(RERUN_OVER)))


def test_an_unseen_rerun_is_waited_out_before_settling_and_not_for_the_record() -> None:
    """A record written before this rule may be settled earlier, and is still read."""
    history = landed("failed").wants("cancel").at(RERUN_OVER - 1)
    assert unsettled_because(history.job(), t(history.now), t(history.now)) == []
    assert open_because(history.job(), t(history.now), t(history.now)) == [
        "a run of o1 that nobody saw may still execute"
    ]
    assert rows(quiet(history)) == []
    assert rows(quiet(history.at(RERUN_OVER))) == ["7"]
    vouched = landed("failed").wants("cancel").wants("abandon", "vouch", target="o1")
    vouched.at(RERUN_OVER - 1)
    assert open_because(vouched.job(), t(vouched.now), t(vouched.now)) == []


def reruns(history: History) -> object:
    return rules.rerun_until(history.job(), history.job().objects["o1"])


def test_a_rerun_is_unseen_only_after_one_restart_from_an_end_that_a_crash_can_undo() -> None:
    assert reruns(landed("failed")) == t(RERUN_OVER)
    assert reruns(landed("running")) == t(RERUN_OVER)
    assert reruns(landed("failed", save_window_s=0)) is None
    assert reruns(in_place().ended()) is None
    assert reruns(in_place().ended().at(60).shows("o1", "running", restarts=2)) is None
    assert reruns(in_place().running().at(60).shows("o1", "running", restarts=1)) is None
    assert reruns(in_place().ended().at(60).shows("o1", "running")) is None


def closed(seen: float, *, taken: float, then: float) -> History:
    """An end seen then; submission 2 authorized by a look begun at `taken`; raised at `then`."""
    history = History(plan=plan(Action.RESUBMIT)).running().at(seen)
    history.shows("o1", "failed", cause="app_error").at(taken)
    history.authorized(2, "rec:1.1", cause="app_error")
    return history.at(then).shows("o1", "running", restarts=1)


def test_an_end_that_closed_a_submission_was_saved_so_no_rerun_followed_it() -> None:
    assert reruns(closed(20, taken=20 + SAVE_WINDOW_S, then=60)) is None
    assert reruns(closed(20, taken=60, then=60)) == t(RERUN_OVER), "neither was first"
    raised_before = landed("failed").at(70 + CALL_BOUND_S).wants("resubmit")
    raised_before.authorized(2, "ctl:resubmit")
    assert reruns(raised_before) == t(RERUN_OVER), "it was seen before the submission was closed"
    second = closed(20, taken=20 + SAVE_WINDOW_S, then=60).shows("o1", "failed", restarts=1)
    second.at(90).shows("o1", "running", restarts=2)
    assert reruns(second) == t(90 + NODE_LOSS_WINDOW_S + SKEW_S)


def test_a_resubmit_waits_until_a_landed_requeue_cant_land_any_more() -> None:
    over = 50 + CALL_BOUND_S + SKEW_S
    wanted = landed("failed").later(1).wants("resubmit")
    assert "14" not in rows(quiet(wanted.at(over - 1)))
    assert "14" in rows(quiet(wanted.at(over)))


def test_a_vouched_for_attempt_is_waited_for_once_there_is_an_outcome_until_its_deadline() -> None:
    def vouched() -> History:
        return History().authorized().attempt().later(5).wants("abandon", target="1.1")

    assert waiting(vouched(), "deadline") == []
    (wait,) = waiting(vouched().wants("cancel"), "deadline")
    assert (wait.detail, wait.until) == ("attempt 1.1 may still land", t(CALL_BOUND_S + SKEW_S))
    assert waiting(vouched().wants("cancel").at(CALL_BOUND_S + SKEW_S), "deadline") == []


@pytest.mark.parametrize("capabilities", [UNGATED, GATED])
def test_without_a_gate_what_a_person_vouched_for_is_waited_out_before_the_next_start(
    capabilities: tuple[Capability, ...],
) -> None:
    """It may land all the same, and would run at once; behind a gate it would only be retired."""
    history = History(capabilities=capabilities).authorized().attempt().later(5)
    history.wants("abandon", target="1.1")
    over = CALL_BOUND_S + SKEW_S
    waits_for_it = capabilities is UNGATED
    assert ("16" not in rows(quiet(history.at(over - 1)))) is waits_for_it
    assert [one.until for one in waiting(history, "deadline")] == [t(over)] * waits_for_it
    assert "16" in rows(quiet(history.at(over)))


def test_a_back_off_is_waited_for_until_it_is_over() -> None:
    history = History().authorized().attempt().refused(detail="busy")
    (wait,) = waiting(history, "back_off")
    assert wait.until is not None
    assert waiting(history.at((wait.until - t(0)).total_seconds()), "back_off") == []


def test_nothing_is_waited_for_of_a_foreign_object_but_a_person() -> None:
    history = History().running().shows("x", "running", n=7)
    assert [one.what for one in waits(history.job(), None, t(10))] == ["person", "save"]


@pytest.mark.parametrize("abandoned", [False, True])
def test_no_window_is_waited_for_of_what_is_foreign_or_vouched_for(abandoned: bool) -> None:
    history = History().running()
    if abandoned:
        history.wants("abandon", target="o1")
        history.later(5).shows("o1", "failed", cause="node_lost", lost_at=12)
    else:
        history.shows("x", "failed", n=7, cause="node_lost", lost_at=12)
    assert waiting(history, "window") == []


def test_a_hold_of_somebody_elses_waits_for_a_person_until_the_pending_limit() -> None:
    history = History(plan=plan(pending_limit_s=60)).started().released().later(5)
    history.shows("o1", "pending").later(SAVE_WINDOW_S + 1).shows("o1", "pending").later(5)
    history.shows("o1", "pending", held=True, cause="held_outside")
    (wait,) = waiting(history, "person")
    assert wait.detail == "o1 is held at the scheduler, not by Dispatch"
    assert wait.until == t(history.now + 60 + SKEW_S)


def earlier_run() -> History:
    """What ran was held while its node was lost: the object waits, held by us, beside that run."""
    history = History(capabilities=FULL).running().wants("hold").later(5).hold_call()
    history.later(5).shows("o1", "ending", cause="node_lost", lost_at=20)
    return history.later(5).shows("o1", "pending", held=True, restarts=1, lost_at=20)


def test_an_earlier_run_is_waited_for_by_its_name_until_its_window_is_over() -> None:
    history = earlier_run().later(5).wants("release")
    (wait,) = waiting(history, "window")
    assert wait.detail == "an earlier run of o1 may still execute"
    assert wait.until is not None
    end = (wait.until - t(0)).total_seconds()
    assert end >= 20 + NODE_LOSS_WINDOW_S
    assert waiting(history.at(end), "window") == []


def test_an_earlier_run_delays_only_what_waits_for_it() -> None:
    history = earlier_run().later(5).wants("release")
    history.later(5).shows("o1", "running", restarts=1, lost_at=20)
    assert waiting(history, "window") == []


def test_a_hold_that_may_come_back_is_waited_for_until_the_save_window_is_over() -> None:
    history = History().running()
    (wait,) = waiting(history, "save")
    assert wait.until == t(10 + SAVE_WINDOW_S)
    assert waiting(history.at(10 + SAVE_WINDOW_S), "save") == []


# --- fold ---------------------------------------------------------------------------------------


def test_a_record_under_another_jobs_name_is_refused_by_both_names() -> None:
    view = replace(History().view(), job_id="jotherjob")
    with pytest.raises(InvalidRecord) as caught:
        fold(view, t(0))
    assert caught.value.job == "jotherjob"
    assert "the header is of job jabcdefgh" in str(caught.value)


def test_a_header_that_cant_be_read_is_refused_with_its_job() -> None:
    view = replace(History().view(), header=Envelope("dispatch.header.v9", "{}", "token"))
    with pytest.raises(RecordRefused) as caught:
        fold(view, t(0))
    assert caught.value.job == "jabcdefgh"


def test_whether_an_attempt_counts_is_kept_with_it() -> None:
    assert History().authorized().attempt().refused().job().attempts[1, 1].counts is True
    assert History().authorized().attempt().not_sent().job().attempts[1, 1].counts is False


def test_what_doesnt_count_is_counted_for_its_own_submission() -> None:
    job = second_submission().attempt(2).not_sent(2).job()
    assert [(one.n, one.uncounted) for one in job.submissions] == [(1, 0), (2, 1)]


def test_a_submission_keeps_its_reason_and_its_cause_and_each_counts() -> None:
    job = second_submission().job()
    assert (job.submissions[1].trigger, job.submissions[1].cause) == ("rec:1.1", Cause.APP_ERROR)
    history = second_submission().attempt(2).replied(2, ref="p1").canonical("p1", 2)
    history.released("p1").later(5).shows("p1", "failed", n=2).later(30)
    twice = history.authorized(3, "rec:2.1", cause="app_error").job()
    assert twice.spent == {Cause.APP_ERROR: 2}


def test_a_run_that_nobody_saw_begin_was_seen_open_when_it_was_seen() -> None:
    history = History().started().at(7).shows("o1", "running", restarts=1)
    assert history.job().objects["o1"].opened_at == t(7)


def test_what_a_live_run_showed_once_is_kept() -> None:
    history = History().started().at(7).shows("o1", "ending", exit_code=3, signal=9)
    run = history.at(8).shows("o1", "ending").job().objects["o1"].run
    assert (run.exit_code, run.signal) == (3, 9)


def test_what_vanished_waits_no_more_and_says_who_told() -> None:
    history = History().started().released().at(7).shows("o1", "pending", cause="no_capacity")
    run = history.at(30).shows("o1", "gone", source="absence").job().objects["o1"].run
    assert (run.waiting_since, run.source) == (None, "absence")
