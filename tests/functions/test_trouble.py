"""Clusters that don't answer, leases, a person's word about a loss; and what is told of it."""

import json
import logging
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dispatch.errors import (
    BadConfiguration,
    RecordRefused,
    RevisionConflict,
    SchedulerUnavailable,
    StoreUnavailable,
    TryLater,
)
from dispatch.record.names import Capability, Cause, ObjectState
from dispatch.schedulers.scheduler import LookedUp, Sent, StartOrder, StartRefused, Target
from dispatch.store.memory import MemoryRecords
from dispatch.store.records import ClusterHealth
from dispatch.supervisor.health import (
    LONGEST_PAUSE_S,
    accept_loss,
    asked_again,
    health_after,
    loss_accepted_at,
    own_outage,
)
from dispatch.supervisor.sweep import Swept
from functions.supervisor import app as supervisor_function
from tests.functions.world import ADA, CLUSTERS, START, Context, World, fixture, http_event

MAIN = '{"cluster":"main"}'
WIDE = '{"cluster":"wide"}'


def health(world: World, cluster: str = "main") -> ClusterHealth:
    found = world.store.get_health(cluster)
    assert found is not None
    return found


def count(world: World, metric: str, cluster: str | None = "main") -> int:
    return sum(v for name, v, which in world.measured if (name, which) == (metric, cluster))


# --- back-off ---------------------------------------------------------------------------------


def test_a_cluster_that_is_down_is_asked_ever_less_often_and_never_less_than_that() -> None:
    world = World()
    world.work(WIDE)
    world.cluster().down = True
    asked: list[float] = []
    glance = world.cluster().glance

    def counted() -> Any:
        asked.append((world.clock.now - START).total_seconds())
        return glance()

    world.cluster().glance = counted  # type: ignore[method-assign]
    for _ in range(1200):
        world.work(MAIN)
        world.clock.forward(1)
    gaps = [b - a for a, b in pairwise(asked)]
    assert gaps[0] < 2
    assert all(b >= a - 2 for a, b in pairwise(gaps))
    assert LONGEST_PAUSE_S <= max(gaps) < LONGEST_PAUSE_S + 3
    assert len(asked) < 40


def test_f06_a_tick_that_is_spared_still_says_that_the_cluster_is_unreachable() -> None:
    world = World()
    world.work(WIDE)
    world.cluster().down = True
    for _ in range(20):
        world.work(MAIN)
        world.clock.forward(30)
    assert count(world, "ClusterUnreachable") == 20


def test_one_answer_ends_the_back_off() -> None:
    world = World()
    job = world.job()
    world.work(WIDE)
    world.cluster().down = True
    for _ in range(10):
        world.work(MAIN)
        world.clock.forward(60)
    world.cluster().down = False
    world.clock.forward(LONGEST_PAUSE_S)
    world.work(MAIN)
    assert (health(world).failing_since, health(world).retry_at) == (None, None)
    assert world.settle(job)["outcome"] == "succeeded"


def test_a_back_off_is_half_as_long_as_the_failure_and_bounded() -> None:
    swept = Swept("main", error="no answer", unreachable=True)
    first = health_after(swept, None, by="s", now=START)
    assert asked_again(first, START)
    later = START + timedelta(seconds=60)
    second = health_after(swept, first, by="s", now=later)
    assert second.failing_since == START
    assert not asked_again(second, later + timedelta(seconds=29))
    assert asked_again(second, later + timedelta(seconds=30))
    much = START + timedelta(days=1)
    assert asked_again(
        health_after(swept, second, by="s", now=much), much + timedelta(seconds=LONGEST_PAUSE_S)
    )


def test_a_cluster_that_can_not_be_spoken_to_as_configured_is_shown_so() -> None:
    world = World()

    def unusable(*_: Any) -> Any:
        raise BadConfiguration("cluster main: its key can't be read")

    world.wiring._opened = unusable
    world.work(MAIN)
    shown = world.http("GET", "/whoami")
    assert shown.status == 200
    assert "its key can't be read" in (health(world).last_error or "")
    assert health(world).failing_since is not None
    assert count(world, "ClusterUnreachable") == 1


# --- our own outage ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("silent", "ours"),
    [([], False), ([True], False), ([True, False], False), ([True, True], True)],
)
def test_all_of_several_clusters_silent_at_once_is_our_own_outage(
    silent: list[bool], ours: bool
) -> None:
    healths = [
        ClusterHealth(f"c{k}", "s", START, failing_since=START if one else None)
        for k, one in enumerate(silent)
    ]
    assert own_outage(healths) is ours
    assert own_outage([*healths, None]) is False


def test_in_our_own_outage_no_cluster_is_blamed_and_all_are_asked_at_every_tick() -> None:
    world = World()
    jobs = [world.job("a"), world.job("b", cluster="wide")]
    for name in ("main", "wide"):
        world.cluster(name).down = True
    for _ in range(10):
        world.work(MAIN, WIDE)
        world.clock.forward(60)
    world.measured.clear()
    world.supervisor(fixture("tick"), Context())
    assert ("OwnOutage", 1, None) in world.measured
    world.measured.clear()
    world.work(MAIN, WIDE)
    assert {name for name, _, _ in world.measured} == {"OwnOutage"}
    assert world.bus.put_ == []
    assert [world.store.read(job).revision for job in jobs] == [0, 0]
    for name in ("main", "wide"):
        world.cluster(name).down = False
    world.work(MAIN)
    assert len(world.cluster("main").starts) == 1


# --- the store --------------------------------------------------------------------------------


class Forgetful(MemoryRecords):
    """A store whose health can't be read or written."""

    down = False

    def get_health(self, cluster: str) -> ClusterHealth | None:
        if self.down:
            raise StoreUnavailable("no answer")
        return super().get_health(cluster)


def test_a_store_that_does_not_answer_is_not_said_to_be_the_cluster_s_fault() -> None:
    store = Forgetful(lambda: "t")
    world = World(store)
    world.job()
    store.down = True
    assert world.work(MAIN) == []
    assert count(world, "StoreTrouble") >= 1
    assert count(world, "ClusterUnreachable") == 0


def test_a_tick_is_queued_though_the_store_does_not_answer() -> None:
    store = Forgetful(lambda: "t")
    world = World(store)
    store.down = True
    assert world.supervisor(fixture("tick"), Context()) == {"queued": 5}
    assert count(world, "Tick", None) == 1


# --- leases -----------------------------------------------------------------------------------


def leased() -> World:
    document = json.loads(CLUSTERS)
    document["clusters"][0]["lease_s"] = 60
    return World(clusters=json.dumps(document))


def test_a_shard_that_another_call_looks_at_is_left_to_it() -> None:
    world = leased()
    job = world.job()
    held = world.store.acquire("main/0", "another", now=world.clock(), ttl_s=60)
    assert held is not None
    assert world.work(MAIN) == []
    assert world.cluster().looks == 0
    assert count(world, "LeaseHeld") == 1
    world.work(f'{{"cluster":"main","jobs":["{job}"]}}')
    assert len(world.cluster().starts) == 1, "an intent waits for no lease"
    world.clock.forward(61)
    world.work(MAIN)
    assert world.cluster().looks == 2


def test_a_lease_ends_with_the_call_and_its_holder_is_that_call_alone() -> None:
    world = leased()
    world.job()
    seen: list[str] = []
    glance = world.cluster().glance

    def looked() -> Any:
        free = world.store.acquire("main/0", "supervisor-test", now=world.clock(), ttl_s=1)
        seen.append("free" if free is not None else "held")
        return glance()

    world.cluster().glance = looked  # type: ignore[method-assign]
    world.work(MAIN)
    world.work(MAIN)
    assert seen == ["held", "held"]
    assert world.store.acquire("main/0", "next", now=world.clock(), ttl_s=1) is not None


def test_without_the_store_s_word_on_a_lease_the_look_is_taken() -> None:
    world = leased()

    def no_answer(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("no answer")

    world.store.acquire = no_answer  # type: ignore[method-assign]
    job = world.job()
    world.work(MAIN)
    assert [tag.job for tag in world.cluster().starts] == [job]


# --- a loss that is real ----------------------------------------------------------------------


def lost(looks: int = 3) -> tuple[World, list[str]]:
    world = World()
    world.cluster().ends = ObjectState.RUNNING
    jobs = [world.job(f"k{k}") for k in range(6)]
    for _ in range(looks):
        world.work(MAIN)
    world.cluster().objects.clear()
    world.clock.forward(3600)
    world.work(MAIN)
    return world, jobs


def accept(world: World, name: str = "main", body: Any = None) -> Any:
    return world.http("POST", f"/clusters/{name}/accept-loss", {} if body is None else body)


def test_f36_a_person_s_word_lets_a_mass_loss_be_concluded_from() -> None:
    world, jobs = lost()
    shown = world.http("GET", "/clusters").body["clusters"][0]["health"]
    assert "6 of 6" in shown["escalations"]["mass_loss"]
    assert shown["troubles"][0]["kind"] == "mass_loss"
    before = {job: world.store.read(job).revision for job in jobs}
    answer = accept(world, body={"reason": "the site was rebuilt"})
    assert answer.status == 200
    assert (answer.body["cluster"], answer.body["by"]) == ("main", ADA)
    world.work(MAIN)
    assert all(world.store.read(job).revision > before[job] for job in jobs)
    shown = world.http("GET", "/clusters").body["clusters"][0]["health"]
    assert shown["escalations"] == {}
    assert shown["loss_accepted_at"] == answer.body["at"]


def test_a_mass_loss_right_after_the_starts_is_not_believed_either() -> None:
    world, jobs = lost(looks=1)  # no job has been quiet yet, so no hint names an object
    shown = world.http("GET", "/clusters").body["clusters"][0]["health"]
    assert "6 of 6" in shown["escalations"]["mass_loss"]
    assert all('"gone"' not in one.body for job in jobs for one in world.store.read(job).entries)


def test_a_second_look_in_one_tick_counts_what_the_first_one_started() -> None:
    """Seed 988800000687: the index was read before the first look, and named no object yet."""
    world = World()
    cluster, store = world.cluster(), world.store
    plan = {"default": {"action": "hold"}, "start_backoff_s": 60}
    jobs = [world.job(f"k{k}", plan=plan) for k in range(7)]
    start, commit, find = cluster.start, store.commit, cluster.find

    def refused(order: StartOrder) -> Any:
        return StartRefused(Cause.START_REFUSED, "full")

    cluster.start = refused  # type: ignore[method-assign]
    world.work(MAIN)
    world.work(MAIN)  # each waits for its back-off now, and its hint says that nothing lives
    cluster.start = start  # type: ignore[method-assign]
    cluster.looks = 0
    world.clock.forward(90)
    met: list[str] = []

    def conflict_once(job_id: str, *said: Any, **more: Any) -> Any:
        if job_id == jobs[-1] and not met:
            met.append(job_id)
            raise RevisionConflict("somebody else wrote", job=job_id)
        return commit(job_id, *said, **more)

    def empty_from_then_on() -> Any:
        if cluster.looks >= 1:
            cluster.objects.clear()
        return find()

    store.commit = conflict_once  # type: ignore[method-assign]
    cluster.find = empty_from_then_on  # type: ignore[method-assign]
    world.work(MAIN)
    assert cluster.looks == 2
    assert "6 of 6" in dict(health(world).escalations)["mass_loss"]
    assert jobs[-1] not in {tag.job for tag in cluster.starts}


def test_many_new_jobs_at_once_are_no_mass_loss() -> None:
    world = World()
    jobs = [world.job(f"k{k}") for k in range(8)]
    world.work(MAIN)
    assert {tag.job for tag in world.cluster().starts} == set(jobs)


def test_a_hint_older_than_its_record_names_no_loss() -> None:
    world = World()
    world.cluster().ends = ObjectState.RUNNING
    jobs = [world.job(f"k{k}") for k in range(6)]
    for _ in range(3):
        world.work(MAIN)
    world.cluster().ends = ObjectState.SUCCEEDED
    world.work(MAIN)  # records the ends; the hints stay as they were
    named = [one.quiet.live for one in world.store.open_jobs("main") if one.quiet is not None]
    assert len(named) == len(jobs)
    assert all(named)
    world.cluster().objects.clear()
    world.clock.forward(3600)
    world.work(MAIN)
    shown = world.http("GET", "/clusters").body["clusters"][0]["health"]
    assert shown["escalations"] == {}
    assert {world.settle(job)["outcome"] for job in jobs} == {"succeeded"}


class Accounting:
    """Knows how some of a cluster's objects ended."""

    def __init__(self, world: World, ended: int) -> None:
        cluster = world.cluster()
        self.ended = list(cluster.objects)[:ended]
        self.tags = {ref: tag for ref, (tag, _) in cluster.objects.items()}
        self.asked: list[str] = []
        self.silent = False
        declared = cluster.declare()
        can = (*declared.capabilities, Capability.LOOKUP)
        self.declared = declared.model_copy(update={"capabilities": can})
        self.sighting = cluster._sighting
        cluster.declare = lambda: self.declared  # type: ignore[method-assign]
        cluster.lookup = self.lookup  # type: ignore[method-assign]

    def lookup(self, targets: Sequence[Target], attempts: Sequence[Sent]) -> LookedUp:
        if self.silent:
            raise SchedulerUnavailable("accounting doesn't answer")
        refs = [one.ref for one in targets]
        self.asked += refs
        known = [self.sighting(ref, self.tags[ref], "stopped") for ref in refs if ref in self.ended]
        return LookedUp(tuple(known), frozenset(refs) - set(self.ended))


def forgotten(jobs: int, ended: int) -> tuple[World, Accounting]:
    """All of so many running jobs left the list while nobody looked; so many have ended."""
    world = World()
    world.cluster().ends = ObjectState.RUNNING
    for k in range(jobs):
        world.job(f"k{k}")
    for _ in range(3):
        world.work(MAIN)
    accounting = Accounting(world, ended)
    world.cluster().objects.clear()
    world.clock.forward(3600)
    return world, accounting


def test_a_loss_that_accounting_explains_is_none() -> None:
    """ADR 40, which is laxer than the protocol's §7."""
    world, accounting = forgotten(30, 30)
    world.work(MAIN)
    assert dict(health(world).escalations) == {}
    assert len(accounting.asked) == 20  # it speaks for the other ten, too


def test_a_loss_that_accounting_explains_in_part_is_one_of_what_is_left() -> None:
    world, accounting = forgotten(12, 5)
    world.work(MAIN)
    assert "7 of 7" in dict(health(world).escalations)["mass_loss"]
    accounting.ended = list(accounting.tags)[:8]  # it learnt of three more
    world.clock.forward(60)
    world.work(MAIN)
    assert dict(health(world).escalations) == {}


def test_accounting_that_does_not_answer_explains_nothing() -> None:
    world, accounting = forgotten(6, 6)
    accounting.silent = True
    world.work(MAIN)
    assert "6 of 6" in dict(health(world).escalations)["mass_loss"]


def test_without_time_accounting_is_not_asked() -> None:
    world, accounting = forgotten(6, 6)
    slow = accounting.declared.model_copy(update={"request_timeout_s": 3_600})
    accounting.declared = slow
    world.work(MAIN)
    assert accounting.asked == []
    assert "6 of 6" in dict(health(world).escalations)["mass_loss"]


def test_a_record_that_this_build_cannot_read_is_spoken_for_by_its_hint() -> None:
    world = World()
    world.cluster().ends = ObjectState.RUNNING
    for k in range(6):
        world.job(f"k{k}")
    for _ in range(3):
        world.work(MAIN)

    def refused(job_id: str) -> Any:
        raise RecordRefused("kind 'newer' isn't known", job=job_id, entry=1, field="kind")

    world.store.read = refused  # type: ignore[method-assign]
    world.cluster().objects.clear()
    world.clock.forward(3600)
    world.work(MAIN)
    assert "6 of 6" in dict(health(world).escalations)["mass_loss"]


def test_the_word_is_not_lost_to_a_look_that_was_under_way() -> None:
    world, jobs = lost()
    under_way = health(world)
    accept(world)
    world.store.put_health(under_way)
    world.work(MAIN)
    assert all(world.store.read(job).revision > 3 for job in jobs)


def test_the_word_is_about_one_cluster_and_for_a_while() -> None:
    store = MemoryRecords(lambda: "t")
    accept_loss(store, "main", by=ADA, at=START)
    assert loss_accepted_at(store, "main", None) == START
    assert loss_accepted_at(store, "wide", None) is None
    world, jobs = lost()
    accept(world)
    world.clock.forward(3601)
    before = [world.store.read(job).revision for job in jobs]
    world.work(MAIN)
    assert [world.store.read(job).revision for job in jobs] == before


def test_the_word_is_an_admin_s_and_about_a_cluster_that_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    document = json.loads(CLUSTERS)
    document["access"] = {"rules": [{"who": ["*"], "intents": {"*": "all"}, "read": "all"}]}
    refused = accept(World(clusters=json.dumps(document)))
    assert (refused.status, refused.body["code"]) == (403, "forbidden")
    assert accept(World(), "moon").status == 422
    assert accept(World(), body={"sure": True}).status == 400
    with caplog.at_level(logging.WARNING):
        accept(World(), body={"reason": "rebuilt"})
    (line,) = [one for one in caplog.records if getattr(one, "signal", "") == "loss_accepted"]
    assert line.__dict__["actor"] == ADA
    assert "rebuilt" in line.getMessage()


# --- events about clusters --------------------------------------------------------------------


def told(world: World) -> list[tuple[str, str]]:
    details = [json.loads(one.detail) for one in world.bus.put_]
    return [(one["kind"], one["state"]) for one in details]


def outage(world: World) -> None:
    world.work(WIDE)
    world.cluster().down = True
    for _ in range(8):
        world.work(MAIN)
        world.clock.forward(30)


def test_a_trouble_is_told_when_it_begins_and_when_it_is_over_and_not_between() -> None:
    world = World()
    outage(world)
    assert told(world) == [("unreachable", "begun")]
    world.cluster().down = False
    world.clock.forward(LONGEST_PAUSE_S)
    world.work(MAIN)
    world.work(MAIN)
    assert told(world) == [("unreachable", "begun"), ("unreachable", "over")]
    begun, over = world.bus.put_
    assert over.id == f"{begun.id}/over"
    assert json.loads(begun.detail)["since"] == json.loads(over.detail)["since"]


def test_a_silence_of_a_moment_is_no_trouble() -> None:
    world = World()
    world.work(WIDE)
    world.cluster().down = True
    world.work(MAIN)
    world.cluster().down = False
    world.work(MAIN)
    assert world.bus.put_ == []


def test_what_was_not_published_comes_again_with_the_same_id() -> None:
    world = World()
    world.bus.failure = TryLater("throttled")
    outage(world)
    assert world.bus.put_ == []
    world.bus.failure = None
    for _ in range(2):
        world.clock.forward(LONGEST_PAUSE_S)
        world.work(MAIN)
    (event,) = world.bus.put_
    before = health(world)
    world.store.put_health(ClusterHealth(**{**_fields(before), "told": ()}))
    world.clock.forward(LONGEST_PAUSE_S)
    world.work(MAIN)
    assert [one.id for one in world.bus.put_] == [event.id, event.id]


def _fields(one: ClusterHealth) -> dict[str, Any]:
    return {name: getattr(one, name) for name in ClusterHealth.__dataclass_fields__}


def test_a_mass_loss_is_told_and_over_once_a_person_accepted_it() -> None:
    world, _ = lost()
    assert told(world) == [("mass_loss", "begun")]
    accept(world)
    world.work(MAIN)
    assert told(world) == [("mass_loss", "begun"), ("mass_loss", "over")]


# --- metrics ----------------------------------------------------------------------------------


def test_jobs_that_wait_for_a_person_are_counted_whenever_all_are_looked_at() -> None:
    world = World()
    world.cluster().ends = ObjectState.FAILED
    for key in ("a", "b"):
        world.job(key, plan={"default": {"action": "hold"}})
    for _ in range(4):
        world.work(MAIN)
        world.clock.forward(2)
    world.measured.clear()
    world.clock.forward(600)
    world.work(MAIN)
    assert count(world, "EscalationOpen") == 2
    world.measured.clear()
    world.work(MAIN)
    assert all(name != "EscalationOpen" for name, _, _ in world.measured)


def test_metrics_are_printed_in_cloudwatch_s_embedded_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    local = {"name": "main", "adapter": "local", "settings": {"spool": str(tmp_path / "spool")}}
    document = json.dumps({"schema": "dispatch.clusters.v1", "clusters": [local]})
    (tmp_path / "spool").write_text("no folder")
    monkeypatch.setenv("DISPATCH_SQLITE", str(tmp_path / "records.sqlite"))
    monkeypatch.setenv("DISPATCH_CLUSTERS", document)
    monkeypatch.setenv("DISPATCH_METRICS", "Dispatch/test")
    supervisor_function._started.cache_clear()
    context: Any = Context()
    supervisor_function.handler(fixture("sqs"), context)
    supervisor_function._started.cache_clear()
    lines = [json.loads(one) for one in capsys.readouterr().out.splitlines() if one[:1] == "{"]
    (metric,) = [one for one in lines if "_aws" in one]
    (declared,) = metric["_aws"]["CloudWatchMetrics"]
    assert declared["Namespace"] == "Dispatch/test"
    assert declared["Metrics"][0]["Name"] == "ClusterUnreachable"
    assert set(declared["Dimensions"][0]) == {"service", "cluster"}
    assert (metric["cluster"], metric["ClusterUnreachable"]) == ("main", [1.0])


def test_a_document_that_is_refused_is_told_at_every_tick_and_in_the_answer(
    tmp_path: Path,
) -> None:
    path = tmp_path / "clusters.json"
    path.write_text(CLUSTERS)
    world = World(clusters=f"file:{path}")
    world.supervisor(fixture("tick"), Context())
    path.write_text('{"schema":"dispatch.clusters.v1","clusters":[{"name":"main"}]}')
    world.clock.forward(61)
    for expected in (1, 2):
        assert world.supervisor(fixture("tick"), Context()) == {"queued": 5}
        assert count(world, "ClustersRefused", None) == expected
    answer = world.http("GET", "/clusters").body
    assert "adapter" in answer["refused"]
    assert len(answer["clusters"]) == 2


def test_a_document_that_never_was_good_is_told_of_and_the_tick_fails() -> None:
    world = World(clusters="{")
    with pytest.raises(BadConfiguration):
        world.supervisor(fixture("tick"), Context())
    assert count(world, "ClustersRefused", None) == 1


def test_an_event_bears_nobody_s_identity_for_accepting_a_loss() -> None:
    event = http_event("POST", "/clusters/main/accept-loss", {}, like="http-nobody")
    event["headers"]["content-type"] = "application/json"
    assert World().request(event).status == 403
