"""What is published: one event for each decision that a record took. Pure.

An event is delivered at least once, with an id that is the same each time. Its detail is
versioned: fields are added within a version, and a change of meaning is a new detail type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from dispatch.core.fold import extend, fold
from dispatch.core.job import Job
from dispatch.errors import RecordRefused
from dispatch.record.codec import canonical, decode_entry
from dispatch.record.model import instant_text
from dispatch.record.view import View
from dispatch.store.records import ClusterHealth

SOURCE = "dispatch"
VERSION = 1

OUTCOME = "dispatch.outcome.v1"
RECOVERY_HOLD = "dispatch.recovery_hold.v1"
ESCALATION = "dispatch.escalation.v1"
SETTLED = "dispatch.settled.v1"
CLUSTER_TROUBLE = "dispatch.cluster_trouble.v1"
DETAIL_TYPES = (OUTCOME, RECOVERY_HOLD, ESCALATION, SETTLED, CLUSTER_TROUBLE)


@dataclass(frozen=True, slots=True)
class Event:
    """One event.

    Attributes:
        id: The same whenever this decision is published again.
        detail_type: One of `DETAIL_TYPES`.
        at: When the decision was taken, UTC.
        detail: Canonical JSON; it repeats the id.
    """

    id: str
    detail_type: str
    at: datetime
    detail: str


class Bus(Protocol):
    """Where events are published."""

    def put(self, events: Sequence[Event]) -> None:
        """Publish them all; what was published before a failure may be published again.

        Raises:
            TryLater: Some, or all, weren't taken.
        """
        ...


def events_of(view: View, first: int, last: int, now: datetime) -> list[Event]:
    """Return the events of the decisions that stand in entries `first` to `last` of a record.

    Each entry is folded at its own revision, so the answer doesn't depend on what came later. A
    record that doesn't fold gives one escalation, whatever is asked for.

    Args:
        view: The record, at `last` or later.
        first: The first entry's number, counted from 1.
        last: The last entry's number.
        now: The time of the fold, UTC.
    """
    try:
        return list(_decided(view, first, last, now))
    except RecordRefused as refused:
        return [_refused(view, refused, now)]


def _decided(view: View, first: int, last: int, now: datetime) -> Iterator[Event]:
    before = fold(view.at(first - 1), now)
    for number in range(first, min(last, view.revision) + 1):
        entry = decode_entry(view.entries[number - 1], job=view.job_id, entry=number)
        after = extend(before, (entry,))
        yield from _news(before, after)
        before = after


def _news(before: Job, after: Job) -> Iterator[Event]:
    ending, recovery = after.ending, after.recovery
    if ending is not None and before.ending is None:
        fields = {
            "outcome": ending.state,
            "cause": ending.cause,
            "by": ending.by,
            "detail": ending.detail,
        }
        yield _event(after, OUTCOME, ending.at, "outcome", fields)
    if recovery is not None and recovery != before.recovery:
        fields = {"cause": recovery.cause, "trigger": recovery.trigger, "detail": recovery.detail}
        yield _event(after, RECOVERY_HOLD, recovery.at, recovery.trigger, fields)
    for key, told in after.escalations.items():
        if key not in before.escalations:
            fields = {"key": key, "code": told.code, "detail": told.detail}
            yield _event(after, ESCALATION, told.at, key, fields)
    if after.settled_at is not None and before.settled_at is None:
        fields = {"outcome": ending.state if ending is not None else None}
        yield _event(after, SETTLED, after.settled_at, "settled", fields)


def _event(job: Job, detail_type: str, at: datetime, what: str, fields: dict[str, Any]) -> Event:
    body = {
        "version": VERSION,
        "id": f"{job.job_id}/{what}",
        "job_id": job.job_id,
        "name": job.header.spec.name,
        "labels": job.header.spec.labels,
        "cluster": job.declarations.cluster,
        "created_by": job.header.created_by,
        "revision": job.revision,
        "at": instant_text(at),
        **fields,
    }
    return _made(detail_type, at, body)


def troubles_of(health: ClusterHealth, now: datetime) -> tuple[list[Event], tuple[str, ...]]:
    """Return the events about a cluster that are still to be published, and what is told then.

    A trouble is told of when it begins and when it is over, each with an id of its own. Keep the
    second in the health once the events are published; if that is lost, they come again.

    Args:
        health: The cluster's, with what was told already.
        now: When one is told that a trouble is over, UTC.
    """
    begun = {_trouble_id(health.cluster, one.kind, one.since): one for one in health.troubles}
    events = [
        _trouble(health.cluster, (id_, one.kind, one.since), one.since, ("begun", one.detail))
        for id_, one in begun.items()
        if id_ not in health.told
    ]
    for id_ in health.told:
        if id_ not in begun:
            _, _, kind, since = id_.rsplit("/", 3)
            over = (f"{id_}/over", kind, datetime.fromisoformat(since))
            events.append(_trouble(health.cluster, over, now, ("over", None)))
    return events, tuple(begun)


def _trouble_id(cluster: str, kind: str, since: datetime) -> str:
    return f"cluster/{cluster}/{kind}/{instant_text(since)}"


def _trouble(
    cluster: str, which: tuple[str, str, datetime], at: datetime, said: tuple[str, str | None]
) -> Event:
    id_, kind, since = which
    state, detail = said
    body = {
        "version": VERSION,
        "id": id_,
        "cluster": cluster,
        "kind": kind,
        "state": state,
        "since": instant_text(since),
        "at": instant_text(at),
        "detail": detail,
    }
    return _made(CLUSTER_TROUBLE, at, body)


def _refused(view: View, refused: RecordRefused, now: datetime) -> Event:
    """Return the alarm about a record that this build can't fold."""
    where = "" if refused.entry is None else str(refused.entry)
    body = {
        "version": VERSION,
        "id": f"{view.job_id}/refused/{where}",
        "job_id": view.job_id,
        "revision": view.revision,
        "at": instant_text(now),
        "key": f"refused/{where}",
        "code": refused.code,
        "detail": str(refused),
    }
    return _made(ESCALATION, now, body)


def _made(detail_type: str, at: datetime, body: dict[str, Any]) -> Event:
    told = {name: value for name, value in body.items() if value is not None}
    return Event(str(body["id"]), detail_type, at, canonical(told))
