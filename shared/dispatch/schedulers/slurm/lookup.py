"""Accounting, asked about objects that slurmctld no longer shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from dispatch.errors import SchedulerUnavailable
from dispatch.record.evidence import Sighting
from dispatch.record.names import ENDED_STATES
from dispatch.schedulers.scheduler import LookedUp, Sent, Tag, Target
from dispatch.schedulers.slurm import request
from dispatch.schedulers.slurm.ends import Ends
from dispatch.schedulers.slurm.response import Answer, Kind
from dispatch.schedulers.slurm.rows import Row
from dispatch.schedulers.slurm.session import Doubt, Session
from dispatch.schedulers.slurm.settings import SlurmCluster
from dispatch.schedulers.slurm.sighting import is_ours, sighted
from dispatch.schedulers.slurm.tags import Identity, Mark, identified, job_name, marked


@dataclass(frozen=True, slots=True)
class _Life:
    """The rows of one object, in order: its first run, and those that Slurm started again."""

    runs: tuple[Row, ...]
    mark: Mark | None

    @property
    def last(self) -> Row:
        return self.runs[-1]

    @property
    def submitted(self) -> float | None:
        """When its first run was submitted; None where that run isn't among the rows."""
        first = self.runs[0]
        if first.restarts or first.submitted_at is None:
            return None
        return first.submitted_at.timestamp()


@dataclass(frozen=True, slots=True)
class _Window:
    """Seconds of the epoch within which Slurm can have been given an object, ends included."""

    since: float
    until: float

    def holds(self, life: _Life) -> bool:
        """Return whether an object began within it."""
        submitted = life.submitted
        return submitted is not None and self.since <= submitted <= self.until


class Lookup:
    """One lookup: a question for each known id, and one for each job with attempts without."""

    def __init__(
        self,
        cluster: SlurmCluster,
        session: Session,
        ends: Ends,
        clock: Callable[[], datetime],
    ) -> None:
        self._cluster = cluster
        self._session = session
        self._ends = ends
        self._clock = clock

    def of(self, targets: Sequence[Target], attempts: Sequence[Sent]) -> LookedUp:
        """Return what accounting knows; as `Scheduler.lookup`."""
        sightings: dict[str, Sighting] = {}
        unknown: set[str] = set()
        for target in targets:
            sighting = self._target(target)
            if sighting is None:
                unknown.add(target.ref)
            else:
                sightings[sighting.ref] = sighting
        known = [identity for one in targets if (identity := identified(one.ref)) is not None]
        for job in dict.fromkeys(sent.tag.job for sent in attempts):
            asked = [sent for sent in attempts if sent.tag.job == job]
            found, absent = self._attempts(job, asked, known)
            sightings.update((one.ref, one) for one in found)
            unknown |= absent
        return LookedUp(tuple(sightings.values()), frozenset(unknown))

    # --- an object whose id is known --------------------------------------------------------

    def _target(self, target: Target) -> Sighting | None:
        identity = identified(target.ref)
        if identity is None or identity.cluster != self._cluster.name:
            return None
        rows = self._rows(request.runs_by_id(identity.job_id))
        mark = Mark(target.tag, identity.cluster, identity.at_ms)
        window = self._after(identity)
        mine = [
            life
            for life in self._lives(rows, target.tag.job)
            if life.mark == mark or (life.mark is None and window.holds(life))
        ]
        if not mine or mine[-1].last.meaning.state not in ENDED_STATES:
            # slurmctld has no such job any more: the row was never closed, or not yet.
            return None
        return sighted(self._confirmed(mine[-1].last), mark)

    def _after(self, identity: Identity) -> _Window:
        """Return when Slurm can have been given an object whose Start was sent then."""
        sent, skew = identity.at_ms / 1000, self._cluster.bounds.clock_skew_s
        # Slurm writes whole seconds.
        return _Window(sent - skew - 1, sent + self._cluster.call_bound_s + skew)

    # --- an attempt without one -------------------------------------------------------------

    def _attempts(
        self, job: str, attempts: Sequence[Sent], known: Sequence[Identity]
    ) -> tuple[list[Sighting], set[str]]:
        windows = [self._within(sent) for sent in attempts]
        since = int(min(window.since for window in windows))
        lives = self._lives(self._rows(request.runs_by_name(job, since)), job)
        found: list[Sighting] = []
        absent: set[str] = set()
        for sent, window in zip(attempts, windows, strict=True):
            mine = [(life, life.mark) for life in lives if life.mark and life.mark.tag == sent.tag]
            late = self._clock().timestamp() > window.until + self._cluster.bounds.lookup_lag_s
            doubtful = False
            for life in lives:
                if life.mark is not None or not window.holds(life) or self._is_of(known, life):
                    continue
                if life.last.meaning.state in ENDED_STATES:
                    mine.append((life, self._supposed(sent.tag, life)))
                # A run that hasn't ended has no tag in accounting, and says nothing of an end.
                elif not late:
                    doubtful = True
            found += [sighted(self._confirmed(life.last), mark) for life, mark in mine]
            if not mine and not doubtful:
                absent.add(f"{sent.tag.n}.{sent.tag.a}")
        return found, absent

    def _within(self, sent: Sent) -> _Window:
        """Return when Slurm can have been given an attempt's object."""
        skew = self._cluster.bounds.clock_skew_s
        return _Window(sent.at.timestamp() - skew - 1, sent.deadline.timestamp() + skew)

    def _is_of(self, known: Sequence[Identity], life: _Life) -> bool:
        """Return whether a row without a tag is that of an object whose id is known."""
        return any(one.job_id == life.last.job_id and self._after(one).holds(life) for one in known)

    def _supposed(self, tag: Tag, life: _Life) -> Mark:
        """Return the mark of an object that has none in accounting; its Start isn't known."""
        return Mark(tag, self._cluster.name, int((life.submitted or 0.0) * 1000))

    # --- rows -------------------------------------------------------------------------------

    def _lives(self, rows: Iterable[Row], job: str) -> list[_Life]:
        """Return the objects of a job among all rows, earliest first (ids are used again).

        A row is of the same object as the last row of its id if it carries the same tag, or none
        and was started again. What carries no tag is kept only if it has all else that is ours.
        """
        of_id: dict[int, list[_Life]] = {}
        for row in sorted(rows, key=lambda one: one.life):
            if row.of_many or row.user not in self._cluster.users:
                continue
            mark = marked(row.comment, row.extra)
            if mark is not None and not is_ours(self._cluster, row, mark):
                continue
            if mark is None and row.name != job_name(job):
                continue
            lives = of_id.setdefault(row.job_id, [])
            if lives and row.restarts and mark in (None, lives[-1].mark):
                lives[-1] = replace(lives[-1], runs=(*lives[-1].runs, row))
            elif lives and row.restarts and lives[-1].mark is None:
                lives[-1] = _Life((*lives[-1].runs, row), mark)
            else:
                lives.append(_Life((row,), mark))
        every = [life for lives in of_id.values() for life in lives]
        return sorted(every, key=lambda life: life.last.life)

    def _confirmed(self, row: Row) -> Row:
        try:
            return self._ends.confirmed(row)
        except Doubt as doubt:
            raise SchedulerUnavailable(f"cluster {self._cluster.name}: {doubt}") from None

    def _rows(self, question: request.Question) -> tuple[Row, ...]:
        answer = self._asked(question)
        if answer.malformed:
            raise SchedulerUnavailable(
                f"cluster {self._cluster.name}: accounting can't be read: "
                f"{answer.malformed[0].reason}"
            )
        return answer.rows

    def _asked(self, question: request.Question) -> Answer:
        try:
            answer = self._session.ask(question)
        except Doubt as doubt:
            raise SchedulerUnavailable(f"cluster {self._cluster.name}: {doubt}") from None
        if answer.kind not in (Kind.SIGHTING, Kind.NOT_KNOWN):
            raise SchedulerUnavailable(f"cluster {self._cluster.name}: accounting: {answer.detail}")
        return answer
