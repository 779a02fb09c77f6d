"""What Fold makes of each control intent, in each situation (protocol §3)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dispatch.core.parts import AttemptState, Effect, Wish
from dispatch.record.names import Cause, Desired, IntentKind, Outcome, UnmatchedPolicy
from tests.core.histories import FULL, OTHER_DIGEST, UNGATED, History, t

APPLIED, ALREADY, NO_EFFECT = Effect.APPLIED, Effect.ALREADY, Effect.NO_EFFECT
KINDS = [kind.value for kind in IntentKind]


def met(history: History, intent: str) -> Wish:
    return history.job().wishes[intent]


def target_of(kind: str) -> str | None:
    return "o1" if kind == "abandon" else None


# --- each kind in each situation ------------------------------------------------------------

Situation = Callable[[], History]


def fresh() -> History:
    return History()


def running() -> History:
    return History().running()


def held() -> History:
    return History().running().wants("hold", "earlier")


def asked() -> History:
    """In a recovery hold."""
    return History().ended("failed", cause="out_of_memory").recovery_hold("out_of_memory")


def requeued() -> History:
    return History().running().wants("requeue", "earlier")


def resubmitted() -> History:
    return History().running().wants("resubmit", "earlier")


def succeeded() -> History:
    return History().ended("succeeded").outcome("succeeded")


def cancelled() -> History:
    return History().running().wants("cancel", "earlier")


def settled() -> History:
    return History().over()


EFFECTS: dict[Situation, dict[str, Effect]] = {
    fresh: {
        "cancel": APPLIED,
        "hold": APPLIED,
        "release": ALREADY,
        "requeue": APPLIED,
        "resubmit": APPLIED,
        "give_up": APPLIED,
        "abandon": NO_EFFECT,
    },
    running: {
        "cancel": APPLIED,
        "hold": APPLIED,
        "release": ALREADY,
        "requeue": APPLIED,
        "resubmit": APPLIED,
        "give_up": APPLIED,
        "abandon": APPLIED,
    },
    held: {
        "cancel": APPLIED,
        "hold": ALREADY,
        "release": APPLIED,
        "requeue": APPLIED,
        "resubmit": APPLIED,
        "give_up": APPLIED,
        "abandon": APPLIED,
    },
    asked: {
        "cancel": APPLIED,
        "hold": APPLIED,
        "release": APPLIED,
        "requeue": APPLIED,
        "resubmit": APPLIED,
        "give_up": APPLIED,
        "abandon": APPLIED,
    },
    requeued: {
        "cancel": APPLIED,
        "hold": APPLIED,
        "release": ALREADY,
        "requeue": ALREADY,
        "resubmit": APPLIED,
        "give_up": APPLIED,
        "abandon": APPLIED,
    },
    resubmitted: {
        "cancel": APPLIED,
        "hold": APPLIED,
        "release": ALREADY,
        "requeue": ALREADY,
        "resubmit": ALREADY,
        "give_up": APPLIED,
        "abandon": APPLIED,
    },
    succeeded: dict.fromkeys(KINDS, NO_EFFECT) | {"abandon": APPLIED},
    cancelled: dict.fromkeys(KINDS, NO_EFFECT) | {"cancel": ALREADY, "abandon": APPLIED},
    settled: dict.fromkeys(KINDS, NO_EFFECT),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("situation", EFFECTS, ids=lambda situation: situation.__name__)
def test_an_intent_has_this_effect_in_this_situation(situation: Situation, kind: str) -> None:
    wish = met(situation().wants(kind, "now", target=target_of(kind)), "now")
    assert wish.effect is EFFECTS[situation][kind]
    assert (wish.kind, wish.by) == (IntentKind(kind), "bob")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("situation", EFFECTS, ids=lambda situation: situation.__name__)
def test_a_repeated_id_changes_nothing_but_the_revision(situation: Situation, kind: str) -> None:
    history = situation().wants(kind, "now", target=target_of(kind))
    once = history.job()
    twice = history.later(5).wants("cancel", "now").job()
    assert twice.revision == once.revision + 1
    twice.revision = once.revision
    assert twice == once


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "abandon"])
@pytest.mark.parametrize("situation", [succeeded, cancelled, settled])
def test_an_outcome_never_changes(situation: Situation, kind: str) -> None:
    before = situation().job()
    after = situation().later(5).wants(kind, "now").job()
    assert after.ending == before.ending
    assert after.ending is not None
    assert after.wishes["now"].outcome is after.ending.state
    assert (after.requeue, after.resubmit, after.user_hold) == (None, None, None)


@pytest.mark.parametrize("kind", KINDS)
def test_after_settled_an_intent_is_accepted_without_effect(kind: str) -> None:
    before = History().over().job()
    after = History().over().wants(kind, "now", target=target_of(kind)).job()
    assert after.wishes.pop("now").note == "the job is settled"
    after.revision = before.revision
    assert after == before


# --- cancel ---------------------------------------------------------------------------------


def test_cancel_ends_the_job_at_once() -> None:
    job = History().running().wants("cancel", reason="wrong data").job()
    assert job.desired is Desired.CANCEL
    assert job.ending is not None
    assert (job.ending.state, job.ending.by) == (Outcome.CANCELLED, "bob")
    assert (job.ending.at, job.ending.detail) == (t(10), "wrong data")


def test_cancel_lifts_every_hold_and_drops_what_was_pending() -> None:
    history = History().running().wants("hold").wants("requeue").wants("resubmit")
    job = history.wants("cancel").job()
    assert (job.user_hold, job.recovery, job.requeue, job.resubmit) == (None, None, None, None)
    assert asked().wants("cancel").job().recovery is None


def test_cancel_after_success_leaves_it_and_says_so_f40() -> None:
    history = succeeded().wants("cancel")
    wish = met(history, "cancel")
    assert wish.effect is NO_EFFECT
    assert wish.outcome is Outcome.SUCCEEDED
    assert wish.note == "the outcome is succeeded already"


def test_success_seen_after_a_cancel_is_kept_and_changes_nothing_f40() -> None:
    job = History().running().wants("cancel").later(5).shows("o1", "succeeded").job()
    assert job.ending is not None
    assert job.ending.state is Outcome.CANCELLED
    assert job.objects["o1"].run.state.value == "succeeded"


# --- hold and release -----------------------------------------------------------------------


def test_hold_is_a_persons_and_release_lifts_it() -> None:
    history = History().wants("hold", reason="budget")
    job = history.job()
    assert job.user_hold is not None
    assert (job.user_hold.by, job.user_hold.reason, job.desired) == ("bob", "budget", Desired.HOLD)
    lifted = history.wants("release").job()
    assert (lifted.user_hold, lifted.desired, lifted.resubmit) == (None, Desired.RUN, None)


def test_release_starts_anew_what_a_hold_had_to_stop() -> None:
    stopped = History().running().wants("hold").later(9).shows("o1", "failed", cause="stopped")
    job = stopped.wants("release").job()
    assert job.resubmit is not None
    assert job.resubmit.trigger == "ctl:release"


def test_release_starts_nothing_anew_where_the_cluster_can_hold_what_runs() -> None:
    history = History(capabilities=FULL).running().wants("hold").wants("release")
    assert history.job().resubmit is None


def test_release_starts_nothing_anew_before_the_gate_was_opened() -> None:
    assert History().started().wants("hold").wants("release").job().resubmit is None
    assert History().authorized().wants("hold").wants("release").job().resubmit is None
    opened_outside = History().started().later(5).shows("o1", "pending")
    assert opened_outside.wants("hold").wants("release").job().resubmit is None


def test_release_starts_nothing_anew_that_is_recorded_held() -> None:
    pending = History().started().released().later(9).shows("o1", "pending")
    history = pending.wants("hold").hold_call().later(9).shows("o1", "pending", held=True)
    assert history.wants("release").job().resubmit is None


def test_release_starts_anew_what_ended_whatever_flag_it_ended_with() -> None:
    history = History().running().wants("hold").later(9).shows("o1", "failed", held=True)
    assert history.wants("release").job().resubmit is not None


def test_release_starts_nothing_anew_that_succeeded() -> None:
    history = History().running().wants("hold").later(9).shows("o1", "succeeded")
    assert history.wants("release").job().resubmit is None


def test_without_a_gate_release_starts_anew_though_nothing_was_released() -> None:
    history = History(capabilities=UNGATED).running().wants("hold").wants("release")
    assert history.job().resubmit is not None


def test_release_of_a_recovery_hold_is_a_resubmit() -> None:
    job = asked().wants("release").job()
    assert job.recovery is None
    assert job.resubmit is not None


def test_release_keeps_the_older_reason_of_a_pending_resubmit() -> None:
    history = History().running().wants("resubmit", "first").wants("hold").wants("release")
    resubmit = history.job().resubmit
    assert resubmit is not None
    assert resubmit.trigger == "ctl:first"


# --- requeue and resubmit -------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["requeue", "resubmit"])
def test_asking_for_another_run_answers_a_recovery_hold(kind: str) -> None:
    job = asked().wants(kind).job()
    assert job.recovery is None
    pending = job.requeue or job.resubmit
    assert pending is not None
    assert (pending.trigger, pending.at) == (f"ctl:{kind}", t(20))


@pytest.mark.parametrize("kind", ["requeue", "resubmit"])
def test_asking_for_another_run_leaves_a_persons_hold(kind: str) -> None:
    assert held().wants(kind).job().user_hold is not None


def test_resubmit_abandons_what_manual_asked_about() -> None:
    manual = History(unmatched=UnmatchedPolicy.MANUAL).authorized().attempt()
    history = manual.later(200).unmatched().wants("resubmit")
    assert history.job().attempts[1, 1].state is AttemptState.ABANDONED
    assert met(history, "resubmit").effect is APPLIED


def test_a_second_resubmit_still_abandons_what_manual_asked_about() -> None:
    manual = History(unmatched=UnmatchedPolicy.MANUAL).authorized().attempt()
    history = manual.wants("resubmit", "r1").later(200).unmatched().wants("resubmit", "r2")
    job = history.job()
    assert job.attempts[1, 1].state is AttemptState.ABANDONED
    assert met(history, "r2").effect is APPLIED
    assert job.resubmit is not None
    assert job.resubmit.trigger == "ctl:r1"


def test_resubmit_leaves_unmatched_attempts_where_they_are_tried_again() -> None:
    history = History().authorized().attempt().later(200).unmatched().wants("resubmit")
    assert history.job().attempts[1, 1].state is AttemptState.UNMATCHED


def test_a_submission_clears_what_was_pending() -> None:
    job = History().wants("requeue").wants("resubmit").authorized().job()
    assert (job.requeue, job.resubmit) == (None, None)


# --- give up --------------------------------------------------------------------------------


def test_give_up_fails_with_the_cause_it_was_asked_about() -> None:
    job = asked().wants("give_up", "g", reason="too big").job()
    assert job.ending is not None
    assert (job.ending.state, job.ending.cause) == (Outcome.FAILED, Cause.OUT_OF_MEMORY)
    assert job.ending.detail == "too big"
    assert job.recovery is None


def test_give_up_without_a_question_fails_as_given_up() -> None:
    ending = running().wants("give_up").job().ending
    assert ending is not None
    assert ending.cause is Cause.GIVEN_UP


def test_give_up_escalates_by_itself() -> None:
    escalation = running().wants("give_up", "g").job().escalations["give_up/g"]
    assert (escalation.code, escalation.at) == ("given_up", t(10))
    assert "bob" in escalation.detail


# --- abandon --------------------------------------------------------------------------------


def test_abandon_vouches_for_an_object() -> None:
    history = running().wants("abandon", "x", target="o1")
    assert history.job().objects["o1"].abandoned
    assert met(history, "x").note == "if it still runs, nothing of Dispatch will stop it"


def test_abandon_says_that_an_object_had_ended() -> None:
    history = History().ended().wants("abandon", "x", target="o1")
    assert met(history, "x").note == "the object had ended already"


def test_abandon_twice_is_already() -> None:
    history = running().wants("abandon", "x", target="o1").wants("abandon", "y", target="o1")
    assert (met(history, "y").effect, met(history, "y").note) == (ALREADY, "object o1 is abandoned")


def test_abandon_disposes_of_a_foreign_object() -> None:
    history = History().shows("x", "running", spec_digest=OTHER_DIGEST)
    job = history.wants("abandon", target="x").authorized().job()
    assert job.latest is not None


def test_abandon_of_an_unknown_attempt_before_its_deadline_warns() -> None:
    history = History().authorized().attempt().later(60).wants("abandon", "x", target="1.1")
    assert history.job().attempts[1, 1].state is AttemptState.ABANDONED
    note = met(history, "x").note
    assert note is not None
    assert "deadline" in note


def test_abandon_of_an_unknown_attempt_after_its_deadline_does_not_warn() -> None:
    history = History().authorized().attempt().later(121).wants("abandon", "x", target="1.1")
    assert (met(history, "x").effect, met(history, "x").note) == (APPLIED, None)


def test_abandon_of_an_unmatched_attempt_answers_manual() -> None:
    manual = History(unmatched=UnmatchedPolicy.MANUAL).authorized().attempt()
    history = manual.later(200).unmatched().wants("abandon", "x", target="1.1")
    assert history.job().attempts[1, 1].state is AttemptState.ABANDONED
    again = history.wants("abandon", "y", target="1.1")
    assert met(again, "y").effect is ALREADY


@pytest.mark.parametrize(
    ("history", "target", "note"),
    [
        (History().running(), "1.1", "attempt 1.1 started: abandon its object"),
        (History().authorized().attempt().refused(), "1.1", "attempt 1.1 was refused"),
        (History().running(), "2.1", "no attempt 2.1 is recorded"),
        (History().running(), "o2", "no object o2 is recorded"),
        (History().running(), "1.1\n", "no object 1.1\n is recorded"),
        (History().running(), "1.٢", "no object 1.٢ is recorded"),
    ],
)
def test_abandon_of_what_is_not_there_has_no_effect_and_says_so(
    history: History, target: str, note: str
) -> None:
    wish = met(history.wants("abandon", "x", target=target), "x")
    assert (wish.effect, wish.note) == (NO_EFFECT, note)


def test_abandon_counts_from_its_place_in_the_history() -> None:
    early = History().authorized().wants("abandon", "x", target="o1").attempt().replied()
    assert met(early, "x").effect is NO_EFFECT
    assert not early.job().objects["o1"].abandoned


def test_what_an_abandoned_attempt_leaves_behind_is_not_its_object() -> None:
    history = History().authorized().attempt().wants("abandon", target="1.1")
    job = history.later(5).shows("late", "pending").job()
    assert job.attempts[1, 1].state is AttemptState.ABANDONED
    assert not job.objects["late"].foreign
    assert [step.row for step in history.next(history.sight("late", "pending")).steps] == ["5"]
