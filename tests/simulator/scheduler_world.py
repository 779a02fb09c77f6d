"""The simulated clusters as the conformance suite's worlds, over a virtual clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest

from dispatch.record.codec import spec_digest
from dispatch.record.header import Declarations, Spec
from dispatch.record.names import Capability, Cause
from dispatch.schedulers.scheduler import StartOrder, Tag
from simulator.chance import Chance
from simulator.faults import Fault, NoFaults
from simulator.stage import Actor, Stage
from simulator.wire import Flights, Wire
from simulator.worlds.cluster import SimScheduler
from simulator.worlds.ground import Fate, Ground
from simulator.worlds.kubernetes import KubernetesWorld
from simulator.worlds.kubernetes_adapter import KubernetesKeepingScheduler, KubernetesScheduler
from simulator.worlds.rows import Event, Traits
from simulator.worlds.slurm import SlurmWorld
from simulator.worlds.trainjob import TrainJobScheduler, TrainJobWorld
from tests.conformance.scheduler.world import Work

CALLS = ("start", "stop", "hold", "release", "requeue")
QUESTIONS = ("glance", "find", "lookup")
FATES = {
    Work.SUCCEED: Fate(0.5),
    Work.FAIL: Fate(0.5, Cause.APP_ERROR, 3),
    Work.CRASH: Fate(0.5, Cause.APP_ERROR, 134),
    Work.LAST: Fate(1e9),
    Work.HOG: Fate(0.5, Cause.OUT_OF_MEMORY, None),
    Work.OVERRUN: Fate(1.0, Cause.TIMEOUT, None),
}


class Alone(Actor):
    """An actor whose waiting lets everything else happen, without a turn to wait for."""

    def park(self, seconds: float) -> None:
        self.stage.run(self.stage.now + seconds)


class Scripted(NoFaults):
    """The same goes wrong with each call of a name, as long as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.now: dict[str, Fault] = {}

    def draw(self, call: str, now: float) -> Fault | None:
        return self.now.get(call)

    @contextmanager
    def going(self, **wrong: Fault) -> Iterator[None]:
        self.now = dict(wrong)
        try:
            yield
        finally:
            self.now = {}


class SimulatedWorld:
    """A simulated cluster with an adapter that nothing goes wrong with unless it is asked for."""

    def __init__(self, kind: type[SlurmWorld | KubernetesWorld], traits: Traits) -> None:
        self.stage = Stage()
        self.chance = Chance("conformance")
        self.faults = Scripted()
        self.ground = Ground(self.stage, self.chance, self._fate)
        self.cluster = kind(self.stage, self.chance, self.ground, traits)
        self._works: dict[str, Work] = {}
        self._given: dict[Tag, int] = {}
        self.scheduler = self.another()

    def another(self) -> SimScheduler:
        wire = Wire(
            Alone(self.stage, "supervisor", pace=0.02),
            self.faults,
            self.chance,
            Flights(),
            timeout_s=10,
            landing_s=self.cluster.declared.landing_bound_s,
            unbounded=True,
        )
        scheduler = self._adapter(wire)
        scheduler.watch = self._note
        return scheduler

    def _adapter(self, wire: Wire) -> SimScheduler:
        if isinstance(self.cluster, SlurmWorld):
            return SimScheduler(self.cluster, wire)
        if isinstance(self.cluster, TrainJobWorld):
            return TrainJobScheduler(self.cluster, wire)
        if self.cluster.traits.keeps_evidence:
            return KubernetesKeepingScheduler(self.cluster, wire)
        return KubernetesScheduler(self.cluster, wire)

    def _note(self, call: str, what: object) -> None:
        if isinstance(what, StartOrder) and what.adjust is not None:
            self._given[what.tag] = what.adjust.memory_mb_per_node or 0

    def _fate(self, tag: Tag, restarts: int) -> Fate:
        work = self._works.get(tag.spec_digest, Work.LAST)
        if work is Work.HOG and self._given.get(tag, 0) > 1000:
            work = Work.SUCCEED
        return FATES[work]

    def spec(self, work: Work) -> Spec:
        spec = Spec(name="work", command=(work.name.lower(),), memory_mb_per_node=100)
        self._works[spec_digest(spec)] = work
        return spec

    def refused_spec(self) -> tuple[Spec, str]:
        return Spec(name="work", command=("true",), queue="nowhere"), "queue"

    # --- time ---

    def until(self, holds: Callable[[], bool], what: str) -> None:
        for _ in range(2_000):
            if holds():
                return
            self.advance(0.25)
        pytest.fail(f"never: {what}")

    def advance(self, seconds: float) -> None:
        self.stage.run(self.stage.now + seconds)

    # --- the truth ---

    def processes(self, ref: str) -> int:
        return len(self.ground.of(ref))

    def environment(self, ref: str) -> Mapping[str, str]:
        return self.ground.of(ref)[0].environment

    # --- what happens to objects ---

    def preempt(self, ref: str) -> None:
        if isinstance(self.cluster, KubernetesWorld):
            self.cluster.preempt(ref, Cause.PREEMPTED)
        else:
            self.cluster.befall(Event.PREEMPT, ref, 0.0)

    def lose_node(self, ref: str) -> None:
        self.cluster.befall(Event.LOSE_NODE, ref, 0.0)

    def cancel(self, ref: str) -> None:
        if isinstance(self.cluster, KubernetesWorld):
            self.cluster.delete_outside(ref, "background")
        else:
            self.cluster.befall(Event.CANCEL, ref, 0.0)

    def hold(self, ref: str) -> None:
        self.cluster.befall(Event.HOLD, ref, 0.0)

    def forget(self, ref: str) -> None:
        if isinstance(self.cluster, KubernetesWorld):
            self.cluster.purge(self.cluster.rows[ref])
        else:
            self.advance(self.cluster.declared.retention_s)

    def restart(self) -> None:
        self.cluster.crash(self.cluster.traits.save_lag_s, 0.0)

    def alien(self) -> str:
        before = set(self.cluster.rows)
        self.cluster.stranger()
        return (set(self.cluster.rows) - before).pop()

    # --- trouble on the way ---

    @contextmanager
    def replies_lost(self) -> Iterator[None]:
        with self.faults.going(**dict.fromkeys(CALLS, Fault.LOST)):
            yield

    @contextmanager
    def silent(self) -> Iterator[None]:
        wrong = dict.fromkeys(CALLS, Fault.NEVER) | dict.fromkeys(QUESTIONS, Fault.UNAVAILABLE)
        with self.faults.going(**wrong):
            yield

    @contextmanager
    def cut(self) -> Iterator[None]:
        with self.faults.going(find=Fault.PART):
            yield


def declared(adapter: str, *capabilities: Capability) -> Declarations:
    return Declarations(
        adapter=adapter,
        cluster="simulated",
        capabilities=capabilities,
        node_loss_window_s=60,
        call_bound_s=80,
        landing_bound_s=20,
        request_timeout_s=30,
        retention_s=300,
        save_window_s=6,
        clock_skew_s=1,
        lookup_lag_s=10,
    )
