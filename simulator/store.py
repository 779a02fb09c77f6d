"""A store that may fail: conflicts, lost replies, unknown and late commits, throttling."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum

from dispatch.errors import (
    CommitUnknown,
    DispatchError,
    RevisionConflict,
    StoreUnavailable,
)
from dispatch.record.fact import FACT_SCHEMA
from dispatch.record.view import Envelope, View
from dispatch.store.records import (
    ClusterHealth,
    Created,
    Due,
    Lease,
    NewRecord,
    Page,
    Quiet,
    Store,
)
from simulator.faults import Fault
from simulator.wire import Wire

Landed = Callable[[str, Sequence[Envelope]], None]

LATEST_LANDING_S = 20.0
"""How late a commit may still be written after its sender gave up, seconds."""


class Dialect(StrEnum):
    """Of which build an actor is; a newer one writes its evidence under a newer schema."""

    OWN = "own"
    NEWER = "newer"
    OLDER = "older"


NEWER_SCHEMA = "dispatch.fact.v2"


def as_written(entries: Sequence[Envelope], dialect: Dialect) -> tuple[Envelope, ...]:
    """Return entries as a build of a dialect writes them."""
    if dialect is not Dialect.NEWER:
        return tuple(entries)
    return tuple(
        one._replace(schema=NEWER_SCHEMA) if '"fact":"observed"' in one.body else one
        for one in entries
    )


def as_read(view: View, dialect: Dialect = Dialect.NEWER) -> View:
    """Return a record as a build of a dialect reads it; only a newer one knows both schemas."""
    if dialect is not Dialect.NEWER or not any(e.schema == NEWER_SCHEMA for e in view.entries):
        return view
    return replace(
        view,
        entries=tuple(
            one._replace(schema=FACT_SCHEMA) if one.schema == NEWER_SCHEMA else one
            for one in view.entries
        ),
    )


class FaultyStore:
    """One actor's way to a store; keeps every promise of the contracts while calls go wrong.

    Attributes:
        landed: Told of each commit that was written, whoever learns of it.
        owned: Told of each commit that its actor knows to be its own.
    """

    def __init__(self, inner: Store, wire: Wire, dialect: Dialect = Dialect.OWN) -> None:
        self._inner = inner
        self._dialect = dialect
        self._wire = wire
        self.landed: Landed = lambda job_id, entries: None
        self.owned: Landed = lambda job_id, entries: None

    # --- Records ------------------------------------------------------------------------------

    def create(self, new: NewRecord) -> Created:
        """Create the record (see `Records`)."""
        fault = self._wire.before("commit")
        match fault:
            case Fault.UNAVAILABLE | Fault.CONFLICT:
                raise StoreUnavailable("throttled", job=new.job_id)
            case Fault.NEVER | Fault.LATE:
                raise CommitUnknown("no reply", job=new.job_id)
            case _:
                pass
        created = self._inner.create(new)
        if fault is Fault.LOST:
            raise CommitUnknown("the reply was lost", job=new.job_id)
        self._wire.after(fault)
        return created

    def read(self, job_id: str) -> View:
        """Return the record (see `Records`)."""
        fault = self._wire.before("read")
        if fault is Fault.UNAVAILABLE:
            raise StoreUnavailable("throttled", job=job_id)
        view = as_read(self._inner.read(job_id), self._dialect)
        self._wire.after(fault)
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
        fault = self._wire.before("commit")
        entries = as_written(entries, self._dialect)

        def land() -> int:
            new = self._inner.commit(job_id, revision, entries, settled_at=settled_at)
            self.landed(job_id, entries)
            return new

        match fault:
            case Fault.UNAVAILABLE:
                raise StoreUnavailable("throttled", job=job_id)
            case Fault.CONFLICT:
                raise RevisionConflict("another transaction is under way", job=job_id)
            case Fault.NEVER:
                raise CommitUnknown("no reply", job=job_id)
            case Fault.LOST:
                land()
                raise CommitUnknown("the reply was lost", job=job_id)
            case Fault.LATE:
                late = self._wire.chance.span(0.5, LATEST_LANDING_S)
                self._wire.actor.stage.after(late, lambda: _quietly(land))
                raise CommitUnknown("no reply", job=job_id)
            case Fault.TWICE:
                new = land()
                late = self._wire.chance.span(0.5, LATEST_LANDING_S)
                self._wire.actor.stage.after(late, lambda: _quietly(land))
            case _:
                new = land()
        self._wire.after(fault)
        self.owned(job_id, entries)
        return new

    def list(
        self,
        *,
        settled: bool | None = None,
        cluster: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        newest_first: bool = False,
    ) -> Page:
        """Return a page of records (see `Records`)."""
        return self._inner.list(
            settled=settled,
            cluster=cluster,
            limit=limit,
            cursor=cursor,
            newest_first=newest_first,
        )

    def tombstone(self, job_id: str, *, revision: int | None = None) -> None:
        """Mark a settled record for removal (see `Records`)."""
        self._inner.tombstone(job_id, revision=revision)

    def remove(self, job_id: str) -> None:
        """Remove what a tombstoned record held (see `Records`)."""
        self._inner.remove(job_id)

    # --- Retention ----------------------------------------------------------------------------

    def archivable(self, settled_by: datetime) -> Iterable[str]:
        """Yield what was settled by then, closed and not tombstoned (see `Retention`)."""
        return self._inner.archivable(settled_by)

    def removable(self) -> Iterable[str]:
        """Yield what is tombstoned and not yet removed (see `Retention`)."""
        return self._inner.removable()

    def read_tombstoned(self, job_id: str) -> View | None:
        """Return a tombstoned record while it is whole (see `Retention`)."""
        return self._inner.read_tombstoned(job_id)

    # --- Agenda -------------------------------------------------------------------------------

    def open_jobs(self, cluster: str, *, shard: int = 0, shards: int = 1) -> Iterable[Due]:
        """Yield the open records of one shard (see `Agenda`)."""
        return self._inner.open_jobs(cluster, shard=shard, shards=shards)

    def set_quiet(self, job_id: str, quiet: Quiet) -> None:
        """Leave the hint while the revision holds (see `Agenda`)."""
        self._inner.set_quiet(job_id, quiet)

    def close(self, job_id: str) -> None:
        """Take a settled record off the index (see `Agenda`)."""
        self._inner.close(job_id)

    # --- Owner and Health ---------------------------------------------------------------------

    def acquire(self, name: str, owner: str, *, now: datetime, ttl_s: int) -> Lease | None:
        """Return a lease, or None (see `Owner`)."""
        return self._inner.acquire(name, owner, now=now, ttl_s=ttl_s)

    def renew(self, lease: Lease, *, now: datetime, ttl_s: int) -> Lease | None:
        """Return the lease with a later end, or None (see `Owner`)."""
        return self._inner.renew(lease, now=now, ttl_s=ttl_s)

    def release(self, lease: Lease) -> None:
        """End this term (see `Owner`)."""
        self._inner.release(lease)

    def put_health(self, health: ClusterHealth) -> None:
        """Keep it in place of what was there (see `Health`)."""
        self._inner.put_health(health)

    def get_health(self, cluster: str) -> ClusterHealth | None:
        """Return what was last put, or None (see `Health`)."""
        return self._inner.get_health(cluster)


def _quietly(land: Callable[[], object]) -> None:
    try:
        land()
    except DispatchError:
        return
