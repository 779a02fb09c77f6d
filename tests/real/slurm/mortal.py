"""A supervisor in a process of its own, which ends by SIGKILL before or after a chosen I/O."""

from __future__ import annotations

import os
import signal
import time
import traceback
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

from dispatch.schedulers.slurm.cluster import SlurmScheduler
from dispatch.schedulers.slurm.rest import Rest
from dispatch.schedulers.slurm.settings import SlurmCluster
from dispatch.schedulers.slurm.tokens import MintedTokens
from dispatch.store.sqlite import SqliteRecords
from dispatch.supervisor.sweep import Beat, Sweeper

BEAT = Beat(evidence_every_s=5, accepted_s=20)
PAUSE_S = 0.2


@dataclass(frozen=True, slots=True)
class Told:
    """What a supervisor is told.

    Attributes:
        cluster: The cluster's settings, as JSON.
        key: The file with Slurm's key.
        records: The file with the records.
        log: Where it says how it died, and what went wrong.
        who: Its name.
        seed: Of its death.
        dies: Whether it dies by its own hand.
    """

    cluster: str
    key: str
    records: str
    log: str
    who: str
    seed: int
    dies: bool


class Fate:
    """Counts the I/O of one process, and ends it at its hour."""

    def __init__(self, told: Told) -> None:
        chance = Random(f"{told.who} {told.seed}")
        self._left = int(chance.expovariate(1 / 250)) if told.dies else -1
        self._told = told

    def passes(self, what: str) -> None:
        """Count one moment before or after an I/O."""
        if self._left == 0:
            with Path(self._told.log).open("a") as log:
                log.write(f"died {what}\n")
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1


class Mortal:
    """Something whose every call may be the last thing that its process does."""

    def __init__(self, inner: Any, fate: Fate, kind: str) -> None:
        self._inner = inner
        self._fate = fate
        self._kind = kind

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if not callable(value) or name.startswith("_"):
            return value

        def called(*args: Any, **named: Any) -> Any:
            what = f"{self._kind} {name}"
            if name == "send":
                question = args[1]
                what = f"{self._kind} {question.method} {question.path.partition('?')[0]}"
            self._fate.passes(f"before {what}")
            got = value(*args, **named)
            self._fate.passes(f"after {what}")
            return got

        return called


def supervise(told: Told) -> None:
    """Sweep until this process is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        _sweep(told)
    except Exception:
        with Path(told.log).open("a") as log:
            log.write(f"failed {told.who}\n{traceback.format_exc()}")
        raise


def _sweep(told: Told) -> None:
    cluster = SlurmCluster.model_validate_json(told.cluster)

    def clock() -> datetime:
        return datetime.now(UTC)

    fate = Fate(told)
    tokens = MintedTokens(Path(told.key).read_bytes, clock)
    rest: Any = Mortal(Rest(cluster, tokens, monotonic=time.monotonic), fate, "request")
    store: Any = Mortal(SqliteRecords(told.records, lambda: uuid4().hex, busy_s=30), fate, "store")
    sweeper = Sweeper(
        store=store,
        scheduler=SlurmScheduler(cluster, rest, clock=clock),
        clock=clock,
        by=told.who,
        time_left=lambda: 120.0,
        beat=BEAT,
    )
    while True:
        swept = sweeper.sweep(cluster.name)
        refused = [one.refusal for one in swept.passes if one.refusal is not None]
        if refused:
            raise AssertionError(f"a record was refused: {refused}")
        time.sleep(PAUSE_S)
