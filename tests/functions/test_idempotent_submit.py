"""F07: the same submit again is the same job, whatever happened in between."""

import json
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from dispatch.clusters import DEFAULT_PLAN
from dispatch.errors import CommitUnknown, StoreUnavailable
from dispatch.operator import Submit
from dispatch.record.header import Spec
from dispatch.store.memory import MemoryRecords
from dispatch.store.records import Created, NewRecord
from dispatch.store.sqlite import SqliteRecords
from tests.functions.world import CLUSTERS, SPEC, Context, World


def test_f07_a_repeat_answers_with_the_same_job(world: World) -> None:
    first, second = world.submit(), world.submit()
    assert (first.status, second.status) == (201, 200)
    assert first.body["job_id"] == second.body["job_id"]
    assert second.body["created"] is False
    assert len(world.store.list().items) == 1


def test_f07_a_repeat_after_25_hours_is_still_a_repeat(world: World) -> None:
    first = world.submit()
    world.clock.forward(25 * 3600)
    assert world.submit().body["job_id"] == first.body["job_id"]


def test_f07_a_repeat_after_the_tombstone_creates_nothing(world: World) -> None:
    job = world.job()
    world.settle(job)
    world.http("DELETE", f"/jobs/{job}")
    world.retention({}, Context())
    again = world.submit()
    assert (again.status, again.body["job_id"], again.body["created"]) == (200, job, False)
    assert world.http("GET", f"/jobs/{job}").status == 410


def test_f07_the_same_key_with_another_body_is_a_conflict(world: World) -> None:
    job = world.job()
    answer = world.submit(spec={**SPEC, "nodes": 2})
    assert (answer.status, answer.body["code"]) == (409, "idempotency_conflict")
    assert answer.body["job"] == job


def test_f07_parallel_submits_of_one_key_make_one_job(tmp_path: Path) -> None:
    numbers = count()
    world = World(SqliteRecords(tmp_path / "records.sqlite", lambda: f"t{next(numbers)}"))
    wanted = Submit(
        idempotency_key="k",
        spec=Spec(name="train", command=("true",)),
        plan=DEFAULT_PLAN,
        declarations=world.wiring.declarations("main"),
    )
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: world.wiring.operator.submit(wanted, by="me"), range(8)))
    assert len({one.job_id for one in made}) == 1
    assert sum(one.created for one in made) == 1
    assert len(world.store.list().items) == 1


class LosesItsReply(MemoryRecords):
    """A store whose first create lands, or not, and isn't answered for."""

    def __init__(self, *, lands: bool) -> None:
        numbers = count()
        super().__init__(lambda: f"t{next(numbers)}")
        self.lands = lands
        self.first = True

    def create(self, new: NewRecord) -> Created:
        if not self.first:
            return super().create(new)
        self.first = False
        if self.lands:
            super().create(new)
        raise CommitUnknown("no reply", job=new.job_id)


@pytest.mark.parametrize("lands", [True, False])
def test_f07_a_lost_reply_is_cured_by_sending_it_again(lands: bool) -> None:
    world = World(LosesItsReply(lands=lands))
    lost = world.submit()
    assert (lost.status, lost.body["code"]) == (504, "commit_unknown")
    again = world.submit()
    assert again.body["created"] is not lands
    assert len(world.store.list().items) == 1


def test_f07_a_repeat_does_not_need_the_cluster_it_was_sent_to(world: World) -> None:
    job = world.job()
    document = json.loads(CLUSTERS)
    document["clusters"] = document["clusters"][1:]
    later = World(world.store, json.dumps(document))
    again = later.submit()
    assert (again.status, again.body["job_id"]) == (200, job)
    other = later.submit(spec={**SPEC, "nodes": 3})
    assert (other.status, other.body["code"]) == (409, "idempotency_conflict")
    assert len(world.store.list().items) == 1


def test_f07_a_repeat_does_not_need_the_job_it_superseded(world: World) -> None:
    first = world.job("first")
    world.settle(first)
    second = world.submit("second", supersedes=first)
    world.http("DELETE", f"/jobs/{first}")
    again = world.submit("second", supersedes=first)
    assert (again.status, again.body["job_id"]) == (200, second.body["job_id"])
    assert again.body["generation"] == 1


def test_f07_a_repeat_is_not_refused_by_what_a_cluster_has_come_to_refuse(world: World) -> None:
    job = world.job()
    world.cluster().refuses.append("field 'command': not any more")
    assert world.submit().body["job_id"] == job
    assert world.submit("fresh").status == 400


class DownAtFirst(MemoryRecords):
    """A store whose first create isn't written."""

    first = True

    def create(self, new: Any) -> Any:
        if self.first:
            self.first = False
            raise StoreUnavailable("no answer", job=new.job_id)
        return super().create(new)


def test_f07_a_submit_that_failed_leaves_nothing_in_progress() -> None:
    world = World(DownAtFirst(lambda: "t"))
    assert world.submit().status == 503
    assert world.submit().status == 201
