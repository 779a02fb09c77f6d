"""The embedded stack, in a process of its own: how soon a wish is carried out, and a submit burst.

Jobs are real processes that write down when they start and when they are told to end, by the
machine's own clock. The burst goes to a cluster that nobody answers for, so that a thousand
records are made and no thousand processes.
"""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from threading import Lock
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from benchmarks.engine import ROOT, folder, token
from benchmarks.figures import CannotMeasure, Effort, Figure, Told, at_most
from benchmarks.written import header_of, record_of
from dispatch.store.sqlite import SqliteRecords

STOP_AIM_S = 1.0
CLIENTS = 16
PATIENCE_S = 120.0

_RUN = """
import json, sys
from pathlib import Path
from embedded.stack import StackSettings, run
settings = StackSettings(Path(sys.argv[1]), port=0)
run(settings, say=lambda line: print(line, flush=True))
"""

_SCRIPT = """#!/bin/sh
trap 'date +%s.%N > {place}/stopped.{name}; exit 0' TERM
date +%s.%N > {place}/started.{name}
while :; do sleep 0.05 & wait $!; done
"""

_FAR = {
    "name": "far",
    "adapter": "slurm",
    "settings": {
        "url": "http://127.0.0.1:9",
        "user": "trainer",
        "sign_in": {"kind": "hs256", "secret": "file:/nowhere"},
        "queues": {"main": {"partition": "main"}},
        "default_queue": "main",
    },
}

WHY_STOP = (
    "the stream is read every 0.1 s and a worker takes one cluster's message at a time: an intent"
    " waits for the look that is under way. A second look at once, on the jobs named, would mend it"
)


@dataclass(frozen=True, slots=True)
class Stacked:
    """A running stack.

    Attributes:
        url: Where it listens.
        state: Its state folder.
        place: Where its jobs write down their times.
    """

    url: str
    state: Path
    place: Path

    def post(self, path: str, body: Any, **headers: str) -> Any:
        """Send something and return the answer."""
        request = Request(  # noqa: S310 - our own stack
            self.url + path,
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json", **headers},
            method="POST",
        )
        try:
            with urlopen(request, timeout=60) as answer:  # noqa: S310
                return json.load(answer)
        except HTTPError as error:
            raise AssertionError(f"{path}: {error.code}: {error.read()[:300]!r}") from error

    def submit(self, key: str, cluster: str, **spec: Any) -> Any:
        """Submit a job."""
        body = {"cluster": cluster, "spec": {"name": key, **spec}}
        return self.post("/jobs", body, **{"Idempotency-Key": key})


@contextmanager
def stack(place: Path) -> Iterator[Stacked]:
    """Run a stack with a local cluster and one that nobody answers for."""
    state = place / "state"
    state.mkdir(mode=0o700)
    local = {"name": "local", "adapter": "local", "settings": {"spool": str(state / "local")}}
    document = {"schema": "dispatch.clusters.v1", "clusters": [local, _FAR]}
    (state / "clusters.json").write_text(json.dumps(document))
    process = subprocess.Popen(
        [sys.executable, "-c", _RUN, str(state)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if "listens on" not in line:
            raise CannotMeasure(f"the embedded stack didn't start: {line.strip()}")
        with ThreadPoolExecutor(1) as drain:
            drain.submit(process.stdout.read)
            try:
                yield Stacked(line.split(" ")[3], state, place)
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(60)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def measure(effort: Effort) -> list[Told]:
    """Return how soon a stack acts, and how fast it takes jobs."""
    with folder() as place, stack(place) as running:
        told = _soon(running, effort.of(40, 10))
        told += _burst(running, effort.of(1_000, 200))
    return told


# --- how soon ---------------------------------------------------------------------------------


def _soon(running: Stacked, jobs: int) -> list[Told]:
    started, stopped = [], []
    # A few at a time, each after the one before: it is the wait that is measured, not the load.
    for number in range(jobs):
        name = f"n{number}"
        script = _SCRIPT.format(place=running.place, name=name)
        answer = running.submit(name, "local", script=script)
        accepted = time.time()
        started.append(_time(running.place / f"started.{name}") - accepted)
        time.sleep(0.1 + 0.03 * (number % 7))
        running.post(
            f"/jobs/{answer['job_id']}/intents", {"kind": "cancel", "id": f"cancel-{name}"}
        )
        accepted = time.time()
        stopped.append(_time(running.place / f"stopped.{name}") - accepted)
    late = _p99(stopped)
    return [
        Figure(
            f"cancel accepted until the process is told to stop, p99 of {jobs}",
            "one second",
            late / 1.0,
            at_most(STOP_AIM_S),
            WHY_STOP,
            {"median_s": median(stopped), "p99_s": late, "worst_s": max(stopped)},
        ),
        Figure(
            f"submit accepted until the process runs, p99 of {jobs}",
            "one second",
            _p99(started) / 1.0,
            detail={
                "median_s": median(started),
                "p99_s": _p99(started),
                "worst_s": max(started),
                "in it": "Start, the look that sees the object, its release, the process's birth",
            },
        ),
    ]


def _p99(times: list[float]) -> float:
    return quantiles(times, n=100, method="inclusive")[98]


def _time(path: Path) -> float:
    """Return the time in a file as soon as it is there."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            text = path.read_text()
        except FileNotFoundError:
            text = ""
        if text.endswith("\n"):
            return float(text)
        time.sleep(0.005)
    raise AssertionError(f"never: {path.name}")


# --- a burst ----------------------------------------------------------------------------------


def _burst(running: Stacked, jobs: int) -> list[Told]:
    """Submit each job twice, from many clients at once, and count what came of it."""
    made: dict[str, set[str]] = {}
    created = 0
    lock = Lock()

    def submit(number: int) -> None:
        nonlocal created
        key = f"burst-{number % jobs}"
        answer = running.submit(key, "far", command=["true"])
        with lock:
            made.setdefault(key, set()).add(answer["job_id"])
            created += bool(answer["created"])

    requests = [*range(jobs), *range(jobs // 4, jobs), *range(jobs // 4)]
    seconds = _by_clients(submit, requests)
    records = _records(running.state / "records.sqlite")
    doubled = sum(len(ids) != 1 for ids in made.values()) + abs(created - jobs)
    bare_s = _bare(running.place, jobs)
    rate, bare_rate = len(requests) / seconds, jobs / bare_s
    detail = {
        "clients": CLIENTS,
        "requests": len(requests),
        "records": records,
        "requests_a_second": rate,
        "bare_transactions_a_second": bare_rate,
    }
    return [
        Figure(
            f"records of {jobs:,} jobs submitted twice by {CLIENTS} clients",
            "one each",
            (records + doubled) / jobs,
            at_most(1),
            "a record was doubled: a fault, not a cost",
            detail,
        ),
        Figure(
            "submits a second",
            "bare transactions of the same records",
            rate / bare_rate,
            detail=detail,
        ),
    ]


def _by_clients(work: Callable[[int], None], numbers: list[int]) -> float:
    began = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as clients:
        for done in [clients.submit(work, number) for number in numbers]:
            done.result()
    return time.perf_counter() - began


def _records(path: Path) -> int:
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        (number,) = connection.execute(
            "SELECT count(*) FROM records WHERE cluster = 'far'"
        ).fetchone()
    connection.close()
    return int(number)


def _bare(place: Path, jobs: int) -> float:
    """Make as many records with bare transactions, one after the other; return the seconds."""
    path = place / "bare.sqlite"
    SqliteRecords(path, token).close_file()  # the same tables
    bare = sqlite3.connect(path, isolation_level=None)
    bare.execute("PRAGMA synchronous = FULL")
    new = record_of(header_of("bare"))
    began = time.perf_counter()
    for number in range(jobs):
        job = f"j{number:08d}"
        bare.execute("BEGIN IMMEDIATE")
        bare.execute(
            "INSERT INTO records (job_id, idempotency_key, spec_digest, cluster, bucket,"
            " created_at, place) VALUES (?, ?, ?, 'bare', 0, '', ?)",
            (job, job, new.spec_digest, job),
        )
        bare.execute(
            "INSERT INTO entries (job_id, revision, schema, body, token) VALUES (?, 0, ?, ?, ?)",
            (job, new.header.schema, new.header.body, token()),
        )
        bare.execute("COMMIT")
    seconds = time.perf_counter() - began
    bare.close()
    return seconds
