"""A body is parsed once where that is sure to do: the verdict is that of parsing it twice."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field, TypeAdapter, ValidationError

from dispatch.errors import RecordRefused
from dispatch.record import codec
from dispatch.record.codec import decode_entry, encode, parse_strict, refusal
from dispatch.record.control import CONTROL_SCHEMA, Control
from dispatch.record.fact import FACT_SCHEMA, Fact
from dispatch.record.view import Envelope
from tests.record.samples import ENTRIES

_FACT: TypeAdapter[Any] = TypeAdapter(Annotated[Fact, Field(discriminator="fact")])
_CONTROL: TypeAdapter[Any] = TypeAdapter(Control)
SAMPLES = list(ENTRIES.values())


def schema_of(sample: Any) -> str:
    return CONTROL_SCHEMA if isinstance(sample, Control) else FACT_SCHEMA


def by_parsing_twice(schema: str, body: str) -> Any:
    try:
        parse_strict(body)
        return (_CONTROL if schema == CONTROL_SCHEMA else _FACT).validate_json(body)
    except RecordRefused as refused:
        return type(refused), refused.rule, refused.field
    except ValidationError as error:
        found = refusal(error)
        return type(found), found.rule, found.field


def by_the_codec(schema: str, body: str) -> Any:
    try:
        return decode_entry(Envelope(schema, body))
    except RecordRefused as refused:
        return type(refused), refused.rule, refused.field


PIECES = (
    *('"', ":", '":', '" :', '"\t:', '"\n:', ",", "{", "}", "[", "]", " ", "\r", "\x0c", "\xa0"),
    *("\\", '\\"', "\\u0061", "\\ud800", "\x00", "NaN", "-Infinity", "1e999", "1.0", "null"),
    *('"at"', '"by":"x",', '"n":1,', ',"n":1', '"fact":"attempt",', '"\\u0066act":"attempt",'),
    *('":x"', '" x"', "9" * 30, "é", "\ufeff"),
)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_a_text_that_was_tampered_with_meets_the_verdict_of_parsing_it_twice(
    data: st.DataObject,
) -> None:
    sample = data.draw(st.sampled_from(SAMPLES))
    body = encode(sample)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body)))
        to = data.draw(st.integers(at, min(len(body), at + 12)))
        copied = body[at:to]
        piece = data.draw(st.sampled_from((*PIECES, copied, "")))
        body = body[:at] + piece + body[data.draw(st.sampled_from((at, to))) :]
    schema = schema_of(sample)
    assert by_the_codec(schema, body) == by_parsing_twice(schema, body)


SPACES = ("", " ", "\t", "\n", "\r", " \t")


@pytest.mark.parametrize("sample", SAMPLES, ids=list(ENTRIES))
@pytest.mark.parametrize("before", SPACES, ids=repr)
@pytest.mark.parametrize("after", ["", " "], ids=repr)
def test_a_key_that_stands_twice_is_refused_wherever_the_blanks_are(
    sample: Any, before: str, after: str
) -> None:
    pairs = list(json.loads(encode(sample)).items())
    for name, value in pairs:
        doubled = [*pairs, (name, value)]
        text = "{" + ",".join(
            f"{json.dumps(key)}{before}:{after}{json.dumps(inner)}" for key, inner in doubled
        )
        found = by_the_codec(schema_of(sample), text + "}")
        assert isinstance(found, tuple), name
        assert found[1] == "duplicate_key", name


def test_a_text_that_begins_with_a_colon_doesn_t_hide_a_key_that_stands_twice() -> None:
    body = (
        '{"at":"2026-01-05T12:00:00Z","by":":a","by":":b","code":":","detail":":",'
        '"fact":"escalated","key":":"}'
    )
    assert by_the_codec(FACT_SCHEMA, body)[1] == "duplicate_key"


def test_what_the_product_writes_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The short way is taken: without it every read of a record costs a second parse."""
    parsed = []

    def counted(text: str, **where: Any) -> Any:
        parsed.append(text)
        return parse_strict(text, **where)

    monkeypatch.setattr(codec, "parse_strict", counted)
    plain = [one for one in SAMPLES if "\\" not in encode(one) and '" ' not in encode(one)]
    for sample in plain:
        assert decode_entry(Envelope(schema_of(sample), encode(sample))) == sample
    adjusted = [text for text in parsed if '"adjust"' in text]
    assert len(plain) > len(parsed) == len(adjusted)
