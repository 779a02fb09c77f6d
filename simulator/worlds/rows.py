"""What the two shapes of cluster have in common: rows of objects, and what ends them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from dispatch.record.evidence import Sighting
from dispatch.record.header import Declarations
from dispatch.record.names import Capability, Cause, ObjectState
from dispatch.schedulers.scheduler import Tag
from simulator.chance import Chance
from simulator.stage import Stage, instant
from simulator.worlds.ground import Began, Doing, Fate, Ground, Process

STRANGER = "somebody"
"""The job name in the tag of what isn't Dispatch's."""

LIVE = (ObjectState.PENDING, ObjectState.RUNNING, ObjectState.ENDING)

NOBODY = (Began.OURS, 0.0, 0.0)
"""Whose doing a run is that nobody has allowed yet."""


class Event(StrEnum):
    """What befalls an object, or the cluster, from outside."""

    PREEMPT = "preempted"
    LOSE_NODE = "its node is lost"
    CUT_NODE = "its node is cut off, unnoticed"
    CANCEL = "cancelled by somebody else"
    HOLD = "held by somebody else"
    REQUEUE = "started again by somebody else"
    WAIT = "it can't be placed"
    CRASH = "the controller crashes"
    FOREIGN = "a foreign object appears"
    STRANGER = "somebody else submits a job"
    STUCK = "its end never comes to an end"
    LIE = "for a while every list is empty"
    RESTORE = "the cluster is restored from a backup"


@dataclass(frozen=True, slots=True)
class Traits:
    """What differs from one cluster to the next.

    Attributes:
        declared: What its adapter declares.
        save_lag_s: How much of its newest state a crash of the controller loses, at most.
        queue_s: How long an object waits for its place, at most.
        clock_offset_s: How far the controller's clock is off.
        start_refusal: How often a Start is refused.
        requeues: Whether it starts again by itself what it can.
        requeue_guarded: Whether a requeue leaves what succeeded or was cancelled alone.
        keeps_evidence: Whether what was deleted stays visible until it is recorded.
        causes_vanish: How often the cause of an end can't be told any more.
        counts_resumes: Whether a resume after a hold of what ran is counted as a restart.
    """

    declared: Declarations
    save_lag_s: float = 0.0
    queue_s: float = 30.0
    clock_offset_s: float = 0.0
    start_refusal: float = 0.0
    requeues: bool = False
    requeue_guarded: bool = True
    keeps_evidence: bool = False
    causes_vanish: float = 0.0
    counts_resumes: bool = False


class Row(NamedTuple):
    """An object as the controller knows it.

    Attributes:
        ref: Its identity, unique for ever.
        key: What a call finds it by: an id that may be another's later, or a name.
        tag: What it carries.
        stamp: Changes with every change.
        state: What it is doing.
        cause: Why it ended, or waits for ever.
        restarts: How often it was started again.
        held: Whether it is held.
        holder: Who holds it, if it isn't Dispatch.
        may_requeue: Whether the scheduler may start it again by itself.
        deleting: Whether it is being deleted.
        process: The number of the process it believes to be its run; 0 for none.
        doing: Whose doing its next run is, since when, and on which Find.
        foreign: Whether it is of another copy of the record.
        started: When, true time.
        ended: When, true time.
        lost: When its node was lost, true time.
        exit_code: Where it has one.
    """

    ref: str
    key: str
    tag: Tag
    stamp: int = 0
    state: ObjectState = ObjectState.PENDING
    cause: Cause | None = None
    restarts: int = 0
    held: bool = False
    holder: str | None = None
    may_requeue: bool = False
    deleting: bool = False
    process: int = 0
    doing: Doing = NOBODY
    foreign: bool = False
    started: float | None = None
    ended: float | None = None
    lost: float | None = None
    exit_code: int | None = None


class Rows:
    """A controller's objects, its journal of what a crash may lose, and what it shows.

    Attributes:
        declared: What its adapter declares.
        identity: What it says it is.
        rows: The objects it knows, by ref.
        by_key: The refs that keys lead to now.
        down_until: It answers nothing before this true time.
        began: When it came back from its last crash.
        on_end: Told when an object has ended.
        stuck: The refs whose end never comes to an end.
        raised_at: When somebody who isn't Dispatch last started an object again, by ref.
    """

    name = "cluster"

    def __init__(self, stage: Stage, chance: Chance, ground: Ground, traits: Traits) -> None:
        self.declared = traits.declared
        self.identity = f"{traits.declared.cluster}-1"
        self.traits = traits
        self.rows: dict[str, Row] = {}
        self.by_key: dict[str, str] = {}
        self.down_until = -1.0
        self.began: float | None = None
        self.on_end: Callable[[], None] = lambda: None
        self.stuck: set[str] = set()
        self.raised_at: dict[str, float] = {}
        self.journal: deque[tuple[float, str, Row | None]] = deque()
        self.stage = stage
        self.chance = chance
        self.ground = ground
        self._stamp = 0
        self._shown: dict[int, Sighting] = {}

    # --- what it shows ------------------------------------------------------------------------

    def is_down(self) -> bool:
        """Return whether the controller answers nothing now."""
        return self.stage.now < self.down_until

    def show(self) -> dict[str, tuple[Sighting, ...]]:
        """Return what a whole list shows of Dispatch's objects, by job."""
        by_job: dict[str, tuple[Sighting, ...]] = {}
        for row in self.rows.values():
            job = row.tag.job
            if job != STRANGER:
                by_job[job] = (*by_job.get(job, ()), self._sighting(row))
        return by_job

    def tokens(self) -> dict[str, str]:
        """Return what a glance shows of live objects: nothing but the state."""
        return {
            ref: f"{row.state}{'+held' if row.held else ''}"
            for ref, row in self.rows.items()
            if row.state in LIVE and row.tag.job != STRANGER
        }

    def _sighting(self, row: Row) -> Sighting:
        shown = self._shown.get(row.stamp)
        if shown is None:
            shown = self._shown[row.stamp] = self.seen(row, "list")
        return shown

    def seen(self, row: Row, source: str) -> Sighting:
        """Return a row as the adapter reads it; schedulers write whole seconds."""
        outside = row.held and row.holder is not None and row.state is ObjectState.PENDING
        return Sighting(
            ref=row.ref,
            n=row.tag.n,
            a=row.tag.a,
            spec_digest=row.tag.spec_digest,
            generation=row.tag.generation,
            state=row.state,
            cause=Cause.HELD_OUTSIDE if outside else row.cause,
            restarts=row.restarts,
            held=row.held and row.state is ObjectState.PENDING,
            holder=row.holder if row.held else None,
            exit_code=row.exit_code,
            nodes=(f"node-{row.process % 7}",) if row.process else (),
            started_at=self._when(row.started),
            ended_at=self._when(row.ended),
            lost_at=self._when(row.lost),
            source=source,
        )

    def _when(self, seconds: float | None) -> datetime | None:
        if seconds is None:
            return None
        return instant(float(int(seconds + self.traits.clock_offset_s)))

    def tag_of(self, ref: str) -> Tag | None:
        """Return the tag of whatever the key in a ref leads to now."""
        row = self.at(ref)
        return None if row is None else row.tag

    def is_there(self, ref: str) -> bool:
        """Return whether the key in a ref still leads to this very object."""
        row = self.at(ref)
        return row is not None and row.ref == ref

    def is_run(self, ref: str, restarts: int) -> bool:
        """Return whether what is there under the key in a ref is in that run."""
        row = self.at(ref)
        return row is None or row.restarts == restarts

    def at(self, ref: str) -> Row | None:
        """Return whatever the key in a ref leads to now."""
        here = self.by_key.get(self.key_of(ref))
        return None if here is None else self.rows.get(here)

    def key_of(self, ref: str) -> str:
        """Return the key in a ref."""
        return ref.split("/")[1]

    # --- what happens to a row ----------------------------------------------------------------

    def put(self, row: Row) -> Row:
        """Write a row down; its newest changes are what a crash loses."""
        self._stamp += 1
        row = row._replace(stamp=self._stamp)
        lag = self.traits.save_lag_s
        if lag:
            now, journal = self.stage.now, self.journal
            journal.append((now, row.ref, self.rows.get(row.ref)))
            while journal and journal[0][0] < now - lag:
                journal.popleft()
        self.rows[row.ref] = row
        return row

    def later(self, row: Row, seconds: float, do: Callable[[Row], None]) -> None:
        """Let something happen to a row unless something else happened to it before."""

        def due() -> None:
            current = self.rows.get(row.ref)
            if current is not None and current.stamp == row.stamp:
                do(current)

        self.stage.after(seconds, due)

    def kick(self, row: Row) -> None:
        """Let a row that waits for nothing but its place have it."""
        if row.state is ObjectState.PENDING and not row.held and row.cause is None:
            self.later(row, self.chance.span(0.3, self.traits.queue_s), self.run)

    def run(self, row: Row) -> None:
        """Let a row's process begin."""
        process = self.ground.begin(
            row.ref, row.tag, row.restarts, row.doing, foreign=row.foreign, ends=self._came_to_end
        )
        if process.alive:
            self.put(
                row._replace(
                    state=ObjectState.RUNNING,
                    process=process.number,
                    started=self.stage.now,
                    cause=None,
                )
            )

    def _came_to_end(self, process: Process, fate: Fate) -> None:
        row = self.rows.get(process.ref)
        if row is None or row.process != process.number or row.state is not ObjectState.RUNNING:
            return
        state = ObjectState.SUCCEEDED if fate.cause is None else ObjectState.FAILED
        self.end(row, state, fate.cause, exit_code=fate.exit_code)

    def end(
        self,
        row: Row,
        state: ObjectState,
        cause: Cause | None,
        *,
        exit_code: int | None = None,
        lost: float | None = None,
    ) -> None:
        """Let a row have ended, and be forgotten in time."""
        row = self.put(
            row._replace(
                state=state,
                cause=cause,
                exit_code=exit_code,
                ended=self.stage.now,
                lost=lost,
                held=False,
                holder=None,
            )
        )
        self.ended(row)
        self.on_end()
        self.later(row, float(self.declared.retention_s), self.forget)

    def ended(self, row: Row) -> None:
        """Let a shape note an end."""

    def forget(self, row: Row) -> None:
        """Let nobody be shown a row any more."""
        self.rows.pop(row.ref, None)
        if self.by_key.get(row.key) == row.ref:
            del self.by_key[row.key]
        self.stage.tell(f"({self.name})", f"{row.ref} is forgotten")

    def process_of(self, row: Row) -> Process | None:
        """Return the living process that a row believes to be its run."""
        return self.ground.living.get(row.process)

    def outlive(self, process: Process) -> None:
        """Let a process on a lost node live on for at most the node-loss window."""
        window = float(self.declared.node_loss_window_s)
        self.ground.kill_in(process, self.chance.span(0, window), "its lost node ends it")

    def finish(self, row: Row, cause: Cause) -> None:
        """Let an end come to its end."""
        if row.ref in self.stuck:
            return
        process = self.process_of(row)
        if process is not None and not process.cut:
            self.ground.kill(process, f"it is ended ({cause})")
            process = None
        if process is not None:
            self.outlive(process)
        lost = None if process is None else self.stage.now
        self.end(row, ObjectState.FAILED, cause, lost=lost)

    # --- what others do to both shapes --------------------------------------------------------

    def wait_for_ever(self, ref: str, cause: Cause) -> None:
        """Let a pending object wait for something that doesn't go away by itself."""
        row = self.rows[ref]
        if row.state is ObjectState.PENDING:
            self.put(row._replace(cause=cause))

    def stick(self, ref: str) -> None:
        """Let a running object's end never come to an end, though nothing of it executes."""
        row = self.rows[ref]
        process = self.process_of(row)
        if row.state is ObjectState.RUNNING and process is not None:
            self.stuck.add(ref)
            self.ground.kill(process, "it hangs in its end")
            self.put(row._replace(state=ObjectState.ENDING))

    def heal(self) -> None:
        """Let everything that isn't of our doing go its way: holds, and what waits for ever."""
        for row in list(self.rows.values()):
            healed = row
            if row.state is ObjectState.PENDING and row.cause is not None:
                healed = self.put(row._replace(cause=None))
            if row.holder is not None:
                self.release_outside(row.ref)
            else:
                self.kick(healed)

    def release_outside(self, ref: str) -> None:
        """Let the one who holds an object release it; our gate stays."""
        row = self.rows[ref]
        if row.state is ObjectState.PENDING and row.holder is not None:
            gated = self.declared.can(Capability.GATED_START) and row.doing == NOBODY
            self.kick(self.put(row._replace(holder=None, held=gated)))
