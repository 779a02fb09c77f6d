"""The invariants, checked as things happen, against the truth and not against the record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice

from dispatch.core.fold import fold
from dispatch.core.job import Job
from dispatch.core.news import missed_key
from dispatch.core.parts import SchedulerObject
from dispatch.errors import RecordRefused
from dispatch.record import fact as facts
from dispatch.record.evidence import Discovery, Found, Sighting
from dispatch.record.header import Declarations
from dispatch.record.names import ENDED_STATES, Capability, Cause, ObjectState, Outcome
from dispatch.record.view import Envelope, View
from dispatch.schedulers.scheduler import StartOrder, Target
from dispatch.store.records import Store
from dispatch.supervisor.loop import Ended, Passed
from simulator.memo import Memo
from simulator.stage import EPOCH, Actor, Stage, instant
from simulator.store import NEWER_SCHEMA, as_read
from simulator.wire import Flights
from simulator.words import describe, describe_sighting
from simulator.worlds.cluster import Cluster
from simulator.worlds.ground import Began, Ground, Process

CALLS = (facts.Attempt, facts.HoldCall, facts.RequeueCall)
BEGINNINGS = (*CALLS, facts.Authorized)


class Violation(Exception):
    """A rule of the protocol was broken.

    Attributes:
        rule: Which: I1 to I8, L1, P1 to P3, or B1 (docs/explanation/simulator.md).
    """

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(f"{rule}: {message}")
        self.rule = rule


class Watch:
    """Sees everything that happens in a run, and raises at the first violation.

    Attributes:
        settled: The jobs that are settled.
    """

    def __init__(
        self, stage: Stage, store: Store, memo: Memo, ground: Ground, cluster: Cluster
    ) -> None:
        self._stage = stage
        self._store = store
        self._memo = memo
        self._ground = ground
        self._cluster = cluster
        self.flights = Flights()
        self.settled: set[str] = set()
        self._newer: set[str] = set()
        self._inside: dict[Actor, str] = {}
        self._allowed: dict[Actor, dict[tuple[object, ...], datetime]] = {}
        self._looks: dict[Actor, Discovery] = {}
        self.foreign_since: dict[str, float] = {}
        self._spent: dict[tuple[str, Cause], int] = {}
        self.on_call: Callable[[], None] = lambda: None
        self.on_news: Callable[[], None] = lambda: None

    def job(self, job_id: str) -> Job:
        """Return what a record says now."""
        return self._memo.fold(self._read(job_id), instant(self._stage.now))

    def _read(self, job_id: str) -> View:
        view = self._store.read(job_id)
        return as_read(view) if job_id in self._newer else view

    def fail(self, rule: str, message: str) -> None:
        """Report a violation."""
        self._stage.tell("(watch)", f"VIOLATION {rule}: {message}")
        raise Violation(rule, message)

    # --- what is written ----------------------------------------------------------------------

    def landed(self, actor: Actor, job_id: str, entries: Sequence[Envelope]) -> None:
        """Judge what was just committed (I2 to I6)."""
        if any(one.schema == NEWER_SCHEMA for one in entries):
            self._newer.add(job_id)
        view = self._read(job_id)
        before = self._memo.fold(view.at(view.revision - len(entries)), instant(0))
        try:
            after = self._memo.fold(view, instant(0))
        except RecordRefused as refused:
            self.fail("I2", f"{actor.name} wrote what fold refuses: {refused}")
            raise
        added = [*islice(self._memo.backwards(view), len(entries))][::-1]
        if any(isinstance(one, BEGINNINGS) for one in added):
            self.on_call()
        if any(isinstance(one, facts.Observed) and _restarted(one) for one in added):
            self.on_news()
        for entry in added:
            if self._stage.told is not None:
                actor.tell(f"writes {describe(entry)}")
        self._within_budget(after, added)
        self._asked_accounting(actor, before, added)
        if before.ending is not None:
            if after.ending != before.ending:
                self.fail("I3", f"the outcome was {before.ending} and is {after.ending}")
            late = [one for one in added if isinstance(one, BEGINNINGS)]
            if late:
                self.fail("I6", f"{describe(late[0])} after the outcome {before.ending.state}")
        elif after.ending is not None:
            self._ended(after)
        if after.settled_at is not None and before.settled_at is None:
            taken = next(one.taken_at for one in added if isinstance(one, facts.Settled))
            began = (taken - EPOCH).total_seconds() - actor.offset
            self._settled(after, began)

    def _within_budget(self, job: Job, added: Sequence[object]) -> None:
        """Judge whether a plan's limit was kept, counted here and not by fold (B1)."""
        for one in added:
            if not isinstance(one, (facts.Authorized, facts.RequeueCall)) or one.cause is None:
                continue
            if one.trigger.endswith(":f"):
                continue
            counted = self._spent[job.job_id, one.cause] = (
                self._spent.get((job.job_id, one.cause), 0) + 1
            )
            if counted > job.plan.rule(one.cause).limit:
                self.fail("B1", f"{counted} recoveries for {one.cause} are more than its limit")

    def _asked_accounting(self, actor: Actor, before: Job, added: Sequence[object]) -> None:
        """Judge whether nothing is called gone of which accounting knows the end in time (I8).

        What is noted to have vanished is given the time that accounting takes (ADR 20).
        """
        lag = before.declarations.lookup_lag_s
        for one in added:
            for sighting in one.objects if isinstance(one, facts.Observed) else ():
                known = before.objects.get(sighting.ref)
                if sighting.state is not ObjectState.GONE or known is None or known.ended:
                    continue
                noted = known.foreign or missed_key(known) in before.escalations
                in_time = actor.find_began + (0 if noted else lag)
                if self._cluster.known_before(sighting.ref, in_time):
                    self.fail("I8", f"{sighting.ref} is called gone; accounting knows its end")

    def _ended(self, job: Job) -> None:
        if job.requeue or job.resubmit or job.recovery:
            self.fail("I6", "something is pending although there is an outcome")
        if job.ending is None or job.ending.state is not Outcome.SUCCEEDED:
            return
        canonical = job.canonical
        if canonical is None or canonical.ref not in self._ground.truly_succeeded:
            self.fail("I4", "it is called succeeded and no run of its object truly succeeded")
            return
        for flight in self.flights.under_way:
            if flight.call == "requeue" and flight.what == canonical.ref and not flight.broken:
                self.fail("I4", f"a requeue of {canonical.ref} is on its way after the success")

    def _settled(self, job: Job, began: float) -> None:
        self.settled.add(job.job_id)
        for process in self._ground.of_job(job.job_id):
            if self._is_ours(job, process) and self._raised(process.ref) <= began:
                self.fail("I5", f"settled while {process.ref} executes")
        for sighting in self._cluster.show().get(job.job_id, ()):
            known = job.objects.get(sighting.ref)
            if sighting.state in ENDED_STATES or sighting.ref in self.foreign_since:
                continue
            if known is not None and known.abandoned:
                continue
            if self._raised(sighting.ref) <= began and sighting.ref not in self.flights.late:
                self.fail("I5", f"settled while {sighting.ref} is {sighting.state}")
        for flight in self.flights.under_way:
            if flight.broken or not flight.what.startswith(job.job_id):
                continue
            if flight.call == "start":
                self.fail("I5", f"settled while the start of {flight.what} is on its way")
        refs = {ref for ref, known in job.objects.items() if not known.abandoned}
        for flight in self.flights.under_way:
            raising = flight.call == "requeue" or (
                flight.call == "hold" and job.declarations.can(Capability.HOLD_RUNNING)
            )
            if raising and flight.what in refs and not flight.broken:
                self.fail("I5", f"settled while a {flight.call} of {flight.what} is on its way")

    def _raised(self, ref: str) -> float:
        """Return when somebody else last started an object again."""
        return self._cluster.raised_at.get(ref, -1.0)

    def owned(self, actor: Actor, job_id: str, entries: Sequence[Envelope]) -> None:
        """Note which calls an actor may make now."""
        allowed = self._allowed.setdefault(actor, {})
        view = self._read(job_id)
        mine = {one.body for one in entries}
        for stored, entry in zip(reversed(view.entries), self._memo.backwards(view), strict=True):
            if not mine:
                break
            if stored.body not in mine:
                continue
            mine.remove(stored.body)
            match entry:
                case facts.Attempt():
                    allowed[("start", job_id, entry.n, entry.a)] = entry.deadline
                case facts.HoldCall():
                    allowed[("hold", entry.ref)] = entry.deadline
                case facts.RequeueCall():
                    allowed[("requeue", entry.ref)] = entry.deadline
                case _:
                    pass

    # --- what is called -----------------------------------------------------------------------

    def found(self, actor: Actor, found: Found) -> None:
        """Note what an actor was shown."""
        if self._stage.told is not None:
            seen = [describe_sighting(s) for group in found.by_job.values() for s in group]
            whole = "sees" if found.complete else "sees, in part,"
            actor.tell(f"{whole} {'; '.join(seen) or 'nothing'}")

    def looks(self, actor: Actor, discovery: Discovery) -> None:
        """Note by what an actor goes in the pass that it begins."""
        self._looks[actor] = discovery

    def called(self, actor: Actor, call: str, what: object) -> None:
        """Judge a call that is about to be sent (P1, P2, P3, I8)."""
        allowed = self._allowed.setdefault(actor, {})
        if isinstance(what, StartOrder):
            tag = what.tag
            actor.tell(f"calls start {tag.n}.{tag.a}")
            self._once(allowed, actor, ("start", tag.job, tag.n, tag.a))
            self._on_a_whole_look(actor, f"starts {tag.n}.{tag.a}")
            self._no_foreign_beside(actor, tag.job)
            self._recorded(actor, tag.job)
            return
        assert isinstance(what, Target)
        actor.tell(f"calls {call} {what.ref}")
        job = self.job(what.tag.job)
        if call in ("hold", "requeue"):
            self._once(allowed, actor, (call, what.ref))
        if call in ("release", "requeue"):
            self._on_a_whole_look(actor, f"calls {call} {what.ref}")
        if call == "release" and job.objects[what.ref].released_at is None:
            self.fail("P1", f"{what.ref} is released and the record doesn't say so")
        if job.settled_at is None:
            self._recorded(actor, what.tag.job)

    def _once(
        self, allowed: dict[tuple[object, ...], datetime], actor: Actor, what: tuple[object, ...]
    ) -> None:
        if what not in allowed:
            self.fail("P1", f"{actor.name} makes the call {what} without having recorded it")
        declared = self._cluster.declared
        longest = timedelta(seconds=declared.request_timeout_s + declared.landing_bound_s)
        skew = timedelta(seconds=declared.clock_skew_s)
        if instant(self._stage.now) + longest > allowed.pop(what) + skew:
            self.fail("P2", f"{actor.name} makes the call {what} that may land after its deadline")

    def _on_a_whole_look(self, actor: Actor, what: str) -> None:
        look = self._looks.get(actor)
        if look is None or not look.complete:
            self.fail("P3", f"{actor.name} {what} without a complete Find")

    def _no_foreign_beside(self, actor: Actor, job_id: str) -> None:
        job = self.job(job_id)
        for sighting in self._cluster.show().get(job_id, ()):
            since = self.foreign_since.get(sighting.ref)
            if since is None or sighting.state in ENDED_STATES:
                continue
            if max(since, self._raised(sighting.ref)) >= actor.find_began:
                continue
            known = job.objects.get(sighting.ref)
            if known is None or not known.abandoned:
                self.fail("I1", f"a start beside the foreign object {sighting.ref}")

    def _recorded(self, actor: Actor, job_id: str) -> None:
        look = self._looks.get(actor)
        if look is not None and look.complete:
            self.evidence_kept(job_id, look.sightings, look)

    def begins_a_pass(self, actor: Actor, job_id: str, declared: Declarations) -> None:
        """Note that an actor, by its own configuration, begins a pass over a job."""
        if any(job == job_id for job in self._inside.values()):
            self._stage.counts["passes over one job overlap"] += 1
        known = self._cluster.declared
        if declared is not known and declared != known:
            self._stage.counts["a pass by another configuration"] += 1
        self._inside[actor] = job_id

    def ends_a_pass(self, actor: Actor) -> None:
        """Note that it is over, or that its process is gone."""
        self._inside.pop(actor, None)

    def passed(self, actor: Actor, discovery: Discovery, passed: Passed) -> None:
        """Judge a pass that is over (I2, I8)."""
        if passed.ended is Ended.REFUSED:
            self._stage.counts["an older build refuses newer facts"] += 1
        if passed.ended is Ended.REFUSED and NEWER_SCHEMA not in (passed.refusal or ""):
            self.fail("I2", f"{actor.name}: {passed.refusal}")
        if passed.ended is Ended.IDLE and discovery.complete:
            self.evidence_kept(passed.job_id, discovery.sightings, discovery)
        if self._stage.told is not None and passed.troubles:
            actor.tell("trouble: " + "; ".join(str(one.detail) for one in passed.troubles))

    def evidence_kept(
        self, job_id: str, sightings: Sequence[Sighting], look: Found | Discovery
    ) -> None:
        """Judge whether every end that a complete Find showed is in the record (I8)."""
        job = self.job(job_id)
        if job.settled_at is not None:
            return
        for sighting in sightings:
            if sighting.state not in ENDED_STATES:
                continue
            known = job.objects.get(sighting.ref)
            if known is None:
                self.fail("I8", f"{sighting.ref} was seen ended and isn't recorded")
                return
            if known.newest is not None and look.taken_at < known.newest:
                continue
            if not _has_end(job, known, sighting):
                self.fail("I8", f"the end of {sighting.ref} ({sighting.cause}) isn't recorded")

    # --- what executes ------------------------------------------------------------------------

    def begins(self, process: Process) -> None:
        """Judge a process that begins (I1, I5)."""
        if process.foreign:
            return
        job = self.job(process.tag.job)
        if not self._is_ours(job, process):
            return
        ours = process.began in (Began.OURS, Began.UNDONE) and self._raised(process.ref) < 0
        if job.settled_at is not None and ours:
            self.fail("I5", f"{process.ref} begins to execute after the job was settled")
        if process.began in (Began.OUTSIDE, Began.SCHEDULER):
            return
        for other in self._ground.of_job(job.job_id):
            if other is process or not self._is_ours(job, other):
                continue
            if other.began in (Began.OUTSIDE, Began.SCHEDULER) and (
                other.caused_at > process.decided_at
            ):
                continue
            if process.began is Began.UNDONE and other.ref == process.ref:
                continue
            if _was_lost_unseen(other, process) or self._left_no_trace(job, other):
                continue
            if (process.ref, process.decided_at) == (other.ref, other.decided_at):
                continue
            self.fail(
                "I1",
                f"{process.ref} (restarts {process.restarts}, {process.began}) begins while "
                f"{other.ref} (restarts {other.restarts}, {other.began}) executes",
            )

    def _left_no_trace(self, job: Job, process: Process) -> bool:
        """Return whether others made an object that went before anybody recorded it (ADR 35)."""
        known = process.ref in job.objects or self._cluster.is_there(process.ref)
        return process.began is Began.OUTSIDE and process.cut and not known

    @staticmethod
    def _is_ours(job: Job, process: Process) -> bool:
        known = job.objects.get(process.ref)
        if process.foreign or process.hidden:
            return False
        return known is None or not known.abandoned

    def nothing_left(self, jobs: Sequence[str], passes_s: float) -> None:
        """Judge whether what others raised was stopped within so many seconds (I5)."""
        for ref in self.left(jobs, passes_s):
            self.fail("I5", f"{ref} was raised after settled and isn't stopped")

    def left(self, jobs: Sequence[str], passes_s: float) -> Iterator[str]:
        """Yield what others raised of settled jobs, so that it must be stopped, and isn't yet."""
        for job_id in jobs:
            job = self.job(job_id)
            for sighting in self._cluster.show().get(job_id, ()):
                known = job.objects.get(sighting.ref)
                vouched = known is not None and (known.abandoned or known.foreign)
                vouched = vouched or sighting.ref in self._cluster.stuck
                vouched = vouched or self._waits_for_its_node(sighting)
                if sighting.ref in self.foreign_since or vouched:
                    continue
                if sighting.state not in ENDED_STATES and self._covered(
                    job, sighting.ref, passes_s
                ):
                    yield sighting.ref

    def _waits_for_its_node(self, sighting: Sighting) -> bool:
        """Return whether an object is ending and only a node that can't be reached keeps it."""
        return sighting.state is ObjectState.ENDING and all(
            process.cut for process in self._ground.of(sighting.ref)
        )

    def _covered(self, job: Job, ref: str, passes_s: float) -> bool:
        """Return whether an object was raised while somebody still looked."""
        raised = self._cluster.raised_at.get(ref)
        if raised is None or job.settled_at is None:
            return False
        declared = job.declarations
        until = job.settled_at + timedelta(
            seconds=declared.retention_s + declared.save_window_s - passes_s
        )
        return instant(raised) < until

    # --- at the end ---------------------------------------------------------------------------

    def finished(self, job_id: str) -> None:
        """Judge a record when the run is over (I7)."""
        view = self._read(job_id)
        remembered = self._memo.fold(view, instant(0))
        if fold(view, instant(10_000_000)) != remembered:
            self.fail("I7", "two folds of one revision differ")


def _was_lost_unseen(earlier: Process, process: Process) -> bool:
    """Return whether an object was requeued by a look that couldn't show a lost node (ADR 35)."""
    if earlier.ref != process.ref or earlier.restarts >= process.restarts or not earlier.cut:
        return False
    return earlier.missed_at is None or earlier.missed_at > process.decided_at


def _has_end(job: Job, known: SchedulerObject, sighting: Sighting) -> bool:
    runs = [known.run, *job.past.get(known.ref, ())]
    return any(
        run.ended and run.state is sighting.state and run.cause is sighting.cause for run in runs
    )


def _restarted(fact: facts.Observed) -> bool:
    return any(one.restarts for one in fact.objects)
