"""The reader that plays the table's stream: the same records and filters, nothing left out."""

from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from dispatch.errors import StoreUnavailable
from dispatch.record.view import Envelope
from dispatch.store import items
from dispatch.store.records import Change
from embedded.state import Position
from embedded.stream import FeedSource, StreamReader, TableSource, image_of
from tests.functions.world import World


class Function:
    """Takes events and keeps the entries in them; may be told to fail."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.failing = False

    def __call__(self, event: dict[str, Any]) -> dict[str, Any]:
        if self.failing:
            return {"batchItemFailures": [{"itemIdentifier": "1"}]}
        for record in event["Records"]:
            image = record["dynamodb"]["NewImage"]
            self.seen.append((image["sk"]["S"], image["schema"]["S"]))
        return {"batchItemFailures": []}


class Read:
    """A reader over a source, with both of its functions."""

    def __init__(self, source: Any, path: Path) -> None:
        self.wake, self.publish = Function(), Function()
        self.source, self.path = source, path
        self.reader = self.again()

    def again(self) -> StreamReader:
        return StreamReader(self.source, Position(self.path), self.wake, self.publish)


def with_history(world: World) -> str:
    job = world.job()
    world.intend(job, "cancel")
    world.settle(job)
    return job


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def read(world: World, tmp_path: Path) -> Read:
    return Read(FeedSource(world.store), tmp_path / "stream.json")  # type: ignore[arg-type]


def test_headers_and_intents_wake_and_entries_are_published(world: World, read: Read) -> None:
    job = with_history(world)
    while read.reader.step():
        pass
    view = world.store.read(job)
    assert read.wake.seen == [
        ("HEADER", "dispatch.header.v1"),
        ("E#0000000001", "dispatch.control.v1"),
    ]
    assert read.publish.seen == [
        (items.entry_sk(number), entry.schema) for number, entry in enumerate(view.entries, start=1)
    ]


def test_an_entry_of_a_later_build_is_published_too_so_that_a_person_is_told(
    world: World, read: Read
) -> None:
    job = world.job()
    world.store.commit(job, 0, [Envelope("dispatch.fact.v99", "{}", "")])
    world.store.commit(job, 1, [Envelope("dispatch.control.v99", "{}", "")])
    while read.reader.step():
        pass
    later = [(items.entry_sk(1), "dispatch.fact.v99"), (items.entry_sk(2), "dispatch.control.v99")]
    assert read.publish.seen == later
    assert read.wake.seen == [("HEADER", "dispatch.header.v1"), later[1]]


def test_what_was_handed_on_is_not_handed_on_again(world: World, read: Read) -> None:
    with_history(world)
    while read.reader.step():
        pass
    assert read.again().step() == 0


def test_what_a_function_could_not_do_comes_again(world: World, read: Read) -> None:
    with_history(world)
    read.publish.failing = True
    with pytest.raises(StoreUnavailable):
        read.reader.step()
    read.publish.failing = False
    woken = len(read.wake.seen)
    while read.reader.step():
        pass
    assert read.publish.seen
    assert len(read.wake.seen) == 2 * woken, "a wake may come twice, but none is left out"


def test_an_image_has_the_attributes_of_the_table_s_item() -> None:
    stored = Envelope("dispatch.control.v1", '{"id":"i","kind":"cancel"}', "t")
    request = items.commit_request("t", "jaaaaaaaa", 6, (stored,), token="t", settled_at=None)
    item = request["TransactItems"][1]["Put"]["Item"]
    assert image_of(Change(1, "jaaaaaaaa", 7, stored))["dynamodb"]["NewImage"] == item


def test_an_entry_that_is_no_json_still_travels() -> None:
    image = image_of(Change(1, "jaaaaaaaa", 1, Envelope("dispatch.fact.v1", "{", "t")))
    assert image["dynamodb"]["NewImage"]["kind"] == {"S": "unknown"}


# --- a table's own stream ---------------------------------------------------------------------


class MadeUpStream:
    """Shards of records, and answers of the shape that DynamoDB's stream gives."""

    def __init__(self, **shards: list[str]) -> None:
        self.shards = shards
        self.closed: set[str] = set()
        self.failing = False

    def describe_table(self, TableName: str) -> Any:  # noqa: N803 - as AWS names it
        if self.failing:
            raise ClientError({"Error": {"Code": "InternalServerError"}}, "DescribeTable")
        return {"Table": {"LatestStreamArn": "arn"}}

    def describe_stream(self, **asked: str) -> Any:
        names = sorted(self.shards)
        if "ExclusiveStartShardId" in asked:
            return {"StreamDescription": {"Shards": [{"ShardId": one} for one in names[1:]]}}
        first = {"Shards": [{"ShardId": names[0]}]}
        if len(names) > 1:
            first["LastEvaluatedShardId"] = names[0]  # type: ignore[assignment]
        return {"StreamDescription": first}

    def get_shard_iterator(self, **asked: str) -> Any:
        after = int(asked.get("SequenceNumber", "-1"))
        assert ("SequenceNumber" in asked) == (asked["ShardIteratorType"] != "TRIM_HORIZON")
        return {"ShardIterator": f"{asked['ShardId']}/{after + 1}"}

    def get_records(self, ShardIterator: str, Limit: int) -> Any:  # noqa: N803 - as AWS names it
        shard, _, place = ShardIterator.partition("/")
        first = int(place)
        kept = self.shards[shard][first:]
        records = []
        for number, kind in enumerate(kept, start=first):
            record = image_of(
                Change(number, "jaaaaaaaa", number, Envelope("dispatch.control.v1", "{}", "t"))
            )
            record["eventName"] = kind
            del record["eventSource"]
            records.append(record)
        answer: dict[str, Any] = {"Records": records}
        if shard not in self.closed:
            answer["NextShardIterator"] = f"{shard}/{first + len(kept)}"
        return answer


def table_source(stream: MadeUpStream) -> TableSource:
    return TableSource(stream, stream, "records")  # type: ignore[arg-type]


def numbers(function: Function) -> list[int]:
    return [0 if sk == "HEADER" else int(sk.removeprefix("E#")) for sk, _ in function.seen]


def test_every_shard_of_a_table_is_read_on_from_where_it_was_left(tmp_path: Path) -> None:
    stream = MadeUpStream(a=["INSERT"] * 3, b=["INSERT"] * 2)
    read = Read(table_source(stream), tmp_path / "stream.json")
    assert read.reader.step() == 5
    assert numbers(read.wake) == [0, 1, 2, 0, 1]
    stream.shards["a"].append("INSERT")
    assert read.reader.step() == 1
    again = Read(table_source(stream), tmp_path / "stream.json")
    assert again.reader.step() == 0
    stream.shards["b"].append("INSERT")
    assert again.reader.step() == 1


def test_only_what_was_put_into_the_table_travels(tmp_path: Path) -> None:
    stream = MadeUpStream(a=["INSERT", "MODIFY", "REMOVE", "INSERT", "MODIFY"])
    read = Read(table_source(stream), tmp_path / "stream.json")
    read.reader.step()
    assert numbers(read.wake) == [0, 3]


def test_a_closed_shard_is_read_to_its_end_once(tmp_path: Path) -> None:
    stream = MadeUpStream(a=["INSERT"], b=["INSERT"])
    stream.closed.add("a")
    read = Read(table_source(stream), tmp_path / "stream.json")
    assert read.reader.step() == 2
    assert read.reader.step() == 0


def test_a_stream_that_cannot_be_read_is_said_to_be_tried_later(tmp_path: Path) -> None:
    stream = MadeUpStream(a=["INSERT"])
    stream.failing = True
    read = Read(table_source(stream), tmp_path / "stream.json")
    with pytest.raises(StoreUnavailable, match="records"):
        read.reader.step()
    stream.failing = False
    assert read.reader.step() == 1
