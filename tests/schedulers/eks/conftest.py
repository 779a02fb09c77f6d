"""One certificate for the run, one fake cluster for each test."""

from collections.abc import Iterator

import pytest

from tests.fakes.kube.tls import Authority, make_authority
from tests.schedulers.eks.world import EksWorld


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def world(authority: Authority) -> Iterator[EksWorld]:
    world = EksWorld(authority)
    yield world
    world.close()
