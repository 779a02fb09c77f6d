"""Facts, `dispatch.fact.v1`: decisions, calls about to be made, and evidence (protocol §4)."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from dispatch.record.evidence import Sighting
from dispatch.record.header import Adjust
from dispatch.record.model import Count, Instant, Model, Name, Ordinal, Ref, Text
from dispatch.record.names import Cause, Outcome, ReplyResult

FACT_SCHEMA = "dispatch.fact.v1"

Trigger = Annotated[
    str,
    Field(
        max_length=160,
        pattern=r"^(initial|rec:[1-9][0-9]*\.[1-9][0-9]*(:f|:h)?|pend:[1-9][0-9]*\.[1-9][0-9]*"
        r"|start/[1-9][0-9]*|ctl:[A-Za-z0-9._:-]+)$",
    ),
]
"""One reason; reserving it makes the reaction happen once, whatever the races."""


class _Fact(Model):
    at: Instant
    by: Name


class Authorized(_Fact):
    """Submission `n` may be started, for one reason; counts the budget of its cause."""

    fact: Literal["authorized"] = "authorized"
    n: Ordinal
    trigger: Trigger
    taken_at: Instant
    cause: Cause | None = None
    adjust: Adjust | None = None


class Attempt(_Fact):
    """A Start is about to be sent; until `deadline` + skew it may land."""

    fact: Literal["attempt"] = "attempt"
    n: Ordinal
    a: Ordinal
    deadline: Instant


class Replied(_Fact):
    """What a Start's reply said; shortens the doubt, safety doesn't need it."""

    fact: Literal["replied"] = "replied"
    n: Ordinal
    a: Ordinal
    result: ReplyResult
    ref: Ref | None = None
    cause: Cause | None = None
    detail: Text | None = None

    @model_validator(mode="after")
    def _fields_fit_the_result(self) -> Self:
        if (self.ref is not None) != (self.result is ReplyResult.STARTED):
            raise PydanticCustomError("ref_misplaced", "a ref goes with started", {"field": "ref"})
        if (self.cause is not None) != (self.result is ReplyResult.REFUSED):
            raise PydanticCustomError(
                "cause_misplaced", "a cause goes with refused", {"field": "cause"}
            )
        return self


class Observed(_Fact):
    """What a Find or a Lookup showed, as far as it is news or closes a call."""

    fact: Literal["observed"] = "observed"
    taken_at: Instant
    seen_at: Instant
    objects: Annotated[tuple[Sighting, ...], Field(min_length=1)]


class Unmatched(_Fact):
    """No complete Find begun after the deadline shows this attempt: it can't land any more."""

    fact: Literal["unmatched"] = "unmatched"
    n: Ordinal
    a: Ordinal
    taken_at: Instant


class Canonical(_Fact):
    """This object is the run of submission `n`."""

    fact: Literal["canonical"] = "canonical"
    n: Ordinal
    ref: Ref


class Retired(_Fact):
    """This object must be stopped, for ever."""

    fact: Literal["retired"] = "retired"
    ref: Ref
    reason: Text


class Expired(_Fact):
    """The plan's pending limit passed: the object is stopped and ends with this cause."""

    fact: Literal["expired"] = "expired"
    ref: Ref
    cause: Cause
    trigger: Trigger


class Released(_Fact):
    """The gate opens for this object: from here on it may have run."""

    fact: Literal["released"] = "released"
    ref: Ref


class HoldCall(_Fact):
    """A Hold is about to be sent; it may land until `deadline` + skew."""

    fact: Literal["hold_call"] = "hold_call"
    ref: Ref
    run: Ordinal
    restarts: Count
    deadline: Instant


class RequeueCall(_Fact):
    """A Requeue is about to be sent; a late one can raise an ended object."""

    fact: Literal["requeue_call"] = "requeue_call"
    ref: Ref
    run: Ordinal
    restarts: Count
    deadline: Instant
    trigger: Trigger
    cause: Cause | None = None


class RecoveryHold(_Fact):
    """The plan says to ask a person."""

    fact: Literal["recovery_hold"] = "recovery_hold"
    cause: Cause
    trigger: Trigger
    detail: Text | None = None


class OutcomeFact(_Fact):
    """How the job ended; `cancelled` is never a fact but an intent."""

    fact: Literal["outcome"] = "outcome"
    state: Outcome
    cause: Cause | None = None
    detail: Text | None = None

    @model_validator(mode="after")
    def _cause_fits(self) -> Self:
        if (self.cause is not None) != (self.state is Outcome.FAILED):
            raise PydanticCustomError(
                "cause_misplaced", "a cause goes with failed", {"field": "cause"}
            )
        return self


class Escalated(_Fact):
    """A person is told, once for each key."""

    fact: Literal["escalated"] = "escalated"
    key: Annotated[str, Field(min_length=1, max_length=640)]
    code: Name
    detail: Text


class Settled(_Fact):
    """Nothing is left running, on a complete Find begun at `taken_at`."""

    fact: Literal["settled"] = "settled"
    taken_at: Instant


Fact = (
    Authorized
    | Attempt
    | Replied
    | Observed
    | Unmatched
    | Canonical
    | Retired
    | Expired
    | Released
    | HoldCall
    | RequeueCall
    | RecoveryHold
    | OutcomeFact
    | Escalated
    | Settled
)
"""Every fact of `dispatch.fact.v1`."""
