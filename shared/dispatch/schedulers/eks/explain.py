"""A scheduler's raw JSON, read back to a person: one entry for any document of an API server.

It judges with the very functions that supervision uses. A document shows less than a look at the
cluster does: a Job without its pods proves no success, and an event proves nothing by itself.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from dispatch.record.names import Cause, ObjectState
from dispatch.schedulers.eks.around import Event, read_event, read_node, read_workload
from dispatch.schedulers.eks.judge import read_object
from dispatch.schedulers.eks.marks import read_tag
from dispatch.schedulers.eks.objects import (
    Job,
    JsonMap,
    Meta,
    Pod,
    Unreadable,
    items,
    mapping,
    read_job,
    read_pod,
    sequence,
    text,
)
from dispatch.schedulers.eks.ranks import Reading, newest_ranks
from dispatch.schedulers.eks.response import AnswerClass, read_refusal
from dispatch.schedulers.eks.states import PodReading, Situation, read
from dispatch.schedulers.eks.told import Explanation, read_events
from dispatch.schedulers.eks.train_document import (
    read_train_document,
    train_evidence,
    train_name,
)
from dispatch.schedulers.eks.verdict import Evidence

__all__ = ["Explanation", "explain"]


def explain(document: object) -> Explanation:
    """Return what a raw answer of a Kubernetes API server is worth and shows. Never raises.

    Accepted: an object, a list, a `Status`, events, a watch stream, a capture `{job, pods,
    podEvents}`, or the text or bytes of one of them. What is none of these is no evidence.
    """
    try:
        return _explain(_decoded(document))
    except (Unreadable, RecursionError) as error:
        return Explanation(AnswerClass.NO_EVIDENCE, "unreadable", detail=str(error))


def _decoded(document: object) -> object:
    if not isinstance(document, str | bytes | bytearray):
        return document
    try:
        return json.loads(document)
    except ValueError as error:
        raise Unreadable("it is no JSON") from error


def _explain(document: object) -> Explanation:
    if isinstance(document, list):
        return _stream(document)
    if not isinstance(document, dict) or not document:
        return _nothing("it is no object of Kubernetes")
    if document.get("kind") == "Status":
        return _status(document)
    if "object" in document and isinstance(document.get("type"), str):
        return _stream([document])
    if any(isinstance(document.get(key), dict) for key in _CAPTURED):
        return _capture(document)
    if isinstance(document.get("pods"), list | dict):
        return _capture(document)
    if "items" in document:
        return _list([dict(item) for item in items(document)])
    return _object(document)


_CAPTURED = ("job", "trainJob", "trainjob", "jobSet", "jobset")
"""What a person may have saved beside its pods."""


def _nothing(why: str) -> Explanation:
    return Explanation(AnswerClass.NO_EVIDENCE, "no object of Kubernetes", detail=why)


def _kind(body: JsonMap) -> str:
    """Return an object's kind; inside a list it isn't written, so its shape tells."""
    written = text(body.get("kind"), "kind")
    if written:
        return written
    if "involvedObject" in body or "regarding" in body:
        return "Event"
    spec = body.get("spec")
    if isinstance(spec, dict) and isinstance(body.get("metadata"), dict):
        if "runtimeRef" in spec:
            return "TrainJob"
        if "replicatedJobs" in spec:
            return "JobSet"
        if "containers" in spec:
            return "Pod"
        if "template" in spec:
            return "Job"
    status = body.get("status")
    if isinstance(status, dict) and (
        "containerStatuses" in status or status.get("phase") in _POD_PHASES
    ):
        return "Pod"
    return ""


_POD_PHASES = ("Pending", "Running", "Succeeded", "Failed")


def _object(body: JsonMap) -> Explanation:
    match _kind(body):
        case "Job":
            return _job(Evidence(job=read_job(body), pods=None))
        case "Pod":
            return _pods([read_pod(body)], ())
        case "Event":
            return read_events([read_event(body)])
        case "Node":
            return _node(body)
        case "Workload":
            return _workload(body)
        case "JobSet" | "TrainJob":
            return _train(train_evidence([body], pods=None), ())
        case kind:
            return _nothing(f"{kind or 'it'} says nothing about a job")


def _list(found: list[JsonMap]) -> Explanation:
    kinds = {_kind(item) for item in found}
    if not found:
        return Explanation(
            AnswerClass.NOT_KNOWN, "an empty list", detail="nothing of the kind is there"
        )
    if kinds == {"Event"}:
        return read_events([read_event(item) for item in found])
    if kinds == {"Pod"}:
        return _pods([read_pod(item) for item in found], ())
    if len(found) == 1:
        return _object(found[0])
    if len(kinds) == 1:
        parts = tuple(_object(item) for item in found)
        worst = next((p for p in parts if p.cause), parts[0])
        return replace(worst, what=f"{len(parts)} of kind {kinds.pop()}", parts=parts)
    pods = [read_pod(i) for i in found if _kind(i) == "Pod"]
    jobs = [read_job(i) for i in found if _kind(i) == "Job"]
    events = [read_event(i) for i in found if _kind(i) == "Event"]
    nodes = {n.meta.name: n for n in (read_node(i) for i in found if _kind(i) == "Node")}
    if kinds & {"TrainJob", "JobSet"}:
        made = [i for i in found if _kind(i) in ("TrainJob", "JobSet", "Job", "Workload")]
        evidence = train_evidence(made, pods if "Pod" in kinds else None)
        return _train(replace(evidence, nodes=nodes, events=events), events)
    if len(jobs) == 1:
        return _job(Evidence(job=jobs[0], pods=pods, nodes=nodes, events=events))
    return _nothing("a list of several kinds about several jobs")


def _capture(body: JsonMap) -> Explanation:
    """Read one object with its pods and events as a person saved them together."""
    job = body.get("job")
    tops = [body[key] for key in ("trainJob", "trainjob", "jobSet", "jobset") if body.get(key)]
    raw_events = body.get("podEvents", body.get("events"))
    events = [read_event(mapping(e, "event")) for e in _each(raw_events, "events")]
    pods = (
        None
        if body.get("pods") is None
        else [read_pod(mapping(p, "pod")) for p in _each(body["pods"], "pods")]
    )
    nodes = {
        n.meta.name: n
        for n in (read_node(mapping(i, "node")) for i in _each(body.get("nodes"), "nodes"))
    }
    if tops:
        made = [*tops, *([job] if job else []), *_each(body.get("jobs"), "jobs")]
        made += [body["workload"]] if body.get("workload") else []
        evidence = train_evidence([mapping(one, "object") for one in made], pods)
        return _train(replace(evidence, nodes=nodes, events=events), events)
    if isinstance(job, dict) and job:
        read = Evidence(job=read_job(job), pods=pods, nodes=nodes, events=events)
        return _job(read)
    return _pods(pods or [], events)


def _each(value: object, field: str) -> Sequence[object]:
    if isinstance(value, dict):
        return sequence(value.get("items"), field)
    return sequence(value, field)


def _job(evidence: Evidence) -> Explanation:
    job = evidence.job
    if job is None:
        return _nothing("it has no Job")
    if not job.meta.name:
        return _nothing("the Job has no name")
    reading = read_object(evidence)
    parts = tuple(_pod(p, evidence.events) for p in evidence.pods or ())
    return _shown(f"Job {job.meta.name}{_tagged(job.meta)}", reading, parts)


def _train(evidence: Evidence, events: Sequence[Event]) -> Explanation:
    """Read a TrainJob, or a JobSet alone, with as much of what was made of it as there is."""
    name = train_name(evidence)
    if not name:
        return _nothing("it has no name")
    reading = read_train_document(evidence)
    parts = tuple(_pod(p, events) for p in evidence.pods or ())
    tagged = "" if evidence.top is None else _tagged(evidence.top)
    return _shown(f"{name}{tagged}", reading, parts)


def _shown(what: str, reading: Reading, parts: tuple[Explanation, ...]) -> Explanation:
    return Explanation(
        AnswerClass.SIGHTING,
        what,
        state=reading.state,
        cause=reading.cause,
        exit_code=reading.exit_code,
        signal=reading.signal,
        held=reading.held,
        restarts=reading.restarts,
        unproven=not reading.proven,
        nodes=reading.nodes,
        started_at=reading.started_at,
        ended_at=reading.ended_at,
        lost_at=reading.lost_at,
        detail=reading.reason,
        parts=parts,
    )


def _tagged(meta: Meta) -> str:
    tag = read_tag(meta)
    return "" if tag is None else f" of {tag.job}, attempt {tag.n}.{tag.a}"


def _pod(pod: Pod, events: Sequence[Event], *, alone: bool = False) -> Explanation:
    told = not alone and pod.meta.deleted is not None
    about = [e for e in events if e.uid == pod.meta.uid]
    seen: PodReading = read(Situation(pod=pod, events=about, told_to_go=told))
    return Explanation(
        AnswerClass.SIGHTING,
        f"pod {pod.meta.name}",
        state=seen.state,
        cause=seen.cause,
        exit_code=seen.exit_code,
        signal=seen.signal,
        nodes=(pod.node,) if pod.node else (),
        started_at=seen.started_at,
        ended_at=seen.ended_at,
        lost_at=seen.lost_at,
        detail=seen.reason,
    )


def _pods(pods: Sequence[Pod], events: Sequence[Event]) -> Explanation:
    """Read pods without their Job: several of one rank are its lives, the newest counts."""
    if not pods:
        return Explanation(AnswerClass.NOT_KNOWN, "no pods", detail="none of the kind is there")
    parts = tuple(_pod(p, events, alone=True) for p in pods)
    if len(parts) == 1:
        return parts[0]
    read_together = read_object(
        Evidence(job=None, pods=pods, events=events, deletion_explains=False)
    )
    shown = _shown(f"{len(pods)} pods, {len(newest_ranks(pods))} ranks", read_together, parts)
    if shown.cause is None and shown.state is not ObjectState.SUCCEEDED:
        ended = next((p for p in parts if p.state is ObjectState.FAILED), None)
        if ended is not None:
            detail = f"{ended.what} ended: {ended.detail}"
            return replace(shown, cause=ended.cause, exit_code=ended.exit_code, detail=detail)
    return shown


def _node(body: JsonMap) -> Explanation:
    node = read_node(body)
    lost = node.lost_at
    said = node.ready.message if node.ready is not None else "it has no Ready condition"
    return Explanation(
        AnswerClass.SIGHTING,
        f"node {node.meta.name}",
        cause=Cause.NODE_LOST if lost else None,
        nodes=(node.meta.name,),
        lost_at=lost,
        detail=f"{said} What runs on it may live on." if lost else said,
    )


def _workload(body: JsonMap) -> Explanation:
    workload = read_workload(body)
    evicted = workload.condition("Evicted")
    if evicted is not None:
        said = f"{evicted.reason}: {evicted.message}"
        return Explanation(
            AnswerClass.SIGHTING,
            f"workload {workload.meta.name}",
            state=ObjectState.ENDING,
            cause=Cause.PREEMPTED,
            detail=said,
        )
    admitted = workload.condition("Admitted")
    waits = workload.conditions.get("QuotaReserved")
    return Explanation(
        AnswerClass.SIGHTING,
        f"workload {workload.meta.name}",
        state=ObjectState.RUNNING if admitted else ObjectState.PENDING,
        cause=None if admitted or waits is None else Cause.NO_CAPACITY,
        detail="" if waits is None else waits.message,
    )


def _status(body: JsonMap) -> Explanation:
    if body.get("status") == "Success":
        details = mapping(body.get("details"), "details")
        return Explanation(
            AnswerClass.UNKNOWN,
            f"an accepted call on {details.get('kind', '?')} {details.get('name', '?')}",
            detail="the object may be gone while its processes live on: only its pods tell",
        )
    refusal = read_refusal(0, body)
    return Explanation(
        refusal.kind,
        f"{refusal.code} {refusal.reason}",
        cause=refusal.cause if refusal.kind is AnswerClass.REFUSED else None,
        detail=refusal.message,
    )


def _stream(entries: Sequence[object]) -> Explanation:
    """Read a watch stream: its last word counts, and DELETED is a word about the object only."""
    if not entries:
        return Explanation(AnswerClass.NO_EVIDENCE, "an empty stream", detail="it says nothing")
    last = entries[-1]
    if isinstance(last, list):
        return _summary(last)
    entry = mapping(last, "watch event")
    if "object" not in entry:
        return _list([mapping(e, "object") for e in entries])
    shown = _explain(entry["object"])
    if entry.get("type") != "DELETED":
        return shown
    return replace(shown, detail=f"{shown.detail}; the object is gone".lstrip("; "))


def _summary(entry: list[object]) -> Explanation:
    """Read one line of a shortened stream: type, name, resourceVersion, conditions."""
    if len(entry) != 4 or not all(isinstance(e, str) for e in entry[:3]):
        return _nothing("a list of lists that is no watch stream")
    rows = [sequence(row, "condition") for row in sequence(entry[3], "conditions")]
    body = {
        "kind": "Job",
        "metadata": {"name": entry[1], "resourceVersion": entry[2]},
        "status": {
            "conditions": [
                dict(zip(("type", "status", "reason", "message"), row, strict=False))
                for row in rows
            ]
        },
    }
    shown = _job(Evidence(job=_without_spec(body), pods=None))
    gone = "; the object is gone" if entry[0] == "DELETED" else ""
    return replace(shown, detail=f"{shown.detail}{gone}")


def _without_spec(body: JsonMap) -> Job:
    return read_job({**body, "spec": {}})
