"""What Next can ask for. Rows are those of protocol §6; `why` is for people."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from dispatch.record.fact import Attempt, Fact, HoldCall, Released, RequeueCall


@dataclass(frozen=True, slots=True)
class Append:
    """Facts to commit; no call goes with them."""

    row: str
    why: str
    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class Lookup:
    """Ask accounting about objects and attempts; its answer joins the discovery."""

    row: str
    why: str
    refs: tuple[str, ...]
    attempts: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop an object of attempt (n, a); repeatable, so nothing is committed first."""

    row: str
    why: str
    ref: str
    n: int
    a: int


@dataclass(frozen=True, slots=True)
class Alert:
    """Tell a person what can't be written down any more."""

    row: str
    why: str
    ref: str


@dataclass(frozen=True, slots=True)
class Release:
    """Open the gate or lift our hold; repeatable. The first is recorded before it is sent."""

    row: str
    why: str
    ref: str
    fact: Released | None


@dataclass(frozen=True, slots=True)
class Start:
    """Commit the attempt, then send one Start."""

    row: str
    why: str
    fact: Attempt


@dataclass(frozen=True, slots=True)
class Hold:
    """Commit the call, then send one Hold."""

    row: str
    why: str
    fact: HoldCall


@dataclass(frozen=True, slots=True)
class Requeue:
    """Commit the call, then send one Requeue."""

    row: str
    why: str
    fact: RequeueCall


Once = Start | Hold | Requeue
"""Calls that are recorded first and never repeated."""

Repeatable = Stop | Release | Alert | Lookup
"""What may be done again and again without harm."""

Step = Append | Once | Repeatable


class Waiting(NamedTuple):
    """One thing that a job waits for.

    Attributes:
        what: deadline, window, save, back_off, person, capacity, find, stop, lookup, retention.
        detail: A sentence for people.
        until: When it ends by itself, if it does.
    """

    what: str
    detail: str
    until: datetime | None = None


class Next(NamedTuple):
    """The steps that should happen next, first things first, and what is waited for.

    Attributes:
        steps: After an `Append` or a call that is made once, fold again before going on.
        waiting: What the job waits for beside them.
    """

    steps: tuple[Step, ...]
    waiting: tuple[Waiting, ...]

    @property
    def wait_until(self) -> datetime | None:
        """The nearest time at which something may be due by itself."""
        times = [one.until for one in self.waiting if one.until is not None]
        return min(times) if times else None
