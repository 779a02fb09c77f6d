"""Stories about what people want, and what others do to our objects."""

from __future__ import annotations

from dispatch.record.names import Cause, IntentKind
from simulator.faults import Fault
from simulator.play import Play
from simulator.scenario import Shape
from simulator.store import Dialect
from simulator.stories.story import (
    ASKS,
    FAILS,
    HOLDS_RUNNING,
    IN_PLACE,
    LONG,
    RESUBMITS_LOST,
    A,
    B,
    Story,
    begin,
    second_waits,
)
from simulator.worlds.ground import Fate
from simulator.worlds.rows import Event


def _held_while_pending_and_released(play: Play) -> None:
    play.tick()
    play.intend(IntentKind.HOLD)
    play.tick()
    play.wait(60)
    play.tick()
    play.intend(IntentKind.RELEASE)


def _held_while_running_and_released(play: Play) -> None:
    begin(play)
    play.intend(IntentKind.HOLD)
    play.tick()
    play.wait(30)
    play.tick()
    play.intend(IntentKind.RELEASE)


def _a_requeue_lands_late(play: Play) -> None:
    play.fates = [FAILS]
    play.goes_wrong("requeue", Fault.LATE)
    begin(play)


def _a_requeue_never_lands(play: Play) -> None:
    play.fates = [FAILS]
    play.goes_wrong("requeue", Fault.NEVER)
    begin(play)


def _cancelled_while_a_requeue_is_on_its_way(play: Play) -> None:
    play.fates = [FAILS]
    play.goes_wrong("requeue", Fault.CRASH_LATE)
    begin(play)
    play.intend(IntentKind.CANCEL)
    play.wait(13)
    play.tick(B)


def _resubmitted_while_a_requeue_is_on_its_way(play: Play) -> None:
    play.fates = [FAILS, LONG, LONG]
    play.goes_wrong("requeue", Fault.CRASH_LATE)
    begin(play)
    play.intend(IntentKind.RESUBMIT)
    play.wait(10)
    play.tick(B)
    play.wait(60)
    play.tick(B)
    play.intend(IntentKind.CANCEL)


def _it_succeeds_while_a_requeue_is_on_its_way(play: Play) -> None:
    play.fates = [Fate(16.0)]
    begin(play)
    play.goes_wrong("requeue", Fault.CRASH_LATE)
    play.intend(IntentKind.REQUEUE)
    play.tick()
    play.wait(10)
    play.tick(B)


def _somebody_else_requeues_it_first(play: Play) -> None:
    play.fates = [FAILS, Fate(3.0)]
    play.goes_wrong("requeue", Fault.CRASH_LATE)
    begin(play)
    play.befall(Event.REQUEUE)
    play.wait(9)
    play.tick(B)


def _somebody_else_requeues_it_first_and_it_fails(play: Play) -> None:
    play.fates = [FAILS, Fate(1.0, Cause.APP_ERROR, 1), LONG, LONG]
    play.goes_wrong("requeue", Fault.CRASH_LATE)
    begin(play)
    play.befall(Event.REQUEUE)
    play.wait(6)
    play.tick(B)
    play.intend(IntentKind.RESUBMIT)
    for _ in range(6):
        play.wait(3)
        play.tick(B)
    play.intend(IntentKind.CANCEL)


def _cancelled_while_a_hold_is_on_its_way(play: Play) -> None:
    play.fates = [LONG]
    begin(play)
    play.goes_wrong("hold", Fault.CRASH_LATE)
    play.intend(IntentKind.HOLD)
    play.tick()
    play.intend(IntentKind.CANCEL)
    play.tick(B)
    for _ in range(2):
        play.wait(7)
        play.tick(B)
    play.wait(6)
    play.tick(B)


def _given_up(play: Play) -> None:
    play.fates = [FAILS]
    begin(play)
    play.tick()
    play.intend(IntentKind.GIVE_UP)


def _a_foreign_object_blocks_until_a_person_vouches(play: Play) -> None:
    play.goes_wrong("start", Fault.NEVER)
    play.tick()
    ref = play.appear_foreign()
    play.wait(80)
    play.tick()
    play.wait(10)
    play.tick(B)
    play.intend(IntentKind.ABANDON, ref)


def _an_object_that_will_not_end_is_abandoned(play: Play) -> None:
    begin(play)
    play.befall(Event.STUCK)
    play.tick()
    ref = next(iter(play.watch.job(play.job_id).objects))
    play.intend(IntentKind.ABANDON, ref)


def _an_older_object_is_raised_before_the_release(play: Play) -> None:
    play.fates = [FAILS, LONG]
    begin(play)
    play.tick()
    play.wait(14)
    play.goes_wrong("release", Fault.CRASH_BEFORE)
    play.tick()
    play.befall(Event.REQUEUE, which=0)
    play.wait(6)
    play.tick(B)
    play.wait(6)


def _the_end_of_an_older_object_is_undone_before_the_release(play: Play) -> None:
    play.fates = [FAILS, Fate(5.0), LONG, LONG]
    second_waits(play)
    play.befall(Event.REQUEUE, which=0)
    play.wait(9)
    play.tick()
    play.intend(IntentKind.RELEASE)
    play.stand_before(A, "release")
    play.tick()
    play.crash_controller(6.0)
    play.wait(5)
    play.go_on(A)
    play.wait(10)
    play.tick()
    play.wait(60)
    play.tick()
    play.intend(IntentKind.CANCEL)


def _somebody_raises_it_after_it_was_settled(play: Play) -> None:
    begin(play)
    play.wait(60)
    play.tick()
    play.wait(20)
    play.tick()
    play.fates = [LONG]
    play.befall(Event.REQUEUE)
    play.wait(10)
    play.tick()
    play.wait(10)
    play.tick()
    play.watch.nothing_left(play.jobs, 60.0)


def _an_older_build_can_still_cancel(play: Play) -> None:
    play.fates = [LONG]
    play.tick(A, Dialect.NEWER)
    play.wait(10)
    play.tick(A, Dialect.NEWER)
    play.tick(B, Dialect.OLDER)
    play.intend(IntentKind.CANCEL, dialect=Dialect.OLDER)
    for _ in range(3):
        play.tick(A, Dialect.NEWER)
        play.wait(20)


STORIES: tuple[Story, ...] = (
    Story("held_while_pending_and_released", _held_while_pending_and_released),
    Story("held_while_running_and_released", _held_while_running_and_released),
    Story("suspended_and_resumed", _held_while_running_and_released, Shape.KUBERNETES),
    Story("a_requeue_lands_late", _a_requeue_lands_late, changes={"plan": IN_PLACE}),
    Story("a_requeue_never_lands", _a_requeue_never_lands, changes={"plan": IN_PLACE}),
    Story(
        "cancelled_while_a_requeue_is_on_its_way",
        _cancelled_while_a_requeue_is_on_its_way,
        changes={"plan": IN_PLACE},
    ),
    Story(
        "resubmitted_while_a_requeue_is_on_its_way",
        _resubmitted_while_a_requeue_is_on_its_way,
        changes={"plan": IN_PLACE, "save_window_s": 4, "save_lag_s": 2.0},
    ),
    Story(
        "it_succeeds_while_a_requeue_is_on_its_way",
        _it_succeeds_while_a_requeue_is_on_its_way,
        changes={"plan": IN_PLACE, "requeue_guarded": False},
    ),
    Story(
        "somebody_else_requeues_it_first",
        _somebody_else_requeues_it_first,
        changes={"plan": IN_PLACE, "requeue_guarded": False},
    ),
    Story(
        "somebody_else_requeues_it_first_and_it_fails",
        _somebody_else_requeues_it_first_and_it_fails,
        changes={
            "plan": IN_PLACE,
            "requeue_guarded": False,
            "save_window_s": 2,
            "save_lag_s": 0.0,
            "queue_s": 0.5,
            "landing_bound_s": 40,
            "call_bound_s": 80,
        },
    ),
    Story(
        "cancelled_while_a_hold_is_on_its_way",
        _cancelled_while_a_hold_is_on_its_way,
        changes={
            "capabilities": HOLDS_RUNNING,
            "landing_bound_s": 60,
            "call_bound_s": 100,
        },
    ),
    Story("given_up", _given_up, changes={"plan": ASKS}),
    Story(
        "a_foreign_object_blocks_until_a_person_vouches",
        _a_foreign_object_blocks_until_a_person_vouches,
    ),
    Story(
        "an_object_that_will_not_end_is_abandoned",
        _an_object_that_will_not_end_is_abandoned,
        changes={"plan": RESUBMITS_LOST},
    ),
    Story(
        "an_older_object_is_raised_before_the_release",
        _an_older_object_is_raised_before_the_release,
    ),
    Story(
        "the_end_of_an_older_object_is_undone_before_the_release",
        _the_end_of_an_older_object_is_undone_before_the_release,
    ),
    Story("somebody_raises_it_after_it_was_settled", _somebody_raises_it_after_it_was_settled),
    Story("an_older_build_can_still_cancel", _an_older_build_can_still_cancel),
)
