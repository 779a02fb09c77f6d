"""Control intents, `dispatch.control.v1`: what a person wants. Frozen.

Facts change as the protocol does; this schema does not, so that a build which can't decode a
newer record's facts can still append a cancel to it (seed, "Schemas that refuse what they don't
know"). A test guards its hash.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from dispatch.record.model import Instant, Model, Name, Ref, Text
from dispatch.record.names import IntentKind

CONTROL_SCHEMA = "dispatch.control.v1"

IntentId = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9._:-]+$")]


class Control(Model):
    """One control intent; a repeated `id` has no effect.

    Attributes:
        kind: What is wanted.
        id: Made by the client, unique within the record.
        by: Who wants it, as the authorizer named them.
        at: When it was accepted, UTC.
        reason: Why, in the person's words.
        target: Only for `abandon`: an attempt (`2.1`) or an object's ref.
    """

    kind: IntentKind
    id: IntentId
    by: Name
    at: Instant
    reason: Text | None = None
    target: Ref | None = None

    @model_validator(mode="after")
    def _target_goes_with_abandon(self) -> Self:
        if (self.target is not None) != (self.kind is IntentKind.ABANDON):
            raise PydanticCustomError(
                "target_misplaced",
                "a target belongs to abandon, and abandon needs one",
                {"field": "target"},
            )
        return self
