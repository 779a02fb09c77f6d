"""Small histories told as texts, from what was seen to what was written and called.

`pytest tests/core/test_transcripts.py --rewrite` writes the texts anew; read the difference then.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dispatch.record.header import Rule
from dispatch.record.names import Action, Capability, UnmatchedPolicy
from tests.core.histories import FULL, GATED, OTHER_DIGEST, History, plan
from tests.core.teller import Teller

FOLDER = Path(__file__).parent / "transcripts"
stories: list[Callable[[], Teller]] = []


def story(write: Callable[[], Teller]) -> Callable[[], Teller]:
    stories.append(write)
    return write


def begun(title: str, history: History) -> Teller:
    """Submission 1 was started and released; it runs since second 30."""
    told = Teller(title, history)
    told.look().reply().look().later(30)
    return told.look(told.sight())


@story
def a_clean_job() -> Teller:
    told = begun("A job from its first look to settled.", History())
    told.later(600).look(told.sight()).status()
    told.later(3_000).look(told.sight("o1", "succeeded", exit_code=0)).status()
    return told.later(30).look(told.sight("o1", "succeeded", exit_code=0)).status()


@story
def f01_a_lost_reply_and_the_object_shows() -> Teller:
    told = Teller("F01: the reply is lost; the next look shows the object.", History())
    told.look().note("the reply never came").later(40).look().status()
    return told.later(40).look(told.sight("o1", "pending", held=True)).status()


@story
def f01_a_lost_reply_and_the_object_is_over_already() -> Teller:
    accounted = History(capabilities=(*GATED, Capability.LOOKUP))
    told = Teller("F01: the reply is lost, and only accounting knows what became of it.", accounted)
    told.look().note("the reply never came").later(125)
    failed = told.sight("o1", "failed", cause="launch_failed", source="accounting")
    return told.look(answer=(failed,)).status()


@story
def f01_a_start_that_lands_after_it_was_given_up() -> Teller:
    told = Teller("F01: an attempt never seen is closed, and lands after all.", History())
    told.look().later(125).look().reply("o2", 1, 2).look().later(30)
    late, second = told.sight("o1", "pending", held=True), told.sight("o2", "running", a=2)
    told.look(late, second)
    return told.later(30).look(told.sight("o1", "failed", cause="stopped"), second)


@story
def f02_two_objects_of_one_submission() -> Teller:
    told = Teller(
        "F02: two objects of one attempt; one is the run, the other is stopped.", History()
    )
    told.look().later(40)
    running, failed = told.sight("o1", "running"), told.sight("o2", "failed", cause="app_error")
    told.look(running, failed).status()
    return (
        told.later(60).look(told.sight("o1", "succeeded"), failed).later(30).look(failed).status()
    )


@story
def f05_absence_and_accounting() -> Teller:
    accounted = History(capabilities=(*GATED, Capability.LOOKUP), lookup_lag_s=90)
    told = begun("F05: a running job isn't listed any more; accounting knows later.", accounted)
    told.later(300).look().status()
    succeeded = told.sight("o1", "succeeded", source="accounting")
    return told.later(65).look(answer=(succeeded,)).status()


@story
def f05_absence_that_nobody_can_explain() -> Teller:
    accounted = History(capabilities=(*GATED, Capability.LOOKUP), lookup_lag_s=90)
    told = begun("F05: nobody ever learns how it ended: lost, and a person is asked.", accounted)
    told.later(300).look().later(95).look().status()
    return told.later(310).look().status()


@story
def f06_errors_are_no_evidence() -> Teller:
    told = begun("F06: the questions fail for an hour; nothing is concluded.", History())
    told.later(30).look(told.sight())
    told.later(1_800).look(complete=False).later(1_800).look(complete=False).status()
    return told.later(60).look(told.sight())


@story
def f21_preempted_and_run_again_in_place() -> Teller:
    rule = Rule(action=Action.REQUEUE, in_place=True)
    told = begun(
        "F21: preempted; the plan asks for the same object to run again.",
        History(capabilities=FULL, plan=plan(preempted=rule)),
    )
    told.later(60).look(told.sight("o1", "ending"))
    told.later(5).look(told.sight("o1", "failed", cause="preempted")).status()
    told.later(60).look(told.sight("o1", "pending", restarts=1))
    return told.later(60).look(told.sight("o1", "running", restarts=1)).status()


@story
def a_requeue_in_place_that_never_lands() -> Teller:
    rule = Rule(action=Action.REQUEUE, in_place=True)
    told = begun(
        "A requeue in place is sent and never lands: a new submission answers instead.",
        History(capabilities=FULL, plan=plan(preempted=rule)),
    )
    ended = told.sight("o1", "failed", cause="preempted")
    return told.later(60).look(ended).later(124).look(ended).later(1).look(ended)


@story
def f22_a_lost_node() -> Teller:
    rule = Rule(action=Action.RESUBMIT, avoid_node=True)
    told = begun(
        "F22: the node is lost; its process may live on, so the next submission waits.",
        History(plan=plan(node_lost=rule)),
    )
    lost = told.sight("o1", "failed", cause="node_lost", lost_at=55, nodes=("n7",))
    told.later(30).look(lost).status()
    return told.later(299).look(lost).later(1).look(lost)


@story
def f22_a_lost_node_and_the_scheduler_runs_it_again_by_itself() -> Teller:
    told = begun("F22: the scheduler runs it again on another node: it is adopted.", History())
    told.later(30).look(told.sight("o1", "failed", cause="node_lost", lost_at=55))
    return told.later(30).look(told.sight("o1", "running", restarts=1)).status()


@story
def out_of_memory_until_a_person_is_asked() -> Teller:
    rule = Rule(action=Action.RESUBMIT, limit=1, memory_factor=2.0)
    told = begun(
        "Out of memory: more memory once, then a person is asked, and gives up.",
        History(plan=plan(out_of_memory=rule)),
    )
    over = told.sight("o1", "failed", cause="out_of_memory", reason="oom-kill")
    told.later(60).look(over).later(30).look(over).reply("o2", 2, 1).look(over).later(30)
    again = told.sight("o2", "failed", n=2, cause="out_of_memory")
    told.look(over, again).status().person("give_up", reason="it will never fit")
    return told.later(30).look(over, again).status()


@story
def a_hold_that_has_to_stop_and_a_release_that_starts_anew() -> Teller:
    told = begun("A running job is held where only waiting jobs can be.", History())
    told.later(30).look(told.sight()).person("hold", reason="maintenance").look(told.sight())
    told.later(5).look(told.sight("o1", "failed", cause="stopped")).status()
    told.later(600).person("release").look(told.sight("o1", "failed", cause="stopped"))
    return told


@story
def a_hold_and_a_release_of_a_waiting_job() -> Teller:
    told = Teller("A waiting job is held and released, in place.", History())
    told.look().reply().look().later(30).look(told.sight("o1", "pending"))
    told.later(30).look(told.sight("o1", "pending")).person("hold").look(
        told.sight("o1", "pending")
    )
    told.later(5).look(told.sight("o1", "pending", held=True)).status()
    told.later(60).person("release").look(told.sight("o1", "pending", held=True))
    return told.later(30).look(told.sight("o1", "running")).status()


@story
def f37_a_cancel_while_a_start_is_in_flight() -> Teller:
    told = Teller("F37: cancelled between the request and its effect.", History())
    told.look().person("cancel").status().later(60).look().status()
    told.later(30).look(told.sight("o1", "pending", held=True))
    stopped = told.sight("o1", "failed", cause="stopped")
    return told.later(30).look(stopped).status().later(30).look(stopped).status()


@story
def f40_a_cancel_and_a_success_at_once() -> Teller:
    told = begun("F40: a success is seen after a cancel: kept, and nothing changes.", History())
    told.later(30).person("cancel").look(told.sight("o1", "succeeded"))
    told.status().person("cancel")
    return told.later(30).look(told.sight("o1", "succeeded")).status()


@story
def f40_a_cancel_after_a_success() -> Teller:
    told = begun("F40: a cancel comes after the success: the receipt says so.", History())
    told.later(30).look(told.sight("o1", "succeeded")).person("cancel").status()
    return told.later(30).look(told.sight("o1", "succeeded")).person("cancel")


@story
def a_foreign_object_blocks_every_start() -> Teller:
    told = Teller("An object with the job's tag and another spec's digest.", History())
    stranger = told.sight("x1", "running", spec_digest=OTHER_DIGEST)
    told.look(stranger).status().later(60).look(stranger)
    return told.person("abandon", target="x1").look(stranger)


@story
def starts_that_are_refused_until_a_person_is_asked() -> Teller:
    told = Teller("Starts are refused until the retries are used up.", History(start_retries=1))
    told.look().refusal(1, 1, "start_refused", "no such queue").look()
    told.later(15).look().refusal(1, 2, "start_refused", "no such queue").look().status()
    return told.person("release").look()


@story
def an_unmatched_attempt_under_manual() -> Teller:
    manual = History(unmatched=UnmatchedPolicy.MANUAL)
    told = Teller("An attempt that was never seen waits for a person under manual.", manual)
    told.look().later(125).look().status().later(60).look()
    return told.person("abandon", target="1.1").look()


@story
def waiting_for_what_does_not_go_away() -> Teller:
    told = Teller(
        "It waits for nodes that don't exist, until the plan's limit.",
        History(plan=plan(Action.FAIL, pending_limit_s=600)),
    )
    waits = told.sight("o1", "pending", cause="unschedulable", reason="BadConstraints")
    told.look().reply().look().later(30).look(waits).later(30).look(waits)
    told.later(575).look(waits).later(1).look(waits)
    return told.later(30).look(told.sight("o1", "failed", cause="stopped")).status()


@story
def a_crash_of_the_scheduler_undoes_an_end() -> Teller:
    told = begun(
        "The scheduler crashes, forgets an end, and runs it again at the same restart count.",
        History(plan=plan(Action.RESUBMIT)),
    )
    told.later(60).look(told.sight("o1", "failed", cause="preempted"))
    told.later(10).look(told.sight("o1", "running")).status()
    ended = told.sight("o1", "failed", cause="preempted", ended_at=200)
    return told.later(100).look(ended).later(30).look(ended)


@story
def what_others_raise_after_settled_is_stopped() -> Teller:
    told = begun("Somebody outside requeues a cancelled job after it was settled.", History())
    told.person("cancel").look(told.sight()).later(5)
    stopped = told.sight("o1", "failed", cause="stopped")
    told.look(stopped).later(30).look(stopped).status()
    return told.later(60).look(told.sight("o1", "running", restarts=1)).status()


@pytest.mark.parametrize("write", stories, ids=lambda write: write.__name__)
def test_the_transcript_is_the_golden_one(write: Callable[[], Teller], rewrite: bool) -> None:
    path = FOLDER / f"{write.__name__}.txt"
    text = write().text()
    if rewrite:
        path.write_text(text)
    assert text == path.read_text()


def test_no_golden_transcript_is_left_without_its_story() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == {write.__name__ for write in stories}
