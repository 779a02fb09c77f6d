"""What can go wrong with one call, and how often it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from simulator.chance import Chance


class Fault(StrEnum):
    """What happens to one input or output."""

    CRASH_BEFORE = "crashed before it"
    CRASH_AFTER = "crashed right after it took effect"
    CRASH_LATE = "crashed; it takes effect later"
    UNAVAILABLE = "no answer, and nothing was done"
    REFUSED = "refused"
    CONFLICT = "a conflict, for no visible reason"
    LOST = "it took effect, and its reply was lost"
    NEVER = "it never arrived, and nobody knows"
    LATE = "time-out; it takes effect later, within its bound"
    BEYOND = "time-out; it takes effect long after its bound"
    PART = "a part of the answer was lost"
    SLOW = "a slow reply"
    FROZEN = "the process froze for a quarter of an hour, then went on"
    TWICE = "it was delivered twice"


Menu = Sequence[tuple[float, Fault]]

_QUESTION: Menu = (
    (3, Fault.CRASH_BEFORE),
    (2, Fault.CRASH_AFTER),
    (4, Fault.UNAVAILABLE),
    (4, Fault.SLOW),
    (0.4, Fault.FROZEN),
)
_CALL: Menu = (
    (3, Fault.CRASH_BEFORE),
    (3, Fault.CRASH_AFTER),
    (2, Fault.CRASH_LATE),
    (3, Fault.LOST),
    (3, Fault.NEVER),
    (4, Fault.LATE),
    (2, Fault.REFUSED),
    (2, Fault.SLOW),
    (0.4, Fault.FROZEN),
)

MENUS: Mapping[str, Menu] = {
    "read": _QUESTION,
    "glance": _QUESTION,
    "lookup": _QUESTION,
    "find": (*_QUESTION, (5, Fault.PART)),
    "commit": (
        (3, Fault.CRASH_BEFORE),
        (3, Fault.CRASH_AFTER),
        (2, Fault.UNAVAILABLE),
        (2, Fault.CONFLICT),
        (3, Fault.LOST),
        (2, Fault.NEVER),
        (2, Fault.LATE),
        (2, Fault.SLOW),
        (0.4, Fault.FROZEN),
    ),
    "start": (
        *(one for one in _CALL if one[1] is not Fault.REFUSED),
        (1, Fault.UNAVAILABLE),
        (1.5, Fault.BEYOND),
    ),
    "stop": _CALL,
    "hold": _CALL,
    "release": _CALL,
    "requeue": _CALL,
}
"""By call: what can go wrong with it, each with its weight."""


TWICE = frozenset({"commit", "start", "stop", "release"})
"""The calls that may be delivered twice. A Start only where starts are gated."""

TWICE_OFTEN = 0.15
"""How often a call is delivered twice, measured by how often one goes wrong."""

_FOCUSED = frozenset({"start", "hold", "requeue", "commit"})


class Faults:
    """Draws faults by chance until they are told to stop.

    Attributes:
        until: The true time from which on nothing goes wrong any more.
        drawn: How often each fault was drawn.
        on_draw: Told when a call that is made once goes wrong.
    """

    __slots__ = ("_chance", "_menus", "_rate", "_twice", "drawn", "on_draw", "until")

    def __init__(
        self, chance: Chance, rate: float, until: float, twice: Chance | None = None
    ) -> None:
        self._chance = chance
        self._twice = twice
        self._rate = rate
        self._menus: Mapping[str, Menu] = MENUS
        self.until = until
        self.drawn: dict[Fault, int] = {}
        self.on_draw: Callable[[], None] = lambda: None

    def narrow(self) -> None:
        """Let only a few calls go wrong, in only a few ways: rare meetings become likely."""
        calls = [call for call in MENUS if self._chance.hits(0.4)]
        kinds = {one for one in Fault if one is not Fault.TWICE and self._chance.hits(0.3)}
        narrow = {call: tuple(one for one in MENUS[call] if one[1] in kinds) for call in calls}
        self._menus = {call: menu for call, menu in narrow.items() if menu}

    def only(self, calls: frozenset[str]) -> None:
        """Let only these calls go wrong, in every way."""
        self._menus = {call: MENUS[call] for call in MENUS if call in calls}

    def draw(self, call: str, now: float) -> Fault | None:
        """Return what goes wrong with this call; most often nothing."""
        if now >= self.until:
            return None
        if self._chance.hits_under() >= self._rate:
            return self._delivered_twice(call)
        menu = self._menus.get(call)
        if menu is None:
            return None
        fault = self._chance.weighted(menu)
        self.drawn[fault] = self.drawn.get(fault, 0) + 1
        if call in _FOCUSED:
            self.on_draw()
        return fault

    def _delivered_twice(self, call: str) -> Fault | None:
        if self._twice is None or call not in TWICE:
            return None
        return Fault.TWICE if self._twice.hits(self._rate * TWICE_OFTEN) else None


class NoFaults(Faults):
    """Nothing goes wrong."""

    def __init__(self) -> None:
        super().__init__(Chance(0), 0.0, -1.0)
