"""The exhaustive corner: one job, two supervisors, at most two faults, and every place for them.

Nothing is sampled here. Walked are: each fault at each input and output of a whole job's life;
each pair of faults at the first of them; each fault of each beside a cancel; and each way in which
a second supervisor's pass can lie inside or across the first one's, with so many changes from one
to the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, count

from dispatch.record.header import Plan, Rule
from dispatch.record.names import Action, Cause, IntentKind
from simulator.faults import MENUS, TWICE, Fault
from simulator.play import Play, Scripted, setting
from simulator.scenario import Scenario, Shape
from simulator.worlds.ground import Fate

A, B = "supervisor-a", "supervisor-b"

ACROSS = frozenset(
    {Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.CRASH_LATE, Fault.LOST, Fault.NEVER, Fault.LATE}
)
"""What may go wrong with a call of two passes across each other."""

TURNS = 5
"""After how many passes two lie across each other: none, the first, and so on, past a recovery."""


@dataclass(frozen=True, slots=True)
class Place:
    """A fault at the so-manieth call."""

    index: int
    fault: Fault


@dataclass(slots=True)
class Walked:
    """How many states were walked.

    Attributes:
        runs: Whole lives that were played.
        states: Turns taken in them: each is a state in which every invariant was checked.
        interleavings: Of the lives, those in which two passes lie across each other.
    """

    runs: int = 0
    states: int = 0
    interleavings: int = 0

    def add(self, play: Play) -> None:
        """Count one life."""
        self.runs += 1
        self.states += play.stage.step


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
        return fault if fault in faults_of(call) else None


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


@dataclass(frozen=True, slots=True)
class Across:
    """Two passes across each other.

    Attributes:
        turn: How many passes were made before.
        calls: How many calls A makes, then B, then A, and so on.
        play: What was played.
        midway: Whether the last of `calls` left its actor in the middle of its pass.
        places: Of the calls of the two passes, counted from the first of the life.
    """

    turn: int
    calls: tuple[int, ...]
    play: Play
    midway: bool
    places: range


def interleaved(
    shape: Shape, turn: int, calls: tuple[int, ...], at: tuple[Place, ...] = ()
) -> Across:
    """Play A's and B's passes across each other, after so many passes of one supervisor.

    Args:
        shape: Of the cluster.
        turn: How many passes were made before, each by itself.
        calls: How many calls A makes, then B, then A, and so on; then each goes on to its end.
        at: What goes wrong, and where.

    Raises:
        Violation: A rule was broken.
    """
    play = Play(scenario(shape))
    play.fates = [Fate(5.0, Cause.APP_ERROR, 1)]
    faults = Indexed(at)
    play.use(faults)
    midway, from_to = [True], [0, 0]

    def script(on: Play) -> None:
        for _ in range(turn):
            on.tick(A)
            on.wait(9)
        from_to[0] = len(faults.calls)
        begun: set[str] = set()
        for number, many in enumerate(calls):
            who = (A, B)[number % 2]
            if who in begun:
                on.go_on(who, calls=many)
            else:
                begun.add(who)
                on.stand_at(who, many)
                on.tick(who)
            midway[0] = on.stands(who)
        who = (A, B)[len(calls) % 2]
        if who not in begun:
            on.tick(who)
        on.go_on(who)
        on.go_on(B if who == A else A)
        from_to[1] = len(faults.calls)

    play.direct(script)
    return Across(turn, calls, play, midway[0], range(*from_to))


def interleavings(
    shape: Shape, turn: int, switches: int, before: tuple[int, ...] = ()
) -> Iterator[Across]:
    """Yield every way in which two passes can lie across each other with so many switches.

    A switch is a change from one supervisor to the other in the middle of a pass, right before a
    call; two supervisors are alike, so it is always A that begins.

    Raises:
        Violation: A rule was broken.
    """
    if len(before) == switches:
        return
    for calls in count(1):
        here = (*before, calls)
        across = interleaved(shape, turn, here)
        if not across.midway:
            return  # its pass is over before that: nothing lies across any more
        yield across
        yield from interleavings(shape, turn, switches, here)


def places(calls: list[str]) -> Iterator[Place]:
    """Yield every fault at every place of a life."""
    for index, call in enumerate(calls):
        for fault in faults_of(call):
            yield Place(index, fault)


def faults_of(call: str) -> list[Fault]:
    """Return all that can go wrong with a call."""
    return [fault for _, fault in MENUS[call]] + [Fault.TWICE] * (call in TWICE)


def walk(shape: Shape, *, paired: int, switches: int, across: bool = False) -> Walked:
    """Walk the corner and return how many states it has.

    Args:
        shape: Of the cluster.
        paired: Among how many first calls every pair of faults is played.
        switches: How often two passes change over, at most.
        across: Whether each fault is also played at each call of two passes across each other.

    Raises:
        Violation: A rule was broken.
    """
    walked = Walked()
    plain = life(shape, ())
    walked.add(plain)
    calls = plain.calls
    for one in places(calls):
        walked.add(life(shape, (one,)))
    for two in combinations(places(calls[:paired]), 2):
        if two[0].index != two[1].index:
            walked.add(life(shape, two))
    for turn in range(4):
        for one in places(calls[:paired]):
            walked.add(life(shape, (one,), cancel_after=turn))
    for turn in range(TURNS):
        for one_way in interleavings(shape, turn, switches):
            walked.add(one_way.play)
            walked.interleavings += 1
            made = one_way.play.calls
            for index in one_way.places if across else ():
                for fault in faults_of(made[index]):
                    if fault in ACROSS:
                        at = (Place(index, fault),)
                        walked.add(interleaved(shape, turn, one_way.calls, at).play)
    return walked
