"""The tutorial, typed as it stands: every command of it, in its order, on a stack of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, blocks

PAGE = "docs/tutorials/first-job.md"
JOB = re.compile(r"\bj[a-z2-7]{20}\b")
REF = re.compile(r"was accepted as (\S+)")

NOT_TYPED = frozenset({"make setup", ". .venv/bin/activate", "dispatch up"})
"""What has been done before these tests run, or is done by the fixture."""


class Reader:
    """Somebody who types what the page says, and puts their own ids where it says so."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.job = ""
        self.ref = ""
        self.environment = {
            **os.environ,
            "HOME": str(folder),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": f"{ROOT / 'shared'}:{ROOT}",
        }
        for name in ("DISPATCH_STATE", "XDG_STATE_HOME", "DISPATCH_URL", "COLUMNS"):
            self.environment.pop(name, None)

    def types(self, command: str) -> tuple[int, str]:
        """Type a command; return its exit code and everything it said."""
        command = command.replace("REF", self.ref).replace("$JOB", self.job)
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
        if self.job and (refs := REF.findall(self._history())):
            self.ref = refs[-1]
        return done.returncode, said

    def _history(self) -> str:
        asked = ["dispatch", "history", self.job]
        return subprocess.run(
            asked, env=self.environment, capture_output=True, text=True, timeout=60, check=False
        ).stdout

    def up(self) -> subprocess.Popen[bytes]:
        """Start the stack, as in the page's second terminal."""
        started = subprocess.Popen(
            ["dispatch", "up"],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert started.stdout is not None
        for line in started.stdout:
            if b"http://" in line:
                return started
        raise AssertionError("the stack didn't say where it listens")


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
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
            (reader.folder / "count.yaml").write_text(block.text, encoding="utf-8")
            continue
        for command in block.commands():
            if command in NOT_TYPED or command.startswith("JOB="):
                continue
            codes[command], said[command] = reader.types(command)
    failed = {command: (code, said[command]) for command, code in codes.items() if code}
    waited = "dispatch watch $JOB --timeout 5"
    assert failed.keys() == {waited, "dispatch watch $JOB --exit-status"}, failed
    assert codes[waited] == 5
    assert codes["dispatch watch $JOB --exit-status"] == 11
    assert said["dispatch logs $JOB"] == "hello\n"
    assert "resubmit" in said["dispatch why $JOB"]
    assert "preempted" in said["dispatch why $JOB"]
    assert "cancelled" in said["dispatch watch $JOB --exit-status"]
