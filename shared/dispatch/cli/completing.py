"""`dispatch completion`: what teaches a shell the commands and options."""

from __future__ import annotations

from enum import StrEnum
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
