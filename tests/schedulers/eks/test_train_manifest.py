"""A spec as a TrainJob: what it says of its pods by release, and what is refused before."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from dispatch.record.codec import encode
from dispatch.record.header import Adjust, Spec
from dispatch.schedulers.eks.lint import lint
from dispatch.schedulers.eks.marks import EVIDENCE, OBJECT, OUR_SUSPENSION, SPEC_DIGEST
from dispatch.schedulers.eks.settings import EksSettings, Team, Toleration
from dispatch.schedulers.eks.train_manifest import MANAGER, resumed, trainjob_manifest
from dispatch.schedulers.eks.train_objects import read_trainjob
from dispatch.schedulers.scheduler import StartOrder, Tag
from tests.fakes.kube import crds
from tests.schedulers.eks.train_world import EKS, MPI, trainer_of
from tests.schedulers.eks.world import settings_of

TAG = Tag("jobabcdefg", 2, 1, "a" * 64, 0)
TEAM = Team(owners=("*",), namespace="ml", service_account="trainer")
RELEASES = ("2.0", "2.1", "2.2")


def order_of(**spec: Any) -> StartOrder:
    given: dict[str, Any] = {"name": "t", "command": ("torchrun", "$x"), "eks": EKS}
    made = Spec(**{**given, **spec})
    return StartOrder(tag=TAG, spec=made, adjust=None, owner="iam:ann", in_place=True)


def settings(release: str = "2.2", **changes: Any) -> EksSettings:
    evidence = changes.pop("evidence", "trainjob" if release == "2.2" else "none")
    return settings_of(trainer=trainer_of(release, evidence), **changes)


def manifest(release: str = "2.2", *, changes: dict[str, Any] | None = None, **spec: Any) -> Any:
    return trainjob_manifest(order_of(**spec), TEAM, settings(release, **(changes or {})))


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"nodes": 4, "gpus_per_node": 8, "memory_mb_per_node": 9000, "image": "i:1"},
        {"command": None, "script": "#!/bin/sh\ntrue\n"},
        {"eks": {**MPI, "shared_memory_mb": 64, "node_selector": {"a": "b"}}, "env": {"A": "$b"}},
        {"secrets": {"K": "kubernetes:s/k"}, "labels": {"team": "x"}},
    ],
)
def test_it_says_only_what_the_release_has(release: str, spec: dict[str, Any]) -> None:
    changes = {"tolerations": (Toleration(key="k"),), "image_pull_secrets": ("pull",)}
    body = manifest(release, changes=changes, **spec)
    crds.decode("trainjobs", body, release)
    assert body["spec"]["suspend"] is True
    assert "ttl" not in json.dumps(body).lower()
    assert body["metadata"]["annotations"][OUR_SUSPENSION] == "gate"


def test_every_replicated_job_bears_the_tag_and_the_finalizer() -> None:
    (patch,) = manifest(eks=MPI)["spec"]["runtimePatches"]
    assert patch["manager"] == MANAGER
    template = patch["trainingRuntimeSpec"]["template"]
    assert template["metadata"]["labels"]["dispatch/job"] == TAG.job
    jobs = template["spec"]["replicatedJobs"]
    assert [job["name"] for job in jobs] == ["launcher", "node"]
    for job in jobs:
        metadata = job["template"]["spec"]["template"]["metadata"]
        assert metadata["finalizers"] == [EVIDENCE]
        assert metadata["labels"]["dispatch/submission"] == "2"
        assert metadata["annotations"][SPEC_DIGEST] == TAG.spec_digest


@pytest.mark.parametrize("evidence", ["runtime", "none"])
def test_where_others_keep_the_pods_it_sets_no_finalizer(evidence: str) -> None:
    assert EVIDENCE not in json.dumps(manifest(changes={"evidence": evidence}))


def test_under_kueue_it_carries_the_queue_and_no_gate_of_ours() -> None:
    body = manifest(changes={"kueue_queue": "team-queue"})
    assert body["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team-queue"
    assert OUR_SUSPENSION not in body["metadata"]["annotations"]


def test_the_runtimes_own_resources_stand_unless_the_spec_says_some() -> None:
    assert "resourcesPerNode" not in manifest()["spec"]["trainer"]
    asked = manifest(gpus_per_node=8)["spec"]["trainer"]["resourcesPerNode"]
    assert asked["limits"] == {"nvidia.com/gpu": "8"}
    more = replace(order_of(), adjust=Adjust(memory_mb_per_node=2000))
    body = trainjob_manifest(more, TEAM, settings())
    assert body["spec"]["trainer"]["resourcesPerNode"]["limits"] == {"memory": "2000Mi"}


def test_what_a_process_reads_is_what_was_written() -> None:
    trainer = manifest(env={"A": "$(B)"})["spec"]["trainer"]
    assert trainer["command"] == ["torchrun", "$$x"]
    assert {"name": "A", "value": "$$(B)"} in trainer["env"]


def test_the_processes_of_a_node_are_the_runtimes_unless_they_are_said() -> None:
    assert "numProcPerNode" not in manifest()["spec"]["trainer"]
    eks = {**EKS, "trainer": {"processes_per_node": 4}}
    assert manifest(eks=eks)["spec"]["trainer"]["numProcPerNode"] == 4


@pytest.mark.parametrize("release", ["2.1", "2.2"])
def test_a_release_names_its_uid_on_its_pods_and_leaves_others_patches(release: str) -> None:
    body = manifest(release, changes={} if release == "2.2" else {"evidence": "none"})
    body["metadata"]["uid"] = "u-1"
    other = {"manager": "kueue.x-k8s.io/manager", "time": "2026-11-29T13:53:34Z"}
    if release == "2.2":
        body["spec"]["runtimePatches"].append(other)
    patch = resumed(read_trainjob(body), TAG, (1, 3))
    assert patch["spec"]["suspend"] is False
    text = json.dumps(patch["spec"])
    assert f'"{OBJECT}": "u-1"' in text
    assert '"dispatch/epoch": "2000003"' in text
    assert patch["metadata"]["annotations"]["dispatch/restarts"] == "1"
    if release == "2.2":
        assert patch["spec"]["runtimePatches"][1] == other


def test_old_specs_are_written_as_they_were() -> None:
    given = {"name": "t", "image": "i", "command": ("true",), "eks": {"kueue_queue": "q"}}
    spec = Spec.model_validate(given)
    assert json.loads(encode(spec))["eks"] == {
        "gpu_resource": "nvidia.com/gpu",
        "kueue_queue": "q",
        "node_selector": {},
    }


@pytest.mark.parametrize(
    "eks",
    [
        {"kind": "trainjob"},
        {"runtime": {"name": "torch-distributed"}},
        {"trainer": {"processes_per_node": 1}},
        {"kind": "pytorchjob", "runtime": {"name": "x"}},
        {"kind": "trainjob", "runtime": {"name": "x", "kind": "Runtime"}},
        {"kind": "trainjob", "runtime": {"name": "x", "jobs": ()}},
        {"kind": "trainjob", "runtime": {"name": "x", "version": "1"}},
        {"kind": "trainjob", "runtime": {"name": "x"}, "trainer": {"args": ["a"]}},
    ],
)
def test_the_shape_is_strict(eks: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="eks"):
        Spec.model_validate({"name": "t", "command": ("true",), "eks": eks})


@pytest.mark.parametrize(
    ("release", "spec", "said"),
    [
        ("2.2", {"tasks_per_node": 2}, "eks.trainer.processes_per_node"),
        ("2.2", {"workdir": "/x"}, "field 'workdir'"),
        ("2.2", {"eks": {**EKS, "priority_class": "high"}}, "eks.priority_class"),
        ("2.1", {"time_limit_s": 60}, "2.2 has"),
        ("2.2", {"env": {"PET_NNODES": "1"}}, "env.PET_NNODES"),
        ("2.2", {"command": tuple("x" * 129)}, "field 'command'"),
        ("2.2", {"eks": {**EKS, "runtime": {"name": "r", "jobs": ("a", "a")}}}, "twice"),
        ("2.2", {"output": "/x"}, "field 'output'"),
    ],
)
def test_what_a_trainjob_cant_say_is_refused_by_its_field(
    release: str, spec: dict[str, Any], said: str
) -> None:
    (sentence,) = lint(order_of(**spec).spec, settings(release))
    assert said in sentence


def test_a_cluster_without_trainer_refuses_it_by_the_field() -> None:
    (sentence,) = lint(order_of().spec, settings_of())
    assert sentence.startswith("field 'eks.kind'")


def test_what_can_be_run_is_refused_nowhere() -> None:
    for release in RELEASES:
        assert lint(order_of().spec, settings(release)) == []
        assert lint(order_of(eks=MPI, nodes=3).spec, settings(release)) == []
