"""A stack in a process of its own, for tests that kill it."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from tests.architecture.sources import ROOT

RUN = """
import json, sys
from pathlib import Path
from embedded.stack import StackSettings, run
told = json.loads(sys.argv[2])
if "archive" in told:
    told["archive"] = Path(told["archive"])
settings = StackSettings(Path(sys.argv[1]), **told)
run(settings, say=lambda line: print(line, flush=True))
"""


class Running:
    """A stack in a process of its own."""

    def __init__(self, state: Path, **settings: Any) -> None:
        self.state = state
        told = json.dumps({"port": 0, "tick_s": 0.2, **settings})
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUN, str(state), told],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.process.stdout is not None
        self.first_line = self.process.stdout.readline()
        self.url = ""
        if "listens on" in self.first_line:
            self.url = self.first_line.split(" ")[3]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(20)
        self._close()

    def end(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGTERM)
        return self.ended()

    def ended(self) -> tuple[int, str]:
        # Not communicate(): it reads past what readline() has already taken into its buffer.
        assert self.process.stdout is not None
        out = self.process.stdout.read()
        code = self.process.wait(40)
        self._close()
        return code, self.first_line + out

    def _close(self) -> None:
        assert self.process.stdout is not None
        self.process.stdout.close()

    # --- the API ------------------------------------------------------------------------------

    def get(self, path: str) -> Any:
        return httpx.get(self.url + path, timeout=20).json()

    def submit(self, key: str, **spec: Any) -> httpx.Response:
        body = {"cluster": "local", "spec": {"name": key, **spec}}
        return httpx.post(
            f"{self.url}/jobs", json=body, headers={"Idempotency-Key": key}, timeout=20
        )

    def intend(self, job: str, kind: str) -> Any:
        body = {"kind": kind, "id": f"{kind}-1"}
        return httpx.post(f"{self.url}/jobs/{job}/intents", json=body, timeout=20).json()

    def until(self, job: str, holds: Callable[[Any], bool]) -> Any:
        """The first status of a job for which something holds; the test's time limit bounds it."""
        while True:
            status = self.get(f"/jobs/{job}")
            if holds(status):
                return status
            time.sleep(0.02)


def settled(status: Any) -> bool:
    return "settled_at" in status
