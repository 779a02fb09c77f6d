"""`dispatch up`, `demo` and `simulate`: what isn't in the layer is loaded only here."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dispatch.cli.exits import NotHere
from dispatch.cli.reading import print_history
from dispatch.cli.screen import Screen, screen
from dispatch.narrate.history import history
from dispatch.narrate.story import why
from dispatch.record.view import View
from dispatch.settings import STACK_PORT, state_directory

_ALL_ARGUMENTS = {"ignore_unknown_options": True, "allow_extra_args": True}


class Store(StrEnum):
    """Where a stack keeps its records."""

    SQLITE = "sqlite"
    DYNAMODB = "dynamodb"


def add(app: typer.Typer) -> None:
    """Add `up`, `demo` and `simulate`."""
    app.command()(up)
    app.command()(demo)
    app.command(context_settings=_ALL_ARGUMENTS, add_help_option=False)(simulate)


def up(
    *,
    state: Annotated[
        Path | None,
        typer.Option("--state", help="The folder that holds all it must not lose."),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65_535, help="On 127.0.0.1; 0 for any free one.")
    ] = STACK_PORT,
    store: Annotated[Store, typer.Option("--store", help="Where records are kept.")] = Store.SQLITE,
    endpoint: Annotated[
        str | None, typer.Option("--endpoint", help="A DynamoDB endpoint other than AWS's own.")
    ] = None,
    table: Annotated[str, typer.Option("--table", help="The DynamoDB table.")] = "dispatch",
    tick: Annotated[
        float, typer.Option("--tick", min=0.1, max=60, help="Seconds between two looks.")
    ] = 1.0,
    archive: Annotated[
        Path | None,
        typer.Option("--archive", help="A folder for the exports of what is removed."),
    ] = None,
    archive_after: Annotated[
        int,
        typer.Option(
            "--archive-after",
            metavar="DAYS",
            min=0,
            max=36_500,
            help="Archive and tombstone what has been settled that long; 0 for never.",
        ),
    ] = 0,
) -> None:
    """Start the whole of Dispatch on this machine, and go on until Ctrl-C."""
    try:
        from embedded.stack import StackSettings, run
    except ImportError as error:
        raise NotHere(f"the one-machine stack isn't installed here ({error})") from None
    if archive_after and archive is None:
        raise typer.BadParameter("--archive-after needs --archive: a folder to archive in")
    shown = screen()
    settings = StackSettings(
        state=state or state_directory(),
        port=port,
        tick_s=tick,
        store=store.value,
        endpoint=endpoint,
        table=table,
        archive=archive,
        archive_after_days=archive_after,
    )

    def say(line: str) -> None:
        shown.line(line)
        shown.out.file.flush()

    run(settings, say=say)


class _Teller:
    """Shows the demo on a screen.

    Args:
        shown: Where.
    """

    def __init__(self, shown: Screen) -> None:
        self._shown = shown

    def title(self, text: str) -> None:
        """Show what comes now."""
        self._shown.line("")
        self._shown.line(text, style="bold cyan")
        self._shown.out.file.flush()

    def say(self, text: str) -> None:
        """Show one sentence."""
        self._shown.line(f"  {text}")
        self._shown.out.file.flush()

    def record(self, view: View) -> None:
        """Show the outcome in a line, and the whole history."""
        self._shown.line("")
        print_history(history(view, self._shown.reader), self._shown)
        self._shown.line("")
        self._shown.line(why(view, self._shown.reader).headline, style="bold")
        self._shown.out.file.flush()


def demo(
    *,
    keep: Annotated[
        Path | None,
        typer.Option("--keep", help="A new folder for all that the demo makes, kept afterwards."),
    ] = None,
    utc: Annotated[bool, typer.Option("--utc", help="Show times in UTC.")] = False,
) -> None:
    """Start a stack for itself, tell the stories of three jobs, and end."""
    try:
        from embedded.demo.play import play
    except ImportError as error:
        raise NotHere(f"the one-machine stack isn't installed here ({error})") from None
    raise typer.Exit(play(_Teller(screen(utc=utc, pipe_width=140)), root=keep))


def simulate(ctx: typer.Context) -> None:
    """Prove the protocol in simulated worlds, from seeds (`dispatch simulate --help`)."""
    try:
        from simulator.command import main
    except ImportError as error:
        raise NotHere(f"the simulator isn't installed here ({error})") from None
    raise typer.Exit(main(list(ctx.args)))
