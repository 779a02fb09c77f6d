"""Numbers and times as Slurm writes them, in every shape; what is none is None, never an error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

_NO_VALUE: Final = 0xFFFF_FFF0
"""From here up, 32 bits are Slurm's marks for "infinite", "unset" and the like."""

_DIGITS: Final = 19
"""More digits than any number of Slurm's has; Python refuses to read very long ones."""


def integer(value: Any) -> int | None:
    """Return a whole number that was written as one."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def number(value: Any) -> int | None:
    """Return a number in either shape; infinite, unset and Slurm's marks are none."""
    if isinstance(value, Mapping):
        if not value.get("set") or value.get("infinite"):
            return None
        value = value.get("number")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    whole = int(value)
    return whole if 0 <= whole < _NO_VALUE else None


def positive(value: Any) -> int | None:
    """Return a number above zero, also where it is written as digits (ids are, in places)."""
    if isinstance(value, str):
        value = int(value) if value.isdecimal() and len(value) <= _DIGITS else None
    found = number(value)
    return found if found else None


def instant(value: Any) -> datetime | None:
    """Return a time from seconds since 1970, in either shape; 0 and the marks are none."""
    seconds = number(value)
    return datetime.fromtimestamp(seconds, UTC) if seconds else None
