"""A record as a text: what goes out comes in again, and a flawed line is named."""

from __future__ import annotations

import json

import pytest

from dispatch.core.fold import fold
from dispatch.errors import RecordRefused, SchemaRefused
from dispatch.record.codec import envelope
from dispatch.record.export import export_lines, export_text, import_text
from dispatch.record.view import Envelope, View
from tests.core.histories import History, t
from tests.record.samples import ENTRIES, HEADERS


def record() -> View:
    stored = tuple(envelope(entry, f"t{n}") for n, entry in enumerate(ENTRIES.values()))
    return View("jabcdefgh", envelope(HEADERS["header_whole"]), stored)


def refused(text: str) -> SchemaRefused:
    with pytest.raises(SchemaRefused) as caught:
        import_text(text)
    return caught.value


def test_an_export_comes_in_as_it_went_out() -> None:
    assert import_text(export_text(record())) == record()


def test_an_export_folds_to_the_same_job_anywhere() -> None:
    view = History().over().view()
    assert fold(import_text(export_text(view)), t(9)) == fold(view, t(1))


def test_an_export_has_the_header_and_one_line_an_entry() -> None:
    lines = list(export_lines(record()))
    assert len(lines) == 1 + record().revision
    assert set(json.loads(lines[0])) == {"schema", "body"}
    assert all(set(json.loads(line)) == {"schema", "token", "body"} for line in lines[1:])


def test_an_export_may_begin_after_an_entry() -> None:
    assert list(export_lines(record(), after=3)) == list(export_lines(record()))[4:]


@pytest.mark.parametrize("body", ["{", '{"a": 1}', '{"b":1,"a":1}', '{"a":NaN}', ""])
def test_a_body_that_is_not_canonical_goes_out_and_comes_in_unmended(body: str) -> None:
    view = History().view().with_entries((Envelope("dispatch.fact.v1", body, "t"),))
    text = export_text(view)
    assert '"raw":' in text
    assert import_text(text).entries[0].body == body


def test_a_damaged_header_that_names_its_job_comes_in_unmended() -> None:
    stored = envelope(HEADERS["header_least"])
    view = View("jabcdefgh", stored._replace(body=stored.body.replace(":1,", ": 1,", 1)))
    assert import_text(export_text(view)) == view


FLAWS: list[tuple[str, str, int, str | None, str]] = [
    ("an empty text", "missing_header", 0, None, ""),
    ("an empty line", "empty_line", 0, None, "\n{}"),
    ("no object", "wrong_type", 0, None, "[]\n"),
    ("no JSON", "malformed_json", 0, None, "x\n"),
    ("no schema", "missing_field", 0, "schema", '{"body":{"job_id":"j"}}\n'),
    ("no body", "missing_field", 0, "body", '{"schema":"s"}\n'),
    ("both bodies", "unknown_field", 0, "body", '{"schema":"s","body":{},"raw":""}\n'),
    ("an unknown field", "unknown_field", 0, "x", '{"schema":"s","body":{},"x":1}\n'),
    ("a token in a header", "unknown_field", 0, "token", '{"schema":"s","body":{},"token":""}\n'),
    ("a schema that is no text", "wrong_type", 0, "schema", '{"schema":1,"body":{}}\n'),
    ("a raw body that is no text", "wrong_type", 0, "raw", '{"schema":"s","raw":{}}\n'),
    ("no job", "missing_field", 0, "job_id", '{"schema":"s","body":{}}\n'),
    ("an empty job", "missing_field", 0, "job_id", '{"schema":"s","body":{"job_id":""}}\n'),
    ("a job that is no text", "missing_field", 0, "job_id", '{"schema":"s","body":{"job_id":1}}\n'),
    ("a header that is a list", "missing_field", 0, "job_id", '{"schema":"s","body":[]}\n'),
    ("an unreadable raw header", "malformed_json", 0, None, '{"schema":"s","raw":"{"}\n'),
    (
        "half a surrogate pair",
        "malformed_json",
        0,
        None,
        '{"schema":"s","body":{"job_id":"j","x":"\\ud800"}}\n',
    ),
    ("an overflow", "not_finite", 0, "body.x", '{"schema":"s","body":{"job_id":"j","x":1e999}}\n'),
    (
        "an entry without a token",
        "missing_field",
        1,
        "token",
        '{"schema":"s","body":{"job_id":"j"}}\n{"schema":"s","body":{}}\n',
    ),
    (
        "an empty line between",
        "empty_line",
        1,
        None,
        '{"schema":"s","body":{"job_id":"j"}}\n\n{"schema":"s","body":{},"token":""}\n',
    ),
]


@pytest.mark.parametrize(
    ("rule", "entry", "field", "text"), [pytest.param(*flaw[1:], id=flaw[0]) for flaw in FLAWS]
)
def test_a_flawed_line_is_refused_by_its_number(
    rule: str, entry: int, field: str | None, text: str
) -> None:
    met = refused(text)
    assert (met.rule, met.entry, met.field) == (rule, entry, field)


def test_a_flawed_entry_names_the_job_too() -> None:
    assert refused(export_text(History().view()) + "[]\n").job == "jabcdefgh"


def test_an_edited_export_is_refused_by_the_entry_that_was_edited() -> None:
    text = export_text(History().running().view())
    edited = text.replace('"ref":"o1","result":"started"', '"ref":"o9","result":"started"')
    assert edited != text
    with pytest.raises(RecordRefused) as caught:
        fold(import_text(edited), t(0))
    assert (caught.value.entry, caught.value.rule) == (4, "unknown_object")
