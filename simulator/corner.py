"""The exhaustive corner: one job, two supervisors, at most two faults, and every place for them.

Nothing is sampled here. Walked are: each fault at each input and output of a whole job's life;
each pair of faults at the first of them; each crash of each beside a cancel; and each way in which
a second supervisor's pass can lie inside or across the first one's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

from dispatch.record.header import Plan, Rule
from dispatch.record.names import Action, Cause, IntentKind
from simulator.faults import MENUS, Fault
from simulator.play import Play, Scripted, setting
from simulator.scenario import Scenario, Shape
from simulator.worlds.ground import Fate

A, B = "supervisor-a", "supervisor-b"


@dataclass(frozen=True, slots=True)
class Place:
    """A fault at the so-manieth call."""

    index: int
    fault: Fault


@dataclass(frozen=True, slots=True)
class Walked:
    """How many states were walked.

    Attributes:
        runs: Whole lives that were played.
        states: Turns taken in them: each is a state in which every invariant was checked.
    """

    runs: int
    states: int


class Indexed(Scripted):
    """Lets a fault happen at its place, and notes which calls there are."""

    def __init__(self, places: tuple[Place, ...]) -> None:
        super().__init__()
        self._places = {one.index: one.fault for one in places}
        self.calls: list[str] = []

    def draw(self, call: str, now: float) -> Fault | None:
        """Return the fault of this place, if it has one that fits."""
        self.calls.append(call)
        fault = self._places.get(len(self.calls) - 1)
        return fault if any(fault is one for _, one in MENUS[call]) else None


def scenario(shape: Shape) -> Scenario:
    """Return the corner's scenario: one failure, then success."""
    plan = Plan(default=Rule(action=Action.RESUBMIT, limit=3), start_backoff_s=0)
    return replace(setting(shape), plan=plan, start_retries=3)


def life(shape: Shape, places: tuple[Place, ...], *, cancel_after: int | None = None) -> Play:
    """Play one life of one job, with faults at their places.

    Raises:
        Violation: A rule was broken.
    """
    play = Play(scenario(shape))
    play.fates = [Fate(5.0, Cause.APP_ERROR, 1)]
    faults = Indexed(places)
    play.use(faults)

    def script(on: Play) -> None:
        for turn in range(4):
            if turn == cancel_after:
                on.intend(IntentKind.CANCEL)
            on.tick(A if turn % 2 == 0 else B)
            on.wait(9)

    play.direct(script)
    return play


def crossed(shape: Shape, first: int, second: int | None) -> Play:
    """Play B's pass inside A's, at A's so-manieth call; or across it, if B stops as well.

    Raises:
        Violation: A rule was broken.
    """
    play = Play(scenario(shape))
    play.fates = [Fate(5.0, Cause.APP_ERROR, 1)]

    def script(on: Play) -> None:
        on.stand_at(A, first)
        on.tick(A)
        if second is not None:
            on.stand_at(B, second)
        on.tick(B)
        on.go_on(A)
        if second is not None:
            on.go_on(B)

    play.direct(script)
    return play


def places(calls: list[str]) -> Iterator[Place]:
    """Yield every fault at every place of a life."""
    for index, call in enumerate(calls):
        for _, fault in MENUS[call]:
            yield Place(index, fault)


def walk(shape: Shape, *, paired: int, singles: int | None = None, passes: int = 9) -> Walked:
    """Walk the corner and return how many states it has.

    Args:
        shape: Of the cluster.
        paired: Among how many first calls every pair of faults is played.
        singles: Among how many first calls every single fault is played; all, if not told.
        passes: How many calls of a pass another's pass is put across.

    Raises:
        Violation: A rule was broken.
    """
    runs = states = 0

    def count(play: Play) -> None:
        nonlocal runs, states
        runs += 1
        states += play.stage.step

    plain = life(shape, ())
    count(plain)
    calls = plain.calls
    for one in places(calls[:singles]):
        count(life(shape, (one,)))
    for two in combinations(places(calls[:paired]), 2):
        if two[0].index != two[1].index:
            count(life(shape, two))
    for turn in range(4):
        for one in places(calls[:paired]):
            count(life(shape, (one,), cancel_after=turn))
    for first in range(passes):
        for second in (None, *range(passes)):
            count(crossed(shape, first, second))
    return Walked(runs, states)
