"""TrainJobs on a real API server with Trainer's and JobSet's controllers, where it has them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real.eks.contract import RealContract
from tests.real.eks.train_world import RealTrainWorld, served_release


class TestTrainJobs(RealContract):
    @pytest.fixture
    def world(self, kubeconfig: str, names: Iterator[str]) -> Iterator[RealTrainWorld]:
        release = served_release(kubeconfig)
        assert release is not None, "the cluster serves no TrainJobs"
        world = RealTrainWorld(kubeconfig, next(names), release)
        yield world
        world.close()
