"""TrainJobs on a real API server with Trainer's and JobSet's controllers, where it has them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dispatch.errors import CallRefused, SchedulerUnavailable
from dispatch.record.names import Cause, ObjectState
from tests.conformance.scheduler.contract import Play, SchedulerContract
from tests.conformance.scheduler.world import Work
from tests.real.eks.train_world import RealTrainWorld, served_release


class TestTrainJobs(SchedulerContract):
    @pytest.fixture
    def world(self, kubeconfig: str, names: Iterator[str]) -> Iterator[RealTrainWorld]:
        release = served_release(kubeconfig)
        assert release is not None, "the cluster serves no TrainJobs"
        world = RealTrainWorld(kubeconfig, next(names), release)
        yield world
        world.close()

    # What waits at the gate is suspended already, so only what was released shows another's hold.
    def test_somebody_elses_hold_is_seen(self, play: Play) -> None:
        target = play.run()
        play.world.hold(target.ref)
        seen = play.wait_until(target, lambda s: s.held, "held outside")
        assert (seen.holder, seen.cause) == ("outside", Cause.HELD_OUTSIDE)

    def test_release_never_runs_what_somebody_else_holds_without_saying_so(
        self, play: Play
    ) -> None:
        target = play.run()
        play.world.hold(target.ref)
        play.wait_until(target, lambda s: s.held, "held outside")
        with pytest.raises(CallRefused):
            play.scheduler.release(target)
        assert play.see(target).state is ObjectState.PENDING

    # A log is asked of the kubelet, and this one is played.
    def test_output_comes_in_pieces_that_fit_together(self, play: Play) -> None:
        target, _ = play.end(Work.FAIL)
        with pytest.raises(SchedulerUnavailable):
            play.scheduler.output(target, offset=0, limit=10)

    def test_output_of_what_runs_has_not_ended(self, play: Play) -> None:
        target = play.start(Work.LAST)
        assert not play.scheduler.output(target, offset=0, limit=10).ended
