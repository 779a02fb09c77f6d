"""Carrying out steps: one call each, transport retries off, and what its answer is worth (§7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, assert_never

from dispatch.core.job import Job
from dispatch.core.steps import Alert, Hold, Lookup, Once, Release, Repeatable, Requeue, Start, Stop
from dispatch.errors import (
    CallRefused,
    CallUnknown,
    HitOther,
    SchedulerUnavailable,
    Unsupported,
)
from dispatch.record.evidence import Discovery
from dispatch.record.fact import Escalated, Replied
from dispatch.record.names import ReplyResult
from dispatch.schedulers.scheduler import (
    Scheduler,
    Sent,
    Started,
    StartOrder,
    StartRefused,
    Tag,
    Target,
)

if TYPE_CHECKING:
    from dispatch.supervisor.loop import Passed

MAX_DETAIL = 1_000
"""Characters of a scheduler's words that are kept in a fact."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A call that didn't go as meant; never evidence about the job.

    Attributes:
        call: start, stop, hold, release, requeue, lookup, store, late.
        ref: The object, where there is one.
        detail: For people.
    """

    call: str
    ref: str
    detail: str


def tag_of(job: Job, n: int, a: int) -> Tag:
    """Return the tag of one attempt of a job."""
    return Tag(job.job_id, n, a, job.header.spec_digest, job.header.lineage.generation)


def target_of(job: Job, ref: str) -> Target:
    """Return the target of a call on a recorded object."""
    known = job.objects[ref]
    return Target(ref, tag_of(job, known.n, known.a), known.run.restarts)


def order_of(job: Job, n: int, a: int) -> StartOrder:
    """Return all that a Start of one attempt needs."""
    submission = job.submissions[n - 1]
    rules = (job.plan.default, *job.plan.causes.values())
    return StartOrder(
        tag=tag_of(job, n, a),
        spec=job.header.spec,
        adjust=submission.adjust,
        owner=job.header.created_by,
        in_place=any(rule.in_place for rule in rules),
    )


@dataclass(slots=True)
class Calls:
    """The calls of one round, on the job as it was just committed.

    Attributes:
        scheduler: The cluster.
        clock: Read around calls that have a deadline.
        job: The job once the round's facts are committed.
        troubles: What went wrong is added to it.
        escalations: Key, code and detail of what a person must be told.
    """

    scheduler: Scheduler
    clock: Callable[[], datetime]
    job: Job
    troubles: list[Trouble]
    escalations: list[tuple[str, str, str]] = field(default_factory=list)

    def repeatable(self, step: Repeatable, discovery: Discovery, passed: Passed) -> Discovery:
        """Make a call that may be made again; return the discovery with what was learnt."""
        match step:
            case Stop():
                passed.calls.append("stop")
                target = Target(step.ref, tag_of(self.job, step.n, step.a))
                self._made("stop", target, self.scheduler.stop)
            case Release():
                passed.calls.append("release")
                target = target_of(self.job, step.ref)
                if step.fact is None:
                    released_at = self.job.objects[step.ref].released_at
                    target = replace(target, released_at=released_at)
                self._made("release", target, self.scheduler.release)
            case Alert():
                passed.alerts.append(step.why)
            case Lookup():
                passed.calls.append("lookup")
                return self._looked_up(step, discovery)
            case _:
                assert_never(step)
        return discovery

    def once(self, step: Once, by: str) -> Replied | None:
        """Make the one call that was recorded; return a Start's reply, if it is known."""
        sendable = self._may_still_be_sent(step)
        match step:
            case Start():
                return self._start(step, by, sendable)
            case Hold():
                if sendable:
                    self._made("hold", target_of(self.job, step.fact.ref), self.scheduler.hold)
            case Requeue():
                if sendable:
                    target = target_of(self.job, step.fact.ref)
                    self._made("requeue", target, self.scheduler.requeue)
            case _:
                assert_never(step)
        return None

    def escalate(self, by: str) -> tuple[Escalated, ...]:
        """Return the facts that tell a person, once for each key."""
        now = self.clock()
        fresh = {key: (code, detail) for key, code, detail in self.escalations}
        return tuple(
            Escalated(at=now, by=by, key=key, code=code, detail=detail)
            for key, (code, detail) in fresh.items()
            if key not in self.job.escalations
        )

    def _may_still_be_sent(self, step: Once) -> bool:
        """Return whether a call sent now is sure to land, or not, within its recorded bound."""
        declared = self.job.declarations
        longest = timedelta(seconds=declared.request_timeout_s + declared.landing_bound_s)
        return self.clock() + longest <= step.fact.deadline

    def _start(self, step: Start, by: str, sendable: bool) -> Replied | None:
        n, a = step.fact.n, step.fact.a
        if not sendable:
            return self._reply(by, n, a, "its deadline was too near to send it")
        try:
            answer = self.scheduler.start(order_of(self.job, n, a))
        except SchedulerUnavailable as error:
            self.troubles.append(Trouble("start", "", str(error)))
            return self._reply(by, n, a, str(error))
        except (CallUnknown, HitOther) as error:
            self.troubles.append(Trouble("start", "", str(error)))
            return None
        now = self.clock()
        match answer:
            case Started():
                return Replied(
                    at=now,
                    by=by,
                    n=n,
                    a=a,
                    result=ReplyResult.STARTED,
                    ref=answer.ref,
                    detail="; ".join(answer.notes)[:MAX_DETAIL] or None,
                )
            case StartRefused():
                return Replied(
                    at=now,
                    by=by,
                    n=n,
                    a=a,
                    result=ReplyResult.REFUSED,
                    cause=answer.cause,
                    detail=answer.detail[:MAX_DETAIL],
                )
            case _:
                assert_never(answer)

    def _reply(self, by: str, n: int, a: int, detail: str) -> Replied:
        return Replied(
            at=self.clock(),
            by=by,
            n=n,
            a=a,
            result=ReplyResult.NOT_SENT,
            detail=detail[:MAX_DETAIL],
        )

    def _made(self, name: str, target: Target, call: Callable[[Target], None]) -> None:
        ref = target.ref
        try:
            call(target)
        except HitOther as error:
            detail = f"{name} met another's object behind {ref}: {error.message}"
            self.troubles.append(Trouble(name, ref, detail))
            if f"hit_other/{ref}" not in self.job.escalations and self.job.settled_at is None:
                self.escalations.append((f"hit_other/{ref}", "hit_other", detail[:MAX_DETAIL]))
        except (CallUnknown, CallRefused, Unsupported, SchedulerUnavailable) as error:
            self.troubles.append(Trouble(name, ref, str(error)))

    def _looked_up(self, step: Lookup, discovery: Discovery) -> Discovery:
        targets = [target_of(self.job, ref) for ref in step.refs]
        asked = [self.job.attempts[key] for key in step.attempts]
        attempts = [Sent(tag_of(self.job, one.n, one.a), one.at, one.deadline) for one in asked]
        try:
            answer = self.scheduler.lookup(targets, attempts)
        except (SchedulerUnavailable, Unsupported) as error:
            self.troubles.append(Trouble("lookup", ",".join(step.refs), str(error)))
            return discovery
        return discovery.with_lookup(answer.sightings, answer.unknown)
