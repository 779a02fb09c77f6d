"""A tick over many open jobs: scheduler calls, index pages, reads, writes, seconds and memory.

The cluster is simulated (`yard`); the index is a DynamoDB engine's, seeded by batch writes. Beside
it: the bare list, which asks the same cluster for its list and the same index for its pages and
does nothing with them; and a poll per job, which asks for each job by itself.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice, pairwise
from math import ceil, log2
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

from benchmarks.engine import client_of, engine, table_on, token
from benchmarks.figures import Effort, Figure, Told, at_most
from benchmarks.job import Clock
from benchmarks.rounds import in_turns
from benchmarks.units import Meter
from benchmarks.written import (
    CLUSTER,
    T0,
    declared,
    entries_of,
    header_of,
    job_id_of,
    record_of,
    ref_of,
)
from benchmarks.yard import Yard
from dispatch.record.header import Header
from dispatch.store import items, rules
from dispatch.store.dynamodb import DynamoRecords
from dispatch.store.records import ClusterHealth, Quiet
from dispatch.supervisor.health import looked_whole
from dispatch.supervisor.sweep import BUILD, Sweeper, Swept, digest

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

SIZES = (100, 1_000, 10_000, 100_000)
SHARDS = {100_000: 16}
"""The largest is served by shards; one of them is measured."""

CHANGES = (0.0, 0.01, 0.1)
LIST_AIM = 2.0
GROWTH_AIM = 2.1
MEMORY_AIM = 1.0
RUNNING_ENTRIES = 7
POLLED = 50
MEGABYTE = 2**20

WHY_IDLE = "hints are read, and the digests of their tokens compared, job by job"
WHY_MEMORY = "every hint of the shard is held beside the glance's tokens of the whole cluster"
WHY_LIST = (
    "beside the bare list, hints are read, digests of their tokens compared, and each changed job's"
    " record read, folded and written; the larger the part that changed, the larger that share"
)


@dataclass(frozen=True, slots=True)
class Ticked:
    """What one tick took."""

    swept: Swept
    seconds: float
    calls: dict[str, int]
    units: dict[str, Any]


class Field:
    """Many running jobs whose last pass left a hint: a cluster, and a table that holds them.

    Args:
        endpoint: The engine's.
        jobs: How many.
        whole: For how many of them header and entries are there, not the head alone.
    """

    def __init__(self, endpoint: str, jobs: int, whole: int) -> None:
        self._beside = client_of(endpoint)
        self.client = client_of(endpoint)
        self.table, _ = table_on(self._beside)
        self.store = DynamoRecords(self.client, self.table, token, pause=lambda _: None)
        self.clock = Clock(T0 + timedelta(hours=1))
        self.yard = Yard(declared(), self.clock)
        self.shards = SHARDS.get(jobs, 1)
        names = [f"tick-{number}" for number in range(jobs)]
        buckets = rules.buckets_of(0, self.shards)
        self.headers = [
            header_of(name) for name in names if rules.bucket_of(job_id_of(name)) in buckets
        ]
        self._others = [name for name in names if rules.bucket_of(job_id_of(name)) not in buckets]
        self._endpoint = endpoint
        self._seed(whole)

    def _seed(self, whole: int) -> None:
        refs = []
        for header in self.headers:
            ref = _ref(header)
            self.yard.put(header, ref, "running")
            refs.append(ref)
        for name in self._others:  # the cluster shows the other shards' objects all the same
            row = {**self.yard.rows[refs[0]], "ref": f"{CLUSTER}/{name}", "job": job_id_of(name)}
            self.yard.rows[f"{CLUSTER}/{name}"] = row
        self.yard.shows()
        glance = self.yard.glance()
        put = self._puts(zip(self.headers, refs, strict=True), glance, whole)
        while batch := list(islice(put, 25)):
            writes: Any = [{"PutRequest": {"Item": item}} for item in batch]
            reply = self._beside.batch_write_item(RequestItems={self.table: writes})
            if reply.get("UnprocessedItems"):
                raise AssertionError("the engine left items of a batch")
        self.store.put_health(
            ClusterHealth(CLUSTER, "s", self.clock(), last_complete_find=self.clock())
        )
        part, now = (0, self.shards), self.clock()
        looked_whole(self.store, CLUSTER, part, build=BUILD, by="s", at=now)
        self.yard.prepared()

    def _puts(self, jobs: Any, glance: Any, whole: int) -> Iterator[dict[str, Any]]:
        for number, (header, ref) in enumerate(jobs):
            request = items.create_request(self.table, record_of(header), "token-0000")
            head, stored = (one["Put"]["Item"] for one in request["TransactItems"][1:])
            quiet = Quiet(RUNNING_ENTRIES, (ref,), digest((ref,), glance), None, BUILD, (ref,))
            text = rules.quiet_text(quiet)
            assert text is not None
            yield head | {"revision": {"N": str(RUNNING_ENTRIES)}, "quiet": {"S": text}}
            if number >= whole:
                continue
            yield stored
            commit = items.commit_request(
                self.table,
                header.job_id,
                0,
                entries_of(header, RUNNING_ENTRIES),
                token="token-0001",  # noqa: S106 - a commit's mark
                settled_at=None,
            )
            for one in commit["TransactItems"][1:]:
                yield one["Put"]["Item"]

    def sweeper(self, store: DynamoRecords | None = None) -> Sweeper:
        """Return a fresh worker: it holds nothing between ticks."""
        return Sweeper(store or self.store, self.yard, self.clock, "s", lambda: 3600.0)

    def change(self, headers: Sequence[Header]) -> None:
        """Let some objects run on another node, so that each is news."""
        for header in headers:
            row = self.yard.rows[_ref(header)]
            row["nodes"] = [f"node-{row['change'] % 500:03d}", "node-501"]
            row["change"] += 1
        self.yard.shows()
        self.yard.prepared()

    def tick(self) -> Ticked:
        """Take one tick and time it."""
        before = self.yard.calls.copy()
        sweeper = self.sweeper()
        began = perf_counter()
        swept = sweeper.sweep(CLUSTER, shard=0, shards=self.shards)
        seconds = perf_counter() - began
        if swept.error or swept.mass_loss or swept.left:
            raise AssertionError(f"the tick failed: {swept.error or swept.mass_loss}")
        return Ticked(swept, seconds, dict(self.yard.calls - before), {})

    def counted(self) -> Ticked:
        """Take one tick whose requests are counted, and not timed."""
        client = client_of(self._endpoint)
        meter = Meter(client, self._beside)
        store = DynamoRecords(client, self.table, token, pause=lambda _: None)
        before = self.yard.calls.copy()
        swept = self.sweeper(store).sweep(CLUSTER, shard=0, shards=self.shards)
        return Ticked(swept, 0.0, dict(self.yard.calls - before), meter.taken().told())

    def bare_list(self) -> float:
        """Ask for the cluster's list and the index's pages, as barely as can be; return seconds."""
        began = perf_counter()
        self.yard.find()
        for bucket in rules.buckets_of(0, self.shards):
            _pages(self.client, items.open_query(self.table, CLUSTER, bucket))
        return perf_counter() - began

    def bare_work(self, headers: Sequence[Header]) -> float:
        """Read some records, append an item and mark the head of each, barely; return seconds."""
        began = perf_counter()
        for header in headers:
            key = {"pk": {"S": f"JOB#{header.job_id}"}}
            mark = token()
            self.client.query(
                TableName=self.table,
                KeyConditionExpression="pk = :pk",
                ExpressionAttributeValues={":pk": key["pk"]},
                ConsistentRead=True,
            )
            put = {"Item": {**key, "sk": {"S": f"BARE#{mark}"}, "body": {"S": "x" * 400}}}
            head = {
                "Key": {**key, "sk": {"S": "HEAD"}},
                "UpdateExpression": "SET bare = :mark",
                "ExpressionAttributeValues": {":mark": {"S": mark}},
            }
            writes: Any = [{"Update": head}, {"Put": put}]
            for write in writes:
                next(iter(write.values()))["TableName"] = self.table
            self.client.transact_write_items(ClientRequestToken=mark, TransactItems=writes)
            self.client.update_item(**head)  # type: ignore[arg-type]
        return perf_counter() - began

    def polls(self, number: int) -> None:
        """Ask for some jobs one by one, object and record."""
        for header in self.headers[:number]:
            self.yard.ask_one(_ref(header))
            self.store.read(header.job_id)

    def peaks_mb(self) -> tuple[float, float]:
        """Return the most memory that a tick, and the bare list, hold at once, MB."""
        return _peak_mb(self.tick), _peak_mb(self.bare_list)


def _peak_mb(work: Callable[[], object]) -> float:
    tracemalloc.start()
    work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / MEGABYTE


def _ref(header: Header) -> str:
    return ref_of(header, 1, header.created_at + timedelta(seconds=60))


def _pages(client: DynamoDBClient, request: dict[str, Any]) -> None:
    start: dict[str, Any] = {}
    while True:
        reply = client.query(**request, **start)
        if not reply.get("LastEvaluatedKey"):
            return
        start = {"ExclusiveStartKey": reply["LastEvaluatedKey"]}


def measure(effort: Effort) -> list[Told]:
    """Return the figures of ticks over 100 to 100,000 open jobs."""
    told: list[Told] = []
    fields: dict[int, Field] = {}
    with engine() as endpoint:
        for jobs in SIZES[: effort.of(4, 2)]:
            field = Field(endpoint, jobs, whole=_whole(jobs))
            told += _of(field, jobs)
            if jobs >= 1_000:
                told.append(_memory(field, jobs))
            if jobs not in SHARDS:
                fields[jobs] = field
        told += _growth(fields)
    return told


def _growth(fields: dict[int, Field]) -> list[Told]:
    """Return how an idle tick grows with the number of jobs, the sizes measured in turns."""
    timed = in_turns({str(jobs): field.tick for jobs, field in fields.items()}, 3)
    return [
        Figure(
            f"an idle tick's growth a doubling, {smaller:,} to {larger:,} jobs",
            "one",
            timed.ratio(str(larger), str(smaller)) ** (1 / log2(larger / smaller)),
            at_most(GROWTH_AIM),
            detail={"seconds": {jobs: timed.median(str(jobs)) for jobs in fields}},
        )
        for smaller, larger in pairwise(fields)
    ]


def _whole(jobs: int) -> int:
    return max(1, int(max(CHANGES) * jobs / SHARDS.get(jobs, 1))) + POLLED


def _of(field: Field, jobs: int) -> list[Told]:
    told: list[Told] = []
    name = f"{jobs:,} jobs"
    if field.shards > 1:
        name = f"a shard ({len(field.headers):,}) of {jobs:,} jobs"
    looks, reads = [], []
    for part in CHANGES:
        changing = field.headers[: ceil(part * len(field.headers))]
        seconds, bare = [], []
        tick = Ticked(Swept(CLUSTER), 0.0, {}, {})
        for _ in range(3 if jobs <= 10_000 and len(changing) <= 100 else 1):
            field.change(changing)
            tick = field.tick()
            seconds.append(tick.seconds)
            bare.append(field.bare_list() + field.bare_work(changing))
        passes = len(tick.swept.passes)
        looks.append(sum(tick.calls.values()) / (2 if changing else 1))
        reads.append((passes - len(changing)) / len(field.headers))
        detail: dict[str, Any] = {
            "seconds": median(seconds),
            "bare_s": median(bare),
            "scheduler_calls": tick.calls,
            "passes": passes,
            "commits": sum(one.commits for one in tick.swept.passes),
        }
        if len(changing) <= 10:
            field.change(changing)
            detail["units"] = field.counted().units
        said = "idle" if not part else f"{len(changing):,} changing"
        told.append(
            Figure(
                f"a tick over {name}, {said}",
                "the bare list" + (", a bare read and write of each" if changing else ""),
                median(one / other for one, other in zip(seconds, bare, strict=True)),
                at_most(LIST_AIM),
                WHY_LIST if changing else WHY_IDLE,
                detail,
            )
        )
    polled = min(POLLED, len(field.headers))
    poll = in_turns({"polls": lambda: field.polls(polled), "tick": field.tick}, 1)
    times = poll.ratio("polls", "tick") * len(field.headers) / polled
    return [
        *told,
        Figure(
            f"looks of a tick over {name}, at most",
            "one glance, and one list if any changed",
            max(looks),
            at_most(1),
            "more than the shared looks were taken",
            {"by part that changed": dict(zip(map(str, CHANGES), looks, strict=True))},
        ),
        Figure(
            f"idle records read in a tick over {name}",
            "all of them",
            max(reads),
            at_most(0),
            "a record was read although nothing about it had changed",
        ),
        Figure(
            f"a poll per job over {name}",
            "the idle tick",
            times,
            detail={"polled": polled, "the rest": "by multiplication"},
        ),
    ]


def _memory(field: Field, jobs: int) -> Figure:
    ours, bare = field.peaks_mb()
    said = f"a shard ({len(field.headers):,}) of {jobs:,}" if field.shards > 1 else f"{jobs:,}"
    return Figure(
        f"peak memory of an idle tick over {said} jobs",
        "the bare list's",
        ours / bare,
        at_most(MEMORY_AIM),
        WHY_MEMORY,
        {"mb": ours, "bare_mb": bare},
    )
