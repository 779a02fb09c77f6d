"""A stage without chance, on which a script says who does what, when, and what goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dispatch.errors import SchedulerUnavailable
from dispatch.operator import Operator
from dispatch.record.evidence import Doubt
from dispatch.record.header import Declarations, Plan, Rule
from dispatch.record.names import Action, Capability, Cause, IntentKind, UnmatchedPolicy
from dispatch.schedulers.scheduler import Tag
from dispatch.supervisor.sweep import Beat, Sweeper
from simulator.chance import Chance
from simulator.elsewhere import other_configuration
from simulator.faults import Fault, Faults
from simulator.run import Run, watched
from simulator.scenario import Scenario, Shape
from simulator.stage import Actor, Crashed
from simulator.store import Dialect
from simulator.wire import Wire
from simulator.worlds.cluster import SimScheduler
from simulator.worlds.ground import Fate
from simulator.worlds.rows import Event

SETTLING_TICKS = 60
"""A story's jobs are settled within so many more ticks (L1)."""


class Plain(Chance):
    """Answers every question with the middle."""

    def __init__(self) -> None:
        super().__init__(0)
        self.hits_under = lambda: 0.5


class Scripted(Faults):
    """Lets go wrong what the script says, and nothing else."""

    def __init__(self) -> None:
        super().__init__(Plain(), 0.0, -1.0)
        self.coming: dict[str, list[Fault | None]] = {}

    def draw(self, call: str, now: float) -> Fault | None:
        """Return the next fault that the script has for this call."""
        due = self.coming.get(call)
        return due.pop(0) if due else None


class _StandingWire(Wire):
    """A line on which an actor can be made to stand still before a call."""

    standing: Callable[[Actor, str], None] = staticmethod(lambda actor, call: None)

    def before(self, call: str) -> Fault | None:
        self.standing(self.actor, call)
        return super().before(call)


def setting(shape: Shape, **changes: object) -> Scenario:
    """Return a scenario in which nothing happens by itself, with changes."""
    capabilities = [Capability.GATED_START, Capability.HOLD_PENDING, Capability.EXIT_CODES]
    if shape is Shape.SLURM:
        capabilities += [Capability.REQUEUE_LIVE, Capability.REQUEUE_ENDED]
    else:
        capabilities += [Capability.UNIQUE_NAMES, Capability.HOLD_RUNNING]
    declared = Declarations(
        adapter=shape.value,
        cluster="hpc" if shape is Shape.SLURM else "eks",
        capabilities=tuple(capabilities),
        node_loss_window_s=120,
        call_bound_s=60,
        landing_bound_s=20,
        request_timeout_s=10,
        retention_s=300,
        save_window_s=12 if shape is Shape.SLURM else 2,
        clock_skew_s=2,
        lookup_lag_s=10,
    )
    scenario = Scenario(
        shape=shape,
        declared=declared,
        save_lag_s=10.0 if shape is Shape.SLURM else 0.0,
        clock_offset_s=0.0,
        start_refusal=0.0,
        queue_s=4.0,
        lasting_s=60.0,
        requeue_guarded=True,
        keeps_evidence=False,
        causes_vanish=0.0,
        counts_resumes=True,
        plan=Plan(
            default=Rule(action=Action.RESUBMIT, limit=2),
            causes={Cause.LOST: Rule(action=Action.HOLD)},
            start_backoff_s=0,
        ),
        start_retries=1,
        unmatched=UnmatchedPolicy.RETRY,
        offsets=(),
        pace_s=0.2,
        tick_s=30.0,
        sweeping=False,
        beat_s=600,
        fault_rate=0.0,
        calm_at=1e9,
        intents=0,
        failing=0.0,
        narrow=False,
        kinds=(),
        events=(),
        focus=0.0,
        requeued_by_site=False,
        jobs=1,
        dialects=(Dialect.OWN,),
        doubled=False,
        hurry=0.0,
        paused_until_s=0.0,
        happenings=(),
    )
    declaring = {k: v for k, v in changes.items() if k in Declarations.model_fields}
    others = {k: v for k, v in changes.items() if k not in declaring}
    declared = Declarations.model_validate({**declared.model_dump(), **declaring})
    return replace(scenario, declared=declared, **others)  # type: ignore[arg-type]


class Play(Run):
    """A run that a script directs.

    Attributes:
        fates: How the next processes end; when there are none left, well, after a minute.
    """

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(0, scenario.shape, tell=True, scenario=scenario, chance=Plain())
        self.fates: list[Fate] = []
        self._scripted = Scripted()
        self._standing: set[str] = set()
        self._stops: dict[tuple[str, str], bool] = {}
        self._counted: dict[str, int] = {}
        self._over: dict[str, bool] = {}
        self._unreadable: dict[str, Doubt] = {}
        self._actors: dict[str, Actor] = {}
        self._intents = 0
        for number in range(1, scenario.jobs + 1):
            self._submit(number)

    @property
    def job_id(self) -> str:
        """The first job."""
        return self.jobs[0]

    @property
    def transcript(self) -> str:
        """What happened, line by line, without the numbers of the turns."""
        lines = [line[6:].rstrip() for line in self.stage.told or ()]
        return "\n".join(line.replace(self.job_id, "JOB") for line in lines) + "\n"

    def _fate(self, tag: Tag, restarts: int) -> Fate:
        return self.fates.pop(0) if self.fates else Fate(60.0)

    # --- directions ---------------------------------------------------------------------------

    def direct(self, script: Callable[[Play], None]) -> None:
        """Play a script to its end, and then until every job is settled.

        Raises:
            Violation: A rule was broken.
        """
        with self.judged():
            script(self)
            for _ in range(SETTLING_TICKS):
                if len(self.watch.settled) == len(self.jobs):
                    break
                self.wait(self.scenario.tick_s)
                self.tick()
            for job_id in self.jobs:
                job = self.watch.job(job_id)
                if job_id not in self.watch.settled:
                    self.watch.fail("L1", f"isn't settled: {self.person.why_not(job)}")
                self.watch.finished(job_id)
                ending = "none" if job.ending is None else f"{job.ending.state}"
                cause = "" if job.ending is None or job.ending.cause is None else job.ending.cause
                self.say(f"outcome {ending} {cause}".rstrip() + ", settled")

    def say(self, what: str) -> None:
        """Add a line for the reader."""
        self.stage.tell("(story)", what)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.stage.run(self.stage.now + seconds)

    def goes_wrong(self, call: str, *faults: Fault | None) -> None:
        """Let the next calls of a kind go wrong, one after the other; None goes well."""
        self._scripted.coming.setdefault(call, []).extend(faults)

    def stand_before(self, who: str, call: str) -> None:
        """Let an actor stand still before its next call of a kind."""
        self._stops[who, call] = True

    def stand_at(self, who: str, index: int) -> None:
        """Let an actor stand still before its so-manieth call from now, counted from 0."""
        self._counted[who] = index

    def use(self, faults: Scripted) -> None:
        """Let other faults go wrong than those that were told one by one."""
        self._scripted = faults

    @property
    def calls(self) -> list[str]:
        """The calls that were made so far, where the faults keep them."""
        return list(getattr(self._scripted, "calls", ()))

    def stands(self, who: str) -> bool:
        """Return whether an actor stands still before a call."""
        return who in self._standing

    def go_on(self, who: str, *, calls: int | None = None) -> None:
        """Let an actor go on, if it stands still: to its end, or for so many calls."""
        self._counted.pop(who, None)
        if who not in self._standing:
            return
        if calls is not None:
            self._counted[who] = calls - 1
        self._standing.discard(who)
        self.stage.at(self.stage.now, self._actors[who].greenlet.switch)
        self._see_through(who)

    def tick(
        self,
        who: str = "supervisor-a",
        dialect: Dialect = Dialect.OWN,
        *,
        elsewhere: bool = False,
    ) -> None:
        """Let a supervisor, of another configuration perhaps, do what is due for every job."""
        actor, wire = self._actor(who)
        store, scheduler = self.store(wire, dialect), self.scheduler(wire)
        if elsewhere:
            scheduler.declared = other_configuration(scheduler.declared)
        supervisor = watched(self.watch)(store, scheduler, actor.clock, who, lambda: 600.0)

        def body() -> None:
            try:
                found = scheduler.find()
            except SchedulerUnavailable as error:
                actor.tell(str(error))
                return
            for job_id in self.jobs:
                supervisor.supervise(job_id, found.discovery(job_id))

        self._begin(who, body)

    def sweep(self, who: str = "supervisor-a") -> None:
        """Let a supervisor sweep the cluster."""
        actor, wire = self._actor(who)
        store, scheduler = self.store(wire), self.scheduler(wire)
        beat = Beat(evidence_every_s=self.scenario.beat_s)
        sweeper = Sweeper(store, scheduler, actor.clock, who, lambda: 600.0, beat)
        self._begin(who, lambda: self._swept(actor, sweeper))

    def _swept(self, actor: Actor, sweeper: Sweeper) -> None:
        swept = sweeper.sweep(self.scenario.declared.cluster)
        if swept.mass_loss is not None:
            actor.tell(f"doesn't believe it: {swept.mass_loss}")

    def intend(
        self,
        kind: IntentKind,
        target: str | None = None,
        *,
        dialect: Dialect = Dialect.OWN,
        job: int = 0,
    ) -> None:
        """Let a person want something of a job, of the first unless told otherwise."""
        self._intents += 1
        actor, wire = self._actor("ada")
        operator = Operator(self.store(wire, dialect), actor.clock, lambda tries: actor.park(1))

        def body() -> None:
            receipt = operator.intend(
                self.jobs[job], kind, intent_id=f"i{self._intents}", by="ada", target=target
            )
            effect = receipt.effect or "recorded, effect unknown"
            actor.tell(f"{kind}: {effect}" + (f" ({receipt.note})" if receipt.note else ""))

        self._begin("ada", body)

    def befall(self, event: Event, seconds: float = 0.0, which: int = -1) -> None:
        """Let something befall an object of the first job, the newest unless told otherwise."""
        ref = [r.ref for r in self.world.rows.values() if r.tag.job == self.job_id][which]
        self.stage.tell("(outside)", f"{ref}: {event}")
        self.world.befall(event, ref, seconds)

    def crash_controller(self, lost_s: float, down_s: float = 1.0) -> None:
        """Let the controller crash and lose its newest changes."""
        self.world.crash(lost_s, down_s)

    def appear_foreign(self) -> str:
        """Let an object of another copy of the record appear, and return its ref."""
        self._foreign()
        return next(iter(self.watch.foreign_since))

    def lose_everything(self) -> None:
        """Let the whole cluster be gone, and come back empty."""
        self.say("the whole cluster is gone, and comes back empty")
        for process in list(self.ground.living.values()):
            self.ground.kill(process, "its cluster is gone")
        self.world.rows.clear()

    def lie(self, seconds: float) -> None:
        """Let every list be empty, and say that it is whole."""
        self.lies.insist(seconds)
        self.say(f"for {seconds:.0f} s every list is empty, and says that it is whole")

    def another_answers(self, seconds: float) -> None:
        """Let another cluster, on which nothing is ours, answer in this one's place."""
        ours = self.world.identity
        self.lies.insist(seconds)
        self.world.identity = f"{self.scenario.declared.cluster}-9"

        def ours_again() -> None:
            self.world.identity = ours

        self.stage.after(seconds, ours_again)
        self.say(f"for {seconds:.0f} s another cluster answers, on which nothing is ours")

    def cant_be_read(self) -> None:
        """Let nobody be able to read the first job's objects, until `can_be_read`."""
        self._unreadable[self.job_id] = Doubt(
            "strange_state/1000", "strange_state", "job 1000: unknown state token ODD"
        )
        self.say("nobody can read the job's objects")

    def can_be_read(self) -> None:
        """Let the first job's objects be read again."""
        self._unreadable.clear()
        self.say("the job's objects can be read again")

    def scheduler(self, wire: Wire) -> SimScheduler:
        """Return an actor's adapter."""
        made = super().scheduler(wire)
        made.unreadable = lambda: self._unreadable
        return made

    # --- how it is done -----------------------------------------------------------------------

    def _actor(self, who: str) -> tuple[Actor, Wire]:
        actor = self._actors[who] = Actor(self.stage, who, pace=self.scenario.pace_s)
        declared = self.scenario.declared
        wire = _StandingWire(
            actor,
            self._scripted,
            self.chance,
            self.watch.flights,
            timeout_s=declared.request_timeout_s,
            landing_s=declared.landing_bound_s,
            unbounded=declared.can(Capability.GATED_START),
        )
        wire.standing = self._stand
        return actor, wire

    def _stand(self, actor: Actor, call: str) -> None:
        left = self._counted.get(actor.name)
        if left is not None:
            self._counted[actor.name] = left - 1
        if left == 0 or self._stops.pop((actor.name, call), False):
            self._counted.pop(actor.name, None)
            actor.tell(f"stands still before its {call}")
            self._standing.add(actor.name)
            self.stage.stand_still()
            actor.tell("goes on")

    def _begin(self, who: str, body: Callable[[], None]) -> None:
        self._over[who] = False

        def whole() -> None:
            try:
                body()
            except Crashed:
                self._actors[who].tell("is gone")
            self._over[who] = True

        self.stage.spawn(self._actors[who], whole, self.stage.now)
        self._see_through(who)

    def _see_through(self, who: str) -> None:
        self.stage.run(self.stage.now + 10_000, lambda: self._over[who] or who in self._standing)
