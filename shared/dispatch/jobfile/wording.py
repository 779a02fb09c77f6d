"""What pydantic has against a job file, in plain words. Pure."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from dispatch.jobfile.model import FIELDS
from dispatch.jobfile.reading import Place, Problem


def problem_of(error: dict[str, Any], lines: Mapping[Place, int]) -> Problem:
    """Return what pydantic says of a job file, with the field and its line."""
    place = tuple(part for part in error["loc"] if part != "[key]")
    line = next(
        (lines[place[:end]] for end in range(len(place), -1, -1) if place[:end] in lines), None
    )
    dotted = ".".join(str(part) for part in place) or None
    return Problem(_message(error, place), dotted, line or None)


def _message(error: dict[str, Any], place: Place) -> str:
    words = _WORDS.get(error["type"], _as_it_is)
    return words(error, place) or _as_it_is(error, place)


def _as_it_is(error: dict[str, Any], place: Place) -> str:
    del place
    said = str(error["msg"])
    return said[:1].lower() + said[1:]


def _unknown(error: dict[str, Any], place: Place) -> str:
    del error
    near = difflib.get_close_matches(str(place[-1]), FIELDS, n=1)
    return "unknown field" + (f"; did you mean {near[0]!r}?" if near else "")


def _missing(error: dict[str, Any], place: Place) -> str:
    del error, place
    return "it must be given"


def _scalar(error: dict[str, Any], place: Place) -> str | None:
    """Return what is wanted in the place of a value of another type."""
    given = error["input"]
    if place[:1] == ("array",):
        return "a text, a number, true or false is wanted"
    if error["type"] == "int_type":
        return _number(error, place)
    if error["type"] != "string_type":
        return None
    if isinstance(given, bool):
        return f"text is wanted: write it in quotes, '{str(given).lower()}'"
    if isinstance(given, int | float):
        return f"text is wanted: write it in quotes, '{given}'"
    return None


_SPAN = re.compile(r"(?P<number>[0-9]{1,9}(?:\.[0-9]{1,3})?) ?(?P<unit>[smhd])[a-z]*")
_CLOCK = re.compile(r"(?:(?P<days>[0-9]{1,4})-)?(?P<h>[0-9]{1,4}):(?P<m>[0-9]{2}):(?P<s>[0-9]{2})")
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def _number(error: dict[str, Any], place: Place) -> str:
    given = error["input"]
    if not str(place[-1]).endswith("_s"):
        return f"a whole number is wanted, not {_short(given)}"
    seconds = _seconds(given) if isinstance(given, str) else None
    meant = "" if seconds is None else f": write {seconds}"
    return f"a whole number of seconds is wanted, not {_short(given)}{meant}"


def _seconds(text: str) -> int | None:
    """Return the seconds of a span that is written in another way: `90m`, `1.5h`, `2-00:30:00`."""
    if span := _SPAN.fullmatch(text.lower()):
        return round(float(span["number"]) * _UNITS_S[span["unit"]])
    if clock := _CLOCK.fullmatch(text):
        days, hours, minutes, seconds = (int(one or 0) for one in clock.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return None


def _fields(error: dict[str, Any], place: Place) -> str:
    given = error["input"]
    if place[:1] == ("plan",) and len(place) > 1 and isinstance(given, str):
        return f"a rule is wanted, as {{action: {given}}}"
    return "fields are wanted, as {name: value}"


def _several(error: dict[str, Any], place: Place) -> str:
    del error
    if place[:1] == ("array",):
        return "a list of values is wanted, as [1, 2]"
    return "a list is wanted, as [python, train.py]"


def _none(error: dict[str, Any], place: Place) -> str:
    del error, place
    return "at least one is wanted"


def _range(error: dict[str, Any], place: Place) -> str:
    del place
    ((rule, bound),) = error["ctx"].items()
    words = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}[rule]
    return f"{words} {bound:,} is wanted, not {_short(error['input'])}"


def _name(error: dict[str, Any], place: Place) -> str:
    del place
    given, known = error["input"], str(error["ctx"]["expected"])
    names = re.findall(r"'([^']+)'", known)
    near = difflib.get_close_matches(str(given), names, n=1)
    # All of a long list would hide the one that was meant.
    listed = f"one of {known}" if not near or len(names) <= 5 else f"did you mean {near[0]!r}?"
    return f"unknown name {given!r}; {listed}"


def _pattern(error: dict[str, Any], place: Place) -> str | None:
    words = _PATTERNS.get(place)
    return None if words is None else f"{words}, not {_short(error['input'])}"


_PATTERNS: Mapping[Place, str] = {
    ("name",): "at most 63 letters (A to Z, a to z), digits, dots, hyphens and underscores are "
    "wanted, a letter or digit first",
    ("idempotency_key",): "at most 200 printable ASCII characters without spaces are wanted",
}
"""What the patterns of fields say, in words."""


def _short(given: object) -> str:
    text = json.dumps(given, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}…"


_WORDS: Mapping[str, Callable[[dict[str, Any], Place], str | None]] = {
    "extra_forbidden": _unknown,
    "missing": _missing,
    "string_type": _scalar,
    "int_type": _scalar,
    "int_from_float": _number,
    "float_type": _scalar,
    "bool_type": _scalar,
    "model_type": _fields,
    "dict_type": _fields,
    "too_short": _none,
    "tuple_type": _several,
    "enum": _name,
    "string_pattern_mismatch": _pattern,
    "greater_than": _range,
    "greater_than_equal": _range,
    "less_than": _range,
    "less_than_equal": _range,
}
