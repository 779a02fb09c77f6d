"""A simulated cluster whose list is a text to be parsed, as a scheduler's answer is.

It counts what it is asked. Its rows carry what Slurm's do; reading them is the adapter's work.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from dispatch.errors import Unsupported
from dispatch.record.evidence import Found, Glance, Sighting
from dispatch.record.header import Declarations, Header, Spec
from dispatch.record.names import Cause, ObjectState
from dispatch.schedulers.scheduler import (
    CheckLine,
    LookedUp,
    Output,
    Sent,
    Started,
    StartOrder,
    Tag,
    Target,
)

Row = dict[str, Any]


class Yard:
    """One cluster and its adapter.

    Args:
        declared: What it declares.
        clock: Reads the time, UTC.

    Attributes:
        rows: Every object, by ref.
        calls: What it was asked, by name.
    """

    def __init__(self, declared: Declarations, clock: Callable[[], datetime]) -> None:
        self.rows: dict[str, Row] = {}
        self.calls: Counter[str] = Counter()
        self._declared = declared
        self._clock = clock
        self._list: str | None = None
        self._live: str | None = None
        self._number = 1_000

    # --- what it shows ------------------------------------------------------------------------

    def put(self, header: Header, ref: str, state: str, *, n: int = 1, change: int = 0) -> None:
        """Put an object there as if it had been started."""
        tag = Tag(header.job_id, n, 1, header.spec_digest, 0)
        self._put(tag, ref, state, change)

    def _put(self, tag: Tag, ref: str, state: str, change: int) -> None:
        self.rows[ref] = {
            "ref": ref,
            "job": tag.job,
            "n": tag.n,
            "a": tag.a,
            "digest": tag.spec_digest,
            "state": state,
            "cause": None,
            "held": state == "pending",
            "nodes": [] if state == "pending" else ["node-017", "node-018"],
            "started_at": None if state == "pending" else self._clock().timestamp(),
            "ended_at": None,
            "change": change,
        }
        self.shows()

    def becomes(
        self, ref: str, state: str, *, cause: str | None = None, held: bool = False
    ) -> None:
        """Let an object become something else."""
        row = self.rows[ref]
        row.update(state=state, cause=cause, held=held, change=row["change"] + 1)
        if state == "running":
            row.update(started_at=self._clock().timestamp(), nodes=["node-017"])
        if state in ("succeeded", "failed"):
            row["ended_at"] = self._clock().timestamp()
        self.shows()

    def shows(self) -> None:
        """Forget the texts that were made of the rows."""
        self._list = self._live = None

    def prepared(self) -> None:
        """Make the texts now, so that no measured call does."""
        self.list_text()
        self._glance_text()

    def list_text(self) -> str:
        """Return the whole list as the cluster would send it."""
        if self._list is None:
            self._list = json.dumps({"jobs": list(self.rows.values())})
        return self._list

    def _glance_text(self) -> str:
        if self._live is None:
            live = ("pending", "running", "ending")
            self._live = json.dumps(
                [
                    [row["ref"], row["state"], row["held"], row["change"]]
                    for row in self.rows.values()
                    if row["state"] in live
                ]
            )
        return self._live

    # --- the adapter --------------------------------------------------------------------------

    def declare(self) -> Declarations:
        """Return what it declares."""
        return self._declared

    def check(self) -> Sequence[CheckLine]:
        """Return that it answers."""
        return [CheckLine("reach", ok=True, detail="simulated")]

    def lint(self, spec: Spec) -> Sequence[str]:
        """Refuse nothing."""
        return []

    def glance(self) -> Glance:
        """Return a token for each live object."""
        self.calls["glance"] += 1
        taken = self._clock()
        tokens = {
            ref: f"{state} {held} {change}"
            for ref, state, held, change in json.loads(self._glance_text())
        }
        return Glance(self._declared.cluster, "yard", taken, self._clock(), tokens)

    def find(self) -> Found:
        """Return every object."""
        self.calls["find"] += 1
        taken = self._clock()
        by_job: dict[str, tuple[Sighting, ...]] = {}
        for row in json.loads(self.list_text())["jobs"]:
            by_job[row["job"]] = (*by_job.get(row["job"], ()), _sighting(row))
        return Found(self._declared.cluster, "yard", taken, self._clock(), True, by_job)

    def ask_one(self, ref: str) -> Sighting:
        """Return one object: what a poll of one job costs."""
        self.calls["poll"] += 1
        return _sighting(json.loads(json.dumps({"jobs": [self.rows[ref]]}))["jobs"][0])

    def start(self, order: StartOrder) -> Started:
        """Create the object, held."""
        self.calls["start"] += 1
        self._number += 1
        ref = f"{self._declared.cluster}/{self._number}@{int(self._clock().timestamp())}"
        self._put(order.tag, ref, "pending", 0)
        return Started(ref)

    def stop(self, target: Target) -> None:
        """End the object."""
        self.calls["stop"] += 1
        self.becomes(target.ref, "failed", cause=Cause.STOPPED.value)

    def hold(self, target: Target) -> None:
        """Hold the object."""
        self.calls["hold"] += 1
        self.becomes(target.ref, "pending", held=True)

    def release(self, target: Target) -> None:
        """Lift the gate."""
        self.calls["release"] += 1
        self.becomes(target.ref, "pending")

    def requeue(self, target: Target) -> None:
        """Refuse: it isn't declared."""
        raise Unsupported("requeue_live isn't declared")

    def lookup(self, targets: Sequence[Target], attempts: Sequence[Sent]) -> LookedUp:
        """Refuse: it isn't declared."""
        raise Unsupported("lookup isn't declared")

    def output(self, target: Target, *, offset: int, limit: int) -> Output:
        """Refuse: it isn't declared."""
        raise Unsupported("output isn't declared")


def _sighting(row: Row) -> Sighting:
    return Sighting(
        ref=row["ref"],
        n=row["n"],
        a=row["a"],
        spec_digest=row["digest"],
        generation=0,
        state=ObjectState(row["state"]),
        cause=None if row["cause"] is None else Cause(row["cause"]),
        held=row["held"],
        nodes=tuple(row["nodes"]),
        started_at=_time(row["started_at"]),
        ended_at=_time(row["ended_at"]),
        source="yard",
    )


def _time(stamp: float | None) -> datetime | None:
    return None if stamp is None else datetime.fromtimestamp(stamp, UTC)
