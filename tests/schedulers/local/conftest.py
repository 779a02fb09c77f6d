"""A local cluster for each test, and no process of it after the test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.schedulers.local.play import Local
from tests.schedulers.local.world import LocalWorld


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LocalWorld]:
    world = LocalWorld(tmp_path)
    yield world
    world.close()


@pytest.fixture
def unconfined(tmp_path: Path) -> Iterator[LocalWorld]:
    """A world that makes no control groups, as for a plain user."""
    world = LocalWorld(tmp_path / "unconfined", cgroups=False)
    yield world
    world.close()


@pytest.fixture
def local(world: LocalWorld) -> Local:
    return Local(world)
