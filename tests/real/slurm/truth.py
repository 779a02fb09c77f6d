"""The truth that jobs write to disk themselves, and the records judged by it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from dispatch.core.job import Job
from dispatch.core.parts import Run
from dispatch.record.names import Cause, IntentKind, ObjectState, Outcome
from dispatch.schedulers.slurm.tags import identified

_RELEASED = re.compile(r"^\[(\S+)\] sched: _release_job_rec: release hold on JobId=(\d+) ")
_ALLOCATED = re.compile(
    r"^\[(\S+)\] sched(?:/backfill: _start_job: Started|: Allocate) JobId=(\d+) "
)
_NOT_LAUNCHED = re.compile(
    r"^\[(\S+)\] Killing non-startable batch JobId=(\d+): Job credential revoked"
)

BEAT_S = 0.25
"""A run says so often that it lives."""

SCRIPT = f"""#!/bin/bash
# Says in a file of its own that it runs, goes on to say so, and how it ends.
mkdir -p "$TRUTH/$DISPATCH_JOB_ID"
cd "$TRUTH/$DISPATCH_JOB_ID"
says="$DISPATCH_EPOCH.$SLURM_JOB_ID.$$"
say() {{ echo "$1 $EPOCHREALTIME" >> "$says"; }}
say begin
[ "$KIND" != stubborn ] || trap '' TERM
for (( beat = 0; beat < BEATS; beat++ )); do
  sleep {BEAT_S}
  say beat
done
code=$EXIT
if [ "$KIND" = flaky ] && ! mkdir tried 2>/dev/null; then
  code=0
fi
say "end:$code"
exit "$code"
"""


@dataclass(frozen=True, slots=True)
class Ran:
    """One run, as its process told it.

    Attributes:
        job: Whose.
        epoch: The epoch that it was given.
        slurm_id: Slurm's id.
        begin: When it began, seconds since the epoch.
        last: When it was last heard of.
        code: The exit code that it was about to end with; None if it was ended.
    """

    job: str
    epoch: int
    slurm_id: int
    begin: float
    last: float
    code: int | None


def told_by(folder: Path) -> list[Ran]:
    """Return every run that left something in a folder, earliest first."""
    return sorted(_read(folder), key=lambda ran: ran.begin)


def _read(folder: Path) -> Iterator[Ran]:
    for path in folder.glob("j*/*.*.*"):
        epoch, slurm_id, _ = path.name.split(".")
        # The last line of a process that was killed may be cut.
        lines = [line.split() for line in path.read_text().split("\n")[:-1]]
        if not lines:
            continue
        code = next((int(what[4:]) for what, _ in lines if what.startswith("end:")), None)
        times = [float(at) for _, at in lines]
        yield Ran(path.parent.name, int(epoch), int(slurm_id), times[0], times[-1], code)


def at_once(runs: Iterable[Ran]) -> list[tuple[Ran, Ran]]:
    """Return the pairs of runs of one job that lived at the same time."""
    twice: list[tuple[Ran, Ran]] = []
    latest: dict[str, Ran] = {}
    for ran in sorted(runs, key=lambda one: one.begin):
        before = latest.get(ran.job)
        if before is not None and ran.begin < before.last:
            twice.append((before, ran))
        if before is None or ran.last > before.last:
            latest[ran.job] = ran
    return twice


@dataclass(slots=True)
class Verdict:
    """What came of a chaos, judged by the truth.

    Attributes:
        jobs: How many there were.
        attempts: Starts that were recorded.
        objects: Objects that were recorded.
        runs: Runs that wrote something to disk.
        twice: Pairs of runs of one job that lived at the same time.
        by_slurm: Such pairs that Slurm made by itself, each with the kill that made it do so.
        lost: Jobs that are not settled, or left something running.
        disagree: Outcomes that the truth doesn't bear out.
        not_launched: Objects that their node refused to launch, whatever Slurm called them.
        outcomes: How many of each.
        causes: Why runs ended, as recorded.
        escalations: What people were told, by code.
    """

    jobs: int
    attempts: int = 0
    objects: int = 0
    runs: int = 0
    twice: list[str] = field(default_factory=list)
    by_slurm: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    disagree: list[str] = field(default_factory=list)
    not_launched: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    escalations: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill of slurmctld, as chaos did it; seconds since the epoch.

    Attributes:
        at: When it was dead.
        answered_at: When the next one answered.
        forgets_s: How much of its newest state it may have had in memory alone, as declared; it
            also covers the seconds in which nodes register again.
    """

    at: float
    answered_at: float
    forgets_s: float


@dataclass(slots=True)
class Logged:
    """What slurmctld wrote into its own log, by id.

    Attributes:
        released: When each was released.
        allocated: When each was started.
        not_launched: When it was told of each that a node took it for one that it had ended
            already, and launched nothing.
    """

    released: dict[int, list[float]] = field(default_factory=dict)
    allocated: dict[int, list[float]] = field(default_factory=dict)
    not_launched: dict[int, list[float]] = field(default_factory=dict)


def logged(log: Iterable[str]) -> Logged:
    """Return what slurmctld's log tells."""
    found = Logged()
    of = {
        _RELEASED: found.released,
        _ALLOCATED: found.allocated,
        _NOT_LAUNCHED: found.not_launched,
    }
    for line in log:
        for pattern, times in of.items():
            if (seen := pattern.match(line)) is not None:
                at = datetime.fromisoformat(seen[1]).replace(tzinfo=UTC).timestamp()
                times.setdefault(int(seen[2]), []).append(at)
    return found


def excuse(first: Ran, second: Ran, slurm: Logged, kills: Iterable[Kill]) -> Kill | None:
    """Return the kill for which Slurm by itself ran one object twice at once, if it did.

    It must have forgotten a start that it had made, within what a kill may make it forget; nobody
    may have asked it for the second; and the first must be over once the nodes have registered.
    """
    if (first.slurm_id, first.epoch) != (second.slurm_id, second.epoch):
        return None
    started = slurm.allocated.get(second.slurm_id, [])
    one = max((at for at in started if at <= first.begin), default=None)
    other = max((at for at in started if at <= second.begin), default=None)
    if one is None or other is None or one == other:
        return None
    if any(one < at < second.begin for at in slurm.released.get(second.slurm_id, ())):
        return None
    return next(
        (
            kill
            for kill in kills
            if one <= kill.at <= other
            and kill.at - one <= kill.forgets_s
            and first.last <= kill.answered_at + kill.forgets_s
        ),
        None,
    )


def judge(
    jobs: Sequence[Job],
    runs: Sequence[Ran],
    kinds: Mapping[str, str],
    slurm: Logged,
    kills: Sequence[Kill],
) -> Verdict:
    """Return what the records say, held against what the runs wrote."""
    verdict = Verdict(len(jobs), runs=len(runs))
    for first, second in at_once(runs):
        kill = excuse(first, second, slurm, kills)
        told = (
            f"{first.job}: {first.slurm_id} (epoch {first.epoch}) began at {first.begin:.3f} and "
            f"lived until {first.last:.3f}, {second.slurm_id} (epoch {second.epoch}) began at "
            f"{second.begin:.3f}"
        )
        if kill is None:
            verdict.twice.append(told)
        else:
            verdict.by_slurm.append(f"{told}; slurmctld was killed at {kill.at:.3f}")
    of_job: dict[str, list[Ran]] = {}
    for ran in runs:
        of_job.setdefault(ran.job, []).append(ran)
    for job in jobs:
        verdict.attempts += len(job.attempts)
        verdict.objects += len(job.objects)
        verdict.not_launched += _not_launched(job, slurm)
        for known in job.objects.values():
            ends = [*job.past.get(known.ref, ()), known.run]
            verdict.causes.update(str(run.cause or run.state) for run in ends if run.ended)
        verdict.escalations.update(one.code for one in job.escalations.values())
        if job.ending is None or job.settled_at is None:
            verdict.lost.append(f"{job.job_id} ({kinds[job.job_id]}) isn't settled")
        else:
            verdict.outcomes[job.ending.state.value] += 1
            wrong = _wrong(job, of_job.get(job.job_id, []), kinds[job.job_id])
            if wrong is not None:
                verdict.disagree.append(f"{job.job_id} ({kinds[job.job_id]}): {wrong}")
    return verdict


def _not_launched(job: Job, slurm: Logged) -> Iterator[str]:
    """Yield the objects of a job that their nodes refused to launch."""
    for ref, known in job.objects.items():
        identity = identified(ref)
        assert identity is not None
        # The id was another object's before, and may be another's again.
        since, until = identity.at_ms / 1000, known.run.ended_seen_at
        for at in slurm.not_launched.get(identity.job_id, ()):
            if at >= since and (until is None or at <= until.timestamp()):
                yield f"{ref}: {known.run.cause or known.run.state}"


def _wrong(job: Job, runs: Sequence[Ran], kind: str) -> str | None:
    """Return why an outcome isn't what happened, if it isn't."""
    assert job.ending is not None
    ending, canonical = job.ending, job.canonical
    cancelled = any(wish.kind is IntentKind.CANCEL for wish in job.wishes.values())
    if ending.state is Outcome.CANCELLED:
        return None if cancelled else "cancelled, and nobody asked for it"
    if canonical is None:
        return f"{ending.state} without a run"
    # A crash of slurmctld may undo an end after it made the outcome, which stands.
    recorded = [*job.past.get(canonical.ref, ()), canonical.run]
    ends: list[tuple[Run, int | None]]
    if ending.state is Outcome.SUCCEEDED:
        ends = [(run, 0) for run in recorded if run.state is ObjectState.SUCCEEDED]
    elif ending.cause is Cause.APP_ERROR:
        failed = [run for run in recorded if run.cause is Cause.APP_ERROR]
        # What a signal ended has written no end.
        ends = [(run, None if run.signal else run.exit_code) for run in failed]
    else:
        return f"failed ({ending.cause}: {ending.detail})"
    possible = {"good": {0}, "flaky": {0}, "bad": {3}}.get(kind, set())
    for run, code in ends:
        epoch = canonical.n * 1_000_000 + run.restarts
        wrote = [ran for ran in runs if ran.epoch == epoch and ran.code == code]
        if wrote and (code is None or code in possible):
            return None
    said = [(run.restarts, code, run.signal) for run, code in ends]
    told = [(ran.epoch, ran.code) for ran in runs]
    return f"{ending.state}, recorded as {said}, and its runs wrote {told}"


def table(verdict: Verdict, happened: Mapping[str, int], title: str) -> str:
    """Return what came of it, for people."""
    rows = [
        ("jobs", str(verdict.jobs)),
        ("attempts", str(verdict.attempts)),
        ("objects", str(verdict.objects)),
        ("runs that wrote to disk", str(verdict.runs)),
        ("run twice at once", str(len(verdict.twice))),
        ("  not counted: a killed slurmctld forgot a start", str(len(verdict.by_slurm))),
        ("lost", str(len(verdict.lost))),
        ("outcomes", _counted(verdict.outcomes)),
        ("outcomes that disagree with the truth", str(len(verdict.disagree))),
        ("ends of runs, as recorded", _counted(verdict.causes)),
        ("a node refused to launch, told as exit 1", _ends_of(verdict.not_launched)),
        ("people were told", _counted(verdict.escalations) or "nothing"),
    ]
    rows += [("what happened", "")]
    rows += [(f"  {what}", str(times)) for what, times in sorted(happened.items())]
    width = max(len(name) for name, _ in rows)
    lines = [title, *(f"{name:{width}}  {value}".rstrip() for name, value in rows)]
    if verdict.by_slurm:
        lines += ["not counted, each with its excuse", *(f"  {one}" for one in verdict.by_slurm)]
    return "\n".join(lines)


def _ends_of(told: Sequence[str]) -> str:
    counted = Counter(one.partition(": ")[2] for one in told)
    return _counted(counted) if counted else "0"


def _counted(counter: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counter.most_common())
