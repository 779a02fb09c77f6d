"""What the spool's two files hold, and every change they may undergo. Pure.

`Order` is written once and never changes; `Life` is replaced as a whole, under the folder's lock,
by one of the functions below. The runner reads this module, so it stands on the standard library
and the vocabulary alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from dispatch.record.names import ENDED_STATES, Cause, ObjectState

US = "dispatch"
"""The holder's name that stands for Dispatch itself: its gate, or its hold."""
MAX_RESTARTS = 999_999


class Refused(Exception):
    """The object is in no state for that change; it was left as it is."""


class Ask(StrEnum):
    """What a runner is asked to do with the processes it watches."""

    STOP = "stop"
    STOP_OUTSIDE = "stop_outside"
    PREEMPT = "preempt"
    LOSE_NODE = "lose_node"
    RERUN = "rerun"


@dataclass(frozen=True, slots=True)
class Order:
    """What was asked for, and whose it is.

    Attributes:
        ref: The object's identity, never used again.
        job: The tag's job.
        n: The tag's submission.
        a: The tag's attempt.
        spec_digest: The tag's digest of the spec.
        generation: The tag's generation of the lineage.
        command: The argument vector of each task; none means the folder's `script`.
        env: Plain environment variables, the tag's among them; the epoch is without restarts.
        secrets: Environment variables by the file that holds each.
        nodes: How many groups of tasks are called a node.
        tasks_per_node: Processes in each.
        memory_mb: The limit on each node's memory, MB.
        time_limit_s: Seconds after which a run is ended.
        workdir: Where the tasks start; none means the folder's own `work`.
        output: Where node 0 writes instead of the folder; node k appends `.k`.
        grace_s: Seconds between the polite and the hard signal.
        cgroups: Whether control groups may be made.
        owner: The principal who submitted the job.
        cluster: The cluster's configured name.
        created_at: When, UTC.
    """

    ref: str
    job: str
    n: int
    a: int
    spec_digest: str
    generation: int
    command: tuple[str, ...] | None
    env: Mapping[str, str]
    secrets: Mapping[str, str]
    nodes: int
    tasks_per_node: int
    memory_mb: int | None
    time_limit_s: int | None
    workdir: str | None
    output: str | None
    grace_s: int
    cgroups: bool
    owner: str
    cluster: str
    created_at: str

    @property
    def folder_name(self) -> str:
        """The name of its folder, one for each tag."""
        return f"{self.job}.{self.n}.{self.a}"


@dataclass(frozen=True, slots=True)
class Life:
    """Where an object stands.

    Attributes:
        serial: Grows with every write.
        phase: What it is doing.
        held_by: Who keeps it from running; the gate is `US`.
        restarts: How often it was made to run again.
        draining: Whether an earlier run's processes may still be there.
        ask: What its runner is to do.
        asked_by: Who asked, where it wasn't Dispatch.
        boot: The boot of the machine its latest run belongs to.
        limit: What enforces its memory limit.
        cgroups: The control groups of its latest run.
        nodes: Where its latest run is or was.
        output_from: Where its output starts in node 0's file, bytes.
        started_at: When its latest run started.
        ended_at: When it ended.
        lost_at: When it was seen that nobody watched its processes any more.
        cause: Why it ended, unless it succeeded.
        exit_code: Of the rank that decided.
        signal: Of the rank that decided.
        reason: For people.
    """

    serial: int = 0
    phase: ObjectState = ObjectState.PENDING
    held_by: tuple[str, ...] = (US,)
    restarts: int = 0
    draining: bool = False
    ask: Ask | None = None
    asked_by: str | None = None
    boot: str | None = None
    limit: str | None = None
    cgroups: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    output_from: int = 0
    started_at: str | None = None
    ended_at: str | None = None
    lost_at: str | None = None
    cause: Cause | None = None
    exit_code: int | None = None
    signal: int | None = None
    reason: str | None = None

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self.phase in ENDED_STATES

    @property
    def watched(self) -> bool:
        """Whether there may be processes, so that there must be a runner."""
        return self.draining or self.phase in (ObjectState.RUNNING, ObjectState.ENDING)

    @property
    def due(self) -> bool:
        """Whether it may run and doesn't yet."""
        return self.phase is ObjectState.PENDING and not self.held_by and not self.draining


@dataclass(frozen=True, slots=True)
class End:
    """How a run ended; no cause means success."""

    cause: Cause | None
    reason: str | None = None
    exit_code: int | None = None
    signal: int | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run happens: the machine's boot, the nodes, and what limits their memory."""

    boot: str
    nodes: tuple[str, ...]
    limit: str
    cgroups: tuple[str, ...] = field(default=())


# --- what the adapter and people outside ask ----------------------------------------------------


def stop(life: Life, ask: Ask, now: str, by: str | None = None) -> Life:
    """End the object; the first to ask decides the cause, and what ended stays as it is."""
    if life.ended or life.phase is ObjectState.ENDING:
        return life
    if life.phase is ObjectState.PENDING and not life.draining:
        return ended(replace(life, ask=ask, asked_by=by), end_of(ask, by), now)
    return replace(
        life,
        phase=ObjectState.ENDING,
        held_by=(),
        ask=ask,
        asked_by=by,
        reason=end_of(ask, by).reason,
    )


def disrupt(life: Life, ask: Ask, now: str, by: str | None) -> Life:
    """End a run as a cluster would by itself; only what has processes can lose them.

    Raises:
        Refused: It isn't running.
    """
    if life.phase is not ObjectState.RUNNING:
        raise Refused(f"it is {life.phase}, not running")
    if ask is Ask.LOSE_NODE:
        # The word comes first, the processes' end after it, as with a real node.
        lost = ended(life, end_of(ask, by), now)
        return replace(lost, lost_at=now, ask=ask, draining=True)
    return stop(life, ask, now, by)


def hold(life: Life, by: str) -> Life:
    """Keep the object from running; a running one is stopped and waits, restarted once more.

    Raises:
        Refused: It has ended, or is ending.
    """
    if life.phase is ObjectState.RUNNING:
        return replace(_again(life, "held while it ran"), held_by=(by,), draining=True)
    if life.phase is not ObjectState.PENDING:
        raise Refused(f"it is {life.phase}: there is nothing to hold")
    if by in life.held_by:
        return life
    return replace(life, held_by=(*life.held_by, by))


def release(life: Life, by: str) -> Life:
    """Lift one's own hold; without one there is nothing to lift.

    Raises:
        Refused: Only somebody else holds it.
    """
    if by in life.held_by:
        return replace(life, held_by=tuple(h for h in life.held_by if h != by))
    if life.held_by:
        raise Refused(f"it is held by {life.held_by[0]}")
    return life


def requeue(life: Life, restarts: int | None) -> Life:
    """Make the object run again from the start.

    Args:
        life: Where it stands.
        restarts: What the asker last saw; it guards against asking twice. None asks anyhow.

    Raises:
        Refused: It has been restarted since, waits already, or is being ended.
    """
    if restarts is not None and restarts != life.restarts:
        raise Refused(f"it has {life.restarts} restarts, not {restarts}")
    if life.phase is ObjectState.RUNNING:
        return replace(_again(life, "run again while it ran"), draining=True)
    if not life.ended:
        raise Refused(f"it is {life.phase}: there is nothing to run again")
    return replace(_again(life, "run again after its end"), draining=life.draining)


def _again(life: Life, reason: str) -> Life:
    if life.restarts >= MAX_RESTARTS:
        raise Refused(f"it was restarted {life.restarts} times")
    return replace(
        life,
        phase=ObjectState.PENDING,
        held_by=(),
        restarts=life.restarts + 1,
        ask=Ask.RERUN,
        asked_by=None,
        started_at=None,
        ended_at=None,
        lost_at=None,
        cause=None,
        exit_code=None,
        signal=None,
        reason=reason,
    )


def end_of(ask: Ask, by: str | None) -> End:
    """Return the end of a run whose processes were ended for what was asked."""
    match ask:
        case Ask.STOP:
            return End(Cause.STOPPED, "stopped by Dispatch")
        case Ask.STOP_OUTSIDE:
            return End(Cause.STOPPED_OUTSIDE, f"stopped by {by or 'somebody else'}")
        case Ask.PREEMPT:
            return End(Cause.PREEMPTED, f"preempted by {by or 'the cluster'}")
        case Ask.LOSE_NODE:
            return End(Cause.NODE_LOST, f"its node was declared lost by {by or 'the cluster'}")
        case Ask.RERUN:
            return End(Cause.INTERRUPTED, "ended to run again")


# --- what the runner does ---------------------------------------------------------------------


def running(life: Life, place: Place, now: str) -> Life:
    """Begin a run; written before the first process is."""
    return replace(
        life,
        phase=ObjectState.RUNNING,
        ask=None,
        asked_by=None,
        boot=place.boot,
        nodes=place.nodes,
        limit=place.limit,
        cgroups=place.cgroups,
        started_at=now,
        reason=None,
    )


def ending(life: Life, reason: str | None) -> Life:
    """Say that the run is being ended, unless somebody said so first."""
    if life.phase is not ObjectState.RUNNING:
        return life
    return replace(life, phase=ObjectState.ENDING, reason=reason)


def ended(life: Life, end: End, now: str) -> Life:
    """End the object."""
    return replace(
        life,
        phase=ObjectState.SUCCEEDED if end.cause is None else ObjectState.FAILED,
        held_by=(),
        draining=False,
        ask=None,
        ended_at=now,
        cause=end.cause,
        exit_code=end.exit_code,
        signal=end.signal,
        reason=end.reason,
    )


def drained(life: Life) -> Life:
    """Say that nothing of the earlier run is left."""
    return replace(life, draining=False, ask=None, cgroups=())


def orphaned(life: Life, boot: str, now: str) -> Life:
    """Close a run whose runner is gone and whose processes were seen to be gone too.

    The exit codes went with the runner, so a run that nobody had asked to end is `lost`, or
    `node_lost` where the machine was started anew since; how it would have ended isn't guessed.
    """
    if not life.watched:
        return life
    if life.phase is ObjectState.PENDING or life.ended:
        return drained(life)
    if life.ask is not None:
        end = end_of(life.ask, life.asked_by)
        end = replace(end, reason=f"{end.reason}; its runner was gone")
    elif life.boot != boot:
        end = End(Cause.NODE_LOST, "the machine was started anew while it ran")
    else:
        end = End(Cause.LOST, "its runner was killed; what was left of it was killed too")
    return replace(ended(life, end, now), lost_at=now)
