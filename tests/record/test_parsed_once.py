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
from dispatch.record.codec import decode_entry, decode_header, encode, parse_strict, refusal
from dispatch.record.control import CONTROL_SCHEMA, Control
from dispatch.record.fact import FACT_SCHEMA, Fact
from dispatch.record.header import HEADER_SCHEMA, Header
from dispatch.record.view import Envelope
from tests.record.samples import ENTRIES, HEADERS

_FACT: TypeAdapter[Any] = TypeAdapter(Annotated[Fact, Field(discriminator="fact")])
_CONTROL: TypeAdapter[Any] = TypeAdapter(Control)
_HEADER: TypeAdapter[Any] = TypeAdapter(Header)
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


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places of all maps in plain data, the outermost first."""
    if isinstance(value, dict):
        inside = [found for key, one in value.items() for found in places(one, (*at, key))]
        return [at, *inside]
    return []


def doubled_at(value: Any, at: tuple[Any, ...], key: str) -> str:
    """The text of plain data in which one key of one map stands twice."""
    if not isinstance(value, dict):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    pairs = [
        (
            one,
            doubled_at(inner, at[1:], key) if at and at[0] == one else doubled_at(inner, ("",), ""),
        )
        for one, inner in value.items()
    ]
    if not at:
        pairs += [pair for pair in pairs if pair[0] == key]
    return "{" + ",".join(f"{json.dumps(one)}:{text}" for one, text in pairs) + "}"


@pytest.mark.parametrize("name", list(HEADERS))
def test_a_key_that_stands_twice_anywhere_in_a_header_is_refused(name: str) -> None:
    plain = json.loads(encode(HEADERS[name]))
    for at in places(plain):
        inner = plain
        for step in at:
            inner = inner[step]
        for key in inner:
            text = doubled_at(plain, at, key)
            with pytest.raises(RecordRefused) as refused:
                decode_header(Envelope(HEADER_SCHEMA, text))
            assert refused.value.rule == "duplicate_key", (at, key)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_header_that_was_tampered_with_meets_the_verdict_of_parsing_it_twice(
    data: st.DataObject,
) -> None:
    body = encode(data.draw(st.sampled_from(list(HEADERS.values()))))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body)))
        to = data.draw(st.integers(at, min(len(body), at + 12)))
        piece = data.draw(st.sampled_from((*PIECES, body[at:to], "")))
        body = body[:at] + piece + body[data.draw(st.sampled_from((at, to))) :]
    try:
        parse_strict(body)
        expected: Any = _HEADER.validate_json(body)
    except RecordRefused as refused:
        expected = type(refused), refused.rule, refused.field
    except ValidationError as error:
        found = refusal(error)
        expected = type(found), found.rule, found.field
    try:
        got: Any = decode_header(Envelope(HEADER_SCHEMA, body))
    except RecordRefused as refused:
        got = type(refused), refused.rule, refused.field
    if isinstance(got, tuple) and got[1] == "digest_mismatch":
        assert isinstance(expected, Header)
    else:
        assert got == expected


def test_most_headers_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []
    monkeypatch.setattr(codec, "parse_strict", lambda text, **where: parsed.append(text))
    plain = [
        one
        for one in HEADERS.values()
        if "\\" not in encode(one) and '" ' not in encode(one) and '":' not in "".join(one.spec.env)
    ]
    for header in plain:
        assert decode_header(Envelope(HEADER_SCHEMA, encode(header))) == header
    assert plain
    assert parsed == []
