"""Run the engine, without the two things in it that merely take time. Started by its own Python.

By itself it unpacks a function and its layer anew for each worker: seven thousand files, in the one
process that serves everybody else meanwhile. Here an archive is unpacked once, into the folder that
is the first argument, and each worker gets a link to that copy; no function writes to its own code,
nor could it in Lambda. And a schedule of each minute comes every ten seconds, so that a story that
waits for ticks needn't long.
"""

import hashlib
import importlib
import os
import runpy
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

CHANGES = (
    "a schedule of each minute comes every ten seconds",
    "an archive is unpacked once, and workers share that copy",
)
MINUTE_S = 10
SWEEP_S = 1
"""How often the engine looks whether a schedule is due; by itself, every ten seconds."""
FEW = 100
"""Files of an archive that is unpacked each time."""
DAY_S = 86_400


@dataclass
class Copies:
    """Unpacked archives, kept from run to run by what they hold.

    Attributes:
        place: Where they are.
        unpack: How the engine unpacks.
    """

    place: Path
    unpack: Callable[..., None]
    lock: Lock = field(default_factory=Lock)

    def extractall(
        self, archive: Any, path: Any = None, members: Any = None, pwd: Any = None
    ) -> None:
        """Stand in for `ZipFile.extractall`."""
        parts = archive.infolist()
        if len(parts) < FEW or path is None or members is not None or any(Path(path).iterdir()):
            self.unpack(archive, path, members, pwd)
            return
        with self.lock:
            copy = self._of(archive, parts)
        Path(path).rmdir()
        Path(path).symlink_to(copy, target_is_directory=True)

    def _of(self, archive: Any, parts: Any) -> Path:
        held = sorted((one.filename, one.CRC, one.file_size, one.external_attr) for one in parts)
        copy = self.place / hashlib.sha256(repr(held).encode()).hexdigest()
        if not copy.exists():
            self.place.mkdir(parents=True, exist_ok=True)
            fresh = Path(tempfile.mkdtemp(dir=self.place))
            self.unpack(archive, fresh)
            with suppress(OSError):  # somebody else's was there first
                fresh.rename(copy)
        os.utime(copy)
        return copy

    def forget(self) -> None:
        """Remove what no run has used for a day."""
        for copy in self.place.glob("*"):
            if copy.stat().st_mtime < time.time() - DAY_S:
                shutil.rmtree(copy, ignore_errors=True)


def shorter(seconds: Callable[[str], int | None]) -> Callable[[str], int | None]:
    """Return what stands in for the engine's reading of `rate(1 minute)`, and of no other rate."""

    def read(expression: str) -> int | None:
        found = seconds(expression)
        return MINUTE_S if found == 60 else found

    return read


def main() -> None:
    """Run the engine until it is ended."""
    copies = Copies(Path(sys.argv.pop(1)), zipfile.ZipFile.extractall)
    copies.forget()

    def extractall(archive: Any, path: Any = None, members: Any = None, pwd: Any = None) -> None:
        copies.extractall(archive, path, members, pwd)

    setattr(zipfile.ZipFile, "extractall", extractall)  # noqa: B010
    rates = importlib.import_module("ministack.services.eventbridge")
    schedules = importlib.import_module("ministack.services.scheduler")
    # By their names in the locked version: of another, this fails here and by name.
    for module, name, value in (
        (rates, "_parse_rate_seconds", shorter(rates._parse_rate_seconds)),
        (schedules, "_SCHEDULE_TICK_INTERVAL", min(SWEEP_S, schedules._SCHEDULE_TICK_INTERVAL)),
    ):
        setattr(module, name, value)
    runpy.run_module("ministack", run_name="__main__")


if __name__ == "__main__":
    main()
