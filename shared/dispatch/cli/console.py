"""`dispatch ui`: the console in a browser, asked in the name of whoever runs it."""

from __future__ import annotations

import os
import secrets
import signal
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from html import escape
from pathlib import Path
from threading import Event
from typing import Annotated

import typer

from dispatch.cli import options
from dispatch.cli.connect import client
from dispatch.cli.screen import screen
from dispatch.client.console import HOST, Console
from dispatch.errors import BadConfiguration
from dispatch.settings import state_directory


def add(app: typer.Typer) -> None:
    """Add `ui`."""
    app.command()(ui)


def ui(
    *,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65_535, help="On 127.0.0.1; 0 for any free one.")
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Whether a browser is opened.")
    ] = True,
    url: options.Url = None,
) -> None:
    """Show the console in a browser on this machine, signed in as you; Ctrl-C ends it."""
    shown = screen()
    with client(url) as to:
        actor = to.whoami()
        try:
            console = Console(to.relay, secrets.token_urlsafe(32), port=port)
        except OSError as error:
            raise BadConfiguration(
                f"port {port} of {HOST}: {error.strerror}; give another with --port"
            ) from None
        console.start()
        try:
            shown.line(console.address)
            shown.out.file.flush()
            shown.note(f"it shows {to.url} to {actor}, on this machine and for this run only")
            with _stopped() as stopped, _opened(console.address) if browser else nullcontext():
                shown.note("Ctrl-C ends it")
                stopped.wait()
        finally:
            console.close()


@contextmanager
def _opened(address: str) -> Iterator[None]:
    """Open a browser at an address that no other user of this machine gets to see.

    A browser's command line is everybody's to read. The address, with the secret in it, stands in
    a file of the user's own instead.
    """
    folder = state_directory()
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / f"console-{os.getpid()}.html"
    page.unlink(missing_ok=True)
    handle = os.open(page, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(_page(address))
    try:
        if not webbrowser.open(Path(page).absolute().as_uri()):
            screen().note("no browser could be opened here: open the address above yourself")
        yield
    finally:
        page.unlink(missing_ok=True)


def _page(address: str) -> str:
    link = escape(address, quote=True)
    return (
        '<!doctype html><meta charset="utf-8"><title>Dispatch</title>'
        f'<meta name="referrer" content="no-referrer"><meta http-equiv="refresh" '
        f'content="0;url={link}"><a href="{link}">The console</a>\n'
    )


@contextmanager
def _stopped() -> Iterator[Event]:
    """Give something to wait for that Ctrl-C and a polite end set."""
    stopped = Event()
    before = {
        number: signal.signal(number, lambda *_: stopped.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
