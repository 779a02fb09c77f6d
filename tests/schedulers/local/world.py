"""The local cluster as the conformance suite's world: real processes on this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dispatch.record.header import LocalSpec, Spec
from dispatch.schedulers.local import memory, processes, spool
from dispatch.schedulers.local.adapter import LocalScheduler
from dispatch.schedulers.local.admin import Administrator
from dispatch.schedulers.local.request import Limits
from tests.conformance.scheduler.world import Work

CLUSTER = "here"
PATIENCE_S = 60.0
POLL_S = 0.01

# A child in a session of its own, with its parents gone, that ignores the polite signal.
LEFT_BEHIND = "(setsid sh -c 'trap \"\" TERM; while :; do sleep 300; done' &) ; sleep 300"
TAKE_MEMORY = "import time\nheld = bytearray(192 * 1024 * 1024)\ntime.sleep(0.5)"


class LocalWorld:
    """A spool in a temporary folder; its clock is the machine's, moved on by `advance`."""

    def __init__(self, folder: Path, *, retention_s: int = 600, cgroups: bool = True) -> None:
        self.spool_dir = folder / "spool"
        self.retention_s = retention_s
        self.limits = Limits(cgroups=cgroups)
        self._ahead = timedelta(0)
        self._scheduler = self.another()
        self._admin = Administrator(self.spool_dir, self.clock, by="alice")

    @property
    def scheduler(self) -> LocalScheduler:
        return self._scheduler

    def clock(self) -> datetime:
        return datetime.now(UTC) + self._ahead

    def another(self) -> LocalScheduler:
        return LocalScheduler(
            self.spool_dir,
            CLUSTER,
            self.clock,
            retention_s=self.retention_s,
            limits=self.limits,
        )

    def spec(self, work: Work, **changes: Any) -> Spec:
        return Spec(**{**_WORK[work], "name": "work", "local": LocalSpec(grace_s=0), **changes})

    def refused_spec(self) -> tuple[Spec, str]:
        return self.spec(Work.LAST, image="repository/image:1"), "image"

    # --- time ---

    def until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            if time.monotonic() >= deadline:
                pytest.fail(f"never: {what}")
            time.sleep(POLL_S)

    def advance(self, seconds: float) -> None:
        self._ahead += timedelta(seconds=seconds)

    # --- the truth ---

    def processes(self, ref: str) -> int:
        return len(processes.marked(ref))

    def environment(self, ref: str) -> Mapping[str, str]:
        found = processes.marked(ref)
        return processes.environment(found[0].pid) if found else {}

    # --- what happens to objects ---

    def preempt(self, ref: str) -> None:
        self._admin.preempt(ref)

    def lose_node(self, ref: str) -> None:
        self._admin.lose_node(ref)

    def cancel(self, ref: str) -> None:
        self._admin.cancel(ref)

    def hold(self, ref: str) -> None:
        self._admin.hold(ref)

    def forget(self, ref: str) -> None:
        del ref
        self.advance(self.retention_s + 1)

    def restart(self) -> None:
        self._scheduler = self.another()

    def alien(self) -> str:
        (self.spool_dir / "objects" / "somebody-elses").mkdir()
        return "somebody-elses"

    # --- trouble on the way ---

    @contextmanager
    def replies_lost(self) -> Iterator[None]:
        def fail(path: Path) -> None:
            raise OSError(5, "the disk didn't say whether it is written", str(path))

        with pytest.MonkeyPatch.context() as patch:
            real = spool.sync_folder

            def sync(path: Path) -> None:
                # What is prepared must be whole; only the change itself is in doubt.
                (real if path.parent.name == "new" else fail)(path)

            patch.setattr(spool, "sync_folder", sync)
            yield

    @contextmanager
    def silent(self) -> Iterator[None]:
        there = self.spool_dir / "cluster.json"
        away = there.rename(self.spool_dir / "cluster.json.away")
        try:
            yield
        finally:
            away.rename(there)

    @contextmanager
    def cut(self) -> Iterator[None]:
        broken = self.spool_dir / "objects" / "jobbroken.1.1"
        broken.mkdir()
        (broken / "order.json").write_text("{")
        try:
            yield
        finally:
            (broken / "order.json").unlink()
            broken.rmdir()

    # --- the end of it ---

    def close(self) -> None:
        """Leave no process of this world behind."""
        refs = {order.ref for order, _ in self._admin.objects()}
        for ref in refs:
            self._admin.cancel(ref)
        self.until(
            lambda: all(not life.watched for _, life in self._admin.objects()), "all runners ended"
        )
        for _, life in self._admin.objects():
            memory.remove(life.cgroups, PATIENCE_S)
        assert not [ref for ref in refs if processes.marked(ref)]

    def folder(self, ref: str) -> Path:
        return self.spool_dir / "objects" / ref.split("/")[1]

    def runner_of(self, ref: str) -> int:
        """Return the process id of an object's runner."""
        wanted = os.fsencode(str(self.folder(ref)))
        for process in processes.snapshot().values():
            line = Path(f"/proc/{process.pid}/cmdline")
            try:
                words = line.read_bytes().split(b"\0")
            except OSError:
                continue
            if b"dispatch.schedulers.local.runner" in words and wanted in words:
                return process.pid
        raise LookupError(ref)


_WORK: dict[Work, dict[str, Any]] = {
    Work.SUCCEED: {"command": ("true",)},
    Work.FAIL: {"command": ("sh", "-c", "echo so it ended: ünwell; exit 3")},
    Work.CRASH: {"command": ("sh", "-c", "kill -ABRT $$")},
    Work.LAST: {"command": ("sh", "-c", LEFT_BEHIND)},
    Work.HOG: {"command": ("python3", "-S", "-c", TAKE_MEMORY), "memory_mb_per_node": 64},
    Work.OVERRUN: {"command": ("sh", "-c", LEFT_BEHIND), "time_limit_s": 1},
}
