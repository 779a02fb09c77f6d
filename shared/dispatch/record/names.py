"""The vocabularies of the record (protocol §9). An unknown name is refused, never skipped."""

from __future__ import annotations

from enum import StrEnum


class Desired(StrEnum):
    """What a person wants of the job."""

    RUN = "run"
    HOLD = "hold"
    CANCEL = "cancel"


class Outcome(StrEnum):
    """How the job ended, for good."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class IntentKind(StrEnum):
    """The seven control intents (frozen with `dispatch.control.v1`)."""

    CANCEL = "cancel"
    HOLD = "hold"
    RELEASE = "release"
    REQUEUE = "requeue"
    RESUBMIT = "resubmit"
    GIVE_UP = "give_up"
    ABANDON = "abandon"


class ObjectState(StrEnum):
    """What a scheduler's object is doing; `held` stands beside it."""

    PENDING = "pending"
    RUNNING = "running"
    ENDING = "ending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    GONE = "gone"


ENDED_STATES = frozenset({ObjectState.SUCCEEDED, ObjectState.FAILED, ObjectState.GONE})
LIVE_STATES = frozenset(ObjectState) - ENDED_STATES


class Cause(StrEnum):
    """Why a run ended or waits; two causes that a person would treat differently are two names."""

    PREEMPTED = "preempted"
    NODE_LOST = "node_lost"
    OUT_OF_MEMORY = "out_of_memory"
    TIMEOUT = "timeout"
    NO_CAPACITY = "no_capacity"
    APP_ERROR = "app_error"
    LAUNCH_FAILED = "launch_failed"
    IMAGE_PULL_FAILED = "image_pull_failed"
    EVICTED = "evicted"
    DISK_PRESSURE = "disk_pressure"
    STOPPED = "stopped"
    STOPPED_OUTSIDE = "stopped_outside"
    INTERRUPTED = "interrupted"
    DEVICE_FAILED = "device_failed"
    NODE_PRESSURE = "node_pressure"
    NODE_SHUTDOWN = "node_shutdown"
    NODE_REJECTED = "node_rejected"
    START_REFUSED = "start_refused"
    NAME_TAKEN = "name_taken"
    START_FAILED = "start_failed"
    LOST = "lost"
    GIVEN_UP = "given_up"
    UNSCHEDULABLE = "unschedulable"
    INVALID_SPEC = "invalid_spec"
    HELD_OUTSIDE = "held_outside"
    DEADLINE = "deadline"


class ReplyResult(StrEnum):
    """What a Start's reply said."""

    STARTED = "started"
    REFUSED = "refused"
    NOT_SENT = "not_sent"


class UnmatchedPolicy(StrEnum):
    """What follows an attempt that no Find could match before its deadline passed."""

    RETRY = "retry"
    MANUAL = "manual"


class Action(StrEnum):
    """What a plan does about a cause."""

    REQUEUE = "requeue"
    RESUBMIT = "resubmit"
    HOLD = "hold"
    FAIL = "fail"


class Capability(StrEnum):
    """What a cluster declares that it can do; what isn't declared raises `Unsupported`."""

    GATED_START = "gated_start"
    HOLD_PENDING = "hold_pending"
    HOLD_RUNNING = "hold_running"
    REQUEUE_LIVE = "requeue_live"
    REQUEUE_ENDED = "requeue_ended"
    EXIT_CODES = "exit_codes"
    LOOKUP = "lookup"
    OUTPUT = "output"
    UNIQUE_NAMES = "unique_names"
