"""Somebody who reads a page and types what it says, with their own ids in their places."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

from tests.docs.blocks import ROOT
from tests.docs.stands import PLACES, REASONS, STAND_IN, judge
from tests.embedded.running import Running

BIN = Path(sys.executable).parent
REAL = (
    *("bash", "sh", "cat", "cp", "env", "grep", "head", "ls", "mkdir", "rm", "sed", "sleep"),
    *("tail", "true", "xargs"),
)
"""Programs of the machine that pages may use; any other one isn't found, and its page fails."""

_SHELL = """set -a
[ -f "$SAVED/variables" ] && . "$SAVED/variables"
[ -f "$SAVED/folder" ] && cd "$(cat "$SAVED/folder")"
eval "$1"
code=$?
export -p > "$SAVED/variables"; pwd > "$SAVED/folder"
exit $code
"""
"""Types one command as if the shell of the one before were still open."""

_JQ = """#!{python}
import json, sys
said = json.load(sys.stdin if len(sys.argv) < 4 else open(sys.argv[3]))
for name in sys.argv[2].strip(".").split("."):
    said = said[name]
print(said)
"""
"""What the pages ask of jq, where that may not be installed."""

JOB = re.compile(r"\bj[a-z2-7]{20}\b")


class Person:
    """Somebody at a shell, in a fresh home, in what looks like a copy of this repository.

    Args:
        stack: What runs.
        folder: The home.
        dispatch: The program of that name.
    """

    def __init__(self, stack: Running, folder: Path, dispatch: str) -> None:
        self.stack = stack
        self.home = folder
        self.job: str | None = None
        self.during = ExitStack()
        self.given: set[str] = set()
        self.saved = folder / ".saved"
        tools = folder / ".tools"
        for one in (self.saved, tools, folder / "docs"):
            one.mkdir()
        for name in REASONS:
            place = folder / PLACES[name] if name in PLACES else tools / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(STAND_IN.replace("NAME", name), encoding="utf-8")
            place.chmod(0o755)
        (tools / "jq").write_text(_JQ.format(python=sys.executable), encoding="utf-8")
        (tools / "jq").chmod(0o755)
        (tools / "dispatch").write_text(dispatch, encoding="utf-8")
        (tools / "dispatch").chmod(0o755)
        for name in ("python", "python3"):
            (tools / name).write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
            (tools / name).chmod(0o755)
        for name in REAL:
            found = shutil.which(name, path="/usr/bin:/bin")
            assert found is not None, name
            (tools / name).symlink_to(found)
        (folder / "docs/incidents").symlink_to(ROOT / "docs/incidents")
        (folder / "infra").symlink_to(ROOT / "infra")
        ignored = shutil.ignore_patterns("__pycache__", "checkpoints")
        shutil.copytree(ROOT / "docs/examples", folder / "docs/examples", ignore=ignored)
        state = folder / ".local/state/dispatch"
        state.parent.mkdir(parents=True)
        state.symlink_to(stack.state)
        self.environment = {
            **{k: v for k, v in os.environ.items() if k not in ("COLUMNS", "DISPATCH_URL")},
            "HOME": str(folder),
            "PATH": str(tools),
            "PYTHONPATH": f"{ROOT / 'shared'}:{ROOT}",
            "SAVED": str(self.saved),
            "STAND_INS": str(self.saved),
            "BROWSER": "true",
        }
        self.environment.pop("XDG_STATE_HOME", None)

    def answers(self, name: str, script: str) -> None:
        """Let a stand-in answer; the script sees what it was asked as `$@`."""
        (self.saved / f"{name}.answer").write_text(script, encoding="utf-8")

    def types(self, command: str, words: Mapping[str, str]) -> tuple[int, str]:
        """Type a command; return its exit code and everything it said."""
        typed = filled(command, words)
        done = subprocess.run(
            ["/bin/bash", "-c", _SHELL, "bash", typed],
            cwd=self.home,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=90,
            check=False,
        )
        made = JOB.search(done.stdout) if " submit " in typed else None
        if made and not done.returncode and "--dry-run" not in typed:
            self.job = made[0]
        return done.returncode, done.stdout

    def begins(self, command: str) -> tuple[int, str]:
        """Type what goes on until Ctrl-C, see it say where it listens, and end it so."""
        started = subprocess.Popen(
            ["bash", "-c", f"exec {BIN}/{command}"],
            cwd=self.home,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert started.stdout is not None
        said = ""
        for line in started.stdout:
            said += line
            if "Ctrl-C" in line:
                break
        started.send_signal(signal.SIGINT)
        with started.stdout:
            said += started.stdout.read()
        return started.wait(30), said

    def running(self) -> str:
        """Return the ref of this page's job once it runs; each is given once.

        Where the page has no job that goes on, a fresh one is made.
        """
        if self.job is not None:
            status = self.stack.get(f"/jobs/{self.job}")
            if "outcome" in status or status.get("ref") in self.given:
                self.job = None
        if self.job is None:
            key = f"{self.home.name}-{len(self.given)}"
            self.job = self.stack.submit(key, command=["sleep", "300"]).json()["job_id"]
        status = self.stack.until(self.job, lambda status: status["state"] == "running")
        self.given.add(str(status["ref"]))
        return str(status["ref"])

    def judged(self) -> int:
        """Hold what the stand-ins were asked against what the real programs take."""
        asked = self.saved / "asked"
        calls = list(_calls(asked.read_text(encoding="utf-8"))) if asked.exists() else []
        for name, *words in calls:
            judge(name, words)
        return len(calls)


def _calls(text: str) -> Iterator[list[str]]:
    for call in text.split("\035"):
        if call:
            yield call.split("\036")[:-1]


def filled(command: str, words: Mapping[str, str]) -> str:
    """Return a command with one's own words where the page has capitals."""
    for word, mine in words.items():
        command = re.sub(rf"(?<![\w$.{{-]){re.escape(word)}(?![\w=])", mine, command)
    return command
