"""`dispatch top`, for who is on call: every open job, the oldest wait first, and the clusters."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from dispatch.api import ClusterAnswer, ListedAnswer, SummaryAnswer
from dispatch.cli import options
from dispatch.cli.clusters import trouble_of
from dispatch.cli.connect import client
from dispatch.cli.listing import state_of
from dispatch.cli.screen import Screen, in_place, screen
from dispatch.client import Choice, Client, ServerFailed, select
from dispatch.core.project import State
from dispatch.errors import TryLater
from dispatch.narrate.words import duration

_CLUSTERS = ("CLUSTER", "OPEN", "LOOKED AFTER", "BRAKES AND TROUBLE")
_JOBS = ("", "JOB", "NAME", "CLUSTER", "STATE", "FOR", "BY", "WAITS FOR")


def add(app: typer.Typer) -> None:
    """Add `top`."""
    app.command()(top)


def top(
    *,
    once: Annotated[bool, typer.Option("--once", help="Print it and end, as into a pipe.")] = False,
    every: Annotated[
        float, typer.Option("--every", min=0.5, help="Seconds between two looks.")
    ] = 3.0,
    label: options.Labels = None,
    cluster: Annotated[str | None, typer.Option("--cluster", "-c", help="Only this one's.")] = None,
    url: options.Url = None,
    json_: options.Json = False,
    utc: options.Utc = False,
) -> None:
    """Show every open job, the oldest wait first, and how the clusters are looked after."""
    from dispatch.cli.request import pairs_of

    shown = screen(machine=json_, utc=utc)
    choice = Choice(dict(pairs_of("--label", label)), cluster)
    with client(url) as to:
        if json_ or once or not shown.out.is_terminal:
            _print(to, choice, shown)
            return
        seen = _look(to, choice)
        with in_place(shown) as draw:
            lost = ""
            while True:
                draw(_drawn(*seen, shown, lost))
                time.sleep(every)
                try:
                    seen, shown, lost = _look(to, choice), screen(utc=utc), ""
                except (TryLater, ServerFailed) as error:
                    # Whoever is on call looks here when things fail: what was known stays.
                    lost = f"No news since then: {error}. Asking again."


def _look(to: Client, choice: Choice) -> tuple[tuple[ClusterAnswer, ...], list[ListedAnswer]]:
    clusters = tuple(one for one in to.clusters() if choice.cluster in (None, one.name))
    if choice.labels:
        return clusters, sorted(select(to, choice), key=_urgency)
    return clusters, sorted(
        to.jobs(settled=False, cluster=choice.cluster, summary=True), key=_urgency
    )


def _urgency(line: ListedAnswer) -> tuple[int, datetime, str]:
    """Return what jobs are sorted by: those that wait, the oldest wait first; then what runs."""
    told = line.summary
    if told is None or told.since is None:
        return 0, line.created_at, line.job_id
    runs = told.state is State.RUNNING and not needs_person(told) and not quiet(told)
    return int(runs), told.since, line.job_id


def needs_person(told: SummaryAnswer) -> bool:
    """Return whether a job waits for a person."""
    return told.outcome is None and any(one.what == "person" for one in told.waiting_for)


def quiet(told: SummaryAnswer) -> bool:
    """Return whether a run shows no progress where its plan asks for it."""
    return told.progress is not None and told.progress.quiet


def _print(to: Client, choice: Choice, shown: Screen) -> None:
    clusters, jobs = _look(to, choice)
    if shown.machine:
        shown.json({"clusters": clusters, "jobs": jobs})
        return
    shown.table(_CLUSTERS, _cluster_rows(clusters, jobs, shown))
    shown.line("")
    if jobs:
        shown.table(_JOBS, [_row(one, clusters, shown) for one in jobs])
    shown.line(_sum(jobs))


def _drawn(
    clusters: Sequence[ClusterAnswer], jobs: Sequence[ListedAnswer], shown: Screen, lost: str = ""
) -> RenderableType:
    height = max(5, shown.out.height - len(clusters) - 6)
    cut = f"; {len(jobs) - height} more don't fit" if len(jobs) > height else ""
    title = f"{shown.reader.time(shown.reader.now)}  {_sum(jobs)}{cut}   Ctrl-C ends"
    rows = [_row(one, clusters, shown) for one in jobs[:height]]
    return Group(
        Text(title, style="bold"),
        Text(lost, style="bold red"),
        shown.grid(_CLUSTERS, _cluster_rows(clusters, jobs, shown)),
        Text(""),
        shown.grid(_JOBS, rows) if rows else Text("no open jobs"),
    )


def _sum(jobs: Sequence[ListedAnswer]) -> str:
    told = [one.summary for one in jobs if one.summary is not None]
    people = sum(needs_person(one) for one in told)
    silent = sum(quiet(one) for one in told)
    parts = [f"{len(jobs)} open"]
    for state in State:
        count = sum(one.state is state for one in told)
        parts += [f"{count} {state}"] if count else []
    parts += [f"{people} {'waits' if people == 1 else 'wait'} for a person"] if people else []
    parts += [f"{silent} without progress"] if silent else []
    return ", ".join(parts)


def _cluster_rows(
    clusters: Sequence[ClusterAnswer], jobs: Sequence[ListedAnswer], shown: Screen
) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for one in clusters:
        count = sum(job.cluster == one.name for job in jobs)
        health = one.health
        last = "never" if health is None else shown.reader.ago(health.last_tick)
        brakes = "; ".join(f"{name}: {why}" for name, why in sorted(one.brakes.items()))
        said = "; ".join(part for part in (brakes, trouble_of(one)) if part)
        rows.append((one.name, str(count), last, said or "ok"))
    return rows


def _row(line: ListedAnswer, clusters: Sequence[ClusterAnswer], shown: Screen) -> tuple[str, ...]:
    told = line.summary
    if told is None:
        return ("", line.job_id, "?", line.cluster, state_of(line), "", "", "")
    since = told.since or line.created_at
    mark = "!" if needs_person(told) or quiet(told) or told.refusal is not None else ""
    spent = duration(shown.reader.now - since)
    by = (told.created_by or "").rpartition("/")[2]
    name = told.name or "?"
    waits = _waits(told, shown) or _brake(line, clusters)
    return (mark, line.job_id, name, line.cluster, state_of(line), spent, by, waits)


def _brake(line: ListedAnswer, clusters: Sequence[ClusterAnswer]) -> str:
    """Return the brake that keeps a job from beginning to run."""
    if line.summary is None or line.summary.state is State.RUNNING or line.summary.outcome:
        return ""
    known = {one.name: one.brakes for one in clusters}.get(line.cluster, {})
    return "; ".join(f"the cluster is {brake}" for brake in known if brake != "drained")


def _waits(told: SummaryAnswer, shown: Screen) -> str:
    progress = told.progress
    if progress is not None and progress.quiet and progress.since is not None:
        return f"no progress since {shown.reader.time(progress.since)}"
    if told.waiting_for:
        first = told.waiting_for[0]
        until = "" if first.until is None else f", {shown.reader.until(first.until)}"
        return first.detail + until
    return f"on {', '.join(told.nodes)}" if told.nodes and told.outcome is None else ""
