"""Processes as /proc shows them: who descends from whom, who carries a mark, how large they are.

A process is named by its id *and* the tick it started at, since ids are used again.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

MARK = "DISPATCH_OBJECT"
"""The environment variable by which an object's processes are found without their runner."""

_PROC = Path("/proc")
_SET_CHILD_SUBREAPER = 36
_SET_PARENT_DEATH_SIGNAL = 1


@dataclass(frozen=True, slots=True)
class Process:
    """One process: its id, the tick it started at, and its parent's id."""

    pid: int
    started: int
    parent: int


def boot_id() -> str:
    """Return the identity of the machine's present boot."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def uptime_s() -> float:
    """Return the seconds since boot, time asleep included; no wall clock can move it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def become_subreaper() -> bool:
    """Make orphaned descendants children of this process; say whether that worked."""
    return _prctl(_SET_CHILD_SUBREAPER, 1)


def has_children() -> bool:
    """Return whether this process has any child, a dead one that wasn't waited for included."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def die_with_parent() -> bool:
    """Ask that this process is killed when the one that started it dies."""
    return _prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def _prctl(option: int, value: int) -> bool:
    try:
        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def snapshot() -> dict[int, Process]:
    """Return every process that isn't dead already, by id."""
    seen = (read(int(path.name)) for path in _PROC.iterdir() if path.name.isdigit())
    return {process.pid: process for process in seen if process is not None}


def read(pid: int) -> Process | None:
    """Return one process, or None if there is none or it is a zombie."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name stands in brackets and may hold anything, brackets and blanks too.
    fields = text[text.rindex(")") + 2 :].split()
    if fields[0] in "ZX":
        return None
    return Process(pid, int(fields[19]), int(fields[1]))


def descendants(root: int) -> list[Process]:
    """Return the live descendants of a process; under a subreaper none of them can slip away."""
    return below(root, snapshot())


def below(root: int, everybody: dict[int, Process]) -> list[Process]:
    """Return the descendants of a process within a snapshot."""
    children: dict[int, list[Process]] = {}
    for process in everybody.values():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    rest = list(children.get(root, ()))
    while rest:
        process = rest.pop()
        found.append(process)
        rest += children.get(process.pid, ())
    return found


def environment(pid: int) -> dict[str, str]:
    """Return the environment a process was started with, empty where it can't be read."""
    try:
        raw = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    pairs = (item.partition(b"=") for item in raw.split(b"\0") if b"=" in item)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def marked(ref: str) -> list[Process]:
    """Return the processes that were started with an object's mark."""
    wanted = os.fsencode(f"{MARK}={ref}")
    found = []
    for process in snapshot().values():
        try:
            raw = (_PROC / str(process.pid) / "environ").read_bytes()
        except OSError:
            continue
        if wanted in raw.split(b"\0"):
            found.append(process)
    return found


def send(process: Process, number: int) -> None:
    """Send a signal to that very process, never to another that got its id."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return
    try:
        now = read(process.pid)
        if now is not None and now.started == process.started:
            signal.pidfd_send_signal(handle, number)
    except OSError:
        return
    finally:
        os.close(handle)


def send_all(processes: Iterable[Process], number: int) -> None:
    """Send a signal to each."""
    for process in processes:
        send(process, number)


def kill_until_none(find: Callable[[], list[Process]], within_s: float) -> bool:
    """Kill what `find` finds until it finds nothing; say whether that came about in time."""
    until = uptime_s() + within_s
    while True:
        # Twice: what is born during one look has been there for the whole of the next.
        left = find() or find()
        if not left:
            return True
        if uptime_s() >= until:
            return False
        send_all(left, signal.SIGKILL)
        time.sleep(0.01)


def resident_bytes(pid: int) -> int:
    """Return a process's resident memory; what it shares counts whole."""
    try:
        pages = int((_PROC / str(pid) / "statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def proportional_bytes(pid: int) -> int:
    """Return a process's resident memory, what it shares divided among those who share it."""
    try:
        lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return resident_bytes(pid)
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
