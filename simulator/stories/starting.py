"""Stories about starting: a Start is made once, and found again or known never to have been."""

from __future__ import annotations

from dispatch.record.names import Capability, IntentKind, UnmatchedPolicy
from simulator.faults import Fault
from simulator.play import Play
from simulator.scenario import Shape
from simulator.stories.story import LONG, A, B, Story, begin
from simulator.worlds.ground import Fate


def _a_job_succeeds(play: Play) -> None:
    begin(play)


def _the_reply_of_a_start_is_lost(play: Play) -> None:
    play.goes_wrong("start", Fault.LOST)
    play.tick()


def _a_start_never_arrives(play: Play) -> None:
    play.goes_wrong("start", Fault.NEVER)
    play.tick()


def _a_start_lands_after_its_bound(play: Play) -> None:
    play.goes_wrong("start", Fault.BEYOND)
    play.tick()
    play.fates = [LONG]
    play.wait(70)
    play.tick()
    play.wait(300)
    play.tick()
    play.wait(5)
    play.intend(IntentKind.CANCEL)


def _a_crash_between_attempt_and_start(play: Play) -> None:
    play.goes_wrong("start", Fault.CRASH_BEFORE)
    play.tick()


def _a_crash_right_after_a_start(play: Play) -> None:
    play.goes_wrong("start", Fault.CRASH_AFTER)
    play.tick()


def _a_crash_while_a_start_is_on_its_way(play: Play) -> None:
    play.goes_wrong("start", Fault.CRASH_LATE)
    play.tick()
    play.intend(IntentKind.CANCEL)
    play.tick(B)


def _vouched_for_while_it_is_on_its_way(play: Play) -> None:
    play.goes_wrong("start", Fault.CRASH_LATE)
    play.tick()
    play.intend(IntentKind.ABANDON, "1.1")
    play.intend(IntentKind.CANCEL)
    play.tick(B)


def _vouched_for_and_it_lands_without_a_gate(play: Play) -> None:
    play.fates = [LONG]
    play.goes_wrong("start", Fault.CRASH_LATE)
    play.tick()
    play.intend(IntentKind.ABANDON, "1.1")
    play.tick(B)
    play.wait(40)
    play.tick(B)
    play.wait(60)
    play.tick(B)
    play.wait(20)
    play.tick(B)
    play.intend(IntentKind.CANCEL)


def _cancelled_between_attempt_and_start(play: Play) -> None:
    play.stand_before(A, "start")
    play.tick()
    play.intend(IntentKind.CANCEL)
    play.tick(B)
    play.go_on(A)


def _two_supervisors_at_one_revision(play: Play) -> None:
    play.stand_before(A, "commit")
    play.tick()
    play.tick(B)
    play.go_on(A)


def _a_frozen_supervisor_goes_on(play: Play) -> None:
    play.stand_before(A, "start")
    play.tick()
    play.wait(100)
    play.tick(B)
    play.fates = [LONG]
    play.tick(B)
    play.wait(900)
    play.go_on(A)
    play.tick(B)
    play.intend(IntentKind.CANCEL)


def _a_commit_of_which_nobody_knows(play: Play) -> None:
    play.goes_wrong("commit", Fault.LOST)
    play.tick()


def _a_start_never_seen_waits_for_a_person(play: Play) -> None:
    play.goes_wrong("start", Fault.NEVER)
    play.tick()
    play.wait(80)
    play.tick()
    play.intend(IntentKind.RESUBMIT)


def _an_old_find_meets_a_new_object(play: Play) -> None:
    play.stand_before(B, "read")
    play.tick(B)
    play.tick(A)
    play.go_on(B)


def _a_part_of_a_list_starts_nothing(play: Play) -> None:
    play.goes_wrong("find", Fault.PART)
    play.tick()
    play.tick(B)


def _a_commit_takes_too_long_to_send_the_start(play: Play) -> None:
    play.goes_wrong("commit", Fault.FROZEN)
    play.tick()


def _a_start_without_a_gate_lands_late(play: Play) -> None:
    play.goes_wrong("start", Fault.LATE)
    play.fates = [Fate(40.0), Fate(40.0)]
    play.tick()
    play.wait(30)
    play.tick()


def _a_late_duplicate_is_stopped_before_the_release(play: Play) -> None:
    play.goes_wrong("start", Fault.BEYOND, Fault.LOST)
    play.tick()
    play.wait(70)
    play.tick()
    play.intend(IntentKind.HOLD)
    play.wait(300)
    play.tick()
    play.intend(IntentKind.RELEASE)


def _everything_is_delivered_twice(play: Play) -> None:
    play.goes_wrong("commit", *[Fault.TWICE] * 6)
    play.goes_wrong("start", Fault.TWICE)
    play.goes_wrong("release", Fault.TWICE)
    play.fates = [LONG]
    begin(play)
    play.wait(60)
    play.tick()
    play.goes_wrong("stop", *[Fault.TWICE] * 3)
    play.intend(IntentKind.CANCEL)
    play.tick()


STORIES: tuple[Story, ...] = (
    Story("a_job_succeeds", _a_job_succeeds),
    Story("a_job_succeeds_on_kubernetes", _a_job_succeeds, Shape.KUBERNETES),
    Story("the_reply_of_a_start_is_lost", _the_reply_of_a_start_is_lost),
    Story("the_reply_of_a_create_is_lost", _the_reply_of_a_start_is_lost, Shape.KUBERNETES),
    Story("a_start_never_arrives", _a_start_never_arrives),
    Story("a_start_lands_after_its_bound", _a_start_lands_after_its_bound),
    Story("a_crash_between_attempt_and_start", _a_crash_between_attempt_and_start),
    Story("a_crash_right_after_a_start", _a_crash_right_after_a_start),
    Story("a_crash_while_a_start_is_on_its_way", _a_crash_while_a_start_is_on_its_way),
    Story("vouched_for_while_it_is_on_its_way", _vouched_for_while_it_is_on_its_way),
    Story(
        "vouched_for_and_it_lands_without_a_gate",
        _vouched_for_and_it_lands_without_a_gate,
        changes={"capabilities": (Capability.HOLD_PENDING,)},
    ),
    Story("cancelled_between_attempt_and_start", _cancelled_between_attempt_and_start),
    Story("two_supervisors_at_one_revision", _two_supervisors_at_one_revision),
    Story("a_frozen_supervisor_goes_on", _a_frozen_supervisor_goes_on),
    Story("a_commit_of_which_nobody_knows", _a_commit_of_which_nobody_knows),
    Story(
        "a_start_never_seen_waits_for_a_person",
        _a_start_never_seen_waits_for_a_person,
        changes={"unmatched": UnmatchedPolicy.MANUAL},
    ),
    Story(
        "an_old_find_meets_a_new_object",
        _an_old_find_meets_a_new_object,
        changes={"clock_skew_s": 0},
    ),
    Story("a_part_of_a_list_starts_nothing", _a_part_of_a_list_starts_nothing),
    Story("a_commit_takes_too_long_to_send_the_start", _a_commit_takes_too_long_to_send_the_start),
    Story(
        "a_start_without_a_gate_lands_late",
        _a_start_without_a_gate_lands_late,
        changes={"capabilities": (Capability.HOLD_PENDING,)},
    ),
    Story(
        "a_late_duplicate_is_stopped_before_the_release",
        _a_late_duplicate_is_stopped_before_the_release,
    ),
    Story("everything_is_delivered_twice", _everything_is_delivered_twice),
)
