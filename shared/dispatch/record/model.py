"""The strict, frozen model that every written body is made of, and the types its fields share."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
)
from pydantic_core import PydanticCustomError

_ZERO = timedelta(0)
_TIME = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?([+-]\d\d:\d\d|Z)?\Z", re.ASCII
).match
_read = datetime.fromisoformat

_FIRST_YEAR, _LAST_YEAR = 1970, 9000
"""Years that are written; a deadline or window added to the last still is a time."""


def _instant(value: Any) -> Any:
    """Return a time as it is kept; what is neither a time nor its text is left to be refused."""
    if isinstance(value, str):
        if not _TIME(value):
            raise _malformed()
        try:
            value = _read(value)
        except ValueError:
            raise _malformed() from None
    elif not isinstance(value, datetime):
        return value
    if value.tzinfo is not UTC:
        value = _utc(value)
    if not _FIRST_YEAR <= value.year <= _LAST_YEAR:
        raise PydanticCustomError("time_out_of_range", "a time outside of 1970 to 9000")
    return value


def _malformed() -> PydanticCustomError:
    return PydanticCustomError("time_malformed", "a time is written 2026-01-31T12:00:00Z")


def _utc(value: datetime) -> datetime:
    offset = value.utcoffset()
    if offset is None:
        raise PydanticCustomError("time_naive", "a time without a zone: UTC is required")
    if offset != _ZERO:
        raise PydanticCustomError("time_not_utc", "a time that isn't in UTC")
    return value.replace(tzinfo=UTC)


def instant_text(value: datetime) -> str:
    """Return the one written form of a time: UTC, microseconds, `Z`."""
    return value.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


Instant = Annotated[
    datetime,
    BeforeValidator(_instant),
    PlainSerializer(instant_text, return_type=str, when_used="json"),
]
"""An aware UTC time; naive and other zones are refused."""

Name = Annotated[str, Field(min_length=1, max_length=256)]
Text = Annotated[str, Field(max_length=4096)]
Ref = Annotated[str, Field(min_length=1, max_length=512)]
"""The identity of a scheduler's object, unique for ever (protocol §4)."""

Ordinal = Annotated[int, Field(ge=1, lt=1_000_000)]
Count = Annotated[int, Field(ge=0, lt=1_000_000)]
Seconds = Annotated[int, Field(ge=0, le=10 * 366 * 86_400)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
JobId = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]{7,40}$")]


class Model(BaseModel):
    """A frozen body that refuses unknown fields, wrong types, NaN and coercion."""

    model_config = ConfigDict(
        strict=True, frozen=True, extra="forbid", allow_inf_nan=False, ser_json_bytes="utf8"
    )
