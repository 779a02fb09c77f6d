"""A TrainJob or a JobSet as a document: read by what stands in it, without asking anybody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dispatch.record.names import ObjectState
from dispatch.schedulers.eks.around import Workload, read_workload
from dispatch.schedulers.eks.judge import read_object
from dispatch.schedulers.eks.objects import JsonMap, Pod, read_job, text
from dispatch.schedulers.eks.ranks import Reading
from dispatch.schedulers.eks.runs import Train
from dispatch.schedulers.eks.train_objects import (
    JobSet,
    TrainJob,
    read_jobset,
    read_trainjob,
)
from dispatch.schedulers.eks.verdict import Evidence


def train_evidence(made: Sequence[JsonMap], pods: Sequence[Pod] | None) -> Evidence:
    """Return what documents show of one TrainJob; a JobSet without one stands for it."""
    trainjobs, jobsets, children = [], [], []
    workload: Workload | None = None
    for body in made:
        kind = text(body.get("kind"), "kind")
        spec = body.get("spec")
        inner = spec if isinstance(spec, dict) else {}
        if kind == "TrainJob" or "runtimeRef" in inner:
            trainjobs.append(read_trainjob(body))
        elif kind == "JobSet" or "replicatedJobs" in inner:
            jobsets.append(read_jobset(body))
        elif kind == "Workload":
            workload = read_workload(body)
        else:
            children.append(read_job(body))
    top = trainjobs[0] if trainjobs else _as_trainjob(jobsets[0])
    train = Train(top, tuple(jobsets), tuple(children))
    return Evidence(job=None, pods=pods, workload=workload, train=train)


def _as_trainjob(jobset: JobSet) -> TrainJob:
    return TrainJob(
        meta=jobset.meta,
        suspended=jobset.suspended,
        conditions={},
        runtime="",
        patches=(),
        overrides=(),
        ready=jobset.ready,
    )


def train_name(evidence: Evidence) -> str:
    """Return what it is, and its name; empty where it has none."""
    train = evidence.train
    if train is None or evidence.top is None or not evidence.top.name:
        return ""
    alone = any(one.meta.uid == evidence.top.uid for one in train.jobsets)
    return f"{'JobSet' if alone else 'TrainJob'} {evidence.top.name}"


def read_train_document(evidence: Evidence) -> Reading:
    """Return what the documents show; without its pods it runs if its controllers count some."""
    reading = read_object(evidence)
    train = evidence.train
    ready = train is not None and train.trainjob is not None and train.trainjob.ready
    waits = reading.state is ObjectState.PENDING and not reading.held
    if evidence.pods is None and ready and waits:
        return replace(reading, state=ObjectState.RUNNING, proven=False)
    return reading
