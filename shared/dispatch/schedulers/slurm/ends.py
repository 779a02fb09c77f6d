"""Ends that slurmctld tells by half; accounting is asked for the rest before they count.

slurmctld doesn't say who cancelled a job. And what a node refused to launch it calls FAILED with
exit code 1, as if the job had run: its batch step, which only accounting shows, was cancelled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final

from dispatch.record.names import Cause, ObjectState
from dispatch.schedulers.slurm import request
from dispatch.schedulers.slurm.response import Kind
from dispatch.schedulers.slurm.rows import Row
from dispatch.schedulers.slurm.session import Doubt, Session
from dispatch.schedulers.slurm.settings import SlurmCluster
from dispatch.schedulers.slurm.sighting import is_ours, judged
from dispatch.schedulers.slurm.states import Meaning
from dispatch.schedulers.slurm.tags import marked

Clock = Callable[[], datetime]

QUICK_S: Final = 60
"""A run that was refused is over as soon as its node has answered; a longer one did run."""

NAMED_WITHIN_S: Final = 10
"""So long a cancel isn't called over while accounting doesn't know yet who asked for it."""

_MOST_QUESTIONS = 50
_MOST_KEPT = 5_000


class _Half(Enum):
    """What is missing of an end."""

    WHO = auto()
    LAUNCHED = auto()


class _Unanswered(Exception):
    """Accounting doesn't answer now: the next question wouldn't be answered either."""


class Ends:
    """Completes ends from accounting. What it keeps only saves requests."""

    def __init__(self, cluster: SlurmCluster, session: Session, clock: Clock) -> None:
        self._cluster = cluster
        self._session = session
        self._clock = clock
        self._known: dict[tuple[int, int, int], tuple[Meaning, str]] = {}

    def completed(self, rows: Iterable[Row]) -> tuple[Row, ...]:
        """Return the rows of a whole list, with the ends of ours told whole or not yet told."""
        if self._cluster.accounting == "none":
            return tuple(rows)
        asking = _Asking(self._cluster, self._session, self._clock)
        return tuple(self._completed(row, asking) for row in rows)

    def confirmed(self, row: Row) -> Row:
        """Return a run of accounting's; what a node refused to launch isn't told as an exit.

        Raises:
            Doubt: Accounting can't be asked.
        """
        if not quick_exit_1(row):
            return row
        known = _Asking(self._cluster, self._session, self._clock).run(row)
        return row if known is None else _refused(row, known)

    def _completed(self, row: Row, asking: _Asking) -> Row:
        half = self._half(row, asking)
        if half is None:
            return row
        key = (row.job_id, *row.life)
        if key not in self._known:
            whole, final = self._whole(row, half, asking)
            if not final:
                return whole
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            self._known[key] = (whole.meaning, whole.reason)
        meaning, reason = self._known[key]
        return replace(row, meaning=meaning, reason=reason)

    def _half(self, row: Row, asking: _Asking) -> _Half | None:
        if row.meaning.state is not ObjectState.FAILED or row.ended_at is None or not row.nodes:
            return None
        mark = marked(row.comment, row.extra)
        if mark is None or not is_ours(self._cluster, row, mark):
            return None
        if judged(row, mark).cause is Cause.STOPPED_OUTSIDE:
            return _Half.WHO
        return _Half.LAUNCHED if quick_exit_1(row) and asking.soon_after_a_start(row) else None

    def _whole(self, row: Row, half: _Half, asking: _Asking) -> tuple[Row, bool]:
        """Return the row as accounting completes it, and whether that is its last word."""
        assert row.ended_at is not None
        try:
            known = asking.run(row)
        except (Doubt, _Unanswered):
            known = None
        if known is None:
            bounds = self._cluster.bounds
            patience_s = NAMED_WITHIN_S if half is _Half.WHO else bounds.lookup_lag_s
            over = row.ended_at + timedelta(seconds=patience_s + bounds.clock_skew_s)
            return (row if self._clock() > over else _not_told_yet(row, half)), False
        match half:
            case _Half.WHO:
                return _named(row, known), True
            case _Half.LAUNCHED:
                return _refused(row, known), True


class _Asking:
    """The questions of one look: few, and none once one wasn't answered."""

    def __init__(self, cluster: SlurmCluster, session: Session, clock: Clock) -> None:
        self._cluster = cluster
        self._session = session
        self._clock = clock
        self._left = _MOST_QUESTIONS
        self._began: datetime | None = None
        self._asked_began = False

    def run(self, row: Row) -> Row | None:
        """Return what accounting has of a run that it knows to have ended."""
        if self._left <= 0:
            raise _Unanswered
        self._left -= 1
        try:
            answer = self._session.ask(request.run_with_steps(row.job_id))
        except Doubt:
            self._left = 0
            raise
        if answer.kind not in (Kind.SIGHTING, Kind.NOT_KNOWN):
            self._left = 0
            raise Doubt(f"accounting: {answer.detail}")
        return next((one for one in answer.rows if _same_run(one, row)), None)

    def soon_after_a_start(self, row: Row) -> bool:
        """Return whether slurmctld may have begun anew shortly before a run, or after it.

        Only then can a node still be ending an earlier job of the same id.
        """
        if not self._asked_began:
            self._began, self._asked_began = self._session.began(), True
        if self._began is None or row.started_at is None:
            return True
        bounds = self._cluster.bounds
        window = timedelta(seconds=bounds.node_loss_window_s + bounds.clock_skew_s)
        return row.started_at <= self._began + window


def quick_exit_1(row: Row) -> bool:
    """Return whether a run's end is what Slurm also tells of a job that a node refused."""
    meaning = row.meaning
    if meaning.cause is not Cause.APP_ERROR or meaning.exit_code != 1:
        return False
    if row.started_at is None or row.ended_at is None:
        return True
    return row.ended_at - row.started_at <= timedelta(seconds=QUICK_S)


def _same_run(known: Row, row: Row) -> bool:
    return (
        known.ended_at is not None
        and known.user == row.user
        and known.restarts == row.restarts
        and known.submitted_at == row.submitted_at
    )


def _refused(row: Row, known: Row) -> Row:
    """Return a row as accounting knows it, where its node refused to launch it."""
    if known.meaning.cause is not Cause.LAUNCH_FAILED:
        return row
    return replace(row, meaning=known.meaning, reason=f"{row.reason}; {known.meaning.note}")


def _named(row: Row, known: Row) -> Row:
    who = known.raw.get("kill_request_user") if known.raw is not None else None
    if not isinstance(who, str) or not who:
        return row
    note = f"cancelled by {who}"
    return replace(row, meaning=replace(row.meaning, note=note), reason=f"{row.reason}; {note}")


def _not_told_yet(row: Row, half: _Half) -> Row:
    asked = "who cancelled it" if half is _Half.WHO else "whether its node launched it"
    note = f"it has ended; accounting is asked {asked}"
    return replace(
        row,
        meaning=Meaning(ObjectState.ENDING, note=note),
        ended_at=None,
        reason=f"{row.reason}; {note}",
    )
