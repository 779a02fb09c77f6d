"""One run: a scenario played from its beginning until every job is settled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import dispatch.supervisor.sweep as sweeping
from dispatch.clusters import NO_BRAKES, Brakes
from dispatch.errors import SchedulerUnavailable
from dispatch.operator import Operator, Submit
from dispatch.record.evidence import Discovery
from dispatch.record.header import Plan
from dispatch.record.names import ENDED_STATES, Capability, Cause
from dispatch.schedulers.scheduler import Tag
from dispatch.store.memory import MemoryRecords
from dispatch.supervisor.belief import MASS_LOSS_LEAST
from dispatch.supervisor.loop import Passed, Supervisor
from dispatch.supervisor.sweep import Beat, Sweeper
from simulator.chance import Chance
from simulator.elsewhere import other_configuration, submit_again
from simulator.faults import Faults
from simulator.lies import Lies
from simulator.memo import Memo, remembered
from simulator.person import Person
from simulator.scenario import (
    REQUEST_S,
    SHAPES,
    SPEC,
    Happening,
    Scenario,
    Shape,
    happening,
    leaning,
)
from simulator.stage import Actor, Crashed, Stage
from simulator.store import Dialect, FaultyStore
from simulator.watch import Watch
from simulator.wire import FROZEN_S, Wire
from simulator.worlds.cluster import SimScheduler
from simulator.worlds.ground import Fate, Ground
from simulator.worlds.kinds import WORLDS, adapter
from simulator.worlds.kubernetes import KubernetesWorld
from simulator.worlds.rows import LIVE, Event, Traits
from simulator.worlds.slurm import SlurmWorld

PASSES_TO_STOP = 4
"""What others raise after a job was settled is stopped within so many passes (I5)."""

LIMIT_S = 6_000.0
"""Once nothing goes wrong any more, every job settles within so many seconds (L1)."""

CLUSTER_WIDE = frozenset({Event.CRASH, Event.STRANGER, Event.FOREIGN})
"""What befalls a cluster, and not one object."""


class Run:
    """A scenario on its stage.

    Attributes:
        scenario: What the seed decided beforehand.
        stage: The clock, and the story if it is told.
        watch: Who judges.
        records: The records.
        jobs: The jobs, by id.
        again: Chance that is apart, so that what it decides leaves the rest of a seed as it was.
        lies: Whole lists that are wrong.
    """

    def __init__(
        self,
        seed: int,
        shape: Shape,
        *,
        tell: bool = False,
        halt_at: int | None = None,
        plan: Plan | None = None,
        scenario: Scenario | None = None,
        chance: Chance | None = None,
    ) -> None:
        self.chance = chance or Chance(f"{shape}/{seed}")
        self.scenario = scenario or leaning(
            SHAPES[shape](self.chance), Chance(f"{shape}/{seed}/leans")
        )
        if plan is not None:
            self.scenario = replace(self.scenario, plan=plan)
        self.stage = Stage(tell=tell, halt_at=halt_at)
        self.faults = Faults(
            self.chance,
            self.scenario.fault_rate,
            self.scenario.calm_at,
            Chance(f"{shape}/{seed}/twice"),
        )
        self.again = Chance(f"{shape}/{seed}/again")
        if self.scenario.narrow:
            self.faults.narrow()
        if self.scenario.faulted:
            self.faults.only(self.scenario.faulted)
        self.ground = Ground(self.stage, self.chance, self._fate)
        self.world = self._world()
        self._token = 0
        self.records = MemoryRecords(self._next_token)
        self.memo = Memo()
        self.watch = Watch(self.stage, self.records, self.memo, self.ground, self.world)
        self._watched = watched(self.watch)
        self.jobs: list[str] = []
        self.person = Person(self)
        self._over_at: float | None = None
        self._supervisors: list[Actor] = []
        self.lies = Lies(self)
        self._listen()

    def _listen(self) -> None:
        self.ground.on_begin = self.watch.begins
        self.faults.on_draw = self.focus
        self.watch.on_call = self.focus
        self.watch.on_news = self._after_news
        self.world.on_end = self._after_an_end

    def _next_token(self) -> str:
        self._token += 1
        return str(self._token)

    def _world(self) -> SlurmWorld | KubernetesWorld:
        scenario = self.scenario
        traits = Traits(
            declared=scenario.declared,
            save_lag_s=scenario.save_lag_s,
            queue_s=scenario.queue_s,
            clock_offset_s=scenario.clock_offset_s,
            start_refusal=scenario.start_refusal,
            requeues=scenario.requeued_by_site,
            requeue_guarded=scenario.requeue_guarded,
            keeps_evidence=scenario.keeps_evidence,
            causes_vanish=scenario.causes_vanish,
            counts_resumes=scenario.counts_resumes,
        )
        return WORLDS[scenario.shape](self.stage, self.chance, self.ground, traits)

    def _fate(self, tag: Tag, restarts: int) -> Fate:
        after = self.chance.span(2, self.scenario.lasting_s)
        if self.stage.now >= self.scenario.calm_at or not self.chance.hits(self.scenario.failing):
            return Fate(after)
        cause = self.chance.pick((Cause.APP_ERROR, Cause.OUT_OF_MEMORY, Cause.TIMEOUT))
        return Fate(after, cause, 1 if cause is Cause.APP_ERROR else None)

    # --- those who act ------------------------------------------------------------------------

    def wire(self, actor: Actor, faults: Faults) -> Wire:
        """Return an actor's line to the world."""
        declared = self.scenario.declared
        return Wire(
            actor,
            faults,
            self.chance,
            self.watch.flights,
            timeout_s=REQUEST_S,
            landing_s=declared.landing_bound_s,
            unbounded=declared.can(Capability.GATED_START),
        )

    def store(self, wire: Wire, dialect: Dialect = Dialect.OWN) -> FaultyStore:
        """Return an actor's way to the records."""
        store = FaultyStore(self.records, wire, dialect)
        store.landed = partial(self.watch.landed, wire.actor)
        store.owned = partial(self.watch.owned, wire.actor)
        return store

    def scheduler(self, wire: Wire) -> SimScheduler:
        """Return an actor's adapter."""
        scheduler = adapter(self.world, wire)
        scheduler.lying = self.lies.are_told
        scheduler.watch = partial(self.watch.called, wire.actor)
        scheduler.found = partial(self.watch.found, wire.actor)
        return scheduler

    def _supervisor(self, number: int, offset: float) -> None:
        scenario = self.scenario
        name = f"supervisor-{1 if scenario.doubled else number}"
        actor = Actor(self.stage, name, offset=offset, pace=scenario.pace_s)
        self._supervisors.append(actor)
        wire = self.wire(actor, self.faults)
        dialects = scenario.dialects
        dialect = dialects[(number - 1) % len(dialects)]
        store = self.store(wire, dialect)
        scheduler = self.scheduler(wire)
        if number > 1:
            scheduler.declared = other_configuration(scenario.declared)
        cluster = scenario.declared.cluster
        beat = Beat(evidence_every_s=scenario.beat_s)

        def look() -> None:
            brakes = NO_BRAKES
            if self.stage.now < scenario.paused_until_s:
                brakes = Brakes(paused="maintenance")
            said = (store, scheduler, actor.clock, actor.name, partial(self._time_left, actor))
            if scenario.sweeping:
                swept = Sweeper(*said, beat, brakes, dialect.value).sweep(cluster)
                self.stage.counts["a mass loss isn't believed"] += swept.mass_loss is not None
                return
            supervisor = self._watched(*said, brakes)
            for job_id in self.jobs:
                try:
                    found = scheduler.find()
                except SchedulerUnavailable:
                    continue
                supervisor.supervise(job_id, found.discovery(job_id))

        def body() -> None:
            while True:
                try:
                    look()
                    actor.park(scenario.tick_s * self.chance.span(0.7, 1.3))
                except Crashed:
                    actor.tell("is started again")
                    actor.park(self.chance.span(1, 40))

        self.stage.spawn(actor, body, self.chance.span(0, scenario.tick_s))

    def _time_left(self, actor: Actor) -> float:
        if self.stage.now < self.scenario.calm_at and self.chance.hits(self.scenario.hurry):
            self.stage.counts["a process has hardly any time left"] += 1
            return self.chance.span(0, 15)
        return 600.0

    # --- what befalls -------------------------------------------------------------------------

    def focus(self) -> None:
        """Let something befall right now, where it hurts most."""
        if self.stage.now >= self.scenario.calm_at or not self.chance.hits(self.scenario.focus):
            return
        after = self.chance.span(0.05, 15)
        if self.chance.hits(0.4):
            self.person.soon(after)
        else:
            one = happening(self.chance, self.scenario.events, 0.0, self.scenario.save_lag_s)
            self.stage.after(after, partial(self._befall, one))

    def _after_news(self) -> None:
        """Let the controller forget what was just seen."""
        scenario, now = self.scenario, self.stage.now
        if now < scenario.calm_at and scenario.save_lag_s and self.chance.hits(scenario.focus):
            event = Happening(0.0, Event.CRASH, scenario.save_lag_s)
            self.stage.after(self.chance.span(0, scenario.save_lag_s), partial(self._befall, event))

    def _after_an_end(self) -> None:
        """Let the controller crash right after an end, or somebody start again what has ended."""
        scenario = self.scenario
        if self.stage.now >= scenario.calm_at or not self.chance.hits(scenario.focus):
            return
        if scenario.save_lag_s and self.chance.hits(0.7):
            lost = self.chance.span(0, scenario.save_lag_s)
            event = Happening(0.0, Event.CRASH, lost)
            self.stage.after(self.chance.span(0, lost), partial(self._befall, event))
        else:
            event = Happening(0.0, Event.REQUEUE, 0.0)
            self.stage.after(self.chance.span(0, 60), partial(self._befall, event))

    def _befall(self, one: Happening) -> None:
        world = self.world
        if self.stage.now >= self.scenario.calm_at:
            return
        if one.event in CLUSTER_WIDE:
            self.stage.counts[one.event.value] += 1
        match one.event:
            case Event.CRASH:
                world.crash(one.seconds, self.chance.span(1, 20))
            case Event.RESTORE if isinstance(world, KubernetesWorld):
                self._restore(world, one.seconds * 5)
            case Event.RESTORE:
                pass
            case Event.STRANGER:
                world.stranger()
            case Event.FOREIGN:
                self._foreign()
            case Event.LIE:
                self.lies.tell(one.seconds)
            case _:
                rows = [row for row in world.rows.values() if row.tag.job in self.jobs]
                if one.event is not Event.REQUEUE:
                    rows = [row for row in rows if row.state in LIVE]
                if rows:
                    row = self.chance.pick(rows)
                    self.stage.tell("(outside)", f"{row.ref}: {one.event}")
                    cut = self._cut
                    world.befall(one.event, row.ref, one.seconds)
                    if world.rows.get(row.ref) is not row or self._cut != cut:
                        ended = ", after its end" if row.state in ENDED_STATES else ""
                        self.stage.counts[one.event.value + ended] += 1

    @property
    def _cut(self) -> int:
        """How many processes live on nodes that can't be reached."""
        return sum(process.cut for process in self.ground.living.values())

    def _restore(self, world: KubernetesWorld, lost_s: float) -> None:
        """Let it be another cluster, until a person says that what is lost is lost.

        Only a sweep compares the cluster's identity with the one that it knew.
        """
        if self.scenario.sweeping:
            self.stage.counts[Event.RESTORE.value] += 1
            began = self.stage.now
            world.restore(lost_s, self.chance.span(1, 20))
            self.stage.after(self.chance.span(20, 120), lambda: self._believed(began))

    def _believed(self, restored: float) -> None:
        """Let a person accept the restored cluster: what it raised is looked at only from then."""
        self.person.accept_a_loss()
        for ref, raised in self.world.raised_at.items():
            if raised >= restored:
                self.world.raised_at[ref] = self.stage.now

    def _foreign(self) -> None:
        job_id = self.chance.pick(self.jobs)
        job = self.watch.job(job_id)
        digest = self.chance.pick((job.header.spec_digest, "f" * 64))
        tag = Tag(job_id, 7, self.chance.count(1, 3), digest, 0)
        if self.scenario.shape is not Shape.SLURM and self.chance.hits(0.6):
            # It has the name that the next Start would take.
            latest = job.latest
            n, a = (1, 1) if latest is None else (latest.n, latest.last_a + 1)
            tag = Tag(job_id, n, a, "f" * 64, 0)
        row = self.world.add(tag, foreign=True)
        self.watch.foreign_since[row.ref] = self.stage.now
        self.stage.tell("(outside)", f"{row.ref} appears, of another copy of the record")

    # --- the run ------------------------------------------------------------------------------

    def play(self) -> None:
        """Play it.

        Raises:
            Violation: A rule was broken.
            Halted: It came to the step at which it was to stop.
        """
        with self.judged():
            self._play()

    @contextmanager
    def judged(self) -> Iterator[None]:
        """Let every pass be judged, and every history be folded once."""
        names = vars(sweeping)
        before, names["Supervisor"] = names["Supervisor"], self._watched
        try:
            with remembered(self.memo):
                yield
        finally:
            names["Supervisor"] = before

    def _play(self) -> None:
        scenario, stage = self.scenario, self.stage
        for number in range(1, scenario.jobs + 1):
            self._submit(number)
        for number, offset in enumerate(scenario.offsets, start=1):
            self._supervisor(number, offset)
        self.person.begin()
        submit_again(self, self.again)
        if scenario.jobs >= MASS_LOSS_LEAST and self.again.hits(0.8):
            self.stage.at(self.again.span(5, scenario.calm_at), self.lies.once_they_matter)
        if scenario.doubled and len(scenario.offsets) > 1:
            self.stage.counts["the same tick comes twice"] += 1
        if len({round(offset, 1) for offset in (*scenario.offsets, scenario.clock_offset_s)}) > 1:
            self.stage.counts["clocks differ"] += 1
        for one in scenario.happenings:
            stage.at(one.at, partial(self._befall, one))
        stage.at(scenario.calm_at, self._calm)
        stage.run(scenario.calm_at + LIMIT_S, self._done)
        for job_id in self.jobs:
            if job_id not in self.watch.settled:
                job = self.watch.job(job_id)
                self.watch.fail("L1", f"{job_id} isn't settled: {self.person.why_not(job)}")
            self.watch.finished(job_id)
        self.watch.nothing_left(self.jobs, self._passes_s)

    def _calm(self) -> None:
        self.stage.tell("(outside)", "nothing goes wrong any more")
        self.world.heal()

    @property
    def _passes_s(self) -> float:
        """How long so many passes take that what was raised is stopped."""
        beat = self.scenario.beat_s if self.scenario.sweeping else 0
        return beat + PASSES_TO_STOP * self.scenario.tick_s * 1.5

    def _done(self) -> bool:
        if len(self.watch.settled) < len(self.jobs) or self.stage.now < self.scenario.calm_at:
            return False
        if self._over_at is None:
            self._raise_again()
            newest = max(self.world.raised_at.values(), default=-1e9)
            frozen = max(one.frozen_until for one in self._supervisors)
            self._over_at = max(newest, min(frozen, newest + FROZEN_S)) + self._passes_s + 30
        if self.stage.now < self._over_at:
            return False
        # Passes that failed don't count: once nothing goes wrong any more there are enough.
        enough = self.stage.now >= self.scenario.calm_at + self._passes_s + 30
        return enough or not any(self.watch.left(self.jobs, self._passes_s))

    def _raise_again(self) -> None:
        """Let somebody run again what has ended, now and then."""
        ended = [ref for job_id in self.jobs for ref in self.world.raisable(job_id)]
        if ended and self.chance.hits(0.25):
            ref = self.chance.pick(ended)
            self.stage.tell("(outside)", f"{ref} is started again although its job is settled")
            self.stage.counts["started again by somebody else, after it was settled"] += 1
            self.world.befall(Event.REQUEUE, ref, 0.0)

    def _submit(self, number: int) -> None:
        actor = Actor(self.stage, "client")
        operator = Operator(self.records, actor.clock, lambda tries: None)
        scenario = self.scenario
        submitted = operator.submit(
            Submit(
                idempotency_key=f"job-{number}",
                spec=SPEC,
                plan=scenario.plan,
                declarations=scenario.declared,
                start_retries=scenario.start_retries,
                unmatched=scenario.unmatched,
            ),
            by="ada",
        )
        self.jobs.append(submitted.job_id)


def watched(watch: Watch) -> type[Supervisor]:
    """Return a supervisor whose passes are judged when they are over."""

    class Watched(Supervisor):
        def supervise(self, job_id: str, discovery: Discovery) -> Passed:
            assert isinstance(self.scheduler, SimScheduler)
            watch.looks(self.scheduler.actor, discovery)
            watch.begins_a_pass(self.scheduler.actor, job_id, self.scheduler.declared)
            try:
                passed = super().supervise(job_id, discovery)
            finally:
                watch.ends_a_pass(self.scheduler.actor)
            watch.passed(self.scheduler.actor, discovery, passed)
            return passed

    return Watched
