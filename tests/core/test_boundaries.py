"""Small differences that matter: each test here was missed by a change of one word in core."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from dispatch.core import merge, recover, rules, starting, stopping
from dispatch.core.decide import decide
from dispatch.core.fold import fold, refold
from dispatch.core.next import next_steps
from dispatch.core.parts import AttemptState, CallKind, Run
from dispatch.core.settled import unsettled_because
from dispatch.core.steps import Alert, Append, Next, Stop
from dispatch.core.waiting import waits
from dispatch.errors import InvalidRecord, RecordRefused
from dispatch.record import fact as facts
from dispatch.record.header import Rule
from dispatch.record.names import Action, Capability, Cause, ObjectState, Outcome
from tests.core.histories import (
    CALL_BOUND_S,
    FULL,
    GATED,
    SAVE_WINDOW_S,
    SKEW_S,
    UNGATED,
    History,
    plan,
    t,
)
from tests.core.test_next_calls import quiet, rows


def in_place() -> History:
    return History(capabilities=FULL, plan=plan(Action.REQUEUE, in_place=True))


def kinds(history: History) -> list[str]:
    return [one.what for one in waits(history.job(), None, t(history.now))]


# --- what fold keeps of a fact ----------------------------------------------------------------


def test_a_retired_object_keeps_since_when() -> None:
    history = History().authorized().attempt().shows("o1").shows("o2").canonical("o1")
    known = history.later(7).retired("o2", "a duplicate").job().objects["o2"]
    assert (known.retired, known.retired_at) == ("a duplicate", t(7))


def test_an_expired_object_keeps_since_when_and_its_reason_is_used() -> None:
    history = History().started().released().shows("o1", "pending", cause="no_capacity")
    job = history.later(9).expired().job()
    assert (job.objects["o1"].expired, job.objects["o1"].expired_at) == (Cause.NO_CAPACITY, t(9))
    assert "pend:1.1" in job.triggers


def test_a_hold_call_keeps_what_it_was_meant_for() -> None:
    (call,) = History(capabilities=FULL).running().hold_call().job().calls
    assert (call.kind, call.ref, call.n, call.run, call.restarts) == (CallKind.HOLD, "o1", 1, 1, 0)
    assert (call.at, call.deadline) == (t(10), t(130))


def test_a_requeue_call_keeps_what_it_was_meant_for_and_its_reason_is_used() -> None:
    history = in_place().ended().later(30).requeue_call(cause="app_error")
    (call,) = history.job().calls
    assert (call.kind, call.ref, call.n, call.run, call.restarts) == (
        CallKind.REQUEUE, "o1", 1, 1, 0,
    )  # fmt: skip
    assert (call.at, call.deadline, call.trigger) == (t(50), t(170), "rec:1.1")
    assert call.cause is Cause.APP_ERROR
    assert "rec:1.1" in history.job().triggers


def test_a_recovery_hold_keeps_since_when_and_its_reason_is_used() -> None:
    job = History().ended().recovery_hold().job()
    assert job.recovery is not None
    assert (job.recovery.at, job.recovery.trigger) == (t(20), "rec:1.1:h")
    assert "rec:1.1:h" in job.triggers


def test_an_outcome_keeps_who_said_it_when_and_why() -> None:
    said = facts.OutcomeFact(
        at=t(20), by="s1", state=Outcome.FAILED, cause=Cause.APP_ERROR, detail="exit 3"
    )
    ending = History().ended().add(said).job().ending
    assert ending is not None
    assert (ending.state, ending.at, ending.by) == (Outcome.FAILED, t(20), "s1")
    assert (ending.cause, ending.detail) == (Cause.APP_ERROR, "exit 3")


def test_an_escalation_keeps_its_code() -> None:
    told = History().escalated("k", "stop_failing", "o1 runs on").job().escalations["k"]
    assert (told.key, told.code, told.detail, told.at) == ("k", "stop_failing", "o1 runs on", t(0))


def test_a_wish_keeps_when_it_was_wished() -> None:
    assert History().later(4).wants("hold").job().wishes["hold"].at == t(4)


def test_a_release_after_a_stop_is_a_resubmit_from_then_on() -> None:
    history = History().running().wants("hold").later(5).shows("o1", "failed", cause="stopped")
    resubmit = history.later(6).wants("release").job().resubmit
    assert resubmit is not None
    assert (resubmit.trigger, resubmit.at) == ("ctl:release", t(21))


def test_giving_up_keeps_who_gave_up_when_and_why() -> None:
    job = History().running().later(3).wants("give_up", reason="too late").job()
    assert job.ending is not None
    assert (job.ending.at, job.ending.by, job.ending.detail) == (t(13), "bob", "too late")
    (told,) = job.escalations.values()
    assert told.key in job.escalations


def test_an_ended_run_keeps_its_signal_when_a_later_look_has_none() -> None:
    history = History().ended("failed", signal=9).later(5)
    history.shows("o1", "failed", signal=None, reason="out of patience")
    run = history.job().objects["o1"].run
    assert (run.signal, run.reason) == (9, "out of patience")


def test_an_end_seen_first_may_turn_out_to_have_executed() -> None:
    history = History().started().released().shows("o1", "failed", cause="stopped")
    assert not history.job().objects["o1"].run.executed
    history.later(5).shows("o1", "failed", cause="stopped", started_at=1)
    assert history.job().objects["o1"].run.executed


def test_what_is_missing_is_called_gone_at_the_restarts_it_was_seen_with() -> None:
    history = History().running().later(5).shows("o1", "running", restarts=2).later(60)
    found = history.decide()
    seen = [one for fact in found.facts if isinstance(fact, facts.Observed) for one in fact.objects]
    assert [(one.state, one.restarts) for one in seen] == [(ObjectState.GONE, 2)]


def test_settled_is_refused_with_every_reason() -> None:
    history = History().running().wants("cancel").shows("x", "running", n=5).settled()
    with pytest.raises(InvalidRecord) as refused:
        fold(history.view(), t(99))
    assert str(refused.value).endswith(
        "object o1 was last seen running; foreign object x isn't disposed"
    )


# --- a copy -----------------------------------------------------------------------------------


def busy() -> History:
    """A record with something in every place of a job."""
    history = in_place().running().wants("hold").wants("release", "r").shows("x", "running", n=5)
    history.wants("abandon", target="x").shows("o1", "failed").later(30)
    history.requeue_call(cause="app_error").later(5).shows("o1", "running", restarts=1)
    history.later(CALL_BOUND_S + SKEW_S).shows("o1", "running", restarts=1)
    history.later(5).hold_call(run=2, restarts=1).escalated().wants("requeue").wants("hold", "h")
    return history


CONTAINERS = (
    "submissions", "attempts", "objects", "strangers", "past", "calls", "done_calls", "triggers",
    "spent", "escalations", "wishes",
)  # fmt: skip


@pytest.mark.parametrize(
    "history",
    [
        busy(),
        History().ended().recovery_hold(),
        History().running().wants("resubmit"),
        History().over(),
    ],
    ids=["busy", "asking", "to be resubmitted", "settled"],
)
def test_a_copy_is_the_same_job_in_containers_of_its_own(history: History) -> None:
    job = history.job()
    copy = job.copy()
    for one in fields(job):
        assert getattr(copy, one.name) == getattr(job, one.name), one.name
    for name in CONTAINERS:
        assert getattr(copy, name) is not getattr(job, name), name


def test_a_busy_record_has_something_in_every_place() -> None:
    job = busy().job()
    assert [name for name in CONTAINERS if not getattr(job, name)] == []


# --- rules ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("restarts", "unseen"), [(1, False), (2, True), (3, True)])
def test_two_restarts_at_once_mean_a_run_that_nobody_saw(restarts: int, unseen: bool) -> None:
    run = Run(1, 0, ObjectState.RUNNING, t(0))
    assert merge.runs_between(run, History().sight(restarts=restarts)) is unseen


def test_each_submission_is_closed_or_open_by_itself() -> None:
    history = History().ended().later(30).authorized(2).attempt(2).replied(2, ref="o2")
    job = history.canonical("o2", 2).later(5).shows("o2", "running", n=2).job()
    assert rules.submission_closed(job, 1, t(history.now))
    assert rules.submission_open_because(job, 2, t(history.now)) == (
        "its canonical object o2 isn't verified stopped"
    )


def test_a_closed_attempt_does_not_close_the_ones_after_it() -> None:
    history = History().authorized().attempt().refused().later(30).attempt(1, 2)
    assert history.job().attempts[1, 1].state is AttemptState.REFUSED
    assert rules.submission_open_because(history.job(), 1, t(history.now)) == (
        "attempt 1.2 may still land"
    )


def test_an_abandoned_object_does_not_hide_a_live_one_from_settling() -> None:
    history = History().authorized().attempt().shows("o1").shows("o2")
    history.wants("abandon", target="o1").wants("cancel").later(30)
    assert unsettled_because(history.job(), t(30), t(30)) == ["object o2 was last seen running"]


def test_only_a_hold_on_this_object_may_hold_it_late() -> None:
    holding = History(capabilities=FULL).running().hold_call().job()
    assert rules.hold_may_land(holding, "o1")
    assert not rules.hold_may_land(holding, "o2")
    assert not rules.hold_may_land(in_place().ended().later(30).requeue_call().job(), "o1")


def test_the_back_off_counts_from_the_end_and_is_none_without_an_end_or_a_wait() -> None:
    def due(history: History) -> Any:
        job = history.job()
        return recover.back_off_until(job, job.objects["o1"], Cause.APP_ERROR)

    waiting = plan(app_error=Rule(action=Action.RESUBMIT, backoff_s=1))
    assert due(History(plan=waiting).ended()) == t(21)
    assert due(History(plan=waiting).running()) is None
    assert due(History().ended()) is None


def test_what_runs_is_not_over() -> None:
    job = History().running().job()
    assert recover.over_because(job.objects["o1"]) is None
    abandoned = History().running().wants("abandon", target="o1").job()
    assert recover.over_because(abandoned.objects["o1"]) is Cause.LOST


def due_since(history: History, ref: str = "o1") -> Any:
    job = history.job()
    return stopping.stop_due_since(job, job.objects[ref])


def test_an_object_has_to_stop_since_a_later_submission_took_its_place() -> None:
    history = History().authorized().attempt().wants("abandon", target="1.1").later(50)
    history.authorized(2).later(7).shows("o1", "running", started_at=1)
    assert due_since(history) == t(57)  # since it was first seen
    history = History().ended().later(30).authorized(2).later(10)
    history.shows("o1", "running", restarts=1, started_at=31)
    assert due_since(history) == t(60)
    earlier = History().running().wants("abandon", target="o1").later(40).wants("resubmit")
    assert due_since(earlier.authorized(2, "ctl:resubmit").later(9)) == t(50)


def test_an_object_has_to_stop_since_a_requeue_was_wished() -> None:
    assert due_since(History().running().later(8).wants("requeue").later(5)) == t(18)
    assert due_since(History().running()) is None


@pytest.mark.parametrize(("capabilities", "waits_for_it"), [(GATED, False), (UNGATED, True)])
def test_a_start_behind_a_gate_does_not_wait_for_what_arrived_late(
    capabilities: tuple[Capability, ...], waits_for_it: bool
) -> None:
    history = History(capabilities=capabilities).authorized().attempt()
    history.wants("abandon", target="1.1").authorized(2).shows("o1", "running")
    assert starting.may_start(history.job(), history.sees()) is not waits_for_it


@pytest.mark.parametrize("kind", ["requeue", "resubmit"])
def test_no_start_beside_another_run_that_a_person_wishes(kind: str) -> None:
    history = History().authorized()
    assert starting.may_start(history.job(), history.sees())
    assert not starting.may_start(history.wants(kind).job(), history.sees())


@pytest.mark.parametrize("kind", ["requeue", "resubmit"])
def test_no_gate_is_opened_for_what_is_to_run_anew(kind: str) -> None:
    history = History().started().later(5).shows("o1", "pending", held=True)
    assert rows(quiet(history)) == ["11"]
    assert "11" not in rows(quiet(history.wants(kind)))


def test_a_running_job_that_could_be_requeued_is_left_alone() -> None:
    assert rows(quiet(in_place().running())) == []


def test_a_hold_comes_instead_of_a_requeue_that_was_wished_too() -> None:
    assert rows(quiet(in_place().running().wants("requeue").wants("hold"))) == ["9"]


def test_nothing_expires_while_it_is_held() -> None:
    history = History(plan=plan(pending_limit_s=60)).started().released()
    history.later(5).shows("o1", "pending", cause="no_capacity").later(30)
    history.shows("o1", "pending", cause="no_capacity").later(90)
    assert rows(quiet(history)) == ["12b"]
    assert "12b" not in rows(quiet(history.wants("hold").hold_call()))


def test_a_requeue_in_place_looks_at_the_other_objects_as_of_its_find() -> None:
    history = in_place().authorized().attempt().shows("o1").shows("o2").canonical("o1")
    history.retired("o2").released("o1").shows("o2", "failed", cause="stopped")
    history.shows("o1", "failed").later(SAVE_WINDOW_S)
    assert rows(quiet(history)) == ["13"]


def test_everything_that_is_raised_after_settled_is_stopped() -> None:
    history = History().authorized().attempt().shows("o1").shows("o2").wants("cancel")
    stopped = {"state": "failed", "cause": "stopped"}
    history.later(5).shows("o1", **stopped).shows("o2", **stopped).later(200).settled().later(5)
    raised = history.next(history.sight("o1", restarts=1), history.sight("o2", restarts=1))
    assert [(type(step), step.ref) for step in raised.steps] == [  # type: ignore[union-attr]
        (Stop, "o1"), (Alert, "o1"), (Stop, "o2"), (Alert, "o2"),
    ]  # fmt: skip
    left = decide(
        history.job(),
        history.sees(history.sight("o1", restarts=1)),
        t(history.now),
        without=frozenset({Stop}),
    )
    assert [type(step) for step in left.repeatable] == [Alert]


def writers(upcoming: Next) -> set[str]:
    appended = [step for step in upcoming.steps if isinstance(step, Append)]
    return {fact.by for step in appended for fact in step.facts}


def test_who_decides_is_who_writes() -> None:
    history = History()
    assert {fact.by for fact in history.decide().facts} == {"s1"}
    default = decide(history.job(), history.sees(), t(0))
    assert {fact.by for fact in default.facts} == {"supervisor"}
    assert writers(history.next()) == {"s1"}
    assert writers(next_steps(history.job(), history.sees(), t(0))) == {"supervisor"}


def test_a_status_tells_when_its_own_look_began() -> None:
    history = History().running().later(50)
    status = history.status(history.sight(), taken=55)
    assert status.discovery_at == t(55)
    assert status.evidence_at == t(55)
    assert history.recorded_status().evidence_at == t(10)


# --- the moment at which a wait is over -------------------------------------------------------


def test_a_save_window_is_over_at_its_end() -> None:
    history = History().ended()
    assert "save" in kinds(history.later(SAVE_WINDOW_S - 1))
    assert "save" not in kinds(history.later(1))


def test_a_node_loss_window_is_over_at_its_end() -> None:
    history = History().ended("failed", cause="node_lost", lost_at=15)
    assert "window" in kinds(history.at(15 + 300 + SKEW_S - 1))
    assert "window" not in kinds(history.later(1))


def backing_off(state: str = "failed") -> History:
    waiting = Rule(action=Action.RESUBMIT, backoff_s=60)
    history = History(plan=plan(app_error=waiting))
    history.header = history.header.model_copy(
        update={"plan": history.header.plan.model_copy(update={"default": waiting})}
    )
    return history.ended(state)


def test_a_back_off_is_over_at_its_end() -> None:
    history = backing_off()
    assert "back_off" in kinds(history.later(59))
    assert "back_off" not in kinds(history.later(1))


def test_nothing_backs_off_after_a_success_or_an_outcome() -> None:
    assert "back_off" not in kinds(backing_off("succeeded"))
    assert "back_off" not in kinds(backing_off().wants("give_up"))


def test_abandoning_an_attempt_at_its_deadline_warns_of_nothing() -> None:
    def note(at: float) -> str | None:
        history = History().authorized().attempt().at(at)
        return history.wants("abandon", target="1.1").job().wishes["abandon"].note

    assert note(119) == "its deadline hadn't come: it may still land, and is then stopped"
    assert note(120) is None


@pytest.mark.parametrize(
    ("history", "kind", "note"),
    [
        (History().wants("hold", "h"), "hold", "a user hold is in force"),
        (History(), "release", "no hold is in force"),
        (History().wants("resubmit", "r"), "requeue", "a requeue or resubmit is pending"),
        (History().wants("resubmit", "r"), "resubmit", "a resubmit is pending"),
    ],
    ids=["hold", "release", "requeue", "resubmit"],
)
def test_what_is_so_already_says_what(history: History, kind: str, note: str) -> None:
    assert history.wants(kind).job().wishes[kind].note == note


def test_a_commit_of_news_names_its_row() -> None:
    upcoming: Next = History().started().next(History().sight("o1", "pending", held=True))
    (step,) = upcoming.steps
    assert isinstance(step, Append)
    assert step.row == "1"


# --- a record that grew -----------------------------------------------------------------------


def test_folding_on_is_folding_from_nothing_wherever_it_is_cut() -> None:
    view = busy().view()
    for revision in range(view.revision + 1):
        earlier = fold(view.at(revision), t(1))
        later = refold(earlier, view, t(700))
        assert later == fold(view, t(700))
        assert later.as_of == t(700)
        assert earlier == fold(view.at(revision), t(1))


def test_folding_on_names_the_entry_that_it_refuses() -> None:
    history = History().authorized().attempt()
    earlier = history.job()
    view = history.authorized(3, "ctl:x").view()
    with pytest.raises(InvalidRecord) as refused:
        refold(earlier, view, t(9))
    assert (refused.value.job, refused.value.entry) == ("jabcdefgh", 3)
    torn = view.entries[-1]._replace(body='{"fact":"authorized"}')
    with pytest.raises(RecordRefused) as torn_refused:
        refold(earlier, replace(view, entries=(*view.entries[:-1], torn)), t(9))
    assert (torn_refused.value.job, torn_refused.value.entry) == ("jabcdefgh", 3)


def test_a_requeue_in_place_waits_for_the_windows_of_the_other_objects() -> None:
    history = in_place().authorized().attempt().shows("o1").shows("o2").canonical("o1")
    history.retired("o2").released("o1")
    history.shows("o2", "failed", cause="node_lost", lost_at=0).shows("o1", "failed")
    assert rows(quiet(history.at(300 + SKEW_S - 1))) == []
    assert rows(quiet(history.later(1))) == ["13"]


def test_a_status_judges_by_its_own_look_whether_an_end_is_safe() -> None:
    history = History().cancelled_and_stopped().later(SAVE_WINDOW_S)
    shown = history.sight("o1", "failed", cause="stopped")
    assert history.status(shown).unsettled == ()
    assert history.recorded_status().unsettled == (
        "the end of o1 is too fresh to be safe from a crash",
    )
