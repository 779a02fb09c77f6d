"""When a pod last wrote, which is all that Kubernetes can tell of a run's progress."""

from __future__ import annotations

import pytest

from dispatch.errors import SchedulerUnavailable
from dispatch.schedulers.scheduler import TellsProgress
from tests.conformance.scheduler.contract import Play
from tests.schedulers.eks.world import EksWorld


def test_when_the_first_rank_last_wrote_is_read_from_the_last_line_of_its_log(
    world: EksWorld,
) -> None:
    assert isinstance(world.scheduler, TellsProgress)
    play = Play(world)
    target = play.run()
    pod = world.live_pod(target.ref)
    started = pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
    world.kube.api.logs[pod["metadata"]["uid"]] = b""
    assert world.scheduler.written_at(target) is None
    world.kube.api.logs[pod["metadata"]["uid"]] = b"epoch 1\nepoch 2\n"
    written = world.scheduler.written_at(target)
    assert written is not None
    assert written.isoformat() == f"{started.removesuffix('Z')}.123456+00:00"


def test_a_log_that_can_t_be_read_is_said_to_be_so(world: EksWorld) -> None:
    target = Play(world).run()
    world.forget(target.ref)
    with pytest.raises(SchedulerUnavailable):
        world.scheduler.written_at(target)
