"""Views of what stands around a job: the nodes it runs on, what was told of it, its queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from dispatch.schedulers.eks.objects import (
    Condition,
    JsonMap,
    Meta,
    instant,
    mapping,
    read_conditions,
    read_meta,
    text,
)


@dataclass(frozen=True, slots=True)
class Node:
    """One node, as far as a lost process is concerned."""

    meta: Meta
    ready: Condition | None

    @property
    def lost_at(self) -> datetime | None:
        """Since when it isn't ready; None while it is."""
        if self.ready is None or self.ready.holds:
            return None
        return self.ready.since


def read_node(body: JsonMap) -> Node:
    """Return a Node."""
    conditions = read_conditions(mapping(body.get("status"), "status"))
    return Node(meta=read_meta(body), ready=conditions.get("Ready"))


@dataclass(frozen=True, slots=True)
class Event:
    """One event, of core/v1 or of events.k8s.io/v1."""

    kind: str
    name: str
    uid: str
    reason: str
    message: str
    warning: bool
    at: datetime | None


def read_event(body: JsonMap) -> Event:
    """Return an event of either API."""
    about = mapping(body.get("involvedObject") or body.get("regarding"), "involvedObject")
    series = mapping(body.get("series"), "series")
    times = (
        series.get("lastObservedTime"),
        body.get("lastTimestamp"),
        body.get("deprecatedLastTimestamp"),
        body.get("eventTime"),
        body.get("firstTimestamp"),
    )
    return Event(
        kind=text(about.get("kind"), "involvedObject.kind"),
        name=text(about.get("name"), "involvedObject.name"),
        uid=text(about.get("uid"), "involvedObject.uid"),
        reason=text(body.get("reason"), "reason"),
        message=text(body.get("message") or body.get("note"), "message"),
        warning=body.get("type") == "Warning",
        at=next((found for t in times if (found := instant(t, "event time"))), None),
    )


@dataclass(frozen=True, slots=True)
class Workload:
    """Kueue's view of a Job that it admits, evicts and readmits."""

    meta: Meta
    conditions: Mapping[str, Condition]

    def condition(self, kind: str) -> Condition | None:
        """Return a condition that holds."""
        found = self.conditions.get(kind)
        return found if found is not None and found.holds else None


def read_workload(body: JsonMap) -> Workload:
    """Return a Kueue Workload."""
    return Workload(
        meta=read_meta(body), conditions=read_conditions(mapping(body.get("status"), "status"))
    )
