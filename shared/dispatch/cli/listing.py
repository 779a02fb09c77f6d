"""`dispatch list`: the jobs there are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Annotated

import typer

from dispatch.api import ListedAnswer
from dispatch.cli import options
from dispatch.cli.connect import client
from dispatch.cli.request import pairs_of
from dispatch.cli.screen import Screen, screen
from dispatch.client import Choice
from dispatch.core.project import State
from dispatch.narrate.words import hold_words


def add(app: typer.Typer) -> None:
    """Add `list`."""
    app.command("list")(list_jobs)


def list_jobs(
    *,
    all_: Annotated[bool, typer.Option("--all", "-a", help="Settled ones too.")] = False,
    settled: Annotated[bool, typer.Option("--settled", help="Only settled ones.")] = False,
    label: options.Labels = None,
    cluster: options.ThisCluster = None,
    state: options.States = None,
    owner: options.Owner = None,
    name: options.Name = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most how many.")] = 100,
    url: options.Url = None,
    json_: options.Json = False,
    utc: options.Utc = False,
) -> None:
    """List jobs, oldest first; those that aren't settled, unless you say otherwise."""
    shown = screen(machine=json_, utc=utc)
    wanted = None if all_ else settled
    labels = dict(pairs_of("--label", label))
    choice = Choice(labels, cluster, frozenset(state or ()), owner, name)
    with client(url) as to:
        lines = to.jobs(settled=wanted, cluster=cluster, summary=True)
        chosen = (one for one in lines if choice == Choice(cluster=cluster) or choice.meets(one))
        found = list(islice(chosen, limit + 1))
    more = len(found) > limit
    if json_:
        for one in found[:limit]:
            shown.json(one)
    elif found:
        shown.table(titles(), rows_of(found[:limit], shown))
    else:
        shown.note("no jobs" if all_ else "no such jobs; --all shows settled ones too")
    if more:
        shown.note(f"there are more than {limit}; see them with --limit")


def titles() -> tuple[str, ...]:
    """Return the titles of a table of jobs."""
    return ("JOB", "NAME", "CLUSTER", "STATE", "CREATED", "BY")


def rows_of(lines: Sequence[ListedAnswer], shown: Screen) -> list[tuple[str, ...]]:
    """Return the rows of a table of jobs."""
    return [_row(one, shown) for one in lines]


def _row(line: ListedAnswer, shown: Screen) -> tuple[str, ...]:
    told = line.summary
    name, by = ("", "") if told is None else (told.name or "?", told.created_by or "")
    return (
        line.job_id,
        name,
        line.cluster,
        state_of(line),
        shown.reader.time(line.created_at),
        by,
    )


def state_of(line: ListedAnswer) -> str:
    """Return what a job does, or how it ended."""
    told = line.summary
    if line.tombstoned:
        return "tombstoned"
    if told is None:
        return "settled" if line.settled_at else "open"
    if told.refusal is not None:
        return f"unreadable: entry {told.refusal.entry}, {told.refusal.rule}"
    if told.outcome is None:
        held = "; ".join(hold_words(one) for one in told.holds)
        said = held if told.state is State.HELD else f"hold asked {held}"
        return f"{told.state} ({said})" if held else str(told.state)
    cause = f" ({told.cause})" if told.cause is not None else ""
    return f"{told.outcome}{cause}" + ("" if line.settled_at else ", not settled")
