"""The command line put together, and every error told with what to do next."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dispatch.cli import (
    accounts,
    checking,
    clusters,
    completing,
    console,
    intents,
    jobs,
    listing,
    offline,
    reading,
    stack,
    submit,
    top,
)
from dispatch.cli.exits import Code, code_of
from dispatch.cli.screen import COLOUR, Colour, screen
from dispatch.errors import DispatchError


class Told(TyperGroup):
    """A group whose commands end with a documented exit code, whatever goes wrong."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take `--color` wherever it stands before `--`."""
        end = args.index("--") if "--" in args else len(args)
        ours, theirs = _colour_apart(args[:end])
        parsed: list[str] = super().parse_args(ctx, [*ours, *theirs, *args[end:]])
        return parsed

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an error of Dispatch's becomes a sentence and an exit code."""
        said = ctx.params.get("color")
        COLOUR.set(Colour.AUTO if said is None else said)
        rest = list(ctx.args)
        before = rest[: rest.index("--")] if "--" in rest else rest
        shown = screen(machine="--json" in before)
        try:
            return super().invoke(ctx)
        except DispatchError as error:
            shown.problem(error)
            raise typer.Exit(int(code_of(error))) from None
        except KeyboardInterrupt:
            shown.note("interrupted; jobs go on")
            raise typer.Exit(int(Code.INTERRUPTED)) from None


def _colour_apart(args: list[str]) -> tuple[list[str], list[str]]:
    """Return what says `--color`, and all the rest."""
    ours: list[str] = []
    theirs: list[str] = []
    left = iter(args)
    for word in left:
        if word == "--color":
            ours = [word, *([value] if (value := next(left, None)) is not None else [])]
        elif word.startswith("--color="):
            ours = [word]
        else:
            theirs.append(word)
    return ours, theirs


app = typer.Typer(
    cls=Told,
    name="dispatch",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Jobs on Slurm, Kubernetes and one machine, kept as records that no scheduler can forget.",
    epilog="Exit codes: 0 ok, 1 refused or failed, 2 usage, 3 not found, 4 conflict, "
    "5 try again later, 6 may have taken effect; see docs/reference/cli.md.",
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"dispatch {version('dispatch-record')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which build.")
    ] = False,
    color: Annotated[
        Colour,
        typer.Option("--color", help="Colours, whatever NO_COLOR and pipes say."),
    ] = Colour.AUTO,
) -> None:
    del version, color


_IN_SHORT = {
    "up": "Start all of Dispatch on this machine, until Ctrl-C.",
    "demo": "Start a stack for itself, tell three jobs' stories, and end.",
    "simulate": "Prove the protocol in simulated worlds, from seeds.",
    "init": "Write a commented job file to begin with.",
    "lint": "Say what each cluster would refuse of a job file.",
    "submit": "Submit a job file, or a command after `--`.",
    "list": "List jobs, oldest first; open ones unless you say otherwise.",
    "top": "Show all open jobs, the oldest wait first, and the clusters.",
    "watch": "Follow a job until it is settled.",
    "history": "Show every entry of a record.",
    "export": "Print a record as a text that folds the same anywhere.",
    "verify": "Fold an exported record here, or name the rule it breaks.",
    "resubmit": "Start jobs again; with --anew a settled one, as a new job.",
    "abandon": "Vouch for an attempt or an object, so that it blocks nothing.",
    "usage": "Report node-hours, GPU-hours and what was lost to which cause.",
    "next": "Say what would happen next to a record, and why.",
    "schema": "Print the JSON schemas of job files and records.",
    "explain": "Say what a scheduler's raw answer is worth as evidence.",
    "discover": "Take one whole look at a cluster, for `dispatch next`.",
    "completion": "Print what completes commands in your shell.",
    "ui": "Show the console in a browser on this machine.",
}
"""What the list of commands says of those whose own first sentence is too long for a line of it."""

for _part in (
    *(stack, checking, submit, listing, top, jobs, reading, intents),
    *(accounts, offline, clusters, completing, console),
):
    _part.add(app)

for _command in app.registered_commands:
    _function = "" if _command.callback is None else _command.callback.__name__
    _command.short_help = _IN_SHORT.get(_command.name or _function)
