"""The composition root: the only module that names concrete stores and adapters.

Everything is built on first use and kept; what a process never asks for is never imported. So
`kubernetes` is loaded only where an EKS cluster is spoken to.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import SystemRandom
from threading import RLock
from typing import Any, TypeVar, assert_never
from uuid import uuid4

from pydantic import BaseModel, ValidationError

from dispatch.access import Wanted
from dispatch.archive import Archive
from dispatch.clusters import Cluster, Clusters, parse_clusters
from dispatch.documents import document, earlier_documents, secret_of
from dispatch.errors import (
    BadConfiguration,
    DispatchError,
    SchedulerUnavailable,
    TryLater,
    Unsupported,
)
from dispatch.events import Bus
from dispatch.messages import WorkQueue
from dispatch.operator import Operator
from dispatch.record.codec import canonical, refusal
from dispatch.record.header import Declarations, Spec
from dispatch.schedulers.scheduler import Scheduler, StartOrder
from dispatch.settings import Settings, from_environment
from dispatch.store.records import Store

_Block = TypeVar("_Block", bound=BaseModel)

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """Return the time, aware and UTC."""
    return datetime.now(UTC)


def fresh_token() -> str:
    """Return a commit's token, unique for ever."""
    return str(uuid4())


def pause(k: int) -> None:
    """Wait a little before try `k`, longer each time, never twice the same."""
    time.sleep(SystemRandom().uniform(0, min(1.0, 0.02 * 2**k)))


@dataclass(frozen=True, slots=True)
class Edges:
    """Where time and chance come in.

    Attributes:
        clock: Reads the time, UTC.
        tokens: Makes a commit's token.
        pause: Waits before try `k`.
        monotonic: Measures spans, seconds.
    """

    clock: Clock = utc_now
    tokens: Callable[[], str] = fresh_token
    pause: Callable[[int], None] = pause
    monotonic: Callable[[], float] = time.monotonic


@dataclass(slots=True)
class _Kept:
    """What was built, and when the clusters' document was last read."""

    store: Store | None = None
    clusters: Clusters | None = None
    text: str | None = None
    read_at: datetime | None = None
    refused: DispatchError | None = None
    schedulers: dict[str, tuple[Cluster, Scheduler]] = field(default_factory=dict)
    queue: WorkQueue | None = None
    bus: Bus | None = None
    archive: Archive | None = None


class Wiring:
    """Builds what a process needs from its settings; the threads of one process may share it.

    Args:
        settings: What the environment said.
        edges: Where time and chance come in.
        store: Instead of the one the settings name.
        queue, bus, archive: Instead of those the settings name.
        opened: Makes the scheduler of a cluster, instead of its adapter.
    """

    def __init__(
        self,
        settings: Settings,
        edges: Edges | None = None,
        *,
        store: Store | None = None,
        queue: WorkQueue | None = None,
        bus: Bus | None = None,
        archive: Archive | None = None,
        opened: Callable[[Cluster, Edges], Scheduler] | None = None,
    ) -> None:
        self.settings = settings
        self.edges = edges or Edges()
        self._kept = _Kept(store=store, queue=queue, bus=bus, archive=archive)
        self._opened = opened or _scheduler
        self._lock = RLock()

    @property
    def store(self) -> Store:
        """The store of the records.

        Raises:
            BadConfiguration: The settings name none.
            StoreUnavailable: It can't be opened.
        """
        with self._lock:
            if self._kept.store is None:
                self._kept.store = _store(self.settings, self.edges)
            return self._kept.store

    @property
    def operator(self) -> Operator:
        """Who writes what people want."""
        return Operator(self.store, self.edges.clock, self.edges.pause)

    @property
    def queue(self) -> WorkQueue:
        """The queue of the work.

        Raises:
            BadConfiguration: The settings name none.
        """
        if self._kept.queue is None:
            if self.settings.queue_url is None:
                raise BadConfiguration("set DISPATCH_QUEUE_URL: where the work is queued")
            from dispatch.aws import SqsQueue

            self._kept.queue = SqsQueue(self.settings.queue_url)
        return self._kept.queue

    @property
    def bus(self) -> Bus:
        """The bus of the events.

        Raises:
            BadConfiguration: The settings name none.
        """
        if self._kept.bus is None:
            if self.settings.event_bus is None:
                raise BadConfiguration("set DISPATCH_EVENT_BUS: where events are published")
            from dispatch.aws import EventBridgeBus

            self._kept.bus = EventBridgeBus(self.settings.event_bus)
        return self._kept.bus

    @property
    def publishes(self) -> bool:
        """Whether there is a bus to publish events on."""
        return self._kept.bus is not None or self.settings.event_bus is not None

    @property
    def archive(self) -> Archive | None:
        """Where records are archived before they are removed; None where nobody asked for it."""
        if self._kept.archive is None and self.settings.archive_bucket is not None:
            from dispatch.aws import S3Archive

            self._kept.archive = S3Archive(self.settings.archive_bucket)
        return self._kept.archive

    # --- clusters -----------------------------------------------------------------------------

    @property
    def clusters(self) -> Clusters:
        """The clusters, read again from time to time.

        A document that is refused, or can't be read, leaves the last good one in force; what was
        wrong with it is then `clusters_refused`. A process that begins with a refused one in SSM
        takes the newest version before it that is good, as those that run already have it.

        Raises:
            BadConfiguration, TryLater: There never was a good one.
        """
        with self._lock:
            return self._current_clusters(self._kept, self.edges.clock())

    def _current_clusters(self, kept: _Kept, now: datetime) -> Clusters:
        every = timedelta(seconds=self.settings.clusters_every_s)
        if kept.clusters is not None and kept.read_at is not None and now < kept.read_at + every:
            return kept.clusters
        try:
            text = document(self.settings.clusters)
            if kept.clusters is None or text != kept.text:
                kept.clusters = _checked(parse_clusters(text))
                kept.text = text
            kept.refused = None
        except (BadConfiguration, TryLater) as error:
            kept.refused = error
            if kept.clusters is None:
                kept.clusters = _last_good(self.settings.clusters)
            if kept.clusters is None:
                raise
        kept.read_at = now
        return kept.clusters

    @property
    def clusters_refused(self) -> DispatchError | None:
        """Why the clusters' document, as it stands now, isn't the one in force."""
        return self._kept.refused

    def scheduler(self, name: str) -> Scheduler:
        """Return the adapter of a cluster; it is kept while its configuration is unchanged.

        Raises:
            UnknownCluster: There is none of that name.
            BadConfiguration: Its adapter can't work as it is configured.
            SchedulerUnavailable: It can't be reached to begin with.
        """
        with self._lock:
            cluster = self.clusters.named(name)
            kept = self._kept.schedulers.get(name)
            if kept is not None and kept[0] == cluster:
                return kept[1]
            try:
                built = self._opened(cluster, self.edges)
            except ImportError as error:
                raise BadConfiguration(
                    f"cluster {name}: its adapter can't be loaded here: {error}"
                ) from error
            self._kept.schedulers[name] = (cluster, built)
            return built

    def declarations(self, name: str) -> Declarations:
        """Return what would be recorded in a job that is created now; asks no cluster.

        Raises:
            UnknownCluster: There is none of that name.
            BadConfiguration: What is configured doesn't fit together.
        """
        cluster = self.clusters.named(name)
        return cluster.declarations.applied(_declared(cluster, lambda: self.scheduler(name)))

    def lint(self, name: str, spec: Spec) -> Sequence[str]:
        """Return what a cluster would refuse of a spec; asks no cluster.

        Raises:
            UnknownCluster: There is none of that name.
            BadConfiguration: What is configured doesn't fit together.
        """
        return self.scheduler(name).lint(spec)

    def wanted(self, name: str, spec: Spec, owner: str) -> Wanted:
        """Return what a submission asks for, with what the cluster's own defaults add.

        Raises:
            UnknownCluster: There is none of that name.
        """
        return _wanted(self.clusters.named(name), spec, owner)


def from_settings() -> Wiring:
    """Return the wiring of a process that is configured by its environment."""
    return Wiring(from_environment())


# --- stores -----------------------------------------------------------------------------------


def _store(settings: Settings, edges: Edges) -> Store:
    if settings.sqlite is not None:
        from dispatch.store.sqlite import SqliteRecords

        return SqliteRecords(settings.sqlite, edges.tokens)
    if settings.table is not None:
        from dispatch.aws import dynamodb_client
        from dispatch.store.dynamodb import DynamoRecords

        client = dynamodb_client(settings.endpoint)
        return DynamoRecords(client, settings.table, edges.tokens, pause=edges.pause)
    raise BadConfiguration("no store is configured: neither a table nor a file")


# --- clusters ---------------------------------------------------------------------------------


def _last_good(source: str) -> Clusters | None:
    """Return the newest earlier version of the document that is good, None where there is none."""
    for text in earlier_documents(source):
        try:
            return _checked(parse_clusters(text))
        except BadConfiguration:
            continue
    return None


def _secret_now(reference: str) -> str:
    """Return a secret for a scheduler's call; without it nothing can be learnt or sent."""
    try:
        return secret_of(reference)
    except (BadConfiguration, TryLater) as error:
        raise SchedulerUnavailable(f"its secret can't be read: {error}") from error


def _block(model: type[_Block], cluster: Cluster) -> _Block:
    """Return an adapter's own block, read strictly."""
    fields = {"name": cluster.name, **cluster.settings}
    try:
        return model.model_validate_json(canonical(fields))
    except ValidationError as error:
        refused = refusal(error)
        where = f"settings.{refused.field}" if refused.field else "settings"
        raise BadConfiguration(
            f"cluster {cluster.name}: field {where!r}: {refused.reason}"
        ) from None


def _checked(clusters: Clusters) -> Clusters:
    """Return the document if every adapter understands its blocks."""
    for one in clusters.clusters:
        match one.adapter:
            case "local":
                from dispatch.schedulers.local.settings import LocalCluster

                _block(LocalCluster, one)
            case "slurm":
                from dispatch.schedulers.slurm.settings import SlurmCluster

                _block(SlurmCluster, one)
            case "eks":
                from dispatch.schedulers.eks.settings import EksSettings

                _block(EksSettings, one)
            case _:
                assert_never(one.adapter)
    return clusters


def _wanted(cluster: Cluster, spec: Spec, owner: str) -> Wanted:
    """Return which queue, account and identity a submission means on a cluster."""
    queue, run_as = spec.queue, None
    match cluster.adapter:
        case "local":
            pass
        case "slurm":
            from dispatch.schedulers.slurm.settings import SlurmCluster

            slurm = _block(SlurmCluster, cluster)
            queue = spec.queue or slurm.default_queue
            run_as = slurm.run_as.get(owner) if slurm.run_as else slurm.user
        case "eks":
            from dispatch.schedulers.eks.settings import EksSettings

            eks = _block(EksSettings, cluster)
            asked = spec.eks.kueue_queue if spec.eks is not None else None
            queue = asked or spec.queue or eks.kueue_queue
            team = eks.team_of(owner)
            run_as = None if team is None else team.namespace
        case _:
            assert_never(cluster.adapter)
    return Wanted(cluster.name, () if queue is None else (queue,), spec.account, run_as)


def _declared(cluster: Cluster, scheduler: Callable[[], Scheduler]) -> Declarations:
    """Return an adapter's own declarations without loading what only its calls need."""
    if cluster.adapter == "eks":
        from dispatch.schedulers.eks.settings import EksSettings

        return _block(EksSettings, cluster).declarations()
    return scheduler().declare()


def manifests(cluster: Cluster, order: StartOrder) -> list[dict[str, Any]]:
    """Return what a Start would create on a cluster, word for word, without asking it.

    Raises:
        InvalidRequest: The cluster would refuse the spec.
        Unsupported: It is no Kubernetes cluster, so there are no manifests.
        BadConfiguration: Its block can't be understood.
    """
    if cluster.adapter != "eks":
        raise Unsupported(f"cluster {cluster.name} is of adapter {cluster.adapter}: no manifests")
    from dispatch.schedulers.eks.preview import preview
    from dispatch.schedulers.eks.settings import EksSettings

    return preview(order, _block(EksSettings, cluster))


def _scheduler(cluster: Cluster, edges: Edges) -> Scheduler:
    match cluster.adapter:
        case "local":
            return _local(cluster, edges)
        case "slurm":
            return _slurm(cluster, edges)
        case "eks":
            return _eks(cluster, edges)
        case _:
            assert_never(cluster.adapter)


def _local(cluster: Cluster, edges: Edges) -> Scheduler:
    from dispatch.schedulers.local.adapter import LocalScheduler
    from dispatch.schedulers.local.request import Limits
    from dispatch.schedulers.local.settings import LocalCluster

    block = _block(LocalCluster, cluster)
    return LocalScheduler(
        Path(block.spool),
        block.name,
        edges.clock,
        retention_s=block.retention_s,
        limits=Limits(processes=block.processes, gpus=block.gpus, cgroups=block.cgroups),
    )


def _slurm(cluster: Cluster, edges: Edges) -> Scheduler:
    from dispatch.schedulers.slurm.cluster import SlurmScheduler
    from dispatch.schedulers.slurm.rest import Rest
    from dispatch.schedulers.slurm.settings import SlurmCluster
    from dispatch.schedulers.slurm.tokens import MintedTokens, SiteTokens, Tokens

    block = _block(SlurmCluster, cluster)
    sign_in = block.sign_in
    reference = sign_in.secret
    tokens: Tokens
    if sign_in.kind == "hs256":
        key = sign_in.key
        tokens = MintedTokens(lambda: key(_secret_now(reference)), edges.clock)
    else:
        tokens = SiteTokens(lambda: _secret_now(reference), edges.clock)
    return SlurmScheduler(block, Rest(block, tokens, monotonic=edges.monotonic), clock=edges.clock)


def _eks(cluster: Cluster, edges: Edges) -> Scheduler:
    from dispatch.schedulers.eks.cluster import EksCluster
    from dispatch.schedulers.eks.settings import EksSettings

    return EksCluster(_block(EksSettings, cluster), edges.clock)
