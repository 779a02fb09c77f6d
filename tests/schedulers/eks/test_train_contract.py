"""The Kubernetes adapter keeps every promise of a scheduler with TrainJobs as well."""

from collections.abc import Iterator

import pytest

from tests.conformance.scheduler.contract import SchedulerContract
from tests.conformance.scheduler.suspending import SuspendingContract
from tests.fakes.kube.tls import Authority
from tests.schedulers.eks.train_world import KueueTrainWorld, TrainWorld


class TestTrainJobs(SuspendingContract):
    @pytest.fixture
    def world(self, authority: Authority) -> Iterator[TrainWorld]:
        world = TrainWorld(authority)
        yield world
        world.close()


class TestTrainJobsWithKueue(SchedulerContract):
    """Kueue's suspension isn't ours to lift, so neither gate nor hold nor requeue is declared."""

    @pytest.fixture
    def world(self, authority: Authority) -> Iterator[TrainWorld]:
        world = KueueTrainWorld(authority, kueue_queue="team-queue")
        world.kube.kueue.admits = True
        yield world
        world.close()
