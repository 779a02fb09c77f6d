"""Commit and read beside the same bare calls, on SQLite and on a DynamoDB engine; units."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.engine import client_of, engine, folder, table_on, token
from benchmarks.figures import Effort, Figure, Told, at_most
from benchmarks.rounds import Timed, one_by_one
from benchmarks.units import Meter
from benchmarks.written import entries_of, header_of, record_of
from dispatch.record.header import Header
from dispatch.record.view import Envelope
from dispatch.store.dynamodb import DynamoRecords
from dispatch.store.records import Records
from dispatch.store.sqlite import SqliteRecords

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

COMMIT_AIM = 1.15
READ_AIM = 1.2
SHORT, LONG = 8, 64
"""Entries of the records that are read: a job that ran once, and one that ran eight times."""

WHY_SQLITE = (
    "the disk's own sync is the larger part of both; what is left is the check of sizes, a pooled"
    " connection, and reading the record's row before it is moved on"
)
WHY_SQLITE_READ = (
    "what is left, about 5 microseconds a read and a fifth of one a row, is lending a connection,"
    " the look for a gap, and making an envelope of each row; a view that makes its envelopes when"
    " they are asked for would save the latter"
)
WHY_DYNAMODB = "each item is told apart, numbered and made an envelope, in Python"


def measure(effort: Effort) -> list[Told]:
    """Return the figures of both stores."""
    with folder() as place:
        told = _sqlite(place, effort)
    with engine() as endpoint:
        told += _dynamodb(endpoint, effort)
    return told


# --- SQLite -----------------------------------------------------------------------------------


def _sqlite(place: Path, effort: Effort) -> list[Told]:
    store = SqliteRecords(place / "ours.sqlite", token)
    SqliteRecords(place / "bare.sqlite", token).close_file()  # the same tables
    bare = sqlite3.connect(place / "bare.sqlite", isolation_level=None)
    bare.execute("PRAGMA journal_mode = WAL")
    bare.execute("PRAGMA synchronous = FULL")
    headers = [header_of(f"sqlite-{size}") for size in (SHORT, LONG)]
    for header, size in zip(headers, (SHORT, LONG), strict=True):
        _kept(store, header, size)
        new = record_of(header)
        bare.execute(
            "INSERT INTO records (job_id, idempotency_key, spec_digest, cluster, bucket,"
            " created_at, place) VALUES (?, ?, ?, ?, 0, '', ?)",
            (new.job_id, new.idempotency_key, new.spec_digest, new.cluster, new.job_id),
        )
        _bare_commit(bare, new.job_id, -1, (new.header, *entries_of(header, size)))
    target = _target("sqlite", store)
    new = record_of(header_of("sqlite"))
    bare.execute(
        "INSERT INTO records (job_id, idempotency_key, spec_digest, cluster, bucket,"
        " created_at, place) VALUES (?, ?, ?, ?, 0, '', ?)",
        (new.job_id, new.idempotency_key, new.spec_digest, new.cluster, new.job_id),
    )
    entries = entries_of(header_of("sqlite"), 2)
    timed = one_by_one(
        {
            "ours": lambda k: store.commit(target, 2 * k, entries),
            "bare": lambda k: _bare_commit(bare, target, 2 * k, entries),
        },
        effort.of(400, 100),
    )
    told: list[Told] = [_commit_figure("SQLite", "sqlite3", timed, WHY_SQLITE)]
    for header, size in zip(headers, (SHORT, LONG), strict=True):
        timed = one_by_one(
            {
                "ours": _each(partial(store.read, header.job_id)),
                "bare": _each(partial(_bare_read, bare, header.job_id)),
            },
            effort.of(2_000, 400),
        )
        told.append(_read_figure("SQLite", "sqlite3", size, timed, WHY_SQLITE_READ))
    bare.close()
    store.close_file()
    return told


def _bare_commit(
    bare: sqlite3.Connection, job: str, revision: int, entries: tuple[Envelope, ...]
) -> None:
    """Append as anybody would who wants all or nothing, at a revision."""
    bare.execute("BEGIN IMMEDIATE")
    mark = token()
    moved = bare.execute(
        "UPDATE records SET revision = ? WHERE job_id = ? AND revision = ?",
        (revision + len(entries), job, max(0, revision)),
    )
    if moved.rowcount != 1:
        raise AssertionError("the bare commit met another revision")
    bare.executemany(
        "INSERT INTO entries (job_id, revision, schema, body, token) VALUES (?, ?, ?, ?, ?)",
        [
            (job, number, one.schema, one.body, mark)
            for number, one in enumerate(entries, start=revision + 1)
        ],
    )
    bare.execute("COMMIT")


def _bare_read(bare: sqlite3.Connection, job: str) -> object:
    """Read what the record's row and its entries say of one moment."""
    bare.execute("BEGIN")
    row = bare.execute(
        "SELECT revision, settled_at, tombstoned FROM records WHERE job_id = ?", (job,)
    ).fetchone()
    entries = bare.execute(
        "SELECT revision, schema, body, token FROM entries WHERE job_id = ? ORDER BY revision",
        (job,),
    ).fetchall()
    bare.execute("ROLLBACK")
    return row, entries


# --- DynamoDB ---------------------------------------------------------------------------------


def _dynamodb(endpoint: str, effort: Effort) -> list[Told]:
    client = client_of(endpoint)
    table, store = table_on(client)
    target = _target("ours", store)
    other = _target("bare", store)
    entries = entries_of(header_of("ours"), 2)
    timed = one_by_one(
        {
            "ours": lambda k: store.commit(target, 2 * k, entries),
            "bare": lambda k: client.transact_write_items(
                **_bare_transaction(table, other, 2 * k, entries)
            ),
        },
        effort.of(300, 60),
    )
    told: list[Told] = [_commit_figure("DynamoDB", "boto3", timed, WHY_DYNAMODB)]
    for size in (SHORT, LONG):
        header = header_of(f"dynamodb-{size}")
        _kept(store, header, size)
        read = _bare_query(client, table, header.job_id)
        timed = one_by_one(
            {"ours": _each(partial(store.read, header.job_id)), "bare": _each(read)},
            effort.of(200, 40),
        )
        told.append(_read_figure("DynamoDB", "boto3", size, timed, WHY_DYNAMODB))
    told += _units(endpoint, table)
    return told


def _bare_transaction(
    table: str, job: str, revision: int, entries: tuple[Envelope, ...]
) -> dict[str, Any]:
    mark = token()
    head = {
        "TableName": table,
        "Key": {"pk": {"S": f"JOB#{job}"}, "sk": {"S": "HEAD"}},
        "UpdateExpression": "SET revision = :next",
        "ConditionExpression": "revision = :seen",
        "ExpressionAttributeValues": {
            ":seen": {"N": str(revision)},
            ":next": {"N": str(revision + len(entries))},
        },
    }
    puts = [
        {
            "Put": {
                "TableName": table,
                "Item": {
                    "pk": {"S": f"JOB#{job}"},
                    "sk": {"S": f"E#{number:010d}"},
                    "revision": {"N": str(number)},
                    "schema": {"S": one.schema},
                    "body": {"S": one.body},
                    "token": {"S": mark},
                },
                "ConditionExpression": "attribute_not_exists(pk)",
            }
        }
        for number, one in enumerate(entries, start=revision + 1)
    ]
    return {"ClientRequestToken": mark, "TransactItems": [{"Update": head}, *puts]}


def _bare_query(client: DynamoDBClient, table: str, job: str) -> Callable[[], object]:
    def query() -> object:
        return client.query(
            TableName=table,
            KeyConditionExpression="pk = :pk AND sk BETWEEN :first AND :last",
            ExpressionAttributeValues={
                ":pk": {"S": f"JOB#{job}"},
                ":first": {"S": "E#0000000001"},
                ":last": {"S": "HEADER"},
            },
            ConsistentRead=True,
        )["Items"]

    return query


def _units(endpoint: str, table: str) -> list[Told]:
    """Return the units of a commit and a read, beside those of a bare transaction and the bytes."""
    client = client_of(endpoint)
    meter = Meter(client, client_of(endpoint))
    store = DynamoRecords(client, table, token, pause=lambda _: None)
    header = header_of("units")
    entries = entries_of(header, LONG)
    store.create(record_of(header))
    create = meter.taken()
    store.commit(header.job_id, 0, entries[:1])
    one = meter.taken()
    store.commit(header.job_id, 1, entries[1:3])
    two = meter.taken()
    for start in range(3, LONG, 32):
        store.commit(header.job_id, start, entries[start : start + 32])
    meter.taken()
    store.read(header.job_id)
    read = meter.taken()
    bodies = sum(len(stored.body.encode()) for stored in (record_of(header).header, *entries))
    told = {"create": create.told(), "one": one.told(), "two": two.told(), "read": read.told()}
    bare = 2 * 2  # a transaction of a counter and one entry, both below 1 KB, without an index
    return [
        Figure(
            "write units of a commit of one entry",
            "a bare transaction of a counter and an item",
            one.writes / bare,
            detail=told,
        ),
        Figure(
            f"read units of a record of {LONG} entries",
            "its bodies alone, 4 KB a unit",
            read.reads / ceil(bodies / 4096),
            detail=told,
        ),
    ]


# --- both -------------------------------------------------------------------------------------


def _each(work: Callable[[], object]) -> Callable[[int], object]:
    """Return a work that doesn't ask how often it was done."""
    return lambda _: work()


def _target(name: str, store: Records) -> str:
    header = header_of(name)
    store.create(record_of(header))
    return header.job_id


def _kept(store: Records, header: Header, size: int) -> None:
    store.create(record_of(header))
    entries = entries_of(header, size)
    for start in range(0, size, 32):
        store.commit(header.job_id, start, entries[start : start + 32])


def _commit_figure(store: str, bare: str, timed: Timed, why: str) -> Figure:
    return Figure(
        f"commit of 2 entries on {store}",
        f"the same with {bare}",
        timed.ratio("ours", "bare"),
        at_most(COMMIT_AIM),
        why,
        {"ours_ms": timed.median("ours") * 1e3, "bare_ms": timed.median("bare") * 1e3},
    )


def _read_figure(store: str, bare: str, size: int, timed: Timed, why: str) -> Figure:
    return Figure(
        f"read of {size} entries on {store}",
        f"the same with {bare}",
        timed.ratio("ours", "bare"),
        at_most(READ_AIM),
        why,
        {"ours_ms": timed.median("ours") * 1e3, "bare_ms": timed.median("bare") * 1e3},
    )
