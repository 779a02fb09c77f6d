"""What every simulated cluster offers to its adapter, and the adapter itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Protocol, TypeVar

from dispatch.errors import CallRefused, CallUnknown, HitOther, SchedulerUnavailable, Unsupported
from dispatch.record.evidence import Doubt, Found, Glance, Sighting
from dispatch.record.header import Declarations, Spec
from dispatch.record.names import Capability
from dispatch.schedulers.scheduler import (
    CheckLine,
    LookedUp,
    Output,
    Sent,
    Started,
    StartOrder,
    StartRefused,
    Tag,
    Target,
)
from simulator.stage import instant
from simulator.wire import Wire

_Answer = TypeVar("_Answer")


class Cluster(Protocol):
    """A simulated cluster, below its adapter: what lands on it and what it shows."""

    declared: Declarations
    identity: str
    raised_at: dict[str, float]
    stuck: set[str]
    began: float | None

    def is_down(self) -> bool:
        """Return whether it answers nothing now."""
        ...

    def show(self) -> dict[str, tuple[Sighting, ...]]:
        """Return what a whole list shows now, by job."""
        ...

    def tokens(self) -> dict[str, str]:
        """Return what a glance shows of live objects."""
        ...

    def tag_of(self, ref: str) -> Tag | None:
        """Return the tag that the id in a ref leads to now, or None where it leads nowhere."""
        ...

    def is_there(self, ref: str) -> bool:
        """Return whether the id in a ref leads to this very object."""
        ...

    def is_run(self, ref: str, restarts: int) -> bool:
        """Return whether an object is in its run with so many restarts."""
        ...

    def start(self, order: StartOrder, decided_at: float) -> Started | StartRefused:
        """Create an object."""
        ...

    def stop(self, ref: str) -> None:
        """End an object."""
        ...

    def hold(self, ref: str) -> None:
        """Hold an object."""
        ...

    def release(self, ref: str, decided_at: float) -> None:
        """Lift our hold or the gate."""
        ...

    def requeue(self, ref: str, restarts: int, decided_at: float) -> None:
        """Run an object again; only some clusters can be told which of its runs is meant."""
        ...

    def acknowledge(self, ref: str) -> None:
        """Let go of an ended object's evidence."""
        ...

    def known_before(self, ref: str, when: float) -> bool:
        """Return whether accounting knew of an object's end before a true time."""
        ...

    def account(self, ref: str) -> Sighting | None:
        """Return how accounting says that an object ended."""
        ...

    def accounted_attempt(self, tag: Tag) -> Sighting | None:
        """Return how accounting says that an attempt's object ended."""
        ...


class SimScheduler:
    """The adapter of a simulated cluster, on one actor's wire; keeps every promise of the contract.

    Attributes:
        actor: Whose adapter it is.
        declared: What it declares, by its own configuration.
        watch: Told of each call right before it is sent.
        found: Told of each Find that was answered.
        lying: Whether lists are empty now, and say that they are whole.
        unreadable: The jobs whose objects can't be read now, each with why.
    """

    def __init__(self, cluster: Cluster, wire: Wire) -> None:
        self._cluster = cluster
        self._wire = wire
        self.actor = wire.actor
        self.declared = cluster.declared
        self.lying: Callable[[], bool] = lambda: False
        self.unreadable: Callable[[], Mapping[str, Doubt]] = dict
        self.watch: Callable[[str, object], None] = lambda call, what: None
        self.found: Callable[[Found], None] = lambda found: None

    def declare(self) -> Declarations:
        """Return the cluster's declarations (see `Scheduler`)."""
        return self.declared

    def check(self) -> Sequence[CheckLine]:
        """Try to reach the cluster (see `Scheduler`)."""
        try:
            self.glance()
        except SchedulerUnavailable as error:
            return [CheckLine("reach", ok=False, detail=str(error))]
        return [CheckLine("reach", ok=True, detail=f"{self._cluster.identity} answers")]

    def lint(self, spec: Spec) -> Sequence[str]:
        """Return what the cluster would refuse (see `Scheduler`)."""
        if spec.queue == "nowhere":
            return ["queue: there is no queue 'nowhere'"]
        return []

    def glance(self) -> Glance:
        """Return a token for each live object (see `Scheduler`)."""
        taken = self._wire.clock()
        tokens = self._wire.question("glance", lambda _: self._up(self._cluster.tokens))
        return Glance(
            self._cluster.declared.cluster,
            self._cluster.identity,
            taken,
            self._wire.clock(),
            tokens,
        )

    def find(self) -> Found:
        """Return everything the cluster shows (see `Scheduler`)."""
        actor = self._wire.actor
        began, taken = actor.stage.now, self._wire.clock()
        by_job, error = self._wire.question("find", self._list)
        doubts = {job: (why,) for job, why in self.unreadable().items()}
        found = Found(
            cluster=self._cluster.declared.cluster,
            identity=self._cluster.identity,
            taken_at=taken,
            seen_at=self._wire.clock(),
            complete=error is None,
            by_job={job: seen for job, seen in by_job.items() if job not in doubts},
            error=error,
            doubts=doubts,
        )
        actor.find_began = began
        self.found(found)
        return found

    def _list(self, cut: bool) -> tuple[Mapping[str, tuple[Sighting, ...]], str | None]:
        shown = self._up(self._cluster.show)
        if not cut:
            return shown, None
        chance = self._wire.chance
        part = {job: tuple(s for s in seen if chance.hits(0.5)) for job, seen in shown.items()}
        return part, "a page of the list was lost"

    def _up(self, ask: Callable[[], dict[str, _Answer]]) -> dict[str, _Answer]:
        if self._cluster.is_down():
            self.actor.stage.counts["a question to a controller that is down"] += 1
            raise SchedulerUnavailable("it is down")
        if self.lying():
            self.actor.stage.counts["a whole list is empty, and wrong"] += 1
            return {}
        return ask()

    def start(self, order: StartOrder) -> Started | StartRefused:
        """Create the object (see `Scheduler`)."""
        self.watch("start", order)
        decided = self._wire.actor.find_began

        def land() -> Started | StartRefused:
            if self._cluster.is_down():
                raise CallUnknown("it is down")
            return self._cluster.start(order, decided)

        name = f"{order.tag.job} {order.tag.n}.{order.tag.a}"
        return self._wire.call("start", name, land)

    def stop(self, target: Target) -> None:
        """Ask for the end of an object (see `Scheduler`)."""
        self.watch("stop", target)
        self._on("stop", target, lambda: self._cluster.stop(target.ref))

    def hold(self, target: Target) -> None:
        """Ask that an object doesn't run (see `Scheduler`)."""
        self._declared(Capability.HOLD_PENDING)
        self.watch("hold", target)
        self._on("hold", target, lambda: self._cluster.hold(target.ref))

    def release(self, target: Target) -> None:
        """Lift our hold or the gate (see `Scheduler`)."""
        declared = self._cluster.declared
        if not declared.can(Capability.GATED_START):
            self._declared(Capability.HOLD_PENDING)
        self.watch("release", target)
        self._forgot_no_run(target)
        decided = self._wire.actor.find_began
        self._on("release", target, lambda: self._cluster.release(target.ref, decided))

    def _forgot_no_run(self, target: Target) -> None:
        """Refuse to open a gate again while a run may execute that a crash let be forgotten."""
        began = self._cluster.began
        if began is None or target.released_at is None:
            return
        declared, at = self._cluster.declared, instant(began)
        skew = timedelta(seconds=declared.clock_skew_s)
        over = at + timedelta(seconds=declared.node_loss_window_s) + skew
        if at + skew >= target.released_at and self._wire.clock() < over:
            raise CallRefused("release: it began anew since the gate was first opened")

    def requeue(self, target: Target) -> None:
        """Ask that an object runs again (see `Scheduler`)."""
        self._declared(Capability.REQUEUE_LIVE)
        self.watch("requeue", target)
        if not self._cluster.is_run(target.ref, target.restarts):
            raise CallRefused("requeue: another run than the one that was meant")
        decided = self._wire.actor.find_began
        self._on(
            "requeue",
            target,
            lambda: self._cluster.requeue(target.ref, target.restarts, decided),
        )

    def _declared(self, capability: Capability) -> None:
        if not self._cluster.declared.can(capability):
            raise Unsupported(f"{capability} isn't declared")

    def _on(self, call: str, target: Target, effect: Callable[[], None]) -> None:
        """Send a call on one object: its tag is looked at first, and read back after it."""
        self._same_tag(target)
        if not self._cluster.is_there(target.ref):
            if call == "stop":
                return
            raise CallRefused(f"{call}: {target.ref} isn't there")

        def land() -> None:
            if self._cluster.is_down():
                raise CallUnknown("it is down")
            effect()

        self._wire.call(call, target.ref, land)
        self._same_tag(target)

    def _same_tag(self, target: Target) -> None:
        tag = self._cluster.tag_of(target.ref)
        if tag is not None and tag != target.tag:
            self.actor.stage.counts["a call's id leads to another object"] += 1
            raise HitOther(f"{target.ref} leads to {tag.job} {tag.n}.{tag.a}")

    def lookup(self, targets: Sequence[Target], attempts: Sequence[Sent]) -> LookedUp:
        """Ask accounting (see `Scheduler`)."""
        self._declared(Capability.LOOKUP)

        def answer(_: bool) -> LookedUp:
            if self._cluster.is_down():
                raise SchedulerUnavailable("accounting doesn't answer")
            known: dict[str, Sighting] = {}
            unknown: set[str] = set()
            for target in targets:
                sighting = self._cluster.account(target.ref)
                if sighting is None:
                    unknown.add(target.ref)
                else:
                    known[sighting.ref] = sighting
            for tag in (sent.tag for sent in attempts):
                sighting = self._cluster.accounted_attempt(tag)
                if sighting is None:
                    unknown.add(f"{tag.n}.{tag.a}")
                else:
                    known[sighting.ref] = sighting
            return LookedUp(tuple(known.values()), frozenset(unknown))

        return self._wire.question("lookup", answer)

    def output(self, target: Target, *, offset: int, limit: int) -> Output:
        """Return a piece of the output (see `Scheduler`)."""
        raise Unsupported("output isn't declared")
