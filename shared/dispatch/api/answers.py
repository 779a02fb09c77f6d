"""From a record to what a caller is shown of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from pydantic import BaseModel

from dispatch.api.models import (
    MAX_ANSWER_BYTES,
    EntryAnswer,
    HistoryAnswer,
    RefusalAnswer,
    StatusAnswer,
)
from dispatch.errors import RecordRefused
from dispatch.record.codec import decode_entry, decode_header, parse_strict
from dispatch.record.header import Header
from dispatch.record.view import Envelope, View


def answer_text(answer: BaseModel) -> str:
    """Return an answer as it is sent: compact JSON, times in UTC, no nulls."""
    return answer.model_dump_json(exclude_none=True)


def refusal_of(refused: RecordRefused) -> RefusalAnswer:
    """Return why an entry, or a record, is refused."""
    return RefusalAnswer(
        code=refused.code,
        rule=refused.rule,
        entry=refused.entry,
        field=refused.field,
        detail=refused.reason,
    )


def entry_of(stored: Envelope, number: int, *, job: str) -> EntryAnswer:
    """Return one entry as a history shows it, whether this build can decode it or not."""
    body: Any = None
    raw: str | None = None
    refused: RecordRefused | None = None
    at: datetime | None = None
    by: str | None = None
    try:
        body = parse_strict(stored.body, job=job, entry=number)
    except RecordRefused:
        raw = stored.body
    try:
        if number == 0:
            header = decode_header(stored, job=job)
            at, by = header.created_at, header.created_by
        else:
            entry = decode_entry(stored, job=job, entry=number)
            at, by = entry.at, entry.by
    except RecordRefused as why:
        refused = why
    return EntryAnswer(
        number=number,
        schema_=stored.schema,
        body=body,
        raw=raw,
        token=stored.token,
        at=at,
        by=by,
        decoded=refused is None,
        refusal=None if refused is None else refusal_of(refused),
    )


def history_of(
    view: View, refused: RecordRefused | None, *, after: int = 0, limit: int = 1000
) -> HistoryAnswer:
    """Return a page of a record's history.

    Args:
        view: The record.
        refused: Why it doesn't fold, where it doesn't.
        after: The number of the last entry that isn't wanted.
        limit: At most how many entries; fewer come where they are long.
    """
    wanted = view.entries[after : after + limit]
    shown = tuple(
        entry_of(stored, number, job=view.job_id)
        for number, stored in enumerate(_fitting(wanted), start=after + 1)
    )
    last = after + len(shown)
    return HistoryAnswer(
        job_id=view.job_id,
        revision=view.revision,
        header=entry_of(view.header, 0, job=view.job_id),
        entries=shown,
        next_after=last if last < view.revision and shown else None,
        folds=refused is None,
        refusal=None if refused is None else refusal_of(refused),
    )


def _fitting(entries: Sequence[Envelope]) -> Iterator[Envelope]:
    """Yield entries as long as they fit into one answer; the first always does."""
    used = 0
    for stored in entries:
        used += len(stored.body.encode()) + 512
        if used > MAX_ANSWER_BYTES:
            return
        yield stored


def status_of(status: object, header: Header, now: datetime) -> StatusAnswer:
    """Return a status as it is sent.

    Args:
        status: What `core.project.project` returned.
        header: The record's.
        now: The time of the answer, UTC.
    """
    answer = StatusAnswer.model_validate(status)
    age = None if answer.evidence_at is None else (now - answer.evidence_at).total_seconds()
    return answer.model_copy(
        update={
            "evidence_age_s": None if age is None else max(0.0, age),
            "created_at": header.created_at,
            "created_by": header.created_by,
            "supersedes": header.lineage.supersedes,
            "generation": header.lineage.generation,
        }
    )
