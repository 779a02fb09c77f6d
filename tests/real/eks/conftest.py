"""The cluster that DISPATCH_TEST_KUBECONFIG leads to; without it the run fails, it never skips."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from dispatch.schedulers.eks.client import KubeClient, Timeouts, path
from dispatch.schedulers.eks.objects import mapping
from dispatch.schedulers.eks.response import Answer
from dispatch.schedulers.eks.settings import KubeconfigAccess
from tests.real.eks.train_world import served_release
from tests.real.eks.world import RealWorld

VARIABLE = "DISPATCH_TEST_KUBECONFIG"
# Read before the run forgets every variable of Dispatch that a person may have set.
KUBECONFIG = os.environ.get(VARIABLE, "")


def _answered(kubeconfig: str, where: str) -> Answer:
    client = KubeClient(KubeconfigAccess(path=kubeconfig), Timeouts(5, 10))
    try:
        return client.get(where)
    finally:
        client.close()


def _has_ready_node(kubeconfig: str) -> bool:
    answer = _answered(kubeconfig, path("api", "v1", "nodes"))
    for node in mapping(answer.body, "nodes").get("items", []):
        conditions = node["status"].get("conditions", [])
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
        if ready and not node["spec"].get("taints"):
            return True
    return False


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Name the stories that need what the cluster hasn't: a node that runs pods, or TrainJobs."""
    found = KUBECONFIG
    if not Path(found).is_file():
        return
    lacks: dict[str, str] = {}
    if not _has_ready_node(found):
        lacks["test_pods.py"] = "no node is ready"
    if served_release(found) is None:
        lacks["test_trainjobs.py"] = "no TrainJobs are served"
    left_out = [item for item in items if item.path.name in lacks]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    assert reporter is not None
    for item in left_out:
        reporter.write_line(f"{lacks[item.path.name]}, so this can't be told: {item.name}")


@pytest.fixture(scope="session")
def kubeconfig() -> str:
    found = KUBECONFIG
    assert found, f"{VARIABLE} must name the kubeconfig of a cluster that these tests may write to"
    assert Path(found).is_file(), f"{VARIABLE}: there is no file {found}"
    answer = _answered(found, "/version")
    assert answer.ok, f"the cluster of {found} answers {answer.status}: {answer.body}"
    return found


@pytest.fixture(scope="session")
def names() -> Iterator[str]:
    return (f"dispatch-test-{os.getpid()}-{number}" for number in count(1))


@pytest.fixture
def world(kubeconfig: str, names: Iterator[str]) -> Iterator[RealWorld]:
    world = RealWorld(kubeconfig, next(names))
    yield world
    world.close()
