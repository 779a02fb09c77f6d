"""A reader that plays the table's stream: what was appended, to whom it concerns.

The filters are those of the template's mappings: headers and control intents wake the supervisor,
entries are published, each of any version: a person is told of those that this build doesn't know.
How far was read is kept after it was handed on, so any death repeats.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from dispatch.errors import StoreUnavailable
from dispatch.store.records import Change, Feed
from embedded.state import Position

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Record = dict[str, Any]
Function = Callable[[dict[str, Any]], dict[str, Any]]

BATCH = 100

WAKING_SCHEMAS = ("dispatch.control.", "dispatch.header.")
"""What the schemas of a new job and of what people want begin with, whatever their version."""

ENTRY_KEYS = "E#"
"""What the sort key of every entry begins with, whatever its schema."""


class Source(Protocol):
    """Where stream records come from, shard by shard and in order within each."""

    def read(self, position: Position) -> Iterator[tuple[str, list[Record]]]:
        """Yield a shard's name and its next records, some shards at a time.

        Raises:
            StoreUnavailable: Try later.
        """
        ...


class FeedSource:
    """A store's own feed as a stream of one shard.

    Args:
        feed: The store.
    """

    SHARD = "feed"

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    def read(self, position: Position) -> Iterator[tuple[str, list[Record]]]:
        """Yield what was appended since (see `Source`)."""
        changes = self._feed.changes(int(position.get(self.SHARD) or 0), BATCH)
        if changes:
            yield self.SHARD, [image_of(one) for one in changes]


def image_of(change: Change) -> Record:
    """Return a header or an entry as DynamoDB's stream shows its item."""
    stored = change.envelope
    body = _object(stored.body)
    kind = body.get("fact", body.get("kind", "unknown"))
    sk = "HEADER" if change.revision == 0 else f"E#{change.revision:010d}"
    return {
        "eventID": str(change.seq),
        "eventName": "INSERT",
        "eventSource": "aws:dynamodb",
        "dynamodb": {
            "Keys": {"pk": {"S": f"JOB#{change.job_id}"}, "sk": {"S": sk}},
            "NewImage": {
                "pk": {"S": f"JOB#{change.job_id}"},
                "sk": {"S": sk},
                "job_id": {"S": change.job_id},
                "revision": {"N": str(change.revision)},
                "schema": {"S": stored.schema},
                "kind": {"S": str(kind)},
                "body": {"S": stored.body},
                "token": {"S": stored.token},
            },
            "SequenceNumber": str(change.seq),
            "StreamViewType": "NEW_IMAGE",
        },
    }


def _object(text: str) -> Mapping[str, Any]:
    try:
        body = json.loads(text)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


class TableSource:
    """The stream of a DynamoDB table.

    Args:
        client: For the table's description.
        streams: A client of `dynamodbstreams`.
        table: The table's name.
    """

    def __init__(self, client: DynamoDBClient, streams: Any, table: str) -> None:
        self._client = client
        self._streams = streams
        self._table = table
        self._arn: str | None = None
        self._iterators: dict[str, str | None] = {}

    def read(self, position: Position) -> Iterator[tuple[str, list[Record]]]:
        """Yield what each shard shows since (see `Source`)."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            for shard in self._shards():
                records = self._next(shard, position)
                if records:
                    yield shard, records
        except (ClientError, BotoCoreError) as error:
            self._iterators.clear()
            raise StoreUnavailable(f"the stream of table {self._table}: {error}") from error

    def _shards(self) -> list[str]:
        if self._arn is None:
            table = self._client.describe_table(TableName=self._table)["Table"]
            self._arn = table["LatestStreamArn"]
        shards: list[str] = []
        more: dict[str, str] = {}
        while True:
            told = self._streams.describe_stream(StreamArn=self._arn, **more)["StreamDescription"]
            shards += [shard["ShardId"] for shard in told["Shards"]]
            last = told.get("LastEvaluatedShardId")
            if not last:
                return shards
            more = {"ExclusiveStartShardId": last}

    def _next(self, shard: str, position: Position) -> list[Record]:
        iterator = self._iterators.get(shard)
        if iterator is None:
            if shard in self._iterators:
                return []  # the shard is closed and was read to its end
            iterator = self._begun(shard, position.get(shard))
        answer = self._streams.get_records(ShardIterator=iterator, Limit=BATCH)
        self._iterators[shard] = answer.get("NextShardIterator")
        return [
            {**record, "eventSource": "aws:dynamodb"}
            for record in answer["Records"]
            if record["eventName"] == "INSERT"
        ]

    def _begun(self, shard: str, after: str | None) -> str:
        where: dict[str, str] = {"ShardIteratorType": "TRIM_HORIZON"}
        if after is not None:
            where = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": after}
        answer = self._streams.get_shard_iterator(StreamArn=self._arn, ShardId=shard, **where)
        return str(answer["ShardIterator"])


def wakes(record: Record) -> bool:
    """Return whether a record is a new job, or what somebody wants of one."""
    image = record["dynamodb"].get("NewImage", {})
    return str(image.get("schema", {}).get("S", "")).startswith(WAKING_SCHEMAS)


def publishes(record: Record) -> bool:
    """Return whether a record is an entry, which may have decided something."""
    return str(record["dynamodb"]["Keys"]["sk"]["S"]).startswith(ENTRY_KEYS)


class StreamReader:
    """Hands new records to the two functions that the template maps the stream to.

    Args:
        source: Where records come from.
        position: How far was read.
        wake: The supervisor's handler.
        publish: The handler of the events function.
    """

    def __init__(
        self, source: Source, position: Position, wake: Function, publish: Function
    ) -> None:
        self._source = source
        self._position = position
        self._wake = wake
        self._publish = publish

    def step(self) -> int:
        """Hand on what is new, and return how many records that were.

        Raises:
            StoreUnavailable: The stream can't be read now.
            TryLater: A function couldn't do it now; the records come again.
        """
        seen = 0
        for shard, records in self._source.read(self._position):
            self._give(self._wake, filter(wakes, records))
            self._give(self._publish, filter(publishes, records))
            self._position.put({shard: records[-1]["dynamodb"]["SequenceNumber"]})
            seen += len(records)
        return seen

    def _give(self, function: Function, records: Iterable[Record]) -> None:
        wanted = list(records)
        if not wanted:
            return
        failures = function({"Records": wanted}).get("batchItemFailures")
        if failures:
            raise StoreUnavailable("a function of the stream couldn't do its work yet")
