"""The two shapes that an attempt's object can have here, and all in which they differ.

Everything else asks the shape: where such objects live, how one is read, made and resumed, and
how one may be deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from dispatch.record.header import Spec
from dispatch.schedulers.eks.client import path
from dispatch.schedulers.eks.manifest import Manifest, job_manifest, needs_service
from dispatch.schedulers.eks.marks import (
    JOBS,
    OUR_SUSPENSION,
    RESTARTS,
    TRAINJOBS,
    Identity,
    counted,
)
from dispatch.schedulers.eks.objects import MAIN, TRAINER, Job, JsonMap, read_job
from dispatch.schedulers.eks.settings import EksSettings, Team
from dispatch.schedulers.eks.train_manifest import (
    LONGEST_POD_NAME,
    longest_pod_name,
    resumed,
    trainjob_manifest,
)
from dispatch.schedulers.eks.train_objects import TrainJob, read_trainjob
from dispatch.schedulers.scheduler import StartOrder, Tag

Top = Job | TrainJob
"""An attempt's object, of either shape."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One shape.

    Attributes:
        plural: How such objects are called in a path.
        kind: How one of them is called.
        group: Their API group.
        version: Of that API.
        propagation: How one is deleted with all that was made of it. A Job waits in the foreground
            until its pods have ended. Trainer makes a JobSet anew for as long as its TrainJob is
            there, so a deletion in the foreground may never end.
        container: The container that runs the process.
        read: Reads one.
        manifest: Makes one, suspended.
        resume: Makes the patch that resumes one; the numbers are how often Dispatch started it
            again, and how often all together.
        names_ranks: Whether its ranks need a Service of ours to find each other.
        refuses: What of a spec would make names that a cluster refuses, None where nothing.
    """

    plural: str
    kind: str
    group: str
    version: str
    propagation: Literal["Foreground", "Background"]
    container: str
    read: Callable[[JsonMap], Top]
    manifest: Callable[[StartOrder, Team, EksSettings], Manifest]
    resume: Callable[[Top, Tag, tuple[int, int] | None], Manifest]
    names_ranks: Callable[[Spec], bool]
    refuses: Callable[[Tag, Spec], str | None]

    def where(self, namespace: str, *name: str) -> str:
        """Return the path of a namespace's objects of this shape, or of one."""
        return path("apis", self.group, self.version, "namespaces", namespace, self.plural, *name)


def _resume_job(top: Top, tag: Tag, run: tuple[int, int] | None) -> Manifest:
    del top
    annotations: dict[str, str | None] = {OUR_SUSPENSION: None}
    if run is None:
        return {"metadata": {"annotations": annotations}, "spec": {"suspend": False}}
    return {
        "metadata": {"annotations": {**annotations, RESTARTS: str(run[0])}},
        "spec": {
            "suspend": False,
            "template": {"metadata": {"annotations": counted(run[1], tag)}},
        },
    }


def _resume_trainjob(top: Top, tag: Tag, run: tuple[int, int] | None) -> Manifest:
    if not isinstance(top, TrainJob):
        raise TypeError(f"{top.meta.name} is no TrainJob")
    return resumed(top, tag, run)


def _pod_names(tag: Tag, spec: Spec) -> str | None:
    longest = longest_pod_name(tag, spec)
    if len(longest) <= LONGEST_POD_NAME:
        return None
    return f"field 'eks.runtime.jobs': a pod would be called {longest}, which is too long"


JOB = Shape(
    plural=JOBS,
    kind="Job",
    group="batch",
    version="v1",
    propagation="Foreground",
    container=MAIN,
    read=read_job,
    manifest=job_manifest,
    resume=_resume_job,
    names_ranks=needs_service,
    refuses=lambda tag, spec: None,
)
TRAINJOB = Shape(
    plural=TRAINJOBS,
    kind="TrainJob",
    group="trainer.kubeflow.org",
    version="v1alpha1",
    propagation="Background",
    container=TRAINER,
    read=read_trainjob,
    manifest=trainjob_manifest,
    resume=_resume_trainjob,
    names_ranks=lambda spec: False,
    refuses=_pod_names,
)


def shape_of(spec: Spec) -> Shape:
    """Return the shape that a spec asks for."""
    return TRAINJOB if spec.eks is not None and spec.eks.kind == "trainjob" else JOB


def shape_at(identity: Identity) -> Shape:
    """Return the shape of a recorded object."""
    return TRAINJOB if identity.plural == TRAINJOBS else JOB
