"""The Kubernetes adapter keeps every promise of a scheduler, over TLS, on the fake."""

from collections.abc import Iterator

import pytest

from tests.conformance.scheduler.contract import SchedulerContract
from tests.conformance.scheduler.suspending import SuspendingContract
from tests.fakes.kube.tls import Authority
from tests.schedulers.eks.world import EksWorld, KueueWorld


class TestEksScheduler(SuspendingContract):
    @pytest.fixture
    def world(self, authority: Authority) -> Iterator[EksWorld]:
        world = EksWorld(authority)
        yield world
        world.close()


class TestEksSchedulerWithKueue(SchedulerContract):
    """Kueue's suspension isn't ours to lift, so neither gate nor hold nor requeue is declared."""

    @pytest.fixture
    def world(self, authority: Authority) -> Iterator[EksWorld]:
        world = KueueWorld(authority, kueue_queue="team-queue")
        world.kube.kueue.admits = True
        yield world
        world.close()
