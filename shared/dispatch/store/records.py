"""The contracts of a store: `Records`, and the optional `Agenda`, `Owner`, `Health` and `Feed`.

`Retention` stands beside them in a module of its own.

Every promise in a docstring here has one test of its name in `tests/conformance/records`, which
every store passes.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol, runtime_checkable

from dispatch.record.view import Envelope, View
from dispatch.store.retention import Retention

MAX_ENTRY_BYTES = 300_000
"""A body larger than this is refused with `EntryTooLarge` before anything is written."""

MAX_ENTRIES_PER_COMMIT = 50
"""Entries one commit may carry."""

MAX_COMMIT_BYTES = 3_500_000
"""The entries of one commit together; more is refused with `EntryTooLarge`."""


@dataclass(frozen=True, slots=True)
class Created:
    """What a create did.

    Attributes:
        job_id: The job that the idempotency key stands for.
        created: False when the key stood for it already, with the same digest.
    """

    job_id: str
    created: bool


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record about to be created.

    Attributes:
        job_id: Derived from the idempotency key.
        idempotency_key: The client's.
        spec_digest: Told from a repeat with another spec by it.
        cluster: For the index of open records.
        header: The encoded header.
        created_at: The header's time.
    """

    job_id: str
    idempotency_key: str
    spec_digest: str
    cluster: str
    header: Envelope
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of a listing; it comes from an index that may lag behind the record.

    Attributes:
        job_id: Which record.
        cluster: Where it runs.
        created_at: When it was created.
        revision: As the index last saw it.
        settled_at: The `dispatch.settled-at` label; None means `dispatch.settled` is false.
        tombstoned: Whether only its key and mark are kept.
    """

    job_id: str
    cluster: str
    created_at: datetime
    revision: int
    settled_at: datetime | None
    tombstoned: bool


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a listing, in the stable order (created_at, job_id).

    Attributes:
        items: The lines.
        cursor: Hand it in for the next page; None after the last.
    """

    items: tuple[Listed, ...]
    cursor: str | None


class Records(Protocol):
    """Keeps records: written once, then appended to (seed, "The store")."""

    def create(self, new: NewRecord) -> Created:
        """Create the record and its idempotency entry in one step, or find it there.

        The same key with the same digest returns the existing job, even once it is tombstoned
        and removed.

        Raises:
            IdempotencyConflict: The key stands for another digest, or the job id for another key.
            EntryTooLarge: The header would not fit.
            StoreUnavailable: Nothing was written.
            CommitUnknown: It may be there; the same create may be repeated.
        """
        ...

    def read(self, job_id: str) -> View:
        """Return the record with every commit that was acknowledged before this call.

        Raises:
            JobNotFound: No such record, nor a mark of one.
            JobTombstoned: Only its key and mark are kept.
            InvalidRecord: The stored entries have a gap, which is never read as a shorter history.
            StoreUnavailable: Try later.
        """
        ...

    def commit(
        self,
        job_id: str,
        revision: int,
        entries: Sequence[Envelope],
        *,
        settled_at: datetime | None = None,
    ) -> int:
        """Append all of these entries, or none, only if `revision` is still current.

        All entries carry one token, unique to this commit. Of any number of writers at one
        revision exactly one succeeds. The caller owns the commit only when this returns. Whatever
        was committed before, there is room for the largest control intent.

        Args:
            job_id: Which record.
            revision: The one that was read.
            entries: At least one, at most `MAX_ENTRIES_PER_COMMIT`.
            settled_at: Sets the settled labels with the same write; later commits keep them.

        Returns:
            The new revision.

        Raises:
            RevisionConflict: The record is at another revision; nothing was written.
            JobNotFound: No such record.
            JobTombstoned: It is tombstoned, whatever the revision.
            EntryTooLarge: An entry, or all together, would not fit; nothing was written.
            ValueError: There are no entries.
            StoreUnavailable: Nothing was written.
            CommitUnknown: It may be there, and a re-read couldn't tell.
        """
        ...

    def list(
        self,
        *,
        settled: bool | None = None,
        cluster: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        newest_first: bool = False,
    ) -> Page:
        """Return a page of records by their settled label, in a stable order.

        A record that exists, with that label, throughout the listing stands on exactly one page,
        whatever is created meanwhile. Tombstoned ones are listed too. The index may lag.

        Args:
            settled: True, False, or None for both.
            cluster: Only this cluster's.
            limit: 1 to 1,000 lines.
            cursor: From the page before, asked for in the same order.
            newest_first: Whether the order is turned round.

        Raises:
            InvalidRequest: The cursor isn't one of this store's, or the limit is out of range.
            StoreUnavailable: Try later.
        """
        ...

    def tombstone(self, job_id: str, *, revision: int | None = None) -> None:
        """Mark a settled record for removal; its key and mark are kept for ever. Repeatable.

        It leaves the index of open records with it, as it can't be read any more.

        Args:
            job_id: Which record.
            revision: Only while the record is at this one; None for whatever it holds.

        Raises:
            JobNotFound: No such record.
            NotSettled: It has no settled label.
            RevisionConflict: It is at another revision; nothing was marked.
            StoreUnavailable: Try later.
        """
        ...

    def remove(self, job_id: str) -> None:
        """Remove the header and the entries of a tombstoned record. Repeatable.

        Raises:
            JobNotFound: No such record.
            NotSettled: It isn't tombstoned.
            StoreUnavailable: Try later.
        """
        ...


@dataclass(frozen=True, slots=True)
class Quiet:
    """Why a job need not be looked at before something changes (protocol §7, idle jobs).

    Attributes:
        revision: The revision at which there was nothing left to do.
        refs: The objects that the glance is asked about.
        digest: Their tokens in the glance, digested.
        wait_until: When it is due whatever happens; None for never by itself.
        build: The protocol build that said so; another build looks again.
        live: Those of `refs` that hadn't ended; losing most of a cluster's at once is no evidence.
    """

    revision: int
    refs: tuple[str, ...]
    digest: str
    wait_until: datetime | None
    build: str
    live: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Due:
    """A line of the index of open jobs.

    Attributes:
        job_id: Which record.
        revision: As the index last saw it.
        quiet: What the last pass left, or None.
    """

    job_id: str
    revision: int
    quiet: Quiet | None


class Agenda(Protocol):
    """An optional index of the records that supervision still has to look after."""

    def open_jobs(self, cluster: str, *, shard: int = 0, shards: int = 1) -> Iterable[Due]:
        """Yield every open record of a cluster's shard once, without reading the records.

        A settled record stays open until `close` is called or it is tombstoned: Finds go on
        covering it for its retention and save window (protocol §6, row 0). A record's shard never
        changes. The index may lag.

        Args:
            cluster: Whose records.
            shard: Which part, counted from 0.
            shards: How many parts; a divisor of `dispatch.store.rules.BUCKETS`.

        Raises:
            InvalidRequest: There is no such shard.
            StoreUnavailable: Try later.
        """
        ...

    def set_quiet(self, job_id: str, quiet: Quiet) -> None:
        """Leave the hint, only while the record is open and at that revision; else do nothing.

        A hint too large to keep isn't kept: the job is then looked at each time.

        Raises:
            StoreUnavailable: Try later, or not at all.
        """
        ...

    def close(self, job_id: str) -> None:
        """Take a settled record off the index; nothing happens if it isn't settled, or isn't there.

        Raises:
            StoreUnavailable: Try later.
        """
        ...


@dataclass(frozen=True, slots=True)
class Lease:
    """A term of ownership of one cluster's shard.

    Attributes:
        name: What is owned.
        owner: By whom.
        fence: Grows with every new term.
        until: When it ends unless renewed.
    """

    name: str
    owner: str
    fence: int
    until: datetime


class Owner(Protocol):
    """Optional leases. They save double work; safety never rests on them (protocol §7).

    What a lease doesn't promise: that its holder still holds it by the time it acts. Clocks differ,
    processes freeze, and nothing downstream asks for the fence. Every method raises
    `StoreUnavailable` where the store doesn't answer; the caller then goes on without a lease.
    """

    def acquire(self, name: str, owner: str, *, now: datetime, ttl_s: int) -> Lease | None:
        """Return a lease if it is free, run out, or this owner's own (renewed: same fence).

        A term that follows a released or run out one has a larger fence, whoever had that.
        """
        ...

    def renew(self, lease: Lease, *, now: datetime, ttl_s: int) -> Lease | None:
        """Return the lease with a later end, or None if another term has begun or it ran out."""
        ...

    def release(self, lease: Lease) -> None:
        """End this term, if it is still the current one."""
        ...


class ClusterTrouble(NamedTuple):
    """Something that is wrong with a cluster.

    Attributes:
        kind: unreachable or mass_loss.
        since: When it began, UTC.
        detail: For people.
    """

    kind: str
    since: datetime
    detail: str


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    """How supervision of a cluster goes; for display only (seed, "The store").

    Attributes:
        cluster: Which cluster.
        supervisor: Who looked last.
        last_tick: When it was last looked after.
        last_complete_find: When an evidence Find was last complete (its taken_at).
        last_error: What went wrong last, if the last look failed.
        identity: What the cluster says it is, as first seen.
        escalations: Cluster-level escalations by key, with their texts.
        loss_accepted_at: When a person said that a mass loss, or a new identity, is real.
        failing_since: When the first of the looks failed that nothing was learnt from; None once
            one is answered.
        retry_at: Until when it isn't asked again, having failed for a while.
        troubles: What is wrong with it.
        told: The ids of the events that told of troubles.
        withheld: What its brakes keep from happening, a few lines of it.
    """

    cluster: str
    supervisor: str
    last_tick: datetime
    last_complete_find: datetime | None = None
    last_error: str | None = None
    identity: str | None = None
    escalations: tuple[tuple[str, str], ...] = ()
    loss_accepted_at: datetime | None = None
    failing_since: datetime | None = None
    retry_at: datetime | None = None
    troubles: tuple[ClusterTrouble, ...] = ()
    told: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()


class Health(Protocol):
    """Optional: the supervisor's word about a cluster, last writer wins."""

    def put_health(self, health: ClusterHealth) -> None:
        """Keep it in place of what was there."""
        ...

    def get_health(self, cluster: str) -> ClusterHealth | None:
        """Return what was last put, or None."""
        ...


class Change(NamedTuple):
    """One header or entry, as it came to be in a store.

    Attributes:
        seq: Its place among all of this store's; grows, with gaps.
        job_id: Whose record.
        revision: 0 for the header, else the entry's number.
        envelope: The header or the entry.
    """

    seq: int
    job_id: str
    revision: int
    envelope: Envelope


@runtime_checkable
class Feed(Protocol):
    """What Memory and SQLite have in place of DynamoDB's stream."""

    def changes(self, after: int, limit: int) -> builtins.list[Change]:
        """Return what was appended after a place, in the order of the commits.

        Nothing that comes later has a smaller `seq`. The entries of removed records aren't shown.

        Args:
            after: The last seq that was seen; 0 for all.
            limit: At most how many.

        Raises:
            StoreUnavailable: Try later.
        """
        ...


class Store(Records, Agenda, Owner, Health, Retention, Protocol):
    """All five contracts at once; Memory, SQLite and DynamoDB keep them all."""


class CommitTokens(Protocol):
    """Makes a token for each commit, unique for ever."""

    def __call__(self) -> str:
        """Return a fresh token, at most 36 characters of `[A-Za-z0-9-]`."""
        ...
