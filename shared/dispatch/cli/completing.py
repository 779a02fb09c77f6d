"""`dispatch completion`: what teaches a shell the commands and options."""

from __future__ import annotations

import os
from enum import StrEnum
from itertools import islice
from typing import Annotated

import typer

from dispatch.cli.screen import screen


class Shell(StrEnum):
    """A shell that can be taught."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


_HOW = {
    Shell.BASH: 'eval "$(dispatch completion bash)"   in ~/.bashrc',
    Shell.ZSH: 'eval "$(dispatch completion zsh)"   in ~/.zshrc, behind compinit',
    Shell.FISH: "dispatch completion fish > ~/.config/fish/completions/dispatch.fish",
}


_MOST = 200
"""Jobs that are offered; whoever has more types more."""


def open_jobs(incomplete: str) -> list[tuple[str, str]]:
    """Return the open jobs whose ids begin so, each with its name and state, for a shell.

    Nobody waits for a shell: where no answer comes at once, nothing is offered.
    """
    from dispatch.cli.connect import client
    from dispatch.cli.listing import state_of
    from dispatch.client import Patience
    from dispatch.errors import DispatchError

    at_once = Patience(connect_s=1.0, answer_s=2.0, tries=1)
    try:
        with client(os.environ.get("DISPATCH_URL") or None, at_once) as to:
            lines = list(islice(to.jobs(settled=False, summary=True), _MOST))
    except DispatchError:
        return []
    return [
        (one.job_id, f"{one.summary.name if one.summary else ''} {state_of(one)}".strip())
        for one in lines
        if one.job_id.startswith(incomplete)
    ]


def add(app: typer.Typer) -> None:
    """Add `completion`."""
    app.command()(completion)


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="Which shell.")],
) -> None:
    """Print the script that completes commands and options in a shell."""
    # Typer's own, which it would else write into a file of the person's.
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    shown = screen()
    script = get_completion_script(
        prog_name="dispatch", complete_var="_DISPATCH_COMPLETE", shell=shell.value
    )
    shown.out.file.write(script.rstrip() + "\n")
    if shown.out.is_terminal:
        shown.note(f"to keep it: {_HOW[shell]}")
