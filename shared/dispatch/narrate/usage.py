"""What jobs used, and what of it was lost to which cause: counted from their records alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from dispatch.core.job import Job
from dispatch.core.parts import Run, SchedulerObject
from dispatch.record.names import ObjectState

_HOUR = timedelta(hours=1)


class By(StrEnum):
    """What usage is counted by."""

    OWNER = "owner"
    CLUSTER = "cluster"
    CAUSE = "cause"
    LABEL = "label"


@dataclass(frozen=True, slots=True)
class Amount:
    """What some runs used.

    Attributes:
        runs: How many of them touched the span.
        node_hours: Hours of each run times its nodes.
        gpu_hours: Hours of each run times its GPUs.
    """

    runs: int = 0
    node_hours: float = 0.0
    gpu_hours: float = 0.0

    def __add__(self, other: Amount) -> Amount:
        """Return both together."""
        return Amount(
            self.runs + other.runs,
            self.node_hours + other.node_hours,
            self.gpu_hours + other.gpu_hours,
        )


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a report.

    Attributes:
        name: The owner, cluster, cause or label's value.
        jobs: How many jobs had a run in the span.
        used: By all their runs.
        lost: By the runs that ended other than well.
    """

    name: str
    jobs: int
    used: Amount
    lost: Amount


@dataclass(frozen=True, slots=True)
class Report:
    """What was used in a span of time.

    Attributes:
        begin: Its first moment.
        end: The first moment behind it.
        rows: By name; the largest use first.
        total: All rows together.
        lost: What was lost, by cause; the largest first.
        by_sight: Runs of which a time is known only from when it was seen.
    """

    begin: datetime
    end: datetime
    rows: tuple[Row, ...]
    total: Row
    lost: dict[str, Amount] = field(default_factory=dict)
    by_sight: int = 0


@dataclass(frozen=True, slots=True)
class _Spent:
    job: str
    name: str
    amount: Amount
    lost_to: str | None
    by_sight: bool


def usage(
    jobs: Iterable[Job],
    span: tuple[datetime, datetime],
    now: datetime,
    *,
    by: By = By.OWNER,
    label: str = "",
) -> Report:
    """Return what jobs used within a span, and what of it was lost.

    A run counts from its start to its end as the scheduler told them, and from or to when that was
    seen where it didn't; one that goes on counts to now. Every run counts that was executed, also
    one that Dispatch retired. What a run did that ended other than well counts as lost as a whole:
    a record doesn't know of checkpoints.

    Args:
        jobs: The folded records.
        span: Its first moment, and the first one behind it.
        now: The present time, UTC.
        by: What to count by.
        label: Which label, where that is what to count by.
    """
    begin, end = span
    spent = [
        one for job in jobs for one in _of_a_job(job, (begin, min(end, now)), (by, label), now)
    ]
    names = sorted({one.name for one in spent})
    rows = [_row(name, [one for one in spent if one.name == name]) for name in names]
    rows.sort(key=lambda row: (-row.used.node_hours, row.name))
    lost: defaultdict[str, Amount] = defaultdict(Amount)
    for one in spent:
        if one.lost_to is not None:
            lost[one.lost_to] += one.amount
    ordered = sorted(lost.items(), key=lambda item: (-item[1].node_hours, item[0]))
    return Report(
        begin,
        end,
        tuple(rows),
        _row("all", spent),
        dict(ordered),
        sum(one.by_sight for one in spent),
    )


def _row(name: str, spent: list[_Spent]) -> Row:
    used, lost = Amount(), Amount()
    for one in spent:
        used += one.amount
        lost += one.amount if one.lost_to is not None else Amount()
    return Row(name, len({one.job for one in spent}), used, lost)


def _of_a_job(
    job: Job, span: tuple[datetime, datetime], by: tuple[By, str], now: datetime
) -> Iterator[_Spent]:
    for known in job.objects.values():
        if known.foreign:
            continue
        for run in (*job.past.get(known.ref, ()), known.run):
            hours = _hours(known, run, span, now)
            if hours is None:
                continue
            spec = job.header.spec
            amount = Amount(1, hours * spec.nodes, hours * spec.nodes * spec.gpus_per_node)
            end = _end(run)
            seen = run.started_at is None or (run.ended and run.ended_at is None)
            lost = end if run.ended and run.state is not ObjectState.SUCCEEDED else None
            yield _Spent(job.job_id, _name(job, by, end), amount, lost, seen)


def _end(run: Run) -> str:
    """Return how a run ended, in a word."""
    if not run.ended:
        return "running"
    if run.state is ObjectState.SUCCEEDED:
        return "succeeded"
    return "unknown" if run.cause is None else str(run.cause)


def _name(job: Job, by: tuple[By, str], end: str) -> str:
    match by:
        case (By.OWNER, _):
            return job.header.created_by
        case (By.CLUSTER, _):
            return job.declarations.cluster
        case (By.CAUSE, _):
            return end
        case (_, label):
            return job.header.spec.labels.get(label, f"(no {label})")


def _hours(
    known: SchedulerObject, run: Run, span: tuple[datetime, datetime], now: datetime
) -> float | None:
    """Return the hours of a run within a span; None where it wasn't executed in it."""
    if not run.executed:
        return None
    began = run.started_at or run.first_seen_at
    over = (run.ended_at or run.lost_at or run.ended_seen_at or now) if run.ended else now
    first, last = max(began, span[0]), min(over, span[1])
    if last < first or (last == first and over > began):
        return None
    return (last - first) / _HOUR
