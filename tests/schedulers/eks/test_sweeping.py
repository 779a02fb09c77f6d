"""Whole looks at a shard: what they notice that glances can't, and what they let go of."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dispatch.cli.app import app
from dispatch.clusters import Brakes
from dispatch.schedulers.eks.marks import EVIDENCE
from dispatch.supervisor.keeping import UNKNOWN_KEPT_S
from dispatch.supervisor.sweep import Swept
from tests.conformance.scheduler.contract import Play
from tests.conformance.scheduler.world import Work
from tests.fakes.kube.server import Fault
from tests.schedulers.eks.test_supervised import Supervised
from tests.schedulers.eks.world import CLUSTER, NAMESPACE, EksWorld


@pytest.fixture
def supervised(world: EksWorld) -> Supervised:
    return Supervised(world)


def whole(supervised: Supervised, **changes: Any) -> Swept:
    """Sweep the whole cluster when its slow beat is due."""
    supervised.world.advance(700)
    return replace(supervised.sweeper, **changes).sweep(CLUSTER)


def kept(world: EksWorld) -> int:
    return sum(
        EVIDENCE in p["metadata"].get("finalizers", ())
        for p in world.kube.pods(namespace=NAMESPACE)
    )


def test_evidence_of_an_unknown_job_is_kept_for_a_day_and_then_let_go_of(
    supervised: Supervised, world: EksWorld
) -> None:
    Play(world).end(Work.FAIL)
    assert whole(supervised).freed == 0
    assert kept(world) == 1
    world.advance(UNKNOWN_KEPT_S)
    assert whole(supervised).freed == 1
    assert kept(world) == 0


def test_a_pod_that_goes_on_is_never_let_go_of(supervised: Supervised, world: EksWorld) -> None:
    Play(world).start(Work.LAST)
    world.advance(UNKNOWN_KEPT_S)
    assert whole(supervised).freed == 0


def test_an_open_job_keeps_its_evidence(supervised: Supervised, world: EksWorld) -> None:
    supervised.submit(Work.LAST)
    supervised.until_it_runs()
    world.kube.end(supervised.pods_running()[0], 3)
    assert whole(supervised, brakes=Brakes(observed="a roll-out")).freed == 0
    assert kept(world) == 1


@pytest.mark.parametrize("tombstoned", [False, True])
def test_what_a_settled_job_still_keeps_is_let_go_of(
    supervised: Supervised, world: EksWorld, tombstoned: bool
) -> None:
    supervised.submit(Work.FAIL)
    supervised.until_settled()
    assert kept(world) == 0
    # Its pod was labelled by hand as not recorded, and kept again.
    (pod,) = world.kube.pods(namespace=NAMESPACE)
    pod["metadata"]["finalizers"] = [EVIDENCE]
    del pod["metadata"]["labels"]["dispatch/recorded"]
    world.kube.store.changed("pods", pod)
    if tombstoned:
        supervised.records.tombstone(supervised.job_id)
    observed = whole(supervised, brakes=Brakes(observed="a roll-out"))
    assert (observed.freed, kept(world)) == (0, 1)
    assert whole(supervised).freed == 1
    assert kept(world) == 0


def test_what_could_not_be_let_go_of_is_tried_again_at_the_next_tick(
    supervised: Supervised, world: EksWorld
) -> None:
    Play(world).end(Work.FAIL)
    world.advance(UNKNOWN_KEPT_S)
    with world.server.faults(
        lambda request: Fault.CLOSE_BEFORE if request.method == "PATCH" else None
    ):
        assert whole(supervised).freed == 0
    assert supervised.sweeper.sweep(CLUSTER).freed == 1


def goes_quiet(supervised: Supervised) -> None:
    """Let a job run until nothing is due for it any more."""
    supervised.submit(Work.LAST)
    supervised.until_it_runs()
    for _ in range(3):
        supervised.world.advance(30)
        supervised.sweeper.sweep(CLUSTER)
    assert supervised.sweeper.sweep(CLUSTER).passes == []


def copied_by_hand(world: EksWorld) -> None:
    """Create the only Job again under another name, marks and all."""
    (mine,) = world.kube.store.of("jobs", NAMESPACE)
    marks = {key: mine["metadata"][key] for key in ("labels", "annotations")}
    copy = {**deepcopy(mine), "metadata": {"name": "a-copy", **deepcopy(marks)}}
    del copy["status"], copy["spec"]["selector"]
    labels = copy["spec"]["template"]["metadata"]["labels"]
    for key in [k for k in labels if not k.startswith("dispatch/")]:
        del labels[key]
    world.request("POST", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", copy)


def test_another_object_of_a_quiet_job_is_met_by_a_find_that_others_needed(
    supervised: Supervised, world: EksWorld
) -> None:
    goes_quiet(supervised)
    copied_by_hand(world)
    # A glance tells of the objects that a job's hint names, and of no other.
    assert supervised.sweeper.sweep(CLUSTER).passes == []
    supervised.submit(Work.SUCCEED, key="two")
    supervised.sweeper.sweep(CLUSTER)
    assert len(supervised.job().objects) == 2


def test_a_cluster_that_is_always_busy_is_still_looked_at_whole(
    supervised: Supervised, world: EksWorld
) -> None:
    goes_quiet(supervised)
    looked_at = []
    for number in range(12):
        world.advance(60)
        supervised.submit(Work.SUCCEED, key=f"n{number}")
        swept = supervised.sweeper.sweep(CLUSTER)
        assert swept.finds > 0
        looked_at += [one.job_id for one in swept.passes]
    assert looked_at.count(supervised.job_id) == 1


def test_everything_is_let_go_of_by_hand_when_dispatch_is_gone(
    world: EksWorld, tmp_path: Path
) -> None:
    play = Play(world)
    play.end(Work.FAIL)
    play.run(Work.LAST, job="jobgoeson0001")
    block = {
        "access": {"kind": "kubeconfig", "path": world.kubeconfig(tmp_path)},
        "teams": [{"owners": ["*"], "namespace": NAMESPACE}],
    }
    cluster = {"name": CLUSTER, "adapter": "eks", "settings": block}
    document = json.dumps({"schema": "dispatch.clusters.v1", "clusters": [cluster]})
    command = ("clusters", "free", CLUSTER, "--clusters", document)
    counted = CliRunner().invoke(app, command)
    assert (counted.exit_code, kept(world)) == (0, 2), counted.output
    assert "keeps 2 objects, 1 of which go on" in counted.stdout
    freed = CliRunner().invoke(app, [*command, "--yes", "--json"])
    assert freed.exit_code == 0, freed.output
    assert json.loads(freed.stdout) == {"cluster": CLUSTER, "kept": 2, "running": 1, "freed": 2}
    assert kept(world) == 0
    local = {"name": "here", "adapter": "local", "settings": {"spool": str(tmp_path / "spool")}}
    other = json.dumps({"schema": "dispatch.clusters.v1", "clusters": [local]})
    refused = CliRunner().invoke(app, ["clusters", "free", "here", "--clusters", other])
    assert refused.exit_code == 1
    assert "keeps no evidence" in refused.output
