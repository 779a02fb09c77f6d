"""A clean job and a stormy one, from submit to settled: commits, entries, calls, units, dollars."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from benchmarks.engine import client_of, engine, table_on, token
from benchmarks.figures import Effort, Figure, Told, at_most
from benchmarks.units import Meter
from benchmarks.written import CLUSTER, SPEC, T0, declared
from benchmarks.yard import Yard
from dispatch.core.fold import fold
from dispatch.operator import Operator, Submit
from dispatch.record.header import Plan, Rule
from dispatch.record.names import Action, Cause, IntentKind
from dispatch.store.dynamodb import DynamoRecords
from dispatch.supervisor.sweep import Sweeper

COMMITS_AIM = 6
CALLS_AIM = 2
TICK_S = 60
_LOOKS = 60


@dataclass(slots=True)
class Clock:
    """Goes on by a millisecond whenever it is read, and otherwise when it is told to."""

    now: datetime = T0

    def __call__(self) -> datetime:
        """Return the time."""
        self.now += timedelta(milliseconds=1)
        return self.now


class Play:
    """One job on a simulated cluster, its record in a table whose requests are counted."""

    def __init__(self, endpoint: str) -> None:
        beside = client_of(endpoint)
        table, _ = table_on(beside)
        client = client_of(endpoint)
        self.clock = Clock()
        self.yard = Yard(declared(), self.clock)
        self.meter = Meter(client, beside)
        self.store = DynamoRecords(client, table, token, pause=lambda _: None)
        self.operator = Operator(self.store, self.clock, lambda _: None)
        self.sweeper = Sweeper(self.store, self.yard, self.clock, "supervisor", lambda: 600.0)
        self.ticks = 0
        again = Rule(action=Action.RESUBMIT, limit=10)
        plan = Plan(
            default=Rule(action=Action.HOLD),
            causes={Cause.PREEMPTED: again, Cause.NODE_LOST: again},
        )
        made = self.operator.submit(Submit("key-1", SPEC, plan, declared()), by="ada")
        self.job = made.job_id

    def ticks_until(self, holds: Callable[[], bool], what: str) -> None:
        """Sweep as the clock of a deployment does until something holds."""
        for _ in range(_LOOKS):
            if holds():
                return
            self.sweeper.sweep(CLUSTER)
            self.ticks += 1
            self.clock.now += timedelta(seconds=TICK_S)
        raise AssertionError(f"never: {what}")

    def wish(self, kind: IntentKind) -> None:
        """Record an intent, and look at once, as the stream makes a deployment do."""
        self.operator.intend(self.job, kind, intent_id=f"{kind.value}-1", by="ada")
        self.sweeper.sweep(CLUSTER, [self.job])

    def latest(self) -> str:
        """Return the ref of the newest object."""
        return next(reversed(self.yard.rows))

    def shown(self, state: str, *, held: bool = False) -> bool:
        """Return whether the newest object is in a state."""
        if not self.yard.rows:
            return False
        row = self.yard.rows[self.latest()]
        return (row["state"], row["held"]) == (state, held)

    def runs(self) -> None:
        """Let the newest object run, once its gate is open, and be seen."""
        before = self.latest() if self.yard.rows else ""
        ended = not before or self.yard.rows[before]["state"] in ("failed", "succeeded")
        self.ticks_until(
            lambda: self.shown("pending") and not (ended and self.latest() == before), "released"
        )
        self.yard.becomes(self.latest(), "running")
        self.look()

    def look(self) -> None:
        """Sweep once."""
        self.sweeper.sweep(CLUSTER)
        self.ticks += 1
        self.clock.now += timedelta(seconds=TICK_S)

    def settles(self) -> None:
        """Sweep until the job is settled and off the index."""
        self.ticks_until(lambda: self.store.read(self.job).settled_at is not None, "settled")

    def told(self) -> dict[str, object]:
        """Return what it took."""
        view = self.store.read(self.job)
        fold(view, self.clock.now)
        calls = {name: number for name, number in self.yard.calls.items() if number}
        looks = ("glance", "find")
        return {
            "commits": len({one.token for one in view.entries}),
            "entries": view.revision,
            "calls": {name: number for name, number in calls.items() if name not in looks},
            "shared_looks": {name: calls.get(name, 0) for name in looks},
            "ticks": self.ticks,
        }


def clean(play: Play) -> None:
    """Submit, run, succeed."""
    play.runs()
    play.yard.becomes(play.latest(), "succeeded")
    play.settles()


def stormy(play: Play) -> None:
    """Run through 3 preemptions, a node loss, a hold and its release, and a cancel."""
    for _ in range(3):
        play.runs()
        play.yard.becomes(play.latest(), "failed", cause=Cause.PREEMPTED.value)
        play.look()
    play.runs()
    play.yard.becomes(play.latest(), "failed", cause=Cause.NODE_LOST.value)
    play.look()
    play.ticks_until(lambda: play.shown("pending"), "started again after the node's loss")
    play.wish(IntentKind.HOLD)
    play.look()
    play.wish(IntentKind.RELEASE)
    play.runs()
    play.wish(IntentKind.CANCEL)
    play.settles()


def measure(effort: Effort) -> list[Told]:
    """Return what both jobs took."""
    del effort  # two jobs are two jobs
    with engine() as endpoint:
        calm, storm = Play(endpoint), Play(endpoint)
        clean(calm)
        stormy(storm)
        one, other = calm.told(), storm.told()
        used, spent = calm.meter.taken(), storm.meter.taken()
    one["consumed"], other["consumed"] = used.told(), spent.told()
    calls, storm_calls = _sum(one["calls"]), _sum(other["calls"])
    return [
        Figure(
            "commits of a clean job",
            "one",
            _number(one["commits"]),
            at_most(COMMITS_AIM),
            "each commit stands before a call or after a look: see its entries in the JSON",
            one,
        ),
        Figure("calls of a clean job", "one", calls, at_most(CALLS_AIM), "", one),
        Figure(
            "commits of a stormy job",
            "the clean one's",
            _number(other["commits"]) / _number(one["commits"]),
            detail=other,
        ),
        Figure("calls of a stormy job", "the clean one's", storm_calls / calls, detail=other),
        Figure(
            "a clean job's units at list prices",
            "a cent",
            used.dollars / 0.01,
            detail=one,
        ),
        Figure(
            "a stormy job's units at list prices",
            "the clean one's",
            spent.dollars / used.dollars,
            detail=other,
        ),
    ]


def _number(value: object) -> float:
    assert isinstance(value, int)
    return float(value)


def _sum(value: object) -> float:
    assert isinstance(value, dict)
    return float(sum(value.values()))
