"""Since when a job has been doing what it does: what an on-call person sorts by."""

from __future__ import annotations

from datetime import datetime

from dispatch.core.job import Job
from dispatch.core.parts import SchedulerObject
from dispatch.core.project import State, state_of
from dispatch.core.stopping import stop_because
from dispatch.record.names import ObjectState


def own_run(job: Job) -> SchedulerObject | None:
    """Return the object that is a job's run and goes on; None where it has none, or stops it.

    A job is `stopping` whatever is being stopped, and that may be a duplicate beside its run.
    """
    own = job.canonical
    if own is None or job.ending is not None or own.run.state is not ObjectState.RUNNING:
        return None
    return own if stop_because(job, own) is None else None


def since_of(job: Job) -> datetime:
    """Return when the state that a job is in began, as far as its record can tell."""
    if job.settled_at is not None:
        return job.settled_at
    if job.ending is not None:
        return job.ending.at
    canonical, latest = job.canonical, job.latest
    match state_of(job):
        case State.HELD:
            holds = [one.at for one in (job.user_hold, job.recovery) if one is not None]
            if holds:
                return min(holds)
        case State.RUNNING if canonical is not None:
            return canonical.run.started_at or canonical.run.first_seen_at
        case State.STOPPING if (own := own_run(job)) is not None:
            return own.run.started_at or own.run.first_seen_at
        case State.STOPPING:
            wishes = [one.at for one in (job.resubmit, job.requeue, job.user_hold) if one]
            if wishes:
                return min(wishes)
        case _:
            pass
    if canonical is not None:
        ended = canonical.run.ended_seen_at
        return ended if canonical.ended and ended is not None else canonical.run.first_seen_at
    return job.header.created_at if latest is None else latest.at
