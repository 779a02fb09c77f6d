"""What travels on the queue of the work. Pure.

Correctness never rests on it: a message that is lost, doubled or late costs a fold at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Protocol

from pydantic import Field, ValidationError

from dispatch.errors import InvalidRequest, RecordRefused
from dispatch.record.codec import encode, parse_strict, refusal
from dispatch.record.model import JobId, Model, Name

MAX_JOBS = 100
"""Jobs that one message may name."""


class Work(Model):
    """One thing to look after: a cluster's shard, or some of its jobs.

    Attributes:
        cluster: The cluster's configured name.
        jobs: Only these, whether they seem due or not; None for all that are due.
        shard: Which part of the cluster's open jobs, counted from 0.
        shards: How many parts.
    """

    cluster: Name
    jobs: Annotated[tuple[JobId, ...], Field(min_length=1, max_length=MAX_JOBS)] | None = None
    shard: Annotated[int, Field(ge=0, le=15)] = 0
    shards: Annotated[int, Field(ge=1, le=16)] = 1


class WorkQueue(Protocol):
    """Takes messages for the worker."""

    def send(self, messages: Sequence[Work]) -> None:
        """Hand over messages; each is delivered at least once, in any order.

        Raises:
            TryLater: Some, or all, weren't taken.
        """
        ...


def work_text(work: Work) -> str:
    """Return a message as it travels."""
    return encode(work)


def parse_work(text: str) -> Work:
    """Return the message of a text.

    Raises:
        InvalidRequest: It isn't one; names the field and the reason.
    """
    try:
        parse_strict(text)
        return Work.model_validate_json(text)
    except ValidationError as error:
        refused = refusal(error)
    except RecordRefused as error:
        refused = error
    raise InvalidRequest(f"work message: {refused.reason}", field=refused.field)


def merged(jobs: Iterable[tuple[str, str]]) -> list[Work]:
    """Return messages that name each of these (cluster, job) pairs once."""
    by_cluster: dict[str, dict[str, None]] = {}
    for cluster, job in jobs:
        by_cluster.setdefault(cluster, {})[job] = None
    return [
        Work(cluster=cluster, jobs=tuple(names)[start : start + MAX_JOBS])
        for cluster, names in by_cluster.items()
        for start in range(0, len(names), MAX_JOBS)
    ]
