"""Plain words for times, amounts, causes and specs, and whom they are told to."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo

from dispatch.core.job import Job
from dispatch.core.parts import Run, SchedulerObject
from dispatch.record.header import Spec
from dispatch.record.names import Cause, ObjectState

LONGEST_COMMAND = 72
"""Characters of a command that a sentence quotes; the export holds all of it."""

CAUSE_WORDS: dict[Cause, str] = {
    Cause.PREEMPTED: "was preempted",
    Cause.NODE_LOST: "lost its node",
    Cause.OUT_OF_MEMORY: "ran out of memory",
    Cause.TIMEOUT: "reached its time limit",
    Cause.NO_CAPACITY: "found no capacity",
    Cause.APP_ERROR: "failed by itself",
    Cause.LAUNCH_FAILED: "could not be launched",
    Cause.IMAGE_PULL_FAILED: "could not pull its image",
    Cause.EVICTED: "was evicted",
    Cause.DISK_PRESSURE: "was evicted because it wrote more to its own disk than it may",
    Cause.STOPPED: "was stopped by Dispatch",
    Cause.STOPPED_OUTSIDE: "was stopped by somebody other than Dispatch",
    Cause.INTERRUPTED: "was interrupted",
    Cause.DEVICE_FAILED: "lost a device",
    Cause.NODE_PRESSURE: "was evicted because its node ran short of resources",
    Cause.NODE_SHUTDOWN: "ended with the shutdown of its node",
    Cause.NODE_REJECTED: "was rejected by its node",
    Cause.START_REFUSED: "was refused by the scheduler",
    Cause.NAME_TAKEN: "found its name taken",
    Cause.START_FAILED: "could not be started",
    Cause.LOST: "is gone, and nobody knows how it ended",
    Cause.GIVEN_UP: "was given up",
    Cause.UNSCHEDULABLE: "can't be scheduled as asked for",
    Cause.INVALID_SPEC: "was refused as asked for",
    Cause.HELD_OUTSIDE: "is held by somebody other than Dispatch",
    Cause.DEADLINE: "missed its deadline",
}
"""What follows "it" in a sentence about each cause."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Whom a record is told to.

    Attributes:
        now: The present time, UTC.
        zone: The zone to show times in.
        day: The day, in that zone, whose times are told without their date.
    """

    now: datetime
    zone: tzinfo
    day: date | None = None

    def on_the_day_of(self, at: datetime) -> Reader:
        """Return a reader who knows the day of `at`."""
        return Reader(self.now, self.zone, at.astimezone(self.zone).date())

    def time(self, at: datetime) -> str:
        """Return a time to the second, without its date on the reader's day."""
        here = at.astimezone(self.zone)
        return here.strftime("%H:%M:%S" if here.date() == self.day else "%Y-%m-%d %H:%M:%S")

    def date(self, at: datetime) -> str:
        """Return the day of a time."""
        return at.astimezone(self.zone).strftime("%Y-%m-%d")

    @property
    def zone_name(self) -> str:
        """The zone's short name."""
        return self.now.astimezone(self.zone).tzname() or str(self.zone)

    def ago(self, at: datetime) -> str:
        """Return how long before now a time was."""
        return f"{duration(self.now - at)} ago" if at <= self.now else "just now"

    def until(self, at: datetime) -> str:
        """Return a coming time and how long that is."""
        if at <= self.now:
            return f"until {self.time(at)}, which has passed"
        return f"until {self.time(at)} (in {duration(at - self.now)})"


def duration(length: timedelta) -> str:
    """Return a length of time in its two largest units."""
    seconds = max(0.0, length.total_seconds())
    if seconds < 10:
        text = f"{seconds:.1f}".removesuffix(".0")
        return f"{text} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return _two((whole // 60, "min"), (whole % 60, "s"))
    minutes = whole // 60
    if minutes < 1440:
        return _two((minutes // 60, "h"), (minutes % 60, "min"))
    return _two((minutes // 1440, "d"), (minutes % 1440 // 60, "h"))


def _two(*parts: tuple[int, str]) -> str:
    return " ".join(f"{count} {unit}" for count, unit in parts if count)


def counted(count: int, word: str, plural: str | None = None) -> str:
    """Return a count with its noun."""
    return f"{count:,} {word if count == 1 else (plural or word + 's')}"


def quoted(text: str) -> str:
    """Return somebody's own words as such."""
    return f"“{' '.join(text.split())}”"


def command_of(spec: Spec) -> str:
    """Return what a spec runs, cut to a readable length."""
    if spec.script is not None:
        return f"a script of {counted(len(spec.script.splitlines()), 'line')}"
    text = " ".join(shlex.join(spec.command or ()).split())
    return text if len(text) <= LONGEST_COMMAND else text[: LONGEST_COMMAND - 1] + "…"


def size_of(spec: Spec) -> str:
    """Return what a spec asks for."""
    parts = [counted(spec.nodes, "node")]
    if spec.tasks_per_node > 1:
        parts.append(f"{spec.tasks_per_node} tasks each")
    if spec.memory_mb_per_node is not None:
        parts.append(f"{spec.memory_mb_per_node:,} MB each")
    if spec.gpus_per_node:
        parts.append(f"{counted(spec.gpus_per_node, 'GPU')} each")
    if spec.time_limit_s is not None:
        parts.append(f"at most {duration(timedelta(seconds=spec.time_limit_s))}")
    return ", ".join(parts)


def hold_words(hold: str) -> str:
    """Return what follows "held": by whom, or for what."""
    kind, _, whose = hold.partition(" ")
    whose = whose.removeprefix("(").removesuffix(")")
    match kind:
        case "recovery":
            return f"by its plan, which asks a person about {whose}"
        case "scheduler":
            return f"at the scheduler, by {whose}"
        case _:
            return f"by {whose}"


def object_name(job: Job, ref: str) -> str:
    """Return a short name of an object where that names no other, else its ref."""
    known = job.objects.get(ref)
    if known is None:
        return ref
    if known.foreign:
        return f"foreign object {ref}"
    same = [o for o in job.objects.values() if (o.n, o.a) == (known.n, known.a) and not o.foreign]
    return f"object {known.n}.{known.a}" if len(same) == 1 else f"object {ref}"


def state_words(known: SchedulerObject, run: Run | None = None) -> str:
    """Return what follows an object's name: what it does, or how its run ended."""
    run = run or known.run
    match run.state:
        case ObjectState.PENDING:
            return _waits(known, run)
        case ObjectState.RUNNING:
            return f"runs{on_nodes(run)}"
        case ObjectState.ENDING:
            return "is ending"
        case ObjectState.SUCCEEDED:
            return "succeeded"
        case ObjectState.FAILED | ObjectState.GONE:
            return end_words(run.cause, run)


def _waits(known: SchedulerObject, run: Run) -> str:
    if run.holder is not None:
        return f"is held by {run.holder}"
    if run.held:
        first = known.released_at is None and run.r == 1
        return "waits behind its gate" if first else "is held by Dispatch"
    return "waits for the scheduler"


def end_words(cause: Cause | None, run: Run) -> str:
    """Return how a run ended, with the exit code or signal where one is known."""
    said = "ended" if cause is None else CAUSE_WORDS[cause]
    if run.signal:
        return f"{said} (signal {run.signal})"
    if run.exit_code is not None:
        return f"{said} (exit code {run.exit_code})"
    return said


def on_nodes(run: Run) -> str:
    """Return where a run is or was, with a space before it; nothing where that isn't known."""
    if not run.nodes:
        return ""
    shown = ", ".join(run.nodes[:4])
    more = len(run.nodes) - 4
    return f" on {shown}" + (f" and {more} more" if more > 0 else "")
