"""Whether a run that its plan asks about goes on: seen in what it writes, and never written down.

A run that is alive and does nothing looks to every scheduler like one that works. Where the plan
has a `progress_limit_s`, whoever asks for the job's status also asks the cluster when the run last
wrote anything. It is for display: no decision rests on it, so it is no fact (ADR 0026).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from dispatch.core.job import Job
from dispatch.core.project import State, state_of
from dispatch.errors import DispatchError
from dispatch.schedulers.scheduler import Scheduler, TellsProgress
from dispatch.supervisor.execute import target_of


@dataclass(frozen=True, slots=True)
class Progress:
    """How a run goes on.

    Attributes:
        limit_s: How long it may write nothing, by its plan.
        since: When it last wrote anything, or began; None where that can't be told.
        quiet: Whether that is longer ago than the limit.
        error: Why it can't be told.
    """

    limit_s: int
    since: datetime | None
    quiet: bool
    error: str | None = None


def progress_of(job: Job, scheduler: Callable[[str], Scheduler], now: datetime) -> Progress | None:
    """Return how a job's run goes on; None where its plan doesn't ask, or nothing runs.

    Args:
        job: The folded record.
        scheduler: Opens the adapter of a cluster.
        now: The time it is judged at, UTC.
    """
    limit_s, canonical = job.plan.progress_limit_s, job.canonical
    if limit_s is None or canonical is None or state_of(job) is not State.RUNNING:
        return None
    try:
        adapter = scheduler(job.declarations.cluster)
        if not isinstance(adapter, TellsProgress):
            return Progress(limit_s, None, False, "this cluster can't tell")
        written = adapter.written_at(target_of(job, canonical.ref))
    except (DispatchError, ImportError) as error:
        return Progress(limit_s, None, False, str(error))
    began = canonical.run.started_at or canonical.run.first_seen_at
    # What an earlier run of the same object wrote isn't progress of this one.
    since = max(written, began) if written is not None else began
    return Progress(limit_s, since, now >= since + timedelta(seconds=limit_s))
