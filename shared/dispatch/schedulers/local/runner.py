"""The process that runs one object's processes and writes down how they ended.

`python -m dispatch.schedulers.local.runner FOLDER LOCK` detaches itself: it has a session of its
own, outlives whoever started it, and holds the folder's runner lock (inherited as the file
descriptor LOCK) for as long as it watches. It is the subreaper of all it starts, so that no
process of the object can leave its sight.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from dispatch.record.names import ObjectState
from dispatch.schedulers.local import life as lives
from dispatch.schedulers.local import memory, processes, spool
from dispatch.schedulers.local.codec import Unreadable
from dispatch.schedulers.local.life import Ask, Life, Place
from dispatch.schedulers.local.run import IGNORED, Run
from dispatch.schedulers.local.spool import Folder

_TICK_S = 1.0
_PATIENT_S = 3600.0


def now() -> str:
    """Return the time as the spool's files write it."""
    return datetime.now(UTC).isoformat()


class Wakeups:
    """Everything a runner waits for: a child's end, a change of the object, its own end."""

    def __init__(self, folder: Folder) -> None:
        self.told_to_end = False
        self._signals, self._from_kernel = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._from_kernel, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._end)
        for number in IGNORED:
            signal.signal(number, signal.SIG_IGN)
        # Read and write: it is then never at its end, whoever has closed it.
        self._wake = os.open(folder.path / "wake", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def _end(self, *_: object) -> None:
        self.told_to_end = True

    def wait(self, at_most_s: float) -> None:
        """Return when something happened, or after a time, seconds."""
        ready, _, _ = select.select([self._signals, self._wake], [], [], max(0.0, at_most_s))
        for handle in ready:
            with suppress(BlockingIOError):
                while os.read(handle, 4096):
                    pass


class Runner:
    """Watches one object until it has ended, or waits again without processes."""

    def __init__(self, folder: Folder, lock: int) -> None:
        self._folder = folder
        self._lock = lock
        self._order = folder.order()
        self._wakeups = Wakeups(folder)
        self._limiter: memory.Limiter | None = None

    def watch(self) -> None:
        """Run the object as often as it is due."""
        life = self._change(self._begin)
        while life.watched and self._limiter is not None:
            run, life = self._launch(life, self._limiter)
            while not run.over(life, self._wakeups.told_to_end):
                if run.verdict is not None and life.phase is ObjectState.RUNNING:
                    life = self._change(partial(lives.ending, reason=run.verdict.reason))
                self._wakeups.wait(run.tick_s())
                life = self._read(life)
            self._limiter.close()
            self._limiter = None
            life = self._change(partial(self._finish, run=run))

    def _begin(self, life: Life) -> Life:
        if not life.due:
            return life
        order = self._order
        if self._limiter is None:
            label = f"{order.folder_name}-{order.ref.rpartition('/')[2]}-{life.restarts}"
            self._limiter = memory.limiter(label, order.nodes, order.memory_mb, order.cgroups)
        names = tuple(f"{order.cluster}-{node}" for node in range(order.nodes))
        place = Place(processes.boot_id(), names, self._limiter.kind, self._limiter.cgroups)
        return lives.running(life, place, now())

    def _launch(self, life: Life, limiter: memory.Limiter) -> tuple[Run, Life]:
        run = Run(self._order, life.restarts, limiter)
        outputs = spool.output_paths(self._order)
        if life.restarts == 0:
            with suppress(OSError):
                begin = outputs[0].stat().st_size
                life = self._change(partial(replace, output_from=begin)) if begin else life
        run.launch(outputs)
        return run, life

    def _finish(self, life: Life, run: Run) -> Life:
        if life.ended:
            return lives.drained(life)
        if life.draining and life.ask is Ask.RERUN:
            return self._begin(lives.drained(life))
        return lives.ended(life, run.end(life), now())

    def _read(self, last: Life) -> Life:
        try:
            return self._folder.life()
        except (OSError, spool.Gone, Unreadable):
            # Its processes go on; what can't be read now can be read later.
            return last

    def _change(self, change: Callable[[Life], Life]) -> Life:
        """Change the object, however long it takes until that can be written."""
        while True:
            try:
                with self._folder.locked(_PATIENT_S):
                    life = self._folder.life()
                    changed = change(life)
                    if changed != life:
                        changed = self._folder.save(changed)
                    if not changed.watched:
                        # Within the folder's lock: whoever has it next sees that nobody watches.
                        os.close(self._lock)
                    return changed
            except (OSError, spool.Busy, spool.Gone, Unreadable) as problem:
                print(f"{now()} {problem!r}", file=sys.stderr, flush=True)  # noqa: T201
                time.sleep(_TICK_S)


def main(folder: Path, lock: int) -> None:
    """Detach, and watch the object in a folder."""
    if os.fork():
        os._exit(0)
    os.set_inheritable(lock, False)
    # Relative from here on: the spool may be moved or lose its mount's name, this folder stays.
    os.chdir(folder)
    processes.become_subreaper()
    Runner(Folder(Path()), lock).watch()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
