"""The same promises where the version can requeue: API v0.0.45, on the Slurm that is to come."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dispatch.errors import CallUnknown
from dispatch.record.names import ObjectState
from tests.conformance.scheduler.contract import Play
from tests.conformance.scheduler.world import Work
from tests.real.slurm.proxy import Trouble
from tests.real.slurm.real import RealSlurm
from tests.real.slurm.test_contract import TestSlurm as Contract
from tests.real.slurm.world import SlurmWorld, id_of


class TestSlurmInPlace(Contract):
    @pytest.fixture
    def world(self, real: RealSlurm) -> Iterator[SlurmWorld]:
        made = SlurmWorld(real, api="v0.0.45", in_place=True)
        yield made
        made.close()

    def test_a_requeue_leaves_slurm_no_leave_to_requeue_by_itself(self, play: Play) -> None:
        target = play.run()
        play.scheduler.requeue(target)
        assert isinstance(play.world, SlurmWorld)
        assert play.world.real.field(id_of(target.ref), "Requeue") == "0"

    def test_a_requeue_that_is_in_doubt_is_closed_again(self, play: Play) -> None:
        assert isinstance(play.world, SlurmWorld)
        target = play.run()
        play.world.proxy.choose = lambda method, path: (
            Trouble.LOSE_REPLY if "/requeue" in path else Trouble.NONE
        )
        with pytest.raises(CallUnknown):
            play.scheduler.requeue(target)
        assert play.world.real.field(id_of(target.ref), "Requeue") == "0"
        seen = play.wait_until(target, lambda s: s.restarts == 1, "it landed all the same")
        assert seen.state in (ObjectState.PENDING, ObjectState.ENDING, ObjectState.RUNNING)

    def test_a_hold_that_comes_too_late_raises_nothing(self, play: Play) -> None:
        from dispatch.errors import CallRefused

        target, seen = play.end(Work.SUCCEED)
        with pytest.raises(CallRefused):
            play.scheduler.requeue(target)
        play.settle_calls()
        again = play.see(target)
        assert (again.state, again.restarts) == (seen.state, 0)
