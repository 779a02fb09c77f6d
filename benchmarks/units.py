"""What requests consume and cost, counted from the sizes of their items, not from an engine's word.

The rules are DynamoDB's published ones, on demand: a write unit is 1 KB, twice that in a
transaction; a read unit is 4 KB of strongly consistent reading, or 8 KB otherwise. An index costs
a write of its own where something it projects changes, and two where its key does.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING, Any

from dispatch.store import items

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Item = dict[str, Any]

DOLLARS_A_MILLION_WRITES = 0.625
DOLLARS_A_MILLION_READS = 0.125
"""List prices of us-east-1 on demand, as published since November 2024."""

_TABLE = items.create_table_request("any")
_KEYS = frozenset({"pk", "sk"})


def value_size(value: Item) -> int:
    """Return the size of an attribute's value, bytes."""
    ((kind, inner),) = value.items()
    match kind:
        case "S":
            return len(inner.encode())
        case "N":
            return ceil(len(inner.lstrip("-")) / 2) + 1
        case "BOOL" | "NULL":
            return 1
        case _:
            raise ValueError(f"no item of ours holds {kind}")


def size(item: Item) -> int:
    """Return the size of an item, bytes: names and values."""
    return sum(len(name.encode()) + value_size(value) for name, value in item.items())


@dataclass(slots=True)
class Consumed:
    """What was consumed.

    Attributes:
        writes: Write units.
        reads: Read units.
        requests: How many requests of each kind.
        index_pages: Pages read from an index.
        record_reads: Records read.
    """

    writes: float = 0.0
    reads: float = 0.0
    requests: Counter[str] = field(default_factory=Counter)
    index_pages: int = 0
    record_reads: int = 0

    @property
    def dollars(self) -> float:
        """Return the list price."""
        return (self.writes * DOLLARS_A_MILLION_WRITES + self.reads * DOLLARS_A_MILLION_READS) / 1e6

    def told(self) -> dict[str, Any]:
        """Return it for the JSON."""
        return {
            "write_units": self.writes,
            "read_units": self.reads,
            "requests": dict(self.requests),
            "index_pages": self.index_pages,
            "record_reads": self.record_reads,
            "dollars": self.dollars,
        }


class Meter:
    """Listens to a client and counts; another client looks at items before and after a write.

    Args:
        client: Whose requests are counted.
        beside: A client that isn't counted.
    """

    def __init__(self, client: DynamoDBClient, beside: DynamoDBClient) -> None:
        self.consumed = Consumed()
        self._beside = beside
        self._sent: Item = {}
        self._before: list[tuple[str, Item, Item]] = []
        client.meta.events.register("provide-client-params.dynamodb", self._asked)
        client.meta.events.register("after-call.dynamodb", self._answered)

    def taken(self) -> Consumed:
        """Return what was consumed since the last time."""
        taken, self.consumed = self.consumed, Consumed()
        return taken

    def _asked(self, params: Item, model: Any, **_: Any) -> None:
        self._sent = params
        self._before = [
            (table, key, self._item(table, key)) for table, key in _written(model.name, params)
        ]

    def _item(self, table: str, key: Item) -> Item:
        found = self._beside.get_item(TableName=table, Key=key, ConsistentRead=True)
        return dict(found.get("Item", {}))

    def _answered(self, parsed: Item, model: Any, **_: Any) -> None:
        name = model.name
        self.consumed.requests[name] += 1
        twice = 2 if name == "TransactWriteItems" else 1
        for table, key, before in self._before:
            after = self._item(table, key)
            larger = max(size(before) if before else 0, size(after) if after else 0)
            self.consumed.writes += twice * max(1, ceil(larger / 1024))
            self.consumed.writes += _index_writes(before, after)
        self._before = []
        if name == "GetItem":
            self._read([parsed["Item"]] if "Item" in parsed else [])
        elif name == "Query":
            self._read(parsed["Items"])
            if "IndexName" in self._sent:
                self.consumed.index_pages += 1
            else:
                self.consumed.record_reads += 1

    def _read(self, found: list[Item]) -> None:
        units = max(1, ceil(sum(size(one) for one in found) / 4096))
        self.consumed.reads += units if self._sent.get("ConsistentRead") else units / 2


def _written(name: str, params: Item) -> list[tuple[str, Item]]:
    match name:
        case "PutItem":
            return [(params["TableName"], _key(params["Item"]))]
        case "UpdateItem":
            return [(params["TableName"], params["Key"])]
        case "TransactWriteItems":
            found = []
            for action in params["TransactItems"]:
                ((kind, inner),) = action.items()
                key = _key(inner["Item"]) if kind == "Put" else inner["Key"]
                found.append((inner["TableName"], key))
            return found
        case _:
            return []


def _key(item: Item) -> Item:
    return {"pk": item["pk"], "sk": item["sk"]}


def _index_writes(before: Item, after: Item) -> int:
    """Return the write units that the indexes consume for one item's change."""
    units = 0
    for index in _TABLE["GlobalSecondaryIndexes"]:
        keys = {part["AttributeName"] for part in index["KeySchema"]}
        names = keys | _KEYS | set(index["Projection"].get("NonKeyAttributes", ()))
        old = _projected(before, keys, names)
        new = _projected(after, keys, names)
        if old == new:
            continue
        moved = bool(old and new) and any(old[key] != new[key] for key in keys)
        for one in (old, new) if moved else (new or old,):
            units += max(1, ceil(size(one) / 1024))
    return units


def _projected(item: Item, keys: set[str], names: set[str]) -> Item:
    if not keys <= item.keys():
        return {}
    return {name: value for name, value in item.items() if name in names}
