"""One world and one browser for all tests; each test has a window that nothing may go wrong in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.real.browser.world import World, made

FLAGS = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective}: ${event.blockedURI} ${event.sample}`);
});
"""


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    running = made(tmp_path_factory.mktemp("world"))
    yield running
    running.end()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    named = os.environ.get("CHROMIUM", "chromium")
    path = shutil.which(named)
    assert path is not None, f"no {named} was found: make test-browser installs it"
    # Chromium refuses to run as root in its sandbox.
    flags = [*FLAGS, "--no-sandbox"] if os.geteuid() == 0 else FLAGS
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=flags)
        yield chromium
        chromium.close()


@dataclass
class Window:
    """A page of a browser, and what went wrong in it."""

    page: Page
    origin: str
    wrong: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    also: tuple[str, ...] = ()
    """Who else may be asked."""

    def show(self, place: str) -> None:
        """Go to a view, and wait until it shows what it asked for."""
        self.page.goto(f"{self.origin}/ui{place}")
        self.shown()

    def shown(self) -> None:
        self.page.wait_for_selector(".loading", state="detached")
        self.page.wait_for_selector("main .body > *, .sign-in")

    def text(self, selector: str) -> str:
        return str(self.page.locator(selector).first.inner_text())

    def hash(self) -> str:
        return str(urlsplit(str(self.page.url)).fragment)

    def names(self) -> list[str]:
        """The names of the jobs in the list."""
        return list(self.page.locator("table.jobs .job-name").all_inner_texts())

    def no_violations(self) -> None:
        assert self.page.evaluate("window.violations") == []


Open = Callable[..., Window]


@pytest.fixture
def opened(browser: Browser, world: World) -> Iterator[Open]:
    """Open windows; in the end none may have met an error, a violation or another origin."""
    windows: list[Window] = []

    def new(*, width: int = 1200, height: int = 900, origin: str = "", **asked: Any) -> Window:
        told = {"timezone_id": "UTC", "locale": "en-GB", **asked}
        context = browser.new_context(viewport={"width": width, "height": height}, **told)
        context.add_init_script(WATCH)
        page = context.new_page()
        window = Window(page, origin or world.url)
        page.on("console", lambda one: _note(window, one.type, one.text))
        page.on("pageerror", lambda error: window.wrong.append(f"error: {error}"))
        page.on("request", lambda request: window.asked.append(request.url))
        windows.append(window)
        return window

    yield new
    for window in windows:
        window.no_violations()
        mine = tuple(f"{one}/" for one in (window.origin, *window.also))
        elsewhere = [one for one in window.asked if not one.startswith(mine)]
        window.page.context.close()
        assert window.wrong == []
        assert elsewhere == []


def _note(window: Window, kind: str, text: str) -> None:
    if kind in ("error", "warning"):
        window.wrong.append(f"{kind}: {text}")


@pytest.fixture
def window(opened: Open) -> Window:
    return opened()


@dataclass
class LocalConsole:
    """A `dispatch ui` of the tests' own."""

    address: str
    process: subprocess.Popen[str]

    @property
    def origin(self) -> str:
        return self.address.partition("/ui")[0]

    @property
    def secret(self) -> str:
        return self.address.partition("#secret=")[2]


@pytest.fixture
def console(world: World, tmp_path: Path) -> Iterator[LocalConsole]:
    command = [sys.executable, "-m", "dispatch.cli", "ui", "--no-browser", "--url", world.url]
    env = {**os.environ, "DISPATCH_STATE": str(tmp_path)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
    assert process.stdout is not None
    yield LocalConsole(process.stdout.readline().strip(), process)
    process.terminate()
    process.communicate(timeout=30)
