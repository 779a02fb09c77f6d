"""Views of a TrainJob and of the JobSet that Kubeflow's Trainer makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from dispatch.schedulers.eks.objects import (
    Condition,
    JsonMap,
    Meta,
    mapping,
    number,
    read_conditions,
    read_meta,
    sequence,
    text,
)

TRAINER_GROUP = "trainer.kubeflow.org"
JOBSET_GROUP = "jobset.x-k8s.io"
INITIALIZERS = ("dataset-initializer", "model-initializer")
"""The replicated jobs that run before the training; Trainer gives them these names."""


@dataclass(frozen=True, slots=True)
class TrainJob:
    """One TrainJob: one attempt's object.

    Attributes:
        meta: What it says about itself.
        suspended: Whether it is to run nothing.
        conditions: By type.
        runtime: The name of its runtime.
        patches: Its `runtimePatches`, as they are written.
        overrides: Its `podTemplateOverrides`, as they are written.
        ready: Whether Trainer counts a Job of it as ready.
    """

    meta: Meta
    suspended: bool
    conditions: Mapping[str, Condition]
    runtime: str
    patches: tuple[JsonMap, ...]
    overrides: tuple[JsonMap, ...]
    ready: bool = False

    def condition(self, kind: str) -> Condition | None:
        """Return a condition that holds."""
        found = self.conditions.get(kind)
        return found if found is not None and found.holds else None

    @property
    def finished(self) -> Condition | None:
        """The condition that says that it is over; Trainer may start it again all the same."""
        return self.condition("Failed") or self.condition("Complete")

    @property
    def resumed(self) -> datetime | None:
        """When it was last resumed, None where it never was."""
        found = self.conditions.get("Suspended")
        return None if found is None or found.holds else found.since


def read_trainjob(body: JsonMap) -> TrainJob:
    """Return a TrainJob."""
    spec = mapping(body.get("spec"), "spec")
    status = mapping(body.get("status"), "status")
    reference = mapping(spec.get("runtimeRef"), "spec.runtimeRef")
    return TrainJob(
        meta=read_meta(body),
        suspended=spec.get("suspend") is True,
        conditions=read_conditions(status),
        runtime=text(reference.get("name"), "spec.runtimeRef.name"),
        patches=_maps(spec.get("runtimePatches"), "spec.runtimePatches"),
        overrides=_maps(spec.get("podTemplateOverrides"), "spec.podTemplateOverrides"),
        ready=_any_ready(status.get("jobsStatus"), "status.jobsStatus"),
    )


def _any_ready(value: object, field: str) -> bool:
    return any(number(one.get("ready"), f"{field}.ready") > 0 for one in _maps(value, field))


def _maps(value: object, field: str) -> tuple[JsonMap, ...]:
    return tuple(mapping(item, field) for item in sequence(value, field))


@dataclass(frozen=True, slots=True)
class Replicated:
    """One kind of Job in a JobSet: how many of them, and of how many ranks each."""

    name: str
    replicas: int
    ranks: int

    @property
    def total(self) -> int:
        """All ranks of it."""
        return self.replicas * self.ranks


@dataclass(frozen=True, slots=True)
class JobSet:
    """What Trainer makes of a TrainJob; it has its name, and may be made anew.

    Attributes:
        meta: What it says about itself.
        suspended: Whether it is to run nothing.
        conditions: By type.
        restarts: How often its controller has made all its Jobs anew.
        jobs: The kinds of Jobs in it.
        targets: The kinds whose success is its success; none means all.
        any_suffices: Whether one success is enough.
        ready: Whether its controller counts a Job of it as ready.
    """

    meta: Meta
    suspended: bool
    conditions: Mapping[str, Condition]
    restarts: int
    jobs: tuple[Replicated, ...]
    targets: tuple[str, ...]
    any_suffices: bool
    ready: bool = False

    def condition(self, kind: str) -> Condition | None:
        """Return a condition that holds."""
        found = self.conditions.get(kind)
        return found if found is not None and found.holds else None

    @property
    def finished(self) -> Condition | None:
        """The condition that says that it is over for good."""
        return self.condition("Failed") or self.condition("Completed")

    @property
    def total(self) -> int:
        """All ranks of it."""
        return sum(one.total for one in self.jobs)

    def counts(self, name: str) -> bool:
        """Return whether the success of a kind of Jobs is part of its own."""
        return not self.targets or name in self.targets

    @property
    def counted(self) -> int:
        """The ranks that have to succeed."""
        return sum(one.total for one in self.jobs if self.counts(one.name))


def read_jobset(body: JsonMap) -> JobSet:
    """Return a JobSet."""
    spec = mapping(body.get("spec"), "spec")
    status = mapping(body.get("status"), "status")
    success = mapping(spec.get("successPolicy"), "spec.successPolicy")
    targets = sequence(success.get("targetReplicatedJobs"), "targetReplicatedJobs")
    return JobSet(
        meta=read_meta(body),
        suspended=spec.get("suspend") is True,
        conditions=read_conditions(status),
        restarts=number(status.get("restarts"), "status.restarts"),
        jobs=tuple(
            _replicated(mapping(one, "replicatedJob"))
            for one in sequence(spec.get("replicatedJobs"), "spec.replicatedJobs")
        ),
        targets=tuple(text(one, "targetReplicatedJobs") for one in targets),
        any_suffices=success.get("operator") == "Any",
        ready=_any_ready(status.get("replicatedJobsStatus"), "status.replicatedJobsStatus"),
    )


def _replicated(body: JsonMap) -> Replicated:
    template = mapping(body.get("template"), "replicatedJob.template")
    spec = mapping(template.get("spec"), "replicatedJob.template.spec")
    replicas = body.get("replicas")
    return Replicated(
        name=text(body.get("name"), "replicatedJob.name"),
        replicas=1 if replicas is None else number(replicas, "replicatedJob.replicas"),
        ranks=number(spec.get("completions"), "completions")
        or number(spec.get("parallelism"), "parallelism")
        or 1,
    )
