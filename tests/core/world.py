"""A small world for properties: one cluster, one job, and everything that may go wrong between.

It knows what really executes, so that a test can say more than the record does. Chance comes from
the caller: every method that may go several ways is told which.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from dispatch.core.decide import decide, key
from dispatch.core.fold import extend, replay
from dispatch.core.job import Job
from dispatch.core.steps import (
    Hold,
    Lookup,
    Release,
    Requeue,
    Start,
    Step,
    Stop,
)
from dispatch.record.evidence import Discovery, Sighting
from dispatch.record.names import Capability
from tests.core.histories import (
    CALL_BOUND_S,
    NODE_LOSS_WINDOW_S,
    OTHER_DIGEST,
    SAVE_WINDOW_S,
    History,
    t,
)

LIVE = ("pending", "running", "ending")
MAX_ROUNDS = 60


@dataclass
class Thing:
    """One object as it really is."""

    ref: str
    n: int
    a: int
    state: str = "pending"
    held: bool = True
    restarts: int = 0
    cause: str | None = None
    seconds: float = 0.0
    lost_at: float | None = None
    ghost_until: float = -1.0
    ours: bool = True
    visible: bool = True
    undo: Callable[[], None] | None = None
    undo_until: float = -1.0

    def executing(self, now: float) -> bool:
        return self.state in ("running", "ending") or now < self.ghost_until

    def end(self, now: float, state: str, cause: str | None) -> None:
        before = replace(self)

        def undo() -> None:
            self.state, self.cause, self.held = before.state, before.cause, before.held
            self.visible = True

        self.state, self.cause, self.held = state, cause, False
        self.seconds = now
        self.undo, self.undo_until = undo, now + SAVE_WINDOW_S - 10


@dataclass
class World:
    """The history, the cluster, and what is in flight."""

    history: History
    things: dict[str, Thing] = field(default_factory=dict)
    flights: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    named: int = 0
    truly_succeeded: set[str] = field(default_factory=set)
    twice: list[str] = field(default_factory=list)

    @property
    def now(self) -> float:
        return self.history.now

    def fresh(self, prefix: str = "o") -> str:
        self.named += 1
        return f"{prefix}{self.named}"

    # --- time -----------------------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        """Let time pass; what is in flight lands when it is due."""
        end = self.now + seconds
        due = sorted((one for one in self.flights if one[0] <= end), key=lambda one: one[0])
        self.flights = [one for one in self.flights if one[0] > end]
        for at, land in due:
            self.history.at(max(at, self.now))
            land()
            self.check()
        self.history.at(end)
        self.check()

    def check(self) -> None:
        """I1: at most one run of the job's own executes."""
        running = [x.ref for x in self.things.values() if x.ours and x.executing(self.now)]
        if len(running) > 1:
            self.twice.append(f"{self.now}: {running}")

    # --- the scheduler's side -------------------------------------------------------------

    def looks(self, complete: bool) -> Discovery:
        shown = [self._sight(x) for x in self.things.values() if x.visible]
        if not complete:
            shown = shown[::2]
        return self.history.sees(*shown, complete=complete, seen=self.now + 1)

    def _sight(self, x: Thing) -> Sighting:
        fields = {} if x.ours else {"spec_digest": OTHER_DIGEST}
        return self.history.sight(
            x.ref,
            x.state,
            n=x.n,
            a=x.a,
            held=x.held and x.state == "pending",
            restarts=x.restarts,
            cause=x.cause,
            lost_at=x.lost_at,
            ended_at=x.seconds if x.state not in LIVE else None,
            **fields,
        )

    def progress(self) -> None:
        """What waits and may run, runs."""
        for x in self.things.values():
            if x.state == "pending" and not x.held:
                x.state, x.cause = "running", None
        self.check()

    def end(self, state: str, cause: str | None) -> None:
        for x in self.things.values():
            if x.ours and x.state == "running":
                x.end(self.now, state, cause)
                if state == "succeeded":
                    self.truly_succeeded.add(x.ref)

    def lose_node(self) -> None:
        """The word is that the node is lost; the process lives on for a while."""
        for x in self.things.values():
            if x.ours and x.state == "running":
                x.end(self.now, "failed", "node_lost")
                x.undo = None
                x.lost_at = self.now
                x.ghost_until = self.now + NODE_LOSS_WINDOW_S

    def requeue_outside(self) -> None:
        """Somebody runs the newest object again; beside others nothing could prevent two."""
        ours = [x for x in self.things.values() if x.ours]
        newest = ours[-1] if ours else None
        if newest is None or newest.state not in ("running", "failed") or not newest.visible:
            return
        if not any(x.executing(self.now) for x in ours if x is not newest):
            self._again(newest)

    def _again(self, x: Thing, *, held: bool = False) -> None:
        x.state, x.cause, x.lost_at = "pending", None, None
        x.restarts += 1
        x.held, x.undo = held, None

    def undo_ends(self) -> None:
        """The scheduler crashes and forgets its last seconds: fresh ends never were."""
        for x in self.things.values():
            if x.undo is not None and self.now < x.undo_until:
                x.undo()
                x.undo = None
        self.check()

    def purge(self) -> None:
        for x in self.things.values():
            if x.state not in LIVE:
                x.visible = False

    def stranger(self) -> None:
        ref = self.fresh("x")
        self.things[ref] = Thing(ref, 1, 1, state="running", held=False, ours=False)

    def end_strangers(self) -> None:
        for x in self.things.values():
            if not x.ours and x.state in LIVE:
                x.end(self.now, "failed", "stopped")

    # --- calls ----------------------------------------------------------------------------

    def _create(self, n: int, a: int) -> str:
        ref = self.fresh()
        gated = Capability.GATED_START in self.history.header.declarations.capabilities
        self.things[ref] = Thing(ref, n, a, held=gated)
        return ref

    def start(self, step: Start, way: str) -> None:
        n, a = step.fact.n, step.fact.a
        match way:
            case "answered":
                ref = self._create(n, a)
                self.offer(lambda h: h.replied(n, a, ref))
            case "reply lost":
                self._create(n, a)
            case "late":
                self.flights.append((self.now + CALL_BOUND_S - 1, lambda: self._land(n, a)))
            case "refused":
                self.offer(lambda h: h.refused(n, a))
            case "not sent":
                self.offer(lambda h: h.not_sent(n, a))
            case _:
                pass  # it never arrived

    def _land(self, n: int, a: int) -> None:
        self._create(n, a)

    def offer(self, write: Callable[[History], History]) -> None:
        write(self.history)

    def call(self, step: Hold | Requeue, way: str) -> None:
        x = self.things[step.fact.ref]
        restarts = step.fact.restarts

        def land() -> None:
            if not x.visible or x.restarts != restarts:
                return
            if isinstance(step, Hold):
                if x.state == "pending":
                    x.held = True
                elif x.state == "running":
                    self._again(x, held=True)
            elif x.state in ("running", "failed"):
                self._again(x)

        match way:
            case "answered" | "reply lost":
                land()
            case "late":
                self.flights.append((self.now + CALL_BOUND_S - 1, land))
            case _:
                pass

    def repeatable(self, step: Step, way: str, look: Discovery) -> Discovery:
        if isinstance(step, Lookup):
            names = [*step.refs, *(f"{n}.{a}" for n, a in step.attempts)]
            return look.with_lookup((), frozenset(names))
        if way == "never":
            return look
        if isinstance(step, Stop):
            x = self.things[step.ref]
            if x.state in LIVE:
                x.end(self.now, "failed", "stopped")
        elif isinstance(step, Release):
            self.things[step.ref].held = False
        return look

    # --- a pass ---------------------------------------------------------------------------

    def job(self) -> Job:
        return replay(self.history.header, self.history.entries)

    def supervise(self, complete: bool, way: str) -> Job:
        """One pass of a supervisor on one look; every fact it commits must fold."""
        look = self.looks(complete)
        made: frozenset[tuple[str, ...]] = frozenset()
        job = self.job()
        for _ in range(MAX_ROUNDS):
            decision = decide(job, look, t(self.now), by="s1", made=made)
            if decision.idle:
                return job
            assert extend(job, decision.facts) == decision.after
            self.history.add(*decision.facts)
            for step in decision.repeatable:
                look = self.repeatable(step, way, look)
            made |= {key(step) for step in decision.repeatable}
            if isinstance(decision.once, Start):
                self.start(decision.once, way)
            elif decision.once is not None:
                self.call(decision.once, way)
            job = self.job()
        raise AssertionError("a pass came to no end")
