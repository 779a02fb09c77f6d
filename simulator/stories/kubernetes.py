"""Stories that only a cluster with names, pods and an etcd has."""

from __future__ import annotations

from dispatch.record.names import Capability, IntentKind
from dispatch.schedulers.scheduler import Tag
from dispatch.supervisor.health import accept_loss
from simulator.play import Play
from simulator.scenario import Shape
from simulator.stage import instant
from simulator.stories.story import FAILS, IN_PLACE, LONG, NEVER, A, Story, begin
from simulator.worlds.kubernetes import KubernetesWorld
from simulator.worlds.rows import Event


def _released_after_its_node_was_lost(play: Play) -> None:
    play.fates = [LONG]
    begin(play)
    play.intend(IntentKind.HOLD)
    play.befall(Event.LOSE_NODE)
    play.tick()
    play.wait(40)
    play.tick()
    play.intend(IntentKind.RELEASE)
    for _ in range(4):
        play.tick()
        play.wait(5)


def _requeued_again_on_a_lost_node(play: Play) -> None:
    play.fates = [LONG, LONG]
    begin(play)
    play.intend(IntentKind.REQUEUE)
    play.befall(Event.CUT_NODE, 2.0)
    play.tick()
    play.wait(50)
    play.tick()
    play.intend(IntentKind.REQUEUE)
    for _ in range(4):
        play.tick()
        play.wait(5)
    play.say("the second requeue waits for what the lost node may still run")


def _its_name_is_taken_by_another_copy(play: Play) -> None:
    play.stand_before(A, "start")
    play.tick()
    tag = Tag(play.job_id, 1, 1, "f" * 64, 0)
    row = play.world.add(tag, foreign=True)
    play.watch.foreign_since[row.ref] = play.stage.now
    play.say(f"{row.ref} appears, of another copy of the record")
    play.go_on(A)
    play.tick()
    play.wait(30)
    play.tick()
    play.intend(IntentKind.ABANDON, row.ref)
    play.tick()
    play.intend(IntentKind.RESUBMIT)


def _made_anew_under_its_name(play: Play) -> None:
    play.fates = [FAILS, LONG]
    begin(play)
    play.wait(10)
    play.befall(Event.REQUEUE)
    play.wait(10)
    for _ in range(4):
        play.tick()
        play.wait(10)


def _made_anew_after_it_was_settled(play: Play) -> None:
    play.fates = [FAILS, LONG]
    for _ in range(4):
        play.sweep()
        play.wait(20)
    play.befall(Event.REQUEUE)
    for _ in range(4):
        play.wait(20)
        play.sweep()
    play.watch.nothing_left(play.jobs, 60.0)


def _the_holder_of_its_name_is_abandoned(play: Play) -> None:
    holder = play.appear_foreign()
    play.tick()
    play.intend(IntentKind.ABANDON, holder)
    for _ in range(3):
        play.tick()
        play.wait(20)
    if play.watch.job(play.job_id).recovery is not None:
        play.intend(IntentKind.GIVE_UP)


def _restored_from_a_backup(play: Play) -> None:
    play.fates = [LONG, LONG]
    world = play.world
    assert isinstance(world, KubernetesWorld)
    for _ in range(3):
        play.sweep()
        play.wait(10)
    world.restore(40.0, 1.0)
    play.wait(10)
    play.sweep()
    accept_loss(play.records, "eks", by="ada", at=instant(play.stage.now))
    play.say("ada says that it is the cluster that is meant")
    for _ in range(3):
        play.sweep()
        play.wait(20)
    play.intend(IntentKind.CANCEL)


REQUEUES = (
    Capability.GATED_START,
    Capability.HOLD_PENDING,
    Capability.HOLD_RUNNING,
    Capability.REQUEUE_LIVE,
    Capability.UNIQUE_NAMES,
)

STORIES: tuple[Story, ...] = (
    Story(
        "released_after_its_node_was_lost",
        _released_after_its_node_was_lost,
        Shape.KUBERNETES,
        {"keeps_evidence": True},
    ),
    Story(
        "requeued_again_on_a_lost_node",
        _requeued_again_on_a_lost_node,
        Shape.KUBERNETES,
        {
            "keeps_evidence": True,
            "plan": IN_PLACE,
            "capabilities": REQUEUES,
            "request_timeout_s": 30,
            "call_bound_s": 80,
        },
    ),
    Story(
        "its_name_is_taken_by_another_copy",
        _its_name_is_taken_by_another_copy,
        Shape.KUBERNETES,
    ),
    Story(
        "made_anew_under_its_name",
        _made_anew_under_its_name,
        Shape.KUBERNETES,
        {"keeps_evidence": True},
    ),
    Story(
        "made_anew_after_it_was_settled",
        _made_anew_after_it_was_settled,
        Shape.KUBERNETES,
        {"sweeping": True, "beat_s": 15, "plan": NEVER},
    ),
    Story(
        "the_holder_of_its_name_is_abandoned",
        _the_holder_of_its_name_is_abandoned,
        Shape.KUBERNETES,
    ),
    Story(
        "restored_from_a_backup",
        _restored_from_a_backup,
        Shape.KUBERNETES,
        {"sweeping": True, "beat_s": 15},
    ),
)
