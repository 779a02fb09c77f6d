"""What every store judges alike: sizes, shards, the order of a listing, terms of a lease. Pure."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from dispatch.errors import EntryTooLarge, InvalidRequest
from dispatch.record.model import instant_text
from dispatch.record.view import Envelope
from dispatch.store.records import (
    MAX_COMMIT_BYTES,
    MAX_ENTRIES_PER_COMMIT,
    MAX_ENTRY_BYTES,
    ClusterHealth,
    ClusterTrouble,
    Lease,
    Listed,
    NewRecord,
    Page,
    Quiet,
)

BUCKETS = 16
"""A record's bucket is fixed when it is created; the shards of an index are whole buckets."""

MAX_QUIET_BYTES = 50_000
"""A larger hint isn't kept, so that it can't fill the head of a record."""

MAX_LISTED = 1000
"""Lines on one page."""

_PLACE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z#[A-Za-z0-9._:-]{1,128}\Z")


def bucket_of(job_id: str) -> int:
    """Return the bucket of a new record, 0 to `BUCKETS` - 1."""
    return sha256(job_id.encode()).digest()[0] % BUCKETS


def buckets_of(shard: int, shards: int) -> range:
    """Return the buckets of one shard; all shards together have each bucket once.

    Raises:
        InvalidRequest: The number of shards doesn't divide `BUCKETS`, or there is no such shard.
    """
    if shards < 1 or BUCKETS % shards:
        raise InvalidRequest(f"{shards} is no divisor of {BUCKETS}", field="shards")
    if not 0 <= shard < shards:
        raise InvalidRequest(f"{shard} isn't one of {shards}, counted from 0", field="shard")
    return range(shard, BUCKETS, shards)


def check_header(new: NewRecord) -> None:
    """Refuse a header that wouldn't fit everywhere.

    Raises:
        EntryTooLarge: Its body is larger than `MAX_ENTRY_BYTES`.
    """
    _check_size(new.header, new.job_id, "the header")


def check_entries(job_id: str, entries: Sequence[Envelope]) -> None:
    """Refuse a commit that wouldn't fit everywhere, before anything of it is written.

    Raises:
        EntryTooLarge: One entry, all together or their number is over its limit.
        ValueError: There are none.
    """
    if not entries:
        raise ValueError(f"job {job_id}: a commit appends at least one entry")
    if len(entries) > MAX_ENTRIES_PER_COMMIT:
        raise EntryTooLarge(
            f"{len(entries)} entries are more than the {MAX_ENTRIES_PER_COMMIT} of one commit",
            job=job_id,
        )
    total = sum(
        _check_size(entry, job_id, f"entry {place} of the commit")
        for place, entry in enumerate(entries, start=1)
    )
    if total > MAX_COMMIT_BYTES:
        raise EntryTooLarge(
            f"{total} bytes together are more than the {MAX_COMMIT_BYTES} of one commit", job=job_id
        )


def _check_size(stored: Envelope, job_id: str, what: str) -> int:
    size = len(stored.body.encode())
    if size > MAX_ENTRY_BYTES:
        raise EntryTooLarge(
            f"{what} ({stored.schema}) has {size} bytes, the limit is {MAX_ENTRY_BYTES}", job=job_id
        )
    return size


def written(moment: datetime) -> str:
    """Return a time as stores keep it, in UTC and of one width, so that texts sort as times do.

    Raises:
        ValueError: It has no zone.
    """
    if moment.tzinfo is None:
        raise ValueError(f"{moment.isoformat()} has no zone")
    return instant_text(moment.astimezone(UTC))


def moment(text: str) -> datetime:
    """Return the time that `written` wrote."""
    return datetime.fromisoformat(text)


def place_of(created_at: datetime, job_id: str) -> str:
    """Return a record's place in every listing: by creation, then by id."""
    return f"{written(created_at)}#{job_id}"


def cursor_of(place: str) -> str:
    """Return the cursor that leads on after a place."""
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def after(cursor: str | None) -> str:
    """Return the place that a cursor stands for; the empty text is before all places.

    Raises:
        InvalidRequest: No store made this cursor.
    """
    if cursor is None:
        return ""
    try:
        place = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except ValueError:
        place = ""
    if not _PLACE.match(place) or cursor_of(place) != cursor:
        raise InvalidRequest("it isn't a cursor of a page before", field="cursor")
    return place


def check_limit(limit: int) -> None:
    """Refuse a page of no or too many lines.

    Raises:
        InvalidRequest: It isn't 1 to `MAX_LISTED`.
    """
    if not 1 <= limit <= MAX_LISTED:
        raise InvalidRequest(f"{limit} isn't between 1 and {MAX_LISTED}", field="limit")


def page_of(lines: Sequence[Listed], limit: int) -> Page:
    """Return the page from the lines after its cursor, of which there is one too many if any is."""
    items = tuple(lines[:limit])
    more = len(lines) > limit
    return Page(
        items, cursor_of(place_of(items[-1].created_at, items[-1].job_id)) if more else None
    )


def begun(held: Lease | None, name: str, owner: str, *, now: datetime, ttl_s: int) -> Lease | None:
    """Return the lease that an acquire gets, or None while somebody else's term lasts.

    Args:
        held: The lease as kept; one without an owner was released. None: there never was one.
        name: What is to be owned.
        owner: By whom.
        now: The caller's time.
        ttl_s: For how long.
    """
    until = now + timedelta(seconds=ttl_s)
    if held is None:
        return Lease(name, owner, 1, until)
    if held.owner and held.until > now:
        return replace(held, until=max(held.until, until)) if held.owner == owner else None
    return Lease(name, owner, held.fence + 1, until)


def prolonged(held: Lease | None, lease: Lease, *, now: datetime, ttl_s: int) -> Lease | None:
    """Return the lease that a renewal gets, or None if that term is over."""
    if not same_term(held, lease) or held is None or held.until <= now:
        return None
    return replace(held, until=max(held.until, now + timedelta(seconds=ttl_s)))


def same_term(held: Lease | None, lease: Lease) -> bool:
    """Return whether the lease as kept is still this term."""
    return held is not None and (held.owner, held.fence) == (lease.owner, lease.fence)


def ended(lease: Lease) -> Lease:
    """Return what is kept of a released lease: its fence, for the next term to exceed."""
    return replace(lease, owner="")


def quiet_text(quiet: Quiet) -> str | None:
    """Return a hint as it is kept, or None if it is too large to keep."""
    wait_until = None if quiet.wait_until is None else written(quiet.wait_until)
    kept = [quiet.revision, quiet.refs, quiet.digest, wait_until, quiet.build, quiet.live]
    text = json.dumps(kept)
    return text if len(text.encode()) <= MAX_QUIET_BYTES else None


def quiet_of(text: str | None) -> Quiet | None:
    """Return the hint that `quiet_text` wrote."""
    if text is None:
        return None
    revision, refs, digest, wait_until, build, live = json.loads(text)
    until = None if wait_until is None else moment(wait_until)
    return Quiet(revision, tuple(refs), digest, until, build, tuple(live))


def health_text(health: ClusterHealth) -> str:
    """Return a cluster's health as it is kept."""
    return json.dumps(
        {
            "supervisor": health.supervisor,
            "last_tick": written(health.last_tick),
            "last_complete_find": _written_or_none(health.last_complete_find),
            "last_error": health.last_error,
            "identity": health.identity,
            "escalations": health.escalations,
            "loss_accepted_at": _written_or_none(health.loss_accepted_at),
            "failing_since": _written_or_none(health.failing_since),
            "retry_at": _written_or_none(health.retry_at),
            "troubles": [(one.kind, written(one.since), one.detail) for one in health.troubles],
            "told": health.told,
            "withheld": health.withheld,
        }
    )


def health_of(cluster: str, text: str) -> ClusterHealth:
    """Return the health that `health_text` wrote, this build's or an earlier one's."""
    kept = json.loads(text)
    return ClusterHealth(
        cluster=cluster,
        supervisor=kept["supervisor"],
        last_tick=moment(kept["last_tick"]),
        last_complete_find=_moment_or_none(kept["last_complete_find"]),
        last_error=kept["last_error"],
        identity=kept["identity"],
        escalations=tuple((key, text) for key, text in kept["escalations"]),
        loss_accepted_at=_moment_or_none(kept["loss_accepted_at"]),
        failing_since=_moment_or_none(kept.get("failing_since")),
        retry_at=_moment_or_none(kept.get("retry_at")),
        troubles=tuple(
            ClusterTrouble(kind, moment(since), detail)
            for kind, since, detail in kept.get("troubles", ())
        ),
        told=tuple(kept.get("told", ())),
        withheld=tuple(kept.get("withheld", ())),
    )


def _written_or_none(value: datetime | None) -> str | None:
    return None if value is None else written(value)


def _moment_or_none(text: str | None) -> datetime | None:
    return None if text is None else moment(text)
