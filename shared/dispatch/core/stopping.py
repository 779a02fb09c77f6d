"""Row 6: what should not be running, and since when."""

from __future__ import annotations

from datetime import datetime

from dispatch.core.job import Job
from dispatch.core.parts import SchedulerObject
from dispatch.record.names import Capability, ObjectState


def stop_because(job: Job, known: SchedulerObject) -> str | None:
    """Return why an object must be stopped, or None if it need not."""
    if known.ended or known.foreign or known.abandoned:
        return None
    if known.retired is not None:
        return f"it is retired: {known.retired}"
    if known.expired is not None:
        return f"it waited too long: {known.expired}"
    if job.ending is not None:
        return f"the job's outcome is {job.ending.state}"
    if known.n < len(job.submissions):
        return "it is of an older submission"
    if not job.is_canonical(known):
        return None
    return _canonical_because(job, known)


def _canonical_because(job: Job, known: SchedulerObject) -> str | None:
    if job.resubmit is not None:
        return "the job is to be resubmitted"
    if job.requeue is not None and not in_place(job, known):
        return "the job is to be requeued, by a new submission"
    if job.user_hold is None or known.run.held:
        return None
    if known.run.state is ObjectState.PENDING:
        can = job.declarations.can(Capability.HOLD_PENDING)
    else:
        can = job.declarations.can(Capability.HOLD_RUNNING)
    return None if can else "the job is to be held, and the cluster can't hold it as it is"


def in_place(job: Job, known: SchedulerObject) -> bool:
    """Return whether a person's requeue can run this object again in place."""
    return (
        job.plan.default.in_place
        and job.declarations.can(Capability.REQUEUE_LIVE)
        and known.run.state is ObjectState.RUNNING
    )


def stop_due_since(job: Job, known: SchedulerObject) -> datetime | None:
    """Return since when an object's latest run should be stopped, as far as the record tells."""
    later = job.submissions[known.n].at if known.n < len(job.submissions) else None
    reasons = (
        known.retired_at,
        known.expired_at,
        job.ending.at if job.ending else None,
        later,
        job.resubmit.at if job.resubmit else None,
        job.requeue.at if job.requeue else None,
    )
    times = [time for time in reasons if time is not None]
    if not times and job.user_hold is not None:
        times = [job.user_hold.at]
    if not times:
        return None  # nothing asks for its end
    return max(min(times), known.run.first_seen_at, known.run.started_at or known.recorded_at)
