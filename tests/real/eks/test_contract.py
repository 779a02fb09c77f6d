"""The Kubernetes adapter keeps every promise of a scheduler, on a real API server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real.eks.contract import RealContract
from tests.real.eks.world import RealWorld


class TestKubernetes(RealContract):
    @pytest.fixture
    def world(self, kubeconfig: str, names: Iterator[str]) -> Iterator[RealWorld]:
        world = RealWorld(kubeconfig, next(names))
        yield world
        world.close()
