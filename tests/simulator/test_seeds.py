"""Seeds: a fixed lot, and a fresh one whose start is printed."""

from __future__ import annotations

from random import SystemRandom

import pytest

from simulator.batch import play
from simulator.scenario import Shape

FIXED = 120
FRESH = 150

ONCE_BROKEN = {
    Shape.SLURM: (
        5030,
        2043,
        2223,
        13094,
        16152,
        1927,
        743,
        1358,
        753988409792,
        878710146855,
        444306363650,
        279108923034,
        964404632815,
        964404633749,
        778202243142,
        988752017066,
        988760026568,
        988770026152,
        988780039933,
        988800000687,
    ),
    Shape.KUBERNETES: (
        32,
        48,
        157,
        373,
        5186,
        12325,
        33915,
        40977,
        444306360243,
        444306368449,
        548925797782,
        548925803051,
        964404631466,
        964404632523,
        974330619342,
        778202267576,
        1022168566642,
        1022168606159,
        1022168606505,
        528664186825,
    ),
    Shape.TRAINJOB: (507846993134,),
}
"""Seeds that once showed a fault, of the protocol or of the simulator."""


@pytest.mark.parametrize("shape", list(Shape))
def test_no_rule_is_broken_by_the_fixed_seeds(shape: Shape) -> None:
    seeds = [*range(FIXED), *ONCE_BROKEN[shape]]
    assert [one for one in (play(seed, shape) for seed in seeds) if one.broken] == []


@pytest.mark.parametrize("shape", list(Shape))
def test_no_rule_is_broken_by_fresh_seeds(shape: Shape) -> None:
    start = SystemRandom().randrange(2**40)
    print(f"{FRESH} {shape} seeds from {start} on")
    broken = [one for one in (play(start + i, shape) for i in range(FRESH)) if one.broken]
    assert broken == []
