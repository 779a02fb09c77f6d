"""Whether a cluster's answer is believed: it may be another's, or lose most of what is known (§7).

What isn't believed concludes nothing: a person is told, and may say that the loss is real. A loss
that accounting can explain is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from dispatch.core.fold import fold
from dispatch.errors import (
    JobNotFound,
    JobTombstoned,
    RecordRefused,
    SchedulerUnavailable,
    Unsupported,
)
from dispatch.record.evidence import Found
from dispatch.record.names import ENDED_STATES, Capability
from dispatch.schedulers.scheduler import Scheduler, Target
from dispatch.store.records import ClusterHealth, Due, Store
from dispatch.supervisor.execute import target_of
from dispatch.supervisor.health import loss_accepted_at

MASS_LOSS_LEAST = 5
"""Known live objects below which a loss is never called a mass loss."""

MASS_LOSS_SAMPLE = 200
"""Open jobs whose known live objects are looked for in every complete Find."""

ASKED_OF_ACCOUNTING = 20
"""Lost objects that accounting is asked about, at most; it speaks for the others, too."""


@dataclass(frozen=True, slots=True)
class Belief:
    """Judges one cluster's answers; holds nothing between looks.

    Attributes:
        store: Records, agenda, and a person's word about a loss.
        scheduler: The cluster, whose accounting may explain a loss.
        clock: Reads the time, UTC.
        time_left: Seconds until this process must be done.
        accepted_s: Seconds for which a person's word that a loss is real holds.
    """

    store: Store
    scheduler: Scheduler
    clock: Callable[[], datetime]
    time_left: Callable[[], float]
    accepted_s: int

    def another_cluster(self, health: ClusterHealth | None, identity: str) -> str | None:
        """Return why an answer isn't believed: it comes from another cluster than before.

        Raises:
            StoreUnavailable: Nothing is known.
        """
        if health is None or health.identity is None or health.identity == identity:
            return None
        if self._accepted(health.cluster, health):
            return None
        return f"another cluster answers: {identity}, not {health.identity}; nothing is concluded"

    def mass_loss(
        self,
        health: ClusterHealth | None,
        found: Found,
        due: Sequence[Due],
        sample: Sequence[Due] | None,
    ) -> str | None:
        """Return why a complete Find isn't believed: it loses most known live objects at once.

        The hints of the open jobs tell cheaply whether it could be so; where it could, the records
        have the last word, for a hint may be older than its record, or not be there yet (ADR 39).

        Laxer than the protocol where accounting knows how most of the missing ended (ADR 40).

        Args:
            health: The cluster's, where it has been looked at before.
            found: The Find.
            due: The jobs that it was taken for.
            sample: Open jobs to judge by; None to read the index.

        Raises:
            StoreUnavailable: Nothing is known.
        """
        if not found.complete:
            return None
        shown = {one.ref for group in found.by_job.values() for one in group}
        if sample is None:
            sample = list(islice(self.store.open_jobs(found.cluster), MASS_LOSS_SAMPLE))
        asked = {one.job_id: one for one in (*due, *sample)}
        live = {one.job_id: hinted(one) for one in asked.values()}
        silent = [
            one
            for job_id, one in asked.items()
            if not live[job_id] and job_id not in found.by_job and not _has_fresh_hint(one)
        ]
        missed = [one for job_id, one in asked.items() if live[job_id].keys() - shown] + silent
        known, lost = _known_and_lost(live, shown)
        could_be = _most_are_missing(len(known) + len(silent), len(lost) + len(silent))
        if not could_be or self._accepted(found.cluster, health):
            return None
        for one in missed[:MASS_LOSS_SAMPLE]:
            live[one.job_id] = self._live_in_record(one)
        known, lost = _known_and_lost(live, shown)
        if not _most_are_missing(len(known), len(lost)):
            return None
        over = self._ended_by_accounting(list(lost.values()))
        if not _most_are_missing(len(known) - over, len(lost) - over):
            return None
        return (
            f"{len(lost) - over} of {len(known) - over} known live objects are missing; "
            "nothing is concluded"
        )

    def _accepted(self, cluster: str, health: ClusterHealth | None) -> bool:
        accepted = loss_accepted_at(self.store, cluster, health)
        return accepted is not None and self.clock() < accepted + timedelta(seconds=self.accepted_s)

    def _live_in_record(self, one: Due) -> dict[str, Target | None]:
        """Return the live objects of a job; its hint's, where this build can't read its record."""
        try:
            job = fold(self.store.read(one.job_id), self.clock())
        except RecordRefused:
            return hinted(one)
        except (JobNotFound, JobTombstoned):
            return {}
        return {ref: target_of(job, ref) for ref, known in job.objects.items() if not known.ended}

    def _ended_by_accounting(self, lost: Sequence[Target | None]) -> int:
        """Return how many lost objects have ended, by what accounting says of some of them.

        After an outage of ours longer than the scheduler's memory, all that ended meanwhile is
        missing at once. An error explains nothing, nor does the end of an earlier run.
        """
        declared = self.scheduler.declare()
        if not declared.can(Capability.LOOKUP):
            return 0
        asked = over = 0
        for target in lost[:ASKED_OF_ACCOUNTING]:
            if target is None or self.time_left() <= declared.request_timeout_s + 1:
                return over
            try:
                answer = self.scheduler.lookup([target], ())
            except (SchedulerUnavailable, Unsupported):
                return over
            asked += 1
            over += any(
                one.state in ENDED_STATES and one.restarts >= target.restarts
                for one in answer.sightings
            )
        return over * len(lost) // asked


def hinted(due: Due) -> dict[str, Target | None]:
    """Return the live objects that a job's hint names; their targets stand in the record alone."""
    return {} if due.quiet is None else dict.fromkeys(due.quiet.live)


def _has_fresh_hint(due: Due) -> bool:
    return due.quiet is not None and due.quiet.revision == due.revision


def _known_and_lost(
    live: Mapping[str, Mapping[str, Target | None]], shown: set[str]
) -> tuple[dict[str, Target | None], dict[str, Target | None]]:
    """Return the objects that are known to be live, and those of them that weren't shown."""
    known = {ref: target for of_job in live.values() for ref, target in of_job.items()}
    return known, {ref: target for ref, target in known.items() if ref not in shown}


def _most_are_missing(known: int, missing: int) -> bool:
    return known >= MASS_LOSS_LEAST and 2 * missing > known
