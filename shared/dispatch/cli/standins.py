"""Clusters judged without being asked: those of a document, and one of a kind where there is none.

A stand-in has whatever site-specific thing the job asks for, its queue say: only what any cluster
of its kind would refuse is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, assert_never

from dispatch.clusters import CLUSTERS_SCHEMA, Cluster, Clusters
from dispatch.jobfile import JobFile
from dispatch.record.header import Declarations, Spec
from dispatch.settings import Settings

if TYPE_CHECKING:
    from dispatch.wiring import Wiring


class Kind(StrEnum):
    """Which scheduler."""

    LOCAL = "local"
    SLURM = "slurm"
    EKS = "eks"


def kind_of(wanted: JobFile) -> Kind | None:
    """Return which scheduler a job file is for, by the block that it has; None where none tells."""
    blocks = {Kind.LOCAL: wanted.local, Kind.SLURM: wanted.slurm, Kind.EKS: wanted.eks}
    found = [kind for kind, block in blocks.items() if block is not None]
    return found[0] if len(found) == 1 else None


def stand_in(kind: Kind, wanted: JobFile, name: str | None) -> Cluster:
    """Return a cluster that has whatever of a site's own a job asks for."""
    return Cluster(name=name or kind.value, adapter=kind.value, settings=_settings(kind, wanted))


def _settings(kind: Kind, wanted: JobFile) -> dict[str, Any]:
    match kind:
        case Kind.LOCAL:
            return {"spool": "/nowhere", "gpus": True}
        case Kind.SLURM:
            queue = wanted.queue or "default"
            account, slurm = wanted.account, wanted.slurm
            qos = slurm.qos if slurm is not None else None
            partition = {
                "partition": queue,
                "accounts": [account] if account is not None else [],
                "qos": [qos] if qos is not None else [],
            }
            return {
                "url": "http://127.0.0.1",
                "user": "nobody",
                "sign_in": {"kind": "hs256", "secret": "file:/nowhere"},
                "queues": {queue: partition},
                "default_queue": queue,
            }
        case Kind.EKS:
            asked = wanted.eks.kueue_queue if wanted.eks is not None else None
            settings: dict[str, Any] = {
                "access": {"kind": "in_cluster"},
                "teams": [{"owners": ["*"], "namespace": "jobs"}],
            }
            queue_or_none = asked or wanted.queue
            return settings | ({"kueue_queue": queue_or_none} if queue_or_none else {})
        case _:
            assert_never(kind)


def refused_of(cluster: Cluster, spec: Spec) -> Sequence[str]:
    """Return what a cluster's adapter refuses of a spec; nothing is opened, and nothing asked."""
    if cluster.adapter != "local":
        return _wiring(cluster).lint(cluster.name, spec)
    from dispatch.schedulers.local.request import Limits, refusals
    from dispatch.schedulers.local.settings import LocalCluster

    block = LocalCluster.model_validate({"name": cluster.name, **cluster.settings})
    limits = Limits(processes=block.processes, gpus=block.gpus, cgroups=block.cgroups)
    return refusals(spec, limits)


def declared_of(cluster: Cluster) -> Declarations:
    """Return what a cluster declares; nothing is opened, and nothing asked."""
    if cluster.adapter != "local":
        return _wiring(cluster).declarations(cluster.name)
    from dispatch.schedulers.local.adapter import declarations

    return cluster.declarations.applied(declarations(cluster.name))


def _wiring(cluster: Cluster) -> Wiring:
    from dispatch.wiring import Wiring

    alone = Clusters.model_validate({"schema": CLUSTERS_SCHEMA, "clusters": (cluster,)})
    return Wiring(Settings(clusters=alone.model_dump_json(by_alias=True, exclude_none=True)))
