"""The embedded default: all records in one SQLite file, which outlives any death of a process."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from dispatch.errors import (
    IdempotencyConflict,
    InvalidRecord,
    JobNotFound,
    JobTombstoned,
    NotSettled,
    RevisionConflict,
)
from dispatch.record.view import Envelope, View
from dispatch.store import rules
from dispatch.store.records import (
    Change,
    ClusterHealth,
    CommitTokens,
    Created,
    Due,
    Lease,
    Listed,
    NewRecord,
    Page,
    Quiet,
)
from dispatch.store.sqlite_file import Connection, SqliteFile, connected

_LISTED = "job_id, cluster, created_at, revision, settled_at, tombstoned"


class SqliteRecords:
    """Keeps all five contracts, and the feed, in one file.

    Open it once in each process, after any fork; its threads share it.

    Args:
        path: The file; it is made if it isn't there. Two more stand beside it while it is open.
        tokens: Makes a token for each commit.
        busy_s: How long to wait for another writer before `StoreUnavailable`.
        connect: Opens the file; tests make it fail.

    Raises:
        SchemaRefused: The file is of a newer build, or of another program.
        StoreUnavailable: It can't be opened.
    """

    def __init__(
        self,
        path: Path | str,
        tokens: CommitTokens,
        *,
        busy_s: float = 10.0,
        connect: Callable[..., Connection] = connected,
    ) -> None:
        self._tokens = tokens
        self._file = SqliteFile(Path(path).absolute(), busy_s=busy_s, connect=connect)

    def close_file(self) -> None:
        """Close the file; it is opened again by the next call."""
        self._file.close()

    # --- Records ------------------------------------------------------------------------------

    def create(self, new: NewRecord) -> Created:
        """Create the record and its idempotency entry, or find it there (see `Records`)."""
        rules.check_header(new)
        place = rules.place_of(new.created_at, new.job_id)
        with self._file.writing(new.job_id, doubtful=True) as connection:
            standing = connection.execute(
                "SELECT job_id, spec_digest FROM records WHERE idempotency_key = ?",
                (new.idempotency_key,),
            ).fetchone()
            if standing is not None:
                job_id, digest = standing
                if digest != new.spec_digest:
                    raise IdempotencyConflict(
                        f"the key {new.idempotency_key!r} stands for another spec", job=job_id
                    )
                return Created(job_id, created=False)
            if self._row(connection, "1", new.job_id) is not None:
                raise IdempotencyConflict("this id stands for another key", job=new.job_id)
            connection.execute(
                "INSERT INTO records (job_id, idempotency_key, spec_digest, cluster, bucket,"
                " created_at, place) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    new.job_id,
                    new.idempotency_key,
                    new.spec_digest,
                    new.cluster,
                    rules.bucket_of(new.job_id),
                    rules.written(new.created_at),
                    place,
                ),
            )
            self._insert(connection, new.job_id, 0, (new.header,))
            return Created(new.job_id, created=True)

    def read(self, job_id: str) -> View:
        """Return the record as last committed (see `Records`)."""
        with self._file.reading() as connection:
            revision, settled_at, tombstoned, last = self._head(connection, job_id)
            if tombstoned:
                raise _tombstoned(job_id)
            return self._view(connection, job_id, (revision, settled_at, last))

    def _head(self, connection: Connection, job_id: str) -> tuple[int, str | None, int, int | None]:
        """Return revision, settled_at and tombstoned of a record, and its last entry's number."""
        row = connection.execute(
            "SELECT revision, settled_at, tombstoned, (SELECT max(revision) FROM entries"
            " WHERE job_id = records.job_id) FROM records WHERE job_id = ?",
            (job_id,),
        ).fetchone()
        head: tuple[int, str | None, int, int | None] = self._known(row, job_id)
        return head

    def _view(
        self, connection: Connection, job_id: str, head: tuple[int, str | None, int | None]
    ) -> View:
        revision, settled_at, last = head
        rows = connection.execute(
            "SELECT schema, body, token FROM entries WHERE job_id = ? AND revision >= 0"
            " ORDER BY revision",
            (job_id,),
        ).fetchall()
        # No number stands twice: so many up to this one are all of them.
        if last != revision or len(rows) != revision + 1:
            raise _gap(job_id, self._first_gap(connection, job_id))
        stored = tuple(map(Envelope._make, rows))
        settled = None if settled_at is None else rules.moment(settled_at)
        return View(job_id, stored[0], stored[1:], settled)

    def _first_gap(self, connection: Connection, job_id: str) -> int:
        rows = connection.execute(
            "SELECT revision FROM entries WHERE job_id = ? ORDER BY revision", (job_id,)
        ).fetchall()
        wrong = (place for place, (number,) in enumerate(rows) if number != place)
        return next(wrong, len(rows))

    def commit(
        self,
        job_id: str,
        revision: int,
        entries: Sequence[Envelope],
        *,
        settled_at: datetime | None = None,
    ) -> int:
        """Append all entries if the revision holds (see `Records`)."""
        rules.check_entries(job_id, entries)
        label = None if settled_at is None else rules.written(settled_at)
        with self._file.writing(job_id, doubtful=True) as connection:
            row = self._row(connection, "revision, settled_at, tombstoned", job_id)
            current, _ = self._readable(row, job_id)
            if current != revision:
                raise RevisionConflict(f"it is at revision {current}, not {revision}", job=job_id)
            self._insert(connection, job_id, revision + 1, entries)
            connection.execute(
                "UPDATE records SET revision = ?, settled_at = coalesce(?, settled_at)"
                " WHERE job_id = ?",
                (revision + len(entries), label, job_id),
            )
        return revision + len(entries)

    def list(
        self,
        *,
        settled: bool | None = None,
        cluster: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        newest_first: bool = False,
    ) -> Page:
        """Return a page of records, oldest first unless asked otherwise (see `Records`)."""
        rules.check_limit(limit)
        place = rules.after(cursor)
        where = ["(place < ? OR ? = '')" if newest_first else "place > ?"]
        values: builtins.list[Any] = [place, place] if newest_first else [place]
        if settled is not None:
            where.append(f"settled_at IS {'NOT ' if settled else ''}NULL")
        if cluster is not None:
            where.append("cluster = ?")
            values.append(cluster)
        condition = " AND ".join(where)
        order = "place DESC" if newest_first else "place"
        query = f"SELECT {_LISTED} FROM records WHERE {condition} ORDER BY {order} LIMIT ?"  # noqa: S608 - fixed texts
        with self._file.reading() as connection:
            rows = connection.execute(query, (*values, limit + 1)).fetchall()
        return rules.page_of([_listed(row) for row in rows], limit)

    def tombstone(self, job_id: str, *, revision: int | None = None) -> None:
        """Mark a settled record for removal (see `Records`)."""
        with self._file.writing(job_id) as connection:
            row = self._row(connection, "settled_at, revision", job_id)
            settled_at, current = self._known(row, job_id)
            if settled_at is None:
                raise NotSettled("only a settled record is tombstoned", job=job_id)
            if revision is not None and current != revision:
                raise RevisionConflict(f"it is at revision {current}, not {revision}", job=job_id)
            connection.execute(
                "UPDATE records SET tombstoned = 1, open = 0, quiet = NULL WHERE job_id = ?",
                (job_id,),
            )

    def remove(self, job_id: str) -> None:
        """Remove what a tombstoned record held (see `Records`)."""
        with self._file.writing(job_id) as connection:
            (tombstoned,) = self._known(self._row(connection, "tombstoned", job_id), job_id)
            if not tombstoned:
                raise NotSettled("only a tombstoned record is removed", job=job_id)
            connection.execute("DELETE FROM entries WHERE job_id = ?", (job_id,))
            connection.execute("UPDATE records SET tombstoned = 2 WHERE job_id = ?", (job_id,))

    # --- Retention ----------------------------------------------------------------------------

    def archivable(self, settled_by: datetime) -> Iterable[str]:
        """Yield what was settled by then, closed and not tombstoned (see `Retention`)."""
        with self._file.reading() as connection:
            rows = connection.execute(
                "SELECT job_id FROM records WHERE NOT open AND NOT tombstoned AND settled_at <= ?"
                " ORDER BY settled_at",
                (rules.written(settled_by),),
            ).fetchall()
        return [job_id for (job_id,) in rows]

    def removable(self) -> Iterable[str]:
        """Yield what is tombstoned and not yet removed (see `Retention`)."""
        with self._file.reading() as connection:
            rows = connection.execute(
                "SELECT job_id FROM records WHERE tombstoned = 1 ORDER BY place"
            ).fetchall()
        return [job_id for (job_id,) in rows]

    def read_tombstoned(self, job_id: str) -> View | None:
        """Return a tombstoned record while it is whole (see `Retention`)."""
        with self._file.reading() as connection:
            revision, settled_at, tombstoned, last = self._head(connection, job_id)
            if not tombstoned:
                raise NotSettled("it isn't tombstoned", job=job_id)
            try:
                return self._view(connection, job_id, (revision, settled_at, last))
            except InvalidRecord:
                return None

    # --- Feed ---------------------------------------------------------------------------------

    def changes(self, after: int, limit: int) -> builtins.list[Change]:
        """Return what was appended after a place, in the order of the commits (see `Feed`)."""
        with self._file.reading() as connection:
            rows = connection.execute(
                "SELECT seq, job_id, revision, schema, body, token FROM entries WHERE seq > ?"
                " ORDER BY seq LIMIT ?",
                (after, limit),
            ).fetchall()
        return [
            Change(seq, job_id, revision, Envelope(*stored))
            for seq, job_id, revision, *stored in rows
        ]

    # --- Agenda -------------------------------------------------------------------------------

    def open_jobs(self, cluster: str, *, shard: int = 0, shards: int = 1) -> Iterable[Due]:
        """Yield the open records of one shard (see `Agenda`)."""
        buckets = rules.buckets_of(shard, shards)
        with self._file.reading() as connection:
            rows = connection.execute(
                "SELECT job_id, revision, quiet, bucket FROM records WHERE cluster = ? AND open",
                (cluster,),
            ).fetchall()
        return [
            Due(job_id, revision, rules.quiet_of(quiet))
            for job_id, revision, quiet, bucket in rows
            if bucket in buckets
        ]

    def set_quiet(self, job_id: str, quiet: Quiet) -> None:
        """Leave the hint while the revision holds (see `Agenda`)."""
        text = rules.quiet_text(quiet)
        if text is None:
            return
        with self._file.writing(job_id) as connection:
            connection.execute(
                "UPDATE records SET quiet = ? WHERE job_id = ? AND revision = ? AND open",
                (text, job_id, quiet.revision),
            )

    def close(self, job_id: str) -> None:
        """Take a settled record off the index (see `Agenda`)."""
        with self._file.writing(job_id) as connection:
            connection.execute(
                "UPDATE records SET open = 0, quiet = NULL"
                " WHERE job_id = ? AND settled_at IS NOT NULL",
                (job_id,),
            )

    # --- Owner and Health ---------------------------------------------------------------------

    def acquire(self, name: str, owner: str, *, now: datetime, ttl_s: int) -> Lease | None:
        """Return a lease, or None while another's term lasts (see `Owner`)."""
        with self._file.writing() as connection:
            lease = rules.begun(_lease(connection, name), name, owner, now=now, ttl_s=ttl_s)
            if lease is not None:
                _keep_lease(connection, lease)
        return lease

    def renew(self, lease: Lease, *, now: datetime, ttl_s: int) -> Lease | None:
        """Return the lease with a later end, or None if its term is over (see `Owner`)."""
        with self._file.writing() as connection:
            held = _lease(connection, lease.name)
            renewed = rules.prolonged(held, lease, now=now, ttl_s=ttl_s)
            if renewed is not None:
                _keep_lease(connection, renewed)
        return renewed

    def release(self, lease: Lease) -> None:
        """End this term, if it is still the current one (see `Owner`)."""
        with self._file.writing() as connection:
            held = _lease(connection, lease.name)
            if held is not None and rules.same_term(held, lease):
                _keep_lease(connection, rules.ended(held))

    def put_health(self, health: ClusterHealth) -> None:
        """Keep it in place of what was there (see `Health`)."""
        with self._file.writing() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO health (cluster, body) VALUES (?, ?)",
                (health.cluster, rules.health_text(health)),
            )

    def get_health(self, cluster: str) -> ClusterHealth | None:
        """Return what was last put, or None (see `Health`)."""
        with self._file.reading() as connection:
            row = connection.execute(
                "SELECT body FROM health WHERE cluster = ?", (cluster,)
            ).fetchone()
        return None if row is None else rules.health_of(cluster, row[0])

    # --- rows ---------------------------------------------------------------------------------

    def _insert(
        self,
        connection: Connection,
        job_id: str,
        first: int,
        envelopes: Sequence[Envelope],
    ) -> None:
        token = self._tokens()
        connection.executemany(
            "INSERT INTO entries (job_id, revision, schema, body, token) VALUES (?, ?, ?, ?, ?)",
            [
                (job_id, number, stored.schema, stored.body, token)
                for number, stored in enumerate(envelopes, start=first)
            ],
        )

    def _row(self, connection: Connection, columns: str, job_id: str) -> Any:
        query = f"SELECT {columns} FROM records WHERE job_id = ?"  # noqa: S608 - fixed texts
        return connection.execute(query, (job_id,)).fetchone()

    def _known(self, row: Any, job_id: str) -> Any:
        if row is None:
            raise JobNotFound("no such record", job=job_id)
        return row

    def _readable(self, row: Any, job_id: str) -> tuple[int, str | None]:
        revision, settled_at, tombstoned = self._known(row, job_id)
        if tombstoned:
            raise _tombstoned(job_id)
        return revision, settled_at


def _tombstoned(job_id: str) -> JobTombstoned:
    return JobTombstoned("its record is tombstoned", job=job_id)


def _gap(job_id: str, entry: int) -> InvalidRecord:
    return InvalidRecord("it isn't there", job=job_id, entry=entry, rule="gap")


def _listed(row: tuple[str, str, str, int, str | None, int]) -> Listed:
    job_id, cluster, created_at, revision, settled_at, tombstoned = row
    return Listed(
        job_id=job_id,
        cluster=cluster,
        created_at=rules.moment(created_at),
        revision=revision,
        settled_at=None if settled_at is None else rules.moment(settled_at),
        tombstoned=bool(tombstoned),
    )


def _lease(connection: Connection, name: str) -> Lease | None:
    row = connection.execute(
        "SELECT owner, fence, until FROM leases WHERE name = ?", (name,)
    ).fetchone()
    return None if row is None else Lease(name, row[0], row[1], rules.moment(row[2]))


def _keep_lease(connection: Connection, lease: Lease) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO leases (name, owner, fence, until) VALUES (?, ?, ?, ?)",
        (lease.name, lease.owner, lease.fence, rules.written(lease.until)),
    )
