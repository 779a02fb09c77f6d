"""Retention: archives what has been settled for long, and removes what is tombstoned.

The only function that may delete entries, and only those of tombstoned records; the mark and the
idempotency key of a removed record stay for ever. Where an archive is configured, nothing is
removed before its archive was read back and is the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import cache, partial
from typing import Any

from dispatch.archive import Archive, keep, name_of, refolded
from dispatch.core.waiting import waits
from dispatch.errors import (
    BadConfiguration,
    CallerError,
    DispatchError,
    RecordRefused,
    RevisionConflict,
    StoreUnavailable,
    TryLater,
)
from dispatch.signals import Signal
from dispatch.wiring import Wiring, from_settings

Handler = Callable[[dict[str, Any], Any], dict[str, Any]]

LEAST_TIME_S = 20.0
"""A record isn't begun with less time left; the next run begins anew, as all is repeatable."""

GIVES_UP_AFTER = 5
"""Archives that fail in one run before the rest is left to the next one."""


class _OutOfTime(Exception):
    """The next run goes on."""


class Retention:
    """Archives and removes what is due.

    Args:
        wiring: Where the store and the archive come from.
        log: For what people who run this should see.
    """

    def __init__(self, wiring: Wiring, log: logging.Logger) -> None:
        self._wiring = wiring
        self._log = log
        self._failures: list[DispatchError] = []

    def handle(self, event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        """Remove what is tombstoned, then archive and tombstone what is old enough.

        Raises:
            StoreUnavailable: The store didn't answer; the next run begins anew.
            TryLater, BadConfiguration: Something couldn't be archived; nothing of it was removed.
        """
        self._failures = []
        days, archive = self._wiring.settings.archive_after_days, self._wiring.archive
        if days and archive is None:
            raise BadConfiguration("DISPATCH_ARCHIVE_AFTER_DAYS needs a place to archive in")
        done = {"removed": 0, "archived": 0}
        try:
            for job_id in self._in_time(context, self._wiring.store.removable()):
                done["removed"] += self._tried(partial(self._remove, job_id, archive))
            if days and archive is not None:
                now = self._wiring.edges.clock()
                due = self._wiring.store.archivable(now - timedelta(days=days))
                for job_id in self._in_time(context, due):
                    done["archived"] += self._tried(partial(self._archive, job_id, archive, now))
            whole = True
        except _OutOfTime:
            whole = False
            self._log.warning("no time left after %s", done)
        if self._failures:
            raise self._failures[-1]
        return {**done, "complete": whole}

    def _in_time(self, context: Any, jobs: Iterable[str]) -> Iterable[str]:
        for job_id in jobs:
            if context.get_remaining_time_in_millis() / 1000 < LEAST_TIME_S:
                raise _OutOfTime
            yield job_id

    def _tried(self, act: Callable[[], None]) -> int:
        """Return 1 if it was done; tell what stood against it otherwise, and go on."""
        try:
            act()
        except StoreUnavailable:
            raise
        except (TryLater, BadConfiguration) as error:
            self._log.error("not archived: %s", error)
            self._failures.append(error)
            if len(self._failures) >= GIVES_UP_AFTER:
                raise
            return 0
        except RecordRefused as error:
            self._log.warning("left alone: %s", error, extra=Signal.RECORD_REFUSED.extra)
            return 0
        except (CallerError, RevisionConflict) as error:
            # The index may lag, and people write too; the record itself has the last word.
            self._log.warning("left alone: %s", error)
            return 0
        return 1

    def _remove(self, job_id: str, archive: Archive | None) -> None:
        store = self._wiring.store
        if archive is not None:
            view = store.read_tombstoned(job_id)
            if view is not None:
                keep(archive, view)
            elif archive.get(name_of(job_id)) is None:
                self._log.warning("job %s: part of it was gone before it was archived", job_id)
        store.remove(job_id)

    def _archive(self, job_id: str, archive: Archive, now: datetime) -> None:
        store = self._wiring.store
        view = store.read(job_id)
        job = refolded(view, now)
        if job.settled_at is None:
            raise CallerError("it bears the settled label and doesn't fold to settled", job=job_id)
        if waiting := waits(job, None, now):
            raise CallerError(waiting[0].detail, job=job_id)
        digest = keep(archive, view)
        # Only what was archived: an intent that came between leaves it to the next run.
        store.tombstone(job_id, revision=view.revision)
        self._log.info("job %s: archived, sha256 %s, and tombstoned", job_id, digest)


def make_handler(wiring: Wiring, log: logging.Logger) -> Handler:
    """Return the handler of the retention schedule."""
    return Retention(wiring, log).handle


@cache
def _started() -> Handler:
    from aws_lambda_powertools import Logger

    logger: Any = Logger(service="retention")
    return make_handler(from_settings(), logger)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Archive and remove what is due; the dependencies are made at the first call."""
    return _started()(event, context)
