"""A Job of the simulated Kubernetes cluster with its one pod, and what the adapter makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from dispatch.record.evidence import Sighting
from dispatch.record.names import Capability, Cause, ObjectState
from dispatch.schedulers.scheduler import Tag
from simulator.stage import instant
from simulator.worlds.ground import Doing
from simulator.worlds.rows import Traits

NAMESPACE = "ml"


@dataclass(frozen=True, slots=True)
class End:
    """How an object ended, as its Job and its pod tell it.

    Attributes:
        state: succeeded or failed.
        cause: Why it failed.
        exit_code: Where its pod was kept and had one.
        ended: When, true time.
        lost: When its node was lost, true time.
    """

    state: ObjectState
    cause: Cause | None
    exit_code: int | None
    ended: float
    lost: float | None = None


class Row(NamedTuple):
    """A Job as etcd has it, with its pod.

    Attributes:
        ref: Namespace, name and uid.
        name: Taken for as long as the Job is there.
        tag: What it carries.
        stamp: Changes with every change, as a resourceVersion does.
        foreign: Whether it is of another copy of the record.
        suspended: Whether it is suspended.
        why: For what Dispatch suspended it; it stays written on what others resume.
        by_others: Whether somebody else suspended it last, or deactivated it in its queue.
        restarts: How often it was started again in place and counted.
        doing: Whose doing its next pod is.
        process: The number of the process in its pod; 0 while there is no pod.
        started: Since when that runs, true time.
        going: Why its pod is going, if it is; `stopped` also stands for a suspension.
        replaced: Whether it was resumed while that pod was still going: the next waits for it.
        lost: When its pod's node was lost, true time.
        ran: Whether it has had a pod.
        waits: Why its pod can't be placed.
        stopped: Whether Dispatch wrote on it that it ends it.
        deleting: Whether its deletion waits for its pod (Foreground).
        orphaned: Whether the Job is gone and its pod is what is left.
        end: How it ended.
        recorded: Whether its evidence was let go of.
        budget: How often it may still start itself again (of a TrainJob).
        waits_for_record: Whether its next run waits until the record has it (of a TrainJob).
        remade: Whether it is made anew once its pod has gone (of a TrainJob).
    """

    ref: str
    name: str
    tag: Tag
    doing: Doing
    stamp: int = 0
    foreign: bool = False
    suspended: bool = True
    why: str | None = None
    by_others: bool = False
    restarts: int = 0
    process: int = 0
    started: float | None = None
    going: Cause | None = None
    replaced: bool = False
    lost: float | None = None
    ran: bool = False
    waits: Cause | None = None
    stopped: bool = False
    deleting: bool = False
    orphaned: bool = False
    end: End | None = None
    recorded: bool = False
    budget: int = 0
    waits_for_record: bool = False
    remade: bool = False

    @property
    def state(self) -> ObjectState:
        """What the object is doing, by its Job and its pod."""
        if self.end is not None:
            return self.end.state
        if not self.process or self.replaced:
            return ObjectState.PENDING
        if self.going is not None:
            return ObjectState.ENDING
        return ObjectState.RUNNING

    @property
    def held(self) -> bool:
        """Whether it is suspended and no pod of it is left."""
        return self.suspended and not self.process and self.end is None

    @property
    def unchangeable(self) -> bool:
        """Whether it has ended, or is about to, so that it can't be suspended or resumed."""
        stopping = self.stopped and self.suspended
        return self.end is not None or self.deleting or self.orphaned or stopping


def seen(row: Row, traits: Traits) -> Sighting:
    """Return what the adapter makes of a Job and its pod."""
    end, queued = row.end, not traits.declared.can(Capability.GATED_START)

    def when(seconds: float | None) -> datetime | None:
        if seconds is None:
            return None
        return instant(float(int(seconds + traits.clock_offset_s)))

    cause, holder = row.waits, None
    if end is not None:
        cause = end.cause
    elif row.process:
        cause = None if row.suspended or row.replaced else row.going
    elif row.held and queued:
        holder, cause = "kueue", Cause.HELD_OUTSIDE if row.by_others else None
    elif row.held and row.why is None:
        holder, cause = "outside", Cause.HELD_OUTSIDE
    # A pod that is kept still tells that its node was lost, whatever runs since.
    tells = traits.keeps_evidence or row.held or (row.process and not row.replaced)
    lost = row.lost if tells else None
    return Sighting(
        ref=row.ref,
        n=row.tag.n,
        a=row.tag.a,
        spec_digest=row.tag.spec_digest,
        generation=row.tag.generation,
        state=row.state,
        cause=cause,
        restarts=row.restarts,
        held=row.held,
        holder=holder,
        exit_code=None if end is None else end.exit_code,
        nodes=(f"node-{row.process % 7}",) if row.process and not row.replaced else (),
        started_at=None if row.replaced else when(row.started),
        ended_at=when(None if end is None else end.ended),
        lost_at=when(lost if end is None else end.lost),
        source="pods",
    )
