"""What the demo's jobs run: `python work.py train|wait|grow`. The standard library alone.

Each task writes a line into a file of its own story when it starts, and one when it ends, so that
anyone can count what really ran.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import NoReturn

STEP_S = 0.1
LONG_RUN = 6_000
"""Steps of a run that starts from nothing: ten minutes, so somebody can take its machine."""
LAST_STEPS = 5
"""Steps that are left to a run that finds a checkpoint, so that the demo ends soon."""


def mark(what: str) -> None:
    """Append a line in one write, which no other task's line can cut in two."""
    rank = os.environ.get("DISPATCH_RANK", "0")
    line = f"{what} submission={os.environ['DISPATCH_SUBMISSION']} rank={rank} pid={os.getpid()}\n"
    handle = os.open(os.environ["MARKS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)


def told_to_end(number: int, frame: FrameType | None) -> NoReturn:
    """End as a program does that was asked to."""
    mark("told-to-end")
    sys.exit(128 + number)


def train() -> None:
    """Count steps, keep a checkpoint at each, and go on from one that is there."""
    rank = os.environ["DISPATCH_RANK"]
    checkpoint = Path(f"{os.environ['MARKS']}.checkpoint.{rank}")
    found = checkpoint.exists()
    at = int(checkpoint.read_text()) if found else 0
    # Before the start is marked: whoever sees the mark may take the machine at once.
    keep(checkpoint, at)
    mark("start")
    steps = LAST_STEPS if found else LONG_RUN
    print(f"rank {rank} of {os.environ['DISPATCH_NODES']}: from step {at}, {steps} to go")
    for step in range(at + 1, at + steps + 1):
        time.sleep(STEP_S)
        keep(checkpoint, step)
    print(f"rank {rank}: done at step {at + steps}")


def keep(checkpoint: Path, step: int) -> None:
    """Replace a checkpoint as a whole, so that it is never half a one."""
    fresh = checkpoint.with_name(f"{checkpoint.name}.new")
    fresh.write_text(str(step))
    fresh.replace(checkpoint)


def wait() -> None:
    """Do nothing for ten minutes."""
    mark("start")
    print("waiting")
    time.sleep(LONG_RUN * STEP_S)


def grow() -> None:
    """Take 4 MB more, again and again, until somebody stops it."""
    mark("start")
    taken = []
    for _ in range(512):
        taken.append(b"x" * (4 * 1024 * 1024))
        print(f"{4 * len(taken)} MB", flush=True)
        time.sleep(0.02)


def main() -> None:
    """Run one of the three."""
    signal.signal(signal.SIGTERM, told_to_end)
    {"train": train, "wait": wait, "grow": grow}[sys.argv[1]]()
    mark("end")


if __name__ == "__main__":
    main()
