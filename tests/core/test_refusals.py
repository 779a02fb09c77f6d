"""Fold refuses what the protocol could not have written (protocol §4).

Each function below writes one history whose last entry must be refused, and whose entries before
it must not be. `table` names the rule and the field; a test holds the table against the source, so
that no refusal stands without a history.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable

import pytest

from dispatch.core import fold as fold_module
from dispatch.core import observe as observe_module
from dispatch.core.fold import fold
from dispatch.errors import InvalidRecord
from dispatch.record.names import UnmatchedPolicy
from tests.core.histories import FULL, OTHER_DIGEST, UNGATED, History, t

Case = tuple[str, str, str, Callable[[], History]]
table: list[Case] = []


def refused(rule: str, field: str) -> Callable[[Callable[[], History]], Callable[[], History]]:
    def keep(write: Callable[[], History]) -> Callable[[], History]:
        table.append((write.__name__, rule, field, write))
        return write

    return keep


def with_foreign_object() -> History:
    """An object with this job's tag is live, and isn't this record's."""
    return History().shows("stranger", "running", spec_digest=OTHER_DIGEST)


# --- authorized -----------------------------------------------------------------------------


@refused("not_next_submission", "n")
def submission_3_after_submission_1() -> History:
    return History().authorized(1).authorized(3, "ctl:x")


@refused("not_next_submission", "n")
def submission_1_twice() -> History:
    return History().authorized(1).authorized(1)


@refused("not_next_submission", "n")
def the_first_submission_is_2() -> History:
    return History().authorized(2, "ctl:x")


@refused("initial_misplaced", "trigger")
def the_first_submission_answers_a_persons_wish() -> History:
    return History().wants("resubmit", "x").authorized(1, "ctl:x")


@refused("initial_misplaced", "trigger")
def the_second_submission_is_called_initial() -> History:
    return History().authorized(1).authorized(2, "initial")


@refused("trigger_used", "trigger")
def one_reason_answered_by_two_submissions() -> History:
    return (
        History().wants("resubmit", "x").authorized(1).authorized(2, "ctl:x").authorized(3, "ctl:x")
    )


@refused("cancelled", "fact")
def authorized_after_a_cancel() -> History:
    return History().wants("cancel").authorized(1)


@refused("after_outcome", "fact")
def authorized_after_the_job_was_given_up() -> History:
    return History().wants("give_up").authorized(1)


@refused("submission_open", "taken_at")
def authorized_while_the_canonical_object_runs() -> History:
    return History().running().authorized(2)


@refused("submission_open", "taken_at")
def authorized_within_the_save_window_of_an_end() -> History:
    return History().ended().later(19).authorized(2)


@refused("submission_open", "taken_at")
def authorized_on_a_find_from_within_the_save_window() -> History:
    return History().ended().later(60).authorized(2, taken=30)


@refused("submission_open", "taken_at")
def authorized_within_the_node_loss_window() -> History:
    lost = History().running().later(10).shows("o1", "failed", cause="node_lost", lost_at=15)
    return lost.at(15 + 300 + 5 - 1).authorized(2)


@refused("submission_open", "taken_at")
def authorized_while_an_unseen_earlier_run_may_live_on() -> History:
    restarted = History().running().later(10).shows("o1", "failed", restarts=1)
    return restarted.at(20 + 300 + 5 - 1).authorized(2)


@refused("submission_open", "taken_at")
def authorized_while_a_start_may_still_land() -> History:
    return History().authorized(1).attempt().later(60).authorized(2)


@refused("submission_open", "taken_at")
def authorized_while_an_object_without_a_canonical_one_runs() -> History:
    return History().authorized(1).attempt().replied().shows().authorized(2)


@refused("requeue_call_open", "fact")
def authorized_while_a_requeue_may_still_land() -> History:
    called = History(capabilities=FULL).ended().requeue_call()
    return called.wants("abandon", target="o1").authorized(2)


@refused("requeue_call_open", "fact")
def authorized_while_a_hold_that_restarts_may_still_land() -> History:
    called = History(capabilities=FULL).running().hold_call()
    return called.wants("abandon", target="o1").authorized(2)


@refused("foreign_undisposed", "fact")
def authorized_beside_a_foreign_object() -> History:
    return with_foreign_object().authorized(1)


# --- attempt --------------------------------------------------------------------------------


@refused("not_latest_submission", "n")
def an_attempt_without_a_submission() -> History:
    return History().attempt(1, 1)


@refused("not_latest_submission", "n")
def an_attempt_of_an_older_submission() -> History:
    return History().authorized(1).authorized(2).attempt(1, 1)


@refused("not_next_attempt", "a")
def attempt_2_first() -> History:
    return History().authorized().attempt(1, 2)


@refused("not_next_attempt", "a")
def attempt_1_twice() -> History:
    return History().authorized().attempt().refused().attempt()


@refused("attempt_open", "a")
def a_second_attempt_while_the_first_may_land() -> History:
    return History().authorized().attempt().attempt(1, 2)


@refused("attempt_open", "a")
def a_second_attempt_after_the_first_started() -> History:
    return History().authorized().attempt().replied().attempt(1, 2)


@refused("has_canonical", "n")
def an_attempt_beside_the_canonical_object() -> History:
    return History().started().attempt(1, 2)


@refused("after_outcome", "fact")
def an_attempt_after_a_cancel() -> History:
    return History().authorized().wants("cancel").attempt()


@refused("foreign_undisposed", "fact")
def an_attempt_beside_a_foreign_object() -> History:
    return History().authorized().shows("x", "pending", generation=3).attempt()


@refused("retries_used_up", "a")
def more_attempts_than_start_retries_allow() -> History:
    once = History(start_retries=0).authorized().attempt().refused()
    return once.later(30).attempt(1, 2)


@refused("deadline_past", "deadline")
def an_attempt_whose_deadline_is_its_own_time() -> History:
    return History().authorized().attempt(deadline=0)


# --- replied --------------------------------------------------------------------------------


@refused("unknown_attempt", "a")
def a_reply_to_no_attempt() -> History:
    return History().authorized().replied()


@refused("reply_conflicts", "result")
def refused_and_then_started() -> History:
    return History().authorized().attempt().refused().replied()


@refused("reply_conflicts", "result")
def started_as_two_objects() -> History:
    return History().authorized().attempt().replied(ref="o1").replied(ref="o2")


@refused("ref_taken", "ref")
def two_attempts_started_as_one_object() -> History:
    first = History().authorized().attempt().refused().shows("o1", "pending")
    return first.attempt(1, 2).replied(1, 2, ref="o1")


@refused("ref_taken", "ref")
def an_attempt_started_as_a_foreign_object() -> History:
    beside = with_foreign_object().wants("abandon", target="stranger")
    return beside.authorized().attempt().replied(ref="stranger")


# --- observed -------------------------------------------------------------------------------


@refused("seen_before_taken", "seen_at")
def a_look_that_ended_before_it_began() -> History:
    history = History().started().later(10)
    return history.observed(history.sight(), taken=10, seen=9)


@refused("object_twice", "objects")
def an_object_that_stands_twice_in_a_look() -> History:
    history = History().started()
    return history.observed(history.sight(), history.sight())


@refused("gone_unknown", "objects.0.ref")
def the_absence_of_an_object_never_recorded() -> History:
    return History().authorized().attempt().shows("o1", "gone")


@refused("tag_changed", "objects.0")
def an_object_that_changed_its_attempt() -> History:
    return History().started().shows("o1", "running", a=2)


@refused("absent_before_recorded", "taken_at")
def absent_from_a_find_that_began_before_it_was_recorded() -> History:
    history = History().at(100).started().later(60)
    return history.observed(history.sight("o1", "gone"), taken=104)


# --- unmatched ------------------------------------------------------------------------------


@refused("unknown_attempt", "a")
def unmatched_though_never_attempted() -> History:
    return History().authorized().later(500).unmatched()


@refused("attempt_not_unknown", "a")
def unmatched_though_it_started() -> History:
    return History().started().later(500).unmatched()


@refused("attempt_not_unknown", "a")
def unmatched_twice() -> History:
    return History().authorized().attempt().later(500).unmatched().unmatched()


@refused("before_deadline", "taken_at")
def unmatched_before_the_deadline_and_skew() -> History:
    return History().authorized().attempt().later(300).unmatched(taken=120 + 5 - 1)


# --- canonical ------------------------------------------------------------------------------


@refused("unknown_submission", "n")
def canonical_of_no_submission() -> History:
    return History().started().canonical("o1", 2)


@refused("second_canonical", "n")
def a_second_canonical_object() -> History:
    two = History().authorized().attempt().shows("o1", "pending").shows("o2", "pending")
    return two.canonical("o1").canonical("o2")


@refused("unknown_object", "ref")
def an_unrecorded_object_is_canonical() -> History:
    return History().authorized().attempt().canonical("o1")


@refused("object_foreign", "ref")
def a_foreign_object_is_canonical() -> History:
    beside = History().authorized().attempt().shows("x", "running", spec_digest=OTHER_DIGEST)
    return beside.canonical("x")


@refused("other_submission", "ref")
def the_object_of_another_submission_is_canonical() -> History:
    first = History().authorized().attempt().later(200).unmatched()
    second = first.authorized(2).shows("late", "pending")
    return second.canonical("late", 2)


@refused("object_retired", "ref")
def a_retired_object_is_canonical() -> History:
    return History().authorized().attempt().replied().retired().canonical()


@refused("attempt_not_started", "ref")
def the_object_of_a_refused_attempt_is_canonical() -> History:
    return History().authorized().attempt().refused().shows("o1", "pending").canonical()


@refused("attempt_not_started", "ref")
def the_late_object_of_an_unmatched_attempt_is_canonical() -> History:
    closed = History().authorized().attempt().later(200).unmatched()
    return closed.shows("o1", "pending").canonical()


# --- retired --------------------------------------------------------------------------------


@refused("unknown_object", "ref")
def an_unrecorded_object_is_retired() -> History:
    return History().authorized().retired("o1")


@refused("object_foreign", "ref")
def a_foreign_object_is_retired() -> History:
    return with_foreign_object().retired("stranger")


@refused("object_canonical", "ref")
def the_canonical_object_is_retired() -> History:
    return History().started().retired()


@refused("object_retired", "ref")
def retired_twice() -> History:
    return History().authorized().attempt().replied().retired().retired()


# --- expired and released -------------------------------------------------------------------


@refused("not_canonical", "ref")
def expired_without_being_canonical() -> History:
    return History().authorized().attempt().replied().expired()


@refused("not_pending", "ref")
def expired_while_running() -> History:
    return History().running().expired()


@refused("after_outcome", "fact")
def expired_after_a_cancel() -> History:
    return History().started().wants("cancel").expired()


@refused("trigger_used", "trigger")
def expired_twice_for_one_reason() -> History:
    return History().started().expired().expired()


@refused("not_canonical", "ref")
def released_without_being_canonical() -> History:
    return History().authorized().attempt().replied().released()


@refused("not_canonical", "ref")
def released_as_an_object_of_an_older_submission() -> History:
    return History().ended().later(30).started(2, "o2").released("o1")


@refused("released_twice", "ref")
def released_twice() -> History:
    return History().started().released().released()


# --- calls ----------------------------------------------------------------------------------


@refused("not_canonical", "ref")
def a_hold_call_on_an_object_that_is_not_canonical() -> History:
    return History().authorized().attempt().replied().hold_call()


@refused("not_last_recorded", "run")
def a_hold_call_on_another_run() -> History:
    return History().running().hold_call(run=2)


@refused("not_last_recorded", "run")
def a_hold_call_on_other_restarts() -> History:
    return History().running().hold_call(restarts=1)


@refused("deadline_past", "deadline")
def a_hold_call_whose_deadline_is_its_own_time() -> History:
    return History().at(100).running().hold_call(deadline=110)


@refused("call_open", "fact")
def a_hold_call_while_another_may_land() -> History:
    return History().running().hold_call().hold_call()


@refused("after_outcome", "fact")
def a_hold_call_after_a_cancel() -> History:
    return History().running().wants("cancel").hold_call()


@refused("foreign_undisposed", "fact")
def a_hold_call_beside_a_foreign_object() -> History:
    return History().running().shows("x", "running", generation=7).hold_call()


@refused("not_canonical", "ref")
def a_requeue_call_on_an_object_that_is_not_canonical() -> History:
    return History(capabilities=FULL).authorized().attempt().replied().requeue_call()


@refused("not_last_recorded", "run")
def a_requeue_call_on_another_run() -> History:
    return History(capabilities=FULL).ended().requeue_call(run=3)


@refused("not_last_recorded", "run")
def a_requeue_call_on_other_restarts() -> History:
    return History(capabilities=FULL).ended().requeue_call(restarts=3)


@refused("deadline_past", "deadline")
def a_requeue_call_whose_deadline_came_before_it() -> History:
    return History(capabilities=FULL).ended().requeue_call(deadline=1)


@refused("call_open", "fact")
def a_requeue_call_while_another_may_land() -> History:
    return History(capabilities=FULL).ended().requeue_call().requeue_call(trigger="ctl:x")


@refused("call_open", "fact")
def a_requeue_call_while_a_hold_may_land() -> History:
    return History(capabilities=FULL).running().hold_call().requeue_call()


@refused("after_outcome", "fact")
def a_requeue_call_after_the_outcome() -> History:
    return History(capabilities=FULL).ended().outcome("failed").requeue_call()


@refused("foreign_undisposed", "fact")
def a_requeue_call_beside_a_foreign_object() -> History:
    return History(capabilities=FULL).ended().shows("x", "pending", n=9).requeue_call()


@refused("trigger_used", "trigger")
def two_requeue_calls_for_one_reason() -> History:
    called = History(capabilities=FULL).ended().requeue_call()
    again = called.later(10).shows("o1", "failed", restarts=1)
    return again.requeue_call(run=2, restarts=1)


# --- recovery hold and outcome --------------------------------------------------------------


@refused("after_outcome", "fact")
def a_recovery_hold_after_a_cancel() -> History:
    return History().ended().wants("cancel").recovery_hold()


@refused("second_recovery_hold", "fact")
def two_recovery_holds_at_once() -> History:
    return History().ended().recovery_hold().recovery_hold(trigger="start/1")


@refused("trigger_used", "trigger")
def a_recovery_hold_for_a_used_reason() -> History:
    return History().ended().recovery_hold().wants("release").recovery_hold()


@refused("cancelled_by_fact", "state")
def cancelled_by_a_fact() -> History:
    return History().running().outcome("cancelled")


@refused("second_outcome", "fact")
def an_outcome_after_a_cancel() -> History:
    return History().ended("succeeded").wants("cancel").outcome("succeeded")


@refused("second_outcome", "fact")
def two_outcomes() -> History:
    return History().ended().outcome("failed").outcome("failed")


@refused("not_succeeded", "state")
def succeeded_without_an_object() -> History:
    return History().authorized().outcome("succeeded")


@refused("not_succeeded", "state")
def succeeded_while_running() -> History:
    return History().running().outcome("succeeded")


@refused("not_succeeded", "state")
def succeeded_though_another_object_did() -> History:
    two = History().authorized().attempt().shows("o1", "running").shows("o2", "succeeded")
    return two.canonical("o1").outcome("succeeded")


@refused("requeue_call_open", "state")
def succeeded_while_a_requeue_may_still_land() -> History:
    called = History(capabilities=FULL).running().requeue_call(trigger="ctl:x")
    return called.later(10).shows("o1", "succeeded").outcome("succeeded")


# --- escalated and settled ------------------------------------------------------------------


@refused("key_used", "key")
def escalated_twice_under_one_key() -> History:
    return History().escalated("k").escalated("k")


@refused("key_used", "key")
def escalated_under_the_key_of_a_give_up() -> History:
    return History().wants("give_up", "g").escalated("give_up/g")


@refused("not_settled", "taken_at")
def settled_without_an_outcome() -> History:
    return History().settled()


@refused("not_settled", "taken_at")
def settled_while_an_object_runs() -> History:
    return History().running().wants("cancel").later(600).settled()


@refused("not_settled", "taken_at")
def settled_while_a_retired_object_runs() -> History:
    two = History().authorized().attempt().shows("o1", "succeeded").shows("o2", "running")
    return two.canonical("o1").retired("o2").outcome("succeeded").later(600).settled()


@refused("not_settled", "taken_at")
def settled_within_the_save_window() -> History:
    return History().cancelled_and_stopped().later(60).settled(taken=39)


@refused("not_settled", "taken_at")
def settled_within_the_node_loss_window() -> History:
    lost = History().running().shows("o1", "failed", cause="node_lost", lost_at=10)
    return lost.wants("cancel").at(10 + 300 + 5 - 1).settled()


@refused("not_settled", "taken_at")
def settled_while_an_unseen_earlier_run_may_live_on() -> History:
    gone = History().running().wants("cancel").later(10).shows("o1", "gone")
    return gone.at(20 + 300 + 5 - 1).settled()


@refused("not_settled", "taken_at")
def settled_while_a_start_may_still_land() -> History:
    return History().authorized().attempt().wants("cancel").later(60).settled()


@refused("not_settled", "taken_at")
def settled_while_a_requeue_may_still_land() -> History:
    called = History(capabilities=FULL).ended().requeue_call()
    return called.wants("cancel").later(60).settled()


@refused("not_settled", "taken_at")
def settled_beside_a_foreign_object() -> History:
    return with_foreign_object().wants("cancel").later(600).settled()


@refused("not_settled", "taken_at")
def settled_beside_an_unmatched_attempt_that_a_person_must_judge() -> History:
    manual = History(unmatched=UnmatchedPolicy.MANUAL).authorized().attempt()
    return manual.later(200).unmatched().wants("cancel").later(200).settled()


@refused("after_settled", "fact")
def settled_twice() -> History:
    return History().over().settled()


@refused("after_settled", "fact")
def authorized_after_settled() -> History:
    return History().over().authorized(2)


@refused("after_settled", "fact")
def an_attempt_after_settled() -> History:
    return History().over().attempt(1, 2)


@refused("after_settled", "fact")
def a_reply_after_settled() -> History:
    return History().over().replied()


@refused("after_settled", "fact")
def evidence_after_settled() -> History:
    return History().over().shows("o1", "running")


@refused("after_settled", "fact")
def an_unmatched_attempt_after_settled() -> History:
    return History().over().unmatched()


@refused("after_settled", "fact")
def a_canonical_object_after_settled() -> History:
    return History().over().canonical()


@refused("after_settled", "fact")
def a_retired_object_after_settled() -> History:
    return History().over().retired()


@refused("after_settled", "fact")
def an_expired_object_after_settled() -> History:
    return History().over().expired()


@refused("after_settled", "fact")
def a_released_object_after_settled() -> History:
    return History().over().released()


@refused("after_settled", "fact")
def a_hold_call_after_settled() -> History:
    return History().over().hold_call()


@refused("after_settled", "fact")
def a_requeue_call_after_settled() -> History:
    return History().over().requeue_call()


@refused("after_settled", "fact")
def a_recovery_hold_after_settled() -> History:
    return History().over().recovery_hold()


@refused("after_settled", "fact")
def an_outcome_after_settled() -> History:
    return History().over().outcome("failed")


# --- the tests ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "field", "write"),
    [pytest.param(rule, field, write, id=name) for name, rule, field, write in table],
)
def test_fold_refuses(rule: str, field: str, write: Callable[[], History]) -> None:
    view = write().view()
    fold(view.at(view.revision - 1), t(9_999))
    with pytest.raises(InvalidRecord) as caught:
        fold(view, t(9_999))
    refusal = caught.value
    assert (refusal.rule, refusal.field) == (rule, field)
    assert (refusal.job, refusal.entry) == ("jabcdefgh", view.revision)
    assert str(refusal).startswith(f"job jabcdefgh: entry {view.revision}: field {field!r}: ")


def rules_in(source: str) -> set[str]:
    """The rule names that a module's `_refuse` and `_require` calls give."""
    rules = set()
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            continue
        place = {"_refuse": 0, "_require": 1}.get(node.func.id)
        if place is not None and isinstance(node.args[place], ast.Constant):
            rules.add(str(node.args[place].value))  # type: ignore[attr-defined]
    return rules


def test_no_refusal_stands_in_the_source_without_a_history() -> None:
    standing = rules_in(inspect.getsource(fold_module)) | rules_in(
        inspect.getsource(observe_module)
    )
    assert standing == {rule for _, rule, _, _ in table}


def test_an_ungated_cluster_has_the_same_refusals_for_attempts() -> None:
    view = History(capabilities=UNGATED).authorized().attempt().attempt(1, 2).view()
    with pytest.raises(InvalidRecord) as caught:
        fold(view, t(0))
    assert caught.value.rule == "attempt_open"
