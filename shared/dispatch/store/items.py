"""The records as items of one DynamoDB table: keys, requests and what replies mean. Pure.

| item | pk | sk | holds |
|---|---|---|---|
| head | `JOB#{id}` | `HEAD` | revision, labels, hint, and what the two indexes are made of |
| header | `JOB#{id}` | `HEADER` | schema, body, token; written once |
| entry | `JOB#{id}` | `E#{revision:010d}` | schema, kind, body, token; one item an entry |
| key | `KEY#{idempotency key}` | `KEY` | job id, spec digest, token; never deleted |
| lease | `CLUSTER#{name}` | `OWNER` | owner, fence, until |
| health | `CLUSTER#{cluster}` | `HEALTH` | what a supervisor last said |
| cluster | `CLUSTERS` | the cluster's name | that it ever had a record |

The index `open` (`{cluster}#{bucket}`, place) is sparse: a record leaves it when it is closed. The
index `listing` (cluster, place) has every record for ever. A record's key in these never changes,
so an index that lags can hide a record for a while, but can't show it twice. The index `retention`
(see `retention_items`) is sparse too: from the close of a record to its removal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import Enum, auto
from typing import Any

from dispatch.record.view import Envelope
from dispatch.store import rules
from dispatch.store.records import Due, Lease, Listed, NewRecord

Item = dict[str, Any]
"""An item, or a request, in DynamoDB's own JSON."""

OPEN_INDEX = "open"
LISTING_INDEX = "listing"
RETENTION_INDEX = "retention"
CLUSTERS = "CLUSTERS"

FIRST_ENTRY = "E#"
LAST_ENTRY = "E#~"
HEAD = "HEAD"
HEADER = "HEADER"


class Answer(Enum):
    """What a reply says about a write.

    * `NO`: its condition failed, maybe because this same write landed before.
    * `AGAIN`: nothing was written; it may be sent again.
    * `DOUBT`: it may have landed, or land yet.
    * `TOO_LARGE`: nothing was written; it would never fit.
    * `REFUSED`: nothing was written, and sending it again won't help.
    """

    NO = auto()
    AGAIN = auto()
    DOUBT = auto()
    TOO_LARGE = auto()
    REFUSED = auto()


_AGAIN = frozenset(
    {
        "TransactionConflict",
        "TransactionConflictException",
        "ProvisionedThroughputExceeded",
        "ProvisionedThroughputExceededException",
        "ThrottlingError",
        "ThrottlingException",
        "Throttling",
        "RequestLimitExceeded",
        "LimitExceededException",
    }
)
_DOUBT = frozenset(
    {
        "TransactionInProgressException",
        "InternalServerError",
        "InternalFailure",
        "ServiceUnavailable",
        "ServiceUnavailableException",
        "RequestTimeout",
        "RequestTimeoutException",
    }
)


def answer(error: Item) -> Answer:
    """Return what an error's response says about the write that it answers."""
    code = error.get("Error", {}).get("Code", "")
    if code == "ConditionalCheckFailedException":
        return Answer.NO
    if code == "TransactionCanceledException":
        return _cancelled(error.get("CancellationReasons") or [])
    if code in _AGAIN:
        return Answer.AGAIN
    status = error.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in _DOUBT or status >= 500:
        return Answer.DOUBT
    if code == "ValidationException" and "size" in error["Error"].get("Message", "").lower():
        return Answer.TOO_LARGE
    return Answer.REFUSED


def _cancelled(reasons: Sequence[Item]) -> Answer:
    codes = {reason.get("Code", "None") for reason in reasons} - {"None"}
    if "ConditionalCheckFailed" in codes:
        return Answer.NO
    if codes & _AGAIN or not codes:
        return Answer.AGAIN
    if any("size" in reason.get("Message", "").lower() for reason in reasons):
        return Answer.TOO_LARGE
    return Answer.REFUSED


# --- keys -------------------------------------------------------------------------------------


def key(pk: str, sk: str) -> Item:
    """Return the key of an item."""
    return {"pk": {"S": pk}, "sk": {"S": sk}}


def job_key(job_id: str, sk: str) -> Item:
    """Return the key of one item of a record."""
    return key(f"JOB#{job_id}", sk)


def entry_sk(revision: int) -> str:
    """Return the sort key of an entry; they sort as their numbers do, before `HEAD`."""
    return f"E#{revision:010d}"


def idempotency_key(value: str) -> Item:
    """Return the key of an idempotency entry."""
    return key(f"KEY#{value}", "KEY")


def owner_key(name: str) -> Item:
    """Return the key of a lease."""
    return key(f"CLUSTER#{name}", "OWNER")


def health_key(cluster: str) -> Item:
    """Return the key of a cluster's health."""
    return key(f"CLUSTER#{cluster}", "HEALTH")


# --- requests ---------------------------------------------------------------------------------


def create_table_request(table: str) -> Item:
    """Return the CreateTable request: on demand, both indexes, and the stream."""

    def index(name: str, partition: str, order: str, projected: Iterable[str] = ()) -> Item:
        projection: Item = {"ProjectionType": "KEYS_ONLY"}
        if projected:
            projection = {"ProjectionType": "INCLUDE", "NonKeyAttributes": list(projected)}
        return {
            "IndexName": name,
            "KeySchema": [
                {"AttributeName": partition, "KeyType": "HASH"},
                {"AttributeName": order, "KeyType": "RANGE"},
            ],
            "Projection": projection,
        }

    listed = ("job_id", "created_at", "revision", "settled_at")
    keys = ("pk", "sk", "place", "open_shard", "cluster", "retention_shard", "settled_at")
    return {
        "TableName": table,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in keys],
        "KeySchema": [
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ],
        "GlobalSecondaryIndexes": [
            index(OPEN_INDEX, "open_shard", "place", (*listed, "cluster", "quiet")),
            index(LISTING_INDEX, "cluster", "place", (*listed, "tombstoned")),
            index(RETENTION_INDEX, "retention_shard", "settled_at"),
        ],
        "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
    }


def create_request(table: str, new: NewRecord, token: str) -> Item:
    """Return the transaction that makes head, header and key, or none of them."""
    head = {
        **job_key(new.job_id, HEAD),
        "job_id": {"S": new.job_id},
        "idempotency_key": {"S": new.idempotency_key},
        "cluster": {"S": new.cluster},
        "open_shard": {"S": open_shard(new.cluster, rules.bucket_of(new.job_id))},
        "place": {"S": rules.place_of(new.created_at, new.job_id)},
        "created_at": {"S": rules.written(new.created_at)},
        "revision": {"N": "0"},
    }
    standing = {
        **idempotency_key(new.idempotency_key),
        "job_id": {"S": new.job_id},
        "spec_digest": {"S": new.spec_digest},
        "token": {"S": token},
    }
    header = {**job_key(new.job_id, HEADER), **_stored(new.job_id, 0, new.header, token)}
    return {
        "ClientRequestToken": token,
        "TransactItems": [_put_once(table, item) for item in (standing, head, header)],
    }


def commit_request(
    table: str,
    job_id: str,
    revision: int,
    entries: Sequence[Envelope],
    *,
    token: str,
    settled_at: datetime | None,
) -> Item:
    """Return the transaction that moves the head on and puts the entries, or does nothing."""
    update = "SET #revision = :next"
    values: Item = {":seen": {"N": str(revision)}, ":next": {"N": str(revision + len(entries))}}
    if settled_at is not None:
        update += ", settled_at = :settled_at"
        values[":settled_at"] = {"S": rules.written(settled_at)}
    head = {
        "TableName": table,
        "Key": job_key(job_id, HEAD),
        "UpdateExpression": update,
        "ConditionExpression": "#revision = :seen AND attribute_not_exists(tombstoned)",
        "ExpressionAttributeNames": {"#revision": "revision"},
        "ExpressionAttributeValues": values,
    }
    puts = [
        _put_once(
            table,
            {**job_key(job_id, entry_sk(number)), **_stored(job_id, number, entry, token)},
        )
        for number, entry in enumerate(entries, start=revision + 1)
    ]
    return {"ClientRequestToken": token, "TransactItems": [{"Update": head}, *puts]}


def _put_once(table: str, item: Item) -> Item:
    return {
        "Put": {"TableName": table, "Item": item, "ConditionExpression": "attribute_not_exists(pk)"}
    }


def _stored(job_id: str, revision: int, envelope: Envelope, token: str) -> Item:
    return {
        "job_id": {"S": job_id},
        "revision": {"N": str(revision)},
        "schema": {"S": envelope.schema},
        "kind": {"S": _kind(envelope)},
        "body": {"S": envelope.body},
        "token": {"S": token},
    }


def _kind(envelope: Envelope) -> str:
    """Return what a stream's filter asks for: the fact, or the kind of intent."""
    try:
        body = json.loads(envelope.body)
    except ValueError:
        return "unknown"
    if not isinstance(body, dict):
        return "unknown"
    kind = body.get("fact", body.get("kind"))
    return kind if isinstance(kind, str) and kind else "unknown"


def quiet_request(table: str, job_id: str, revision: int, text: str) -> Item:
    """Return the update that leaves a hint on an open record at that revision."""
    return {
        "TableName": table,
        "Key": job_key(job_id, HEAD),
        "UpdateExpression": "SET quiet = :quiet",
        "ConditionExpression": "#revision = :seen AND attribute_exists(open_shard)",
        "ExpressionAttributeNames": {"#revision": "revision"},
        "ExpressionAttributeValues": {":quiet": {"S": text}, ":seen": {"N": str(revision)}},
    }


def lease_request(table: str, lease: Lease, held: Lease | None) -> Item:
    """Return the update that keeps a lease in place of what was read, if that still stands."""
    request: Item = {
        "TableName": table,
        "Key": owner_key(lease.name),
        "UpdateExpression": "SET #owner = :owner, #fence = :fence, #until = :until",
        "ConditionExpression": "attribute_not_exists(pk)",
        "ExpressionAttributeNames": {"#owner": "owner", "#fence": "fence", "#until": "until"},
        "ExpressionAttributeValues": _lease_values(lease, ""),
    }
    if held is not None:
        request["ConditionExpression"] = (
            "#owner = :owner_seen AND #fence = :fence_seen AND #until = :until_seen"
        )
        request["ExpressionAttributeValues"] |= _lease_values(held, "_seen")
    return request


def _lease_values(lease: Lease, suffix: str) -> Item:
    return {
        f":owner{suffix}": {"S": lease.owner},
        f":fence{suffix}": {"N": str(lease.fence)},
        f":until{suffix}": {"S": rules.written(lease.until)},
    }


def record_query(table: str, job_id: str, *, first: str) -> Item:
    """Return the query for a record's entries from one on, its head and its header."""
    return {
        "TableName": table,
        "KeyConditionExpression": "pk = :pk AND sk BETWEEN :first AND :last",
        "ExpressionAttributeValues": {
            ":pk": {"S": f"JOB#{job_id}"},
            ":first": {"S": first},
            ":last": {"S": HEADER},
        },
        "ConsistentRead": True,
    }


def open_shard(cluster: str, bucket: int) -> str:
    """Return the partition of the index `open` that a bucket of a cluster's records has."""
    return f"{cluster}#{bucket}"


def index_query(
    table: str,
    partition: str,
    *,
    after: str,
    settled: bool | None,
    newest_first: bool = False,
) -> Item:
    """Return the query for one partition's records in their order.

    Args:
        table: The table.
        partition: A cluster's of the index `listing`, or one of the index `open` with its `#`.
        after: The place after which to begin.
        settled: True or False for records with or without the label.
        newest_first: Whether the order is turned round.
    """
    index, attribute = (
        (OPEN_INDEX, "open_shard") if settled is False else (LISTING_INDEX, "cluster")
    )
    beyond = "<" if newest_first else ">"
    request: Item = {
        "TableName": table,
        "IndexName": index,
        "ScanIndexForward": not newest_first,
        "KeyConditionExpression": f"#partition = :partition AND place {beyond} :after",
        "ExpressionAttributeNames": {"#partition": attribute},
        "ExpressionAttributeValues": {":partition": {"S": partition}, ":after": {"S": after}},
    }
    if not after:
        request["KeyConditionExpression"] = "#partition = :partition"
        del request["ExpressionAttributeValues"][":after"]
    if settled is not None:
        test = "attribute_exists" if settled else "attribute_not_exists"
        request["FilterExpression"] = f"{test}(settled_at)"
    return request


def open_query(table: str, cluster: str, bucket: int) -> Item:
    """Return the query for the open records of one bucket, settled or not."""
    return {
        "TableName": table,
        "IndexName": OPEN_INDEX,
        "KeyConditionExpression": "open_shard = :shard",
        "ExpressionAttributeValues": {":shard": {"S": open_shard(cluster, bucket)}},
    }


# --- what items say ---------------------------------------------------------------------------


def envelope_of(item: Item) -> Envelope:
    """Return the header or the entry of an item."""
    return Envelope(item["schema"]["S"], item["body"]["S"], item["token"]["S"])


def revision_of(item: Item) -> int:
    """Return the revision of a head, or the number of an entry."""
    return int(item["revision"]["N"])


def settled_at(item: Item) -> datetime | None:
    """Return the label of a head."""
    return rules.moment(item["settled_at"]["S"]) if "settled_at" in item else None


def listed_of(item: Item) -> Listed:
    """Return the line that a head makes in a listing."""
    return Listed(
        job_id=item["job_id"]["S"],
        cluster=item["cluster"]["S"],
        created_at=rules.moment(item["created_at"]["S"]),
        revision=revision_of(item),
        settled_at=settled_at(item),
        tombstoned="tombstoned" in item,
    )


def due_of(item: Item) -> Due:
    """Return the line that a head makes in the index of open records."""
    quiet = item["quiet"]["S"] if "quiet" in item else None
    return Due(item["job_id"]["S"], revision_of(item), rules.quiet_of(quiet))


def lease_of(name: str, item: Item) -> Lease:
    """Return the lease of an item."""
    return Lease(
        name, item["owner"]["S"], int(item["fence"]["N"]), rules.moment(item["until"]["S"])
    )
