"""What Slurm's states, flags, reasons and exits mean: one total table, pure.

A Slurm state is one base token and any number of flags. Every token that isn't in these tables
is refused loudly: the object counts as not ended, and `alarm` says why a person must look.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from dispatch.record.names import Cause, ObjectState

BASES: Final = frozenset(
    {
        "PENDING",
        "RUNNING",
        "SUSPENDED",
        "COMPLETED",
        "CANCELLED",
        "FAILED",
        "TIMEOUT",
        "NODE_FAIL",
        "PREEMPTED",
        "BOOT_FAIL",
        "DEADLINE",
        "OUT_OF_MEMORY",
    }
)
"""The base states; exactly one stands in every state."""

FLAGS: Final = frozenset(
    {
        "LAUNCH_FAILED",
        "GETENV_FAILED",
        "REQUEUED",
        "REQUEUE_HOLD",
        "SPECIAL_EXIT",
        "RESIZING",
        "CONFIGURING",
        "COMPLETING",
        "STOPPED",
        "RECONFIG_FAIL",
        "POWER_UP_NODE",
        "REVOKED",
        "REQUEUE_FED",
        "RESV_DEL_HOLD",
        "SIGNALING",
        "STAGE_OUT",
        "EXPEDITING",
    }
)
"""The flags that may stand beside a base state."""

_ALARMING: Final = frozenset({"BOOT_FAIL", "REVOKED", "RECONFIG_FAIL", "REQUEUE_FED"})
_STILL_ENDING: Final = frozenset({"COMPLETING", "STAGE_OUT"})
_RUN_AGAIN: Final = frozenset({"REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"})
_LAUNCH_FLAGS: Final = frozenset({"LAUNCH_FAILED", "GETENV_FAILED"})
_SITE_HOLD_FLAGS: Final = frozenset({"REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"})

SITE: Final = "site"
ADMIN: Final = "admin"
SLURM: Final = "slurm"

_HOLDERS: Final = {
    "JobHeldAdmin": ADMIN,
    "JobHoldMaxRequeue": SLURM,
    "ReservationDeleted": SITE,
    "ResvDelHold": SITE,
}
"""Reasons that say that somebody else holds the job, and who."""

_NEVER: Final = frozenset(
    {
        "AccountNotAllowed",
        "BadConstraints",
        "DependencyNeverSatisfied",
        "InvalidAccount",
        "InvalidQOS",
        "PartitionConfig",
        "PartitionNodeLimit",
        "PartitionTimeLimit",
        "QOSNotAllowed",
        "QOSTimeLimit",
    }
)
"""Reasons for which a job never runs as it is."""

_SIGNAL_OUTPUT: Final = 53
_SIGNAL_LAUNCH: Final = 54
_SIGNAL_OOM: Final = 125
_LAST_SIGNAL: Final = 64
"""Larger numbers are Slurm's own marks; no process was ended by them."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How a run's process ended, as Slurm tells it.

    Attributes:
        code: The exit code, where the process exited.
        signal: The signal, or Slurm's mark in its place.
    """

    code: int | None = None
    signal: int | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one row of one of Slurm's books says, in the terms of this table.

    Attributes:
        tokens: The base state and its flags, in any order.
        reason: `state_reason`.
        description: `state_description`.
        held: Whether its priority is zero.
        exit: How the process ended.
        restarts: `restart_cnt`.
        ran: Whether it ever had nodes.
        killed_by: Who cancelled it, where the book tells.
        user: Whose job it is.
    """

    tokens: tuple[str, ...]
    reason: str = ""
    description: str = ""
    held: bool = False
    exit: Exit = Exit()
    restarts: int = 0
    ran: bool = False
    killed_by: str = ""
    user: str = ""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What the evidence means in Dispatch's words.

    Attributes:
        state: What the object is doing.
        cause: Why it ended, or why it waits and will go on waiting.
        held: Whether it is kept from running.
        holder: Who keeps it so, where that isn't Dispatch or its user.
        exit_code: The process's exit code.
        signal: The signal that ended it.
        lost: Whether a process may live on although Slurm calls the run ended.
        alarm: Why a person must look; the object counts as not ended.
        note: What a reader should know beside the state.
    """

    state: ObjectState
    cause: Cause | None = None
    held: bool = False
    holder: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    lost: bool = False
    alarm: str | None = None
    note: str = ""


def meaning(seen: Evidence) -> Meaning:
    """Return what a state means; total, and never ended on doubt."""
    tokens = frozenset(seen.tokens)
    strange = sorted(tokens - BASES - FLAGS)
    bases = sorted(tokens & BASES)
    if strange or len(bases) != 1:
        what = f"unknown state token {', '.join(strange)}" if strange else "no single base state"
        return _refused(bases, f"{what} in {list(seen.tokens)}")
    alarming = sorted(tokens & _ALARMING)
    if alarming:
        cause = Cause.LAUNCH_FAILED if "BOOT_FAIL" in alarming else None
        return replace(
            _refused(bases, f"{', '.join(alarming)}: not known to have ended"), cause=cause
        )
    match bases[0]:
        case "PENDING":
            return _pending(seen, tokens)
        case "RUNNING":
            return _running(tokens, seen)
        case "SUSPENDED":
            return Meaning(
                ObjectState.RUNNING, held=True, holder=SLURM, note="suspended, keeps its nodes"
            )
        case base:
            return _terminal(base, seen, tokens)


def _refused(bases: list[str], alarm: str) -> Meaning:
    """Not ended: a live base keeps its state, anything else is on some way out."""
    state = ObjectState.ENDING
    if bases == ["PENDING"]:
        state = ObjectState.PENDING
    elif bases == ["RUNNING"]:
        state = ObjectState.RUNNING
    return Meaning(state, alarm=alarm)


def _pending(seen: Evidence, tokens: frozenset[str]) -> Meaning:
    if tokens & _STILL_ENDING:
        return Meaning(ObjectState.ENDING, note="to be run again; its earlier run hasn't ended yet")
    words = f"{seen.reason} {seen.description}".lower().replace("_", " ")
    pending = Meaning(ObjectState.PENDING, held=seen.held)
    if (
        tokens & _LAUNCH_FLAGS
        or "launch failed" in words
        or (seen.held and seen.exit.signal == _SIGNAL_LAUNCH)
    ):
        return replace(
            pending,
            held=True,
            holder=SLURM,
            cause=Cause.LAUNCH_FAILED,
            note="prolog or launch failed; Slurm holds it back",
        )
    holder = _HOLDERS.get(seen.reason)
    if tokens & _SITE_HOLD_FLAGS or "requeued in held state" in words:
        holder = holder or SITE
    if holder is not None:
        return replace(
            pending,
            held=True,
            holder=holder,
            cause=Cause.HELD_OUTSIDE,
            note=f"held by {'Slurm' if holder == SLURM else 'the ' + holder}",
        )
    if _never_runs(seen.reason):
        return replace(
            pending,
            cause=Cause.UNSCHEDULABLE,
            holder=SLURM if seen.held else None,
            note="never runs as it is",
        )
    if seen.reason == "JobHeldUser":
        return replace(pending, held=True)
    if seen.restarts and seen.reason in ("BeginTime", "NonZeroExitCode"):
        return replace(pending, note="requeued; accounting knows why")
    return pending


def _never_runs(reason: str) -> bool:
    """Return whether a pending reason stays as long as the job is what it is."""
    return reason in _NEVER or (
        reason.startswith(("QOSMax", "AssocMax", "QOSMin", "AssocMin"))
        and reason.removesuffix("Limit").endswith("PerJob")
    )


def _running(tokens: frozenset[str], seen: Evidence) -> Meaning:
    if tokens & _STILL_ENDING or tokens & _RUN_AGAIN:
        return Meaning(ObjectState.ENDING)
    if tokens & {"CONFIGURING", "POWER_UP_NODE"} or seen.reason == "Prolog":
        return Meaning(ObjectState.PENDING, note="its nodes boot or run their prolog: not started")
    if "STOPPED" in tokens:
        return Meaning(ObjectState.RUNNING, note="stopped by a signal, keeps its nodes")
    note = "it runs; it would be held if it were requeued" if seen.held else ""
    return Meaning(ObjectState.RUNNING, note=note)


def _terminal(base: str, seen: Evidence, tokens: frozenset[str]) -> Meaning:
    if tokens & _STILL_ENDING:
        return Meaning(ObjectState.ENDING, note="ended, not yet stopped on all its nodes")
    if tokens & _RUN_AGAIN:
        again = _pending(replace(seen, held=seen.held), tokens)
        return replace(again, note=again.note or "to be run again")
    match base:
        case "COMPLETED":
            return _completed(seen)
        case "FAILED":
            return _failed(seen, tokens)
        case "CANCELLED":
            return _cancelled(seen)
        case "NODE_FAIL":
            return Meaning(
                ObjectState.FAILED,
                Cause.NODE_LOST,
                lost=seen.ran,
                note="its node was lost: no proof that the process stopped",
            )
        case "OUT_OF_MEMORY":
            return Meaning(ObjectState.FAILED, Cause.OUT_OF_MEMORY)
        case "TIMEOUT":
            return _ended(seen, Cause.TIMEOUT)
        case "PREEMPTED":
            return _ended(seen, Cause.PREEMPTED)
        case "DEADLINE":
            return _ended(seen, Cause.DEADLINE)
        case _:  # every base is named above; a new one is a fault of this table
            return _refused([base], f"{base} has no meaning here")


def _completed(seen: Evidence) -> Meaning:
    code, signal = seen.exit.code, seen.exit.signal
    if code not in (None, 0) or signal not in (None, 0):
        return _refused(["COMPLETED"], f"COMPLETED with exit {code} and signal {signal}")
    return Meaning(ObjectState.SUCCEEDED, exit_code=0)


def _failed(seen: Evidence, tokens: frozenset[str]) -> Meaning:
    if seen.exit.signal == _SIGNAL_OOM or seen.reason == "OutOfMemory":
        return Meaning(ObjectState.FAILED, Cause.OUT_OF_MEMORY)
    if seen.exit.signal == _SIGNAL_OUTPUT:
        return Meaning(
            ObjectState.FAILED, Cause.LAUNCH_FAILED, note="its output file couldn't be opened"
        )
    if (
        tokens & _LAUNCH_FLAGS
        or seen.exit.signal == _SIGNAL_LAUNCH
        or seen.reason == "JobLaunchFailure"
    ):
        return Meaning(ObjectState.FAILED, Cause.LAUNCH_FAILED)
    if _never_runs(seen.reason):
        return Meaning(
            ObjectState.FAILED, Cause.UNSCHEDULABLE, note="refused at submit; it never ran"
        )
    if not seen.ran and not seen.exit.code and not seen.exit.signal:
        return Meaning(ObjectState.FAILED, Cause.LAUNCH_FAILED, note="it never had a node")
    return _ended(seen, Cause.APP_ERROR)


def _cancelled(seen: Evidence) -> Meaning:
    if seen.exit.signal == _SIGNAL_LAUNCH:
        return Meaning(
            ObjectState.FAILED, Cause.LAUNCH_FAILED, note="launch failure; nobody cancelled it"
        )
    outside = bool(seen.killed_by) and seen.killed_by != seen.user
    cause = Cause.STOPPED_OUTSIDE if outside else Cause.STOPPED
    by = f" by {seen.killed_by}" if seen.killed_by else ""
    if not seen.ran:
        return Meaning(ObjectState.FAILED, cause, note=f"cancelled{by} before it ran")
    if not seen.exit.signal and not seen.exit.code:
        # Slurm writes no exit when the node couldn't be told: the process was seen to run on.
        return Meaning(
            ObjectState.FAILED,
            cause,
            lost=True,
            note=f"cancelled{by} without an exit: the process may run on",
        )
    return replace(_ended(seen, cause), note=f"cancelled{by}" if by else "")


def _ended(seen: Evidence, cause: Cause) -> Meaning:
    signal = seen.exit.signal or None
    if signal is not None and signal > _LAST_SIGNAL:
        signal = None
    # A zero is what Slurm writes where no process told of an exit.
    code = (seen.exit.code or None) if signal is None else None
    return Meaning(ObjectState.FAILED, cause, exit_code=code, signal=signal)
