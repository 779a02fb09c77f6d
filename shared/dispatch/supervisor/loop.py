"""One pass: read, fold, decide, commit, call; again until there is nothing to do but wait (§7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from dispatch.clusters import NO_BRAKES, Brakes
from dispatch.core.decide import Decision, decide, key
from dispatch.core.fold import extend, fold, refold
from dispatch.core.job import Job
from dispatch.core.steps import Next
from dispatch.errors import (
    CommitUnknown,
    EntryTooLarge,
    InvalidRecord,
    JobNotFound,
    JobTombstoned,
    RecordRefused,
    RevisionConflict,
    StoreUnavailable,
)
from dispatch.record.codec import envelope
from dispatch.record.evidence import Discovery
from dispatch.record.fact import Fact, Replied, Settled
from dispatch.record.view import View
from dispatch.schedulers.scheduler import Scheduler
from dispatch.store.records import Records
from dispatch.supervisor.brakes import kept_back, sentences
from dispatch.supervisor.execute import Calls, Trouble

MAX_ROUNDS = 30
"""Rounds of one pass; what is left waits for the next tick."""

REPLY_TRIES = 5
"""How often a Start's reply is offered to a record that others write to; safety needs none."""


class Ended(StrEnum):
    """Why a pass ended."""

    IDLE = "idle"
    CONFLICT = "conflict"
    UNKNOWN = "unknown"
    OUT_OF_TIME = "out_of_time"
    UNAVAILABLE = "unavailable"
    REFUSED = "refused"
    GONE = "gone"


@dataclass(slots=True)
class Passed:
    """What one pass did.

    Attributes:
        job_id: Which job.
        ended: Why it stopped.
        job: The job as last folded; None where it couldn't be.
        next: What Next said last.
        commits: How many commits were made.
        facts: How many facts they held.
        calls: The calls made, by name.
        rows: The rows of protocol §6 that were carried out, in order.
        troubles: What went wrong with calls, for people.
        alerts: What a person must be told that can't be written down.
        refusal: Why the record couldn't be folded.
        withheld: What the cluster's brakes kept from happening, for people.
    """

    job_id: str
    ended: Ended = Ended.IDLE
    job: Job | None = None
    next: Next | None = None
    commits: int = 0
    facts: int = 0
    calls: list[str] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    alerts: list[str] = field(default_factory=list)
    refusal: str | None = None
    withheld: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Supervisor:
    """Carries out what Next says for one cluster's jobs. Holds no state between passes.

    Attributes:
        records: The store.
        scheduler: The cluster.
        clock: Reads the time, UTC; once for each round, and around a call that has a deadline.
        by: Who the facts are written by.
        time_left: Seconds until this process must be done; a call isn't begun without them.
        brakes: What is kept from happening on this cluster.
    """

    records: Records
    scheduler: Scheduler
    clock: Callable[[], datetime]
    by: str
    time_left: Callable[[], float]
    brakes: Brakes = NO_BRAKES

    def supervise(self, job_id: str, discovery: Discovery) -> Passed:
        """Do everything that is due for one job, and return what was done.

        A conflict ends the pass: the discovery is dropped with everything else, and the caller
        takes a new one. No error of the store or the scheduler is raised; a record that can't be
        folded gets no calls.
        """
        passed = Passed(job_id)
        try:
            self._rounds(passed, discovery)
        except RevisionConflict:
            passed.ended = Ended.CONFLICT
        except CommitUnknown:
            passed.ended = Ended.UNKNOWN
        except StoreUnavailable as error:
            passed.ended = Ended.UNAVAILABLE
            passed.troubles.append(Trouble("store", "", str(error)))
        except (RecordRefused, EntryTooLarge) as error:
            passed.ended = Ended.REFUSED
            passed.refusal = str(error)
        except (JobNotFound, JobTombstoned):
            passed.ended = Ended.GONE
        return passed

    def _rounds(self, passed: Passed, discovery: Discovery) -> None:
        view = self.records.read(passed.job_id)
        made: frozenset[tuple[str, ...]] = frozenset()
        job: Job | None = None
        reply: tuple[Replied, ...] = ()
        for _ in range(MAX_ROUNDS):
            now = self.clock()
            job = fold(view, now) if job is None else refold(job, view, now)
            known = extend(job, reply) if reply else job
            without = kept_back(self.brakes)
            decision = decide(known, discovery, now, by=self.by, made=made, without=without)
            passed.job, passed.next = job, decision.next
            passed.withheld = sentences(self.brakes, decision)
            if (decision.idle and not reply) or self.brakes.observed is not None:
                return
            if self._out_of_time(decision, job):
                break
            if reply or decision.facts:
                view = self._commit_with(reply, passed, view, job, decision.facts)
                passed.job, reply = decision.after, ()
            passed.rows += decision.rows
            calls = Calls(self.scheduler, self.clock, decision.after, passed.troubles)
            for step in decision.repeatable:
                discovery = calls.repeatable(step, discovery, passed)
            made |= {key(step) for step in decision.repeatable}
            if decision.once is not None:
                passed.calls.append(type(decision.once).__name__.lower())
                answer = calls.once(decision.once, self.by)
                reply = () if answer is None else self._fitting(passed, decision.after, answer)
            if calls.escalations:
                told = calls.escalate(self.by)
                view = self._append_when_possible(passed, view, decision.after, told)
            elif decision.complete:
                return
        if reply:
            self._append_when_possible(passed, view, fold(view, self.clock()), reply)
        passed.ended = Ended.OUT_OF_TIME

    def _out_of_time(self, decision: Decision, job: Job) -> bool:
        """Return whether a call that is recorded first could not be finished in time."""
        if decision.once is None and not decision.repeatable:
            return self.time_left() <= 1
        return self.time_left() <= job.declarations.request_timeout_s + 1

    def _commit(self, passed: Passed, view: View, added: Sequence[Fact]) -> View:
        stored = tuple(envelope(fact) for fact in added)
        settled = next((fact.at for fact in added if isinstance(fact, Settled)), None)
        self.records.commit(passed.job_id, view.revision, stored, settled_at=settled)
        passed.commits += 1
        passed.facts += len(added)
        return view.with_entries(stored)

    def _fitting(self, passed: Passed, job: Job, reply: Replied) -> tuple[Replied, ...]:
        """Return a Start's reply, to be committed with what follows; none that fold refuses."""
        try:
            extend(job, (reply,))
        except InvalidRecord as refused:
            passed.troubles.append(Trouble("late", "", str(refused)))
            return ()
        return (reply,)

    def _commit_with(
        self,
        reply: tuple[Replied, ...],
        passed: Passed,
        view: View,
        job: Job,
        added: Sequence[Fact],
    ) -> View:
        """Commit a Start's reply together with what follows from it; if need be, it alone."""
        try:
            return self._commit(passed, view, (*reply, *added))
        except RevisionConflict:
            if reply:
                self._append_when_possible(passed, self.records.read(job.job_id), job, reply)
            raise

    def _append_when_possible(
        self, passed: Passed, view: View, job: Job, added: Sequence[Fact]
    ) -> View:
        """Commit facts that are true whatever else was written meanwhile, or leave them out.

        Args:
            passed: What was done.
            view: The record as last read or written.
            job: What it said then, or earlier.
            added: The facts.
        """
        for _ in range(REPLY_TRIES):
            try:
                extend(refold(job, view, self.clock()), added)
                return self._commit(passed, view, added)
            except RevisionConflict:
                view = self.records.read(passed.job_id)
            except InvalidRecord as refused:
                passed.troubles.append(Trouble("late", "", str(refused)))
                return self.records.read(passed.job_id)
        raise RevisionConflict("others kept writing", job=passed.job_id)
