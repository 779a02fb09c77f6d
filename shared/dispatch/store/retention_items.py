"""How a record leaves the table: closed, marked, removed; requests of the index `retention`. Pure.

The head bears `retention_shard` from its close to the end of its removal: `settled#{bucket}` while
it may be archived by age, then `tombstoned#{bucket}` until nothing but head and key is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from dispatch.store import rules
from dispatch.store.items import HEAD, RETENTION_INDEX, Item, job_key

SETTLED = "settled"
TOMBSTONED = "tombstoned"


def shards(state: str) -> Iterator[str]:
    """Yield the partitions of the index that hold the records of a state."""
    for bucket in range(rules.BUCKETS):
        yield f"{state}#{bucket}"


def _shard(state: str, job_id: str) -> Item:
    return {"S": f"{state}#{rules.bucket_of(job_id)}"}


def close_request(table: str, job_id: str) -> Item:
    """Return the update that moves a settled record from the index `open` to `retention`."""
    return {
        "TableName": table,
        "Key": job_key(job_id, HEAD),
        "UpdateExpression": "SET retention_shard = :shard REMOVE open_shard, quiet",
        "ConditionExpression": "attribute_exists(settled_at) AND attribute_not_exists(tombstoned)",
        "ExpressionAttributeValues": {":shard": _shard(SETTLED, job_id)},
    }


def tombstone_request(table: str, job_id: str, revision: int | None = None) -> Item:
    """Return the update that marks a settled record, at that revision only if one is given."""
    request: Item = {
        "TableName": table,
        "Key": job_key(job_id, HEAD),
        "UpdateExpression": (
            "SET tombstoned = :true, retention_shard = :shard REMOVE open_shard, quiet"
        ),
        "ConditionExpression": "attribute_exists(settled_at)",
        "ExpressionAttributeValues": {
            ":true": {"BOOL": True},
            ":shard": _shard(TOMBSTONED, job_id),
        },
    }
    if revision is not None:
        request["ConditionExpression"] += " AND #revision = :seen"
        request["ExpressionAttributeNames"] = {"#revision": "revision"}
        request["ExpressionAttributeValues"][":seen"] = {"N": str(revision)}
    return request


def removed_request(table: str, job_id: str) -> Item:
    """Return the update that says of a tombstoned record that nothing is left to remove."""
    return {
        "TableName": table,
        "Key": job_key(job_id, HEAD),
        "UpdateExpression": "REMOVE retention_shard",
        "ConditionExpression": "attribute_exists(tombstoned)",
    }


def retention_query(table: str, shard: str, settled_by: datetime | None = None) -> Item:
    """Return the query for one partition's records, those settled by then if a time is given."""
    request: Item = {
        "TableName": table,
        "IndexName": RETENTION_INDEX,
        "KeyConditionExpression": "retention_shard = :shard",
        "ExpressionAttributeValues": {":shard": {"S": shard}},
    }
    if settled_by is not None:
        request["KeyConditionExpression"] += " AND settled_at <= :by"
        request["ExpressionAttributeValues"][":by"] = {"S": rules.written(settled_by)}
    return request


def job_of(item: Item) -> str:
    """Return whose head a line of the index is."""
    return str(item["pk"]["S"]).removeprefix("JOB#")
