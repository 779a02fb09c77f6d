"""One SQLite file: opened, made or refused, and its transactions, for the store that keeps it.

Write-ahead log, `synchronous=FULL`: a commit is acknowledged once it is on the disk. Any number of
threads and processes of one machine may open the same file; a network file system won't do.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock

from dispatch.errors import (
    CallerError,
    CommitUnknown,
    RevisionConflict,
    SchemaRefused,
    StoreUnavailable,
)

Connection = sqlite3.Connection
connected = sqlite3.connect

SCHEMA_VERSION = 1
"""Of the tables; it stands in the file, and a file with a larger one is refused."""

_APPLICATION = 0x64737063
_OPENING_TRIES = 200

_TABLES = """
CREATE TABLE records (
    job_id TEXT PRIMARY KEY,
    idempotency_key TEXT NOT NULL UNIQUE,
    spec_digest TEXT NOT NULL,
    cluster TEXT NOT NULL,
    bucket INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    place TEXT NOT NULL UNIQUE,
    revision INTEGER NOT NULL DEFAULT 0,
    settled_at TEXT,
    tombstoned INTEGER NOT NULL DEFAULT 0,
    open INTEGER NOT NULL DEFAULT 1,
    quiet TEXT
);
CREATE INDEX open_records ON records (cluster, bucket) WHERE open;
CREATE INDEX unsettled_records ON records (place) WHERE settled_at IS NULL;
CREATE INDEX records_of_a_cluster ON records (cluster, place);
CREATE TABLE entries (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id TEXT NOT NULL REFERENCES records (job_id),
    revision INTEGER NOT NULL,
    schema TEXT NOT NULL,
    body TEXT NOT NULL,
    token TEXT NOT NULL,
    UNIQUE (job_id, revision)
);
CREATE TRIGGER entries_never_change BEFORE UPDATE ON entries
BEGIN SELECT RAISE(ABORT, 'an entry never changes'); END;
CREATE TRIGGER entries_stay BEFORE DELETE ON entries
WHEN NOT (SELECT tombstoned FROM records WHERE job_id = OLD.job_id)
BEGIN SELECT RAISE(ABORT, 'the entries of a record stay until it is tombstoned'); END;
CREATE TABLE leases (
    name TEXT PRIMARY KEY, owner TEXT NOT NULL, fence INTEGER NOT NULL, until TEXT NOT NULL
);
CREATE TABLE health (cluster TEXT PRIMARY KEY, body TEXT NOT NULL);
"""

_LATER_INDEXES = {
    "closed_records": (
        "CREATE INDEX IF NOT EXISTS closed_records ON records (settled_at)"
        " WHERE NOT open AND NOT tombstoned"
    ),
    "marked_records": (
        "CREATE INDEX IF NOT EXISTS marked_records ON records (place) WHERE tombstoned = 1"
    ),
}
"""Added to a file of any build that lacks them; earlier builds keep them up without knowing."""


class SqliteFile:
    """Lends connections to the threads of one process, and maps SQLite's errors to ours.

    Args:
        path: The file.
        busy_s: How long to wait for another writer.
        connect: Opens the file.
    """

    def __init__(
        self, path: Path, *, busy_s: float, connect: Callable[..., Connection] = connected
    ) -> None:
        self._path = path
        self._busy_s = busy_s
        self._connect = connect
        self._lock = Lock()
        self._idle: list[Connection] = []
        with self._connection() as connection:
            try:
                self._prepare(connection)
            except sqlite3.Error as error:
                raise self._unavailable(error) from error

    def close(self) -> None:
        """Close all connections that aren't in use."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _prepare(self, connection: Connection) -> None:
        version = self._look(connection)
        if version == 0:
            connection.execute("BEGIN IMMEDIATE")
            try:
                if self._version(connection) == 0:
                    for statement in (*_statements(_TABLES), *_LATER_INDEXES.values()):
                        connection.execute(statement)
                    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
                connection.execute("COMMIT")
            finally:
                _roll_back(connection)
            version = self._look(connection)
        if version > SCHEMA_VERSION:
            raise SchemaRefused(
                f"{self._path} has record tables of version {version}, this build knows"
                f" {SCHEMA_VERSION}; a newer build wrote it",
                rule="unknown_schema",
            )
        self._add_indexes(connection)

    def _add_indexes(self, connection: Connection) -> None:
        there = connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'").fetchall()
        missing = _LATER_INDEXES.keys() - {name for (name,) in there}
        for name in sorted(missing):
            connection.execute(_LATER_INDEXES[name])

    def _version(self, connection: Connection) -> int:
        """Return the tables' version, 0 for a fresh file; refuse a file that isn't ours.

        Within a transaction: a file that another process is making is fresh, or made.
        """
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        fresh = (application, version, tables) == (0, 0, 0)
        if not fresh and (application != _APPLICATION or version < 1):
            raise SchemaRefused(f"{self._path} is another program's file", rule="unknown_schema")
        return int(version)

    def _look(self, connection: Connection) -> int:
        connection.execute("BEGIN")
        try:
            return self._version(connection)
        finally:
            _roll_back(connection)

    def _opened(self) -> Connection:
        for _ in range(_OPENING_TRIES):
            try:
                return self._open()
            except sqlite3.OperationalError as error:
                # Who changes the journal's mode first makes the others fail without waiting.
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise self._unavailable(error) from error
                time.sleep(self._busy_s / _OPENING_TRIES)
            except sqlite3.DatabaseError as error:
                if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_NOTADB:
                    raise SchemaRefused(
                        f"{self._path} is no SQLite file", rule="unknown_schema"
                    ) from error
                raise self._unavailable(error) from error
        raise StoreUnavailable(f"{self._path} is locked by another process")

    def _open(self) -> Connection:
        connection = self._connect(
            self._path, timeout=self._busy_s, isolation_level=None, check_same_thread=False
        )
        try:
            (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
            if mode != "wal":
                self._look(connection)
                connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        connection = self._borrowed()
        try:
            yield connection
        except (CallerError, RevisionConflict):
            self._put_back(connection)
            raise
        except BaseException:
            connection.close()
            raise
        self._put_back(connection)

    def _borrowed(self) -> Connection:
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        return connection or self._opened()

    def _put_back(self, connection: Connection) -> None:
        with self._lock:
            self._idle.append(connection)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Lend a connection with one snapshot for all that is asked within.

        Raises:
            StoreUnavailable: SQLite failed.
        """
        connection = self._borrowed()
        sound = False
        try:
            connection.execute("BEGIN")
            yield connection
            connection.execute("ROLLBACK")
            sound = True
        except sqlite3.Error as error:
            raise self._unavailable(error) from error
        except CallerError:
            _roll_back(connection)
            sound = True
            raise
        finally:
            if sound:
                self._put_back(connection)
            else:
                connection.close()

    @contextmanager
    def writing(self, job_id: str | None = None, *, doubtful: bool = False) -> Iterator[Connection]:
        """Lend a connection for one write: all that is done within, or none of it.

        Args:
            job_id: For the error.
            doubtful: Whether the write can't be repeated, so that a failed end must be told apart.

        Raises:
            StoreUnavailable: Nothing was written, or it is harmless to write it again.
            CommitUnknown: It is doubtful, and SQLite failed at the very end.
        """
        with self._connection() as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
            except sqlite3.Error as error:
                _roll_back(connection)
                raise self._unavailable(error, job_id) from error
            except BaseException:
                _roll_back(connection)
                raise
            try:
                connection.execute("COMMIT")
            except sqlite3.Error as error:
                _roll_back(connection)
                if doubtful:
                    # The frames may be in the log without having been synced.
                    raise CommitUnknown(f"{self._path}: {error}", job=job_id) from error
                raise self._unavailable(error, job_id) from error

    def _unavailable(self, error: sqlite3.Error, job_id: str | None = None) -> StoreUnavailable:
        return StoreUnavailable(f"{self._path}: {error}", job=job_id)


def _statements(script: str) -> Iterator[str]:
    """Split a script at its ends of statement; `executescript` would commit on its own."""
    statement = ""
    for line in script.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _roll_back(connection: Connection) -> None:
    with suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.rollback()
