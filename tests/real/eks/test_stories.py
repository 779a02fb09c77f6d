"""Stories on a real API server with its own controllers: what the fake is held to, seen again."""

from __future__ import annotations

from dataclasses import replace

from dispatch.record.names import Cause, ObjectState
from dispatch.schedulers.scheduler import Started, StartRefused, Target
from tests.conformance.scheduler.contract import Play
from tests.conformance.scheduler.world import Work
from tests.real.eks.world import RealWorld


def run(world: RealWorld, play: Play, command: str) -> Target:
    order = replace(play.order(Work.LAST), spec=world.spec(Work.LAST, command=(command,)))
    started = world.scheduler.start(order)
    assert isinstance(started, Started)
    target = Target(started.ref, order.tag)
    world.scheduler.release(target)
    play.wait(target, ObjectState.RUNNING)
    return target


def test_a_drained_pod_that_exits_0_is_no_success(world: RealWorld) -> None:
    play = Play(world)
    target = run(world, play, "graceful")
    world.kubelet.disrupt(world.live_pod(target.ref), "EvictionByEvictionAPI")
    seen = play.wait_for_end(target)
    assert (seen.state, seen.cause) == (ObjectState.FAILED, Cause.EVICTED)


def test_a_foreground_delete_waits_for_the_record_and_no_longer(world: RealWorld) -> None:
    play = Play(world)
    target = run(world, play, "last")
    world.scheduler.stop(target)
    assert play.wait_for_end(target).cause is Cause.STOPPED
    refused = world.scheduler.start(play.order(Work.LAST))
    assert isinstance(refused, StartRefused)
    assert refused.cause is Cause.NAME_TAKEN
    world.scheduler.acknowledge([target])
    world.until(lambda: world.pods(target.ref) == [], "its pods are gone")


def test_a_requeue_is_counted_in_the_new_pods(world: RealWorld) -> None:
    play = Play(world)
    target = run(world, play, "last")
    world.scheduler.requeue(target)
    play.wait_until(target, lambda s: s.restarts == 1, "counted")
    play.wait(target, ObjectState.RUNNING)
    world.until(lambda: world.processes(target.ref) == 1, "one process lives")
    assert world.environment(target.ref)["DISPATCH_EPOCH"] == "1000001"
