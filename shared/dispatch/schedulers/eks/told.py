"""What a document tells a person, and what events tell, which prove nothing by themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from dispatch.record.names import Cause, ObjectState
from dispatch.schedulers.eks.around import Event
from dispatch.schedulers.eks.response import AnswerClass
from dispatch.schedulers.eks.states import POD_EVENTS
from dispatch.schedulers.eks.words import read_message, read_refusal, steady


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a document is worth, and what it shows.

    Attributes:
        answer: Its class.
        what: Which object or error it is, for people.
        state: What the object is doing, where it shows one.
        cause: Why it ended or waits without an end.
        exit_code: Of the process that decided.
        signal: Of the process that decided, where the runtime names it.
        held: Whether it is suspended and nothing of it runs.
        restarts: How often it was started again in place.
        unproven: Whether the document lacks evidence that the state needs.
        nodes: Where it runs or ran.
        started_at: When it started.
        ended_at: When it ended.
        lost_at: When its node was lost.
        detail: The scheduler's words and what follows from them.
        parts: The same of each pod, where there are several.
    """

    answer: AnswerClass
    what: str
    state: ObjectState | None = None
    cause: Cause | None = None
    exit_code: int | None = None
    signal: int | None = None
    held: bool = False
    restarts: int = 0
    unproven: bool = False
    nodes: tuple[str, ...] = ()
    started_at: datetime | None = None
    ended_at: datetime | None = None
    lost_at: datetime | None = None
    detail: str = ""
    parts: tuple[Explanation, ...] = ()


_EVENT_ENDS: dict[str, tuple[ObjectState, Cause | None]] = {
    "BackoffLimitExceeded": (ObjectState.FAILED, Cause.LOST),
    "Completed": (ObjectState.SUCCEEDED, None),
    "DeadlineExceeded": (ObjectState.FAILED, Cause.TIMEOUT),
    "Evicted": (ObjectState.ENDING, Cause.NODE_PRESSURE),
    "Killing": (ObjectState.ENDING, None),
    "NodeNotReady": (ObjectState.RUNNING, Cause.NODE_LOST),
    "Preempted": (ObjectState.ENDING, Cause.PREEMPTED),
    "Preempting": (ObjectState.ENDING, Cause.PREEMPTED),
    "Resumed": (ObjectState.PENDING, None),
    "Started": (ObjectState.RUNNING, None),
    "Suspended": (ObjectState.PENDING, None),
    "SystemOOM": (ObjectState.RUNNING, Cause.OUT_OF_MEMORY),
    "TaintManagerEviction": (ObjectState.ENDING, Cause.NODE_LOST),
}


def _event(event: Event) -> Explanation:
    state, cause = _EVENT_ENDS.get(event.reason, (ObjectState.PENDING, None))
    code, said = None, f"{event.reason}: {event.message}"
    if event.reason == "PodFailurePolicy":
        state = ObjectState.FAILED
        cause, code = read_message(event.message)
    elif event.reason == "FailedCreate":
        cause, said = read_refusal(event.message)
    elif event.reason == "Evicted" and ("exceeds the limit" in said or "ephemeral" in said):
        cause = Cause.DISK_PRESSURE
    elif event.reason in POD_EVENTS and event.warning:
        cause, said = POD_EVENTS[event.reason], f"{event.reason}: {steady(event.message)}"
    elif event.reason == "Failed" and "mage" in said:
        cause = Cause.IMAGE_PULL_FAILED
    elif event.reason == "Failed" and event.warning:
        runtime = "OCI runtime" in said or "containerd task" in said
        cause = Cause.LAUNCH_FAILED if runtime else Cause.INVALID_SPEC
    return Explanation(
        AnswerClass.SIGHTING,
        f"event about {event.kind} {event.name}",
        state,
        cause,
        code,
        held=event.reason == "Suspended",
        unproven=True,
        detail=said,
    )


def read_events(events: list[Event]) -> Explanation:
    """Read events in their order; the last that says more than a creation or deletion counts."""
    ordered = sorted(events, key=lambda e: e.at.timestamp() if e.at else 0.0)
    parts = tuple(_event(e) for e in ordered)
    quiet = ("SuccessfulCreate", "SuccessfulDelete", "Scheduled", "Pulled", "Pulling", "Created")
    telling = [
        part for event, part in zip(ordered, parts, strict=True) if event.reason not in quiet
    ]
    if not telling:
        return replace(parts[-1], parts=parts)
    return replace(next((p for p in reversed(telling) if p.cause), telling[-1]), parts=parts)
