"""From a record to what a caller is shown of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
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
    ProgressAnswer,
    RefusalAnswer,
    StatusAnswer,
    SummaryAnswer,
    WaitingAnswer,
)
from dispatch.api.story_models import (
    AdviceAnswer,
    LaneAnswer,
    LineAnswer,
    MarkAnswer,
    SectionAnswer,
    SpanAnswer,
    StoryAnswer,
    TimelineAnswer,
)
from dispatch.clusters import Brakes, Cluster
from dispatch.core.fold import fold
from dispatch.core.job import Job
from dispatch.core.project import Staleness, project
from dispatch.errors import JobNotFound, JobTombstoned, NothingRan, RecordRefused
from dispatch.narrate.around import Around
from dispatch.narrate.standing import since_of
from dispatch.narrate.story import why
from dispatch.narrate.timeline import timeline
from dispatch.narrate.words import Reader
from dispatch.record.codec import decode_entry, decode_header, parse_strict
from dispatch.record.export import export_lines
from dispatch.record.header import Declarations, Header
from dispatch.record.view import Envelope, View
from dispatch.store.records import ClusterHealth
from dispatch.supervisor.progress import Progress


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


def export_piece(view: View, after: int, *, most: int) -> tuple[str, int | None]:
    """Return a record's export from an entry on, and where the next piece begins if it was cut.

    Args:
        view: The record.
        after: The number of the last entry that isn't wanted; the header comes with 0.
        most: Bytes of a piece, but for a single line that is longer.
    """
    lines: list[str] = []
    size, last = 0, after
    for place, line in enumerate(export_lines(view, after=after)):
        size += len(line.encode()) + 1
        if lines and size > most:
            return "".join(lines), last
        lines.append(line + "\n")
        last = after + place + (0 if after == 0 else 1)
    return "".join(lines), None


def latest_ref(job: Job) -> str:
    """Return the object whose output a person means when asking for a job's.

    Raises:
        NothingRan: Nothing has run yet.
    """
    if job.canonical is not None:
        return job.canonical.ref
    for submission in reversed(job.submissions):
        if submission.canonical is not None:
            return submission.canonical
    raise NothingRan("nothing has run yet, so there is no output", job=job.job_id)


def _fitting(entries: Sequence[Envelope]) -> Iterator[Envelope]:
    """Yield entries as long as they fit into one answer; the first always does."""
    used = 0
    for stored in entries:
        used += len(stored.body.encode()) + 512
        if used > MAX_ANSWER_BYTES:
            return
        yield stored


def status_of(
    status: object,
    header: Header,
    now: datetime,
    brakes: Brakes | None = None,
    progress: Progress | None = None,
) -> StatusAnswer:
    """Return a status as it is sent.

    Args:
        status: What `core.project.project` returned.
        header: The record's.
        now: The time of the answer, UTC.
        brakes: Its cluster's.
        progress: How its run goes on.
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
            "progress": told_of(progress),
        }
    )


def summary_of(
    read: Callable[[], View],
    now: datetime,
    progress: Callable[[Job], Progress | None] = lambda _: None,
) -> SummaryAnswer | None:
    """Return what a listing says of a job; None where there is nothing to be read any more.

    Args:
        read: Reads the record.
        now: The time of the answer, UTC.
        progress: Tells how its run goes on.
    """
    try:
        view = read()
    except (JobNotFound, JobTombstoned):
        return None
    except RecordRefused as refused:
        return SummaryAnswer(refusal=refusal_of(refused))
    try:
        job = fold(view, now)
    except RecordRefused as refused:
        return _unread(view, refusal_of(refused))
    answer = SummaryAnswer.model_validate(project(job, None, now))
    header = job.header
    return answer.model_copy(
        update={
            "created_by": header.created_by,
            "labels": dict(header.spec.labels),
            "since": since_of(job),
            "progress": told_of(progress(job)),
        }
    )


def told_of(progress: Progress | None) -> ProgressAnswer | None:
    """Return how a run goes on, as it is sent."""
    return None if progress is None else ProgressAnswer.model_validate(progress)


def _unread(view: View, refusal: RefusalAnswer) -> SummaryAnswer:
    """Return what can be said of a job whose record doesn't fold."""
    header = _header(view)
    if header is None:
        return SummaryAnswer(refusal=refusal)
    spec, by = header.spec, header.created_by
    return SummaryAnswer(name=spec.name, created_by=by, labels=dict(spec.labels), refusal=refusal)


def _header(view: View) -> Header | None:
    """Return a record's header; None where this build can't decode it."""
    try:
        return decode_header(view.header, job=view.job_id)
    except RecordRefused:
        return None


def reader_of(now: datetime, utc_offset_min: int) -> Reader:
    """Return a reader whose clock is so many minutes ahead of UTC."""
    return Reader(now, timezone(timedelta(minutes=utc_offset_min)))


def story_of(
    view: View, reader: Reader, health: ClusterHealth | None, around: Around | None = None
) -> StoryAnswer:
    """Return a record's story as it is sent.

    Args:
        view: The record.
        reader: Whom it is told to.
        health: Its cluster's, where that is known.
        around: What bears on it from outside of its record.
    """
    told = why(view, reader, staleness=staleness_of(health), around=around)
    header = _header(view)
    return StoryAnswer(
        job_id=told.job_id,
        name=None if header is None else header.spec.name,
        revision=view.revision,
        headline=told.headline,
        sections=tuple(SectionAnswer.model_validate(one) for one in told.sections),
        advice=tuple(AdviceAnswer.model_validate(one) for one in told.advice),
        foldable=told.foldable,
    )


def around_of(brakes: Brakes | None, progress: Progress | None) -> Around:
    """Return what bears on a job from outside of its record."""
    quiet = progress.since if progress is not None and progress.quiet else None
    return Around({} if brakes is None else brakes.told, quiet)


def timeline_of(view: View, reader: Reader) -> TimelineAnswer:
    """Return a record along time as it is sent."""
    told = timeline(view, reader)
    return TimelineAnswer(
        job_id=told.job_id,
        revision=told.revision,
        settled=told.settled,
        now=reader.now,
        lanes=tuple(LaneAnswer.model_validate(one) for one in told.lanes),
        spans=tuple(SpanAnswer.model_validate(one) for one in told.spans),
        marks=tuple(MarkAnswer.model_validate(one) for one in told.marks),
        lines=tuple(LineAnswer.model_validate(one) for one in told.lines),
        left_out=told.left_out,
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
