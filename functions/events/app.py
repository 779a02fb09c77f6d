"""Publishing: the table's stream of entries in, one event a decision out.

Each record is read and folded at the revisions that the stream names, so a late or repeated
delivery gives the same events with the same ids.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from dispatch.errors import InvalidRequest, JobNotFound, JobTombstoned, RecordRefused, TryLater
from dispatch.events import Event, events_of
from dispatch.wiring import Wiring, from_settings

Handler = Callable[[dict[str, Any], Any], dict[str, Any]]

RECORD_REFUSED = {"signal": "record_refused"}
"""The field of a log line on which an alarm is raised."""


class Publishing:
    """Turns the entries of a stream into events.

    Args:
        wiring: Where store and bus come from.
        log: For what people who run this should see.
    """

    def __init__(self, wiring: Wiring, log: logging.Logger) -> None:
        self._wiring = wiring
        self._log = log

    def handle(self, event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        """Publish what the entries decided.

        The stream goes on from the first entry that failed; what was published before it, and
        some after it, may be published again with the same ids.
        """
        entries = []
        for record in event.get("Records", ()):
            try:
                entries.append(_entry(record))
            except InvalidRequest as refused:
                # Nobody can publish it, ever: it must not hold up what comes after it.
                self._log.error("%s", refused, extra=RECORD_REFUSED)
        spans: dict[str, tuple[int, int, str]] = {}
        for job_id, number, place in entries:
            if number < 1:
                continue
            first, last, begun = spans.get(job_id, (number, number, place))
            spans[job_id] = (min(first, number), max(last, number), begun)
        for job_id, (first, last, begun) in spans.items():
            try:
                self._wiring.bus.put(self._events(job_id, first, last))
            except TryLater as error:
                self._log.warning("job %s: not published yet: %s", job_id, error)
                return {"batchItemFailures": [{"itemIdentifier": begun}]}
        return {"batchItemFailures": []}

    def _events(self, job_id: str, first: int, last: int) -> Sequence[Event]:
        try:
            view = self._wiring.store.read(job_id)
        except (JobNotFound, JobTombstoned):
            return ()
        except RecordRefused as refused:
            self._log.error("a record can't be read: %s", refused, extra=RECORD_REFUSED)
            return ()
        return events_of(view, first, last, self._wiring.edges.clock())


def _entry(record: Mapping[str, Any]) -> tuple[str, int, str]:
    """Return the job, the entry's number and the place in the stream."""
    try:
        change = record["dynamodb"]
        image = change["NewImage"]
        return image["job_id"]["S"], int(image["revision"]["N"]), change["SequenceNumber"]
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidRequest(f"a stream record that is no entry's: {error!r}") from error


def make_handler(wiring: Wiring, log: logging.Logger) -> Handler:
    """Return the handler of stream events."""
    return Publishing(wiring, log).handle


@cache
def _started() -> Handler:
    from aws_lambda_powertools import Logger

    logger: Any = Logger(service="events")
    return make_handler(from_settings(), logger)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Publish one batch; the dependencies are made at the first."""
    return _started()(event, context)
