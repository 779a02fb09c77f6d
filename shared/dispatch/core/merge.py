"""Which run a sighting belongs to, and what it adds to what is recorded (protocol §4, §5)."""

from __future__ import annotations

from datetime import datetime

from dispatch.core import rules
from dispatch.core.parts import Run, SchedulerObject
from dispatch.record.evidence import Sighting
from dispatch.record.header import Declarations
from dispatch.record.names import ENDED_STATES, Capability, Cause, ObjectState

_EXECUTING = (ObjectState.RUNNING, ObjectState.ENDING)


def first_sight(
    sighting: Sighting, *, at: datetime, taken_at: datetime, seen_at: datetime, foreign: bool
) -> SchedulerObject:
    """Return an object that no reply named before this sighting."""
    return SchedulerObject(
        ref=sighting.ref,
        n=sighting.n,
        a=sighting.a,
        recorded_at=at,
        run=_new_run(1, sighting, seen_at),
        foreign=foreign,
        newest=taken_at,
        hazard_from=seen_at if restarted_unseen(sighting) else None,
        ours_held=sighting.held and not foreign,
        opened_at=None if sighting.held else seen_at,
    )


def restarted_unseen(sighting: Sighting) -> bool:
    """Return whether an object is first seen after restarts whose earlier runs nobody saw end."""
    return sighting.restarts > 0


def merge(
    known: SchedulerObject,
    sighting: Sighting,
    *,
    taken_at: datetime,
    seen_at: datetime,
    declared: Declarations,
) -> tuple[SchedulerObject, Run | None]:
    """Return the object with a sighting merged into it, and the run that thereby became past.

    A Find older than the object's newest changes nothing.
    """
    if is_older(known, taken_at):
        return known, None
    run = known.run
    if starts_new_run(run, sighting):
        unseen = may_outlive(run) or runs_between(run, sighting)
        hazard = seen_at if unseen else known.hazard_from
        merged = known._replace(
            run=_new_run(run.r + 1, sighting, seen_at),
            newest=taken_at,
            hazard_from=hazard,
            opened_at=_opened_at(known, sighting.held, seen_at),
        )
        return merged, run
    hazard = known.hazard_from
    if sighting.state is ObjectState.GONE and not run.ended and vanished_executing(known, declared):
        hazard = seen_at
    merged_run = _ended_again(run, sighting) if run.ended else _same_run(run, sighting, seen_at)
    opened = _opened_at(known, merged_run.held, seen_at)
    merged = known._replace(run=merged_run, newest=taken_at, hazard_from=hazard, opened_at=opened)
    return merged, None


def _opened_at(known: SchedulerObject, held: bool, seen_at: datetime) -> datetime | None:
    """Return since when an object has been seen not held."""
    return None if held else known.opened_at or seen_at


def is_news(known: SchedulerObject, merged: SchedulerObject) -> bool:
    """Return whether merging changed anything but the time of the look."""
    return merged._replace(newest=known.newest) != known


def is_older(known: SchedulerObject, taken_at: datetime) -> bool:
    """Return whether a Find is older than the newest one merged into the object."""
    return known.newest is not None and taken_at < known.newest


def starts_new_run(run: Run, sighting: Sighting) -> bool:
    """Return whether a later sighting shows another run than the latest recorded one (§5)."""
    if sighting.state is ObjectState.GONE:
        return False
    if sighting.restarts > run.restarts:
        return True
    if sighting.restarts < run.restarts:
        return restarts_undone()
    if run.ended:
        return not sticky(run, sighting)
    return run.state in _EXECUTING and sighting.state is ObjectState.PENDING


def restarts_undone() -> bool:
    """Return that lower restarts are a new run: a crash undid a requeue."""
    return True


def sticky(run: Run, sighting: Sighting) -> bool:
    """Return whether an ended run's end stands against a later sighting of the same restarts."""
    return sighting.state in ENDED_STATES and not another_end(run, sighting)


def another_end(run: Run, sighting: Sighting) -> bool:
    """Return whether an end differs from the recorded one in state, cause or times."""
    if (run.state, run.cause) != (sighting.state, sighting.cause):
        return True
    return any(
        before is not None and after is not None and before != after
        for before, after in (
            (run.started_at, sighting.started_at),
            (run.ended_at, sighting.ended_at),
        )
    )


def may_outlive(run: Run) -> bool:
    """Return whether an earlier run may still execute beside the one that follows it (hazard)."""
    return not run.ended or run.lost_at is not None or run.state is ObjectState.GONE


def runs_between(run: Run, sighting: Sighting) -> bool:
    """Return whether runs came and went that nobody saw end (hazard, ADR 17)."""
    return sighting.restarts > run.restarts + 1


def vanished_executing(known: SchedulerObject, declared: Declarations) -> bool:
    """Return whether an object that is gone may still execute somewhere (hazard)."""
    gated = declared.can(Capability.GATED_START)
    return not (gated and rules.never_executed(known))


def _new_run(r: int, sighting: Sighting, seen_at: datetime, before: Run | None = None) -> Run:
    """Return run `r` as a sighting shows it; `before` is the same run as it was recorded."""
    exit_code, signal, nodes = sighting.exit_code, sighting.signal, sighting.nodes
    started_at, first_seen_at, executed = sighting.started_at, seen_at, _executed(sighting)
    if before is not None:
        exit_code = exit_code if exit_code is not None else before.exit_code
        signal = signal if signal is not None else before.signal
        nodes = nodes or before.nodes
        started_at = started_at or before.started_at
        first_seen_at = before.first_seen_at
        executed = executed or before.executed
    return Run(
        r=r,
        restarts=sighting.restarts,
        state=sighting.state,
        first_seen_at=first_seen_at,
        cause=sighting.cause,
        held=sighting.held,
        holder=sighting.holder,
        exit_code=exit_code,
        signal=signal,
        nodes=nodes,
        started_at=started_at,
        ended_at=sighting.ended_at,
        lost_at=_lost_at(before, sighting, seen_at),
        reason=sighting.reason,
        source=sighting.source,
        waiting_since=_waiting_since(before, sighting, seen_at),
        ended_seen_at=seen_at if sighting.state in ENDED_STATES else None,
        executed=executed,
    )


def _same_run(run: Run, sighting: Sighting, seen_at: datetime) -> Run:
    if sighting.state is not ObjectState.GONE:
        return _new_run(run.r, sighting, seen_at, run)
    return run._replace(
        state=ObjectState.GONE,
        cause=sighting.cause,
        reason=sighting.reason,
        source=sighting.source,
        waiting_since=None,
        ended_seen_at=seen_at,
    )


def _ended_again(run: Run, sighting: Sighting) -> Run:
    """Return an ended run with what was missing in it filled in; its end is sticky."""
    if sighting.state is ObjectState.GONE:
        return run
    return run._replace(
        exit_code=run.exit_code if run.exit_code is not None else sighting.exit_code,
        signal=run.signal if run.signal is not None else sighting.signal,
        nodes=run.nodes or sighting.nodes,
        started_at=run.started_at or sighting.started_at,
        ended_at=run.ended_at or sighting.ended_at,
        lost_at=run.lost_at or sighting.lost_at,
        reason=run.reason or sighting.reason,
        executed=run.executed or _executed(sighting),
    )


def _executed(sighting: Sighting) -> bool:
    if sighting.state in _EXECUTING or sighting.state is ObjectState.SUCCEEDED:
        return True
    return sighting.started_at is not None or sighting.exit_code is not None


def _lost_at(run: Run | None, sighting: Sighting, seen_at: datetime) -> datetime | None:
    if sighting.lost_at is not None:
        return sighting.lost_at
    if sighting.cause is Cause.NODE_LOST:
        return run.lost_at if run is not None and run.lost_at is not None else seen_at
    return None


def _waiting_since(run: Run | None, sighting: Sighting, seen_at: datetime) -> datetime | None:
    if sighting.state is not ObjectState.PENDING or sighting.cause is None:
        return None
    if run is not None and run.waiting_since is not None and run.cause is sighting.cause:
        return run.waiting_since
    return seen_at
