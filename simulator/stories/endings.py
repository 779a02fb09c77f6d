"""Stories about ends: lost nodes, purged evidence, and schedulers that forget."""

from __future__ import annotations

from dispatch.record.names import Cause, IntentKind
from simulator.faults import Fault
from simulator.play import Play
from simulator.stories.story import (
    ACCOUNTED,
    ASKS,
    FAILS,
    IN_PLACE,
    LONG,
    ONCE,
    RESUBMITS_LOST,
    A,
    B,
    Story,
    begin,
)
from simulator.worlds.ground import Fate
from simulator.worlds.rows import Event


def _it_fails_and_is_submitted_again(play: Play) -> None:
    play.fates = [FAILS]
    begin(play)


def _its_node_is_lost_and_goes_on_computing(play: Play) -> None:
    play.fates = [LONG]
    begin(play)
    play.befall(Event.LOSE_NODE)


def _node_loss_requeue_and_cancel(play: Play) -> None:
    play.fates = [LONG]
    begin(play)
    play.befall(Event.LOSE_NODE)
    play.tick()
    play.intend(IntentKind.REQUEUE)
    play.tick()
    play.intend(IntentKind.CANCEL)


def _the_scheduler_requeues_beside_a_lost_node(play: Play) -> None:
    play.fates = [LONG, FAILS]
    begin(play)
    play.befall(Event.LOSE_NODE)
    play.wait(3)
    play.tick()
    play.wait(8)
    play.tick()


def _evidence_is_purged_before_anyone_looked(play: Play) -> None:
    begin(play)
    play.wait(400)
    play.tick()
    play.intend(IntentKind.RESUBMIT)


def _accounting_still_knows(play: Play) -> None:
    begin(play)
    play.wait(400)


def _accounting_learns_of_it_late(play: Play) -> None:
    play.fates = [Fate(20.0, Cause.APP_ERROR, 1)]
    begin(play)
    play.wait(76)
    play.tick()
    play.wait(20)
    play.tick()
    play.intend(IntentKind.CANCEL)


def _a_gated_object_vanishes(play: Play) -> None:
    play.goes_wrong("commit", None, Fault.CONFLICT)
    play.tick()
    play.crash_controller(10.0)
    play.wait(5)
    play.tick()


def _an_accepted_job_vanishes_and_its_id_is_anothers(play: Play) -> None:
    play.tick()
    play.crash_controller(10.0)
    play.world.stranger()
    play.wait(5)
    play.intend(IntentKind.CANCEL)


def _an_acknowledged_cancel_is_undone(play: Play) -> None:
    play.fates = [LONG]
    begin(play)
    play.intend(IntentKind.CANCEL)
    play.tick()
    play.wait(6)
    play.tick()
    play.crash_controller(10.0)
    play.wait(20)


def _an_undone_end_runs_beside_nothing(play: Play) -> None:
    play.fates = [FAILS, LONG]
    begin(play)
    play.tick()
    play.crash_controller(9.0)
    play.wait(15)
    play.tick()
    play.intend(IntentKind.CANCEL)


def _an_undone_end_loses_its_node_before_anyone_looks(play: Play) -> None:
    play.fates = [FAILS, LONG, FAILS, LONG]
    begin(play)
    play.crash_controller(6.0)
    play.wait(8)
    play.befall(Event.LOSE_NODE)
    play.wait(12)
    play.tick()
    play.wait(20)
    play.tick()
    play.wait(200)
    play.tick()
    play.wait(20)
    play.intend(IntentKind.CANCEL)


def _a_slow_find_sees_an_end_late(play: Play) -> None:
    play.fates = [Fate(60.0, Cause.APP_ERROR, 1), LONG]
    begin(play)
    play.stand_before(A, "find")
    play.tick()
    play.wait(51.5)
    play.go_on(A)
    play.tick(B)
    play.wait(3)
    play.crash_controller(9.0)
    play.wait(20)
    play.tick(B)
    play.intend(IntentKind.CANCEL)


def _an_undone_release_is_repeated(play: Play) -> None:
    play.stand_before(A, "release")
    play.tick()
    play.wait(8)
    play.go_on(A)
    play.tick(B)
    play.crash_controller(2.0)
    play.wait(5)


def _a_release_is_undone_before_anyone_looked(play: Play) -> None:
    play.fates = [LONG]
    play.stand_before(A, "release")
    play.tick()
    play.wait(8)
    play.go_on(A)
    play.wait(3)
    play.crash_controller(6.0)
    play.wait(1.5)
    play.tick()


def _an_undone_requeue_is_answered(play: Play) -> None:
    play.fates = [FAILS]
    begin(play)
    play.tick(B)
    play.crash_controller(3.0)
    play.wait(5)


def _a_run_nobody_saw_goes_on_computing(play: Play) -> None:
    play.fates = [FAILS, LONG, FAILS]
    begin(play)
    play.befall(Event.REQUEUE)
    play.wait(5)
    play.befall(Event.LOSE_NODE)
    play.wait(9)
    play.tick()
    play.intend(IntentKind.RELEASE)
    play.wait(14)
    play.tick()


def _an_undone_requeue_of_anothers(play: Play) -> None:
    play.fates = [LONG, LONG]
    begin(play)
    play.befall(Event.REQUEUE)
    play.wait(3.4)
    play.intend(IntentKind.CANCEL)
    play.tick()
    play.tick(B)
    play.crash_controller(9.5)


def _a_requeue_is_undone_after_its_deadline(play: Play) -> None:
    play.fates = [FAILS, LONG]
    play.goes_wrong("requeue", Fault.CRASH_LATE)
    begin(play)
    play.wait(17.8)
    play.tick(B)
    play.crash_controller(12.0)


def _a_running_job_vanishes_and_goes_on_computing(play: Play) -> None:
    play.fates = [LONG]
    play.tick()
    play.wait(3)
    play.tick()
    play.crash_controller(9.9)
    play.wait(25)
    play.tick()
    play.wait(16)
    play.tick()


def _the_budget_is_used_up(play: Play) -> None:
    play.fates = [FAILS, FAILS, FAILS]
    begin(play)


def _what_cant_be_read_is_told_once_and_concludes_nothing(play: Play) -> None:
    play.fates = [LONG, FAILS]
    begin(play)
    play.cant_be_read()
    for _ in range(4):
        play.tick()
        play.wait(100)
    play.intend(IntentKind.RESUBMIT)
    play.tick()
    play.wait(30)
    play.tick()
    play.can_be_read()


def _another_configuration_decides_by_what_was_recorded(play: Play) -> None:
    play.fates = [LONG]
    begin(play)
    play.befall(Event.LOSE_NODE)
    for _ in range(3):
        play.tick(B, elsewhere=True)
        play.wait(15)


STORIES: tuple[Story, ...] = (
    Story(
        "an_undone_end_loses_its_node_before_anyone_looks",
        _an_undone_end_loses_its_node_before_anyone_looks,
        changes={"requeued_by_site": True},
    ),
    Story("it_fails_and_is_submitted_again", _it_fails_and_is_submitted_again),
    Story("its_node_is_lost_and_goes_on_computing", _its_node_is_lost_and_goes_on_computing),
    Story("node_loss_requeue_and_cancel", _node_loss_requeue_and_cancel),
    Story(
        "the_scheduler_requeues_beside_a_lost_node",
        _the_scheduler_requeues_beside_a_lost_node,
        changes={"requeued_by_site": True},
    ),
    Story("evidence_is_purged_before_anyone_looked", _evidence_is_purged_before_anyone_looked),
    Story("accounting_still_knows", _accounting_still_knows, changes={"capabilities": ACCOUNTED}),
    Story(
        "accounting_learns_of_it_late",
        _accounting_learns_of_it_late,
        changes={"capabilities": ACCOUNTED, "retention_s": 60, "lookup_lag_s": 150},
    ),
    Story("a_gated_object_vanishes", _a_gated_object_vanishes),
    Story(
        "an_accepted_job_vanishes_and_its_id_is_anothers",
        _an_accepted_job_vanishes_and_its_id_is_anothers,
    ),
    Story("an_acknowledged_cancel_is_undone", _an_acknowledged_cancel_is_undone),
    Story("an_undone_end_runs_beside_nothing", _an_undone_end_runs_beside_nothing),
    Story("a_slow_find_sees_an_end_late", _a_slow_find_sees_an_end_late),
    Story(
        "an_undone_release_is_repeated",
        _an_undone_release_is_repeated,
        changes={"queue_s": 60.0},
    ),
    Story(
        "a_release_is_undone_before_anyone_looked",
        _a_release_is_undone_before_anyone_looked,
        changes={"queue_s": 1.0},
    ),
    Story(
        "an_undone_requeue_is_answered",
        _an_undone_requeue_is_answered,
        changes={"plan": IN_PLACE},
    ),
    Story(
        "a_run_nobody_saw_goes_on_computing",
        _a_run_nobody_saw_goes_on_computing,
        changes={"plan": ASKS, "requeued_by_site": True},
    ),
    Story("an_undone_requeue_of_anothers", _an_undone_requeue_of_anothers),
    Story(
        "a_requeue_is_undone_after_its_deadline",
        _a_requeue_is_undone_after_its_deadline,
        changes={
            "plan": IN_PLACE,
            "landing_bound_s": 5,
            "call_bound_s": 16,
            "save_lag_s": 15.0,
            "save_window_s": 17,
        },
    ),
    Story(
        "a_running_job_vanishes_and_goes_on_computing",
        _a_running_job_vanishes_and_goes_on_computing,
        changes={"plan": RESUBMITS_LOST, "queue_s": 2.0},
    ),
    Story(
        "what_cant_be_read_is_told_once_and_concludes_nothing",
        _what_cant_be_read_is_told_once_and_concludes_nothing,
        changes={"plan": RESUBMITS_LOST},
    ),
    Story(
        "another_configuration_decides_by_what_was_recorded",
        _another_configuration_decides_by_what_was_recorded,
        changes={"plan": RESUBMITS_LOST},
    ),
    Story("the_budget_is_used_up", _the_budget_is_used_up, changes={"plan": ONCE}),
)
