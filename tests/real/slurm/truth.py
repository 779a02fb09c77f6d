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

_NOT_LAUNCHED = re.compile(
    r"^\[\S+\] Killing non-startable batch JobId=(\d+): Job credential revoked"
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
        by_slurm: Such pairs that are runs of one object which nobody released in between: a
            slurmctld that was killed had forgotten that it started it, and started it again.
        lost: Jobs that are not settled, or left something running.
        disagree: Outcomes that the truth doesn't bear out.
        made_up: Such outcomes where Slurm told an exit of a job that it never launched.
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
    made_up: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    escalations: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Logged:
    """What slurmctld wrote into its own log.

    Attributes:
        released: When each id was released.
        not_launched: The ids that it calls FAILED with exit code 1 because a node took them for one
            that it had ended already, and launched nothing.
    """

    released: dict[int, list[float]] = field(default_factory=dict)
    not_launched: set[int] = field(default_factory=set)


def logged(log: Iterable[str]) -> Logged:
    """Return what slurmctld's log tells."""
    found = Logged()
    for line in log:
        if (seen := _RELEASED.match(line)) is not None:
            at = datetime.fromisoformat(seen[1]).replace(tzinfo=UTC).timestamp()
            found.released.setdefault(int(seen[2]), []).append(at)
        elif (seen := _NOT_LAUNCHED.match(line)) is not None:
            found.not_launched.add(int(seen[1]))
    return found


def judge(
    jobs: Sequence[Job],
    runs: Sequence[Ran],
    kinds: Mapping[str, str],
    slurm: Logged,
) -> Verdict:
    """Return what the records say, held against what the runs wrote."""
    verdict = Verdict(len(jobs), runs=len(runs))
    for first, second in at_once(runs):
        between = [
            at for at in slurm.released.get(second.slurm_id, ()) if first.begin < at < second.begin
        ]
        by_slurm = first.slurm_id == second.slurm_id and not between
        (verdict.by_slurm if by_slurm else verdict.twice).append(
            f"{first.job}: {first.slurm_id} (epoch {first.epoch}) lived until {first.last:.3f}, "
            f"{second.slurm_id} (epoch {second.epoch}) began at {second.begin:.3f}"
        )
    of_job: dict[str, list[Ran]] = {}
    for ran in runs:
        of_job.setdefault(ran.job, []).append(ran)
    for job in jobs:
        verdict.attempts += len(job.attempts)
        verdict.objects += len(job.objects)
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
                made_up = _made_up(job, slurm)
                told = verdict.made_up if made_up else verdict.disagree
                told.append(f"{job.job_id} ({kinds[job.job_id]}): {wrong}")
    return verdict


def _made_up(job: Job, slurm: Logged) -> bool:
    """Return whether Slurm told an exit of the canonical object's although it launched nothing."""
    canonical = job.canonical
    assert canonical is not None
    identity = identified(canonical.ref)
    assert identity is not None
    return identity.job_id in slurm.not_launched and canonical.run.exit_code == 1


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
        ("  by Slurm alone, which forgot a start", str(len(verdict.by_slurm))),
        ("lost", str(len(verdict.lost))),
        ("outcomes", _counted(verdict.outcomes)),
        ("outcomes that disagree with the truth", str(len(verdict.disagree))),
        ("  by an exit of what Slurm never launched", str(len(verdict.made_up))),
        ("ends of runs, as recorded", _counted(verdict.causes)),
        ("people were told", _counted(verdict.escalations) or "nothing"),
    ]
    rows += [("what happened", "")]
    rows += [(f"  {what}", str(times)) for what, times in sorted(happened.items())]
    width = max(len(name) for name, _ in rows)
    return "\n".join([title, *(f"{name:{width}}  {value}".rstrip() for name, value in rows)])


def _counted(counter: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counter.most_common())
