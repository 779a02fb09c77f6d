"""The marks that Dispatch leaves on its objects, and the identity of an object.

Labels select, annotations hold what a label can't. They are read back before anything is done to
an object (protocol §7); whatever doesn't carry all of a tag isn't ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from dispatch.record.model import Count, Instant, Model, Name, Text
from dispatch.record.names import Cause, ObjectState
from dispatch.schedulers.eks.objects import Meta
from dispatch.schedulers.scheduler import Tag

PREFIX = "dispatch/"
JOB = PREFIX + "job"
SUBMISSION = PREFIX + "submission"
ATTEMPT = PREFIX + "attempt"
GENERATION = PREFIX + "generation"
SPEC_DIGEST = PREFIX + "spec-digest"
OWNER = PREFIX + "owner"
USER_LABELS = PREFIX + "labels"

RESTARTS = PREFIX + "restarts"
"""On the Job: how often it was started again in place; on a pod: in which of these runs it is."""
EPOCH = PREFIX + "epoch"
"""On a pod: the fencing token that the process reads (protocol §11)."""
RANKS = PREFIX + "ranks"
"""On a pod: how many ranks its run has."""
OUR_SUSPENSION = PREFIX + "suspended-for"
"""On a suspended Job: why Dispatch suspended it; without it, somebody else did."""
STOPPED_AT = PREFIX + "stopped-at"
"""On what Dispatch is about to delete: since when, so that its end isn't put down to others."""
RECORDED = PREFIX + "recorded"
"""A label on what is kept for its output alone: a look leaves it out."""
KEPT_END = PREFIX + "end"
"""On an ended Job: how it ended, written once that is in the record and before its pods may go."""

OBJECT = PREFIX + "object"
"""On the pods of a TrainJob: its uid, which nothing else on them tells once it is gone."""
EARLIER = PREFIX + "earlier-runs"
"""On a TrainJob: how the runs ended that its JobSets have had before this one."""

EVIDENCE = PREFIX + "evidence"
"""The finalizer that keeps a pod until its end is in the record."""

FIELD_MANAGER = "dispatch"

JOBS, TRAINJOBS = "jobs", "trainjobs"
"""The kinds that an attempt's object can be of, as the API server's paths call them."""

ATTEMPT_NAME = re.compile(r"d-(?P<job>[a-z][a-z0-9]{7,40})-(?P<n>\d+)-(?P<a>\d+)\Z")
"""The names that `object_name` makes."""
_ORDINAL = re.compile(r"[1-9]\d{0,5}\Z")
_COUNT = re.compile(r"(0|[1-9]\d{0,5})\Z")
_JOB_ID = re.compile(r"[a-z][a-z0-9]{7,40}\Z")
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")


def object_name(tag: Tag) -> str:
    """Return the one name that an attempt's Job and Service can have; at most 57 characters."""
    return f"d-{tag.job}-{tag.n}-{tag.a}"


@dataclass(frozen=True, slots=True)
class Identity:
    """What a ref is made of: unique for ever by its uid."""

    namespace: str
    name: str
    uid: str
    plural: str = JOBS

    @property
    def ref(self) -> str:
        """The ref as the record holds it; a Job's names no kind."""
        kind = () if self.plural == JOBS else (self.plural,)
        return "/".join((self.namespace, *kind, self.name, self.uid))


def read_ref(ref: str) -> Identity | None:
    """Return the parts of a ref, None where this adapter can't have written it."""
    parts = ref.split("/")
    if not all(parts):
        return None
    match parts:
        case [namespace, name, uid]:
            return Identity(namespace, name, uid)
        case [namespace, plural, name, uid] if plural == TRAINJOBS:
            return Identity(namespace, name, uid, plural)
        case _:
            return None


def tag_labels(tag: Tag) -> dict[str, str]:
    """Return the labels that select an attempt's objects."""
    return {
        JOB: tag.job,
        SUBMISSION: str(tag.n),
        ATTEMPT: str(tag.a),
        GENERATION: str(tag.generation),
    }


LIVE_SELECTOR = f"{JOB},!{RECORDED}"
"""What a look shows: every object of Dispatch whose end isn't in the record yet."""


def tag_selector(tag: Tag) -> str:
    """Return the label selector of one attempt's objects."""
    return f"{JOB}={tag.job},{SUBMISSION}={tag.n},{ATTEMPT}={tag.a}"


def read_tag(meta: Meta) -> Tag | None:
    """Return the tag that an object carries, None where any part of it can't be read."""
    labels = meta.labels
    job, n, a = labels.get(JOB, ""), labels.get(SUBMISSION, ""), labels.get(ATTEMPT, "")
    generation = labels.get(GENERATION, "")
    digest = meta.annotations.get(SPEC_DIGEST, "")
    readable = (
        _JOB_ID.match(job)
        and _ORDINAL.match(n)
        and _ORDINAL.match(a)
        and _COUNT.match(generation)
        and _DIGEST.match(digest)
    )
    if not readable:
        return None
    return Tag(job=job, n=int(n), a=int(a), spec_digest=digest, generation=int(generation))


class KeptEnd(Model):
    """How an object ended, kept on the object itself once the record has it."""

    state: ObjectState
    restarts: Count
    cause: Cause | None = None
    exit_code: int | None = None
    signal: int | None = None
    nodes: Annotated[tuple[Name, ...], Field(max_length=64)] = ()
    started_at: Instant | None = None
    ended_at: Instant | None = None
    lost_at: Instant | None = None
    reason: Text = ""


class EarlierRun(Model):
    """How one run of a TrainJob ended, kept on it once the record knows of the next.

    Attributes:
        jobset: The uid of the JobSet that it was a run of.
        attempt: Which of that JobSet's runs.
        said: How each of its ranks ended.
    """

    jobset: Name
    attempt: Count
    said: Text = ""


_EARLIER: TypeAdapter[tuple[EarlierRun, ...]] = TypeAdapter(tuple[EarlierRun, ...])


def earlier_runs(written: str | None) -> tuple[EarlierRun, ...]:
    """Return the runs that an annotation tells of; none where it can't be read."""
    if not written:
        return ()
    try:
        return _EARLIER.validate_json(written)
    except ValidationError:
        return ()


def kept_end(written: str | None) -> KeptEnd | None:
    """Return the end that an annotation holds, None where it holds none that can be read."""
    if not written:
        return None
    try:
        return KeptEnd.model_validate_json(written)
    except ValidationError:
        return None


def counted(restarts: int, tag: Tag) -> dict[str, str]:
    """Return what a pod of this run carries, so that it is told from the runs before."""
    return {RESTARTS: str(restarts), EPOCH: str(tag.epoch + restarts)}


def canonical(value: object) -> str:
    """Return the one written form of a JSON value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def timestamp(value: datetime) -> str:
    """Return a time as Kubernetes writes it."""
    return value.strftime("%Y-%m-%dT%H:%M:%SZ")


def unlabelled(labels: Mapping[str, str]) -> dict[str, str]:
    """Return labels without those that are Dispatch's own."""
    return {key: value for key, value in labels.items() if not key.startswith(PREFIX)}
