"""What is changed of an attempt's object, decided from the very version that was read; pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dispatch.errors import CallRefused
from dispatch.schedulers.eks.marks import OUR_SUSPENSION, STOPPED_AT
from dispatch.schedulers.eks.objects import Job
from dispatch.schedulers.eks.ranks import restarts_in
from dispatch.schedulers.eks.shapes import Shape, Top
from dispatch.schedulers.eks.train_manifest import marked_pods
from dispatch.schedulers.eks.train_objects import TrainJob
from dispatch.schedulers.scheduler import Tag, Target

REQUEUE = "requeue"

Patch = dict[str, Any]
Change = Callable[[Top], Patch | None]


@dataclass(frozen=True, slots=True)
class Before:
    """What was seen of an object before its run is to be ended.

    Attributes:
        ours: How often Dispatch has started it again.
        restarts: How often it was started again all together.
        runs: Whether anything of it runs.
        part_done: Whether some of its ranks have ended already.
    """

    ours: int
    restarts: int
    runs: bool = False
    part_done: bool = False


def guarded(patch: Patch, top: Top) -> Patch:
    """Return a patch that only takes on the version that it was decided on."""
    metadata = {**patch.get("metadata", {})}
    metadata |= {"resourceVersion": top.meta.version, "uid": top.meta.uid}
    return {**patch, "metadata": metadata}


def deletion(propagation: str, uid: str) -> Patch:
    """Return the options of a deletion, guarded by the uid."""
    return {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": propagation,
        "preconditions": {"uid": uid},
    }


def must_be_live(top: Top, tag: Tag) -> None:
    """Refuse to change what has ended, or is being deleted."""
    if top.finished is not None or top.meta.deleted is not None:
        raise CallRefused(f"attempt {tag.n}.{tag.a} has ended", job=tag.job)
    if STOPPED_AT in top.meta.annotations:
        raise CallRefused(f"attempt {tag.n}.{tag.a} is being stopped", job=tag.job)


def must_be_whole(top: Top, tag: Tag, *, part_done: bool) -> None:
    """Refuse what can't run again as a whole: Kubernetes keeps what some ranks have done."""
    must_be_live(top, tag)
    if part_done or (isinstance(top, Job) and (top.succeeded or top.failed)):
        said = f"attempt {tag.n}.{tag.a}: some of its ranks have ended already"
        raise CallRefused(said, job=tag.job)


def suspend(why: str) -> Patch:
    """Return the patch that suspends, and says why Dispatch does."""
    return {"metadata": {"annotations": {OUR_SUSPENSION: why}}, "spec": {"suspend": True}}


def name_on_pods(tag: Tag) -> Change:
    """Return the change that writes a suspended TrainJob's uid on its future pods."""

    def change(top: Top) -> Patch | None:
        if not isinstance(top, TrainJob) or not top.suspended:
            return None
        return {"spec": marked_pods(top, tag, None)}

    return change


def hold(tag: Tag, *, part_done: bool) -> Change:
    """Return the change that holds."""

    def change(top: Top) -> Patch | None:
        must_be_whole(top, tag, part_done=part_done)
        return None if top.suspended else suspend("hold")

    return change


def release(shape: Shape, tag: Tag, restarts: int) -> Change:
    """Return the change that lifts our suspension; a requeue that was cut short is counted."""

    def change(top: Top) -> Patch | None:
        must_be_live(top, tag)
        if not top.suspended:
            return None
        why = top.meta.annotations.get(OUR_SUSPENSION)
        if why is None:
            said = f"attempt {tag.n}.{tag.a} was suspended by somebody else"
            raise CallRefused(said, job=tag.job)
        counted = (restarts_in(top.meta) + 1, restarts + 1)
        return shape.resume(top, tag, counted if why == REQUEUE else None)

    return change


def suspend_for_requeue(target: Target, before: Before) -> Change:
    """Return the change that takes the first step of a requeue."""
    tag = target.tag

    def change(top: Top) -> Patch | None:
        must_be_whole(top, tag, part_done=before.part_done)
        of_job = isinstance(top, Job)
        seen = restarts_in(top.meta) if of_job else before.restarts
        if seen != target.restarts:
            said = f"it was started again {seen} times, not {target.restarts}"
            raise CallRefused(said, job=tag.job)
        active = bool(top.active) if isinstance(top, Job) else before.runs
        if top.suspended or not active:
            raise CallRefused(f"attempt {tag.n}.{tag.a} isn't running", job=tag.job)
        return suspend(REQUEUE)

    return change


def resume_counted(shape: Shape, target: Target, ours: int) -> Change:
    """Return the change that takes the second step: resume, with one more restart counted."""

    def change(top: Top) -> Patch | None:
        still = top.meta.annotations.get(OUR_SUSPENSION) == REQUEUE
        if not top.suspended or not still or restarts_in(top.meta) != ours:
            raise CallRefused("somebody else changed it meanwhile", job=target.tag.job)
        return shape.resume(top, target.tag, (ours + 1, target.restarts + 1))

    return change
