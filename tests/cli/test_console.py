"""`dispatch ui` as a person runs it: a process that shows a stack to a browser, and ends."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import Shell
from tests.embedded.running import Running

BROWSER = """#!/bin/sh
echo "$1" > {told}.new
stat -c %a "${{1#file://}}" >> {told}.new
cat "${{1#file://}}" >> {told}.new
mv {told}.new {told}
"""


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Running]:
    running = Running(tmp_path / "state")
    yield running
    running.end()


def started(stack: Running, *options: str, **env: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "dispatch.cli", "ui", "--url", stack.url, *options]
    told = {**os.environ, "DISPATCH_STATE": str(stack.state), **env}
    return subprocess.Popen(
        command, env=told, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def first_line(console: subprocess.Popen[str]) -> str:
    assert console.stdout is not None
    return console.stdout.readline().strip()


def ended(console: subprocess.Popen[str], number: signal.Signals) -> tuple[int, str]:
    console.send_signal(number)
    _, errors = console.communicate(timeout=30)
    return console.returncode, errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_an_address_that_shows_the_stack_and_ends_when_told(
    stack: Running, number: signal.Signals
) -> None:
    job = stack.submit("shown", command=["true"]).json()["job_id"]
    console = started(stack, "--no-browser")
    address = first_line(console)
    page, _, secret = address.partition("#secret=")
    assert page.startswith("http://127.0.0.1:")
    assert len(secret) > 30
    assert "<title>Dispatch</title>" in httpx.get(page).text
    asked = page.removesuffix("/ui") + f"/jobs/{job}"
    assert httpx.get(asked).status_code == 401
    told = httpx.get(asked, headers={"Authorization": f"Bearer {secret}"})
    assert told.json()["name"] == "shown"
    code, errors = ended(console, number)
    assert code == 0, errors
    assert f"it shows {stack.url} to local:" in errors


def test_two_runs_have_two_secrets(stack: Running) -> None:
    consoles = [started(stack, "--no-browser") for _ in range(2)]
    secrets = {first_line(one).partition("#secret=")[2] for one in consoles}
    for one in consoles:
        ended(one, signal.SIGTERM)
    assert len(secrets) == 2


def test_a_browser_is_opened_without_the_secret_on_its_command_line(
    stack: Running, tmp_path: Path
) -> None:
    told, browser = tmp_path / "told", tmp_path / "browser"
    browser.write_text(BROWSER.format(told=told))
    browser.chmod(0o700)
    console = started(stack, BROWSER=f"{browser} %s")
    address = first_line(console)
    while not told.exists():
        assert console.poll() is None
    opened, mode, page = told.read_text().split("\n", 2)
    assert opened.startswith("file://")
    assert "secret" not in opened
    assert mode == "600"
    assert address in page
    kept = Path(opened.removeprefix("file://"))
    assert stat.S_ISREG(kept.stat().st_mode)
    code, errors = ended(console, signal.SIGTERM)
    assert code == 0, errors
    assert not kept.exists()


def test_an_endpoint_that_doesn_t_answer_is_told_before_anything_is_shown(shell: Shell) -> None:
    shell.network = lambda: httpx.MockTransport(_refuses)
    done = shell("ui", "--no-browser")
    assert done.exit_code == 5
    assert "no connection" in done.stderr
    assert done.stdout == ""


def _refuses(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused", request=request)


def test_a_port_that_is_taken_is_told(shell: Shell, stack: Running) -> None:
    port = stack.url.rpartition(":")[2]
    done = shell("ui", "--no-browser", "--port", port)
    assert done.exit_code == 1
    assert f"port {port} of 127.0.0.1" in done.stderr
    assert "--port" in done.stderr
