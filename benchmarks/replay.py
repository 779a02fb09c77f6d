"""The same events kept and replayed by the `eventsourcing` package, as a user would write it.

An event for each fact, with the fact's own fields, its times as times; an aggregate whose methods
keep what `fold` keeps of them: submissions, attempts, objects and their latest run. The package's
usual JSON transcoder and mapper carry them. Nothing is checked, and runs aren't told apart.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from benchmarks.figures import CannotMeasure
from dispatch.record import fact as facts
from dispatch.record.codec import decode_entry, decode_header
from dispatch.record.control import Control
from dispatch.record.evidence import Sighting
from dispatch.record.view import View

try:
    from eventsourcing.application import Application
    from eventsourcing.domain import Aggregate, event
except ImportError as missing:  # the package is in the benchmarks' own environment alone
    raise CannotMeasure("the package eventsourcing isn't installed: run `make bench`") from missing

Plain = dict[str, Any]


class JobAggregate(Aggregate):  # type: ignore[misc]  # untyped here
    """A job that believes what it is told."""

    @event("Created")  # type: ignore[untyped-decorator]
    def __init__(self, header: Plain) -> None:
        self.header = header
        self.entries = 0
        self.submissions: list[Plain] = []
        self.attempts: dict[tuple[int, int], Plain] = {}
        self.objects: dict[str, Plain] = {}
        self.evidence_at: datetime | None = None

    @event("Authorized")  # type: ignore[untyped-decorator]
    def authorized(
        self, *, at: datetime, by: str, n: int, trigger: str, taken_at: datetime, cause: str | None
    ) -> None:
        """Begin a submission."""
        self.entries += 1
        self.submissions.append({"n": n, "trigger": trigger, "at": at, "cause": cause})

    @event("Attempted")  # type: ignore[untyped-decorator]
    def attempt(self, at: datetime, by: str, n: int, a: int, deadline: datetime) -> None:
        """Begin an attempt."""
        self.entries += 1
        self.attempts[n, a] = {"at": at, "deadline": deadline, "state": "unknown"}
        self.submissions[n - 1]["last_a"] = a

    @event("Replied")  # type: ignore[untyped-decorator]
    def replied(self, *, at: datetime, by: str, n: int, a: int, result: str, ref: str) -> None:
        """Take a Start's reply."""
        self.entries += 1
        self.attempts[n, a].update(state=result, ref=ref)
        self.objects[ref] = {"n": n, "a": a, "recorded_at": at, "run": {"state": "pending"}}

    @event("Chosen")  # type: ignore[untyped-decorator]
    def canonical(self, at: datetime, by: str, n: int, ref: str) -> None:
        """Name a submission's object."""
        self.entries += 1
        self.submissions[n - 1]["canonical"] = ref

    @event("Released")  # type: ignore[untyped-decorator]
    def released(self, at: datetime, by: str, ref: str) -> None:
        """Open an object's gate."""
        self.entries += 1
        self.objects[ref]["released_at"] = at

    @event("Observed")  # type: ignore[untyped-decorator]
    def observed(
        self, at: datetime, by: str, taken_at: datetime, seen_at: datetime, objects: list[Plain]
    ) -> None:
        """Take what a look showed."""
        self.entries += 1
        for one in objects:
            known = self.objects[one["ref"]]
            known["run"] = {**known["run"], **one}
            known["newest"] = taken_at
        self.evidence_at = seen_at


class Replayed:
    """One record in the package's own store in memory."""

    def __init__(self, view: View) -> None:
        self._application = Application()
        job = JobAggregate(header=decode_header(view.header).model_dump(mode="json"))
        for stored in view.entries:
            told = decode_entry(stored)
            assert not isinstance(told, Control)
            told_by: Callable[..., None] = getattr(job, told.fact)
            told_by(**_fields(told))
        self._application.save(job)
        self._id: UUID = job.id
        self._entries = len(view.entries)

    def replay(self) -> object:
        """Read the events and replay them."""
        job = self._application.repository.get(self._id)
        if job.entries != self._entries:
            raise AssertionError("the replay lost an event")
        return job


def _fields(told: facts.Fact) -> Plain:
    """Return a fact's fields: times as times, names as texts, what is empty left out of objects."""
    plain: Plain = {
        name: str(value) if isinstance(value, str) else value
        for name, value in told
        if name not in ("fact", "adjust", "detail") and (name != "cause" or told.fact != "replied")
    }
    if isinstance(told, facts.Observed):
        plain["objects"] = [_shown(one) for one in told.objects]
    return plain


def _shown(one: Sighting) -> Plain:
    plain: Plain = one.model_dump(exclude_none=True)
    named = {name: str(value) for name, value in plain.items() if isinstance(value, str)}
    return {**plain, **named, "nodes": list(one.nodes)}
