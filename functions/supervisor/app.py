"""Supervision by three events, all of which end at the same worker.

* A tick of the schedule becomes one message for each cluster and shard.
* The table's stream of headers and control intents becomes messages that name those jobs.
* Messages of the queue are the work: a look at a cluster, and what follows from it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from dispatch.clusters import Cluster
from dispatch.errors import (
    BadConfiguration,
    DispatchError,
    InvalidRequest,
    JobNotFound,
    JobTombstoned,
    RecordRefused,
    StoreUnavailable,
    TryLater,
    UnknownCluster,
)
from dispatch.events import troubles_of
from dispatch.messages import Work, merged, parse_work
from dispatch.record.codec import decode_header, parse_strict
from dispatch.record.view import View
from dispatch.signals import Meter, Signal, unmeasured
from dispatch.store.records import ClusterHealth, Lease
from dispatch.supervisor.health import asked_again, health_after, own_outage
from dispatch.supervisor.loop import Ended, Passed
from dispatch.supervisor.sweep import Sweeper, Swept
from dispatch.wiring import Wiring, from_settings

Event = dict[str, Any]
Handler = Callable[[Event, Any], dict[str, Any]]

TICK = "dispatch.tick"
"""The `source` of the schedule's event."""

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


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of the function.

    Attributes:
        time_left: Seconds until it must be done.
        owner: Who takes leases; no two calls at once have one name.
    """

    time_left: Callable[[], float]
    owner: str


class Supervision:
    """What each kind of event does.

    Args:
        wiring: Where store, clusters and queue come from.
        log: For what people who run this should see; alarms are raised on its field `signal`.
        meter: Where metrics go.
    """

    def __init__(self, wiring: Wiring, log: logging.Logger, meter: Meter) -> None:
        self._wiring = wiring
        self._log = log
        self._meter = meter

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
            owner = f"{self._wiring.settings.supervisor}/{context.aws_request_id}"
            return self.work(records, _Call(_time_left(context), owner))
        raise InvalidRequest(f"an event that is neither a tick, a stream nor a queue: {sources}")

    # --- schedule -----------------------------------------------------------------------------

    def tick(self) -> dict[str, Any]:
        """Queue a look at every shard of every cluster.

        Raises:
            BadConfiguration, TryLater: There never was a good document of clusters.
        """
        try:
            clusters = self._wiring.clusters.clusters
        except (BadConfiguration, TryLater) as refused:
            self._signal(Signal.CLUSTERS_REFUSED, "no clusters are known: %s", refused)
            raise
        if self._wiring.clusters_refused is not None:
            refused_now = self._wiring.clusters_refused
            said = "the last good clusters stay in force, as those configured now are refused: %s"
            self._signal(Signal.CLUSTERS_REFUSED, said, refused_now)
        messages = [
            Work(cluster=one.name, shard=shard, shards=one.shards)
            for one in clusters
            for shard in range(one.shards)
        ]
        self._wiring.queue.send(messages)
        self._meter(Signal.TICK, 1)
        if self._all_silent():
            said = "all %d clusters are silent at once: the fault is likely on this side"
            self._signal(Signal.OWN_OUTAGE, said, len(clusters))
        return {"queued": len(messages)}

    def _all_silent(self) -> bool:
        names = [one.name for one in self._wiring.clusters.clusters]
        return own_outage(self._health(name) for name in names)

    def _health(self, cluster: str) -> ClusterHealth | None:
        try:
            return self._wiring.store.get_health(cluster)
        except StoreUnavailable as error:
            self._signal(Signal.STORE_TROUBLE, "the health of %s: %s", cluster, error)
            return None

    def _signal(
        self, signal: Signal, said: str, *about: object, cluster: str | None = None
    ) -> None:
        """Log and count what an alarm may be raised on."""
        self._log.error(said, *about, extra=signal.extra)
        self._meter(signal, 1, cluster)

    # --- stream -------------------------------------------------------------------------------

    def wake(self, records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """Queue the jobs that were created, or that somebody wants something of; ask no cluster."""
        jobs = dict.fromkeys(
            record["dynamodb"]["NewImage"]["job_id"]["S"]
            for record in records
            if "job_id" in record.get("dynamodb", {}).get("NewImage", {})
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
            self._signal(Signal.RECORD_REFUSED, "a record can't be read: %s", refused)
            return None
        return _cluster_in(view)

    # --- queue --------------------------------------------------------------------------------

    def work(self, records: Iterable[Mapping[str, Any]], call: _Call) -> dict[str, Any]:
        """Serve messages, those of one cluster's shard with one look.

        What isn't begun for lack of time, and what failed in a way that nobody foresaw, comes
        again. A cluster that doesn't answer is no failure of its messages: the next tick asks.
        """
        failed: list[str] = []
        for group in self._grouped(records, failed):
            if call.time_left() < LEAST_TIME_S:
                failed += group.messages
                continue
            try:
                failed += self._serve(group, call)
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

    def _serve(self, group: _Group, call: _Call) -> list[str]:
        """Serve one group and return the messages that must come again."""
        wiring, name = self._wiring, group.cluster
        try:
            cluster = wiring.clusters.named(name)
            health = self._health(name)
            if not asked_again(health, wiring.edges.clock()) and not self._all_silent():
                said = "cluster %s has failed for a while and isn't asked yet"
                self._signal(Signal.CLUSTER_UNREACHABLE, said, name, cluster=name)
                return []
            scheduler = wiring.scheduler(name)
        except UnknownCluster as error:
            self._log.error("%s; its jobs wait until it is there again", error)
            return []
        except DispatchError as error:
            self._unusable(name, error)
            return []
        sweeper = Sweeper(
            wiring.store,
            scheduler,
            wiring.edges.clock,
            wiring.settings.supervisor,
            call.time_left,
            brakes=cluster.brakes,
        )
        again: list[str] = []
        if group.jobs:
            swept = sweeper.sweep(name, list(group.jobs))
            self._tell(swept)
            again = [message for job in swept.left for message in group.by_job[job]]
        if group.tick and call.time_left() >= LEAST_TIME_S:
            self._look(sweeper, cluster, group, call)
        return again

    def _look(self, sweeper: Sweeper, cluster: Cluster, group: _Group, call: _Call) -> None:
        """Look at a whole shard, under a lease where its cluster has them."""
        lease, free = self._lease(cluster, group.shard, call.owner)
        if not free:
            self._meter(Signal.LEASE_HELD, 1, cluster.name)
            return
        try:
            self._tell(sweeper.sweep(cluster.name, shard=group.shard, shards=group.shards))
        finally:
            if lease is not None:
                self._let_go(lease)

    def _lease(self, cluster: Cluster, shard: int, owner: str) -> tuple[Lease | None, bool]:
        """Return a lease and whether to go on; without the store's answer it goes on without."""
        if cluster.lease_s is None:
            return None, True
        now, name = self._wiring.edges.clock(), f"{cluster.name}/{shard}"
        try:
            lease = self._wiring.store.acquire(name, owner, now=now, ttl_s=cluster.lease_s)
        except StoreUnavailable as error:
            self._signal(Signal.STORE_TROUBLE, "no lease of %s: %s", name, error)
            return None, True
        return lease, lease is not None

    def _let_go(self, lease: Lease) -> None:
        try:
            self._wiring.store.release(lease)
        except StoreUnavailable as error:
            self._log.warning("the lease %s runs until %s: %s", lease.name, lease.until, error)

    def _unusable(self, name: str, error: DispatchError) -> None:
        """Note that a cluster can't be spoken to as it is configured."""
        swept = Swept(name, error=str(error), unreachable=True)
        by, now = self._wiring.settings.supervisor, self._wiring.edges.clock()
        try:
            before = self._wiring.store.get_health(name)
            swept.health = health_after(swept, before, by=by, now=now)
            self._wiring.store.put_health(swept.health)
        except StoreUnavailable as trouble:
            self._signal(Signal.STORE_TROUBLE, "the health of %s: %s", name, trouble)
        self._tell(swept)

    # --- telling ------------------------------------------------------------------------------

    def _tell(self, swept: Swept) -> None:
        """Log, measure and publish what a person who runs this should see."""
        name = swept.cluster
        ours = swept.unreachable and self._all_silent()
        if swept.store_down:
            self._signal(Signal.STORE_TROUBLE, "cluster %s: %s", name, swept.error, cluster=name)
        elif ours:
            said = "cluster %s is silent, as all others are: %s"
            self._signal(Signal.OWN_OUTAGE, said, name, swept.error, cluster=name)
        elif swept.error is not None:
            said = "cluster %s: %s"
            self._signal(Signal.CLUSTER_UNREACHABLE, said, name, swept.error, cluster=name)
        if swept.mass_loss is not None:
            said = "cluster %s: %s"
            self._signal(Signal.MASS_LOSS, said, name, swept.mass_loss, cluster=name)
        if swept.left:
            self._log.warning("cluster %s: no time for %d jobs", name, len(swept.left))
        if swept.freed:
            said = "cluster %s: let go of %d ended objects that no open record waits for"
            self._log.info(said, name, swept.freed)
        for passed in swept.passes:
            self._tell_of_a_job(passed, name)
        for line in swept.withheld:
            self._log.info("withheld on cluster %s: %s", name, line, extra=Signal.WITHHELD.extra)
        if swept.withheld:
            self._meter(Signal.WITHHELD, len(swept.withheld), name)
        if swept.whole and not swept.left and swept.found is not None:
            self._meter(Signal.ESCALATION_OPEN, _asking(swept), name)
        if swept.health is not None and not ours:
            self._publish(swept.health)

    def _tell_of_a_job(self, passed: Passed, cluster: str) -> None:
        for trouble in passed.troubles:
            self._log.warning("job %s: %s: %s", passed.job_id, trouble.call, trouble.detail)
        for alert in passed.alerts:
            self._log.error("job %s: %s", passed.job_id, alert)
        if passed.ended is Ended.REFUSED:
            said = "job %s: no calls are made: %s"
            about = (passed.job_id, passed.refusal)
            self._signal(Signal.RECORD_REFUSED, said, *about, cluster=cluster)
        if passed.ended in (Ended.UNAVAILABLE, Ended.UNKNOWN):
            said = "job %s: the store didn't say what became of a commit, or didn't answer"
            self._signal(Signal.STORE_TROUBLE, said, passed.job_id, cluster=cluster)

    def _publish(self, health: ClusterHealth) -> None:
        """Publish what began or ended to be wrong with a cluster, at least once."""
        events, told = troubles_of(health, self._wiring.edges.clock())
        if not events or not self._wiring.publishes:
            return
        try:
            self._wiring.bus.put(events)
            self._wiring.store.put_health(replace(health, told=told))
        except TryLater as error:
            self._log.warning("cluster %s: not published yet: %s", health.cluster, error)


def _asking(swept: Swept) -> int:
    """Return how many of the jobs that were looked at wait for a person."""
    waiting = [passed.next.waiting for passed in swept.passes if passed.next is not None]
    return sum(1 for each in waiting if any(one.what == "person" for one in each))


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


def make_handler(wiring: Wiring, log: logging.Logger, *, meter: Meter = unmeasured) -> Handler:
    """Return the handler of the three events.

    Args:
        wiring: Where store, clusters and queue come from.
        log: For what people who run this should see.
        meter: Where metrics go.
    """
    return Supervision(wiring, log, meter).handle


@cache
def _started() -> Handler:
    from aws_lambda_powertools import Logger

    logger: Any = Logger(service="supervisor")
    wiring = from_settings()
    return make_handler(wiring, logger, meter=_emf(wiring.settings.metrics))


def _emf(namespace: str) -> Meter:
    """Return a meter that prints CloudWatch's embedded metric format, a line a metric."""
    from aws_lambda_powertools import single_metric
    from aws_lambda_powertools.metrics import MetricUnit

    def measure(signal: Signal, value: int, cluster: str | None = None) -> None:
        dimensions = {"service": "supervisor"} | ({} if cluster is None else {"cluster": cluster})
        with single_metric(
            signal.metric,
            MetricUnit.Count,
            value,
            namespace=namespace,
            default_dimensions=dimensions,
        ):
            pass

    return measure


def handler(event: Event, context: Any) -> dict[str, Any]:
    """Do what one event asks for; the dependencies are made at the first."""
    return _started()(event, context)
