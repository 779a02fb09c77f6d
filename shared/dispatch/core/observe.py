"""Folding evidence: sightings merged into objects, and calls that landed or expired by them."""

from __future__ import annotations

from datetime import datetime
from typing import NoReturn

from dispatch.core import rules
from dispatch.core.job import Job
from dispatch.core.merge import first_sight, is_older, merge
from dispatch.core.parts import AttemptState, Call, CallKind, CallState, Pending, SchedulerObject
from dispatch.errors import InvalidRecord
from dispatch.record.evidence import Sighting
from dispatch.record.fact import Observed
from dispatch.record.names import ObjectState


def observe(job: Job, fact: Observed) -> None:
    """Fold one observation onto the job."""
    if fact.seen_at < fact.taken_at:
        _refuse("seen_before_taken", "seen_at", "it is before taken_at")
    if len({one.ref for one in fact.objects}) != len(fact.objects):
        _refuse("object_twice", "objects", "an object stands in it twice")
    for index, sighting in enumerate(fact.objects):
        known = job.objects.get(sighting.ref)
        if known is None:
            _first(job, fact, sighting, index)
        else:
            _again(job, fact, known, sighting, index)
            if not is_older(known, fact.taken_at):
                judge_calls(job, sighting, fact.taken_at)
        _forget_our_hold(job, sighting.ref, fact.taken_at)
    if job.evidence_at is None or fact.seen_at > job.evidence_at:
        job.evidence_at = fact.seen_at


def _refuse(rule: str, field: str, message: str) -> NoReturn:
    raise InvalidRecord(message, field=field, rule=rule)


def _first(job: Job, fact: Observed, sighting: Sighting, index: int) -> None:
    if sighting.state is ObjectState.GONE:
        _refuse("gone_unknown", f"objects.{index}.ref", f"{sighting.ref} was never recorded")
    foreign = is_foreign(job, sighting)
    job.objects[sighting.ref] = first_sight(
        sighting, at=fact.at, taken_at=fact.taken_at, seen_at=fact.seen_at, foreign=foreign
    )
    if foreign:
        job.strangers.append(sighting.ref)
    attempt = job.attempts.get((sighting.n, sighting.a))
    if not foreign and attempt is not None and attempt.state is AttemptState.UNKNOWN:
        job.attempts[sighting.n, sighting.a] = attempt._replace(state=AttemptState.STARTED)


def _again(
    job: Job, fact: Observed, known: SchedulerObject, sighting: Sighting, index: int
) -> None:
    if (sighting.n, sighting.a) != (known.n, known.a):
        _refuse(
            "tag_changed",
            f"objects.{index}",
            f"{known.ref} is recorded as the object of attempt {known.n}.{known.a}",
        )
    if sighting.state is ObjectState.GONE and not rules.absence_counts(
        known, fact.taken_at, job.declarations
    ):
        _refuse(
            "absent_before_recorded",
            "taken_at",
            f"the Find began before {known.ref} was recorded, so its absence says nothing",
        )
    merged, past = merge(
        known,
        sighting,
        taken_at=fact.taken_at,
        seen_at=fact.seen_at,
        declared=job.declarations,
    )
    if past is not None:
        job.past.setdefault(known.ref, []).append(past)
    elif closed_again(job, known, merged):
        merged = merged._replace(hazard_from=fact.seen_at)
    job.objects[known.ref] = merged


def closed_again(job: Job, known: SchedulerObject, merged: SchedulerObject) -> bool:
    """Return whether a gate that we opened was seen open and is closed, by no hold call of ours.

    A crash of the scheduler undid the release, and a run that nobody saw may outlive it (hazard).
    """
    if known.run.held or not merged.run.held or known.ended or not known.ours_held:
        return False
    if known.opened_at is None or merged.run.holder is not None:
        return False
    return not any(
        call.kind is CallKind.HOLD and call.ref == known.ref and call.run == known.run.r
        for call in (*job.calls, *job.done_calls)
    )


def _forget_our_hold(job: Job, ref: str, taken_at: datetime) -> None:
    """Let a later hold be somebody else's, once ours is off for good and none of ours can land."""
    known = job.objects[ref]
    if not known.ours_held or not rules.opened_for_good(known, taken_at, job.declarations):
        return
    if not rules.hold_may_land(job, ref):
        job.objects[ref] = known._replace(ours_held=False)


def is_foreign(job: Job, sighting: Sighting) -> bool:
    """Return whether a sighting carries the job's tag but isn't this record's (protocol §5)."""
    return (
        (sighting.n, sighting.a) not in job.attempts
        or sighting.spec_digest != job.header.spec_digest
        or sighting.generation != job.header.lineage.generation
    )


def judge_calls(job: Job, sighting: Sighting, taken_at: datetime) -> None:
    """Let a sighting decide what became of the calls on its object."""
    if not any(call.ref == sighting.ref for call in job.calls):
        return
    judged = [
        judge(call, sighting, taken_at, job) if call.ref == sighting.ref else call
        for call in job.calls
    ]
    for call in judged:
        if _falls_back(call) and job.ending is None and job.resubmit is None:
            job.resubmit = Pending(f"rec:{call.n}.{call.run}:f", taken_at, call.cause)
    job.done_calls += [call for call in judged if call.final]
    job.calls = [call for call in judged if not call.final]


def judge(call: Call, sighting: Sighting, taken_at: datetime, job: Job) -> Call:
    """Return a call as a sighting of its object leaves it (protocol §5, "Call open")."""
    final = rules.past_deadline(taken_at, call.deadline, job.declarations)
    if has_landed(call, sighting, taken_at) or stays_landed(call, sighting, job):
        state = CallState.LANDED
    else:
        state = CallState.EXPIRED if final else CallState.OPEN
    return call._replace(state=state, final=final)


def stays_landed(call: Call, sighting: Sighting, job: Job) -> bool:
    """Return whether a call that landed is past undoing by a crash of the scheduler."""
    if call.state is not CallState.LANDED:
        return False
    if sighting.state is ObjectState.GONE:
        return True  # absence shows no restarts, so it doesn't show that they were undone
    if call.kind is not CallKind.HOLD:
        return False
    executing = sighting.state in (ObjectState.RUNNING, ObjectState.ENDING)
    return not (executing and rules.acts_as_requeue(call, job.declarations))


def has_landed(call: Call, sighting: Sighting, taken_at: datetime) -> bool:
    """Return whether a sighting shows a call's effect."""
    if sighting.state is ObjectState.GONE:
        return False
    if sighting.restarts > call.restarts:
        return True
    if call.kind is CallKind.REQUEUE:
        return False
    held = sighting.held and sighting.state is ObjectState.PENDING
    return held and taken_at > call.at


def _falls_back(call: Call) -> bool:
    """Return whether an in-place requeue never landed, so that a new submission answers it."""
    return call.kind is CallKind.REQUEUE and call.state is CallState.EXPIRED
