"""`dispatch usage`: what jobs used, and what of it was lost to which cause."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from dispatch.cli import options
from dispatch.cli.connect import client
from dispatch.cli.screen import Screen, screen
from dispatch.client import Client, records_between
from dispatch.core.fold import fold
from dispatch.core.job import Job
from dispatch.errors import InvalidRequest, RecordRefused
from dispatch.narrate.usage import Amount, By, Report, Row, usage
from dispatch.record.model import Instant

_INSTANT: TypeAdapter[datetime] = TypeAdapter(Instant)
_DAYS = 30


def add(app: typer.Typer) -> None:
    """Add `usage`."""
    app.command("usage")(show_usage)


def show_usage(
    *,
    from_: Annotated[
        str | None,
        typer.Option("--from", help=f"A day or a time; {_DAYS} days before --to unless given."),
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", help="A day or a time, itself outside; now unless given.")
    ] = None,
    by: Annotated[
        str, typer.Option("--by", help="owner, cluster, cause, or label:NAME.")
    ] = By.OWNER.value,
    cluster: Annotated[str | None, typer.Option("--cluster", "-c", help="Only this one's.")] = None,
    now: options.AsOf = None,
    url: options.Url = None,
    json_: options.Json = False,
    utc: options.Utc = False,
) -> None:
    """Report runs, node-hours and GPU-hours, and the hours lost by cause, from the records."""
    at = None if now is None else options.instant(now)
    shown = screen(machine=json_, utc=utc, now=at)
    end = shown.reader.now if to is None else _time(to, "--to", shown)
    begin = end - timedelta(days=_DAYS) if from_ is None else _time(from_, "--from", shown)
    if begin >= end:
        raise InvalidRequest("it begins before it ends, and not otherwise", field="--from")
    kind, label = _by(by)
    left_out: list[str] = []
    with client(url) as asked:
        jobs = _jobs(asked, (begin, end), cluster, (shown.reader.now, left_out))
        report = usage(jobs, (begin, end), shown.reader.now, by=kind, label=label)
    if json_:
        shown.json({"by": by, "report": report, "left_out": left_out})
        return
    _tell(report, by, shown)
    if left_out:
        shown.note(f"{len(left_out)} not counted: {left_out[0]}" + (", …" if left_out[1:] else ""))


def _jobs(
    asked: Client,
    span: tuple[datetime, datetime],
    cluster: str | None,
    told: tuple[datetime, list[str]],
) -> Iterator[Job]:
    now, left_out = told
    for read in records_between(asked, *span, cluster=cluster):
        if read.view is None:
            left_out.append(f"{read.job} ({read.why})")
            continue
        try:
            yield fold(read.view, now)
        except RecordRefused as refused:
            left_out.append(f"{read.job} ({refused})")


def _by(text: str) -> tuple[By, str]:
    kind, colon, label = text.partition(":")
    if kind == By.LABEL and label:
        return By.LABEL, label
    if not colon and kind in set(By) - {By.LABEL}:
        return By(kind), ""
    raise InvalidRequest(f"{text!r} is none of owner, cluster, cause or label:NAME", field="--by")


def _time(text: str, option: str, shown: Screen) -> datetime:
    """Return a time, or the beginning of a day in the reader's zone."""
    try:
        if len(text) == len("2026-01-31"):
            day = date.fromisoformat(text)
            zone = shown.reader.zone
            return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)
        return _INSTANT.validate_python(text)
    except (ValidationError, ValueError):
        said = f"{text!r} is no day (2026-01-31) and no time (2026-01-31T12:00:00Z)"
        raise InvalidRequest(said, field=option) from None


def _tell(report: Report, by: str, shown: Screen) -> None:
    tell = shown.reader
    shown.line(f"from {tell.time(report.begin)} to {tell.time(report.end)} ({tell.zone_name})")
    if not report.rows:
        shown.line("nothing ran")
        return
    titles = (
        *(by.partition(":")[2] or by, "JOBS", "RUNS"),
        *("NODE-HOURS", "GPU-HOURS", "LOST NODE-HOURS", "LOST GPU-HOURS"),
    )
    rows = [*(_row(one) for one in report.rows), _row(report.total)]
    shown.table((titles[0].upper(), *titles[1:]), rows)
    if report.lost:
        shown.line("")
        shown.table(
            ("LOST TO", "RUNS", "NODE-HOURS", "GPU-HOURS"),
            [(cause, *_amount(amount)) for cause, amount in report.lost.items()],
        )
    if report.by_sight:
        shown.note(
            f"of {report.by_sight} runs the scheduler told no start or no end: they count from or "
            "to when that was seen"
        )


def _row(row: Row) -> tuple[str, ...]:
    lost = _amount(row.lost)
    return (row.name, str(row.jobs), *_amount(row.used), *lost[1:])


def _amount(amount: Amount) -> tuple[str, str, str]:
    return f"{amount.runs:,}", _hours(amount.node_hours), _hours(amount.gpu_hours)


def _hours(hours: float) -> str:
    """Return hours for a table; little isn't nothing."""
    return "<0.01" if 0 < hours < 0.005 else f"{hours:,.2f}"
