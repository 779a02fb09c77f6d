"""The store of a deployment: one DynamoDB table, laid out as `items` says.

A commit is one conditional transaction. Whatever comes back in place of a clear yes is settled by
reading back: this commit's token stands at that revision, or another's, or neither yet.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from dispatch.errors import (
    IdempotencyConflict,
    InvalidRecord,
    JobNotFound,
    JobTombstoned,
    NotSettled,
    RevisionConflict,
    StoreUnavailable,
)
from dispatch.record.view import Envelope, View
from dispatch.store import items, retention_items, rules
from dispatch.store.dynamodb_table import DynamoTable
from dispatch.store.items import Item
from dispatch.store.records import (
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

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_READS = 4
_LINES_A_LOOK = 250


class DynamoRecords:
    """Keeps all five contracts in one table; any number of threads may share it.

    Args:
        client: A low-level client whose own retries (standard mode) meet throttling first.
        table: The table's name.
        tokens: Makes a token for each commit; it is the transaction's token too.
        pause: Waits before try `k` = 1, 2, …; with jitter, or writers meet again and again.
        tries: How often a write is sent before `StoreUnavailable` or `CommitUnknown`.
    """

    def __init__(
        self,
        client: DynamoDBClient,
        table: str,
        tokens: CommitTokens,
        *,
        pause: Callable[[int], None],
        tries: int = 8,
    ) -> None:
        self._table = table
        self._items = DynamoTable(client, table, pause=pause, tries=tries)
        self._tokens = tokens
        self._pause = pause
        self._tries = tries
        self._registered: set[str] = set()

    # --- Records ------------------------------------------------------------------------------

    def create(self, new: NewRecord) -> Created:
        """Create the record and its idempotency entry, or find it there (see `Records`)."""
        rules.check_header(new)
        self._register(new.cluster)
        token = self._tokens()
        request = items.create_request(self._table, new, token)
        outcome = self._items.transact(request, new.job_id, lambda: self._created(new, token))
        return outcome or Created(new.job_id, created=True)

    def _created(self, new: NewRecord, token: str) -> Created | None:
        key = self._items.get(items.idempotency_key(new.idempotency_key), new.job_id)
        if key is None:
            if self._items.get(items.job_key(new.job_id, items.HEAD), new.job_id) is not None:
                raise IdempotencyConflict("this id stands for another key", job=new.job_id)
            return None
        job_id = key["job_id"]["S"]
        if key["spec_digest"]["S"] != new.spec_digest:
            raise IdempotencyConflict(
                f"the key {new.idempotency_key!r} stands for another spec", job=job_id
            )
        return Created(job_id, created=key["token"]["S"] == token)

    def _register(self, cluster: str) -> None:
        """Note that the cluster has records, before it has one; listings ask each cluster."""
        if cluster in self._registered:
            return
        self._items.put(items.key(items.CLUSTERS, cluster))
        self._registered.add(cluster)

    def read(self, job_id: str) -> View:
        """Return the record as last committed (see `Records`).

        A query isn't a snapshot: it can meet a commit half-way, and the head before or after it.
        So it is read on until head and entries agree. What was committed before a look must be
        there at the next; if it isn't after some of them, the record has a gap.
        """
        return self._read(job_id, tombstoned=False)

    def _read(self, job_id: str, *, tombstoned: bool) -> View:
        entries: builtins.list[Envelope] = []
        header: Envelope | None = None
        committed = 0
        for k in range(_READS):
            if k:
                self._pause(k)
            head, seen = None, 0
            first = items.entry_sk(len(entries) + 1)
            request = items.record_query(self._table, job_id, first=first)
            for item in self._items.query(request, job_id):
                match item["sk"]["S"]:
                    case items.HEAD:
                        head = item
                    case items.HEADER:
                        header = items.envelope_of(item)
                    case _:
                        seen = items.revision_of(item)
                        if seen == len(entries) + 1:
                            entries.append(items.envelope_of(item))
            if head is None:
                raise JobNotFound("no such record", job=job_id)
            if not tombstoned and "tombstoned" in head:
                raise JobTombstoned("its record is tombstoned", job=job_id)
            if tombstoned and header is None:
                break
            revision = items.revision_of(head)
            complete = len(entries) >= committed
            committed = max(committed, revision, seen)
            agreed = len(entries) == revision == committed
            if header is not None and (agreed or (complete and k == _READS - 1)):
                return View(job_id, header, tuple(entries), settled_at=items.settled_at(head))
        missing = 0 if header is None else len(entries) + 1
        raise InvalidRecord("it isn't there", job=job_id, entry=missing, rule="gap")

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
        token = self._tokens()
        request = items.commit_request(
            self._table, job_id, revision, entries, token=token, settled_at=settled_at
        )
        self._items.transact(request, job_id, lambda: self._landed(job_id, revision, token))
        return revision + len(entries)

    def _landed(self, job_id: str, revision: int, token: str) -> bool | None:
        """Return True if this commit landed, None if none did yet; refuse if another's did.

        The head is read before the entry: whatever moved it on had put its entry by then.
        """
        head = self._items.get(items.job_key(job_id, items.HEAD), job_id)
        entry = self._items.get(items.job_key(job_id, items.entry_sk(revision + 1)), job_id)
        if entry is not None and entry["token"]["S"] == token:
            return True
        if head is None:
            raise JobNotFound("no such record", job=job_id)
        if "tombstoned" in head:
            raise JobTombstoned("its record is tombstoned", job=job_id)
        current = items.revision_of(head)
        if current != revision or entry is not None:
            raise RevisionConflict(f"it is at revision {current}, not {revision}", job=job_id)
        return None

    def list(
        self,
        *,
        settled: bool | None = None,
        cluster: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        newest_first: bool = False,
    ) -> Page:
        """Return a page of records, oldest first unless asked otherwise (see `Records`).

        Each partition is asked for a page of its own, and the first of all are the page.
        """
        rules.check_limit(limit)
        after = rules.after(cursor)
        found: builtins.list[tuple[str, Listed]] = []
        for partition in self._partitions(cluster, settled):
            request = items.index_query(
                self._table, partition, after=after, settled=settled, newest_first=newest_first
            )
            request["Limit"] = max(limit + 1, _LINES_A_LOOK) if settled else limit + 1
            lines = islice(self._items.query(request, None), limit + 1)
            found += [(item["place"]["S"], items.listed_of(item)) for item in lines]
        found.sort(key=lambda line: line[0], reverse=newest_first)
        return rules.page_of([line for _, line in found[: limit + 1]], limit)

    def _partitions(self, cluster: str | None, settled: bool | None) -> Iterator[str]:
        for name in self._clusters() if cluster is None else [cluster]:
            if settled is False:
                for bucket in range(rules.BUCKETS):
                    yield items.open_shard(name, bucket)
            else:
                yield name

    def _clusters(self) -> Iterator[str]:
        request = {
            "TableName": self._table,
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": {":pk": {"S": items.CLUSTERS}},
            "ConsistentRead": True,
        }
        for item in self._items.query(request, None):
            yield item["sk"]["S"]

    def tombstone(self, job_id: str, *, revision: int | None = None) -> None:
        """Mark a settled record for removal (see `Records`)."""
        request = retention_items.tombstone_request(self._table, job_id, revision)
        if self._items.update(request, job_id):
            return
        head = self._head(job_id)
        if revision is None or items.settled_at(head) is None:
            raise NotSettled("only a settled record is tombstoned", job=job_id)
        current = items.revision_of(head)
        raise RevisionConflict(f"it is at revision {current}, not {revision}", job=job_id)

    def remove(self, job_id: str) -> None:
        """Remove what a tombstoned record held (see `Records`)."""
        if "tombstoned" not in self._head(job_id):
            raise NotSettled("only a tombstoned record is removed", job=job_id)
        request = items.record_query(self._table, job_id, first=items.FIRST_ENTRY)
        request |= {"ProjectionExpression": "pk, sk"}
        doomed = [
            {"pk": item["pk"], "sk": item["sk"]}
            for item in self._items.query(request, job_id)
            if item["sk"]["S"] != items.HEAD
        ]
        self._items.delete(doomed, job_id)
        self._items.update(retention_items.removed_request(self._table, job_id), job_id)

    # --- Retention ----------------------------------------------------------------------------

    def archivable(self, settled_by: datetime) -> Iterable[str]:
        """Yield what was settled by then, closed and not tombstoned (see `Retention`)."""
        return self._retained(retention_items.SETTLED, settled_by)

    def removable(self) -> Iterable[str]:
        """Yield what is tombstoned and not yet removed (see `Retention`)."""
        return self._retained(retention_items.TOMBSTONED, None)

    def _retained(self, state: str, settled_by: datetime | None) -> Iterator[str]:
        for shard in retention_items.shards(state):
            request = retention_items.retention_query(self._table, shard, settled_by)
            for item in self._items.query(request, None):
                yield retention_items.job_of(item)

    def read_tombstoned(self, job_id: str) -> View | None:
        """Return a tombstoned record while it is whole (see `Retention`)."""
        if "tombstoned" not in self._head(job_id):
            raise NotSettled("it isn't tombstoned", job=job_id)
        try:
            return self._read(job_id, tombstoned=True)
        except InvalidRecord:
            return None

    # --- Agenda -------------------------------------------------------------------------------

    def open_jobs(self, cluster: str, *, shard: int = 0, shards: int = 1) -> Iterable[Due]:
        """Yield the open records of one shard (see `Agenda`)."""
        buckets = rules.buckets_of(shard, shards)
        return self._open_jobs(cluster, buckets)

    def _open_jobs(self, cluster: str, buckets: range) -> Iterator[Due]:
        for bucket in buckets:
            for item in self._items.query(items.open_query(self._table, cluster, bucket), None):
                yield items.due_of(item)

    def set_quiet(self, job_id: str, quiet: Quiet) -> None:
        """Leave the hint while the revision holds (see `Agenda`)."""
        text = rules.quiet_text(quiet)
        if text is not None:
            self._items.update(
                items.quiet_request(self._table, job_id, quiet.revision, text), job_id
            )

    def close(self, job_id: str) -> None:
        """Take a settled record off the index (see `Agenda`)."""
        self._items.update(retention_items.close_request(self._table, job_id), job_id)

    # --- Owner and Health ---------------------------------------------------------------------

    def acquire(self, name: str, owner: str, *, now: datetime, ttl_s: int) -> Lease | None:
        """Return a lease, or None while another's term lasts (see `Owner`)."""
        return self._lease(name, lambda held: rules.begun(held, name, owner, now=now, ttl_s=ttl_s))

    def renew(self, lease: Lease, *, now: datetime, ttl_s: int) -> Lease | None:
        """Return the lease with a later end, or None if its term is over (see `Owner`)."""
        return self._lease(
            lease.name, lambda held: rules.prolonged(held, lease, now=now, ttl_s=ttl_s)
        )

    def release(self, lease: Lease) -> None:
        """End this term, if it is still the current one (see `Owner`)."""
        self._lease(
            lease.name,
            lambda held: rules.ended(held) if held and rules.same_term(held, lease) else None,
        )

    def _lease(self, name: str, change: Callable[[Lease | None], Lease | None]) -> Lease | None:
        for _ in range(self._tries):
            item = self._items.get(items.owner_key(name), None)
            held = None if item is None else items.lease_of(name, item)
            lease = change(held)
            if lease is None or lease == held:
                return lease
            if self._items.update(items.lease_request(self._table, lease, held), None):
                return lease
        raise StoreUnavailable(f"the lease {name!r} changes too fast")

    def put_health(self, health: ClusterHealth) -> None:
        """Keep it in place of what was there (see `Health`)."""
        kept = {"health": {"S": rules.health_text(health)}}
        self._items.put(items.health_key(health.cluster) | kept)

    def get_health(self, cluster: str) -> ClusterHealth | None:
        """Return what was last put, or None (see `Health`)."""
        item = self._items.get(items.health_key(cluster), None)
        return None if item is None else rules.health_of(cluster, item["health"]["S"])

    def _head(self, job_id: str) -> Item:
        head = self._items.get(items.job_key(job_id, items.HEAD), job_id)
        if head is None:
            raise JobNotFound("no such record", job=job_id)
        return head
