"""Removal of what is tombstoned, and of nothing else."""

import pytest

from dispatch.errors import JobTombstoned
from tests.functions.world import Context, World


def test_what_is_tombstoned_is_removed_and_nothing_else(world: World) -> None:
    gone, kept, open_ = world.job("a"), world.job("b"), world.job("c")
    for job in (gone, kept):
        world.settle(job)
    world.intend(open_, "hold")
    world.http("DELETE", f"/jobs/{gone}")
    assert world.retention({}, Context()) == {"removed": 1, "complete": True}
    with pytest.raises(JobTombstoned):
        world.store.read(gone)
    assert world.store.read(kept).revision > 0
    assert world.store.read(open_).revision > 0


def test_removal_may_be_repeated(world: World) -> None:
    job = world.job()
    world.settle(job)
    world.http("DELETE", f"/jobs/{job}")
    world.retention({}, Context())
    assert world.retention({}, Context())["complete"] is True


def test_without_time_nothing_is_begun(world: World) -> None:
    job = world.job()
    world.settle(job)
    world.http("DELETE", f"/jobs/{job}")
    assert world.retention({}, Context(seconds=1)) == {"removed": 0, "complete": False}
