"""The frozen parts of a folded job: attempts, submissions, runs, objects, calls, holds.

They are tuples with names: fold makes a part anew for nearly every entry, and a tuple costs a
fifth of a frozen dataclass to make and to compare (ADR 33).
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from dispatch.record.header import Adjust
from dispatch.record.names import (
    ENDED_STATES,
    Cause,
    IntentKind,
    ObjectState,
    Outcome,
    ReplyResult,
)


class AttemptState(StrEnum):
    """What is known of one Start; unknown means that it may still land."""

    UNKNOWN = "unknown"
    STARTED = "started"
    REFUSED = "refused"
    UNMATCHED = "unmatched"
    ABANDONED = "abandoned"


class CallState(StrEnum):
    """What became of a hold or requeue call."""

    OPEN = "open"
    LANDED = "landed"
    EXPIRED = "expired"


class CallKind(StrEnum):
    """The two calls that may land late."""

    HOLD = "hold"
    REQUEUE = "requeue"


class Effect(StrEnum):
    """What a control intent did where it stands in the history."""

    APPLIED = "applied"
    ALREADY = "already"
    NO_EFFECT = "no_effect"


class Attempt(NamedTuple):
    """One Start of one submission.

    Attributes:
        n: The submission.
        a: The attempt, 1 first.
        at: When it was recorded.
        deadline: When it can't land any more, without skew.
        state: What is known of it.
        result: What its reply said, if one was recorded.
        ref: The object its reply named.
        cause: Why it was refused.
        detail: The scheduler's words.
        counts: Whether it counts in `start_retries`.
    """

    n: int
    a: int
    at: datetime
    deadline: datetime
    state: AttemptState = AttemptState.UNKNOWN
    result: ReplyResult | None = None
    ref: str | None = None
    cause: Cause | None = None
    detail: str | None = None
    counts: bool = True


class Submission(NamedTuple):
    """One authorization to start.

    Attributes:
        n: 1 first.
        trigger: The one reason it answers.
        at: When it was authorized.
        taken_at: When the look began that showed the one before it closed.
        cause: The cause whose budget it counts in.
        adjust: What the plan changed.
        last_a: Its latest attempt, 0 before the first.
        uncounted: Its attempts that don't count in `start_retries`.
        canonical: The ref of the object that is its run.
    """

    n: int
    trigger: str
    at: datetime
    taken_at: datetime
    cause: Cause | None
    adjust: Adjust | None
    last_a: int = 0
    uncounted: int = 0
    canonical: str | None = None


class Run(NamedTuple):
    """One run of one object; an object may run several times (protocol §5, "Runs").

    Attributes:
        r: Its ordinal, in the order seen.
        restarts: What the scheduler said.
        state: The latest recorded state; an end is sticky within the run.
        first_seen_at: When it was first seen.
        cause: Why it ended, or the lasting reason it waits for.
        held: Whether it is held back.
        holder: Who holds it, where it is known not to be Dispatch.
        exit_code: Where known.
        signal: Where known.
        nodes: Where it runs or ran.
        started_at: By the scheduler's clock.
        ended_at: By the scheduler's clock.
        lost_at: When its node was lost; the process may outlive this by the node-loss window.
        reason: The scheduler's words.
        source: Which book it was read from.
        waiting_since: Since when it has been pending for the same lasting cause.
        ended_seen_at: When its end was first seen.
        executed: Whether it was ever seen to have executed.
    """

    r: int
    restarts: int
    state: ObjectState
    first_seen_at: datetime
    cause: Cause | None = None
    held: bool = False
    holder: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    nodes: tuple[str, ...] = ()
    started_at: datetime | None = None
    ended_at: datetime | None = None
    lost_at: datetime | None = None
    reason: str | None = None
    source: str = "reply"
    waiting_since: datetime | None = None
    ended_seen_at: datetime | None = None
    executed: bool = False

    @property
    def ended(self) -> bool:
        """Whether an end of this run is recorded; `gone` is one (protocol §5)."""
        return self.state in ENDED_STATES


class SchedulerObject(NamedTuple):
    """One object of the scheduler's that was ever recorded.

    Attributes:
        ref: Its identity.
        n: The submission in its tag.
        a: The attempt in its tag.
        recorded_at: When it was first recorded; absence counts only after it.
        run: Its latest run.
        foreign: It carries the job's tag but isn't this record's; sticky.
        newest: The `taken_at` of the newest Find that was merged into it.
        hazard_from: When a run began while an earlier one may still be executing.
        ours_held: Whether a hold it is in may be ours: the gate, or a hold call.
        opened_at: Since when it has been seen not held.
        retired: Why it must be stopped for ever.
        retired_at: Since when.
        abandoned: A person vouched for it.
        released_at: When its gate was first opened.
        expired: The cause it ends with, once the plan's pending limit passed.
        expired_at: Since when.
    """

    ref: str
    n: int
    a: int
    recorded_at: datetime
    run: Run
    foreign: bool = False
    newest: datetime | None = None
    hazard_from: datetime | None = None
    ours_held: bool = False
    opened_at: datetime | None = None
    retired: str | None = None
    retired_at: datetime | None = None
    abandoned: bool = False
    released_at: datetime | None = None
    expired: Cause | None = None
    expired_at: datetime | None = None

    @property
    def ended(self) -> bool:
        """Whether its latest run has ended."""
        return self.run.state in ENDED_STATES

    @property
    def cause(self) -> Cause | None:
        """Why it ended: the pending limit's cause, or its run's own."""
        return self.expired if self.expired is not None and self.ended else self.run.cause


class Call(NamedTuple):
    """A hold or requeue call that was recorded before it was made.

    Attributes:
        kind: Hold or requeue.
        ref: The object.
        n: Its submission.
        run: The run it was aimed at.
        restarts: The restarts then.
        at: When it was recorded.
        deadline: When it can't land any more, without skew.
        state: Open, landed or expired.
        final: Whether that can't change any more.
        trigger: The reason that a requeue call answers.
        cause: The cause whose budget it counts in.
    """

    kind: CallKind
    ref: str
    n: int
    run: int
    restarts: int
    at: datetime
    deadline: datetime
    state: CallState = CallState.OPEN
    final: bool = False
    trigger: str | None = None
    cause: Cause | None = None


class UserHold(NamedTuple):
    """A person's hold.

    Attributes:
        by: Whose.
        at: Since when.
        reason: In their words.
    """

    by: str
    at: datetime
    reason: str | None


class RecoveryWait(NamedTuple):
    """A hold in which the plan asks a person.

    Attributes:
        cause: About what.
        at: Since when.
        trigger: The reason it answers.
        detail: For people.
    """

    cause: Cause
    at: datetime
    trigger: str
    detail: str | None


class Pending(NamedTuple):
    """A requeue or resubmit that is wanted and not yet begun.

    Attributes:
        trigger: The reason it answers.
        at: Since when.
        cause: The cause whose budget it counted in, for a fall-back.
    """

    trigger: str
    at: datetime
    cause: Cause | None = None


class Escalation(NamedTuple):
    """Something a person was told.

    Attributes:
        key: Once for each key.
        code: What kind of thing.
        detail: The sentence.
        at: When.
    """

    key: str
    code: str
    detail: str
    at: datetime


class Ending(NamedTuple):
    """How the job ended, for good.

    Attributes:
        state: Succeeded, failed or cancelled.
        at: When.
        by: Whose word it was.
        cause: Why it failed.
        detail: For people.
    """

    state: Outcome
    at: datetime
    by: str
    cause: Cause | None = None
    detail: str | None = None


class Wish(NamedTuple):
    """A control intent as Fold met it.

    Attributes:
        kind: What was wanted.
        by: By whom.
        at: When.
        effect: What it did.
        note: Why it did nothing, or what to know about it.
        outcome: The outcome it met or made.
    """

    kind: IntentKind
    by: str
    at: datetime
    effect: Effect
    note: str | None
    outcome: Outcome | None
