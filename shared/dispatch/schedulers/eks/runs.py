"""Which run of a TrainJob its pods belong to: the present one, or one before it.

The JobSet controller makes all Jobs anew when one of them fails, and Trainer makes a JobSet anew
that is gone. Both are new runs of the same object. A run is told by the uid of its JobSet and the
attempt that the JobSet's controller writes on the pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from dispatch.schedulers.eks.marks import EARLIER, RESTARTS, EarlierRun, earlier_runs
from dispatch.schedulers.eks.objects import JOBSET_ATTEMPT, JOBSET_UID, Job, Pod, counted
from dispatch.schedulers.eks.ranks import restarts_in
from dispatch.schedulers.eks.train_objects import JobSet, TrainJob

Run = tuple[str, int]
"""A JobSet's uid, and which of its runs."""


@dataclass(frozen=True, slots=True)
class Train:
    """A TrainJob and what was made of it, without the pods.

    Attributes:
        trainjob: The TrainJob; None where it is gone.
        jobsets: Its JobSets: more than one while an old one goes.
        children: The Jobs of all of them.
    """

    trainjob: TrainJob | None
    jobsets: Sequence[JobSet] = ()
    children: Sequence[Job] = ()

    @property
    def jobset(self) -> JobSet | None:
        """The JobSet that stands; None where there is none, or it is being deleted."""
        standing = [one for one in self.jobsets if one.meta.deleted is None]
        return max(standing, key=lambda one: _time(one.meta.created), default=None)

    @property
    def finished(self) -> bool:
        """Whether it is over: a TrainJob may say so while a JobSet that was made anew runs."""
        jobset = self.jobset
        if jobset is not None:
            return jobset.finished is not None
        return self.trainjob is not None and self.trainjob.finished is not None


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of one TrainJob.

    Attributes:
        present: The pods of the run that it is in.
        before: Pods of earlier runs that are still there.
        restarts: How often it was started again: by Dispatch, by its JobSet, by Trainer.
        earlier: The ends of earlier runs that are kept on it.
    """

    present: tuple[Pod, ...]
    before: tuple[Pod, ...]
    restarts: int
    earlier: tuple[EarlierRun, ...]


def run_of(pod: Pod) -> Run:
    """Return the run that a pod belongs to, as its JobSet's controller has written it."""
    labels = pod.meta.labels
    return labels.get(JOBSET_UID, ""), counted(labels.get(JOBSET_ATTEMPT, ""))


def runs_of(train: Train, pods: Sequence[Pod]) -> Runs:
    """Return which pods belong to the present run, and how many runs there were before it."""
    meta = None if train.trainjob is None else train.trainjob.meta
    earlier = () if meta is None else earlier_runs(meta.annotations.get(EARLIER))
    now = _present(train, pods)
    present = tuple(p for p in pods if run_of(p) == now and _of_this_life(p, train.trainjob))
    here = {p.meta.uid for p in present}
    known = {run_of(p) for p in pods} | {(one.jobset, one.attempt) for one in earlier}
    if now is None:
        count = _count(known)
    else:
        count = _count(run for run in known if run[0] != now[0]) + now[1]
    ours = max((restarts_in(p.meta) for p in pods), default=0) if meta is None else 0
    return Runs(
        present=present,
        before=tuple(p for p in pods if p.meta.uid not in here),
        restarts=count + (ours if meta is None else restarts_in(meta)),
        earlier=earlier,
    )


def _present(train: Train, pods: Sequence[Pod]) -> Run | None:
    """Return the run that counts: its JobSet's, else that of the newest pods where they decide."""
    jobset = train.jobset
    if jobset is not None:
        return jobset.meta.uid, jobset.restarts
    live = [p for p in pods if not p.over]
    over = train.trainjob is None or train.trainjob.finished or train.trainjob.meta.deleted
    if not live and not over:
        return None
    newest = max(live or pods, key=lambda p: _time(p.meta.created), default=None)
    return None if newest is None else run_of(newest)


def _of_this_life(pod: Pod, trainjob: TrainJob | None) -> bool:
    """Return whether a pod began after the TrainJob was last resumed, as far as that shows."""
    if trainjob is None:
        return True
    written, marked = trainjob.meta.annotations.get(RESTARTS), pod.meta.annotations.get(RESTARTS)
    if written is not None and marked is not None and written != marked:
        return False
    resumed, asked = trainjob.resumed, pod.meta.deletion_asked_at
    if resumed is None or asked is None or pod.meta.created is None:
        return True
    return not (asked <= resumed and pod.meta.created < resumed)


def _count(runs: Iterable[Run]) -> int:
    """Return how many runs there were, with those of a JobSet that left no pod behind."""
    last: dict[str, int] = {}
    for jobset, attempt in runs:
        last[jobset] = max(last.get(jobset, 0), attempt)
    return sum(attempt + 1 for attempt in last.values())


def _time(when: datetime | None) -> float:
    return when.timestamp() if when else 0.0
