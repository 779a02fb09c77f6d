"""From a record to what a caller is shown of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from pydantic import BaseModel

from dispatch.access import Rights
from dispatch.api.cluster_models import (
    ClusterAnswer,
    HealthAnswer,
    RightsAnswer,
    SubmitRightAnswer,
    TroubleAnswer,
)
from dispatch.api.models import (
    MAX_ANSWER_BYTES,
    EntryAnswer,
    HistoryAnswer,
    RefusalAnswer,
    StatusAnswer,
    WaitingAnswer,
)
from dispatch.clusters import Brakes, Cluster
from dispatch.core.project import Staleness
from dispatch.errors import RecordRefused
from dispatch.record.codec import decode_entry, decode_header, parse_strict
from dispatch.record.header import Declarations, Header
from dispatch.record.view import Envelope, View
from dispatch.store.records import ClusterHealth


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


def status_of(
    status: object, header: Header, now: datetime, brakes: Brakes | None = None
) -> StatusAnswer:
    """Return a status as it is sent.

    Args:
        status: What `core.project.project` returned.
        header: The record's.
        now: The time of the answer, UTC.
        brakes: Its cluster's.
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
            "waiting_for": (*_braked(answer, brakes), *answer.waiting_for),
        }
    )


def _braked(status: StatusAnswer, brakes: Brakes | None) -> Iterator[WaitingAnswer]:
    """Yield the brakes that a job waits for; those that are on by the document, for its person."""
    if brakes is None or status.settled_at is not None:
        return
    if brakes.paused is not None and status.outcome is None:
        detail = f"its cluster is paused, nothing begins to run: {brakes.paused}"
        yield WaitingAnswer(what="brake", detail=detail)
    if brakes.observed is not None:
        detail = f"its cluster is only observed, nothing is done: {brakes.observed}"
        yield WaitingAnswer(what="brake", detail=detail)


def cluster_of(
    cluster: Cluster, declarations: Declarations, health: HealthAnswer | None
) -> ClusterAnswer:
    """Return a cluster as callers are shown it; its adapter's own block isn't."""
    return ClusterAnswer(
        name=cluster.name,
        adapter=cluster.adapter,
        declarations=declarations,
        plan=cluster.plan,
        start_retries=cluster.start_retries,
        unmatched=cluster.unmatched,
        brakes=cluster.brakes.told,
        health=health,
    )


def health_of(health: ClusterHealth | None, accepted: datetime | None) -> HealthAnswer | None:
    """Return how a cluster's supervision goes, None before the first look.

    Args:
        health: What a supervisor said last.
        accepted: When a person last said that a loss is real.
    """
    if health is None:
        return None
    return HealthAnswer(
        supervisor=health.supervisor,
        last_tick=health.last_tick,
        last_complete_find=health.last_complete_find,
        last_error=health.last_error,
        identity=health.identity,
        escalations=dict(health.escalations),
        loss_accepted_at=accepted,
        failing_since=health.failing_since,
        retry_at=health.retry_at,
        troubles=tuple(TroubleAnswer.model_validate(one) for one in health.troubles),
        withheld=health.withheld,
    )


def staleness_of(health: ClusterHealth | None) -> Staleness | None:
    """Return a cluster's health as a status shows it."""
    if health is None:
        return None
    return Staleness(
        health.supervisor, health.last_tick, health.last_complete_find, health.last_error
    )


def rights_answer(rights: Rights) -> RightsAnswer:
    """Return what a caller may do, as they are shown it."""
    reaches = {kind: reach.widest for kind, reach in rights.intents.items()}
    return RightsAnswer(
        ruled=rights.access is not None,
        admin=rights.admin,
        teams=tuple(sorted(rights.teams)),
        submit=tuple(SubmitRightAnswer.model_validate(one) for one in rights.submits),
        intents={kind: scope for kind, scope in reaches.items() if scope is not None},
        read=rights.read.widest,
        tombstone=rights.tombstone.widest,
    )
