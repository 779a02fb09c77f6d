"""From what the spool holds to what a Find shows. Pure."""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256

from dispatch.record.evidence import MAX_NODES, Sighting
from dispatch.record.names import Cause, ObjectState
from dispatch.schedulers.local.codec import Unreadable, life_text
from dispatch.schedulers.local.life import US, Life, Order

SOURCE = "spool"
_LONGEST_REASON = 4096


def sighting(order: Order, life: Life) -> Sighting:
    """Return an object as one look saw it.

    Raises:
        Unreadable: Its files hold values that no evidence can have.
    """
    outside = next((holder for holder in life.held_by if holder != US), None)
    cause = life.cause
    if life.phase is ObjectState.PENDING and outside is not None:
        cause = Cause.HELD_OUTSIDE
    try:
        return Sighting(
            ref=order.ref,
            n=order.n,
            a=order.a,
            spec_digest=order.spec_digest,
            generation=order.generation,
            state=life.phase,
            cause=cause,
            restarts=life.restarts,
            held=bool(life.held_by),
            holder=outside,
            exit_code=life.exit_code,
            signal=life.signal,
            nodes=life.nodes[:MAX_NODES],
            started_at=_time(life.started_at),
            ended_at=_time(life.ended_at),
            lost_at=_time(life.lost_at),
            reason=_reason(life),
            source=SOURCE,
            digest=sha256(life_text(life).encode()).hexdigest(),
        )
    except ValueError as problem:
        raise Unreadable(str(problem)) from problem


def ended_at(life: Life) -> datetime | None:
    """Return when an object ended and nothing of it was left; None while something may be.

    Raises:
        Unreadable: The time can't be read.
    """
    if not life.ended or life.draining:
        return None
    try:
        return _time(life.ended_at)
    except ValueError as problem:
        raise Unreadable(str(problem)) from problem


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _reason(life: Life) -> str | None:
    parts = [] if life.reason is None else [life.reason]
    if life.phase is ObjectState.PENDING and life.draining:
        parts.append("the earlier run is still being ended")
    if len(life.nodes) > MAX_NODES:
        parts.append(f"{len(life.nodes)} nodes")
    return "; ".join(parts)[:_LONGEST_REASON] or None
