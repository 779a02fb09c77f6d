"""The tutorial, typed as it stands: every command of it, in its order, on a stack of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.docs.blocks import ROOT, blocks
from tests.docs.forked import Forked

PAGE = "docs/tutorials/first-job.md"
JOB = re.compile(r"\bj[a-z2-7]{20}\b")
REF = re.compile(r"was accepted as (\S+)")

NOT_TYPED = frozenset({"make setup", ". .venv/bin/activate", "dispatch up"})
"""What has been done before these tests run, or is done by the fixture."""


class Reader:
    """Somebody who types what the page says, and puts their own ids where it says so."""

    def __init__(self, folder: Path, dispatch: str) -> None:
        self.folder = folder
        tools = folder / ".tools"
        tools.mkdir()
        (tools / "dispatch").write_text(dispatch, encoding="utf-8")
        (tools / "dispatch").chmod(0o755)
        self.job = ""
        self.environment = {
            **os.environ,
            "HOME": str(folder),
            "PATH": f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": f"{ROOT / 'shared'}:{ROOT}",
        }
        for name in ("DISPATCH_STATE", "XDG_STATE_HOME", "DISPATCH_URL", "COLUMNS"):
            self.environment.pop(name, None)

    def types(self, command: str) -> tuple[int, str]:
        """Type a command; return its exit code and everything it said."""
        if "REF" in command:
            command = command.replace("REF", REF.findall(self._history())[-1])
        command = command.replace("$JOB", self.job)
        done = subprocess.run(
            command,
            shell=True,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        said = done.stdout + done.stderr
        if command.startswith("dispatch submit") and (found := JOB.search(said)):
            self.job = found[0]
        if " preempt " in command:
            self._a_moment_later()
        return done.returncode, said

    def _a_moment_later(self) -> None:
        """Wait until the job runs again, or the test's time is over."""
        while "submission 2" not in self.types("dispatch status $JOB")[1]:
            time.sleep(0.2)

    def _history(self) -> str:
        asked = ["dispatch", "history", self.job]
        return subprocess.run(
            asked, env=self.environment, capture_output=True, text=True, timeout=60, check=False
        ).stdout

    def up(self, *more: str) -> subprocess.Popen[bytes]:
        """Start the stack, as in the page's second terminal."""
        started = subprocess.Popen(
            [str(Path(sys.executable).parent / "dispatch"), "up", *more],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert started.stdout is not None
        for line in started.stdout:
            if b"http://" in line:
                return started
            if b"already in use" in line and not more:
                with started.stdout:
                    started.wait(30)
                return self.up("--port", "0")  # as the page says
        raise AssertionError("the stack didn't say where it listens")


@pytest.fixture
def reader(tmp_path: Path, forked: Forked) -> Iterator[Reader]:
    reader = Reader(tmp_path, forked.client())
    stack = reader.up()
    yield reader
    stack.send_signal(signal.SIGINT)
    stack.communicate(timeout=30)


@pytest.mark.timeout(240)
def test_the_tutorial_can_be_typed_as_it_stands(reader: Reader) -> None:
    said: dict[str, str] = {}
    codes: dict[str, int] = {}
    for block in blocks("console", "yaml"):
        if block.page != PAGE:
            continue
        if block.language == "yaml":
            name = yaml.safe_load(block.text)["name"]
            (reader.folder / f"{name}.yaml").write_text(block.text, encoding="utf-8")
            continue
        for one in block.typed():
            command = one.command
            if command in NOT_TYPED or command.startswith("JOB="):
                continue
            codes[command], answer = reader.types(command)
            said[command] = said.get(command, "") + answer
            if one.answer:
                assert answer == "\n".join(one.answer).rstrip() + "\n"
    failed = {command: (code, said[command]) for command, code in codes.items() if code}
    waited, wrong = "dispatch watch $JOB --timeout 5", "dispatch submit wrong.yaml"
    assert failed.keys() == {waited, wrong, "dispatch watch $JOB --exit-status"}, failed
    assert codes[waited] == 5
    assert codes["dispatch watch $JOB --exit-status"] == 11
    assert codes[wrong] == 1
    assert said["dispatch logs $JOB"].startswith("hello\n")
    assert "resubmit" in said["dispatch why $JOB"]
    assert "app_error" in said["dispatch why $JOB"]
    assert "1 waits for a person" in said["dispatch top --once"]
    assert "in place of" in said["dispatch resubmit $JOB --set 'command=[echo, found the data]'"]
    assert "preempted" in said["dispatch why $JOB"]
    assert "cancelled" in said["dispatch watch $JOB --exit-status"]
