"""Evidence: what a scheduler showed, and how far an answer may be trusted.

A `Sighting` is one object as one look saw it. A `Found` is a whole cluster's answer; a
`Discovery` is the part of it that concerns one job. Absence may be concluded only from a
complete one that began late enough (protocol §1.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from dispatch.record.model import Count, Digest, Instant, Model, Name, Ordinal, Ref, Text
from dispatch.record.names import Cause, ObjectState

MAX_NODES = 64
"""Nodes kept by name in one sighting; a longer list is cut and its count kept in `reason`."""


class Sighting(Model):
    """One scheduler object as one look saw it.

    Attributes:
        ref: The object's identity, unique for ever.
        n: The submission in its tag.
        a: The attempt in its tag.
        spec_digest: The spec's digest in its tag.
        generation: The lineage's generation in its tag.
        state: What it is doing.
        cause: Why it ended; or, while pending, a reason that doesn't go away by itself.
        restarts: How often the scheduler says it was started again.
        held: Whether the scheduler holds it back from running.
        holder: Who holds it, where the adapter knows that it isn't Dispatch.
        exit_code: The process's exit code, where known.
        signal: The signal that ended it, where known.
        nodes: Where it runs or ran, at most `MAX_NODES` names.
        started_at: When this run started, by the scheduler's clock.
        ended_at: When this run ended, by the scheduler's clock.
        lost_at: When its node was lost, by the scheduler's clock; the process may live on.
        reason: The scheduler's own words, for people.
        source: Which of the scheduler's books it was read from.
        digest: A digest of the raw evidence; never news by itself.
    """

    ref: Ref
    n: Ordinal
    a: Ordinal
    spec_digest: Digest
    generation: Count
    state: ObjectState
    cause: Cause | None = None
    restarts: Count = 0
    held: bool = False
    holder: Name | None = None
    exit_code: Annotated[int, Field(ge=-(2**31), lt=2**32)] | None = None
    signal: Annotated[int, Field(ge=0, lt=256)] | None = None
    nodes: Annotated[tuple[Name, ...], Field(max_length=MAX_NODES)] = ()
    started_at: Instant | None = None
    ended_at: Instant | None = None
    lost_at: Instant | None = None
    reason: Text | None = None
    source: Name
    digest: Annotated[str, Field(max_length=64)] | None = None

    @model_validator(mode="after")
    def _an_end_has_a_cause(self) -> Self:
        if self.state in (ObjectState.FAILED, ObjectState.GONE) and self.cause is None:
            raise PydanticCustomError(
                "cause_missing", "what failed or is gone has a cause", {"field": "cause"}
            )
        if self.state is ObjectState.SUCCEEDED and self.cause is not None:
            raise PydanticCustomError(
                "cause_misplaced", "an object that succeeded has no cause", {"field": "cause"}
            )
        return self


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why nothing may be concluded about one job from an answer that is whole for all others.

    Attributes:
        key: What it is about, the same at every look; a person is told once of each.
        code: `strange_state`, `unreadable` or `tag_missing`.
        detail: For people.
    """

    key: str
    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class Discovery:
    """What one look at a cluster says about one job.

    Attributes:
        taken_at: The clock read before the first request; negative evidence is judged by it.
        seen_at: The clock read after the last reply; windows that start at a sight use it.
        complete: Whether the answer is whole, so that what isn't in it wasn't there.
        sightings: The objects that carry this job's tag.
        looked_up: Refs and attempt tags (`2.1`) that accounting was asked about and doesn't know.
        error: Why the answer isn't complete, for people.
        doubts: Why it isn't complete for this job alone.
    """

    taken_at: datetime
    seen_at: datetime
    complete: bool
    sightings: tuple[Sighting, ...] = ()
    looked_up: frozenset[str] = frozenset()
    error: str | None = None
    doubts: tuple[Doubt, ...] = ()

    def with_lookup(self, sightings: tuple[Sighting, ...], unknown: frozenset[str]) -> Discovery:
        """Return this discovery with what accounting answered added to it."""
        known = {s.ref for s in self.sightings}
        added = tuple(s for s in sightings if s.ref not in known)
        return replace(self, sightings=self.sightings + added, looked_up=self.looked_up | unknown)


@dataclass(frozen=True, slots=True)
class Found:
    """A whole cluster's answer to one evidence Find, by job.

    Attributes:
        cluster: The cluster's configured name.
        identity: What the cluster says it is; another identity behind the name is a mass loss.
        taken_at: The clock read before the first request.
        seen_at: The clock read after the last reply.
        complete: Whether every page came and nothing failed.
        by_job: Sightings by the job in their tag.
        error: Why it isn't complete, for people.
        doubts: Jobs for which it isn't complete although it is for all others, each with the
            reasons: an object of theirs couldn't be read, say.
    """

    cluster: str
    identity: str
    taken_at: datetime
    seen_at: datetime
    complete: bool
    by_job: Mapping[str, tuple[Sighting, ...]] = field(default_factory=dict)
    error: str | None = None
    doubts: Mapping[str, tuple[Doubt, ...]] = field(default_factory=dict)

    def discovery(self, job_id: str) -> Discovery:
        """Return the part of this answer that concerns one job."""
        doubts = self.doubts.get(job_id, ())
        return Discovery(
            taken_at=self.taken_at,
            seen_at=self.seen_at,
            complete=self.complete and not doubts,
            sightings=self.by_job.get(job_id, ()),
            error=self.error or "; ".join(one.detail for one in doubts) or None,
            doubts=doubts,
        )


@dataclass(frozen=True, slots=True)
class Glance:
    """A cheap look: a token for each live object, which changes when the object does.

    It is no negative evidence: a ref that isn't in it only tells that a Find is due.

    Attributes:
        cluster: The cluster's configured name.
        identity: What the cluster says it is.
        taken_at: The clock read before the first request.
        seen_at: The clock read after the last reply.
        tokens: A token by ref.
    """

    cluster: str
    identity: str
    taken_at: datetime
    seen_at: datetime
    tokens: Mapping[str, str]
