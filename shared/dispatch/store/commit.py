"""How control intents are committed: read again and retry until a deadline (seed, "The store")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from dispatch.errors import CommitUnknown, RecordRefused, RevisionConflict, StoreUnavailable
from dispatch.record.codec import decode_entry, envelope
from dispatch.record.control import CONTROL_SCHEMA, Control
from dispatch.record.view import View
from dispatch.store.records import Records


@dataclass(frozen=True, slots=True)
class Committed:
    """A control intent that stands in the record.

    Attributes:
        view: The record right after it; a new entry stands there without its commit's token.
        entry: The number of its entry.
        repeated: Whether its id stood there already, so that nothing was appended.
    """

    view: View
    entry: int
    repeated: bool


def commit_control(
    records: Records,
    job_id: str,
    control: Control,
    *,
    deadline: datetime,
    clock: Callable[[], datetime],
    pause: Callable[[int], None],
) -> Committed:
    """Append a control intent without folding, whatever else is being committed.

    A conflict or an unknown commit is met by reading again, until the deadline; so neither a
    stream of evidence nor an entry that this build can't decode keeps a cancel out.

    Args:
        records: The store.
        job_id: Whose record.
        control: The intent; its id makes it idempotent.
        deadline: When to stop trying.
        clock: Read before each try.
        pause: Waits a little before try `k`.

    Raises:
        JobNotFound, JobTombstoned: There is nothing to append to.
        EntryTooLarge: It would not fit.
        StoreUnavailable: The deadline came first and nothing was written.
        CommitUnknown: The deadline came first, and it may be written.
    """
    unknown = False
    tries = 0
    while True:
        try:
            view = records.read(job_id)
            met = _standing(view, control.id)
            if met is not None:
                return Committed(view, met, repeated=not unknown)
            stored = envelope(control)
            revision = records.commit(job_id, view.revision, (stored,))
            return Committed(view.with_entries((stored,)), revision, repeated=False)
        except RevisionConflict:
            pass
        except CommitUnknown:
            unknown = True
        except StoreUnavailable:
            if clock() >= deadline and not unknown:
                raise
        if clock() >= deadline:
            message = f"{control.kind} {control.id} couldn't be committed before its deadline"
            raise (
                CommitUnknown(message, job=job_id)
                if unknown
                else StoreUnavailable(message, job=job_id)
            )
        pause(tries)
        tries += 1


def _standing(view: View, intent_id: str) -> int | None:
    """Return the number of the entry that has this intent id, reading control entries only."""
    for number, stored in enumerate(view.entries, start=1):
        if stored.schema != CONTROL_SCHEMA or intent_id not in stored.body:
            continue
        try:
            entry = decode_entry(stored, job=view.job_id, entry=number)
        except RecordRefused:
            continue
        if isinstance(entry, Control) and entry.id == intent_id:
            return number
    return None
