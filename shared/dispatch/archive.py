"""Archives: a settled record kept as its export outside the store, from which it folds again.

An archive is written, read back and compared before anything is done to the record, and writing it
again changes nothing. So a run may die at any moment, and the next one begins anew.
"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from dispatch.core.fold import fold
from dispatch.core.job import Job
from dispatch.errors import BadConfiguration, InvalidRecord, TryLater
from dispatch.record.export import export_text, import_text
from dispatch.record.view import View


class Archive(Protocol):
    """Where exports are kept, by a name each."""

    def put(self, name: str, data: bytes) -> None:
        """Keep these bytes under a name, whole or not at all, in place of what was there.

        Raises:
            TryLater: It may not be kept; put it again.
            BadConfiguration: There is no such place, or it may not be written to.
        """
        ...

    def get(self, name: str) -> bytes | None:
        """Return what is kept under a name, or None.

        Raises:
            TryLater: No answer.
            BadConfiguration: There is no such place.
        """
        ...


def name_of(job_id: str) -> str:
    """Return the name of a record's archive; it follows from the job's id alone."""
    return f"{job_id}.jsonl"


def keep(archive: Archive, view: View) -> str:
    """Have a record kept as its export, and return the SHA-256 of what was read back.

    What is there already and equal is left as it is.

    Args:
        archive: Where.
        view: The record; none of it may be missing.

    Raises:
        TryLater: What was read back differs, or there was no answer.
        BadConfiguration: See `Archive`.
    """
    name, data = name_of(view.job_id), export_text(view).encode()
    wanted = sha256(data).hexdigest()
    if _digest(archive.get(name)) == wanted:
        return wanted
    archive.put(name, data)
    found = _digest(archive.get(name))
    if found != wanted:
        raise TryLater(
            f"its archive reads back as {found or 'nothing'}, not {wanted}", job=view.job_id
        )
    return wanted


def _digest(data: bytes | None) -> str | None:
    return None if data is None else sha256(data).hexdigest()


def refolded(view: View, now: datetime) -> Job:
    """Return the job that a record says, once its export is seen to say the same.

    Args:
        view: The record.
        now: The time to fold at.

    Raises:
        RecordRefused: This build can't fold it.
        InvalidRecord: Its export folds to another job.
    """
    job = fold(view, now)
    if fold(import_text(export_text(view)), now) != job:
        raise InvalidRecord(
            "its export folds to another job", job=view.job_id, rule="export_differs"
        )
    return job


class FolderArchive:
    """Keeps each archive as a file of one folder, for its owner alone.

    Args:
        root: The folder; it is made if it isn't there.

    Raises:
        BadConfiguration: It can't be made.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        try:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise BadConfiguration(f"archive folder {self._root}: {error}") from error

    def put(self, name: str, data: bytes) -> None:
        """Keep these bytes under a name, on the disk when this returns (see `Archive`)."""
        target = self._root / name
        fresh = target.with_name(f".{name}.new")
        try:
            handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(handle)
            fresh.replace(target)
            folder = os.open(self._root, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            with suppress(OSError):
                fresh.unlink(missing_ok=True)
            raise TryLater(f"archive {target}: {error}") from error

    def get(self, name: str) -> bytes | None:
        """Return what is kept under a name, or None (see `Archive`)."""
        path = self._root / name
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise TryLater(f"archive {path}: {error}") from error
