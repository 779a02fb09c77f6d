"""What the codec refuses, each by a rule of its own that names the job, the entry and the field."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from dispatch.errors import InvalidRecord, RecordRefused, SchemaRefused, UnknownName
from dispatch.record.codec import (
    decode_entry,
    decode_header,
    encode,
    envelope,
    parse_strict,
    refusal,
)
from dispatch.record.model import Instant
from dispatch.record.view import Envelope
from tests.record.samples import CONTROLS, ENTRIES, FACTS, HEADERS

CONTROL, FACT, HEADER = "dispatch.control.v1", "dispatch.fact.v1", "dispatch.header.v1"


def body_of(sample: Any, **changes: Any) -> str:
    """A sample's body with some fields changed; None takes a field out."""
    body = json.loads(encode(sample)) | changes
    return json.dumps({name: value for name, value in body.items() if value is not None})


def refused(body: str, schema: str = FACT) -> RecordRefused:
    with pytest.raises(RecordRefused) as caught:
        decode_entry(Envelope(schema, body), job="jabcdefgh", entry=7)
    refusal = caught.value
    assert (refusal.job, refusal.entry) == ("jabcdefgh", 7)
    assert str(refusal).startswith("job jabcdefgh: entry 7: ")
    return refusal


def header_refused(stored: Envelope) -> RecordRefused:
    with pytest.raises(RecordRefused) as caught:
        decode_header(stored, job="jabcdefgh")
    assert (caught.value.job, caught.value.entry) == ("jabcdefgh", 0)
    return caught.value


ATTEMPT, CANCEL = FACTS["fact_attempt"], CONTROLS["control_cancel"]

FIELDS: list[tuple[str, str, str, str]] = [
    ("an unknown field", "unknown_field", "colour", body_of(ATTEMPT, colour="red")),
    ("a missing field", "missing_field", "deadline", body_of(ATTEMPT, deadline=None)),
    ("an unknown fact", "unknown_name", "fact", body_of(ATTEMPT, fact="attempted")),
    ("a fact without a kind", "missing_field", "fact", body_of(ATTEMPT, fact=None)),
    ("a fact of a strange kind", "unknown_name", "fact", body_of(ATTEMPT, fact=["attempt"])),
    (
        "an unknown result",
        "unknown_name",
        "result",
        body_of(FACTS["fact_replied_not_sent"], result="maybe"),
    ),
    (
        "an unknown cause",
        "unknown_name",
        "cause",
        body_of(FACTS["fact_recovery_hold"], cause="bad_luck"),
    ),
    (
        "an unknown state, deep inside",
        "unknown_name",
        "objects.0.state",
        body_of(FACTS["fact_observed"]).replace('"running"', '"walking"'),
    ),
    (
        "an unknown field, deep inside",
        "unknown_field",
        "objects.0.colour",
        body_of(FACTS["fact_observed"]).replace('"held"', '"colour": 1, "held"', 1),
    ),
    ("a naive time", "time_naive", "at", body_of(ATTEMPT, at="2026-01-05T12:00:00")),
    (
        "a time of another zone",
        "time_not_utc",
        "at",
        body_of(ATTEMPT, at="2026-01-05T12:00:00+01:00"),
    ),
    ("a time in words", "time_malformed", "at", body_of(ATTEMPT, at="yesterday")),
    ("a date", "time_malformed", "at", body_of(ATTEMPT, at="2026-01-05")),
    ("a thirteenth month", "time_malformed", "at", body_of(ATTEMPT, at="2026-13-05T12:00:00Z")),
    ("nanoseconds", "time_malformed", "at", body_of(ATTEMPT, at="2026-01-05T12:00:00.1234567Z")),
    ("Arabic digits", "time_malformed", "at", body_of(ATTEMPT, at="٢٠٢٦-01-05T12:00:00Z")),
    ("a time as a number", "wrong_type", "at", body_of(ATTEMPT, at=1767614400)),
    ("a time as a fraction", "wrong_type", "at", body_of(ATTEMPT, at=1767614400.5)),
    (
        "a year before any job",
        "time_out_of_range",
        "at",
        body_of(ATTEMPT, at="0999-01-05T12:00:00Z"),
    ),
    (
        "a year no clock can pass",
        "time_out_of_range",
        "at",
        body_of(ATTEMPT, at="9999-12-31T23:59:59Z"),
    ),
    ("a float for an int", "wrong_type", "n", body_of(ATTEMPT, n=1.0)),
    ("true for an int", "wrong_type", "n", body_of(ATTEMPT, n=True)),
    ("a text for an int", "wrong_type", "n", body_of(ATTEMPT, n="1")),
    ("null for an int", "wrong_type", "n", body_of(ATTEMPT).replace('"n": 1', '"n": null')),
    ("a number for a text", "wrong_type", "by", body_of(ATTEMPT, by=7)),
    ("a text for a list", "wrong_type", "objects", body_of(FACTS["fact_observed"], objects="x")),
    (
        "a number for a bool",
        "wrong_type",
        "objects.0.held",
        body_of(FACTS["fact_observed"]).replace('"held": false', '"held": 0', 1),
    ),
    ("zero for an ordinal", "out_of_range", "n", body_of(ATTEMPT, n=0)),
    ("a million submissions", "out_of_range", "n", body_of(ATTEMPT, n=1_000_000)),
    (
        "negative restarts",
        "out_of_range",
        "restarts",
        body_of(FACTS["fact_hold_call"], restarts=-1),
    ),
    (
        "thousands of digits",
        "out_of_range",
        "n",
        body_of(ATTEMPT).replace('"n": 1', '"n": ' + "9" * 5_000),
    ),
    ("NaN", "not_finite", "n", body_of(ATTEMPT, n=float("nan"))),
    ("Infinity", "not_finite", "n", body_of(ATTEMPT, n=float("inf"))),
    ("-Infinity", "not_finite", "n", body_of(ATTEMPT, n=float("-inf"))),
    ("an overflow", "not_finite", "n", body_of(ATTEMPT).replace('"n": 1', '"n": 1e400')),
    (
        "NaN, deep inside",
        "not_finite",
        "objects.1.signal",
        body_of(FACTS["fact_observed"]).replace('"signal": 9', '"signal": NaN'),
    ),
    (
        "a key that stands twice",
        "duplicate_key",
        "n",
        body_of(ATTEMPT).replace('"n": 1', '"n": 1, "n": 1'),
    ),
    (
        "a key that stands twice, deep inside",
        "duplicate_key",
        "objects.1.held",
        body_of(FACTS["fact_observed"]).replace('"held": true', '"held": true, "held": true'),
    ),
    ("an empty name", "too_short", "by", body_of(ATTEMPT, by="")),
    ("an oversized name", "too_long", "by", body_of(ATTEMPT, by="x" * 257)),
    (
        "an oversized text",
        "too_long",
        "detail",
        body_of(FACTS["fact_escalated"], detail="x" * 4_097),
    ),
    (
        "an oversized list",
        "too_long",
        "adjust.avoid_nodes",
        body_of(FACTS["fact_authorized_adjusted"], adjust={"avoid_nodes": ["n"] * 65}),
    ),
    ("no sightings", "too_short", "objects", body_of(FACTS["fact_observed"], objects=[])),
    (
        "a strange trigger",
        "malformed",
        "trigger",
        body_of(FACTS["fact_authorized"], trigger="why not"),
    ),
    (
        "a trigger in other digits",
        "malformed",
        "trigger",
        body_of(FACTS["fact_authorized"], trigger="rec:1٢.1"),
    ),
    (
        "a ref without a start",
        "ref_misplaced",
        "ref",
        body_of(FACTS["fact_replied_not_sent"], ref="o1"),
    ),
    (
        "a start without a ref",
        "ref_misplaced",
        "ref",
        body_of(FACTS["fact_replied_started"], ref=None),
    ),
    (
        "a refusal without a cause",
        "cause_misplaced",
        "cause",
        body_of(FACTS["fact_replied_refused"], cause=None),
    ),
    (
        "a failure without a cause",
        "cause_misplaced",
        "cause",
        body_of(FACTS["fact_outcome_failed"], cause=None),
    ),
    (
        "a success with a cause",
        "cause_misplaced",
        "cause",
        body_of(FACTS["fact_outcome_succeeded"], cause="timeout"),
    ),
    (
        "a failed object without a cause",
        "cause_missing",
        "objects.0.cause",
        body_of(FACTS["fact_observed"]).replace('"running"', '"failed"'),
    ),
    (
        "a succeeded object with a cause",
        "cause_misplaced",
        "objects.1.cause",
        body_of(FACTS["fact_observed"]).replace('"failed"', '"succeeded"'),
    ),
]


@pytest.mark.parametrize(
    ("rule", "field", "body"), [pytest.param(r, f, b, id=name) for name, r, f, b in FIELDS]
)
def test_a_facts_field_is_refused(rule: str, field: str, body: str) -> None:
    refusal = refused(body)
    assert (refusal.rule, refusal.field) == (rule, field)
    assert f"field {field!r}: " in str(refusal)
    assert isinstance(refusal, UnknownName) == (rule == "unknown_name")


CONTROL_FIELDS: list[tuple[str, str, str, str]] = [
    ("an unknown intent", "unknown_name", "kind", body_of(CANCEL, kind="destroy")),
    ("an unknown field", "unknown_field", "urgent", body_of(CANCEL, urgent=True)),
    ("an id with a blank", "malformed", "id", body_of(CANCEL, id="a b")),
    ("an id with a line end", "malformed", "id", body_of(CANCEL, id="a\n")),
    ("a cancel with a target", "target_misplaced", "target", body_of(CANCEL, target="1.1")),
    (
        "an abandon without a target",
        "target_misplaced",
        "target",
        body_of(CONTROLS["control_abandon"], target=None),
    ),
    ("no actor", "missing_field", "by", body_of(CANCEL, by=None)),
]


@pytest.mark.parametrize(
    ("rule", "field", "body"), [pytest.param(r, f, b, id=name) for name, r, f, b in CONTROL_FIELDS]
)
def test_a_control_intents_field_is_refused(rule: str, field: str, body: str) -> None:
    refusal = refused(body, CONTROL)
    assert (refusal.rule, refusal.field) == (rule, field)


BODIES: list[tuple[str, str, str]] = [
    ("nothing", "malformed_json", ""),
    ("no JSON", "malformed_json", "{'fact': 1}"),
    ("half an object", "malformed_json", '{"fact": "attempt"'),
    ("trailing data", "trailing_data", body_of(ATTEMPT) + " {}"),
    ("a second body", "trailing_data", body_of(ATTEMPT) * 2),
    ("a byte order mark", "malformed_json", "\ufeff" + body_of(ATTEMPT)),
    ("a control character", "malformed_json", body_of(ATTEMPT, by="x").replace('"x"', '"\x01"')),
    (
        "half a surrogate pair",
        "malformed_json",
        body_of(ATTEMPT, by="x").replace('"x"', r'"\ud800"'),
    ),
    (
        "a text that is no text",
        "malformed_json",
        body_of(ATTEMPT, by="x").replace('"x"', '"\ud800"'),
    ),
    ("a list", "wrong_type", "[]"),
    ("a text", "wrong_type", '"attempt"'),
    ("null", "wrong_type", "null"),
    ("a number", "wrong_type", "7"),
    ("deep nesting of lists", "malformed_json", "[" * 100_000),
    ("deep nesting of objects", "malformed_json", '{"a":' * 100_000),
    ("a flaw in what can't be read", "not_finite", '{"n": NaN'),
    ("a flaw before deep nesting", "not_finite", '{"n": NaN, "x": ' + "[" * 100_000),
    ("a lone infinity", "not_finite", "Infinity"),
]


@pytest.mark.parametrize(
    ("rule", "body"), [pytest.param(rule, body, id=name) for name, rule, body in BODIES]
)
@pytest.mark.parametrize("schema", [FACT, CONTROL])
def test_a_body_is_refused(schema: str, rule: str, body: str) -> None:
    assert refused(body, schema).rule == rule


@pytest.mark.parametrize("schema", ["", "dispatch.fact.v2", "dispatch.control.v2", HEADER, "fact"])
def test_an_entry_of_an_unknown_schema_is_refused(schema: str) -> None:
    refusal = refused(body_of(ATTEMPT), schema)
    assert (refusal.rule, refusal.field) == ("unknown_schema", None)
    assert repr(schema) in str(refusal)


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_a_body_of_the_other_kind_is_refused(name: str) -> None:
    other = CONTROL if name.startswith("fact") else FACT
    assert isinstance(refused(encode(ENTRIES[name]), other), SchemaRefused)


@pytest.mark.parametrize("schema", ["dispatch.header.v2", FACT, CONTROL, ""])
def test_a_header_of_an_unknown_schema_is_refused(schema: str) -> None:
    stored = Envelope(schema, encode(HEADERS["header_least"]))
    assert header_refused(stored).rule == "unknown_schema"


def test_a_header_whose_digest_is_not_its_specs_is_refused() -> None:
    body = body_of(HEADERS["header_least"], spec_digest="0" * 64)
    refusal = header_refused(Envelope(HEADER, body))
    assert (refusal.rule, refusal.field) == ("digest_mismatch", "spec_digest")


def test_a_header_whose_spec_was_changed_is_refused() -> None:
    body = encode(HEADERS["header_least"]).replace("train.py", "mine.py")
    assert header_refused(Envelope(HEADER, body)).rule == "digest_mismatch"


def test_a_headers_flaw_is_named_by_its_place() -> None:
    body = encode(HEADERS["header_whole"]).replace('"memory_factor":1.5', '"memory_factor":"1.5"')
    refusal = header_refused(Envelope(HEADER, body))
    assert (refusal.rule, refusal.field) == (
        "wrong_type",
        "plan.causes.out_of_memory.memory_factor",
    )
    assert str(refusal).startswith("job jabcdefgh: header: field")


def test_a_refusal_without_a_job_and_an_entry_says_what_it_knows() -> None:
    with pytest.raises(SchemaRefused) as caught:
        decode_entry(Envelope(FACT, "[]"))
    assert (caught.value.job, caught.value.entry) == (None, None)
    assert str(caught.value) == "Input should be an object"


def test_a_refusal_can_be_told_where_it_was_met() -> None:
    refusal = InvalidRecord("no", field="n", rule="r").located(job="j", entry=3)
    assert isinstance(refusal, InvalidRecord)
    assert str(refusal) == "job j: entry 3: field 'n': no"
    assert (refusal.rule, refusal.reason) == ("r", "no")


def test_a_rule_without_a_name_of_ours_keeps_its_own() -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(set[int]).validate_python(3, strict=True)
    assert refusal(caught.value).rule == "set_type"


def test_plain_data_is_read_whole() -> None:
    assert parse_strict('{"a":[1,2.5,true,null,"x"]}') == {"a": [1, 2.5, True, None, "x"]}


def test_a_number_of_thousands_of_digits_is_refused_wherever_it_stands() -> None:
    assert sys.get_int_max_str_digits() < 5_000
    with pytest.raises(SchemaRefused) as caught:
        parse_strict("[0, " + "7" * 5_000 + "]")
    assert (caught.value.rule, caught.value.field) == ("out_of_range", "1")


def test_a_number_that_only_this_process_can_not_read_is_refused_without_a_place() -> None:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(700)
    try:
        with pytest.raises(SchemaRefused) as caught:
            parse_strict("[" + "7" * 800 + "]")
    finally:
        sys.set_int_max_str_digits(before)
    assert (caught.value.rule, caught.value.field) == ("out_of_range", None)


@pytest.mark.parametrize("text", ["2026-01-05T12:00:00Z", "2026-01-05T12:00:00.5+00:00"])
def test_a_time_is_read_in_utc_and_written_in_one_form(text: str) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(Instant)
    written = adapter.dump_json(adapter.validate_json(json.dumps(text))).decode()
    assert written.endswith('Z"')
    assert len(written) == len('"2026-01-05T12:00:00.000000Z"')


def test_a_time_of_utc_by_another_name_is_utc() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(Instant)
    zulu = datetime(2026, 1, 5, 12, tzinfo=timezone(timedelta(0), "Zulu"))
    assert adapter.validate_python(zulu).tzinfo is UTC
    for other in (zulu.replace(tzinfo=None), zulu.replace(tzinfo=timezone(timedelta(hours=1)))):
        with pytest.raises(ValidationError):
            adapter.validate_python(other)


def test_an_envelope_keeps_the_token_of_its_commit() -> None:
    assert envelope(CANCEL, "t1") == Envelope(CONTROL, encode(CANCEL), "t1")
    assert envelope(ATTEMPT).token == ""
    assert envelope(HEADERS["header_least"]).schema == HEADER
