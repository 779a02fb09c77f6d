"""A fake slurmrestd and an adapter that speaks to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dispatch.record.header import Adjust, Spec
from dispatch.schedulers.scheduler import Sent, StartOrder, Tag, Target
from dispatch.schedulers.slurm.cluster import SlurmScheduler
from dispatch.schedulers.slurm.rest import Rest
from dispatch.schedulers.slurm.settings import Queue, SigningKey, SlurmCluster
from dispatch.schedulers.slurm.tokens import MintedTokens
from tests.schedulers.slurm.fake import KEY, FakeSlurm, Served

DIGEST = "0" * 64
JOB = "j00000001"


@dataclass
class Clock:
    """A clock that goes when it is told to."""

    at: datetime = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.at

    def pass_s(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)

    def epoch(self) -> int:
        return int(self.at.timestamp())


def settings(**changed: Any) -> SlurmCluster:
    """Return a cluster's settings; `changed` replaces fields."""
    fields: dict[str, Any] = {
        "name": "proving",
        "url": "http://127.0.0.1:1",
        "user": "trainer",
        "api": "v0.0.42",
        "sign_in": SigningKey(secret="file:/key"),
        "queues": {"main": Queue(partition="main", accounts=("physics",), qos=("normal",))},
        "default_queue": "main",
        "pace_s": 0.0,
    }
    return SlurmCluster(**{**fields, **changed})


def tag(n: int = 1, a: int = 1, *, job: str = JOB, digest: str = DIGEST) -> Tag:
    return Tag(job=job, n=n, a=a, spec_digest=digest, generation=0)


def order(
    n: int = 1,
    a: int = 1,
    *,
    job: str = JOB,
    owner: str = "ann",
    adjust: Adjust | None = None,
    **spec: Any,
) -> StartOrder:
    """Return a Start; `spec` replaces the spec's fields."""
    fields: dict[str, Any] = {"name": "train", "command": ("sleep", "1")}
    return StartOrder(tag(n, a, job=job), Spec(**{**fields, **spec}), adjust, owner, False)


def sent(at: datetime, n: int = 1, a: int = 1, *, job: str = JOB) -> Sent:
    """Return a Start that was recorded at a time, with the cluster's own bound."""
    return Sent(tag(n, a, job=job), at, at + timedelta(seconds=settings().call_bound_s))


@dataclass
class World:
    """A fake cluster, its clock and adapters to it."""

    fake: FakeSlurm
    clock: Clock
    opened: list[SlurmScheduler] = field(default_factory=list)

    def scheduler(self, **changed: Any) -> SlurmScheduler:
        """Return an adapter with an empty memory."""
        cluster = settings(url=self.fake.url, **changed)
        tokens = MintedTokens(lambda: KEY, self.clock)
        made = SlurmScheduler(
            cluster,
            Rest(cluster, tokens, monotonic=time.monotonic),
            clock=self.clock,
            sleep=self.clock.pass_s,
        )
        self.opened.append(made)
        return made

    def started(self, scheduler: SlurmScheduler, n: int = 1, a: int = 1, **spec: Any) -> Target:
        """Start an attempt and return its object."""
        from dispatch.schedulers.scheduler import Started

        done = scheduler.start(order(n, a, **spec))
        assert isinstance(done, Started), done
        return Target(done.ref, tag(n, a))


@pytest.fixture
def world() -> Iterator[World]:
    clock = Clock()
    fake = FakeSlurm(now=clock.epoch)
    served = Served(fake)
    made = World(fake, clock)
    yield made
    for scheduler in made.opened:
        scheduler.close()
    served.close()


Make = Callable[..., SlurmScheduler]
