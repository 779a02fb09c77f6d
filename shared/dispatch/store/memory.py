"""A store in this process's memory, for tests and the simulator; it is gone with the process."""

from __future__ import annotations

import builtins
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from threading import Lock

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


@dataclass(slots=True)
class _Kept:
    """A record and its labels; `view` is None once it is removed."""

    new: NewRecord
    bucket: int
    view: View | None
    revision: int = 0
    settled_at: datetime | None = None
    tombstoned: bool = False
    removed: bool = False
    open: bool = True
    quiet: Quiet | None = None

    def listed(self) -> Listed:
        return Listed(
            job_id=self.new.job_id,
            cluster=self.new.cluster,
            created_at=self.new.created_at,
            revision=self.revision,
            settled_at=self.settled_at,
            tombstoned=self.tombstoned,
        )


class MemoryRecords:
    """Keeps all five contracts, and the feed, in memory; any number of threads may share it."""

    def __init__(self, tokens: CommitTokens) -> None:
        self._tokens = tokens
        self._lock = Lock()
        self._records: dict[str, _Kept] = {}
        self._keys: dict[str, str] = {}
        self._order: builtins.list[tuple[str, str]] = []
        self._log: builtins.list[Change] = []
        self._seq = 0
        self._leases: dict[str, Lease] = {}
        self._health: dict[str, ClusterHealth] = {}

    # --- Records ------------------------------------------------------------------------------

    def create(self, new: NewRecord) -> Created:
        """Create the record and its idempotency entry, or find it there (see `Records`)."""
        rules.check_header(new)
        place = rules.place_of(new.created_at, new.job_id)
        with self._lock:
            standing = self._keys.get(new.idempotency_key)
            if standing is not None:
                if self._records[standing].new.spec_digest != new.spec_digest:
                    raise IdempotencyConflict(
                        f"the key {new.idempotency_key!r} stands for another spec", job=standing
                    )
                return Created(standing, created=False)
            if new.job_id in self._records:
                raise IdempotencyConflict("this id stands for another key", job=new.job_id)
            header = new.header._replace(token=self._tokens())
            self._records[new.job_id] = _Kept(
                new, rules.bucket_of(new.job_id), View(new.job_id, header)
            )
            self._keys[new.idempotency_key] = new.job_id
            insort(self._order, (place, new.job_id))
            self._append(new.job_id, 0, header)
            return Created(new.job_id, created=True)

    def read(self, job_id: str) -> View:
        """Return the record as last committed (see `Records`)."""
        with self._lock:
            kept, view = self._readable(job_id)
            if view.revision != kept.revision:
                raise InvalidRecord(
                    f"{view.revision} of {kept.revision} entries are there",
                    job=job_id,
                    entry=view.revision + 1,
                    rule="gap",
                )
            return view

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
        with self._lock:
            kept, view = self._readable(job_id)
            if kept.revision != revision:
                raise RevisionConflict(
                    f"it is at revision {kept.revision}, not {revision}", job=job_id
                )
            token = self._tokens()
            stored = tuple(entry._replace(token=token) for entry in entries)
            kept.settled_at = settled_at or kept.settled_at
            kept.view = replace(view.with_entries(stored), settled_at=kept.settled_at)
            kept.revision += len(stored)
            for number, entry in enumerate(stored, start=revision + 1):
                self._append(job_id, number, entry)
            return kept.revision

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
        lines: builtins.list[Listed] = []
        with self._lock:
            if newest_first:
                end = bisect_left(self._order, place, key=lambda entry: entry[0])
                ahead = self._order[: end if place else None][::-1]
            else:
                start = bisect_right(self._order, place, key=lambda entry: entry[0])
                ahead = self._order[start:]
            for _, job_id in ahead:
                kept = self._records[job_id]
                if settled is not None and (kept.settled_at is not None) != settled:
                    continue
                if cluster is not None and kept.new.cluster != cluster:
                    continue
                lines.append(kept.listed())
                if len(lines) > limit:
                    break
        return rules.page_of(lines, limit)

    def tombstone(self, job_id: str, *, revision: int | None = None) -> None:
        """Mark a settled record for removal (see `Records`)."""
        with self._lock:
            kept = self._known(job_id)
            if kept.settled_at is None:
                raise NotSettled("only a settled record is tombstoned", job=job_id)
            if revision is not None and kept.revision != revision:
                raise RevisionConflict(
                    f"it is at revision {kept.revision}, not {revision}", job=job_id
                )
            kept.tombstoned = True
            kept.removed = False
            kept.open = False
            kept.quiet = None

    def remove(self, job_id: str) -> None:
        """Remove what a tombstoned record held (see `Records`)."""
        with self._lock:
            kept = self._known(job_id)
            if not kept.tombstoned:
                raise NotSettled("only a tombstoned record is removed", job=job_id)
            kept.view = None
            kept.removed = True
            self._log = [change for change in self._log if change.job_id != job_id]

    # --- Retention ----------------------------------------------------------------------------

    def archivable(self, settled_by: datetime) -> Iterable[str]:
        """Yield what was settled by then, closed and not tombstoned (see `Retention`)."""
        with self._lock:
            return [
                job_id
                for job_id, kept in self._records.items()
                if not (kept.open or kept.tombstoned or kept.settled_at is None)
                and kept.settled_at <= settled_by
            ]

    def removable(self) -> Iterable[str]:
        """Yield what is tombstoned and not yet removed (see `Retention`)."""
        with self._lock:
            return [
                job_id
                for job_id, kept in self._records.items()
                if kept.tombstoned and not kept.removed
            ]

    def read_tombstoned(self, job_id: str) -> View | None:
        """Return a tombstoned record while it is whole (see `Retention`)."""
        with self._lock:
            kept = self._known(job_id)
            if not kept.tombstoned:
                raise NotSettled("it isn't tombstoned", job=job_id)
            whole = kept.view is not None and kept.view.revision == kept.revision
            return kept.view if whole else None

    # --- Feed ---------------------------------------------------------------------------------

    def changes(self, after: int, limit: int) -> builtins.list[Change]:
        """Return what was appended after a place, in the order of the commits (see `Feed`)."""
        with self._lock:
            start = bisect_right(self._log, after, key=lambda change: change.seq)
            return self._log[start : start + limit]

    # --- Agenda -------------------------------------------------------------------------------

    def open_jobs(self, cluster: str, *, shard: int = 0, shards: int = 1) -> Iterable[Due]:
        """Yield the open records of one shard (see `Agenda`)."""
        buckets = rules.buckets_of(shard, shards)
        with self._lock:
            return [
                Due(job_id, kept.revision, kept.quiet)
                for job_id, kept in self._records.items()
                if kept.open and kept.new.cluster == cluster and kept.bucket in buckets
            ]

    def set_quiet(self, job_id: str, quiet: Quiet) -> None:
        """Leave the hint while the revision holds (see `Agenda`)."""
        if rules.quiet_text(quiet) is None:
            return
        with self._lock:
            kept = self._records.get(job_id)
            if kept is not None and kept.open and kept.revision == quiet.revision:
                kept.quiet = quiet

    def close(self, job_id: str) -> None:
        """Take a settled record off the index (see `Agenda`)."""
        with self._lock:
            kept = self._records.get(job_id)
            if kept is not None and kept.settled_at is not None:
                kept.open = False
                kept.quiet = None

    # --- Owner and Health ---------------------------------------------------------------------

    def acquire(self, name: str, owner: str, *, now: datetime, ttl_s: int) -> Lease | None:
        """Return a lease, or None while another's term lasts (see `Owner`)."""
        with self._lock:
            lease = rules.begun(self._leases.get(name), name, owner, now=now, ttl_s=ttl_s)
            if lease is not None:
                self._leases[name] = lease
            return lease

    def renew(self, lease: Lease, *, now: datetime, ttl_s: int) -> Lease | None:
        """Return the lease with a later end, or None if its term is over (see `Owner`)."""
        with self._lock:
            renewed = rules.prolonged(self._leases.get(lease.name), lease, now=now, ttl_s=ttl_s)
            if renewed is not None:
                self._leases[lease.name] = renewed
            return renewed

    def release(self, lease: Lease) -> None:
        """End this term, if it is still the current one (see `Owner`)."""
        with self._lock:
            held = self._leases.get(lease.name)
            if held is not None and rules.same_term(held, lease):
                self._leases[lease.name] = rules.ended(held)

    def put_health(self, health: ClusterHealth) -> None:
        """Keep it in place of what was there (see `Health`)."""
        with self._lock:
            self._health[health.cluster] = health

    def get_health(self, cluster: str) -> ClusterHealth | None:
        """Return what was last put, or None (see `Health`)."""
        with self._lock:
            return self._health.get(cluster)

    # ------------------------------------------------------------------------------------------

    def _known(self, job_id: str) -> _Kept:
        kept = self._records.get(job_id)
        if kept is None:
            raise JobNotFound("no such record", job=job_id)
        return kept

    def _readable(self, job_id: str) -> tuple[_Kept, View]:
        kept = self._known(job_id)
        if kept.tombstoned or kept.view is None:
            raise JobTombstoned("its record is tombstoned", job=job_id)
        return kept, kept.view

    def _append(self, job_id: str, revision: int, envelope: Envelope) -> None:
        self._seq += 1
        self._log.append(Change(self._seq, job_id, revision, envelope))
