"""The exhaustive corner: every fault at every place, every pair at the first ones."""

from __future__ import annotations

import pytest

from simulator.corner import walk
from simulator.scenario import Shape


@pytest.mark.parametrize("shape", list(Shape))
def test_no_rule_is_broken_wherever_a_fault_strikes(shape: Shape) -> None:
    walked = walk(shape, paired=4, switches=1000)
    print(f"{shape}: {walked.runs:,} lives, {walked.states:,} states")
    assert walked.runs > 300
    # A TrainJob's JobSet may answer the failure itself, and then fewer calls are made.
    assert walked.interleavings > (50 if shape is Shape.TRAINJOB else 100)
