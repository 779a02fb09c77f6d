"""The command line: a doorway for people and scripts, a module for each subject."""

from __future__ import annotations


def main() -> None:
    """Run `dispatch`; the process exits with one of the documented codes."""
    import sys

    from dispatch.cli.app import app
    from dispatch.cli.spelling import writable

    writable(sys.stdout, sys.stderr)
    app()
