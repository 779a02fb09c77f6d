"""The supervisor's three events: ticks, the stream and the queue."""

from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from dispatch.errors import InvalidRequest, TryLater
from dispatch.messages import Work, parse_work
from dispatch.record.evidence import Found
from dispatch.record.fact import FACT_SCHEMA
from dispatch.record.header import HEADER_SCHEMA
from dispatch.record.names import Cause, ObjectState
from dispatch.record.view import Envelope
from dispatch.schedulers.scheduler import StartOrder, StartRefused
from dispatch.store.sqlite import SqliteRecords
from tests.functions.world import Context, World, fixture


def stream(*jobs: str) -> dict[str, Any]:
    records = [fixture("stream-control", job=job)["Records"][0] for job in jobs]
    return {"Records": records}


# --- ticks ------------------------------------------------------------------------------------


def test_a_tick_becomes_one_message_for_each_cluster_and_shard(world: World) -> None:
    assert world.supervisor(fixture("tick"), Context()) == {"queued": 5}
    assert world.queue.sent == [
        Work(cluster="main"),
        *(Work(cluster="wide", shard=k, shards=4) for k in range(4)),
    ]


def test_a_tick_asks_no_cluster_and_reads_no_record(world: World) -> None:
    world.job()
    world.supervisor(fixture("tick"), Context())
    assert world.cluster().looks == 0


def test_a_tick_that_could_not_be_queued_fails_aloud(world: World) -> None:
    class Full:
        def send(self, messages: Any) -> None:
            raise TryLater("full")

    world.wiring._kept.queue = Full()
    with pytest.raises(TryLater):
        world.supervisor(fixture("tick"), Context())


# --- stream -----------------------------------------------------------------------------------


def test_an_intent_in_the_stream_queues_its_job_at_once(world: World) -> None:
    job = world.job()
    world.intend(job, "cancel")
    world.supervisor(stream(job), Context())
    assert world.queue.sent == [Work(cluster="main", jobs=(job,))]
    assert world.cluster().looks == 0


def test_intents_of_one_cluster_travel_together(world: World) -> None:
    jobs = [world.job(f"k{k}") for k in range(3)]
    other = world.job("other", cluster="wide")
    world.supervisor(stream(*jobs, jobs[0], other), Context())
    assert world.queue.sent == [
        Work(cluster="main", jobs=tuple(jobs)),
        Work(cluster="wide", jobs=(other,)),
    ]


def test_a_job_that_is_gone_from_the_store_wakes_nobody(world: World) -> None:
    world.supervisor(stream("jaaaaaaaa"), Context())
    assert world.queue.sent == []


def test_a_header_of_a_newer_build_still_tells_whom_to_wake(world: World) -> None:
    job = world.job()
    world.settle(job)
    view = world.store.read(job)
    body = view.header.body.replace('"created_by"', '"color":"blue","created_by"')
    from functions.supervisor.app import _cluster_in

    assert _cluster_in(view) == "main"
    newer = Envelope(HEADER_SCHEMA, body)
    assert _cluster_in(type(view)(job, newer)) == "main"
    assert _cluster_in(type(view)(job, Envelope(HEADER_SCHEMA, "[]"))) is None


# --- queue ------------------------------------------------------------------------------------


def test_messages_of_one_cluster_are_served_with_one_look(world: World) -> None:
    jobs = [world.job(f"k{k}") for k in range(3)]
    bodies = [f'{{"cluster":"main","jobs":["{job}"]}}' for job in jobs]
    assert world.work(*bodies) == []
    assert world.cluster().looks == 1
    assert len(world.cluster().starts) == 3


def test_a_job_goes_from_submit_to_settled_by_ticks_alone(world: World) -> None:
    job = world.job()
    status = world.settle(job)
    assert status["outcome"] == "succeeded"
    assert len(world.cluster().starts) == 1


def test_a_message_that_is_none_comes_again_and_spoils_no_other(world: World) -> None:
    job = world.job()
    again = world.work("nonsense", f'{{"cluster":"main","jobs":["{job}"]}}', '{"cluster":1}')
    assert again == ["0", "2"]
    assert len(world.cluster().starts) == 1


def test_a_message_twice_or_late_does_nothing_twice(world: World) -> None:
    job = world.job()
    body = f'{{"cluster":"main","jobs":["{job}"]}}'
    world.work(body, body)
    world.settle(job)
    revision = world.store.read(job).revision
    world.work(body)
    assert world.store.read(job).revision == revision
    assert len(world.cluster().starts) == 1


def test_work_is_not_begun_without_time_and_comes_again(world: World) -> None:
    job = world.job()
    body = f'{{"cluster":"main","jobs":["{job}"]}}'
    assert world.work(body, context=Context(seconds=3)) == ["0"]
    assert world.cluster().starts == []


class RunsOut(Context):
    """A call whose time runs out while it works."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.looks = looks

    def get_remaining_time_in_millis(self) -> int:
        self.looks -= 1
        return 60_000 if self.looks >= 0 else 1_500


def test_named_jobs_that_time_did_not_suffice_for_come_again(world: World) -> None:
    jobs = [world.job(f"k{k}") for k in range(4)]
    bodies = [f'{{"cluster":"main","jobs":["{job}"]}}' for job in jobs]
    again = world.work(*bodies, context=RunsOut(looks=6))
    assert 0 < len(again) < 4
    assert world.work(*bodies) == []
    assert {tag.job for tag in world.cluster().starts} == set(jobs)


def test_f06_a_cluster_that_does_not_answer_is_no_failure_of_its_messages(world: World) -> None:
    job = world.job()
    world.cluster().down = True
    assert world.work('{"cluster":"main"}', f'{{"cluster":"main","jobs":["{job}"]}}') == []
    assert world.store.read(job).revision == 0
    health = world.store.get_health("main")
    assert health is not None
    assert health.last_error is not None


def test_a_cluster_that_is_not_configured_any_more_makes_no_dead_letters(world: World) -> None:
    assert world.work('{"cluster":"moon"}') == []


def test_a_failure_that_nobody_foresaw_comes_again_and_spoils_no_other_cluster(
    world: World,
) -> None:
    main, wide = world.job("a"), world.job("b", cluster="wide")

    def broken() -> Any:
        raise RuntimeError("no one foresaw this")

    world.cluster("main").glance = broken  # type: ignore[method-assign]
    again = world.work(
        f'{{"cluster":"main","jobs":["{main}"]}}', f'{{"cluster":"wide","jobs":["{wide}"]}}'
    )
    assert again == ["0"]
    assert len(world.cluster("wide").starts) == 1


def test_an_unfoldable_record_gets_no_calls_and_is_told_of(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    job = world.job()
    world.store.commit(job, 0, (Envelope(FACT_SCHEMA, '{"fact":"nonsense"}', "t"),))
    assert world.work(f'{{"cluster":"main","jobs":["{job}"]}}') == []
    assert world.cluster().starts == []
    assert any("no calls are made" in message for message in caplog.messages)


def test_shards_divide_a_cluster_s_jobs_and_leave_none_out(world: World) -> None:
    jobs = {world.job(f"k{k}", cluster="wide") for k in range(12)}
    world.supervisor(fixture("tick"), Context())
    for work in world.queue.take():
        if work.cluster == "wide":
            world.work(work.model_dump_json(exclude_none=True))
    assert {tag.job for tag in world.cluster("wide").starts} == jobs


def test_f36_a_look_that_loses_most_live_objects_at_once_is_not_believed(
    tmp_path: Path,
) -> None:
    numbers = count()
    world = World(SqliteRecords(tmp_path / "records.sqlite", lambda: f"t{next(numbers)}"))
    world.cluster().ends = ObjectState.RUNNING
    jobs = [world.job(f"k{k}") for k in range(6)]
    for _ in range(3):
        world.work('{"cluster":"main"}')
    before = {job: world.store.read(job).revision for job in jobs}
    world.cluster().objects.clear()
    world.clock.forward(3600)
    world.work('{"cluster":"main"}')
    assert {job: world.store.read(job).revision for job in jobs} == before
    health = world.store.get_health("main")
    assert health is not None
    assert "6 of 6" in dict(health.escalations)["mass_loss"]
    world.store.put_health(replace(health, loss_accepted_at=world.clock()))
    world.work('{"cluster":"main"}')
    assert all(world.store.read(job).revision > before[job] for job in jobs)


def test_what_became_due_after_a_look_is_not_left_to_the_next_whole_look(world: World) -> None:
    """A refused start fell due between a look and the pass over it, and then slept (seed 15)."""
    cluster = world.cluster()
    start, find = cluster.start, cluster.find

    def refused(order: StartOrder) -> Any:
        return StartRefused(Cause.START_REFUSED, "denied")

    cluster.start = refused  # type: ignore[method-assign]
    job = world.job(plan={"default": {"action": "hold"}, "start_backoff_s": 60})
    world.work('{"cluster":"main"}')
    cluster.start = start  # type: ignore[method-assign]

    def slow() -> Found:
        found = find()
        world.clock.forward(90)  # the back-off is over now, and wasn't when the list was taken
        return found

    cluster.find = slow  # type: ignore[method-assign]
    world.work('{"cluster":"main"}')
    cluster.find = find  # type: ignore[method-assign]
    assert cluster.starts == []
    world.clock.forward(30)
    world.work('{"cluster":"main"}')
    assert [tag.job for tag in cluster.starts] == [job]


def test_an_event_of_another_kind_is_refused(world: World) -> None:
    with pytest.raises(InvalidRequest):
        world.supervisor({"Records": [{"eventSource": "aws:s3"}]}, Context())


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"cluster":"main","cluster":"wide"}',
        '{"cluster":"main","jobs":[]}',
        '{"cluster":"main","shard":-1}',
        '{"cluster":"main","color":1}',
    ],
)
def test_a_work_message_is_read_strictly(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_work(text)
