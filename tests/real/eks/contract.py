"""The contract on a real API server whose kubelet is played: nobody there answers for a log."""

from __future__ import annotations

import pytest

from dispatch.errors import SchedulerUnavailable
from tests.conformance.scheduler.contract import Play
from tests.conformance.scheduler.suspending import SuspendingContract
from tests.conformance.scheduler.world import Work


class RealContract(SuspendingContract):
    """What differs where a log is asked of the kubelet, and that one is played."""

    def test_output_comes_in_pieces_that_fit_together(self, play: Play) -> None:
        target, _ = play.end(Work.FAIL)
        with pytest.raises(SchedulerUnavailable):
            play.scheduler.output(target, offset=0, limit=10)

    def test_output_of_what_runs_has_not_ended(self, play: Play) -> None:
        target = play.start(Work.LAST)
        assert not play.scheduler.output(target, offset=0, limit=10).ended
