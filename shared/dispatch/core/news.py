"""Rows 1 and 1b: what of a Find must be recorded before anything is decided by it."""

from __future__ import annotations

from datetime import datetime, timedelta

from dispatch.core import rules
from dispatch.core.job import Job
from dispatch.core.merge import is_news, merge
from dispatch.core.parts import AttemptState, Call, SchedulerObject
from dispatch.core.steps import Append, Lookup, Step, Waiting
from dispatch.core.stopping import stop_because
from dispatch.record.evidence import Discovery, Sighting
from dispatch.record.fact import Escalated, Fact, Observed
from dispatch.record.names import Capability, Cause, ObjectState


def record(job: Job, discovery: Discovery, now: datetime, by: str) -> list[Step]:
    """Return the observation that a Find makes necessary, if it does (row 1)."""
    seen = {one.ref: one for one in discovery.sightings}
    objects = [
        tagged
        for one in seen.values()
        if worth_recording(job, tagged := _as_recorded(job, one), discovery)
    ]
    objects += [
        _gone(job, known)
        for known in absent(job, discovery)
        if (
            closes_call(job, known.ref, discovery)
            if known.ended
            else not lookup_first(job, known, discovery)
        )
    ]
    if not objects:
        return []
    fact = Observed(
        at=now,
        by=by,
        taken_at=discovery.taken_at,
        seen_at=discovery.seen_at,
        objects=tuple(objects),
    )
    return [Append("1", "the Find has news, or proves that a call expired", (fact,))]


def lookup(job: Job, discovery: Discovery, now: datetime, by: str) -> list[Step]:
    """Return what accounting must be asked before absence is concluded (row 1b).

    What it doesn't know at first is written down once: the time in which it may still learn of
    an end is counted from there.
    """
    if not job.declarations.can(Capability.LOOKUP):
        return []
    missed: list[Fact] = [
        Escalated(
            at=now,
            by=by,
            key=missed_key(known),
            code="vanished",
            detail=f"{known.ref} isn't shown any more, and accounting doesn't know its end yet",
        )
        for known in absent(job, discovery)
        if not known.ended
        and known.ref in discovery.looked_up
        and missed_key(known) not in job.escalations
        and lookup_first(job, known, discovery)
    ]
    if missed:
        return [Append("1b", "accounting may learn of an end later", tuple(missed))]
    refs = tuple(
        known.ref
        for known in absent(job, discovery)
        if not known.ended and known.ref not in discovery.looked_up
    )
    attempts = tuple(
        (one.n, one.a)
        for one in job.attempts.values()
        if one.state is AttemptState.UNKNOWN
        and discovery.complete
        and rules.past_deadline(discovery.taken_at, one.deadline, job.declarations)
        and f"{one.n}.{one.a}" not in discovery.looked_up
    )
    if not refs and not attempts:
        return []
    return [Lookup("1b", "a complete Find doesn't show them: ask accounting", refs, attempts)]


def lookup_waits(job: Job, discovery: Discovery) -> list[Waiting]:
    """Return the objects whose end accounting may still learn of."""
    return [
        Waiting("lookup", f"accounting may still learn how {known.ref} ended", lag_over(job, known))
        for known in absent(job, discovery)
        if not known.ended and lookup_first(job, known, discovery)
    ]


def worth_recording(job: Job, sighting: Sighting, discovery: Discovery) -> bool:
    """Return whether a sighting is news, or closes a call."""
    known = job.objects.get(sighting.ref)
    if known is None:
        return sighting.state is not ObjectState.GONE
    merged, past = merge(
        known,
        sighting,
        taken_at=discovery.taken_at,
        seen_at=discovery.seen_at,
        declared=job.declarations,
    )
    return (
        past is not None
        or is_news(known, merged)
        or closes_call(job, sighting.ref, discovery)
        or opens_for_good(job, merged, discovery)
    )


def opens_for_good(job: Job, merged: SchedulerObject, discovery: Discovery) -> bool:
    """Return whether a Find proves that our hold is off for good, where that may matter yet."""
    return (
        merged.ours_held
        and not merged.ended
        and job.is_canonical(merged)
        and not merged.abandoned
        and stop_because(job, merged) is None
        and rules.opened_for_good(merged, discovery.taken_at, job.declarations)
        and not rules.hold_may_land(job, merged.ref)
    )


def closes_call(job: Job, ref: str, discovery: Discovery) -> bool:
    """Return whether a Find is late enough to prove what became of a call on an object."""
    return any(
        call.ref == ref and _provable(job, call, discovery) for call in rules.open_calls(job)
    )


def absent(job: Job, discovery: Discovery) -> list[SchedulerObject]:
    """Return the recorded objects that a complete Find, begun after they were, doesn't show."""
    if not discovery.complete:
        return []
    shown = {one.ref for one in discovery.sightings}
    return [
        known
        for known in job.objects.values()
        if known.ref not in shown
        and rules.absence_counts(known, discovery.taken_at, job.declarations)
        and (known.newest is None or discovery.taken_at >= known.newest)
    ]


def lookup_first(job: Job, known: SchedulerObject, discovery: Discovery) -> bool:
    """Return whether accounting hasn't yet had its say about an absent object."""
    if not job.declarations.can(Capability.LOOKUP):
        return False
    if known.ref not in discovery.looked_up:
        return True
    if known.foreign or job.declarations.lookup_lag_s == 0:
        return False
    over = lag_over(job, known)
    return over is None or discovery.taken_at < over


def lag_over(job: Job, known: SchedulerObject) -> datetime | None:
    """Return from when on accounting's not knowing counts; None before it was asked in vain."""
    missed = job.escalations.get(missed_key(known))
    if missed is None:
        return None
    lag = timedelta(seconds=job.declarations.lookup_lag_s)
    return rules.skewed(missed.at + lag, job.declarations)


def missed_key(known: SchedulerObject) -> str:
    """Return under which key it is noted that accounting doesn't know a vanished object's end."""
    return f"vanished/{known.ref}/{known.run.r}"


def _provable(job: Job, call: Call, discovery: Discovery) -> bool:
    return rules.past_deadline(discovery.taken_at, call.deadline, job.declarations)


def _as_recorded(job: Job, sighting: Sighting) -> Sighting:
    """Return a sighting with the tag that its object was first recorded with."""
    known = job.objects.get(sighting.ref)
    if known is None or (known.n, known.a) == (sighting.n, sighting.a):
        return sighting
    return sighting.model_copy(update={"n": known.n, "a": known.a})


def _gone(job: Job, known: SchedulerObject) -> Sighting:
    return Sighting(
        ref=known.ref,
        n=known.n,
        a=known.a,
        spec_digest=job.header.spec_digest,
        generation=job.header.lineage.generation,
        state=ObjectState.GONE,
        cause=known.expired or Cause.LOST,
        restarts=known.run.restarts,
        reason="a complete Find doesn't show it",
        source="absence",
    )
