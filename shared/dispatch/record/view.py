"""A record as it was read: a header and the entries appended to it, as stored."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple


class Envelope(NamedTuple):
    """One stored body and the schema it claims.

    Attributes:
        schema: `dispatch.header.v1`, `dispatch.control.v1` or `dispatch.fact.v1`.
        body: The canonical JSON text.
        token: The commit that wrote it; entries of one commit share it.
    """

    schema: str
    body: str
    token: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """A record at one revision; the revision is the number of its entries.

    Attributes:
        job_id: Whose record it is.
        header: Written once.
        entries: Appended since, oldest first.
        settled_at: The store's label, display and listing only; the fold decides.
        tombstoned: Whether the record is marked for removal.
    """

    job_id: str
    header: Envelope
    entries: tuple[Envelope, ...] = ()
    settled_at: datetime | None = None
    tombstoned: bool = False

    @property
    def revision(self) -> int:
        """The number of entries; a commit names the one it was decided at."""
        return len(self.entries)

    def with_entries(self, entries: tuple[Envelope, ...]) -> View:
        """Return the record as it stands once these entries are appended."""
        return self._of(self.entries + entries)

    def at(self, revision: int) -> View:
        """Return the record as it stood at an earlier revision."""
        return self._of(self.entries[:revision])

    def _of(self, entries: tuple[Envelope, ...]) -> View:
        return View(self.job_id, self.header, entries, self.settled_at, self.tombstoned)
