"""The fake's CRDs against what a real API server answered without any controller behind them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.fakes.kube.api import Reply, Request
from tests.fakes.kube.cluster import KubeCluster
from tests.fakes.kube.recorded import comparable, recording
from tests.fakes.kube.trainer import torch_runtime

PATHS = {
    "TrainJob": "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs",
    "JobSet": "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets",
}
HEADERS = {"authorization": "Bearer good", "content-type": "application/merge-patch+json"}


@pytest.fixture
def cluster() -> KubeCluster:
    cluster = KubeCluster()
    cluster.install_trainer("2.2", torch_runtime())
    cluster.api.webhooks = False
    cluster.asleep = True
    return cluster


def send(cluster: KubeCluster, method: str, target: str, body: Any) -> Reply:
    return cluster.handle(Request(method, target, body, HEADERS))


@pytest.mark.parametrize(
    ("name", "defaulted"),
    [
        ("trainjob-created-no-controller", ("managedBy", "suspend")),
        ("jobset-created-no-controller", ()),
    ],
)
def test_an_object_is_filled_in_as_it_was_recorded(
    cluster: KubeCluster, name: str, defaulted: tuple[str, ...]
) -> None:
    recorded = deepcopy(recording(name))
    expected = recording(name)
    spec = {k: v for k, v in recorded["spec"].items() if k not in defaulted}
    for one in spec.get("replicatedJobs", []):
        del one["groupName"], one["replicas"]
    body = {
        "apiVersion": recorded["apiVersion"],
        "kind": recorded["kind"],
        "metadata": {"name": recorded["metadata"]["name"]},
        "spec": spec,
    }
    made = send(cluster, "POST", PATHS[recorded["kind"]], body)
    assert made.status == 201
    shown = {key: value for key, value in made.body.items() if key != "status"}
    assert comparable(shown) == comparable(expected)


def test_an_unknown_field_is_refused_word_for_word(cluster: KubeCluster) -> None:
    body = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "js2"},
        "spec": {"replicatedJobs": [], "zzz": 1},
    }
    refused = send(cluster, "POST", f"{PATHS['JobSet']}?fieldValidation=Strict", body)
    assert refused.body == recording("err-jobset-invalid")


def test_a_strategic_patch_is_no_media_type_of_theirs(cluster: KubeCluster) -> None:
    headers = {**HEADERS, "content-type": "application/strategic-merge-patch+json"}
    body = {"metadata": {"name": "tj1"}, "spec": {"runtimeRef": {"name": "torch-distributed"}}}
    assert send(cluster, "POST", PATHS["TrainJob"], body).status == 201
    target = f"{PATHS['TrainJob']}/tj1"
    answer = cluster.handle(Request("PATCH", target, {"spec": {"suspend": True}}, headers))
    assert answer.status == 415


def test_the_runtime_reference_is_fixed(cluster: KubeCluster) -> None:
    body = {"metadata": {"name": "tj1"}, "spec": {"runtimeRef": {"name": "torch-distributed"}}}
    send(cluster, "POST", PATHS["TrainJob"], body)
    target = f"{PATHS['TrainJob']}/tj1"
    answer = send(cluster, "PATCH", target, {"spec": {"runtimeRef": {"name": "other"}}})
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")


def test_crds_that_arent_installed_are_no_page(cluster: KubeCluster) -> None:
    cluster.api.trainer = None
    answer = send(cluster, "GET", PATHS["TrainJob"], None)
    assert (answer.status, answer.raw) == (404, b"404 page not found\n")
