"""One virtual clock, and actors that take turns on it: one parked call proceeds at a time.

An actor is ordinary synchronous code that runs in a greenlet. It is parked at each of its inputs
and outputs and goes on when the clock has come to the time at which the seed lets its call
proceed; between two parks nothing else happens. Nothing here reads a real clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush

from greenlet import getcurrent, greenlet

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def instant(seconds: float) -> datetime:
    """Return the date of a moment on the stage's clock."""
    return EPOCH + timedelta(seconds=seconds)


class Crashed(BaseException):
    """An actor's process is gone at this very point; its code must not catch this."""


class Halted(Exception):
    """The run was asked to stop at this step."""


class Stage:
    """The clock and what is to happen on it, in order of time.

    Attributes:
        now: True time, in seconds since `EPOCH`.
        step: How many turns were taken.
        told: The story so far, if it is told.
        counts: How often each thing that can go wrong did, for the census.
    """

    __slots__ = ("_halt_at", "_heap", "_hub", "_seq", "_until", "counts", "now", "step", "told")

    def __init__(self, *, tell: bool = False, halt_at: int | None = None) -> None:
        self.now = 0.0
        self.step = 0
        self.told: list[str] | None = [] if tell else None
        self.counts: Counter[str] = Counter()
        self._heap: list[tuple[float, int, Callable[[], object]]] = []
        self._seq = 0
        self._until = 0.0
        self._halt_at = halt_at
        self._hub = getcurrent()

    def at(self, when: float, do: Callable[[], object]) -> None:
        """Let something happen at a time."""
        self._seq += 1
        heappush(self._heap, (when, self._seq, do))

    def after(self, seconds: float, do: Callable[[], object]) -> None:
        """Let something happen in so many seconds."""
        self.at(self.now + seconds, do)

    def spawn(self, actor: Actor, body: Callable[[], None], when: float) -> None:
        """Let an actor begin at a time."""
        actor.greenlet = greenlet(body, self._hub)
        self.at(when, actor.greenlet.switch)

    def run(self, until: float, done: Callable[[], bool] | None = None) -> None:
        """Let things happen until a time comes, or nothing is left, or it is done."""
        self._until = until
        self._hub = getcurrent()
        heap = self._heap
        while heap and heap[0][0] <= until:
            when, _, do = heappop(heap)
            self.now = max(self.now, when)
            self.turn()
            do()
            if done is not None and done():
                return
        self.now = max(self.now, until)

    def turn(self) -> None:
        """Count one turn."""
        self.step += 1
        if self._halt_at is not None and self.step >= self._halt_at:
            raise Halted

    def park(self, actor: Actor, seconds: float) -> None:
        """Let others have their turn until so many seconds have passed."""
        wake = self.now + seconds
        heap = self._heap
        if (not heap or heap[0][0] > wake) and wake <= self._until and self._halt_at is None:
            self.now = wake
            self.step += 1
            return
        self._seq += 1
        heappush(heap, (wake, self._seq, actor.greenlet.switch))
        self._hub.switch()

    def stand_still(self) -> None:
        """Let the actor whose turn it is wait until somebody lets it go on."""
        self._hub.switch()

    def tell(self, who: str, what: str) -> None:
        """Add a line to the story, if it is told."""
        if self.told is not None:
            self.told.append(f"{self.step:5d} {self.now:8.1f} s  {who:<12} {what}")


class Actor:
    """One process of ours: it has a name, a clock of its own, and turns.

    Attributes:
        name: Who it is in facts and stories.
        offset: How far its clock is off, seconds.
        pace: How long its calls take, seconds.
        find_began: The true time at which its latest Find began.
        frozen_until: The true time until which it stands still, or stood.
    """

    __slots__ = ("find_began", "frozen_until", "greenlet", "name", "offset", "pace", "stage")

    def __init__(self, stage: Stage, name: str, *, offset: float = 0.0, pace: float = 0.05) -> None:
        self.stage = stage
        self.name = name
        self.offset = offset
        self.pace = pace
        self.find_began = 0.0
        self.frozen_until = 0.0
        self.greenlet: greenlet = getcurrent()

    def clock(self) -> datetime:
        """Return what this actor's clock says."""
        return EPOCH + timedelta(seconds=self.stage.now + self.offset)

    def park(self, seconds: float) -> None:
        """Wait."""
        self.stage.park(self, seconds)

    def freeze(self, seconds: float) -> None:
        """Stand still, as a process that gets no time, until so many seconds have passed."""
        self.frozen_until = self.stage.now + seconds
        self.park(seconds)

    def tell(self, what: str) -> None:
        """Add a line to the story in this actor's name."""
        if self.stage.told is not None:
            self.stage.tell(self.name, what)
