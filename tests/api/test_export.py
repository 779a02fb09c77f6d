"""An export: strict, lossless, and the same record on any machine."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatch.core.fold import fold
from dispatch.errors import InvalidRecord, RecordRefused, SchemaRefused
from dispatch.record.export import export_lines, export_text, import_text
from dispatch.record.view import Envelope, View
from tests.functions.world import START, World

WORLD = World()
JOB = WORLD.job()
WORLD.settle(JOB)
VIEW = WORLD.store.read(JOB)
TEXT = export_text(VIEW)
LINES = TEXT.splitlines()


def changed(number: int, line: str) -> str:
    lines = [*LINES]
    lines[number] = line
    return "\n".join(lines) + "\n"


def test_an_export_folds_to_the_same_job() -> None:
    assert fold(import_text(TEXT), START) == fold(VIEW, START)


def test_each_line_is_one_document_with_its_body_inline() -> None:
    header, *entries = [json.loads(line) for line in LINES]
    assert set(header) == {"schema", "body"}
    assert header["body"]["job_id"] == JOB
    assert {frozenset(entry) for entry in entries} == {frozenset({"schema", "body", "token"})}


def test_an_import_encodes_bodies_canonically_whatever_the_spacing() -> None:
    spaced = "\n".join(json.dumps(json.loads(line), indent=None) for line in LINES)
    assert import_text(spaced) == import_text(TEXT)


def test_a_prefix_of_an_export_folds() -> None:
    for length in range(1, len(LINES) + 1):
        fold(import_text("\n".join(LINES[:length])), START)


def test_pieces_put_together_are_the_whole() -> None:
    for cut in range(1, VIEW.revision):
        first = list(export_lines(VIEW.at(cut)))
        rest = list(export_lines(VIEW, after=cut))
        assert [*first, *rest] == LINES


@pytest.mark.parametrize(
    ("number", "line", "rule"),
    [
        (0, "", "empty_line"),
        (2, "", "empty_line"),
        (2, "[]", "wrong_type"),
        (2, "{", "malformed_json"),
        (2, LINES[2] + "x", "trailing_data"),
        (2, '{"schema":"s","schema":"s","body":{},"token":""}', "duplicate_key"),
        (2, '{"schema":"s","body":{"a":1,"a":2},"token":""}', "duplicate_key"),
        (2, '{"schema":"s","body":{"a":NaN},"token":""}', "not_finite"),
        (2, '{"schema":"s","body":{}}', "missing_field"),
        (2, '{"schema":"s","token":""}', "missing_field"),
        (2, '{"schema":"s","body":{},"token":"","by":"me"}', "unknown_field"),
        (2, '{"schema":"s","body":{},"raw":"","token":""}', "unknown_field"),
        (2, '{"schema":1,"body":{},"token":""}', "wrong_type"),
        (2, '{"schema":"s","body":{"a":"\\ud800"},"token":""}', "malformed_json"),
        (0, '{"schema":"dispatch.header.v1","body":{}}', "missing_field"),
        (0, '{"schema":"dispatch.header.v1","body":[]}', "missing_field"),
        (0, '{"schema":"dispatch.header.v1","raw":"{"}', "malformed_json"),
    ],
)
def test_a_line_that_is_none_is_refused_by_its_entry_and_rule(
    number: int, line: str, rule: str
) -> None:
    with pytest.raises(SchemaRefused) as refused:
        import_text(changed(number, line))
    assert (refused.value.entry, refused.value.rule) == (number, rule)


def test_an_empty_export_is_refused() -> None:
    with pytest.raises(SchemaRefused) as refused:
        import_text("")
    assert refused.value.rule == "missing_header"


def test_a_broken_entry_is_imported_and_refused_by_the_fold() -> None:
    entry = json.loads(LINES[2])
    entry["body"]["color"] = "blue"
    with pytest.raises(SchemaRefused) as refused:
        fold(import_text(changed(2, json.dumps(entry))), START)
    assert (refused.value.entry, refused.value.rule) == (2, "unknown_field")
    swapped = [LINES[0], LINES[2], LINES[1], *LINES[3:]]
    with pytest.raises(InvalidRecord) as invalid:
        fold(import_text("\n".join(swapped)), START)
    assert invalid.value.entry == 1


def test_a_damaged_body_is_shown_as_it_is_and_not_mended() -> None:
    for body in ("{not json", '{"b":1,"a":2}', '{"a":1,"a":2}', '{"a": 1}', ""):
        damaged = VIEW.with_entries((Envelope("dispatch.fact.v1", body, "t"),))
        assert import_text(export_text(damaged)).entries[-1].body == body


@given(
    bodies=st.lists(
        st.tuples(st.text(max_size=30), st.text(max_size=60), st.text(max_size=10)), max_size=4
    )
)
def test_whatever_a_store_holds_comes_back_byte_for_byte(
    bodies: list[tuple[str, str, str]],
) -> None:
    entries = tuple(Envelope(*one) for one in bodies)
    view = View(JOB, Envelope(VIEW.header.schema, VIEW.header.body), entries)
    assert import_text(export_text(view)) == view


@given(text=st.text(max_size=200))
def test_random_text_is_refused_by_name(text: str) -> None:
    try:
        import_text(text)
    except RecordRefused:
        return
    raise AssertionError("random text was taken for an export")
