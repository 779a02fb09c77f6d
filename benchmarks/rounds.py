"""Side by side: things are measured in turns, so that what slows the machine slows them all."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from time import perf_counter

Work = Callable[[], object]
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Timed:
    """The times of several works, by round.

    Attributes:
        seconds: By the work's name, a time for each round.
    """

    seconds: Mapping[str, list[float]]

    def median(self, name: str) -> float:
        """Return the median time of one work, seconds."""
        return median(self.seconds[name])

    def ratio(self, name: str, beside: str) -> float:
        """Return the median, over the rounds, of how many times longer one takes."""
        pairs = zip(self.seconds[name], self.seconds[beside], strict=True)
        return median(one / other for one, other in pairs)


def in_turns(works: Mapping[str, Work], rounds: int, *, clock: Clock = perf_counter) -> Timed:
    """Do each work once a round, and return the times; one round before them isn't counted.

    Args:
        works: What to do, by name.
        rounds: How often.
        clock: `process_time` where the processor is all that a work waits for.
    """
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for number in range(rounds + 1):
        for name, work in works.items():
            gc.collect()
            began = clock()
            work()
            took = clock() - began
            if number:
                seconds[name].append(took)
    return Timed(seconds)


def one_by_one(works: Mapping[str, Callable[[int], object]], times: int) -> Timed:
    """Do short works in turns, call by call, and return the time of each call.

    Args:
        works: Given the number of the call, 0 first.
        times: Calls of each.
    """
    seconds: dict[str, list[float]] = {name: [] for name in works}
    gc.collect()
    for number in range(times):
        for name, work in works.items():
            began = perf_counter()
            work(number)
            seconds[name].append(perf_counter() - began)
    return Timed(seconds)
