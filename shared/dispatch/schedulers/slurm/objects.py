"""Calls on one object: its tag is checked before each, and looked at again after it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from dispatch.errors import (
    CallRefused,
    CallUnknown,
    HitOther,
    SchedulerUnavailable,
    Unsupported,
)
from dispatch.record.names import ENDED_STATES, ObjectState
from dispatch.schedulers.scheduler import Target
from dispatch.schedulers.slurm import request
from dispatch.schedulers.slurm.response import Kind
from dispatch.schedulers.slurm.rows import Row
from dispatch.schedulers.slurm.session import Doubt, Session
from dispatch.schedulers.slurm.settings import SlurmCluster
from dispatch.schedulers.slurm.sighting import is_ours
from dispatch.schedulers.slurm.tags import Mark, identified, marked, written


@dataclass(frozen=True, slots=True)
class _Ours:
    """An object whose tag was checked, as slurmctld shows it now."""

    row: Row
    mark: Mark

    @property
    def user(self) -> str:
        """Who acts on it: whose it is."""
        return self.row.user


class Objects:
    """The calls of one cluster that name an object."""

    def __init__(
        self, cluster: SlurmCluster, session: Session, clock: Callable[[], datetime]
    ) -> None:
        self._cluster = cluster
        self._session = session
        self._clock = clock

    def stop(self, target: Target) -> None:
        """Cancel the job with its whole tree; as `Scheduler.stop`."""
        ours = self._ours(target)
        if ours is None or ours.row.meaning.state in ENDED_STATES:
            return
        self._mark_stopping(target, ours)
        self._call(request.cancel(ours.row.job_id), target, ours, "stop")
        self._read_back(target)

    def _mark_stopping(self, target: Target, ours: _Ours) -> None:
        """Write down in Slurm that it is Dispatch that ends the object."""
        if ours.mark.stopping:
            return
        comment = written(ours.mark.stopped())
        try:
            self._call(request.mark(ours.row.job_id, comment), target, ours, "stop")
        except CallRefused:
            # It has just ended, or the site lets nobody change comments: the end matters more.
            return

    def hold(self, target: Target) -> None:
        """Hold the job; as `Scheduler.hold`. A running one is held by requeueing it held."""
        ours = self._needed(target, "hold")
        if not ours.row.running_base:
            self._call(request.hold(ours.row.job_id), target, ours, "hold")
            self._read_back(target)
            return
        if not self._cluster.in_place:
            raise Unsupported(
                f"hold: {target.ref} runs, and cluster {self._cluster.name} can't hold what runs",
                job=target.tag.job,
            )
        self._call(request.hold(ours.row.job_id), target, ours, "hold")
        self._run_again(target, ours, "hold")

    def release(self, target: Target) -> None:
        """Lift our hold or the gate; as `Scheduler.release`. Others' holds aren't fought."""
        ours = self._needed(target, "release")
        meaning = ours.row.meaning
        if meaning.holder is not None:
            raise CallRefused(
                f"release: {target.ref} is held by {meaning.holder}, not by Dispatch: "
                f"{ours.row.reason}",
                job=target.tag.job,
            )
        if meaning.state is not ObjectState.PENDING or not meaning.held:
            return
        if target.released_at is not None:
            self._forgot_no_run(target, target.released_at)
        self._call(request.release(ours.row.job_id), target, ours, "release")
        self._read_back(target)

    def _forgot_no_run(self, target: Target, released_at: datetime) -> None:
        """Refuse while a run may execute that slurmctld forgot with the release that led to it.

        A node tells of such a run when it registers again, and slurmctld ends it then.
        """
        bounds = self._cluster.bounds
        began = self._session.began()
        if began is None:
            raise CallUnknown(
                f"release of {target.ref}: slurmctld's diagnostics don't tell since when it runs, "
                "so it may have forgotten a run",
                job=target.tag.job,
            )
        skew = timedelta(seconds=bounds.clock_skew_s)
        over = began + timedelta(seconds=bounds.node_loss_window_s) + skew
        # Whole seconds: it began within the one that it names.
        if began + timedelta(seconds=1) + skew >= released_at and self._clock() < over:
            raise CallRefused(
                f"release: slurmctld began anew at {began:%H:%M:%S} UTC, after {target.ref} was "
                f"first released: a run that it forgot may execute until {over:%H:%M:%S}",
                job=target.tag.job,
            )

    def requeue(self, target: Target) -> None:
        """Have the same job run again from the start; as `Scheduler.requeue`."""
        if not self._cluster.in_place:
            raise Unsupported(
                f"requeue: cluster {self._cluster.name} doesn't declare it", job=target.tag.job
            )
        ours = self._needed(target, "requeue")
        if ours.row.restarts != target.restarts:
            raise CallRefused(
                f"requeue: {target.ref} was started again already ({ours.row.restarts} restarts, "
                f"{target.restarts} were recorded)",
                job=target.tag.job,
            )
        if not ours.row.running_base:
            raise CallRefused(f"requeue: {target.ref} isn't running", job=target.tag.job)
        self._run_again(target, ours, "requeue")

    def beat_at(self, target: Target) -> datetime | None:
        """Return when the object last said that it goes on; as `TellsProgress.written_at`."""
        try:
            ours = self._ours(target)
        except CallUnknown as doubt:
            raise SchedulerUnavailable(str(doubt), job=target.tag.job) from None
        mark = None if ours is None else marked(ours.row.extra)
        if mark is None or mark.beat_s is None:
            return None
        return datetime.fromtimestamp(mark.beat_s, UTC)

    def _run_again(self, target: Target, ours: _Ours, what: str) -> None:
        """Requeue once; whether Slurm may requeue by itself is opened for it and closed again."""
        job_id = ours.row.job_id
        self._call(request.may_requeue(job_id, True), target, ours, what)
        try:
            self._call(request.requeue(job_id), target, ours, what)
        finally:
            # Where this fails, the next Find sees it and sets it back.
            with suppress(Doubt):
                self._session.call(request.may_requeue(job_id, False), user=ours.user)
        self._read_back(target)

    def _call(self, question: request.Question, target: Target, ours: _Ours, what: str) -> None:
        try:
            answer = self._session.call(question, user=ours.user)
        except Doubt as doubt:
            raise CallUnknown(f"{what} of {target.ref}: {doubt}", job=target.tag.job) from None
        match answer.kind:
            case Kind.ACCEPTED:
                return
            case Kind.NOT_KNOWN if what == "stop":
                return
            case Kind.REFUSED | Kind.NOT_KNOWN:
                raise CallRefused(
                    f"{what} of {target.ref}: {answer.about}: {answer.detail}", job=target.tag.job
                )
            case _:
                raise CallUnknown(
                    f"{what} of {target.ref}: {answer.kind}: {answer.detail}", job=target.tag.job
                )

    def _needed(self, target: Target, what: str) -> _Ours:
        ours = self._ours(target)
        if ours is None:
            raise CallRefused(f"{what}: slurmctld doesn't know {target.ref}", job=target.tag.job)
        if ours.row.meaning.state in ENDED_STATES:
            raise CallRefused(
                f"{what}: {target.ref} has ended ({ours.row.reason})", job=target.tag.job
            )
        return ours

    def _ours(self, target: Target) -> _Ours | None:
        """Return the object after checking its tag, or nothing where slurmctld has none."""
        identity = identified(target.ref)
        if identity is None or identity.cluster != self._cluster.name:
            raise HitOther(
                f"{target.ref} is no object of cluster {self._cluster.name}", job=target.tag.job
            )
        try:
            answer = self._session.ask(request.job(identity.job_id))
        except Doubt as doubt:
            raise CallUnknown(f"look at {target.ref}: {doubt}", job=target.tag.job) from None
        if answer.kind is Kind.NOT_KNOWN:
            return None
        if answer.kind is not Kind.SIGHTING:
            raise CallUnknown(
                f"look at {target.ref}: {answer.kind}: {answer.detail}", job=target.tag.job
            )
        row = next((one for one in answer.rows if one.job_id == identity.job_id), None)
        if row is None:
            raise CallUnknown(
                f"look at {target.ref}: the reply shows another id", job=target.tag.job
            )
        mark = marked(row.comment, row.extra)
        if mark is None or mark.tag != target.tag or not is_ours(self._cluster, row, mark):
            whose = "another tag" if mark is not None else "no tag"
            raise HitOther(
                f"{target.ref}: job {row.job_id} of {row.user or 'nobody'} carries {whose} "
                f"(name {row.name!r}); nothing was done to it",
                job=target.tag.job,
            )
        # The same tag under the same id from another Start: that object isn't there any more.
        return _Ours(row, mark) if mark.at_ms == identity.at_ms else None

    def _read_back(self, target: Target) -> None:
        """After a call by id: another tag there now is told; a failed look isn't."""
        try:
            self._ours(target)
        except CallUnknown:
            return
