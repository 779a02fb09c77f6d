"""`dispatch clusters check` where TrainJobs may be used: CRDs, versions, release, rights."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dispatch.record.names import Capability
from dispatch.schedulers.eks.check import TRAINER_RIGHTS
from tests.fakes.kube import crds
from tests.fakes.kube.tls import Authority
from tests.schedulers.eks.test_check import bad
from tests.schedulers.eks.train_world import TrainWorld
from tests.schedulers.eks.world import NAMESPACE


@pytest.fixture
def world(authority: Authority) -> Iterator[TrainWorld]:
    world = TrainWorld(authority)
    yield world
    world.close()


def test_a_cluster_as_it_should_be_passes_and_says_what_it_serves(world: TrainWorld) -> None:
    assert bad(world) == []
    lines = {line.what: line.detail for line in world.scheduler.check()}
    assert lines["trainer"] == "trainer.kubeflow.org/v1alpha1 serves trainjobs"
    assert lines["jobset"] == "jobset.x-k8s.io/v1alpha2 serves jobsets"
    assert lines["trainer release"] == "its TrainJob is that of 2.2"
    assert "finalizer" in lines["evidence of TrainJobs"]


def test_crds_that_arent_served_are_named(world: TrainWorld) -> None:
    world.kube.api.trainer = None
    assert [line.partition(":")[0] for line in bad(world)] == ["trainer", "jobset"]


def test_another_version_is_named(world: TrainWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(crds.VERSIONS, crds.JOBSET, "v1beta1")
    (line,) = bad(world)
    assert line == "jobset: jobset.x-k8s.io is served as v1beta1, not as v1alpha2"


def test_another_release_than_the_settings_say_is_named(world: TrainWorld) -> None:
    world.kube.api.trainer = "2.1"
    (line,) = bad(world)
    assert line.startswith("trainer release: ")
    assert "set trainer.release to 2.1" in line


@pytest.mark.parametrize(("group", "resource", "verb"), TRAINER_RIGHTS)
def test_each_missing_right_is_named(
    world: TrainWorld, group: str, resource: str, verb: str
) -> None:
    world.kube.api.denied.add(f"{verb} {resource}")
    assert bad(world) == [f"rights in {NAMESPACE}: may not {verb} {resource}.{group}"]


def test_that_nobody_keeps_the_pods_is_declared(authority: Authority) -> None:
    world = TrainWorld(authority, evidence="none")
    try:
        lines = {line.what: line.detail for line in world.scheduler.check()}
        assert "is lost" in lines["evidence of TrainJobs"]
        assert not world.scheduler.declare().can(Capability.HOLD_RUNNING)
    finally:
        world.close()
