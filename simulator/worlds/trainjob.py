"""A cluster whose objects are TrainJobs: others start them again, and their end is a suspension.

Beside what Kubernetes does to Jobs: the JobSet controller makes all Jobs anew when one of them has
failed, which waits for the record where pods are kept; Trainer makes a JobSet anew that is gone,
even one that had ended, as long as its TrainJob isn't suspended; a stop suspends, and the TrainJob
stays until its end is recorded.
"""

from __future__ import annotations

from datetime import timedelta

from dispatch.errors import CallUnknown
from dispatch.record.names import Capability, Cause, ObjectState
from dispatch.schedulers.scheduler import Tag, Target
from simulator.chance import Chance
from simulator.stage import Stage
from simulator.wire import Wire
from simulator.worlds.ground import Began, Doing, Ground
from simulator.worlds.kubernetes import KubernetesWorld
from simulator.worlds.kubernetes_adapter import (
    REQUEUE_WAIT_S,
    KubernetesKeepingScheduler,
)
from simulator.worlds.kubernetes_objects import End, Row
from simulator.worlds.rows import Traits

REMADE = 0.2
"""How often what has ended is made anew before its end is recorded, where Trainer does that."""


class TrainJobWorld(KubernetesWorld):
    """The cluster, its controllers, and what others do to it.

    Attributes:
        budgets: How often a JobSet may start itself again, one of them for each.
        remakes: Which ends Trainer forgets: `failed` ones, `any`, or none.
    """

    def __init__(self, stage: Stage, chance: Chance, ground: Ground, traits: Traits) -> None:
        super().__init__(stage, chance, ground, traits)
        self.budgets: tuple[int, ...] = chance.pick(((0,), (0, 1), (2,)))
        self.remakes: str = chance.pick(("", "failed", "any"))

    def add(
        self,
        tag: Tag,
        *,
        foreign: bool = False,
        doing: Doing | None = None,
        suspended: bool = True,
    ) -> Row:
        """Write a new TrainJob down, with as many restarts as its runtime allows."""
        row = super().add(tag, foreign=foreign, doing=doing, suspended=suspended)
        return self._put_as_it_is(row._replace(budget=self._chance.pick(self.budgets)))

    def _put_as_it_is(self, row: Row) -> Row:
        """Write something down that nothing else depends on."""
        self.rows[row.ref] = row
        return row

    # --- calls that land ----------------------------------------------------------------------

    def stop(self, ref: str) -> None:
        """Suspend for good, or delete in the background what has no pod or is Kueue's."""
        row = self.rows.get(ref)
        if row is None or row.end is not None or row.stopped:
            return
        row = row._replace(stopped=True, waits_for_record=False)
        if not row.process:
            self._let_go(row)
            return
        cause = row.going
        if cause is None or cause is Cause.STOPPED_OUTSIDE:
            cause = Cause.STOPPED
        if self._gated and not row.orphaned:
            self._terminate(row._replace(suspended=True, replaced=False), cause)
        else:
            self._free_name(row)
            self._terminate(row._replace(orphaned=True, replaced=False), cause)

    def let_go_before(self, ref: str, restarts: int) -> None:
        """Let go of the run before the one that the record knows of; only then the next begins."""
        row = self.rows.get(ref)
        if row is not None and row.waits_for_record and row.restarts == restarts:
            self._kick(self._put(row._replace(waits_for_record=False)))

    def has_process(self, ref: str) -> bool:
        """Return whether a pod of it is left."""
        row = self.rows.get(ref)
        return row is not None and bool(row.process)

    # --- what its controllers do --------------------------------------------------------------

    def _kick(self, row: Row) -> None:
        if not row.waits_for_record:
            super()._kick(row)

    def _ends(self, row: Row, end: End) -> None:
        goes_on = not (row.stopped or row.deleting or row.orphaned or row.suspended)
        if end.state is ObjectState.FAILED and row.budget > 0 and goes_on:
            self._stage.counts["a JobSet starts itself again"] += 1
            self._again(row._replace(budget=row.budget - 1), Began.SCHEDULER, kept=True)
            return
        super()._ends(row, end)
        forgets = self.remakes == "any" or (self.remakes == "failed" and end.cause is not None)
        current = self.rows.get(row.ref)
        if goes_on and forgets and current is not None and self._chance.hits(REMADE):
            self._later(current, self._chance.span(5, 60), self._remake)

    def _remake(self, row: Row) -> None:
        """Make the JobSet of what has ended anew; once that is recorded, nothing runs it again."""
        if row.recorded or row.end is None:
            return
        self._stage.counts["Trainer makes what has ended anew"] += 1
        self._again(row._replace(end=None), Began.SCHEDULER, kept=False)

    def _again(self, row: Row, began: Began, *, kept: bool) -> None:
        """Let it run once more, as the same object: nobody asked Dispatch."""
        now = self._stage.now
        self.raised_at[row.ref] = now
        again = row._replace(
            process=0,
            started=None,
            going=None,
            lost=None,
            replaced=False,
            restarts=row.restarts + 1,
            doing=(began, now, now),
            waits_for_record=kept and self.traits.keeps_evidence,
        )
        self._stage.tell("(trainer)", f"{row.ref} is started again: {again.restarts}")
        self._kick(self._put(again))

    def _pod_is_over(self, row: Row) -> None:
        if row.end is None and row.ref not in self.stuck:
            process = self._ground.living.get(row.process)
            if row.remade and not (row.stopped or row.deleting or row.orphaned or row.suspended):
                if process is not None and not process.cut:
                    self._ground.kill(process, "its JobSet was deleted")
                self._again(row._replace(remade=False), Began.OUTSIDE, kept=True)
                return
            if row.stopped and row.suspended:
                row = row._replace(suspended=False, replaced=False)
        super()._pod_is_over(row)

    def _disruption(self, row: Row) -> End:
        if row.stopped and row.going is not Cause.NODE_LOST:
            return End(ObjectState.FAILED, Cause.STOPPED, None, self._stage.now)
        return super()._disruption(row)

    # --- what people do -----------------------------------------------------------------------

    def delete_outside(self, ref: str, how: str | None = None) -> None:
        """Let somebody delete it, or the JobSet below it."""
        row = self.rows[ref]
        below = how == "jobset" or (how is None and self._chance.hits(0.3))
        if below and row.process and row.going is None and not row.unchangeable:
            self._stage.tell("(outside)", f"kubectl delete of the JobSet of {ref}")
            self._stage.counts["deleted outside: jobset"] += 1
            self._terminate(row._replace(remade=True), Cause.STOPPED_OUTSIDE)
            return
        super().delete_outside(ref, how)


class TrainJobScheduler(KubernetesKeepingScheduler):
    """The adapter: a requeue waits for the old pods, and earlier runs are let go of as well."""

    def __init__(self, cluster: TrainJobWorld, wire: Wire) -> None:
        super().__init__(cluster, wire)
        self._trainjobs = cluster

    def requeue(self, target: Target) -> None:
        """Suspend, and resume, counted, once no pod is left (see `Scheduler`)."""
        self._declared(Capability.REQUEUE_LIVE)
        self.watch("requeue", target)
        wire, world = self._wire, self._trainjobs
        ref, restarts, decided = target.ref, target.restarts, wire.actor.find_began
        self._on("requeue", target, lambda: world.suspend_for_requeue(ref, restarts))
        seen_by = wire.clock() + timedelta(seconds=REQUEUE_WAIT_S)
        wire.actor.park(wire.chance.span(0.1, REQUEUE_WAIT_S - 1))
        if wire.clock() >= seen_by or world.has_process(ref):
            raise CallUnknown("its suspension wasn't seen in time to resume it")
        self._on("requeue", target, lambda: world.requeue(ref, restarts, decided))

    def _let_go_of(self, target: Target) -> None:
        world = self._trainjobs
        if world.goes_on(target.ref):
            # A patch that may be sent again, so it fails as a Stop does.
            before = target.restarts
            self._on("stop", target, lambda: world.let_go_before(target.ref, before))
        else:
            super()._let_go_of(target)
