"""Supervision by three events, all of which end at the same worker.

* A tick of the schedule becomes one message for each cluster and shard.
* The table's stream of headers and control intents becomes messages that name those jobs.
* Messages of the queue are the work: a look at a cluster, and what follows from it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from dispatch.errors import (
    DispatchError,
    InvalidRequest,
    JobNotFound,
    JobTombstoned,
    RecordRefused,
    UnknownCluster,
)
from dispatch.messages import Work, merged, parse_work
from dispatch.record.codec import decode_header, parse_strict
from dispatch.record.view import View
from dispatch.supervisor.loop import Ended
from dispatch.supervisor.sweep import Sweeper, Swept
from dispatch.wiring import Wiring, from_settings

Event = dict[str, Any]
Handler = Callable[[Event, Any], dict[str, Any]]

TICK = "dispatch.tick"
"""The `source` of the schedule's event."""

# Alarms are raised on the field `signal` of a log line.
CLUSTER_UNREACHABLE = {"signal": "cluster_unreachable"}
CLUSTERS_REFUSED = {"signal": "clusters_refused"}
MASS_LOSS = {"signal": "mass_loss"}
RECORD_REFUSED = {"signal": "record_refused"}

LEAST_TIME_S = 5.0
"""Work isn't begun with less time left; its message comes again."""


@dataclass(slots=True)
class _Group:
    """The messages that one look serves."""

    cluster: str
    shard: int
    shards: int
    tick: bool = False
    jobs: dict[str, None] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)
    by_job: dict[str, list[str]] = field(default_factory=dict)


class Supervision:
    """What each kind of event does.

    Args:
        wiring: Where store, clusters and queue come from.
        log: For what people who run this should see.
    """

    def __init__(self, wiring: Wiring, log: logging.Logger) -> None:
        self._wiring = wiring
        self._log = log

    def handle(self, event: Event, context: Any) -> dict[str, Any]:
        """Do what an event asks for.

        Raises:
            InvalidRequest: It is none of the three.
            TryLater: The queue, or the store, didn't answer; the event comes again.
        """
        if event.get("source") == TICK:
            return self.tick()
        records = event.get("Records") or []
        sources = {record.get("eventSource") for record in records}
        if sources == {"aws:dynamodb"}:
            return self.wake(records)
        if sources == {"aws:sqs"}:
            return self.work(records, _time_left(context))
        raise InvalidRequest(f"an event that is neither a tick, a stream nor a queue: {sources}")

    # --- schedule -----------------------------------------------------------------------------

    def tick(self) -> dict[str, Any]:
        """Queue a look at every shard of every cluster."""
        messages = [
            Work(cluster=one.name, shard=shard, shards=one.shards)
            for one in self._wiring.clusters.clusters
            for shard in range(one.shards)
        ]
        if self._wiring.clusters_refused is not None:
            refused = self._wiring.clusters_refused
            self._log.error("the clusters as configured: %s", refused, extra=CLUSTERS_REFUSED)
        self._wiring.queue.send(messages)
        return {"queued": len(messages)}

    # --- stream -------------------------------------------------------------------------------

    def wake(self, records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """Queue the jobs that were created, or that somebody wants something of; ask no cluster."""
        jobs = dict.fromkeys(
            record["dynamodb"]["NewImage"]["job_id"]["S"]
            for record in records
            if "NewImage" in record.get("dynamodb", {})
        )
        messages = merged(
            (cluster, job) for job in jobs if (cluster := self._cluster_of(job)) is not None
        )
        self._wiring.queue.send(messages)
        return {"queued": len(messages)}

    def _cluster_of(self, job_id: str) -> str | None:
        try:
            view = self._wiring.store.read(job_id)
        except (JobNotFound, JobTombstoned):
            return None
        except RecordRefused as refused:
            self._log.error("a record can't be read: %s", refused, extra=RECORD_REFUSED)
            return None
        return _cluster_in(view)

    # --- queue --------------------------------------------------------------------------------

    def work(
        self, records: Iterable[Mapping[str, Any]], time_left: Callable[[], float]
    ) -> dict[str, Any]:
        """Serve messages, those of one cluster's shard with one look.

        What isn't begun for lack of time, and what failed in a way that nobody foresaw, comes
        again. A cluster that doesn't answer is no failure of its messages: the next tick asks.
        """
        failed: list[str] = []
        for group in self._grouped(records, failed):
            if time_left() < LEAST_TIME_S:
                failed += group.messages
                continue
            try:
                failed += self._serve(group, time_left)
            except Exception as error:  # noqa: BLE001 - one group's failure is not another's
                self._log.error("cluster %s: %s", group.cluster, error, exc_info=error)
                failed += group.messages
        unique = dict.fromkeys(failed)
        return {"batchItemFailures": [{"itemIdentifier": one} for one in unique]}

    def _grouped(self, records: Iterable[Mapping[str, Any]], failed: list[str]) -> Iterable[_Group]:
        groups: dict[tuple[str, int, int], _Group] = {}
        for record in records:
            message = record["messageId"]
            try:
                work = parse_work(record["body"])
            except InvalidRequest as refused:
                self._log.error("message %s: %s", message, refused)
                failed.append(message)
                continue
            place = (work.cluster, work.shard, work.shards)
            group = groups.setdefault(place, _Group(*place))
            group.messages.append(message)
            if work.jobs is None:
                group.tick = True
            for job in work.jobs or ():
                group.jobs[job] = None
                group.by_job.setdefault(job, []).append(message)
        return groups.values()

    def _serve(self, group: _Group, time_left: Callable[[], float]) -> list[str]:
        """Serve one group and return the messages that must come again."""
        wiring = self._wiring
        try:
            scheduler = wiring.scheduler(group.cluster)
        except UnknownCluster as error:
            self._log.error("%s; its jobs wait until it is there again", error)
            return []
        except DispatchError as error:
            said = "cluster %s can't be spoken to: %s"
            self._log.error(said, group.cluster, error, extra=CLUSTER_UNREACHABLE)
            return []
        sweeper = Sweeper(
            wiring.store, scheduler, wiring.edges.clock, wiring.settings.supervisor, time_left
        )
        again: list[str] = []
        if group.jobs:
            swept = sweeper.sweep(group.cluster, list(group.jobs))
            self._tell(swept)
            again = [message for job in swept.left for message in group.by_job[job]]
        if group.tick and time_left() >= LEAST_TIME_S:
            self._tell(sweeper.sweep(group.cluster, shard=group.shard, shards=group.shards))
        return again

    def _tell(self, swept: Swept) -> None:
        """Log what a person who runs this should see."""
        if swept.error is not None:
            self._log.warning(
                "cluster %s: %s", swept.cluster, swept.error, extra=CLUSTER_UNREACHABLE
            )
        if swept.mass_loss is not None:
            self._log.error("cluster %s: %s", swept.cluster, swept.mass_loss, extra=MASS_LOSS)
        if swept.left:
            self._log.warning("cluster %s: no time for %d jobs", swept.cluster, len(swept.left))
        for passed in swept.passes:
            for trouble in passed.troubles:
                self._log.warning("job %s: %s: %s", passed.job_id, trouble.call, trouble.detail)
            for alert in passed.alerts:
                self._log.error("job %s: %s", passed.job_id, alert)
            if passed.ended is Ended.REFUSED:
                self._log.error(
                    "job %s: no calls are made: %s",
                    passed.job_id,
                    passed.refusal,
                    extra=RECORD_REFUSED,
                )


def _cluster_in(view: View) -> str | None:
    """Return the cluster in a header, even in one that this build can't decode."""
    try:
        return decode_header(view.header, job=view.job_id).declarations.cluster
    except RecordRefused:
        pass
    try:
        body = parse_strict(view.header.body)
        cluster = body["declarations"]["cluster"]
    except (RecordRefused, KeyError, TypeError):
        return None
    return cluster if isinstance(cluster, str) else None


def _time_left(context: Any) -> Callable[[], float]:
    def seconds() -> float:
        return float(context.get_remaining_time_in_millis()) / 1000

    return seconds


def make_handler(wiring: Wiring, log: logging.Logger) -> Handler:
    """Return the handler of the three events."""
    return Supervision(wiring, log).handle


@cache
def _started() -> Handler:
    from aws_lambda_powertools import Logger

    logger: Any = Logger(service="supervisor")
    return make_handler(from_settings(), logger)


def handler(event: Event, context: Any) -> dict[str, Any]:
    """Do what one event asks for; the dependencies are made at the first."""
    return _started()(event, context)
