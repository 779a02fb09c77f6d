"""Evidence that a cluster keeps though nobody will record it any more.

An adapter that keeps ended objects lets go of them once their end is in the record. What a pass
can't reach stays: a job that settled meanwhile, one that was tombstoned, one whose record is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from dispatch.core.fold import fold
from dispatch.errors import JobNotFound, JobTombstoned, RecordRefused
from dispatch.store.records import Records

UNKNOWN_KEPT_S = 86_400
"""Seconds for which evidence of an unknown job is kept: its record may come back by a restore, or
may be another deployment's on the same cluster, which lets go of it itself."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Tells whether a job's evidence must go on being kept; reads each record once.

    Attributes:
        store: The records.
        clock: Reads the time, UTC.
    """

    store: Records
    clock: Callable[[], datetime]
    _open: dict[str, bool | None] = field(default_factory=dict)

    def __call__(self, job_id: str, ended_at: datetime | None) -> bool:
        """Return whether to keep it: what goes on, what is open, what was lost a short while ago.

        A record that can't be folded keeps its evidence: a later build may read both.

        Raises:
            StoreUnavailable: Nothing is known; nothing may be let go of.
        """
        if ended_at is None:
            return True
        if job_id not in self._open:
            self._open[job_id] = self._is_open(job_id)
        still = self._open[job_id]
        if still is None:
            return self.clock() < ended_at + timedelta(seconds=UNKNOWN_KEPT_S)
        return still

    def _is_open(self, job_id: str) -> bool | None:
        """Return whether a record can still take the evidence, None where there is no record."""
        try:
            return fold(self.store.read(job_id), self.clock()).settled_at is None
        except JobNotFound:
            return None
        except JobTombstoned:
            return False
        except RecordRefused:
            return True
