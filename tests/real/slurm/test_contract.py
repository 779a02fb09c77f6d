"""The Slurm adapter keeps every promise of a scheduler, on a real Slurm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dispatch.errors import CallUnknown, SchedulerUnavailable
from tests.conformance.scheduler.contract import JOB, OTHER_JOB, Play, SchedulerContract
from tests.conformance.scheduler.world import Work
from tests.real.slurm.real import RealSlurm
from tests.real.slurm.world import SlurmWorld


class TestSlurm(SchedulerContract):
    @pytest.fixture
    def world(self, real: RealSlurm) -> Iterator[SlurmWorld]:
        made = SlurmWorld(real)
        yield made
        made.close()

    # Slurm's singleton fence lets only the first live job of a name run, so that one comes last.
    def test_find_returns_every_object_and_serves_all_jobs(self, play: Play) -> None:
        third, _ = play.end(Work.SUCCEED, OTHER_JOB, 1, 1)
        first, second = play.run(), play.start(Work.LAST, OTHER_JOB, 2, 3)
        found = play.whole()
        assert [s.ref for s in found.by_job[JOB]] == [first.ref]
        assert {s.ref for s in found.by_job[OTHER_JOB]} == {second.ref, third.ref}

    # The adapter looks for a sign of life first, and then says that nothing was sent.
    def test_start_that_doesnt_get_through_is_unknown(self, play: Play) -> None:
        with play.world.silent(), pytest.raises((CallUnknown, SchedulerUnavailable)):
            play.scheduler.start(play.order(Work.LAST))

    def test_start_lands_within_the_call_bound_or_never(self, play: Play) -> None:
        with play.world.silent(), pytest.raises((CallUnknown, SchedulerUnavailable)):
            play.scheduler.start(play.order(Work.LAST))
        play.settle_calls()
        refs = play.refs()
        play.settle_calls()
        assert play.refs() == refs
