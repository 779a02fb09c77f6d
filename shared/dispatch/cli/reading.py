"""`dispatch history`, `why`, `export` and `verify`: the record itself, from the API or a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from dispatch.cli import options
from dispatch.cli.connect import client
from dispatch.cli.exits import Code
from dispatch.cli.files import export_of, is_file, text_of, write
from dispatch.cli.screen import Screen, screen
from dispatch.client import settled
from dispatch.core.fold import fold
from dispatch.core.project import Staleness, project
from dispatch.errors import DispatchError, RecordRefused
from dispatch.narrate.around import Around
from dispatch.narrate.history import History, Line, history
from dispatch.narrate.story import Story, headline, why
from dispatch.narrate.words import Reader
from dispatch.record.export import import_text
from dispatch.record.view import View


def add(app: typer.Typer) -> None:
    """Add `history`, `why`, `export` and `verify`."""
    app.command("history")(show_history)
    app.command("why")(show_why)
    app.command()(export)
    app.command()(verify)


def _record(source: str, url: str | None) -> View:
    if is_file(source):
        return import_text(export_of(source))
    with client(url) as to:
        return to.record(source)


def _with_around(source: str, url: str | None) -> tuple[View, Staleness | None, Around]:
    """Return a record, and what bears on its job; of a file nothing of that is known."""
    if is_file(source):
        return _record(source, url), None, Around()
    with client(url) as to:
        view = to.record(source)
        try:
            answer = to.get(source)
            brakes = {one.name: one.brakes for one in to.clusters()}.get(answer.cluster, {})
        except DispatchError:
            return view, None, Around()
    progress, health = answer.progress, answer.stale_since
    quiet = progress.since if progress is not None and progress.quiet else None
    around = Around(brakes, quiet)
    if health is None:
        return view, None, around
    said = (health.supervisor, health.last_tick, health.last_complete_find, health.last_error)
    return view, Staleness(*said), around


def show_history(
    job: options.Source,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until it is settled.")
    ] = False,
    url: options.Url = None,
    json_: options.Json = False,
    utc: options.Utc = False,
) -> None:
    """Show every entry of a record: when, who, what happened and why."""
    shown = screen(machine=json_, utc=utc)
    if follow:
        _follow(job, url, shown)
        return
    view = _record(job, url)
    told = history(view, shown.reader)
    if json_:
        for line in told.lines:
            shown.json(line)
    else:
        print_history(told, shown)
    if told.refused is not None:
        raise typer.Exit(int(Code.REFUSED))


def _follow(job: str, url: str | None, shown: Screen) -> None:
    """Write each entry as it comes: a line for each, until the job is settled."""
    if is_file(job):
        raise typer.BadParameter("a file doesn't go on: --follow takes a job's id")
    written = -1
    with client(url) as to:
        for status in to.watch(job):
            view = to.record(job)
            told = history(view, shown.reader)
            for line in told.lines:
                if line.entry <= written:
                    continue
                written = line.entry
                if shown.machine:
                    shown.json(line)
                else:
                    why_ = f" ({line.why})" if line.why else ""
                    at = "" if line.at is None else shown.reader.time(line.at)
                    shown.line(f"{line.entry:>3}  {at}  {line.by or '?'}  {line.what}{why_}")
            shown.out.file.flush()
            if told.refused is not None:
                raise typer.Exit(int(Code.REFUSED))
            if settled(status) and view.revision >= status.revision:
                return


def print_history(told: History, shown: Screen) -> None:
    """Write a history as a table."""
    reader = shown.reader
    first = told.lines[0].at
    day = ""
    if first is not None:
        reader, day = reader.on_the_day_of(first), f"{reader.date(first)} "
    titles = ("#", f"{day}{reader.zone_name}", "WHO", "WHAT", "WHY")
    shown.table(titles, [_row(line, reader) for line in told.lines])


def _row(line: Line, reader: Reader) -> tuple[str, ...]:
    at = "" if line.at is None else reader.time(line.at)
    return (str(line.entry), at, line.by or "", line.what, line.why or "")


def show_why(
    job: options.Source,
    *,
    now: options.AsOf = None,
    url: options.Url = None,
    json_: options.Json = False,
    utc: options.Utc = False,
) -> None:
    """Tell why a job stands as it does, and what can be done."""
    shown = screen(machine=json_, utc=utc, now=None if now is None else options.instant(now))
    view, staleness, around = _with_around(job, url)
    if now is not None:
        staleness, around = None, Around()
    story = why(view, shown.reader, staleness=staleness, around=around)
    if json_:
        shown.json(story)
    else:
        print_story(story, shown)
    if not story.foldable:
        raise typer.Exit(int(Code.REFUSED))


def print_story(story: Story, shown: Screen) -> None:
    """Write a story."""
    shown.line(story.headline, style="bold")
    for section in story.sections:
        shown.line("")
        shown.line(section.title, style="bold cyan")
        for line in section.lines:
            depth = len(line) - len(line.lstrip(" "))
            shown.out.print(_indented(line.lstrip(" "), 2 + depth, shown))
    shown.line("")
    shown.line("What you can do", style="bold cyan")
    for one in story.advice:
        shown.line(f"  {one.command}", style="green")
        shown.out.print(_indented(one.purpose, 6, shown))


def _indented(text: str, depth: int, shown: Screen) -> Text:
    """Return a paragraph that keeps its indent where it is wrapped."""
    lines = Text(text).wrap(shown.out, max(20, shown.out.width - depth - 2))
    for line in lines:
        line.rstrip()
    return Text("\n").join(
        Text(" " * (depth + (2 if n else 0))) + one for n, one in enumerate(lines)
    )


def export(
    job: options.Job,
    *,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file, instead of standard output.")
    ] = None,
    url: options.Url = None,
) -> None:
    """Print a record as a text that folds to the same job on any machine."""
    shown = screen()
    with client(url) as to:
        text = to.export(job)
    if output is None:
        shown.out.file.write(text)
        return
    write(output, text)
    shown.note(f"{len(text.splitlines()) - 1} entries written to {output}")


def verify(
    file: options.File,
    *,
    json_: options.Json = False,
    utc: options.Utc = False,
) -> None:
    """Fold an exported record here: the job it says, or the entry and the rule it breaks."""
    shown = screen(machine=json_, utc=utc)
    try:
        view = import_text(text_of(file))
        job = fold(view, shown.reader.now)
    except RecordRefused as refused:
        _print_refusal(refused, shown)
        raise typer.Exit(int(Code.REFUSED)) from None
    status = project(job, None, shown.reader.now)
    if json_:
        shown.json({"folds": True, "revision": view.revision, "status": status})
        return
    shown.line(f"folds: {view.revision} entries", style="green")
    shown.line(headline(status))


def _print_refusal(refused: RecordRefused, shown: Screen) -> None:
    if shown.machine:
        shown.json(
            {
                "folds": False,
                "refusal": {
                    "code": refused.code,
                    "rule": refused.rule,
                    "job": refused.job,
                    "entry": refused.entry,
                    "field": refused.field,
                    "detail": refused.reason,
                },
            }
        )
        return
    entry = refused.entry
    where = "the export" if entry is None else "the header" if entry == 0 else f"entry {entry}"
    shown.line(f"refused at {where}: {refused.reason}", style="red")
    shown.pairs(
        {
            "job": refused.job,
            "entry": None if entry is None else str(entry),
            "field": refused.field,
            "rule": refused.rule or refused.code,
            "kind": refused.code,
        }
    )
    shown.note("nothing is guessed: `dispatch why FILE` tells what can be read before it")
