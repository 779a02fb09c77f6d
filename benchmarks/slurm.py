"""Ticks against a real slurmctld with thousands of jobs in its queue, beside a poll per job.

First they are other people's, with some of ours among them; then they are all ours.
The jobs are really there: started through the adapter, behind their gates, their records as the
supervisor and a person's hold leave them. The records are in a file in memory, so that the disk
has no part in it: what is measured is Slurm, its REST daemon, the adapter and the sweep.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import urllib3

from benchmarks.engine import token
from benchmarks.figures import CannotMeasure, Effort, Figure, Told, at_most
from benchmarks.written import job_id_of, record_of
from dispatch.record import fact as facts
from dispatch.record.codec import Entry, envelope, spec_digest
from dispatch.record.control import Control
from dispatch.record.header import Header, Plan, Rule, Spec
from dispatch.record.names import Action, IntentKind, ReplyResult
from dispatch.schedulers.scheduler import Started, StartOrder, Tag
from dispatch.schedulers.slurm import request
from dispatch.schedulers.slurm.cluster import SlurmScheduler
from dispatch.schedulers.slurm.rest import Rest
from dispatch.schedulers.slurm.settings import Bounds, Queue, SigningKey, SlurmCluster
from dispatch.schedulers.slurm.tags import identified
from dispatch.schedulers.slurm.tokens import MintedTokens, minted
from dispatch.store.sqlite import SqliteRecords
from dispatch.supervisor.sweep import Sweeper, Swept

SIZES = (5_000, 10_000)
NAME = f"bench{os.getpid()}"
BY = "supervisor"
API = "v0.0.42"
STARTERS = 6
POLLED = 100
OURS = 100
THEIRS = {
    "job": {
        "name": "theirs",
        "account": "physics",
        "partition": "main",
        "hold": True,
        "environment": ["PATH=/bin"],
        "current_working_directory": "/",
        "script": "#!/bin/sh\nsleep 1\n",
    }
}
"""What another user has in the queue."""

LIST_AIM = 2.0

WHY = "the adapter reads every row of the list strictly, and the sweep compares every job's hint"


def measure(effort: Effort) -> list[Told]:
    """Return the figures of ticks over 5,000 and 10,000 jobs in a real queue."""
    place = os.environ.get("DISPATCH_SLURM_ENV")
    if not place:
        raise CannotMeasure("no Slurm was started: run `make bench-slurm`")
    told = dict(line.split("=", 1) for line in Path(place).read_text().splitlines())
    memory = Path("/dev/shm")  # noqa: S108 - a file in memory, in a folder of our own
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        queue = RealQueue(told, Path(folder))
        try:
            sizes = effort_sizes(effort)
            beside = [one for size in sizes for one in _beside(queue, size)]
            if os.environ.get("DISPATCH_BENCH_OTHERS_ONLY"):
                return beside
            queue.without_others()
            return beside + [one for size in sizes for one in _of(queue, size)]
        finally:
            queue.close()


def effort_sizes(effort: Effort) -> tuple[int, ...]:
    """Return how many jobs are in the queue, in turn."""
    return (500,) if effort.quick else SIZES


class CountingRest(Rest):
    """The adapter's own way to slurmrestd, which counts what comes and goes."""

    requests = 0
    received = 0

    def _exchange(
        self, method: str, path: str, raw: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        status, content = super()._exchange(method, path, raw, headers)
        self.requests += 1
        self.received += len(content)
        return status, content


class RealQueue:
    """A real cluster, our jobs in its queue, and their records."""

    def __init__(self, told: Mapping[str, str], folder: Path) -> None:
        self._told = told
        self.settings = SlurmCluster(
            name=NAME,
            url=told["DISPATCH_SLURM_URL"],
            cluster_name="proving",
            user="trainer",
            sign_in=SigningKey(secret="file:/key", lifetime_s=30),  # noqa: S106 - a reference
            queues={"main": Queue(partition="main", accounts=("physics",), qos=("normal",))},
            default_queue="main",
            workdir=str(Path(told["DISPATCH_SLURM_BASE"]) / "work"),
            pace_s=0.0,
            bounds=Bounds(request_timeout_s=180),
        )
        self.store = SqliteRecords(folder / "records.sqlite", token)
        self.rest = self._rest()
        self.scheduler = SlurmScheduler(self.settings, self.rest, clock=now)
        self.refs: list[str] = []
        self.others = 0
        self._lives = 0

    def _rest(self) -> CountingRest:
        key = Path(self._told["DISPATCH_SLURM_BASE"]) / "jwt.key"
        tokens = MintedTokens(key.read_bytes, now)
        return CountingRest(self.settings, tokens, monotonic=time.monotonic)

    def _adapter(self) -> SlurmScheduler:
        return SlurmScheduler(self.settings, self._rest(), clock=now)

    def filled_to(self, size: int) -> None:
        """Start jobs until there are so many, and write their records."""
        numbers = range(len(self.refs), size)

        def started(part: range) -> list[tuple[Header, str]]:
            adapter = self._adapter()
            done = []
            for number in part:
                header = self._header(number)
                tag = Tag(header.job_id, 1, 1, header.spec_digest, 0)
                answer = adapter.start(StartOrder(tag, header.spec, None, "ada", in_place=False))
                if not isinstance(answer, Started):
                    raise AssertionError(f"job {number} wasn't started: {answer.detail}")
                done.append((header, answer.ref))
            adapter.close()
            return done

        with ThreadPoolExecutor(STARTERS) as starters:
            parts = [numbers[start::STARTERS] for start in range(STARTERS)]
            for done in starters.map(started, parts):
                for header, ref in done:
                    self._written(header, ref)
                    self.refs.append(ref)

    def crowded_to(self, size: int) -> None:
        """Let another user submit held jobs until there are so many of theirs."""
        key = (Path(self._told["DISPATCH_SLURM_BASE"]) / "jwt.key").read_bytes()
        issued = int(time.time())
        token = minted(key, user="other", issued=issued, expires=issued + 3600)
        headers = {"X-SLURM-USER-NAME": "other", "X-SLURM-USER-TOKEN": token}
        url = f"{self.settings.url}/slurm/{API}/job/submit"
        pool = urllib3.PoolManager(maxsize=STARTERS)

        def submitted(_: int) -> None:
            reply = pool.request("POST", url, json=THEIRS, headers=headers, retries=False)
            if reply.status != 200:
                raise AssertionError(f"a job of others wasn't taken: {reply.data[:300]!r}")

        with ThreadPoolExecutor(STARTERS) as starters:
            list(starters.map(submitted, range(size - self.others)))
        self.others = size

    def without_others(self) -> None:
        """Let the other user's jobs be cancelled, and everything in the queue with them."""
        self._run("scancel", "--user=other")
        self._run("scancel", "--user=trainer")
        self.others, self.refs = 0, []
        self._lives += 1

    def _header(self, number: int) -> Header:
        spec = Spec(name="queued", command=("sleep", "60"))
        name = f"{NAME}-{self._lives}-{number}"
        return Header(
            job_id=job_id_of(name),
            idempotency_key=f"key-{name}",
            spec=spec,
            spec_digest=spec_digest(spec),
            plan=Plan(default=Rule(action=Action.HOLD)),
            declarations=self.scheduler.declare(),
            created_by="ada",
            created_at=now() - timedelta(seconds=5),
        )

    def _written(self, header: Header, ref: str) -> None:
        """Write what the supervisor writes about a Start, and a hold in front of its release."""
        at = header.created_at
        deadline = at + timedelta(seconds=header.declarations.call_bound_s)
        hold = Control(kind=IntentKind.HOLD, id="hold-1", by="ada", at=at)
        started = ReplyResult.STARTED
        written: list[Entry] = [
            hold,
            facts.Authorized(at=at, by=BY, n=1, trigger="initial", taken_at=at),
            facts.Attempt(at=at, by=BY, n=1, a=1, deadline=deadline),
            facts.Replied(at=at, by=BY, n=1, a=1, result=started, ref=ref),
            facts.Canonical(at=at, by=BY, n=1, ref=ref),
        ]
        self.store.create(record_of(header))
        self.store.commit(header.job_id, 0, [envelope(one) for one in written])

    def sweep(self) -> Swept:
        """Take one tick."""
        swept = Sweeper(self.store, self.scheduler, now, BY, lambda: 3600.0).sweep(NAME)
        if swept.error or swept.mass_loss:
            raise AssertionError(f"the tick failed: {swept.error or swept.mass_loss}")
        return swept

    def asked(self, question: request.Question) -> None:
        """Ask Slurm one bare question."""
        reply = self.rest.send(API, question, user=self.settings.user, lifetime_s=120)
        if reply.status != 200:
            raise AssertionError(f"{question.path}: {reply.status}")

    def rpcs(self) -> Counter[str]:
        """Return how often slurmctld served each kind of request since it was started."""
        text = self._run("sdiag")
        _, _, kinds = text.partition("Remote Procedure Call statistics by message type")
        kinds, _, _ = kinds.partition("Remote Procedure Call statistics by user")
        found = re.findall(r"^\s*([A-Z_]+)\s*\(\s*\d+\)\s*count:(\d+)", kinds, re.MULTILINE)
        counted = Counter({name: int(number) for name, number in found})
        del counted["REQUEST_STATS_INFO"]  # our own question
        return counted

    def _run(self, *words: str) -> str:
        told = self._told
        inside = ["nsenter", "--target", told["DISPATCH_SLURM_FIRST"], "--mount", "--pid", "--uts"]
        conf = f"SLURM_CONF={told['DISPATCH_SLURM_BASE']}/slurm.conf"
        command = [*inside, "chroot", told["DISPATCH_SLURM_ROOTFS"], "env", conf, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
        return done.stdout

    def close(self) -> None:
        """Let go of what is open; the cluster is stopped by whoever started it."""
        self.scheduler.close()
        self.rest.close()
        self.store.close_file()


def now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


def _cost(queue: RealQueue, look: Callable[[], object]) -> dict[str, Any]:
    """Return what one look took, moved and made slurmctld serve."""
    before, rest = queue.rpcs(), queue.rest
    requests, received = rest.requests, rest.received
    seconds = _seconds(look)
    return {
        "seconds": seconds,
        "requests": rest.requests - requests,
        "bytes": rest.received - received,
        "rpcs": dict(queue.rpcs() - before),
    }


def _beside(queue: RealQueue, size: int) -> list[Told]:
    """Return what looking after some jobs of ours costs beside so many of others."""
    queue.crowded_to(size)
    queue.filled_to(OURS)
    queue.sweep()
    queue.sweep()
    ids = [one.job_id for ref in queue.refs if (one := identified(ref)) is not None]

    def poll() -> None:
        for job_id in ids:
            queue.asked(request.job(job_id))

    looks: dict[str, Callable[[], object]] = {
        "idle tick": queue.sweep,
        "evidence": queue.scheduler.find,
        f"poll of {OURS} jobs": poll,
    }
    detail: dict[str, Any] = {"others": size, "ours": OURS}
    for name, look in looks.items():
        told = [_cost(queue, look) for _ in range(3)]
        detail[name] = {**told[-1], "seconds": median(one["seconds"] for one in told)}
    idle, whole = detail["idle tick"], detail["evidence"]
    polled = detail[f"poll of {OURS} jobs"]
    name = f"{OURS} jobs beside {size:,} of others"
    return [
        Figure(
            f"requests of an idle tick over {name}",
            "one glance",
            idle["requests"],
            at_most(1),
            "an idle tick asked more than the glance",
            detail,
        ),
        Figure(
            f"requests of the evidence over {name}",
            "one list",
            whole["requests"],
            at_most(1),
            "evidence took more than one list",
            detail,
        ),
        Figure(
            f"a poll per job over {name}",
            "the idle tick",
            polled["seconds"] / idle["seconds"],
            detail=detail,
        ),
        Figure(
            f"slurmctld's requests of a poll per job over {name}",
            "of the idle tick",
            sum(polled["rpcs"].values()) / max(1, sum(idle["rpcs"].values())),
            detail=detail,
        ),
    ]


def _of(queue: RealQueue, size: int) -> list[Told]:
    queue.filled_to(size)
    first = queue.sweep()  # each job is new: it is looked at, and left a hint
    queue.sweep()
    idle, lists, served = [], [], Counter[str]()
    swept = first
    for _ in range(3):
        before = queue.rpcs()
        idle.append(_seconds(queue.sweep))
        served = queue.rpcs() - before
        lists.append(_seconds(partial(queue.asked, request.jobs())))
    swept = queue.sweep()
    ids = [one.job_id for ref in queue.refs[:POLLED] if (one := identified(ref)) is not None]
    before = queue.rpcs()
    polls = sum(_seconds(partial(queue.asked, request.job(job_id))) for job_id in ids)
    poll_rpcs = (queue.rpcs() - before).total()
    detail: dict[str, Any] = {
        "idle_s": median(idle),
        "bare_list_s": median(lists),
        "poll_s": polls / len(ids),
        "rpcs_of_an_idle_tick": dict(served),
        "rpcs_of_the_polls": poll_rpcs,
        "polled": len(ids),
        "first_tick_passes": len(first.passes),
    }
    name = f"{size:,} jobs in a real queue"
    return [
        Figure(
            f"an idle tick over {name}",
            "the bare list",
            median(one / other for one, other in zip(idle, lists, strict=True)),
            at_most(LIST_AIM),
            WHY,
            detail,
        ),
        Figure(
            f"passes of an idle tick over {name}",
            "the jobs",
            len(swept.passes) / size,
            at_most(0),
            "a job was looked at although nothing about it had changed",
            detail,
        ),
        Figure(
            f"a poll per job over {name}",
            "the idle tick",
            polls / len(ids) * size / median(idle),
            detail=detail,
        ),
        Figure(
            f"slurmctld's requests of a poll per job over {name}",
            "of the idle tick",
            poll_rpcs / len(ids) * size / max(1, served.total()),
            detail=detail,
        ),
    ]


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
