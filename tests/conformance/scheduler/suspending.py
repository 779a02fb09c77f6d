"""The contract of a scheduler whose hold is a suspension, which the gate looks like, too."""

from __future__ import annotations

import pytest

from dispatch.errors import CallRefused
from dispatch.record.names import Cause, ObjectState
from tests.conformance.scheduler.contract import Play, SchedulerContract


class SuspendingContract(SchedulerContract):
    """What waits at the gate is suspended already, so only what was released shows a hold."""

    def test_somebody_elses_hold_is_seen(self, play: Play) -> None:
        """F25, of what was released."""
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
