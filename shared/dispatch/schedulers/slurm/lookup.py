"""Accounting, asked about objects that slurmctld no longer shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

from dispatch.errors import SchedulerUnavailable
from dispatch.record.evidence import Sighting
from dispatch.record.names import ENDED_STATES
from dispatch.schedulers.scheduler import LookedUp, Tag, Target
from dispatch.schedulers.slurm import request
from dispatch.schedulers.slurm.response import Answer, Kind
from dispatch.schedulers.slurm.rows import Row
from dispatch.schedulers.slurm.session import Doubt, Session
from dispatch.schedulers.slurm.settings import SlurmCluster
from dispatch.schedulers.slurm.sighting import is_ours, sighted
from dispatch.schedulers.slurm.tags import Mark, identified, job_name, marked


class Lookup:
    """One lookup: a question for each known id, and one for each job with attempts without."""

    def __init__(
        self, cluster: SlurmCluster, session: Session, clock: Callable[[], datetime]
    ) -> None:
        self._cluster = cluster
        self._session = session
        self._clock = clock

    def of(self, targets: Sequence[Target], attempts: Sequence[Tag]) -> LookedUp:
        """Return what accounting knows; as `Scheduler.lookup`."""
        sightings: dict[str, Sighting] = {}
        unknown: set[str] = set()
        for target in targets:
            sighting = self._target(target)
            if sighting is None:
                unknown.add(target.ref)
            else:
                sightings[sighting.ref] = sighting
        taken = {identity.job_id for one in targets if (identity := identified(one.ref))}
        for job in dict.fromkeys(tag.job for tag in attempts):
            asked = [tag for tag in attempts if tag.job == job]
            found, absent = self._attempts(job, asked, taken)
            sightings.update((one.ref, one) for one in found)
            unknown |= absent
        return LookedUp(tuple(sightings.values()), frozenset(unknown))

    def _target(self, target: Target) -> Sighting | None:
        identity = identified(target.ref)
        if identity is None or identity.cluster != self._cluster.name:
            return None
        rows = self._rows(request.runs_by_id(identity.job_id))
        mine = self._runs_of(rows, Mark(target.tag, identity.cluster, identity.at_ms))
        if not mine:
            return None
        last = max(mine, key=lambda row: row.life)
        if last.meaning.state not in ENDED_STATES:
            # slurmctld has no such job any more: the row was never closed, or not yet.
            return None
        return sighted(last, Mark(target.tag, identity.cluster, identity.at_ms))

    def _attempts(
        self, job: str, tags: Sequence[Tag], taken: set[int]
    ) -> tuple[list[Sighting], set[str]]:
        window = timedelta(seconds=self._cluster.bounds.lookup_window_s)
        since = int((self._clock() - window).timestamp())
        rows = self._rows(request.runs_by_name(job, since))
        by_mark: dict[Mark, dict[int, Row]] = {}
        strangers = False
        for row in rows:
            mark = marked(row.comment, row.extra)
            if mark is None:
                mark = next((m for m, of_id in by_mark.items() if row.job_id in of_id), None)
            if mark is not None and is_ours(self._cluster, row, mark):
                lives = by_mark.setdefault(mark, {})
                if row.job_id not in lives or lives[row.job_id].life < row.life:
                    lives[row.job_id] = row
            elif mark is None and self._may_be_ours(row, job) and row.job_id not in taken:
                strangers = True
        found: list[Sighting] = []
        absent: set[str] = set()
        for tag in tags:
            seen = [
                sighted(row, mark)
                for mark, lives in by_mark.items()
                for row in lives.values()
                if (mark.tag.n, mark.tag.a) == (tag.n, tag.a) and mark.tag.job == job
            ]
            found += seen
            # A row of this name without a tag may be this attempt's: then nothing is known.
            if not seen and not strangers:
                absent.add(f"{tag.n}.{tag.a}")
        return found, absent

    def _may_be_ours(self, row: Row, job: str) -> bool:
        """Return whether a row without a tag has all else that an attempt's would have."""
        return row.name == job_name(job) and row.user in self._cluster.users and not row.of_many

    def _runs_of(self, rows: Iterable[Row], mark: Mark) -> list[Row]:
        """Return the runs of one object among all that had its id (ids are used again)."""
        bounds = self._cluster.bounds
        sent = mark.at_ms / 1000
        # Slurm writes whole seconds.
        earliest = sent - bounds.clock_skew_s - 1
        latest = sent + self._cluster.call_bound_s + bounds.clock_skew_s
        mine: list[Row] = []
        for row in sorted(rows, key=lambda one: one.life):
            if row.of_many or row.user not in self._cluster.users:
                continue
            seen = marked(row.comment, row.extra)
            if seen is not None:
                if seen == mark:
                    mine.append(row)
                continue
            if row.name != job_name(mark.tag.job) or row.submitted_at is None:
                continue
            submitted = row.submitted_at.timestamp()
            again = row.restarts > 0 and bool(mine)
            if again or earliest <= submitted <= latest:
                mine.append(row)
        return mine

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
