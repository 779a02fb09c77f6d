"""The same events kept and replayed by the `eventsourcing` package, as a user would write it."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from benchmarks.figures import CannotMeasure
from dispatch.record.view import View

try:
    from eventsourcing.application import Application
    from eventsourcing.domain import Aggregate, event
except ImportError as missing:  # the package is in the benchmarks' own environment alone
    raise CannotMeasure("the package eventsourcing isn't installed: run `make bench`") from missing


class JobAggregate(Aggregate):  # type: ignore[misc]  # untyped here
    """A job that takes what it is told without a check: the least that a replay can do."""

    @event("Created")  # type: ignore[untyped-decorator]
    def __init__(self, header: dict[str, Any]) -> None:
        self.header = header
        self.facts: dict[str, int] = {}
        self.last: dict[str, Any] = {}

    @event("Appended")  # type: ignore[untyped-decorator]
    def append(self, body: dict[str, Any]) -> None:
        """Take one more entry."""
        kind = body["fact"]
        self.facts[kind] = self.facts.get(kind, 0) + 1
        self.last = body


class Replayed:
    """One record in the package's own store in memory."""

    def __init__(self, view: View) -> None:
        self._application = Application()
        job = JobAggregate(header=json.loads(view.header.body))
        for stored in view.entries:
            job.append(body=json.loads(stored.body))
        self._application.save(job)
        self._id: UUID = job.id
        self._facts = len(view.entries)

    def replay(self) -> object:
        """Read the events and replay them."""
        job = self._application.repository.get(self._id)
        if sum(job.facts.values()) != self._facts:
            raise AssertionError("the replay lost an event")
        return job
