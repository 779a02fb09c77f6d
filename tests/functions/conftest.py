import pytest

from tests.functions.world import World


@pytest.fixture
def world() -> World:
    return World()
