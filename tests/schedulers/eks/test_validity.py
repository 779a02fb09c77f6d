"""Every manifest, and every body of the fake, is valid for the versions of Kubernetes we serve.

kubernetes-validate judges schemas; names, lengths and enumerations are judged by `lint` and by the
fake.
"""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest

from dispatch.schedulers.eks.manifest import service_manifest
from tests.fakes.kube.cluster import KubeCluster
from tests.fakes.kube.test_golden import IGNORE, create
from tests.schedulers.eks.test_manifest import LONGEST, full, made
from tests.schedulers.eks.world import NAMESPACE

VERSIONS = ["1.33", "1.34", "1.35", "1.36", "1.37"]


def bodies_of_the_fake() -> list[dict[str, Any]]:
    kube = KubeCluster()
    create(kube, "evicted", completions=3, parallelism=3)
    create(kube, "suspended", suspend=True)
    create(kube, "kept", keep=True)
    create(kube, "preempted", podFailurePolicy=IGNORE)
    kube.evict(kube.pods("evicted")[0])
    kube.end(kube.pods("kept")[0], 3)
    kube.preempt(kube.pod("preempted"))
    kube.lose_node("n1")
    kube.advance(400)
    plurals = ("jobs", "pods", "nodes", "namespaces", "events")
    return [kube.api._shown(plural, body) for plural in plurals for body in kube.store.of(plural)]


@pytest.mark.parametrize("version", VERSIONS)
def test_manifests_are_valid(version: str) -> None:
    for body in (made(), full(), service_manifest(LONGEST, NAMESPACE, "uid")):
        kubernetes_validate.validate(body, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_bodies_of_the_fake_are_valid(version: str) -> None:
    bodies = bodies_of_the_fake()
    assert len(bodies) > 15
    for body in bodies:
        kubernetes_validate.validate(body, version, strict=True)
