"""A disk that loses its power: what was written and not synced survives wholly, in part, or not.

SQLite runs over it through an `apsw` VFS that passes everything on to the real one and notes
every change of a file. From the notes, `Remains` makes what a cut after any of them may leave.

What it takes for granted, as SQLite does of an ordinary disk: a write harms no byte beside those
that it writes; a sync makes all earlier writes to that file durable; the first sync of a new file
makes the names in its folder durable, which SQLite sees to for its logs. Until then a new file may
be missing, and a deleted one may be back.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Any, cast

import apsw

SECTOR = 512
"""Within one write, so many bytes at a time reach the disk in any order."""

AUTO_CHECKPOINT_PAGES = 12
"""Small, so that the log is moved into the file, and begun again, many times in a short life."""


class Change(StrEnum):
    """What was done to a file."""

    CREATE = "created"
    WRITE = "written"
    TRUNCATE = "cut short"
    SYNC = "synced"
    DELETE = "deleted"


@dataclass(frozen=True, slots=True)
class Note:
    """One change.

    Attributes:
        change: What was done.
        file: The file's name.
        offset: Where it was written; its new length, if it was cut short.
        data: What was written.
        durable: Whether a deletion's directory was synced.
    """

    change: Change
    file: str
    offset: int = 0
    data: bytes = b""
    durable: bool = False


class Disk(apsw.VFS):
    """The VFS: real files, and a note of every change.

    Attributes:
        notes: Every change so far.
        lies: Whether it calls synced what isn't.
    """

    def __init__(self, name: str, *, lies: bool = False) -> None:
        super().__init__(name, "")
        self.name = name
        self.notes: list[Note] = []
        self.lies = lies

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        path = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        new = bool(path) and not Path(path).exists()
        opened = _File(self, path, name, flags)
        if new:
            self.notes.append(Note(Change.CREATE, Path(path).name))
        return opened

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        self.notes.append(Note(Change.DELETE, Path(filename).name, durable=syncdir))


class _File(apsw.VFSFile):
    def __init__(
        self, disk: Disk, path: str, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        self._name = Path(path).name

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802
        super().xWrite(data, offset)
        self._disk.notes.append(Note(Change.WRITE, self._name, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        super().xTruncate(newsize)
        self._disk.notes.append(Note(Change.TRUNCATE, self._name, newsize))

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        if not self._disk.lies:
            self._disk.notes.append(Note(Change.SYNC, self._name))


# --- the store's connection over it ---------------------------------------------------------------


class OverDisk:
    """What `SqliteRecords` asks of a connection, over `apsw`, whose SQLite takes our VFS.

    Args:
        path: The file.
        disk: The VFS's name.
        instead: What to run in place of a statement; tests of the test spoil the store with it.
        options: As `sqlite3.connect` takes them.
    """

    def __init__(
        self, path: Path, disk: str, instead: Callable[[str], str], **options: Any
    ) -> None:
        self._instead = instead
        self._inner = apsw.Connection(str(path), vfs=disk)
        self._inner.set_busy_timeout(int(options["timeout"] * 1000))
        self._inner.execute(f"PRAGMA wal_autocheckpoint = {AUTO_CHECKPOINT_PAGES}")

    @property
    def in_transaction(self) -> bool:
        return self._inner.in_transaction

    def execute(self, sql: str, *values: Any) -> apsw.Cursor:
        with _as_sqlite3():
            return self._inner.execute(self._instead(sql), *values)

    def executemany(self, sql: str, rows: Sequence[Any]) -> apsw.Cursor:
        with _as_sqlite3():
            return self._inner.executemany(self._instead(sql), rows)

    def rollback(self) -> None:
        self.execute("ROLLBACK")

    def close(self) -> None:
        self._inner.close()


@contextmanager
def _as_sqlite3() -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        raise sqlite3.OperationalError(str(error)) from error


def over(
    disk: Disk, instead: Callable[[str], str] = lambda sql: sql
) -> Callable[..., sqlite3.Connection]:
    """Return what opens the store's file on a disk."""

    def connect(path: Path, **options: Any) -> sqlite3.Connection:
        return cast(sqlite3.Connection, OverDisk(path, disk.name, instead, **options))

    return connect


# --- what a cut leaves ----------------------------------------------------------------------------


class Way(StrEnum):
    """How a cut treats what isn't synced."""

    NOTHING = "nothing of it survives"
    ALL = "all of it survives"
    TORN = "all but the latest, and that one in part"
    LATEST = "the latest alone"
    ZEROS = "some sectors, in any order, zeros between"
    GARBAGE = "some sectors, in any order, garbage between"


@dataclass(slots=True)
class _Kept:
    """A file: what is durable, and what was done to it since."""

    data: bytes = b""
    there: bool = False
    pending: list[Note] = field(default_factory=list)


class Remains:
    """Follows the notes of a disk, and says what a cut here may leave.

    Args:
        found: What was on the disk before the first note.
    """

    def __init__(self, found: Mapping[str, bytes]) -> None:
        self._files = {name: _Kept(data, there=True) for name, data in found.items()}

    def follow(self, note: Note) -> None:
        """Take one more change into account."""
        if note.file.endswith("-shm"):
            return
        kept = self._files.setdefault(note.file, _Kept())
        match note.change:
            case Change.SYNC:
                if any(one.change is Change.CREATE for one in kept.pending):
                    self._sync_folder()
                data, there = _applied(kept, kept.pending)
                self._files[note.file] = _Kept(data, there)
            case Change.DELETE if note.durable:
                self._files[note.file] = _Kept()
            case _:
                kept.pending.append(note)

    def _sync_folder(self) -> None:
        """Make every name durable, and every deletion: SQLite syncs the folder of a new log."""
        for name, kept in self._files.items():
            deleted = [k for k, one in enumerate(kept.pending) if one.change is Change.DELETE]
            since = kept.pending[deleted[-1] + 1 :] if deleted else kept.pending
            there = kept.there and not deleted
            there = there or any(one.change is Change.CREATE for one in since)
            self._files[name] = _Kept(b"" if deleted else kept.data, there, since)

    def left(self, way: Way, chance: Random) -> dict[str, bytes]:
        """Return the files that are left, in one way."""
        found = {}
        for name, kept in self._files.items():
            data, there = _applied(kept, list(_surviving(kept, way, chance)), way, chance)
            if there:
                found[name] = data
        return found


def _surviving(kept: _Kept, way: Way, chance: Random) -> Iterator[Note]:
    """Yield what survives of the changes that aren't synced."""
    pending = kept.pending
    match way:
        case Way.NOTHING:
            return
        case Way.ALL:
            yield from pending
        case Way.TORN | Way.LATEST if pending:
            yield from pending[:-1] if way is Way.TORN else ()
            last = pending[-1]
            if way is Way.TORN and last.change is Change.WRITE:
                end = chance.randrange(len(last.data))
                yield Note(last.change, last.file, last.offset, last.data[:end])
            else:
                yield last
        case _:
            odds = chance.choice((0.2, 0.5, 0.8))
            for note in pending:
                if note.change is not Change.WRITE:
                    if chance.random() < odds:
                        yield note
                    continue
                for start in range(0, len(note.data), SECTOR):
                    if chance.random() < odds:
                        part = note.data[start : start + SECTOR]
                        yield Note(note.change, note.file, note.offset + start, part)


def _applied(
    kept: _Kept, changes: Sequence[Note], way: Way = Way.ALL, chance: Random | None = None
) -> tuple[bytes, bool]:
    """Return a file's bytes and whether it is there, after changes."""
    data, there = bytearray(kept.data), kept.there
    for note in changes:
        match note.change:
            case Change.CREATE:
                there = True
            case Change.DELETE:
                there = False
                data.clear()
            case Change.TRUNCATE:
                there = True
                del data[note.offset :]
            case _:
                there = True
                gap = note.offset - len(data)
                if gap > 0:
                    noisy = way is Way.GARBAGE and chance is not None
                    data += chance.randbytes(gap) if noisy and chance else bytes(gap)
                data[note.offset : note.offset + len(note.data)] = note.data
    return bytes(data), there
