"""Stories about looks that can't be believed, or see only a part."""

from __future__ import annotations

from dispatch.record.names import IntentKind
from dispatch.supervisor.health import accept_loss
from simulator.faults import Fault
from simulator.play import Play
from simulator.stage import instant
from simulator.stories.story import (
    ACCOUNTED,
    FAILS,
    LONG,
    RESUBMITS_LOST,
    Story,
    second_waits,
)
from simulator.worlds.rows import Event


def _a_list_without_anything_is_not_believed(play: Play) -> None:
    play.sweep()
    play.wait(10)
    play.sweep()
    play.wait(2)
    play.sweep()
    play.lie(20)
    play.sweep()
    play.wait(40)
    play.sweep()


def _a_list_without_anything_is_not_believed_of_busy_jobs(play: Play) -> None:
    play.sweep()
    play.lie(20)
    play.sweep()
    play.wait(40)
    play.sweep()


def _running_jobs_leave_every_list_before_a_hint_names_them(play: Play) -> None:
    play.fates = [LONG] * 8
    play.sweep()
    play.wait(10)
    play.lie(400)
    for _ in range(6):
        play.sweep()
        play.wait(60)
    play.wait(200)
    play.sweep()
    for number in range(len(play.jobs)):
        play.intend(IntentKind.CANCEL, job=number)


def _all_end_while_nobody_looks_and_accounting_knows(play: Play) -> None:
    play.sweep()
    play.wait(10)
    play.sweep()
    play.wait(400)
    for _ in range(3):
        play.sweep()
        play.wait(20)


def _another_cluster_answers(play: Play) -> None:
    play.fates = [LONG, LONG]
    play.sweep()
    play.wait(10)
    play.sweep()
    play.another_answers(300)
    for _ in range(5):
        play.wait(50)
        play.sweep()
    play.wait(100)
    play.sweep()
    play.intend(IntentKind.CANCEL)


def _a_look_in_part_misses_an_older_object(play: Play) -> None:
    play.fates = [FAILS, LONG, LONG]
    second_waits(play)
    play.befall(Event.REQUEUE, which=0)
    play.wait(6)
    play.intend(IntentKind.RELEASE)
    play.goes_wrong("find", Fault.PART)
    play.tick()
    play.wait(10)
    play.tick()
    play.intend(IntentKind.CANCEL)


def _most_are_really_lost_and_a_person_says_so(play: Play) -> None:
    play.fates = [LONG] * 6
    play.sweep()
    play.wait(10)
    play.sweep()
    play.wait(2)
    play.sweep()
    play.lose_everything()
    play.sweep()
    accept_loss(play.records, "hpc", by="ada", at=instant(play.stage.now))
    play.say("ada says that the loss is real")
    for _ in range(2):
        play.sweep()
        play.wait(200)
    for number in range(len(play.jobs)):
        play.intend(IntentKind.CANCEL, job=number)


SWEPT = {"sweeping": True, "beat_s": 15}

STORIES: tuple[Story, ...] = (
    Story(
        "a_list_without_anything_is_not_believed",
        _a_list_without_anything_is_not_believed,
        changes={"jobs": 8, **SWEPT},
    ),
    Story(
        "a_list_without_anything_is_not_believed_of_busy_jobs",
        _a_list_without_anything_is_not_believed_of_busy_jobs,
        changes={"jobs": 8, **SWEPT},
    ),
    Story(
        "running_jobs_leave_every_list_before_a_hint_names_them",
        _running_jobs_leave_every_list_before_a_hint_names_them,
        changes={
            "jobs": 8,
            **SWEPT,
            "plan": RESUBMITS_LOST,
            "node_loss_window_s": 30,
        },
    ),
    Story(
        "all_end_while_nobody_looks_and_accounting_knows",
        _all_end_while_nobody_looks_and_accounting_knows,
        changes={"jobs": 6, **SWEPT, "capabilities": ACCOUNTED},
    ),
    Story(
        "another_cluster_answers",
        _another_cluster_answers,
        changes={
            **SWEPT,
            "plan": RESUBMITS_LOST,
            "node_loss_window_s": 30,
        },
    ),
    Story("a_look_in_part_misses_an_older_object", _a_look_in_part_misses_an_older_object),
    Story(
        "most_are_really_lost_and_a_person_says_so",
        _most_are_really_lost_and_a_person_says_so,
        changes={"jobs": 6, **SWEPT},
    ),
)
