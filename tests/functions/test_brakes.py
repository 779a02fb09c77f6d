"""A cluster's brakes: paused, drained, only observed. Recorded in its document, and shown."""

import json
import logging
from typing import Any

import pytest

from dispatch.clusters import Brakes, parse_clusters
from dispatch.errors import BadConfiguration
from dispatch.record.names import ObjectState
from tests.functions.world import CLUSTERS, World

TICK = '{"cluster":"main"}'


def braked(**brakes: str) -> str:
    document = json.loads(CLUSTERS)
    document["clusters"][0]["brakes"] = brakes
    return json.dumps(document)


def after(world: World, **brakes: str) -> World:
    """The same deployment once its document says something else."""
    other = World(world.store, clusters=braked(**brakes))
    other.clock.now = world.clock.now
    other.clusters = world.clusters
    for cluster in other.clusters.values():
        cluster.clock = other.clock
    return other


def ticks(world: World, count: int = 3) -> None:
    for _ in range(count):
        assert world.work(TICK) == []
        world.clock.forward(2)


def waits(world: World, job: str) -> list[str]:
    status = world.http("GET", f"/jobs/{job}").body
    return [one["detail"] for one in status["waiting_for"] if one["what"] == "brake"]


# --- paused -----------------------------------------------------------------------------------


def test_nothing_is_started_on_a_paused_cluster_and_all_goes_on_after_it() -> None:
    world = World(clusters=braked(paused="maintenance until Monday"))
    job = world.job()
    ticks(world)
    assert world.cluster().starts == []
    free = after(world)
    assert free.settle(job)["outcome"] == "succeeded"
    assert len(free.cluster().starts) == 1


def test_a_gate_stays_closed_on_a_paused_cluster() -> None:
    world = World()
    job = world.job()
    world.intend(job, "hold")
    world.work(TICK)
    world.intend(job, "release", "i-2")
    cluster = world.cluster()
    started: list[str] = []

    def no_release(target: Any) -> None:
        started.append(target.ref)

    cluster.release = no_release  # type: ignore[method-assign]
    world.work(TICK)
    assert cluster.starts
    started.clear()
    paused = after(world, paused="no capacity")
    ticks(paused)
    assert started == []
    facts = [one.body for one in paused.store.read(job).entries if '"released"' in one.body]
    after(paused).work(TICK)
    assert started
    assert len(facts) <= 1


def test_a_cancel_is_served_on_a_paused_cluster() -> None:
    world = World()
    world.cluster().ends = ObjectState.RUNNING
    job = world.job()
    ticks(world)
    paused = after(world, paused="maintenance")
    paused.intend(job, "cancel")
    ticks(paused)
    assert paused.cluster().stops
    assert paused.settle(job)["outcome"] == "cancelled"


def test_what_a_pause_keeps_back_is_looked_at_as_soon_as_it_is_lifted() -> None:
    """A hint that was left under the brake would keep the job unseen for ten minutes."""
    world = World(clusters=braked(paused="maintenance"))
    world.job()
    ticks(world, 4)
    looks = world.cluster().looks
    ticks(world, 2)
    assert world.cluster().looks == looks, "a paused job that waits costs no look"
    free = after(world)
    free.work(TICK)
    assert len(free.cluster().starts) == 1


def test_a_pause_is_shown_with_its_reason_to_whoever_waits_for_it() -> None:
    world = World(clusters=braked(paused="maintenance until Monday"))
    job = world.job()
    ticks(world)
    (said,) = waits(world, job)
    assert "maintenance until Monday" in said
    shown = world.http("GET", "/clusters").body["clusters"][0]
    assert shown["brakes"] == {"paused": "maintenance until Monday"}
    assert any("start" in line for line in shown["health"]["withheld"])
    free = after(world)
    assert waits(free, job) == []
    free.work(TICK)
    assert free.http("GET", "/clusters").body["clusters"][0]["health"]["withheld"] == []


# --- drained ----------------------------------------------------------------------------------


def test_a_drained_cluster_takes_no_new_job_and_carries_on_with_the_others() -> None:
    world = World()
    job = world.job("old")
    drained = after(world, drained="it is going away")
    refused = drained.submit("new")
    assert (refused.status, refused.body["code"]) == (409, "cluster_drained")
    assert "it is going away" in refused.body["detail"]
    assert drained.submit("old").body == {"job_id": job, "created": False, "generation": 0}
    assert drained.submit("elsewhere", cluster="wide").status == 201
    assert drained.settle(job)["outcome"] == "succeeded"


# --- observed ---------------------------------------------------------------------------------


def test_on_an_observed_cluster_no_fact_is_committed_and_no_call_is_made() -> None:
    world = World(clusters=braked(observed="rolling out"))
    job = world.job()
    world.intend(job, "hold")
    ticks(world, 5)
    assert world.cluster().starts == []
    assert [one.schema for one in world.store.read(job).entries] == ["dispatch.control.v1"]


def test_an_observed_cluster_s_evidence_is_left_where_it_is() -> None:
    """What a reading is worth that nobody trusts yet can't be taken back once it is a fact."""
    world = World()
    world.cluster().ends = ObjectState.RUNNING
    job = world.job()
    ticks(world)
    revision = world.store.read(job).revision
    world.cluster().ends = ObjectState.SUCCEEDED
    acknowledged: list[Any] = []
    world.cluster().acknowledge = acknowledged.append  # type: ignore[attr-defined]
    observed = after(world, observed="rolling out")
    observed.clock.forward(3600)
    ticks(observed)
    assert observed.store.read(job).revision == revision
    assert acknowledged == []
    assert after(observed).settle(job)["outcome"] == "succeeded"


def test_what_would_be_done_is_said_in_the_log_and_in_the_health(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(clusters=braked(observed="rolling out"))
    job = world.job()
    with caplog.at_level(logging.INFO):
        ticks(world, 1)
    told = [one.getMessage() for one in caplog.records if getattr(one, "signal", "") == "withheld"]
    assert any(job in line and "write down authorized" in line for line in told)
    shown = world.http("GET", "/clusters").body["clusters"][0]
    assert any("authorized" in line for line in shown["health"]["withheld"])
    assert any(name == "Withheld" for name, _, _ in world.measured)
    assert "rolling out" in waits(world, job)[0]


def test_the_brakes_of_one_cluster_are_no_other_s() -> None:
    world = World(clusters=braked(observed="rolling out", paused="and paused"))
    job = world.job(cluster="wide")
    for shard in range(4):
        world.work(json.dumps({"cluster": "wide", "shard": shard, "shards": 4}))
    assert {tag.job for tag in world.cluster("wide").starts} == {job}


# --- the document -----------------------------------------------------------------------------


@pytest.mark.parametrize("brakes", [{"paused": ""}, {"paused": True}, {"stopped": "why"}])
def test_a_brake_is_read_strictly_and_needs_a_reason(brakes: Any) -> None:
    with pytest.raises(BadConfiguration, match="brakes"):
        parse_clusters(braked(**brakes))


def test_brakes_are_off_unless_they_are_on() -> None:
    assert parse_clusters(CLUSTERS).clusters[0].brakes == Brakes()
    assert Brakes().told == {}
