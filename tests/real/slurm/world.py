"""The real Slurm as the conformance suite's world. Every world sees its own objects alone."""

from __future__ import annotations

import itertools
import os
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from dispatch.record.header import Spec
from dispatch.schedulers.slurm.cluster import SlurmScheduler
from dispatch.schedulers.slurm.rest import Rest
from dispatch.schedulers.slurm.settings import Bounds, Queue, SigningKey, SlurmCluster
from dispatch.schedulers.slurm.tags import identified
from dispatch.schedulers.slurm.tokens import MintedTokens, Tokens
from tests.conformance.scheduler.world import Work
from tests.real.slurm.proxy import Proxy, Trouble, is_call, none
from tests.real.slurm.real import RealSlurm, until

_COUNT = itertools.count(1)

# A child in a session of its own, with its parents gone, that ignores the polite signal.
LEFT_BEHIND = "(setsid sh -c 'trap \"\" TERM; while :; do sleep 300; done' &) ; sleep 300"
TAKE_MEMORY = "$held = 'x' x (192 * 1024 * 1024); sleep 1; print length $held"

_WORK: dict[Work, dict[str, Any]] = {
    Work.SUCCEED: {"command": ("true",)},
    Work.FAIL: {"command": ("sh", "-c", "echo so it ended; exit 3")},
    Work.CRASH: {"command": ("sh", "-c", "kill -ABRT $$")},
    Work.LAST: {"command": ("sh", "-c", LEFT_BEHIND)},
    Work.HOG: {"command": ("perl", "-e", TAKE_MEMORY), "memory_mb_per_node": 64},
    Work.OVERRUN: {"command": ("sh", "-c", LEFT_BEHIND), "time_limit_s": 60},
}

BOUNDS = Bounds(
    request_timeout_s=25,
    landing_bound_s=4,
    call_bound_s=30,
    retention_s=30,
    save_window_s=12,
    node_loss_window_s=2,
    clock_skew_s=1,
    lookup_lag_s=2,
)


def id_of(ref: str) -> int:
    identity = identified(ref)
    assert identity is not None, ref
    return identity.job_id


class SlurmWorld:
    """A name of its own on the real cluster, a proxy before it, and adapters through that."""

    def __init__(
        self, real: RealSlurm, *, tls: ssl.SSLContext | None = None, **changed: Any
    ) -> None:
        self.real = real
        self.proxy = Proxy(real.url, tls)
        queues = {
            "main": Queue(partition="main", accounts=("physics",), qos=("normal", "brief")),
            "closed": Queue(partition="closed", accounts=("physics",), qos=("normal",)),
            "small": Queue(partition="small", accounts=("physics",), qos=("normal",)),
        }
        fields: dict[str, Any] = {
            "name": f"w{os.getpid()}-{next(_COUNT)}",
            "url": self.proxy.url,
            "cluster_name": "proving",
            "user": "trainer",
            "sign_in": SigningKey(secret="file:/key", lifetime_s=3),
            "queues": {name: queues[name] for name in ("main",)},
            "default_queue": "main",
            "workdir": str(real.base / "work"),
            "bounds": BOUNDS,
        }
        if changed.pop("all_queues", False):
            fields["queues"] = queues
        self.settings = SlurmCluster(**{**fields, **changed})
        self._opened: list[SlurmScheduler] = []
        self._scheduler = self.another()

    @property
    def scheduler(self) -> SlurmScheduler:
        return self._scheduler

    def clock(self) -> datetime:
        return datetime.now(UTC)

    def tokens(self) -> Tokens:
        return MintedTokens(self.real.key, self.clock)

    def another(self, tokens: Tokens | None = None) -> SlurmScheduler:
        tokens = self.tokens() if tokens is None else tokens
        rest = Rest(self.settings, tokens, monotonic=time.monotonic)
        made = SlurmScheduler(self.settings, rest, clock=self.clock)
        self._opened.append(made)
        return made

    def spec(self, work: Work, **changes: Any) -> Spec:
        return Spec(**{**_WORK[work], "name": "work", **changes})

    def refused_spec(self) -> tuple[Spec, str]:
        return self.spec(Work.LAST, image="repository/image:1"), "image"

    # --- time ---

    def until(self, holds: Callable[[], bool], what: str) -> None:
        until(holds, what)

    def advance(self, seconds: float) -> None:
        """Let time pass. A call's bound is waited out by what enforces it: the token's end."""
        self._end_time_limits()
        if seconds > BOUNDS.save_window_s + BOUNDS.clock_skew_s:
            assert self.settings.sign_in.kind == "hs256"
            seconds = self.settings.sign_in.lifetime_s + BOUNDS.clock_skew_s
        time.sleep(seconds)

    def _end_time_limits(self) -> None:
        running = self.real.run("squeue", "-h", "-t", "running", "-u", "trainer", "-o", "%i %l")
        for line in running.splitlines():
            job_id, limit = line.split()
            if limit == "1:00":
                self.real.update(int(job_id), endtime="now+1")

    # --- the truth ---

    def processes(self, ref: str) -> int:
        return len(self.real.processes(id_of(ref)))

    def environment(self, ref: str) -> Mapping[str, str]:
        found = self.real.processes(id_of(ref))
        return found[0][1] if found else {}

    # --- what happens to objects ---

    def preempt(self, ref: str) -> None:
        node = self.real.field(id_of(ref), "NodeList")
        urgent = ("-p", "urgent", "-w", str(node), "-c", "4", "--wrap", "sleep 60")
        self.real.batch("-o", "/dev/null", "-A", "physics", *urgent, user="other")

    def lose_node(self, ref: str) -> None:
        node = self.real.field(id_of(ref), "NodeList")
        self.real.run("scontrol", "update", f"nodename={node}", "state=down", "reason=lost")

    def cancel(self, ref: str) -> None:
        self.real.run("scancel", str(id_of(ref)))

    def hold(self, ref: str) -> None:
        self.real.run("scontrol", "hold", str(id_of(ref)))

    def forget(self, ref: str) -> None:
        self.real.forget(id_of(ref))

    def restart(self) -> None:
        self.real.restart_controller()

    def alien(self) -> str:
        return str(self.real.batch("-o", "/dev/null", "-J", "theirs", "--wrap", "sleep 60"))

    # --- trouble on the way ---

    @contextmanager
    def replies_lost(self) -> Iterator[None]:
        with self._trouble(Trouble.LOSE_REPLY, is_call):
            yield

    @contextmanager
    def silent(self) -> Iterator[None]:
        with self._trouble(Trouble.SWALLOW, lambda method, path: True):
            yield

    @contextmanager
    def cut(self) -> Iterator[None]:
        with self._trouble(
            Trouble.CUT_REPLY, lambda method, path: path.partition("?")[0].endswith("/jobs/")
        ):
            yield

    @contextmanager
    def _trouble(self, what: Trouble, where: Callable[[str, str], bool]) -> Iterator[None]:
        self.proxy.choose = lambda method, path: what if where(method, path) else Trouble.NONE
        try:
            yield
        finally:
            self.proxy.choose = none

    # --- the end of it ---

    def close(self) -> None:
        self.real.cancel_everything()
        for one in self._opened:
            one.close()
        self.proxy.close()
