"""An event bus that is a file: one event a line, for people and for `tail -f`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock

from dispatch.errors import TryLater
from dispatch.events import SOURCE, Event
from dispatch.record.codec import canonical, parse_strict
from dispatch.record.model import instant_text


class FileBus:
    """Appends events to a file, and tells of each.

    Args:
        path: The file.
        told: Called with each event.
    """

    def __init__(self, path: Path, told: Callable[[Event], None]) -> None:
        self._path = path
        self._told = told
        self._lock = Lock()

    def put(self, events: Sequence[Event]) -> None:
        """Publish events (see `Bus`)."""
        if not events:
            return
        text = "".join(_line(event) for event in events)
        with self._lock:
            try:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(text)
            except OSError as error:
                raise TryLater(f"{self._path}: {error}") from error
        for event in events:
            self._told(event)


def _line(event: Event) -> str:
    envelope = {
        "id": event.id,
        "source": SOURCE,
        "detail-type": event.detail_type,
        "time": instant_text(event.at),
        "detail": parse_strict(event.detail),
    }
    return canonical(envelope) + "\n"
