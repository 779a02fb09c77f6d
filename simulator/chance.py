"""Where everything that happens by chance comes from: a seed, or a script of answers."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

_T = TypeVar("_T")


class Chance:
    """Answers every question of a run from one seed, so that the seed reproduces the run."""

    __slots__ = ("_random", "hits_under")

    def __init__(self, seed: int | str) -> None:
        self._random = Random(seed)
        self.hits_under = self._random.random

    def hits(self, probability: float) -> bool:
        """Return True with that probability."""
        return self.hits_under() < probability

    def span(self, least: float, most: float) -> float:
        """Return a number of seconds between two."""
        return least + (most - least) * self.hits_under()

    def pick(self, options: Sequence[_T]) -> _T:
        """Return one of the options, each as likely."""
        return options[int(self.hits_under() * len(options))]

    def weighted(self, options: Sequence[tuple[float, _T]]) -> _T:
        """Return one of the options by weight."""
        total = sum(weight for weight, _ in options)
        mark = self.hits_under() * total
        for weight, option in options:
            mark -= weight
            if mark < 0:
                return option
        return options[-1][1]

    def count(self, least: int, most: int) -> int:
        """Return a whole number, both ends included."""
        return least + int(self.hits_under() * (most - least + 1))
