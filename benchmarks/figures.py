"""What a benchmark tells: ratios with their aims, and what couldn't be measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Aim:
    """How far a figure may go.

    Attributes:
        bound: The bound itself.
        at_least: Whether the figure must be at least that; else at most.
    """

    bound: float
    at_least: bool = False

    def met(self, value: float) -> bool:
        """Return whether a value meets it."""
        return value >= self.bound if self.at_least else value <= self.bound

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.bound:g}"


def at_most(bound: float) -> Aim:
    """Return the aim of a cost."""
    return Aim(bound)


def at_least(bound: float) -> Aim:
    """Return the aim of a yield."""
    return Aim(bound, at_least=True)


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured ratio.

    Attributes:
        name: What was measured.
        beside: What it is a multiple of.
        value: How many times that.
        aim: How far it may go; None where the figure only informs.
        why: Where it falls short: why, and what would mend it.
        detail: What it was computed from, for the JSON.
    """

    name: str
    beside: str
    value: float
    aim: Aim | None = None
    why: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """Return ok, short, or nothing where there is no aim."""
        if self.aim is None:
            return ""
        return "ok" if self.aim.met(self.value) else "short"


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """A part that couldn't be measured here.

    Attributes:
        name: What.
        because: Why not, and what would make it measurable.
    """

    name: str
    because: str


Told = Figure | Unmeasured

Subject = Callable[["Effort"], list[Told]]
"""Measures one subject."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured.

    Attributes:
        quick: A rough look, in a fraction of the time.
    """

    quick: bool = False

    def of(self, whole: int, quick: int) -> int:
        """Return a number of rounds or of things."""
        return quick if self.quick else whole


class CannotMeasure(Exception):
    """A part isn't here; the message says which, and how to get it."""
