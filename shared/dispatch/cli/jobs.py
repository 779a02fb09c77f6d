"""`dispatch status`, `watch` and `logs`: one job, now and as it goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import RenderableType

from dispatch.api import StatusAnswer
from dispatch.cli import options
from dispatch.cli.connect import client
from dispatch.cli.exits import outcome_code
from dispatch.cli.screen import Screen, in_place, pairs, screen
from dispatch.client import Client, Until, WaitedTooLong, asks, over, settled
from dispatch.errors import TryLater
from dispatch.narrate.words import duration, hold_words


class Goal(StrEnum):
    """What a watch ends at."""

    SETTLED = "settled"
    OUTCOME = "outcome"
    PERSON = "person"


_GOALS: dict[Goal, Until] = {Goal.SETTLED: settled, Goal.OUTCOME: over, Goal.PERSON: asks}


def add(app: typer.Typer) -> None:
    """Add `status`, `watch` and `logs`."""
    app.command()(status)
    app.command()(watch)
    app.command()(logs)


def status(
    job: options.Job,
    *,
    url: options.Url = None,
    json_: options.Json = False,
    utc: options.Utc = False,
) -> None:
    """Say what a job is doing and what it waits for."""
    shown = screen(machine=json_, utc=utc)
    with client(url) as to:
        answer = to.get(job)
    if json_:
        shown.json(answer)
        return
    shown.pairs(_pairs(answer, shown))


def _pairs(answer: StatusAnswer, shown: Screen) -> dict[str, str | None]:
    tell = shown.reader
    told: dict[str, str | None] = {
        "job": f"{answer.job_id} “{answer.name}”",
        "cluster": answer.cluster,
        "state": _state(answer),
        "desired": str(answer.desired),
        "submitted": f"{tell.time(answer.created_at)} by {answer.created_by}"
        if answer.created_at
        else None,
        "run": _run(answer),
        "held": "\n".join(hold_words(one) for one in answer.holds),
        "progress": _progress(answer, shown),
        "pending": answer.pending_reason,
    }
    waiting = [
        one.detail + (f", {tell.until(one.until)}" if one.until else "")
        for one in answer.waiting_for
    ]
    told["waiting for"] = "\n".join(waiting)
    told["people were told"] = "\n".join(
        f"{tell.time(one.at)} [{one.code}] {one.detail}" for one in answer.escalations
    )
    told["not settled"] = "\n".join(answer.unsettled)
    told["settled"] = tell.time(answer.settled_at) if answer.settled_at else None
    if answer.evidence_age_s is not None and answer.settled_at is None:
        told["evidence"] = f"seen {duration(timedelta(seconds=answer.evidence_age_s))} ago"
    health = answer.stale_since
    if health is not None and answer.settled_at is None:
        last = "never" if health.last_tick is None else tell.ago(health.last_tick)
        failed = f"; the last look failed: {health.last_error}" if health.last_error else ""
        told["looked after"] = f"{last}{failed}"
    return told


def _progress(answer: StatusAnswer, shown: Screen) -> str | None:
    """Return how its run goes on, where its plan asks for that."""
    found, tell = answer.progress, shown.reader
    if found is None:
        return None
    limit = duration(timedelta(seconds=found.limit_s))
    if found.since is None:
        return f"can't be told: {found.error}"
    if found.quiet:
        since, ago = tell.time(found.since), tell.ago(found.since)
        return f"no progress since {since} ({ago}; {limit} are allowed)"
    return f"last seen {tell.ago(found.since)}"


def _state(answer: StatusAnswer) -> str:
    if answer.outcome is None:
        cause = f" ({answer.cause})" if answer.cause else ""
        return f"{answer.state}{cause}"
    parts = [str(part) for part in (answer.cause,) if part]
    if answer.exit_code is not None:
        parts.append(f"exit code {answer.exit_code}")
    if answer.signal:
        parts.append(f"signal {answer.signal}")
    told = f" ({', '.join(parts)})" if parts else ""
    return f"{answer.outcome}{told}"


def _run(answer: StatusAnswer) -> str | None:
    if not answer.submission:
        return None
    told = f"submission {answer.submission}, attempt {answer.attempt}"
    if answer.run:
        told += f", run {answer.run}"
    if answer.nodes:
        told += f" on {', '.join(answer.nodes)}"
    return told + (f"\n{answer.ref}" if answer.ref else "")


def watch(
    job: options.Job,
    *,
    until: Annotated[
        Goal, typer.Option("--until", help="settled; outcome; or person: over, or someone is asked")
    ] = Goal.SETTLED,
    timeout: Annotated[
        int | None, typer.Option("--timeout", min=1, help="Give up waiting after so many seconds.")
    ] = None,
    exit_status: Annotated[
        bool,
        typer.Option("--exit-status", help="0 succeeded, 10 failed, 11 cancelled, 12 no outcome."),
    ] = False,
    lines: Annotated[
        bool, typer.Option("--lines", help="A line for each change on a terminal too.")
    ] = False,
    url: options.Url = None,
    json_: options.Json = False,
    utc: options.Utc = False,
) -> None:
    """Follow a job until it is settled: drawn in place, or a line for each change into a pipe."""
    shown = screen(machine=json_, utc=utc)
    limit = None if timeout is None else timedelta(seconds=timeout)
    last: StatusAnswer | None = None
    redraws = shown.out.is_terminal and not shown.machine and not lines
    with client(url) as to, _place(shown, redraws) as draw:
        try:
            for answer in _watched(to, job, (limit, redraws)):
                if isinstance(answer, TryLater):
                    lost = f"{answer}; asking again"
                    if redraws and last is not None:
                        draw(pairs({**_pairs(last, shown), "no news": lost}))
                    else:
                        shown.note(lost)
                    continue
                if redraws:
                    draw(pairs(_pairs(answer, screen(utc=utc))))
                else:
                    _change(answer, last, shown)
                last = answer
                if _GOALS[until](answer):
                    break
        except WaitedTooLong:
            if not exit_status or last is None:
                raise
    if exit_status and last is not None:
        raise typer.Exit(int(outcome_code(last.outcome)))


ASK_AGAIN_S = 5.0
"""Seconds that a watch waits where it was answered before and isn't any more."""


def _watched(
    to: Client, job: str, how: tuple[timedelta | None, bool]
) -> Iterator[StatusAnswer | TryLater]:
    """Yield what a job is doing; an outage that begins on the way is told once, and waited out."""
    limit, every = how
    last: StatusAnswer | None = None
    told = False
    while True:
        try:
            for answer in to.watch(job, timeout=limit, every=every):
                if every or told or last is None or answer != last:
                    yield answer
                last, told = answer, False
            return
        except TryLater as error:
            if last is None or limit is not None:
                raise
            if not told:
                yield error
            told = True
            time.sleep(ASK_AGAIN_S)


@contextmanager
def _place(shown: Screen, redraws: bool) -> Iterator[Callable[[RenderableType], None]]:
    if not redraws:
        yield lambda _: None
        return
    with in_place(shown) as draw:
        yield draw


def _change(answer: StatusAnswer, before: StatusAnswer | None, shown: Screen) -> None:
    if shown.machine:
        shown.json(answer)
        return
    said = _said(answer)
    if before is None or said != _said(before):
        shown.line(f"{shown.reader.time(datetime.now(UTC))}  {said}")
        shown.out.file.flush()


def _said(answer: StatusAnswer) -> str:
    if answer.settled_at is not None:
        return f"{_state(answer)}, settled"
    parts = [f"{_state(answer)}, not settled yet" if answer.outcome else _state(answer)]
    if answer.nodes and answer.outcome is None:
        parts.append(f"on {', '.join(answer.nodes)}")
    if answer.progress is not None and answer.progress.quiet:
        parts.append("no progress")
    parts += [one.detail for one in answer.waiting_for[:1]]
    return "; ".join(parts)


def logs(
    job: options.Job,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the job is over.")
    ] = False,
    offset: Annotated[int, typer.Option("--offset", min=0, help="Bytes to leave out.")] = 0,
    url: options.Url = None,
) -> None:
    """Print what a job wrote, where its cluster can read that."""
    shown = screen()
    with client(url) as to:
        for text in to.follow(job, offset=offset) if follow else _pieces(to, job, offset):
            shown.out.file.write(text)
            shown.out.file.flush()


def _pieces(to: Client, job: str, offset: int) -> list[str]:
    """Return what is there now, and say so where nothing is."""
    texts = []
    while True:
        piece = to.logs(job, offset=offset)
        texts.append(piece.text)
        if piece.next_offset == offset:
            return texts
        offset = piece.next_offset
