"""An actor's line to the world: every call parks, may meet a fault, and may land late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, TypeVar

from dispatch.errors import CallRefused, CallUnknown, DispatchError, SchedulerUnavailable
from dispatch.schedulers.scheduler import Started
from simulator.chance import Chance
from simulator.faults import Fault, Faults
from simulator.stage import Actor, Crashed

_T = TypeVar("_T")

FROZEN_S = 900.0
"""How long a frozen process stands still, seconds."""

BEYOND_S = 600.0
"""How long after its bound a call may land that breaks it, seconds."""


_BOUNDED = frozenset({"hold", "requeue"})
"""What a frozen process can't send any more: its token has run out (see `docs`)."""


@dataclass(eq=False, slots=True)
class Flight:
    """A call that was sent and hasn't landed.

    Attributes:
        call: start, stop, hold, release or requeue.
        what: The attempt or the object.
        broken: Whether it lands after the declared bound, or once too often.
    """

    call: str
    what: str
    broken: bool


@dataclass(slots=True)
class Flights:
    """The calls on their way, of all actors.

    Attributes:
        under_way: Those that haven't landed.
        late: The refs of the objects that Starts made which landed after their bound.
    """

    under_way: list[Flight] = field(default_factory=list)
    late: set[str] = field(default_factory=set)

    def land(self, flight: Flight, effect: Callable[[], _T]) -> _T:
        """Let a call land, and note what it made if it is late."""
        self.under_way.remove(flight)
        reply = effect()
        if flight.broken and isinstance(reply, Started):
            self.late.add(reply.ref)
        return reply


class Wire:
    """Carries one actor's calls.

    Attributes:
        actor: Whose.
        bound_s: A call that is sent lands, or doesn't, within so many seconds.
        timeout_s: After so many seconds its sender gives up.
        flights: The calls on their way, of all actors.
        resends: Whether the transport sends a Start again after a time-out; only a mutant's does.
        unbounded: Whether a Start may land after its bound: only gated ones may.
    """

    resends: ClassVar[bool] = False

    def __init__(
        self,
        actor: Actor,
        faults: Faults,
        chance: Chance,
        flights: Flights,
        *,
        timeout_s: float,
        landing_s: float,
        unbounded: bool,
    ) -> None:
        self.actor = actor
        self.faults = faults
        self.chance = chance
        self.flights = flights
        self.timeout_s = timeout_s
        self.bound_s = timeout_s + landing_s
        self.unbounded = unbounded

    def clock(self) -> datetime:
        """Return what the actor's clock says."""
        return self.actor.clock()

    def before(self, call: str) -> Fault | None:
        """Park before a call; return what will go wrong with it.

        Raises:
            Crashed: The actor's process is gone before the call was made.
        """
        actor = self.actor
        fault = self.faults.draw(call, actor.stage.now)
        if fault is Fault.BEYOND and not self.unbounded:
            fault = Fault.NEVER
        if fault is Fault.TWICE and call == "start" and not self.unbounded:
            fault = None
        if fault is not None:
            actor.stage.counts[f"{call}: {fault.value}"] += 1
            actor.tell(f"{call}: {fault.value}")
            if fault is Fault.CRASH_BEFORE:
                raise Crashed
            if fault is Fault.FROZEN and call != "start" and self.chance.hits(0.5):
                actor.freeze(FROZEN_S)
                fault = Fault.NEVER if call in _BOUNDED else None
        actor.park(actor.pace * self.chance.hits_under())
        return fault

    def after(self, fault: Fault | None) -> None:
        """Park until the reply has come."""
        if fault is Fault.CRASH_AFTER:
            raise Crashed
        if fault is Fault.SLOW:
            self.actor.park(self.chance.span(1, self.timeout_s - 1))
        elif fault is Fault.FROZEN:
            self.actor.freeze(FROZEN_S)
        else:
            self.actor.park(self.actor.pace * self.chance.hits_under())

    def question(self, call: str, answer: Callable[[bool], _T]) -> _T:
        """Ask something that changes nothing; `answer` is told whether a part gets lost.

        Raises:
            SchedulerUnavailable: There was no answer.
        """
        fault = self.before(call)
        if fault is Fault.UNAVAILABLE:
            self.actor.park(self.timeout_s)
            raise SchedulerUnavailable(f"{call}: no answer")
        got = answer(fault is Fault.PART)
        self.after(fault)
        return got

    def call(self, call: str, what: str, land: Callable[[], _T]) -> _T:
        """Send one call that may change something; `land` is its effect.

        Raises:
            CallUnknown, CallRefused, SchedulerUnavailable: As the scheduler contract says.
        """
        fault = self.before(call)
        match fault:
            case Fault.FROZEN if call == "start" and self.unbounded:
                flight = Flight(call, what, broken=True)
                self.flights.under_way.append(flight)
                self.actor.freeze(FROZEN_S)
                return self.flights.land(flight, land)
            case None | Fault.SLOW | Fault.CRASH_AFTER | Fault.FROZEN if not (
                fault is Fault.FROZEN and call == "start"
            ):
                reply = land()
                self.after(fault)
                return reply
            case Fault.TWICE:
                reply = land()
                again = self.chance.span(0.1, self.bound_s)
                self._later(call, what, land, again, broken=True)
                self.after(None)
                return reply
            case Fault.UNAVAILABLE:
                raise SchedulerUnavailable(f"{call}: it was never sent")
            case Fault.REFUSED if call != "start":
                self.after(None)
                raise CallRefused(f"{call}: the scheduler won't")
            case Fault.LOST:
                self._quietly(land)
            case Fault.LATE | Fault.CRASH_LATE:
                self._later(call, what, land, self.chance.span(0.1, self.bound_s), broken=False)
                if fault is Fault.CRASH_LATE:
                    raise Crashed
            case Fault.BEYOND:
                late = self.bound_s + self.chance.span(1, BEYOND_S)
                self._later(call, what, land, late, broken=True)
            case _:
                pass
        if self.resends and call == "start":
            return land()
        self.actor.park(self.timeout_s)
        raise CallUnknown(f"{call}: no reply in time")

    def _later(
        self, call: str, what: str, land: Callable[[], _T], seconds: float, *, broken: bool
    ) -> None:
        flight = Flight(call, what, broken)
        self.flights.under_way.append(flight)

        def landing() -> None:
            self.actor.stage.tell("(network)", f"{call} {what} of {self.actor.name} lands only now")
            self.actor.stage.counts[f"landed late: {call}"] += 1
            self._quietly(lambda: self.flights.land(flight, land))

        self.actor.stage.after(seconds, landing)

    @staticmethod
    def _quietly(land: Callable[[], object]) -> None:
        try:
            land()
        except DispatchError:
            return
