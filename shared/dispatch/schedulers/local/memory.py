"""What keeps each node of a run within its memory: a control group, or a watchdog without one."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from dispatch.schedulers.local import processes
from dispatch.schedulers.local.processes import Process

MB = 1024 * 1024
NODE_VARIABLE = "DISPATCH_NODE_RANK"
_EMPTY_WITHIN_S = 0.5
_EMPTY_TICK_S = 0.01


class Limiter(Protocol):
    """What limits a run's memory, node by node.

    Attributes:
        kind: What it is, for people.
        cgroups: The control groups it made.
        tick_s: How often `exceeded` wants to be asked.
    """

    kind: str
    cgroups: tuple[str, ...]
    tick_s: float

    def join(self, node: int) -> Callable[[], None]:
        """Return what a task of a node does to itself before it becomes the job's command."""
        ...

    def exceeded(self, tasks: Sequence[tuple[Process, int]]) -> int | None:
        """Return a node that went over its limit; `tasks` are the first processes and nodes."""
        ...

    def close(self) -> None:
        """Leave nothing behind."""
        ...


@dataclass(frozen=True, slots=True)
class Parent:
    """A control group that children may be made in."""

    version: int
    path: Path


def parents(own: str, mounts: str) -> list[Parent]:
    """Return where memory groups may be made, best first.

    Args:
        own: The text of `/proc/self/cgroup`.
        mounts: The text of `/proc/self/mountinfo`.
    """
    groups = dict(_own_group(line) for line in own.splitlines() if line.count(":") >= 2)
    found: list[Parent] = []
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        if len(before.split()) < 5 or len(after.split()) < 3:
            continue
        root, point = before.split()[3:5]
        kind, _, options = after.split()[:3]
        if kind == "cgroup" and "memory" in options.split(",") and "memory" in groups:
            found.append(Parent(1, _under(point, root, groups["memory"])))
        elif kind == "cgroup2" and "" in groups:
            mine = _under(point, root, groups[""])
            found.append(Parent(2, mine))
            # A group with processes of its own can't pass memory on: its parent may.
            if mine != Path(point):
                found.append(Parent(2, mine.parent))
    return sorted(found, key=lambda parent: parent.version)


def _own_group(line: str) -> tuple[str, str]:
    _, controllers, path = line.split(":", 2)
    return ("memory" if "memory" in controllers.split(",") else controllers, path)


def _under(point: str, root: str, path: str) -> Path:
    inside = path.removeprefix(root) if root != "/" else path
    return Path(point) / inside.lstrip("/")


def limiter(label: str, nodes: int, memory_mb: int | None, cgroups: bool) -> Limiter:
    """Return the strongest limiter that this machine and user allow."""
    for parent in _here() if cgroups else ():
        made = ControlGroups.make(parent, label, nodes, memory_mb)
        if made is not None:
            return made
    return Unlimited() if memory_mb is None else Watchdog(memory_mb)


def usable() -> Parent | None:
    """Return where control groups can probably be made; nothing is changed to find out."""
    for parent in _here():
        allowed = os.access(parent.path, os.W_OK | os.X_OK)
        with suppress(OSError):
            if allowed and (parent.version == 1 or _passes_on(parent)):
                return parent
    return None


def _here() -> list[Parent]:
    try:
        own = Path("/proc/self/cgroup").read_text()
        return parents(own, Path("/proc/self/mountinfo").read_text())
    except OSError:
        return []


def _passes_on(parent: Parent) -> bool:
    return "memory" in _text(parent.path, "cgroup.subtree_control").split()


def members(cgroups: Iterable[str]) -> list[Process]:
    """Return the live processes in control groups, as far as these still exist."""
    found: list[Process] = []
    for group in cgroups:
        for listing in Path(group).rglob("cgroup.procs"):
            with suppress(OSError):
                seen = (processes.read(int(pid)) for pid in listing.read_text().split())
                found += [process for process in seen if process is not None]
    return found


def remove(cgroups: Iterable[str], within_s: float = 0.0) -> None:
    """Remove control groups, once the kernel has let go of the processes that were in them."""
    until = processes.uptime_s() + within_s
    left = [Path(group) for group in cgroups]
    while True:
        for group in left:
            for listing in sorted(group.rglob("cgroup.procs"), reverse=True):
                with suppress(OSError):
                    listing.parent.rmdir()
        left = [group for group in left if group.exists()]
        if not left or processes.uptime_s() >= until:
            return
        time.sleep(_EMPTY_TICK_S)


@dataclass(slots=True)
class ControlGroups:
    """One control group for each node; the kernel enforces the limit and counts what it killed."""

    version: int
    cgroups: tuple[str, ...]
    kind: str
    tick_s: float

    @classmethod
    def make(
        cls, parent: Parent, label: str, nodes: int, memory_mb: int | None
    ) -> ControlGroups | None:
        """Make the groups, or nothing at all where one of them can't be made or limited."""
        made: list[str] = []
        try:
            if parent.version == 2 and not _passes_on(parent):
                _write(parent.path, "cgroup.subtree_control", "+memory")
            for node in range(nodes):
                path = parent.path / f"dispatch-{label}-{node}"
                path.mkdir()
                made.append(str(path))
                _limit(path, parent.version, memory_mb)
        except OSError:
            remove(made)
            return None
        tick_s = 1.0 if memory_mb is None else 0.25
        return cls(parent.version, tuple(made), f"cgroup v{parent.version}", tick_s)

    def join(self, node: int) -> Callable[[], None]:
        """Return what puts the calling process into a node's group."""
        listing = f"{self.cgroups[node]}/cgroup.procs"

        def enter() -> None:
            handle = os.open(listing, os.O_WRONLY)
            os.write(handle, b"0")
            os.close(handle)

        return enter

    def exceeded(self, tasks: Sequence[tuple[Process, int]]) -> int | None:
        """Return a node in which the kernel killed something for memory."""
        name = "memory.oom_control" if self.version == 1 else "memory.events"
        for node, group in enumerate(self.cgroups):
            with suppress(OSError):
                killed = re.search(r"^oom_kill (\d+)$", _text(Path(group), name), re.MULTILINE)
                if killed and int(killed[1]) > 0:
                    return node
        return None

    def close(self) -> None:
        """Remove the groups."""
        remove(self.cgroups, _EMPTY_WITHIN_S)


def _limit(path: Path, version: int, memory_mb: int | None) -> None:
    if memory_mb is None:
        return
    size = str(memory_mb * MB)
    if version == 1:
        _write(path, "memory.limit_in_bytes", size)
        swap, most = "memory.memsw.limit_in_bytes", size
    else:
        _write(path, "memory.max", size)
        swap, most = "memory.swap.max", "0"
        with suppress(OSError):
            _write(path, "memory.oom.group", "1")
    # A kernel that doesn't account for swap has no such file; memory is limited all the same.
    with suppress(OSError):
        _write(path, swap, most)


def _write(path: Path, name: str, text: str) -> None:
    # Not to be created: a name that the kernel doesn't offer must fail.
    handle = os.open(path / name, os.O_WRONLY)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


def _text(path: Path, name: str) -> str:
    return (path / name).read_text()


@dataclass(slots=True)
class Watchdog:
    """A look at the resident memory of each node's processes, several times a second."""

    memory_mb: int
    kind: str = "watchdog"
    cgroups: tuple[str, ...] = ()
    tick_s: float = 0.2
    _node_of: dict[tuple[int, int], int] = field(default_factory=dict)

    def join(self, node: int) -> Callable[[], None]:
        """Return nothing to do."""
        return _nothing

    def exceeded(self, tasks: Sequence[tuple[Process, int]]) -> int | None:
        """Return a node whose processes hold more than the limit."""
        everybody = processes.snapshot()
        nodes: dict[int, set[int]] = {}
        for process in processes.below(os.getpid(), everybody):
            nodes.setdefault(self._node(process, tasks, everybody), set()).add(process.pid)
        for node, pids in sorted(nodes.items()):
            # Pages that several share count once for each in the cheap sum, so it only raises a
            # suspicion.
            most = self.memory_mb * MB
            if (
                sum(map(processes.resident_bytes, pids)) > most
                and sum(map(processes.proportional_bytes, pids)) > most
            ):
                return node
        return None

    def _node(
        self,
        process: Process,
        tasks: Sequence[tuple[Process, int]],
        everybody: dict[int, Process],
    ) -> int:
        key = (process.pid, process.started)
        if key not in self._node_of:
            roots = {(task.pid, task.started): node for task, node in tasks}
            parent = everybody.get(process.parent)
            inherited = self._node_of.get((parent.pid, parent.started)) if parent else None
            if key in roots:
                self._node_of[key] = roots[key]
            elif inherited is not None:
                self._node_of[key] = inherited
            else:
                said = processes.environment(process.pid).get(NODE_VARIABLE, "0")
                self._node_of[key] = (
                    int(said) if said.isascii() and said.isdigit() and len(said) < 7 else 0
                )
        return self._node_of[key]

    def close(self) -> None:
        """Leave nothing: there is nothing."""


@dataclass(slots=True)
class Unlimited:
    """No limit was asked for, and no control group may be made."""

    kind: str = "none"
    cgroups: tuple[str, ...] = ()
    tick_s: float = 1.0

    def join(self, node: int) -> Callable[[], None]:
        """Return nothing to do."""
        return _nothing

    def exceeded(self, tasks: Sequence[tuple[Process, int]]) -> int | None:
        """Return None: nothing is too much."""
        return None

    def close(self) -> None:
        """Leave nothing: there is nothing."""


def _nothing() -> None:
    return None
