"""`dispatch submit --dry-run --clusters FILE`: what a cluster would be sent, word for word."""

from __future__ import annotations

import json

from dispatch.cli.screen import Screen
from dispatch.clusters import Clusters
from dispatch.errors import UnknownCluster
from dispatch.jobfile import JobFile, Members
from dispatch.operator import job_id_of
from dispatch.record.codec import spec_digest
from dispatch.schedulers.scheduler import StartOrder, Tag
from dispatch.wiring import manifests

NOBODY = "nobody"
"""Whose job it is as long as it isn't submitted; a cluster's first team stands in for theirs."""


def show_manifests(wanted: Members, clusters: Clusters, shown: Screen) -> None:
    """Print what the first attempt of each job would create, one JSON document after another.

    The job's id follows from its key; without one it is that of an example.

    Raises:
        InvalidRequest: The cluster would refuse the spec.
        UnknownCluster: It isn't said which, or there is none of that name.
        Unsupported: It is no Kubernetes cluster.
    """
    for one in wanted.jobs:
        cluster = clusters.named(one.file.cluster or _only(clusters))
        for body in manifests(cluster, _order(one.file, one.key)):
            shown.out.print_json(json.dumps(body))


def _order(file: JobFile, key: str | None) -> StartOrder:
    job = job_id_of(key or file.idempotency_key or "example")
    tag = Tag(job=job, n=1, a=1, spec_digest=spec_digest(file.spec), generation=0)
    return StartOrder(tag=tag, spec=file.spec, adjust=None, owner=NOBODY, in_place=False)


def _only(clusters: Clusters) -> str:
    names = [one.name for one in clusters.clusters]
    if len(names) == 1:
        return names[0]
    raise UnknownCluster(f"which cluster? say --cluster: {', '.join(names) or 'there is none'}")
