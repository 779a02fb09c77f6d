"""The local adapter keeps every promise of a scheduler."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.scheduler.contract import SchedulerContract
from tests.schedulers.local.world import LocalWorld


class TestLocalScheduler(SchedulerContract):
    @pytest.fixture
    def world(self, tmp_path: Path) -> Iterator[LocalWorld]:
        world = LocalWorld(tmp_path)
        yield world
        world.close()
