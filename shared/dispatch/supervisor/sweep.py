"""One sweep: a cluster's shard, or the jobs that a message names, served with one look (§7).

Depths of a look: a *glance* tells what changed; an *evidence* Find is taken only when some job is
due, and at a slow beat. A job whose objects look the same, whose revision is unchanged and whose
time hasn't come is skipped without reading its record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha256

from dispatch.clusters import NO_BRAKES, Brakes
from dispatch.core.job import Job
from dispatch.core.next import steps_due
from dispatch.core.parts import SchedulerObject
from dispatch.core.steps import Append, Hold, Release, Requeue, Start
from dispatch.errors import (
    CallUnknown,
    DispatchError,
    SchedulerUnavailable,
    StoreUnavailable,
)
from dispatch.record.evidence import Found, Glance, Sighting
from dispatch.record.names import ENDED_STATES
from dispatch.schedulers.scheduler import KeepsEvidence, Scheduler
from dispatch.store.records import ClusterHealth, Due, Quiet, Store
from dispatch.supervisor.belief import MASS_LOSS_LEAST, MASS_LOSS_SAMPLE, Belief, hinted
from dispatch.supervisor.brakes import mark
from dispatch.supervisor.execute import target_of
from dispatch.supervisor.health import (
    health_after,
    last_whole_look,
    looked_whole,
)
from dispatch.supervisor.keeping import Wanted
from dispatch.supervisor.loop import Ended, Passed, Supervisor

BUILD = "1"
"""The protocol build; a hint left by another build is looked at again."""

MAX_REFS = 40
"""Objects of one job that its quiet hint remembers; a job with more is always looked at."""

_BEGINNINGS = (Append, Start, Hold, Requeue, Release)
"""What a look may make due; a brake may keep all but the first from happening for long."""


@dataclass(frozen=True, slots=True)
class Beat:
    """How often an evidence Find is taken though nothing seems to have changed.

    Attributes:
        evidence_every_s: Seconds between whole looks at a shard, each with an evidence Find.
        accepted_s: Seconds for which a person's word that a loss is real holds.
    """

    evidence_every_s: int = 600
    accepted_s: int = 3_600


@dataclass(slots=True)
class Swept:
    """What one sweep did.

    Attributes:
        cluster: Which cluster.
        looked_at: Open jobs in the index.
        passes: What was done for each job that was due.
        left: Jobs that time didn't suffice for.
        freed: Ended objects whose evidence was let go of, since nobody will record it.
        finds: Evidence Finds taken.
        error: Why nothing, or not everything, could be learnt.
        mass_loss: Why a Find was not believed.
        found: The last Find that was believed.
        sample: Open jobs to judge a mass loss by, if the index was read and they name enough.
        whole: Whether every open job of the shard was due, and so looked at.
        unreachable: Whether the cluster didn't answer, so that nothing was learnt.
        store_down: Whether it was the store that didn't answer.
        health: The cluster's health as it was left; None where it couldn't be.
        braked: Whether a brake was on.
    """

    cluster: str
    looked_at: int = 0
    passes: list[Passed] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    freed: int = 0
    finds: int = 0
    error: str | None = None
    mass_loss: str | None = None
    found: Found | None = None
    sample: list[Due] | None = None
    whole: bool = False
    unreachable: bool = False
    store_down: bool = False
    health: ClusterHealth | None = None
    braked: bool = False

    @property
    def withheld(self) -> list[str]:
        """What the cluster's brakes kept from happening, a line each."""
        return [f"job {one.job_id}: {said}" for one in self.passes for said in one.withheld]


@dataclass(frozen=True, slots=True)
class Sweeper:
    """Serves one cluster; holds no state between sweeps.

    Attributes:
        store: Records, agenda and health.
        scheduler: The cluster.
        clock: Reads the time, UTC.
        by: Who the facts are written by.
        time_left: Seconds until this process must be done.
        beat: How often to look closely.
        brakes: What is kept from happening on this cluster.
        build: Which protocol build looks. What one build can't read, another can, so neither's
            hints and whole looks speak for the other.
    """

    store: Store
    scheduler: Scheduler
    clock: Callable[[], datetime]
    by: str
    time_left: Callable[[], float]
    beat: Beat = Beat()
    brakes: Brakes = NO_BRAKES
    build: str = BUILD

    def sweep(
        self,
        cluster: str,
        jobs: Sequence[str] | None = None,
        *,
        shard: int = 0,
        shards: int = 1,
    ) -> Swept:
        """Serve the jobs that are due; those named, or all open ones of the shard.

        No error of the store or the scheduler is raised: what couldn't be learnt is in the
        answer and in the cluster's health, and nothing is concluded from it.
        """
        swept = Swept(cluster, braked=self.brakes.on)
        health = None
        try:
            health = self.store.get_health(cluster)
            glance = self.scheduler.glance()
            swept.mass_loss = self._belief.another_cluster(health, glance.identity)
            if swept.mass_loss is None:
                part = (shard, shards)
                due, quiet = self._due(swept, glance, jobs, part)
                self._serve(swept, glance, health, due, quiet)
                self._whole_look_done(swept, part)
        except SchedulerUnavailable as error:
            swept.error, swept.unreachable = str(error), True
        except StoreUnavailable as error:
            swept.error, swept.store_down = str(error), True
            return swept
        try:
            self._report(swept, health)
        except StoreUnavailable as error:
            swept.error, swept.store_down = str(error), True
        return swept

    # --- what is due ------------------------------------------------------------------------

    def _due(
        self,
        swept: Swept,
        glance: Glance,
        jobs: Sequence[str] | None,
        shard: tuple[int, int],
    ) -> tuple[list[Due], list[Due]]:
        """Return the jobs that are due, and those that aren't as far as a glance can tell."""
        if jobs is not None:
            return [Due(job_id, -1, None) for job_id in dict.fromkeys(jobs)], []
        swept.whole = slow = self._slow_beat(swept.cluster, shard)
        due: list[Due] = []
        quiet: list[Due] = []
        sample: list[Due] = []
        for one in self.store.open_jobs(swept.cluster, shard=shard[0], shards=shard[1]):
            if swept.looked_at < MASS_LOSS_SAMPLE:
                sample.append(one)
            swept.looked_at += 1
            (due if slow or not self._is_quiet(one, glance) else quiet).append(one)
        if shard[1] == 1 or sum(len(hinted(one)) for one in sample) >= MASS_LOSS_LEAST:
            swept.sample = sample
        return due, quiet

    def _slow_beat(self, cluster: str, shard: tuple[int, int]) -> bool:
        """Return whether every job of the shard is due.

        A Find that some of them were due for is no whole look: on a busy cluster there is always
        such a Find, and the others would never be looked at.
        """
        last = last_whole_look(self.store, cluster, shard, build=self.build)
        every = timedelta(seconds=self.beat.evidence_every_s)
        return last is None or self.clock() >= last + every

    def _whole_look_done(self, swept: Swept, shard: tuple[int, int]) -> None:
        """Write down that a shard was looked at whole; free what its cluster keeps for nobody."""
        if not swept.whole or swept.error is not None or swept.mass_loss is not None or swept.left:
            return
        observed = self.brakes.observed is not None
        if isinstance(self.scheduler, KeepsEvidence) and shard[0] == 0 and not observed:
            try:
                swept.freed = self.scheduler.free(Wanted(self.store, self.clock))
            except CallUnknown:
                return  # repeatable: the next tick looks at everything again
        by, at = self.by, self.clock()
        looked_whole(self.store, swept.cluster, shard, build=self.build, by=by, at=at)

    def _is_quiet(self, due: Due, glance: Glance) -> bool:
        quiet = due.quiet
        if quiet is None or quiet.build != self._build or quiet.revision != due.revision:
            return False
        if quiet.wait_until is not None and self.clock() >= quiet.wait_until:
            return False
        return quiet.digest == digest(quiet.refs, glance)

    # --- serving ----------------------------------------------------------------------------

    def _serve(
        self,
        swept: Swept,
        glance: Glance,
        health: ClusterHealth | None,
        due: list[Due],
        quiet: list[Due],
    ) -> None:
        if not due:
            return
        found = self._found(swept, health, due)
        # A glance can't tell of an object that a job's hint doesn't name; this Find can.
        due += [one for one in quiet if _shows_another(found, one)]
        again = self._round(swept, glance, found, due)
        if again and self.time_left() > 2:
            due = [Due(job_id, -1, None) for job_id in again]
            swept.sample = None  # what the first round started is in the index only now
            found = self._found(swept, health, due)
            self._round(swept, glance, found, due)

    def _round(self, swept: Swept, glance: Glance, found: Found, due: list[Due]) -> list[str]:
        """Serve these jobs with one Find; return those that met a conflict."""
        supervisor = Supervisor(
            self.store, self.scheduler, self.clock, self.by, self.time_left, self.brakes
        )
        conflicts = []
        for index, one in enumerate(due):
            if self.time_left() <= 2:
                swept.left += [rest.job_id for rest in due[index:]]
                break
            passed = supervisor.supervise(one.job_id, found.discovery(one.job_id))
            swept.passes.append(passed)
            if passed.ended is Ended.CONFLICT:
                conflicts.append(one.job_id)
            self._settle_down(passed, glance, found)
        return conflicts

    def _found(self, swept: Swept, health: ClusterHealth | None, due: list[Due]) -> Found:
        swept.finds += 1
        found = self.scheduler.find()
        if not found.complete:
            swept.error = found.error or "the Find wasn't complete"
        belief = self._belief
        swept.mass_loss = belief.another_cluster(health, found.identity) or belief.mass_loss(
            health, found, due, swept.sample
        )
        if swept.mass_loss is None:
            swept.found = found
            return found
        return replace(found, complete=False, by_job={}, error=swept.mass_loss)

    def _settle_down(self, passed: Passed, glance: Glance, found: Found) -> None:
        """Leave the hint that saves the next look, and let go of evidence that is recorded."""
        job = passed.job
        if job is None or self.brakes.observed is not None:
            return
        self._acknowledge(job, found)
        if passed.ended is not Ended.IDLE or passed.next is None or not found.complete:
            return
        if job.settled_at is not None and not passed.next.waiting:
            self.store.close(job.job_id)
            return
        if passed.troubles or passed.calls or len(job.objects) > MAX_REFS:
            # A call may be lost without a word: the next tick looks whether it took.
            return
        refs = tuple(job.objects)
        live = tuple(ref for ref, known in job.objects.items() if not known.ended)
        if any(ref not in glance.tokens for ref in live):
            # Started since the glance, or ended since: no later glance need differ from this one.
            return
        if self._due_by_a_fresh_look(passed, job, found):
            return
        until = passed.next.wait_until
        quiet = Quiet(job.revision, refs, digest(refs, glance), until, self._build, live)
        self.store.set_quiet(job.job_id, quiet)

    def _due_by_a_fresh_look(self, passed: Passed, job: Job, found: Found) -> bool:
        """Return whether there is something to commit as soon as the same is seen again.

        A window that ended between the look and now is over for everybody's `now`, so nothing
        waits for it, but not for that look's `taken_at`.
        """
        now = self.clock()
        again = replace(found.discovery(job.job_id), taken_at=now, seen_at=now)
        counts = (Append,) if passed.withheld else _BEGINNINGS
        return any(isinstance(step, counts) for step in steps_due(job, again, now, by=self.by))

    def _acknowledge(self, job: Job, found: Found) -> None:
        recorded = [
            target_of(job, one.ref)
            for one in found.by_job.get(job.job_id, ())
            if one.ref in job.objects and _is_recorded(one, job.objects[one.ref])
        ]
        if not recorded or not isinstance(self.scheduler, KeepsEvidence):
            return
        try:
            self.scheduler.acknowledge(recorded)
        except DispatchError:
            return  # repeatable: the next sweep asks again

    # --- health -----------------------------------------------------------------------------

    def _report(self, swept: Swept, before: ClusterHealth | None) -> None:
        health = health_after(swept, before, by=self.by, now=self.clock())
        self.store.put_health(health)
        swept.health = health

    @property
    def _belief(self) -> Belief:
        held = self.beat.accepted_s
        return Belief(self.store, self.scheduler, self.clock, self.time_left, held)

    @property
    def _build(self) -> str:
        """What the quiet hints left now bear; a hint that was left under a brake ends with it."""
        return self.build + mark(self.brakes)


def _is_recorded(seen: Sighting, known: SchedulerObject) -> bool:
    """Return whether the record has an object's end, or the runs before the one it is in."""
    if seen.state in ENDED_STATES:
        return known.ended
    return 0 < seen.restarts == known.run.restarts


def _shows_another(found: Found, due: Due) -> bool:
    """Return whether a Find shows an object of a job that its hint doesn't know."""
    known = () if due.quiet is None else due.quiet.refs
    return any(one.ref not in known for one in found.by_job.get(due.job_id, ()))


def digest(refs: Iterable[str], glance: Glance) -> str:
    """Return a digest of what a glance shows of these objects; it changes when one does."""
    text = "\n".join(f"{ref}={glance.tokens.get(ref, '')}" for ref in sorted(refs))
    return sha256(text.encode()).hexdigest()[:32]
