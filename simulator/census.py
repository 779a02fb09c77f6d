"""What went wrong in many seeds, and how often: the list of faults, counted where they struck."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from simulator.faults import MENUS, TWICE, Fault
from simulator.scenario import Shape

EVERY = frozenset(Shape)
SLURM = frozenset({Shape.SLURM})
KUBERNETES = EVERY - SLURM


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that can befall, and by what it is counted.

    Attributes:
        what: In words.
        counted: A pattern over the names that runs count under.
        shapes: Where it can come at all.
    """

    what: str
    counted: re.Pattern[str]
    shapes: frozenset[Shape]


def _line(what: str, counted: str | None = None, shapes: frozenset[Shape] = EVERY) -> Line:
    return Line(what, re.compile(counted if counted is not None else re.escape(what)), shapes)


LINES: tuple[Line, ...] = (
    _line("a call lands late, within its bound or beyond", "landed late: .*"),
    _line("two supervisors' passes over one job overlap", "passes over one job overlap"),
    _line("the same tick comes twice"),
    _line("a process freezes for 15 minutes and goes on", r".*: the process froze .*"),
    _line("a process has hardly any time left"),
    _line("clocks differ, within the declared skew", "clocks differ"),
    _line("an older build refuses newer facts"),
    _line("an older build cancels beside newer facts", "an older build, .*: cancel"),
    _line("an older build intends something else there", "an older build, .*: (?!cancel).*"),
    _line("a pass by another configuration"),
    _line("submitted again with another plan and other declarations"),
    _line("a person's random intent", "a person's intent: .*"),
    _line("preempted"),
    _line("a pod is evicted, drained or under pressure", "a pod is ended: .*", KUBERNETES),
    _line("a queue takes a place away", "a place in the queue is taken away", KUBERNETES),
    _line("a node is lost", "its node is lost"),
    _line("a node is cut off unnoticed, and computes on", "its node is cut off, unnoticed"),
    _line("a lost node comes back", None, KUBERNETES),
    _line("cancelled or deleted by somebody else", "cancelled by somebody else"),
    _line("kubectl delete --cascade=background", "deleted outside: background", KUBERNETES),
    _line("kubectl delete --cascade=foreground", "deleted outside: foreground", KUBERNETES),
    _line("kubectl delete --cascade=orphan", "deleted outside: orphan", KUBERNETES),
    _line("kubectl delete pod", "deleted outside: pod", KUBERNETES),
    _line("held or suspended by somebody else", "held by somebody else"),
    _line("started again by somebody else while live", "started again by somebody else"),
    _line("an ended job is requeued by somebody else", "started again by somebody else, after .*"),
    _line("an object can't be placed", "it can't be placed"),
    _line("an end never comes to an end", "its end never comes to an end"),
    _line("a foreign object appears"),
    _line("somebody else submits a job"),
    _line("a controller crashes and loses its last seconds", "the controller crashes"),
    _line("a controller that is down is asked", "a question to a controller that is down"),
    _line("a job that was accepted vanishes", None, SLURM),
    _line("an id that was another's is given again", None, SLURM),
    _line("a call's id leads to another object", None, SLURM),
    _line("an acknowledged cancel is undone", "a cancel that was acknowledged is undone", SLURM),
    _line("an undone end runs again with the same restarts", None, SLURM),
    _line("accounting is asked before it has learnt of an end", None, SLURM),
    _line("accounting gives another cause", None, SLURM),
    _line("a pod and the cause of its end vanish", None, KUBERNETES),
    _line("a cluster is restored from a backup", "the cluster is restored .*", KUBERNETES),
    _line("a whole list is empty, and wrong"),
    _line("a mass loss isn't believed"),
)
"""What is counted beside the faults of single calls."""


class Census:
    """Adds up what runs counted."""

    def __init__(self) -> None:
        self._played: set[Shape] = set()
        self._times: Counter[tuple[Shape, str]] = Counter()
        self._seeds: Counter[tuple[Shape, str]] = Counter()

    def add(self, shape: Shape, counts: Mapping[str, int]) -> None:
        """Add one run's counts."""
        self._played.add(shape)
        for name, times in counts.items():
            self._times[shape, name] += times
        for line in LINES:
            if any(times and line.counted.fullmatch(name) for name, times in counts.items()):
                self._seeds[shape, line.what] += 1

    def times(self, line: Line, shape: Shape) -> int:
        """Return how often it came."""
        return sum(
            times
            for (there, name), times in self._times.items()
            if there is shape and line.counted.fullmatch(name)
        )

    def of_calls(self, call: str, fault: Fault) -> int:
        """Return how often a fault struck a call, whatever the shape."""
        return sum(self._times[shape, f"{call}: {fault.value}"] for shape in Shape)

    def missing(self) -> list[str]:
        """Return what never came, though it can."""
        never = [
            f"{line.what} ({shape})"
            for line in LINES
            for shape in sorted(line.shapes & self._played)
            if not self.times(line, shape)
        ]
        for call, menu in MENUS.items():
            faults = [fault for _, fault in menu] + [Fault.TWICE] * (call in TWICE)
            never += [
                f"{call}: {fault.value}" for fault in faults if not self.of_calls(call, fault)
            ]
        return never

    def table(self) -> Iterator[str]:
        """Yield two tables: faults of calls by call, and everything else by shape."""
        yield "how often a call met a fault"
        yield " " * 34 + "".join(f"{call:>8}" for call in MENUS)
        for fault in Fault:
            cells = [
                f"{self.of_calls(call, fault):>8,}" if self._can(call, fault) else f"{'-':>8}"
                for call in MENUS
            ]
            yield (f"{_SHORT[fault]:<34}" + "".join(cells)).rstrip()
        yield ""
        shapes = [shape for shape in Shape if shape in self._played]
        yield f"{'what befell, times (seeds)':<58}" + "".join(f"{shape:>20}" for shape in shapes)
        for line in LINES:
            cells = [
                f"{self.times(line, shape):,} ({self._seeds[shape, line.what]:,})"
                if shape in line.shapes
                else "-"
                for shape in shapes
            ]
            yield f"{line.what:<58}" + "".join(f"{cell:>20}" for cell in cells)
        never = self.missing()
        yield ""
        yield f"never came: {'; '.join(never) or 'nothing'}"

    @staticmethod
    def _can(call: str, fault: Fault) -> bool:
        return any(one is fault for _, one in MENUS[call]) or (
            fault is Fault.TWICE and call in TWICE
        )


_SHORT: Mapping[Fault, str] = {
    Fault.CRASH_BEFORE: "crash before it",
    Fault.CRASH_AFTER: "crash right after it",
    Fault.CRASH_LATE: "crash, and it lands later",
    Fault.UNAVAILABLE: "no answer, nothing done",
    Fault.REFUSED: "refused",
    Fault.CONFLICT: "a conflict without reason",
    Fault.LOST: "done, and the reply lost",
    Fault.NEVER: "never arrives, nobody knows",
    Fault.LATE: "lands late, within its bound",
    Fault.BEYOND: "lands long after its bound",
    Fault.PART: "a part of the answer lost",
    Fault.SLOW: "a slow reply: stale when it comes",
    Fault.FROZEN: "process frozen for 15 minutes",
    Fault.TWICE: "delivered twice",
}
