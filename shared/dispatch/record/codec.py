"""Strict decoding and canonical encoding of every body that is ever written.

Canonical: UTF-8 JSON, keys sorted, no spaces, no nulls, times as `…Z` with microseconds. What
can't be decoded is refused with the rule and the field it broke, never skipped (seed, "Schemas
that refuse what they don't know").
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from math import isinf
from typing import Annotated, Any, NoReturn, TypeVar, get_args

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from dispatch.errors import RecordRefused, SchemaRefused, UnknownName
from dispatch.record.control import CONTROL_SCHEMA, Control
from dispatch.record.fact import FACT_SCHEMA, Fact, Observed
from dispatch.record.header import HEADER_SCHEMA, Header, Spec
from dispatch.record.view import Envelope

_Body = TypeVar("_Body")

_MAX_DIGITS = 4_000
"""Digits of one number; longer ones can't be read at all."""

Entry = Control | Fact
"""What may be appended to a record."""

_FACT: TypeAdapter[Fact] = TypeAdapter(Annotated[Fact, Field(discriminator="fact")])
_TAGS = frozenset(get_args(kind.model_fields["fact"].annotation)[0] for kind in get_args(Fact))
_HEADER: TypeAdapter[Header] = TypeAdapter(Header)
_CONTROL: TypeAdapter[Control] = TypeAdapter(Control)

_CANONICAL = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)

_RULES = {
    "extra_forbidden": "unknown_field",
    "missing": "missing_field",
    "enum": "unknown_name",
    "literal_error": "unknown_name",
    "union_tag_invalid": "unknown_name",
    "union_tag_not_found": "missing_field",
    "finite_number": "not_finite",
    "time_naive": "time_naive",
    "time_not_utc": "time_not_utc",
    "model_type": "wrong_type",
    "dict_type": "wrong_type",
    "tuple_type": "wrong_type",
    "string_type": "wrong_type",
    "int_type": "wrong_type",
    "int_from_float": "wrong_type",
    "float_type": "wrong_type",
    "bool_type": "wrong_type",
    "datetime_type": "wrong_type",
    "datetime_parsing": "time_malformed",
    "datetime_from_date_parsing": "time_malformed",
    "string_too_long": "too_long",
    "too_long": "too_long",
    "string_too_short": "too_short",
    "too_short": "too_short",
    "string_pattern_mismatch": "malformed",
    "greater_than_equal": "out_of_range",
    "less_than_equal": "out_of_range",
    "less_than": "out_of_range",
    "json_invalid": "malformed_json",
    "string_unicode": "malformed_json",
}
"""pydantic's error types → the record's own rule names; what isn't listed keeps its own."""


def encode(model: BaseModel) -> str:
    """Return a body's one canonical text."""
    return canonical(model.model_dump(mode="json", exclude_none=True))


def canonical(value: Any) -> str:
    """Return the canonical JSON text of plain data; NaN and infinities are a `ValueError`."""
    return _CANONICAL.encode(value)


def spec_digest(spec: Spec) -> str:
    """Return the SHA-256 of a spec's canonical JSON, hex."""
    return sha256(encode(spec).encode()).hexdigest()


def envelope(entry: Header | Entry, token: str = "") -> Envelope:
    """Return an entry as it is stored."""
    match entry:
        case Header():
            return Envelope(HEADER_SCHEMA, encode(entry), token)
        case Control():
            return Envelope(CONTROL_SCHEMA, encode(entry), token)
        case _:
            return Envelope(FACT_SCHEMA, encode(entry), token)


def decode_header(stored: Envelope, *, job: str | None = None) -> Header:
    """Return the header.

    Raises:
        SchemaRefused: It isn't a header this build knows, or its digest isn't its spec's.
        UnknownName: It uses a name this build doesn't know.
    """
    if stored.schema != HEADER_SCHEMA:
        raise SchemaRefused(
            f"unknown header schema {stored.schema!r}", job=job, entry=0, rule="unknown_schema"
        )
    header = _validated(_HEADER, stored.body, job, 0)
    if header.spec_digest != spec_digest(header.spec):
        raise SchemaRefused(
            "it isn't the digest of the spec",
            job=job,
            entry=0,
            field="spec_digest",
            rule="digest_mismatch",
        )
    return header


def decode_entry(stored: Envelope, *, job: str | None = None, entry: int | None = None) -> Entry:
    """Return one entry of the history.

    Args:
        stored: The entry as stored.
        job: The job, for the error.
        entry: The entry's number, for the error.

    Raises:
        SchemaRefused: The schema, a field, a type or a time isn't one this build knows.
        UnknownName: It uses a name this build doesn't know.
    """
    if stored.schema == FACT_SCHEMA:
        return _validated(_FACT, stored.body, job, entry)
    if stored.schema == CONTROL_SCHEMA:
        return _validated(_CONTROL, stored.body, job, entry)
    raise SchemaRefused(
        f"unknown entry schema {stored.schema!r}: neither a control intent nor a fact",
        job=job,
        entry=entry,
        rule="unknown_schema",
    )


def parse_strict(text: str, *, job: str | None = None, entry: int | None = None) -> Any:
    """Return the plain data of one JSON text, or refuse it with its own rule.

    Raises:
        SchemaRefused: malformed JSON, trailing data, a duplicate key, NaN, an infinity, or a
            number of thousands of digits.
    """
    try:
        return _STRICT.decode(text)
    except _Refusal as refusal:
        raise SchemaRefused(
            refusal.text, job=job, entry=entry, field=_place(text, refusal.rule), rule=refusal.rule
        ) from None
    except json.JSONDecodeError as error:
        rule = "trailing_data" if error.msg == "Extra data" else "malformed_json"
        message = f"{error.msg.lower()} at character {error.pos}"
        raise SchemaRefused(message, job=job, entry=entry, rule=rule) from None
    except ValueError:
        raise SchemaRefused(
            "a number with too many digits",
            job=job,
            entry=entry,
            field=_place(text, "out_of_range"),
            rule="out_of_range",
        ) from None
    except RecursionError:
        raise SchemaRefused(
            "nested too deeply", job=job, entry=entry, rule="malformed_json"
        ) from None


class _Refusal(Exception):
    def __init__(self, rule: str, text: str) -> None:
        super().__init__(text)
        self.rule = rule
        self.text = text


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise _Refusal("duplicate_key", "the key stands twice")
    return result


def _no_constant(name: str) -> NoReturn:
    raise _Refusal("not_finite", f"{name} is no number of a record")


def _finite(digits: str) -> float:
    value = float(digits)
    if isinf(value):
        raise _Refusal("not_finite", f"{digits} is no number of a record")
    return value


_STRICT = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite
)


@dataclass(frozen=True, slots=True)
class _Flaw:
    rule: str


def _marked(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, value in pairs:
        result[name] = _Flaw("duplicate_key") if name in result else value
    return result


_MARKING = json.JSONDecoder(
    object_pairs_hook=_marked,
    parse_constant=lambda _: _Flaw("not_finite"),
    parse_float=lambda digits: _Flaw("not_finite") if isinf(float(digits)) else 0,
    parse_int=lambda digits: _Flaw("out_of_range") if len(digits) > _MAX_DIGITS else 0,
)
"""Reads what `_STRICT` refused once more, with a mark where the flaw is."""


def _place(text: str, rule: str) -> str | None:
    """Return the dotted field at which a text breaks a rule, if the rest of it can be read."""
    try:
        todo: list[tuple[str, Any]] = [("", _MARKING.decode(text))]
    except (ValueError, RecursionError):
        return None
    while todo:
        place, value = todo.pop()
        if value == _Flaw(rule):
            return place.removeprefix(".") or None
        if isinstance(value, dict):
            todo += [(f"{place}.{name}", inner) for name, inner in reversed(value.items())]
        elif isinstance(value, list):
            inside = list(enumerate(value))
            todo += [(f"{place}.{index}", inner) for index, inner in reversed(inside)]
    return None


def _validated(adapter: TypeAdapter[_Body], text: str, job: str | None, entry: int | None) -> _Body:
    """Return the body of a text; it is parsed once unless something about it is unusual."""
    try:
        body: _Body = adapter.validator.validate_json(text)
    except ValidationError as error:
        parse_strict(text, job=job, entry=entry)  # what it refuses, it refuses by its own rule
        raise refusal(error, job=job, entry=entry) from None
    if not _surely_strict(text, body):
        parse_strict(text, job=job, entry=entry)
    return body


def _surely_strict(text: str, body: Any) -> bool:
    """Return whether no key of a text that became this body can stand twice in it.

    pydantic refuses all that `parse_strict` does but a key that stands twice. Without escapes, and
    without a blank behind a quote, each key is followed by `":` at once, so there are at most as
    many keys as `":`; and at least as many as fields were set. Where both agree, none stands twice.
    """
    if "\\" in text or "\n" in text or "\t" in text or "\r" in text:
        return False
    if " " in text and '" ' in text:
        return False
    if isinstance(body, Header):
        keys = _keys(body)
    else:
        keys = len(body.__pydantic_fields_set__)
        if isinstance(body, Observed):
            for one in body.objects:
                keys += len(one.__pydantic_fields_set__)
    return text.count('":') == keys


def _keys(value: Any) -> int:
    """Return how many keys the text of a value has, its defaults left out."""
    if isinstance(value, BaseModel):
        inside = [getattr(value, name) for name in value.__pydantic_fields_set__]
    elif isinstance(value, dict):
        inside = list(value.values())
    else:
        return 0
    return len(inside) + sum(_keys(one) for one in inside)


def refusal(
    error: ValidationError, *, job: str | None = None, entry: int | None = None
) -> RecordRefused:
    """Return the record's own error for the first thing that a model refused."""
    first = error.errors(include_url=False, include_input=True)[0]
    kind = first["type"]
    rule = _RULES.get(kind, kind)
    places = [str(part) for part in first["loc"]]
    if places and places[0] in _TAGS:
        places = places[1:]
    if "field" in first.get("ctx", {}):
        places.append(first["ctx"]["field"])
    field = ".".join(places) or None
    message = first["msg"]
    if rule == "unknown_name":
        if kind == "union_tag_invalid":
            field = "fact"
            message = f"unknown fact {first['ctx']['tag']}"
        else:
            message = f"unknown name {first['input']!r}"
        return UnknownName(message, job=job, entry=entry, field=field, rule=rule)
    if kind == "union_tag_not_found":
        field = "fact"
        message = "a fact names its kind"
    return SchemaRefused(message, job=job, entry=entry, field=field, rule=rule)
