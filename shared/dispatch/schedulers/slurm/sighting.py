"""Whose a row is, and the sighting made of it; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pydantic import ValidationError

from dispatch.record.evidence import MAX_NODES, Doubt, Sighting
from dispatch.record.names import Cause, ObjectState
from dispatch.schedulers.slurm.response import Answer, digest
from dispatch.schedulers.slurm.rows import Row
from dispatch.schedulers.slurm.settings import SlurmCluster
from dispatch.schedulers.slurm.states import Meaning
from dispatch.schedulers.slurm.tags import Identity, Mark, marked, named_job


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a whole list says.

    Attributes:
        ours: The rows that carry a tag of ours, with it.
        by_job: The sightings made of them, by the job in their tag.
        doubts: Why nothing may be concluded from what isn't in the list.
        of_jobs: The same for single jobs.
    """

    ours: tuple[tuple[Row, Mark], ...]
    by_job: Mapping[str, tuple[Sighting, ...]]
    doubts: tuple[str, ...]
    of_jobs: Mapping[str, tuple[Doubt, ...]]


def evidence(cluster: SlurmCluster, answer: Answer) -> Evidence:
    """Return our objects in a list, and every reason to doubt that it is whole."""
    ours: list[tuple[Row, Mark]] = []
    doubts: list[str] = []
    of_jobs: dict[str, list[Doubt]] = {}
    for bad in answer.malformed:
        why = f"job {bad.job_id or '?'} can't be read: {bad.reason}"
        if job := named_job(bad.name):
            _doubt(of_jobs, job, "unreadable", f"{cluster.name}:{bad.job_id or '?'}", why)
        elif not bad.name:
            doubts.append(why)
    for row in answer.rows:
        if row.federated:
            doubts.append(f"job {row.job_id} belongs to a federation: the list may lack others")
        mark = marked(row.comment, row.extra)
        if mark is not None:
            if is_ours(cluster, row, mark):
                ours.append((row, mark))
                if row.meaning.alarm is not None:
                    why = f"job {row.job_id}: {row.meaning.alarm}"
                    _doubt(of_jobs, mark.tag.job, "strange_state", _ref(row, mark), why)
        elif (job := named_job(row.name)) and row.user in cluster.users and not row.of_many:
            why = f"job {row.job_id} has its name and no readable tag: was it changed?"
            _doubt(of_jobs, job, "tag_missing", f"{cluster.name}:{row.job_id}", why)
    if cluster.run_as and not cluster.sees_all_jobs:
        doubts.append(f"{cluster.user} isn't shown the jobs of all users (sees_all_jobs)")
    by_job = _by_job(ours, of_jobs)
    told = {job: tuple(these) for job, these in of_jobs.items()}
    return Evidence(tuple(ours), by_job, tuple(dict.fromkeys(doubts))[:20], told)


def _doubt(of_jobs: dict[str, list[Doubt]], job: str, code: str, about: str, why: str) -> None:
    of_jobs.setdefault(job, []).append(Doubt(f"{code}/{about}", code, why))


def _ref(row: Row, mark: Mark) -> str:
    return str(Identity(mark.cluster, row.job_id, mark.at_ms))


def _by_job(
    ours: list[tuple[Row, Mark]], of_jobs: dict[str, list[Doubt]]
) -> dict[str, tuple[Sighting, ...]]:
    """Return the sightings by job; what no record can hold goes to `of_jobs`."""
    by_job: dict[str, tuple[Sighting, ...]] = {}
    for row, mark in ours:
        job = mark.tag.job
        try:
            by_job[job] = (*by_job.get(job, ()), sighted(row, mark))
        except ValidationError as error:
            field = ".".join(map(str, error.errors()[0]["loc"]))
            why = f"job {row.job_id} can't be recorded: field {field!r}"
            _doubt(of_jobs, job, "unreadable", _ref(row, mark), why)
    return by_job


def is_ours(cluster: SlurmCluster, row: Row, mark: Mark) -> bool:
    """Return whether a tagged row is Dispatch's on this cluster, and not a copy of its tag."""
    return mark.cluster == cluster.name and row.user in cluster.users and not row.of_many


def judged(row: Row, mark: Mark | None) -> Meaning:
    """Return what a row means, knowing whether Dispatch asked for its end.

    slurmctld doesn't tell who cancelled. A Stop marks the job first, so a cancel without that
    mark is somebody else's; accounting names the other user even where it keeps no comments.
    """
    meaning = row.meaning
    if mark is None or meaning.cause not in (Cause.STOPPED, Cause.STOPPED_OUTSIDE):
        return meaning
    cause = Cause.STOPPED if mark.stopping else Cause.STOPPED_OUTSIDE
    if meaning.cause is Cause.STOPPED and marked(row.comment) is None:
        # The comment, where the mark would stand, isn't kept in this book or was changed.
        cause = Cause.STOPPED
    return replace(meaning, cause=cause)


def sighted(row: Row, mark: Mark) -> Sighting:
    """Return the sighting of a row that is ours."""
    meaning = judged(row, mark)
    nodes = tuple(node[:256] for node in row.nodes[:MAX_NODES])
    reason = row.reason
    if row.node_count > len(nodes) > 0:
        reason = f"{reason}; on {row.node_count} nodes"
    return Sighting(
        ref=_ref(row, mark),
        n=mark.tag.n,
        a=mark.tag.a,
        spec_digest=mark.tag.spec_digest,
        generation=mark.tag.generation,
        state=meaning.state,
        cause=meaning.cause,
        restarts=row.restarts,
        held=meaning.held,
        holder=meaning.holder,
        exit_code=meaning.exit_code,
        signal=meaning.signal,
        nodes=nodes if meaning.state is not ObjectState.PENDING else (),
        started_at=row.started_at,
        ended_at=row.ended_at,
        lost_at=row.ended_at if meaning.lost else None,
        reason=reason[:4096] or None,
        source=row.source,
        digest=digest(row.raw) if row.raw is not None else None,
    )
