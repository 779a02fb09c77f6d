"""The state folder of a stack: who has it, where the stack listens, how far streams were read."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Self

from dispatch.errors import BadConfiguration
from dispatch.settings import STACK_FILE, stack_url


class StateInUse(BadConfiguration):
    """Another stack has this state folder."""


class StateFolder:
    """One folder that holds everything a stack must not lose; a single stack may have it at once.

    The lock is the kernel's, so it goes with the process, however that dies.

    Args:
        root: The folder; it is made, for its owner alone, if it isn't there.

    Raises:
        StateInUse: Another stack has it.
        BadConfiguration: It can't be made or written.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._handle = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise BadConfiguration(f"state folder {self.root}: {error}") from error
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._handle, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._handle)
            where = stack_url(self.root)
            listens = f", listening on {where}" if where else ""
            raise StateInUse(
                f"a stack is running on {self.root} already (process {holder}{listens}):"
                " use it, stop it, or give another folder with --state"
            ) from None
        except OSError as error:
            os.close(self._handle)
            raise BadConfiguration(f"state folder {self.root}: {error}") from error
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, f"{os.getpid()}\n".encode(), 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let another stack have the folder."""
        os.close(self._handle)

    @property
    def records(self) -> Path:
        """The file of the records."""
        return self.root / "records.sqlite"

    @property
    def spool(self) -> Path:
        """Where the local cluster keeps its objects."""
        return self.root / "local"

    @property
    def clusters(self) -> Path:
        """The clusters' document, if a person put one here."""
        return self.root / "clusters.json"

    @property
    def log(self) -> Path:
        """What the stack tells those who look into it."""
        return self.root / "stack.log"

    @property
    def events(self) -> Path:
        """The events that were published, one a line."""
        return self.root / "events.jsonl"

    def listening(self, url: str) -> None:
        """Leave word of where the stack listens, for the command line."""
        _replace(self.root / STACK_FILE, json.dumps({"pid": os.getpid(), "url": url}))

    def position(self, name: str) -> Position:
        """Return how far a stream was read."""
        return Position(self.root / f"{name}.json")


class Position:
    """How far a stream was read, kept so that any death leaves the old word or the new one.

    It isn't synced: what is read again after a power cut does no harm.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._at: dict[str, str] = _read(path)

    def get(self, shard: str) -> str | None:
        """Return the place in one shard, or None where it wasn't read yet."""
        return self._at.get(shard)

    def put(self, places: Mapping[str, str]) -> None:
        """Keep the places of some shards."""
        with self._lock:
            self._at.update(places)
            _replace(self._path, json.dumps(self._at))


def _read(path: Path) -> dict[str, str]:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(told, dict):
        return {}
    return {str(shard): str(place) for shard, place in told.items()}


def _replace(path: Path, text: str) -> None:
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)
