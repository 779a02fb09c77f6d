"""Project: the status a caller reads (protocol §10)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dispatch.core.fold import extend
from dispatch.core.job import Job
from dispatch.core.news import record
from dispatch.core.parts import AttemptState, Escalation, Run, SchedulerObject
from dispatch.core.settled import open_because
from dispatch.core.steps import Append, Waiting
from dispatch.core.stopping import stop_because
from dispatch.core.waiting import waits
from dispatch.record.evidence import Discovery
from dispatch.record.names import Cause, Desired, ObjectState, Outcome


class State(StrEnum):
    """What a job is doing, in one word."""

    PENDING = "pending"
    HELD = "held"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Staleness:
    """How a cluster's supervision goes, from its health; for display only.

    Attributes:
        supervisor: Who looked last.
        last_tick: When.
        last_complete_find: The taken_at of the last whole answer.
        last_error: What went wrong, if the last look failed.
    """

    supervisor: str | None = None
    last_tick: datetime | None = None
    last_complete_find: datetime | None = None
    last_error: str | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """What a job is doing, why, and what it waits for.

    Attributes:
        job_id: Which job.
        name: Its name for people.
        cluster: Where.
        revision: The revision this was folded at.
        state: pending, held, starting, running, stopping or ended.
        desired: What a person wants.
        outcome: How it ended, for good.
        cause: Why it failed, or waits, or why its last run ended.
        exit_code: Of the run that made the outcome, else of the latest, where known.
        signal: As the exit code.
        submission: The latest submission, 0 before the first.
        attempt: Its latest attempt.
        run: The ordinal of the canonical object's latest run, 0 before there is one.
        ref: The canonical object.
        epoch: The fencing token its processes see.
        nodes: Where it runs or last ran.
        holds: Whose holds are in force.
        pending_reason: The scheduler's words for why it doesn't run.
        cleanup_pending: Whether there is an outcome and something may be left running.
        waiting_for: What it waits for.
        escalations: What a person was told.
        evidence_at: When the newest recorded evidence was seen.
        discovery_at: When the live look behind this status began; None without one.
        complete: Whether that look was complete.
        stale_since: From the cluster's health.
        settled_at: When it was settled.
        unsettled: Why it isn't settled, once it has an outcome.
    """

    job_id: str
    name: str
    cluster: str
    revision: int
    state: State
    desired: Desired
    outcome: Outcome | None
    cause: Cause | None
    exit_code: int | None
    signal: int | None
    submission: int
    attempt: int
    run: int
    ref: str | None
    epoch: int
    nodes: tuple[str, ...]
    holds: tuple[str, ...]
    pending_reason: str | None
    cleanup_pending: bool
    waiting_for: tuple[Waiting, ...]
    escalations: tuple[Escalation, ...]
    evidence_at: datetime | None
    discovery_at: datetime | None
    complete: bool | None
    stale_since: Staleness | None
    settled_at: datetime | None
    unsettled: tuple[str, ...]


def project(
    job: Job,
    discovery: Discovery | None,
    now: datetime,
    *,
    staleness: Staleness | None = None,
) -> Status:
    """Return the status of a job, with what the scheduler shows now added to the record.

    Args:
        job: The folded record.
        discovery: A live look, or None for an actor that can't reach the cluster.
        now: The pass's one time, UTC.
        staleness: The cluster's health.
    """
    if discovery is not None:
        job = _with_news(job, discovery, now)
    canonical = job.canonical
    latest = job.latest
    run = canonical.run if canonical is not None else None
    told = _told(job, canonical)
    n = 0 if latest is None else latest.n
    evidence = discovery.taken_at if discovery is not None else (job.evidence_at or now)
    return Status(
        job_id=job.job_id,
        name=job.header.spec.name,
        cluster=job.declarations.cluster,
        revision=job.revision,
        state=state_of(job),
        desired=job.desired,
        outcome=job.ending.state if job.ending else None,
        cause=_cause(job, canonical),
        exit_code=told.exit_code if told else None,
        signal=told.signal if told else None,
        submission=n,
        attempt=0 if latest is None else latest.last_a,
        run=run.r if run else 0,
        ref=canonical.ref if canonical else None,
        epoch=n * 1_000_000 + (run.restarts if run else 0),
        nodes=run.nodes if run else (),
        holds=tuple(_holds(job, canonical)),
        pending_reason=run.reason if run and run.state is ObjectState.PENDING else None,
        cleanup_pending=job.ending is not None and job.settled_at is None,
        waiting_for=tuple(waits(job, discovery, now)),
        escalations=tuple(job.escalations.values()),
        evidence_at=job.evidence_at,
        discovery_at=discovery.taken_at if discovery else None,
        complete=discovery.complete if discovery else None,
        stale_since=staleness,
        settled_at=job.settled_at,
        unsettled=tuple(open_because(job, evidence, now))
        if job.ending and job.settled_at is None
        else (),
    )


def state_of(job: Job) -> State:
    """Return what a job is doing, in one word."""
    canonical = job.canonical
    live = [o for o in job.objects.values() if not o.ended and not o.foreign and not o.abandoned]
    unknown = any(one.state is AttemptState.UNKNOWN for one in job.attempts.values())
    if job.ending is not None:
        return State.STOPPING if job.settled_at is None and (live or unknown) else State.ENDED
    if job.held and not live:
        return State.HELD
    if any(stop_because(job, one) is not None for one in live):
        return State.STOPPING
    if canonical is None or canonical.ended:
        return State.STARTING if job.latest and job.latest.last_a and unknown else State.PENDING
    if canonical.run.state is ObjectState.PENDING:
        if job.held or canonical.run.holder is not None:
            return State.HELD
        return State.STARTING if canonical.run.held else State.PENDING
    return State.RUNNING if canonical.run.state is ObjectState.RUNNING else State.STOPPING


def _with_news(job: Job, discovery: Discovery, now: datetime) -> Job:
    for step in record(job, discovery, now, "reader"):
        if isinstance(step, Append) and job.settled_at is None:
            revision = job.revision
            job = extend(job, step.facts)
            job.revision = revision
    return job


def _told(job: Job, canonical: SchedulerObject | None) -> Run | None:
    """Return the run whose exit is told: the one that made the outcome, or the latest.

    A crash of the scheduler may undo an end after it made the outcome, which stands.
    """
    if canonical is None:
        return None
    ending = job.ending
    if ending is None or ending.state is Outcome.CANCELLED:
        return canonical.run
    state = ObjectState.SUCCEEDED if ending.state is Outcome.SUCCEEDED else ObjectState.FAILED
    runs = (*job.past.get(canonical.ref, ()), canonical.run)
    made = (run for run in reversed(runs) if run.state is state and run.cause is ending.cause)
    return next(made, canonical.run)


def _cause(job: Job, canonical: SchedulerObject | None) -> Cause | None:
    if job.ending is not None:
        return job.ending.cause
    if job.recovery is not None:
        return job.recovery.cause
    return canonical.cause if canonical is not None else None


def _holds(job: Job, canonical: SchedulerObject | None) -> list[str]:
    holds = []
    if job.user_hold is not None:
        holds.append(f"user {job.user_hold.by}")
    if job.recovery is not None:
        holds.append(f"recovery ({job.recovery.cause})")
    if canonical is not None and canonical.run.holder is not None and not canonical.ended:
        holds.append(f"scheduler ({canonical.run.holder})")
    return holds
