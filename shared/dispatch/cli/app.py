"""The command line put together, and every error told with what to do next."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dispatch.cli import clusters, intents, jobs, listing, offline, reading, stack, submit
from dispatch.cli.exits import Code, code_of
from dispatch.cli.screen import screen
from dispatch.errors import DispatchError


class Told(TyperGroup):
    """A group whose commands end with a documented exit code, whatever goes wrong."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an error of Dispatch's becomes a sentence and an exit code."""
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
) -> None:
    pass


for _part in (stack, submit, listing, jobs, reading, intents, offline, clusters):
    _part.add(app)
