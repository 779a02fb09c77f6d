"""The queue that plays SQS: at least once, together, redelivered, and dead in the end."""

import json
from threading import Thread

import pytest

from dispatch.messages import Work
from embedded.queue import AGAIN_AFTER_S, MAX_RECEIVES, Batch, LocalQueue


class Span:
    """A monotonic clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def span() -> Span:
    return Span()


@pytest.fixture
def queue(span: Span) -> LocalQueue:
    return LocalQueue(span)


def taken(queue: LocalQueue) -> Batch:
    batch = queue.take()
    assert batch is not None
    return batch


def bodies(batch: Batch) -> list[str]:
    return [json.loads(one["body"])["cluster"] for one in batch.event()["Records"]]


def test_messages_of_one_group_come_together_and_others_apart(queue: LocalQueue) -> None:
    queue.send([Work(cluster="a"), Work(cluster="b"), Work(cluster="a", jobs=("jaaaaaaaa",))])
    assert bodies(taken(queue)) == ["a", "a"]
    assert bodies(taken(queue)) == ["b"]


def test_a_group_is_served_by_one_worker_at_a_time(queue: LocalQueue) -> None:
    queue.send([Work(cluster="a")])
    first = taken(queue)
    queue.send([Work(cluster="a", jobs=("jaaaaaaaa",)), Work(cluster="b")])
    assert bodies(taken(queue)) == ["b"]
    queue.done(first, [])
    assert bodies(taken(queue)) == ["a"]


def test_a_tick_that_waits_already_is_not_added(queue: LocalQueue) -> None:
    for _ in range(3):
        queue.send([Work(cluster="a")])
    batch = taken(queue)
    assert len(batch.messages) == 1
    queue.send([Work(cluster="a")])
    queue.done(batch, [])
    assert len(taken(queue).messages) == 1


def test_what_failed_comes_again_a_little_later(queue: LocalQueue, span: Span) -> None:
    queue.send([Work(cluster="a"), Work(cluster="a", jobs=("jaaaaaaaa",))])
    batch = taken(queue)
    queue.done(batch, [batch.messages[1].id])
    queue.send([Work(cluster="b")])
    assert bodies(taken(queue)) == ["b"]
    span.now += AGAIN_AFTER_S
    again = taken(queue)
    assert [one.id for one in again.messages] == [batch.messages[1].id]
    assert again.event()["Records"][0]["attributes"]["ApproximateReceiveCount"] == "2"


def test_poison_becomes_a_dead_letter_and_nothing_else_is_lost(
    queue: LocalQueue, span: Span
) -> None:
    queue.send([Work(cluster="poison"), Work(cluster="well")])
    served = []
    for _ in range(2 * MAX_RECEIVES):
        queue.send([Work(cluster="tick")])
        batch = taken(queue)
        served += bodies(batch)
        failed = [one.id for one in batch.messages if "poison" in one.body]
        queue.done(batch, failed)
        span.now += AGAIN_AFTER_S
    assert served.count("poison") == MAX_RECEIVES
    assert "well" in served
    assert queue.dead_letters() == [{"cluster": "poison", "shard": 0, "shards": 1}]


def test_a_closed_queue_lets_its_workers_go(queue: LocalQueue) -> None:
    got: list[Batch | None] = []
    waiting = Thread(target=lambda: got.append(queue.take()))
    waiting.start()
    queue.close()
    waiting.join(10)
    assert got == [None]
