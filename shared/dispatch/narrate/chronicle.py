"""A record walked through entry by entry, as far as it can be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dispatch.core.fold import extend
from dispatch.core.job import Job
from dispatch.errors import RecordRefused
from dispatch.record.codec import Entry, decode_entry, decode_header
from dispatch.record.header import Header
from dispatch.record.view import Envelope, View


@dataclass(frozen=True, slots=True)
class Moment:
    """One entry, and the job before and after it.

    Attributes:
        number: 1 is the first after the header.
        stored: As it is stored.
        entry: Decoded, where it can be.
        before: The job that the entries before it say; None behind a refusal.
        after: The job with it; None from a refusal on.
        refused: Why the record can't be read from here on, at the entry where that is so.
    """

    number: int
    stored: Envelope
    entry: Entry | None
    before: Job | None
    after: Job | None
    refused: RecordRefused | None = None


@dataclass(frozen=True, slots=True)
class Chronicle:
    """A record, read as far as it goes.

    Attributes:
        view: The record.
        header: Its header, where that can be decoded.
        moments: Its entries.
        job: What the entries before the first refusal say; None without a header.
        refused: The first refusal.
    """

    view: View
    header: Header | None
    moments: tuple[Moment, ...]
    job: Job | None
    refused: RecordRefused | None


def chronicle(view: View) -> Chronicle:
    """Return a record read entry by entry; what can't be read is kept as it is, never skipped."""
    header: Header | None = None
    refused: RecordRefused | None = None
    try:
        header = decode_header(view.header, job=view.job_id)
    except RecordRefused as error:
        refused = error
    job = None if header is None else Job(header=header)
    moments = tuple(_walk(view, job))
    for moment in moments:
        job = moment.after or job
        refused = refused or moment.refused
    return Chronicle(view, header, moments, job, refused)


def _walk(view: View, job: Job | None) -> Iterator[Moment]:
    for number, stored in enumerate(view.entries, start=1):
        entry, unreadable = _decoded(view, number, stored)
        if job is None:
            yield Moment(number, stored, entry, None, None)
            continue
        after, refused = None, unreadable
        if entry is not None:
            try:
                after = extend(job, (entry,))
            except RecordRefused as error:
                refused = error
        yield Moment(number, stored, entry, job, after, refused)
        job = after


def _decoded(
    view: View, number: int, stored: Envelope
) -> tuple[Entry | None, RecordRefused | None]:
    try:
        return decode_entry(stored, job=view.job_id, entry=number), None
    except RecordRefused as error:
        return None, error
