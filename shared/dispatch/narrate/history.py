"""The history of a record as a table: entry, time, who, what, why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from dispatch.errors import RecordRefused
from dispatch.narrate.chronicle import Chronicle, Moment, chronicle
from dispatch.narrate.sentences import created, sentence
from dispatch.narrate.words import Reader
from dispatch.record.view import View


@dataclass(frozen=True, slots=True)
class Line:
    """One entry as people read it.

    Attributes:
        entry: Its number; 0 is the header.
        at: When it was written; None where it can't be read.
        by: Who wrote it; None where it can't be read.
        kind: control, fact or header; refused for the entry that can't be accepted; unread for
            those behind it.
        what: What happened.
        why: The reason for it, or the words of those who gave one.
    """

    entry: int
    at: datetime | None
    by: str | None
    kind: str
    what: str
    why: str | None


@dataclass(frozen=True, slots=True)
class History:
    """A record as a table.

    Attributes:
        job_id: Whose.
        lines: One for the header and one for each entry, oldest first.
        refused: Why the record can't be folded, where it can't.
    """

    job_id: str
    lines: tuple[Line, ...]
    refused: RecordRefused | None


def history(view: View, reader: Reader) -> History:
    """Return the history of a record; what can't be read is shown as such, never left out."""
    told = chronicle(view)
    if told.header is not None:
        reader = reader.on_the_day_of(told.header.created_at)
    return History(view.job_id, tuple(lines_of(told, reader)), told.refused)


def lines_of(told: Chronicle, reader: Reader) -> Iterator[Line]:
    """Yield the lines of a record that was walked through: the header's, then each entry's."""
    if told.header is None:
        assert told.refused is not None
        yield Line(0, None, None, "refused", _refusal(told.refused), told.refused.rule)
    else:
        what, why = created(told.header)
        yield Line(0, told.header.created_at, told.header.created_by, "header", what, why)
    for moment in told.moments:
        yield _line(moment, reader)


def _line(moment: Moment, reader: Reader) -> Line:
    entry = moment.entry
    at, by = (None, None) if entry is None else (entry.at, entry.by)
    if moment.refused is not None:
        return Line(moment.number, at, by, "refused", _refusal(moment.refused), moment.refused.rule)
    if moment.after is None:
        name = moment.stored.schema if entry is None else type(entry).__name__
        return Line(moment.number, at, by, "unread", f"not read: {name}", None)
    what, why = sentence(moment, reader)
    kind = "control" if moment.stored.schema.startswith("dispatch.control") else "fact"
    return Line(moment.number, at, by, kind, what, why)


def _refusal(refused: RecordRefused) -> str:
    field = f"field {refused.field!r}: " if refused.field else ""
    return f"REFUSED: {field}{refused.reason}"
