"""A run without progress: shown where its plan asks for it, and never written down."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from dispatch.errors import SchedulerUnavailable
from dispatch.record.names import ObjectState
from dispatch.schedulers.scheduler import Target
from tests.functions.world import MadeUpCluster, World

ASKS = {"default": {"action": "hold"}, "progress_limit_s": 60}


class Writing(MadeUpCluster):
    """A cluster that can tell when a run last wrote."""

    wrote: datetime | None = None
    unreadable = False

    def written_at(self, target: Target) -> datetime | None:
        if self.unreadable:
            raise SchedulerUnavailable("it can't be read now")
        return self.wrote


def running(plan: dict[str, Any] | None = ASKS, *, tells: bool = True) -> tuple[World, str]:
    world = World()
    if tells:
        world.clusters["main"] = Writing("main", world.clock)
    world.cluster().ends = ObjectState.RUNNING
    job = world.job() if plan is None else world.job(plan=plan)
    for _ in range(3):
        world.work('{"cluster":"main"}')
        world.clock.forward(2)
    assert world.http("GET", f"/jobs/{job}").body["state"] == "running"
    return world, job


def shown(world: World, job: str) -> Any:
    status = world.http("GET", f"/jobs/{job}").body.get("progress")
    (line,) = world.http("GET", "/jobs", query="summary=true").body["jobs"]
    assert line["summary"].get("progress") == status
    return status


def test_a_run_that_writes_nothing_for_longer_than_its_plan_allows_shows_as_such() -> None:
    world, job = running()
    assert shown(world, job)["quiet"] is False
    world.clock.forward(61)
    quiet = shown(world, job)
    assert (quiet["limit_s"], quiet["quiet"]) == (60, True)
    assert quiet["since"].startswith("2026-11-29T12:00:0")


def test_a_run_that_writes_is_no_longer_quiet() -> None:
    world, job = running()
    world.clock.forward(100)
    cluster = world.cluster()
    assert isinstance(cluster, Writing)
    cluster.wrote = world.clock()
    assert shown(world, job)["quiet"] is False


def test_where_the_plan_doesn_t_ask_no_cluster_is_asked() -> None:
    world, job = running(None)
    cluster = world.cluster()
    assert isinstance(cluster, Writing)
    cluster.unreadable = True
    world.clock.forward(1000)
    assert shown(world, job) is None


@pytest.mark.parametrize("tells", [True, False])
def test_what_can_t_be_told_is_said_and_isn_t_called_quiet(tells: bool) -> None:
    world, job = running(tells=tells)
    cluster = world.cluster()
    if isinstance(cluster, Writing):
        cluster.unreadable = True
    world.clock.forward(1000)
    told = shown(world, job)
    assert told["quiet"] is False
    assert "since" not in told
    assert told["error"] == ("it can't be read now" if tells else "this cluster can't tell")


def test_nothing_about_it_is_written_into_the_record() -> None:
    world, job = running()
    before = world.store.read(job).revision
    world.clock.forward(1000)
    shown(world, job)
    assert world.store.read(job).revision == before


def test_a_story_tells_of_it_and_of_the_brakes() -> None:
    world, job = running()
    world.clock.forward(100)
    sections = world.http("GET", f"/jobs/{job}/why").body["sections"]
    now = next(one["lines"] for one in sections if one["title"] == "Now")
    assert any(line.startswith("No progress since 12:00:0") for line in now)


# --- lint -------------------------------------------------------------------------------------


def lint(world: World, **fields: Any) -> list[tuple[str, str | None, str]]:
    body = {"cluster": "main", "spec": {"name": "a", "command": ["x"]}, **fields}
    answer = world.http("POST", "/lint", body)
    assert answer.status == 200, answer.text
    return [(one["severity"], one.get("field"), one["code"]) for one in answer.body["findings"]]


def test_a_plan_that_asks_for_progress_where_nobody_can_tell_is_warned_of() -> None:
    world = World()
    declared = world.cluster().declare()
    silent = declared.model_copy(update={"capabilities": ()})
    world.cluster().declare = lambda: silent  # type: ignore[method-assign]
    assert lint(world, plan=ASKS) == [("warning", "plan.progress_limit_s", "plan")]
    beats = {"name": "a", "script": '#!/bin/sh\ntrain --each-epoch "sh -c \\"$DISPATCH_BEAT\\""\n'}
    assert lint(world, plan=ASKS, spec=beats) == []
    world.cluster().declare = lambda: declared  # type: ignore[method-assign]
    assert lint(World(), plan=ASKS) == []


def test_lint_tells_of_adapter_and_secrets_at_once_and_makes_no_job() -> None:
    world = World()
    world.cluster().refuses = ["queue: 'x' isn't a queue", "field 'env': odd", "no field at all"]
    spec = {"name": "a", "command": ["x"], "env": {"API_TOKEN": "abcdefghijklmnop"}}
    assert lint(world, spec=spec) == [
        ("refused", "queue", "refused"),
        ("refused", "env", "refused"),
        ("refused", None, "refused"),
        ("refused", "env.API_TOKEN", "secret_in_plain"),
    ]
    assert world.store.list().items == ()


def test_lint_refuses_what_isn_t_a_request_and_a_cluster_that_isn_t_there() -> None:
    world = World()
    assert world.http("POST", "/lint", {"cluster": "main"}).status == 400
    body = {"cluster": "nowhere", "spec": {"name": "a", "command": ["x"]}}
    assert world.http("POST", "/lint", body).body["code"] == "unknown_cluster"
