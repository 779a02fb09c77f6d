"""Many jobs at once: chosen by what they are, shown before anything is sent, and each told of.

    chosen = select(client, Choice(labels={"team": "vision"}, states={State.PENDING}))
    jobs = [job.job_id for job in chosen]
    for one in intend_each(client, jobs, IntentKind.CANCEL, id_="clean-1"):
        print(one.job, one.receipt or one.error)

The intents' ids follow from the one given and the job, so the whole may be sent again: what was
done already has no further effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime

from dispatch.api import ListedAnswer, ReceiptAnswer
from dispatch.client.calls import Client
from dispatch.core.project import State
from dispatch.errors import DispatchError, InvalidRequest, JobNotFound, JobTombstoned, RecordRefused
from dispatch.record.names import IntentKind
from dispatch.record.view import View

_LONGEST_ID = 80
"""Characters of a bulk's id: an intent's takes 128, and the job's own id follows."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which open jobs are meant; what isn't given is met by all, and all that is given must be met.

    Attributes:
        labels: Each with its value.
        cluster: Its configured name.
        states: What they are doing.
        owner: Who submitted them, as the listing shows it.
        name: Their name for people.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    cluster: str | None = None
    states: AbstractSet[State] = frozenset()
    owner: str | None = None
    name: str | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing is given, so that every open job would be meant."""
        return self == Choice()

    def meets(self, line: ListedAnswer) -> bool:
        """Return whether a job is meant; one whose record can't be read is never."""
        told = line.summary
        if told is None or told.refusal is not None:
            return False
        return (
            all(told.labels.get(name) == value for name, value in self.labels.items())
            and self.cluster in (None, line.cluster)
            and (not self.states or told.state in self.states)
            and self.owner in (None, told.created_by)
            and self.name in (None, told.name)
        )


def select(client: Client, choice: Choice, *, settled: bool = False) -> list[ListedAnswer]:
    """Return the jobs that are meant, oldest first; open ones, unless settled ones are asked for.

    Jobs that have their outcome and aren't settled are open too.
    """
    lines = client.jobs(settled=settled, cluster=choice.cluster, summary=True)
    return [line for line in lines if choice.meets(line)]


@dataclass(frozen=True, slots=True)
class Told:
    """What became of one job's intent.

    Attributes:
        job: Which job.
        intent_id: The intent's id.
        receipt: What it did; None where it wasn't answered.
        error: Why it wasn't answered.
    """

    job: str
    intent_id: str
    receipt: ReceiptAnswer | None = None
    error: DispatchError | None = None


def intend_each(
    client: Client,
    jobs: Sequence[str],
    kind: IntentKind,
    *,
    id_: str,
    reason: str | None = None,
) -> Iterator[Told]:
    """Send an intent to each job, and yield what became of it; one that fails stops no other.

    Args:
        client: Whom to ask.
        jobs: The jobs' ids.
        kind: One of the seven, except for abandon.
        id_: What the intents' ids are made of; the same again has no further effect.
        reason: Why, for the records.

    Raises:
        InvalidRequest: The id is too long, or the intent needs a target.
    """
    if len(id_) > _LONGEST_ID:
        raise InvalidRequest(f"at most {_LONGEST_ID} characters", field="id")
    if kind is IntentKind.ABANDON:
        raise InvalidRequest("abandon vouches for one object: name it, job by job", field="kind")
    for job in jobs:
        intent_id = f"{id_}.{job}"
        try:
            receipt = client.intend(job, kind, intent_id=intent_id, reason=reason)
        except DispatchError as error:
            yield Told(job, intent_id, error=error)
        else:
            yield Told(job, intent_id, receipt=receipt)


@dataclass(frozen=True, slots=True)
class Read:
    """A record that may concern a span of time.

    Attributes:
        job: Which job.
        view: The record; None where it can't be read any more.
        why: Why not.
    """

    job: str
    view: View | None
    why: str | None = None


def records_between(
    client: Client, begin: datetime, end: datetime, *, cluster: str | None = None
) -> Iterator[Read]:
    """Yield the records of the jobs that existed and weren't settled at some time of a span.

    Args:
        client: Whom to ask.
        begin: The span's first moment.
        end: The first moment behind it.
        cluster: Only this cluster's.
    """
    for line in client.jobs(cluster=cluster):
        if line.created_at >= end:
            continue
        if line.settled_at is not None and line.settled_at < begin:
            continue
        if line.tombstoned:
            yield Read(line.job_id, None, "its record was removed")
            continue
        try:
            yield Read(line.job_id, client.record(line.job_id))
        except (JobNotFound, JobTombstoned, RecordRefused) as error:
            yield Read(line.job_id, None, str(error))
