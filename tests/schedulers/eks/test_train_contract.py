"""The Kubernetes adapter keeps every promise of a scheduler with TrainJobs as well."""

from collections.abc import Iterator

import pytest

from dispatch.errors import CallRefused
from dispatch.record.names import Cause, ObjectState
from tests.conformance.scheduler.contract import Play, SchedulerContract
from tests.fakes.kube.tls import Authority
from tests.schedulers.eks.train_world import KueueTrainWorld, TrainWorld


class TestTrainJobs(SchedulerContract):
    @pytest.fixture
    def world(self, authority: Authority) -> Iterator[TrainWorld]:
        world = TrainWorld(authority)
        yield world
        world.close()

    def test_somebody_elses_hold_is_seen(self, play: Play) -> None:
        """F25: what waits at the gate is suspended already, so only what was released shows it."""
        target = play.run()
        play.world.hold(target.ref)
        seen = play.wait_until(target, lambda s: s.held, "held outside")
        assert seen.holder == "outside"
        assert seen.state is ObjectState.PENDING
        assert seen.cause is Cause.HELD_OUTSIDE

    def test_release_never_runs_what_somebody_else_holds_without_saying_so(
        self, play: Play
    ) -> None:
        """F25, of what was released before, for the same reason."""
        target = play.run()
        play.world.hold(target.ref)
        play.wait_until(target, lambda s: s.holder is not None, "held outside")
        with pytest.raises(CallRefused):
            play.scheduler.release(target)
        play.settle_calls()
        seen = play.see(target)
        assert (seen.state, seen.held) == (ObjectState.PENDING, True)


class TestTrainJobsWithKueue(SchedulerContract):
    """Kueue's suspension isn't ours to lift, so neither gate nor hold nor requeue is declared."""

    @pytest.fixture
    def world(self, authority: Authority) -> Iterator[TrainWorld]:
        world = KueueTrainWorld(authority, kueue_queue="team-queue")
        world.kube.kueue.admits = True
        yield world
        world.close()
