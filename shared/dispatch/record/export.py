"""A record as a text that folds to the same job on any machine: one JSON document a line.

Line 1 is the header, `{"body": …, "schema": …}`; each further line is an entry, with the token of
the commit that wrote it. A stored body that isn't canonical JSON (a damaged one, say) stands as
text under `raw` in place of `body`, so that an export never mends what it shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dispatch.errors import RecordRefused, SchemaRefused
from dispatch.record.codec import canonical, parse_strict
from dispatch.record.view import Envelope, View

_HEADER_KEYS = frozenset({"schema", "body"})
_ENTRY_KEYS = frozenset({"schema", "body", "token"})


def export_lines(view: View, *, after: int = 0) -> Iterator[str]:
    """Yield the lines of an export, without line ends.

    Args:
        view: The record.
        after: The number of the last entry that isn't wanted; the header line comes only with 0.
    """
    if after == 0:
        yield canonical({"schema": view.header.schema, **_body(view.header)})
    for stored in view.entries[after:]:
        yield canonical({"schema": stored.schema, "token": stored.token, **_body(stored)})


def export_text(view: View) -> str:
    """Return the whole export; it ends with a line end."""
    return "".join(f"{line}\n" for line in export_lines(view))


def import_text(text: str) -> View:
    """Return the record of an export, its bodies re-encoded canonically and not yet decoded.

    The store's labels aren't part of an export; the fold says what they would say.

    Raises:
        SchemaRefused: A line isn't what an export's line is; it names the entry (0 the header)
            and the rule.
    """
    lines = text.split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    if not lines:
        raise SchemaRefused("the export is empty", entry=0, rule="missing_header")
    header = _line(lines[0], 0, _HEADER_KEYS, None)
    job = _job_id(header)
    entries = tuple(
        _line(line, number, _ENTRY_KEYS, job) for number, line in enumerate(lines[1:], start=1)
    )
    return View(job, header, entries)


def _body(stored: Envelope) -> dict[str, Any]:
    try:
        body = parse_strict(stored.body)
    except RecordRefused:
        return {"raw": stored.body}
    return {"body": body} if canonical(body) == stored.body else {"raw": stored.body}


def _line(line: str, number: int, keys: frozenset[str], job: str | None) -> Envelope:
    if not line.strip():
        raise SchemaRefused("the line is empty", job=job, entry=number, rule="empty_line")
    value = parse_strict(line, job=job, entry=number)
    if not isinstance(value, dict):
        raise SchemaRefused("the line isn't an object", job=job, entry=number, rule="wrong_type")
    wanted = keys if "raw" not in value else (keys - {"body"}) | {"raw"}
    for name in sorted(value.keys() - wanted):
        raise SchemaRefused(
            "an export's line doesn't have it",
            job=job,
            entry=number,
            field=name,
            rule="unknown_field",
        )
    for name in sorted(wanted - value.keys()):
        raise SchemaRefused(
            "the line lacks it", job=job, entry=number, field=name, rule="missing_field"
        )
    texts = {name: value[name] for name in wanted - {"body"}}
    for name, text in sorted(texts.items()):
        if not isinstance(text, str):
            raise SchemaRefused(
                "it isn't a text", job=job, entry=number, field=name, rule="wrong_type"
            )
    body = value["raw"] if "raw" in value else canonical(value["body"])
    if not _is_text(body):
        raise SchemaRefused(
            "it has half a surrogate pair", job=job, entry=number, rule="malformed_json"
        )
    return Envelope(value["schema"], body, value.get("token", ""))


def _is_text(body: str) -> bool:
    try:
        body.encode()
    except UnicodeEncodeError:
        return False
    return True


def _job_id(header: Envelope) -> str:
    try:
        body = parse_strict(header.body, entry=0)
    except RecordRefused as refused:
        raise SchemaRefused(
            refused.reason, entry=0, field=refused.field, rule=refused.rule
        ) from None
    job = body.get("job_id") if isinstance(body, dict) else None
    if not isinstance(job, str) or not job:
        raise SchemaRefused(
            "the header names no job", entry=0, field="job_id", rule="missing_field"
        )
    return job
