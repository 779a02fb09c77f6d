"""A stack as a process of its own, on a state folder that outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from dispatch.client import Client, Patience
from dispatch.errors import DispatchError, TryLater
from dispatch.settings import stack_url

START_WITHIN_S = 30.0
STOP_WITHIN_S = 30.0


class DidNotStart(DispatchError):
    """The stack's process ended, or didn't listen in time."""

    code = "did_not_start"


class StackProcess:
    """One state folder, and the process that serves it just now.

    Args:
        state: The folder.
        tick_s: Seconds between two ticks.
        monotonic: Seconds that only grow.
        sleep: Waits that many seconds.
    """

    def __init__(
        self,
        state: Path,
        *,
        tick_s: float = 0.5,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.state = state
        self._tick_s = tick_s
        self._monotonic = monotonic
        self._sleep = sleep
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """Where it listens; the same after every start."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def spool(self) -> Path:
        """Where its local cluster keeps its objects."""
        return self.state / "local"

    def client(self) -> Client:
        """Return a client that bears with a stack that dies and comes back."""
        bears = Patience(tries=40, first_pause_s=0.1, longest_pause_s=1.0)
        return Client(self.url, patience=bears)

    def start(self) -> None:
        """Start the process and wait until it answers.

        Raises:
            DidNotStart: It ended, or didn't answer in time; the message has its last words.
        """
        output = self.state.with_name(f"{self.state.name}.out")
        command = [sys.executable, "-m", "dispatch.cli", "up", "--state", str(self.state)]
        command += ["--port", str(self._port), "--tick", str(self._tick_s)]
        with output.open("ab") as file:
            self._process = subprocess.Popen(
                command, stdout=file, stderr=file, stdin=subprocess.DEVNULL, start_new_session=True
            )
        until = self._monotonic() + START_WITHIN_S
        while not self._answers():
            ended = self._process.poll()
            if ended is not None or self._monotonic() > until:
                words = output.read_text(errors="replace").strip()[-2000:]
                self.kill()
                how = "didn't answer in time" if ended is None else f"ended with {ended}"
                raise DidNotStart(f"the stack {how}: {words}")
            self._sleep(0.05)

    def _answers(self) -> bool:
        if not self._port:
            url = stack_url(self.state)
            if url is None:
                return False
            self._port = int(url.rpartition(":")[2])
        try:
            with Client(self.url, patience=Patience(tries=1)) as client:
                client.whoami()
        except TryLater:
            return False
        return True

    def kill(self) -> None:
        """End the process at once, as a crash would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End the process as a person would; jobs run on."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            os.kill(process.pid, number)
        try:
            process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
