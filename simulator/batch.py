"""Many seeds, over as many processes as there are cores, and what they amount to."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context

from dispatch.core.job import Job
from dispatch.record.header import Plan
from dispatch.record.names import ObjectState
from simulator.census import Census
from simulator.mutants import MUTANTS, Mutant, applied
from simulator.run import Run
from simulator.scenario import Shape
from simulator.watch import Violation

CHUNK = 25
"""Seeds that one process plays before it says how they went."""

CHUNKS_PER_PROCESS = 40
"""After so many, a process gives way to a fresh one: actors parked for ever stay in memory."""


COLLECTED_EVERY = 50_000
"""New objects after which garbage is looked for; a run makes many that live as long as it does."""


@dataclass(frozen=True, slots=True)
class Played:
    """How one seed went.

    Attributes:
        seed: Which.
        shape: On which kind of cluster.
        broken: The rule that was broken and how; None if none was.
        steps: Turns taken.
        outcome: How the job ended.
        runs: Runs that executed.
        lost_s: Seconds of runs that didn't succeed, as far as they were seen.
        escalations: Times a person was told.
        submissions: Submissions authorized.
        counts: How often each thing that can go wrong did.
    """

    seed: int
    shape: Shape
    broken: str | None
    steps: int
    outcome: str = ""
    runs: int = 0
    lost_s: float = 0.0
    escalations: int = 0
    submissions: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Sum:
    """What many seeds amount to.

    Attributes:
        seeds: How many were played, by shape.
        steps: Turns taken in all.
        outcomes: How the jobs ended.
        runs: Runs that executed.
        lost_s: Seconds of runs that didn't succeed.
        escalations: Times a person was told.
        submissions: Submissions authorized.
        broken: The seeds that broke a rule.
        census: What went wrong in them, and how often.
    """

    seeds: Counter[Shape] = field(default_factory=Counter)
    steps: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    lost_s: float = 0.0
    escalations: int = 0
    submissions: int = 0
    broken: list[Played] = field(default_factory=list)
    census: Census = field(default_factory=Census)

    def add(self, played: Played) -> None:
        """Add one seed."""
        self.seeds[played.shape] += 1
        self.steps += played.steps
        self.census.add(played.shape, played.counts)
        if played.broken is not None:
            self.broken.append(played)
            return
        self.outcomes[played.outcome] += 1
        self.runs += played.runs
        self.lost_s += played.lost_s
        self.escalations += played.escalations
        self.submissions += played.submissions

    @property
    def played(self) -> int:
        """How many seeds were played."""
        return sum(self.seeds.values())


def play(seed: int, shape: Shape, *, plan: Plan | None = None) -> Played:
    """Play one seed and return how it went; one seed always goes the same way."""
    run = Run(seed, shape, plan=plan)
    try:
        run.play()
    except Violation as violation:
        return Played(seed, shape, str(violation), run.stage.step)
    except Exception as fault:  # noqa: BLE001 - whatever it is, this seed shows it
        return Played(seed, shape, f"CRASH: {fault!r}", run.stage.step)
    job = run.watch.job(run.jobs[0])
    runs, lost_s = _spent(job)
    return Played(
        seed,
        shape,
        None,
        run.stage.step,
        outcome=job.ending.state if job.ending is not None else "",
        runs=runs,
        lost_s=lost_s,
        escalations=len(job.escalations),
        submissions=len(job.submissions),
        counts=dict(run.stage.counts),
    )


def _spent(job: Job) -> tuple[int, float]:
    """Return how many runs executed, and for how long those that didn't succeed were seen."""
    runs = [one for past in job.past.values() for one in past]
    runs += [known.run for known in job.objects.values() if not known.foreign]
    executed = [one for one in runs if one.executed]
    lost = sum(
        (one.ended_seen_at - one.first_seen_at).total_seconds()
        for one in executed
        if one.state is not ObjectState.SUCCEEDED and one.ended_seen_at is not None
    )
    return len(executed), lost


def named(mutant: str | None) -> Mutant | None:
    """Return the mutant of a name.

    Raises:
        KeyError: There is none of that name.
    """
    if mutant is None:
        return None
    return {one.name: one for one in MUTANTS}[mutant]


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Let garbage be looked for seldom, and not in what is there already."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(COLLECTED_EVERY, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _chunk(task: tuple[Sequence[int], Shape, str | None, Plan | None]) -> list[Played]:
    seeds, shape, mutant, plan = task
    with applied(named(mutant)), seldom_collected():
        return [play(seed, shape, plan=plan) for seed in seeds]


def many(
    seeds: Sequence[int],
    shapes: Iterable[Shape],
    *,
    processes: int = 1,
    mutant: str | None = None,
    plan: Plan | None = None,
) -> Iterator[Played]:
    """Yield how each seed of each shape went, in no promised order."""
    tasks = [
        (seeds[start : start + CHUNK], shape, mutant, plan)
        for start in range(0, len(seeds), CHUNK)
        for shape in shapes
    ]
    if processes == 1:
        for task in tasks:
            yield from _chunk(task)
        return
    with get_context("spawn").Pool(processes, maxtasksperchild=CHUNKS_PER_PROCESS) as pool:
        for played in pool.imap(_chunk, tasks):
            yield from played
