"""A training loop that a late twin of its own can't spoil: checkpoints fenced by DISPATCH_EPOCH.

Every run of a job gets a larger epoch than the run before it. Whoever begins claims the folder with
its own; a writer whose claim is no longer the newest ends at once, before it writes anything.

    python train.py FOLDER STEPS [SECONDS_PER_STEP]
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOST_MY_PLACE = 75
"""The exit code of a run that finds a newer one at work."""

Token = tuple[int, str]


class Fenced(Exception):
    """A newer run has the folder."""


def my_token() -> Token:
    """Return what orders this run among all runs of its job: the epoch, then when it began.

    The epoch alone is enough except after a crash of the scheduler itself, which may run a job
    again with the same one (or a lower one); then the later start wins.
    """
    began = f"{time.time():020.6f}"
    return int(os.environ["DISPATCH_EPOCH"]), began


class Checkpoints:
    """A folder of checkpoints that only the newest run may write to.

    Args:
        folder: Where they are: on a file system that all nodes see and that can lock files.
        token: This run's.
    """

    def __init__(self, folder: Path, token: Token) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._token = token
        with self._locked():
            newest = self._claimed()
            if newest is not None and newest > token:
                raise Fenced(f"epoch {newest[0]} has {folder}, this is {token[0]}")
            self._put("claim.json", {"epoch": token[0], "began": token[1]})

    def load(self) -> int:
        """Return the step to go on from."""
        try:
            found = json.loads((self._folder / "checkpoint.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return 0
        return int(found["step"])

    def save(self, step: int) -> None:
        """Keep a step, whole or not at all.

        Raises:
            Fenced: A newer run has claimed the folder; nothing was written.
        """
        with self._locked():
            newest = self._claimed()
            if newest != self._token:
                raise Fenced(f"epoch {newest and newest[0]} has {self._folder} now")
            self._put("checkpoint.json", {"step": step, "epoch": self._token[0]})

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the folder: between the look at the claim and the write nobody claims it."""
        with (self._folder / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _claimed(self) -> Token | None:
        try:
            found = json.loads((self._folder / "claim.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return int(found["epoch"]), str(found["began"])

    def _put(self, name: str, value: dict[str, object]) -> None:
        new = self._folder / f"{name}.{self._token[0]}.new"
        with new.open("w", encoding="utf-8") as file:
            json.dump(value, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._folder / name)


def main() -> int:
    """Train, from where the last run left off, and print a line for each step."""
    folder, steps = Path(sys.argv[1]), int(sys.argv[2])
    pause_s = float(sys.argv[3]) if len(sys.argv) > 3 else 1.0
    try:
        kept = Checkpoints(folder, my_token())
        done = kept.load()
        print(f"epoch {os.environ['DISPATCH_EPOCH']} goes on from step {done}", flush=True)
        for step in range(done + 1, steps + 1):
            time.sleep(pause_s)  # the work
            kept.save(step)
            print(f"step {step}", flush=True)
    except Fenced as why:
        print(f"fenced: {why}", flush=True)
        return LOST_MY_PLACE
    return 0


if __name__ == "__main__":
    sys.exit(main())
