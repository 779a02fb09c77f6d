"""The cluster that `make test-slurm` started; without one the run fails, it never skips."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real.slurm.real import RealSlurm
from tests.real.slurm.world import SlurmWorld


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Waiting for a real scheduler takes as long as the machine lets it."""
    for item in items:
        item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def real() -> RealSlurm:
    found = RealSlurm.found()
    assert found.controller_answers()
    return found


@pytest.fixture
def world(real: RealSlurm) -> Iterator[SlurmWorld]:
    made = SlurmWorld(real)
    yield made
    made.close()
