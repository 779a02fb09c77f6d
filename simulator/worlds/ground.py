"""The truth about processes, whatever a scheduler says of them, and what ended each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from dispatch.record.names import Cause
from dispatch.schedulers.scheduler import Tag
from simulator.chance import Chance
from simulator.stage import Stage


class Began(StrEnum):
    """Whose doing it is that a process runs."""

    OURS = "released by us"
    OUTSIDE = "somebody else's doing"
    SCHEDULER = "the scheduler's own doing"
    UNDONE = "the scheduler forgot that it had ended"


Doing = tuple[Began, float, float]
"""Whose doing a run is, the true time of that, and when the Find began that allowed it."""


@dataclass(frozen=True, slots=True)
class Fate:
    """How a process would end if it were left alone.

    Attributes:
        after_s: After how many seconds.
        cause: Why it fails; None if it succeeds.
        exit_code: Its exit code.
    """

    after_s: float
    cause: Cause | None = None
    exit_code: int | None = 0


@dataclass(slots=True)
class Process:
    """A run of an object, as it really is.

    Attributes:
        number: Unique for ever.
        ref: Of which object.
        tag: What it was started with.
        restarts: What the scheduler says.
        began: Whose doing it is.
        caused_at: The true time of that doing.
        decided_at: The true time at which the Find began that allowed it, if it is ours.
        foreign: Whether it is of another copy of the record.
        cut: Whether its node can't be reached.
        missed_at: The true time at which the scheduler noticed that.
        hidden: Whether its node was lost and nothing will ever tell of it.
        alive: Whether it still executes.
        environment: What it sees.
    """

    number: int
    ref: str
    tag: Tag
    restarts: int
    began: Began
    caused_at: float
    decided_at: float
    foreign: bool
    cut: bool = False
    missed_at: float | None = None
    hidden: bool = False
    alive: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)


FateOf = Callable[[Tag, int], Fate]
"""What becomes of the process of a tag's run with so many restarts."""


class Ground:
    """All processes of a cluster.

    Attributes:
        living: The processes that execute now.
        truly_succeeded: The refs of which some run really succeeded.
        on_begin: Told of each process that begins.
    """

    __slots__ = ("_chance", "_number", "_stage", "fate_of", "living", "on_begin", "truly_succeeded")

    def __init__(self, stage: Stage, chance: Chance, fate_of: FateOf) -> None:
        self._stage = stage
        self._chance = chance
        self._number = 0
        self.fate_of = fate_of
        self.living: dict[int, Process] = {}
        self.truly_succeeded: set[str] = set()
        self.on_begin: Callable[[Process], None] = lambda process: None

    def begin(
        self,
        ref: str,
        tag: Tag,
        restarts: int,
        doing: Doing,
        *,
        foreign: bool,
        ends: Callable[[Process, Fate], None],
    ) -> Process:
        """Let a process begin; `ends` is told when it ends by itself where its node is reached."""
        self._number += 1
        environment = {**tag.environment(), "DISPATCH_EPOCH": str(tag.epoch + restarts)}
        process = Process(
            self._number, ref, tag, restarts, *doing, foreign=foreign, environment=environment
        )
        self.living[process.number] = process
        self._stage.tell("(process)", f"{ref} run with {restarts} restarts begins ({doing[0]})")
        self.on_begin(process)
        fate = self.fate_of(tag, restarts)

        def end() -> None:
            if not process.alive:
                return
            self.kill(process, "it comes to its end")
            if process.cut:
                return
            if fate.cause is None:
                self.truly_succeeded.add(ref)
            ends(process, fate)

        self._stage.after(fate.after_s, end)
        return process

    def kill(self, process: Process, why: str) -> None:
        """Let a process be gone."""
        if process.alive:
            process.alive = False
            del self.living[process.number]
            self._stage.tell("(process)", f"{process.ref} executes no more: {why}")

    def kill_in(self, process: Process, seconds: float, why: str) -> None:
        """Let a process be gone in so many seconds."""
        self._stage.after(seconds, lambda: self.kill(process, why))

    def of(self, ref: str) -> list[Process]:
        """Return the living processes of an object."""
        return [one for one in self.living.values() if one.ref == ref]

    def of_job(self, job: str) -> list[Process]:
        """Return the living processes of a job, other copies' too."""
        return [one for one in self.living.values() if one.tag.job == job]
