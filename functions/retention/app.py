"""Removal: the only function that may delete entries, and only those of tombstoned records.

The mark and the idempotency key of a removed record stay for ever.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from dispatch.errors import JobNotFound, NotSettled
from dispatch.wiring import Wiring, from_settings

Handler = Callable[[dict[str, Any], Any], dict[str, Any]]

PAGE = 250
LEAST_TIME_S = 5.0
"""A page isn't begun with less time left; the next run begins anew, as removal is repeatable."""


class Retention:
    """Removes what is tombstoned.

    Args:
        wiring: Where the store comes from.
        log: For what people who run this should see.
    """

    def __init__(self, wiring: Wiring, log: logging.Logger) -> None:
        self._wiring = wiring
        self._log = log

    def handle(self, event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        """Remove header and entries of every tombstoned record that time suffices for.

        Raises:
            StoreUnavailable: The store didn't answer; the next run begins anew.
        """
        store = self._wiring.store
        removed, cursor, whole = 0, None, False
        while context.get_remaining_time_in_millis() / 1000 >= LEAST_TIME_S:
            page = store.list(settled=True, limit=PAGE, cursor=cursor)
            for line in page.items:
                if line.tombstoned:
                    removed += self._removed(line.job_id)
            cursor = page.cursor
            if cursor is None:
                whole = True
                break
        if not whole:
            self._log.warning("no time left after %d records", removed)
        return {"removed": removed, "complete": whole}

    def _removed(self, job_id: str) -> int:
        try:
            self._wiring.store.remove(job_id)
        except (JobNotFound, NotSettled) as error:
            # The index may lag; the record itself has the last word.
            self._log.warning("not removed: %s", error)
            return 0
        return 1


def make_handler(wiring: Wiring, log: logging.Logger) -> Handler:
    """Return the handler of the retention schedule."""
    return Retention(wiring, log).handle


@cache
def _started() -> Handler:
    from aws_lambda_powertools import Logger

    logger: Any = Logger(service="retention")
    return make_handler(from_settings(), logger)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Remove what is due; the dependencies are made at the first call."""
    return _started()(event, context)
