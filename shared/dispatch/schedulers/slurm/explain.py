"""A raw reply of Slurm's read back to a person; pure.

It goes the way of a live reply, so what it prints is what a supervisor would have concluded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dispatch.errors import InvalidRequest
from dispatch.record.names import Cause, ObjectState
from dispatch.schedulers.slurm.response import Answer, Call, Kind, Reply, asked_id, read
from dispatch.schedulers.slurm.rows import Row
from dispatch.schedulers.slurm.sighting import judged
from dispatch.schedulers.slurm.tags import Mark, marked


@dataclass(frozen=True, slots=True)
class Run:
    """One job, or one run of it, that the reply shows.

    Attributes:
        job_id: Slurm's id.
        state: What it is doing.
        cause: Why it ended or waits.
        held: Whether it is kept from running.
        holder: Who keeps it so, where it isn't Dispatch or its user.
        exit_code: The process's exit code.
        signal: The signal that ended it.
        restarts: How often Slurm started it again.
        lost: Whether its process may live on although Slurm calls it ended.
        started_at: When this run started.
        ended_at: When this run ended.
        nodes: Where.
        reason: Slurm's words and what they mean.
        alarm: Why a person must look.
        ours: The tag of Dispatch that it carries.
    """

    job_id: int
    state: ObjectState
    cause: Cause | None
    held: bool
    holder: str | None
    exit_code: int | None
    signal: int | None
    restarts: int
    lost: bool
    started_at: datetime | None
    ended_at: datetime | None
    nodes: tuple[str, ...]
    reason: str
    alarm: str | None
    ours: Mark | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a reply is worth.

    Attributes:
        kind: sighting, accepted, refused, unknown, not_known, credentials or wrong_version.
        call: What was asked.
        state: Of the job that was asked about, or the first shown.
        cause: Why it ended or waits; or why a Start was refused.
        held: Whether that job is kept from running.
        holder: Who keeps it so, where it isn't Dispatch or its user.
        runs: How many runs it has had.
        exit_code: Its exit code.
        signal: Its signal.
        lost: Whether its process may live on.
        about: What a person must look at.
        detail: Slurm's words.
        notes: What was said beside a success.
        alarm: Why a person must look.
        jobs: Everything that was shown, newest run first.
    """

    kind: Kind
    call: Call
    state: ObjectState | None = None
    cause: Cause | None = None
    held: bool | None = None
    holder: str | None = None
    runs: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    lost: bool = False
    about: str = ""
    detail: str = ""
    notes: tuple[str, ...] = ()
    alarm: str | None = None
    jobs: tuple[Run, ...] = ()


def explain(document: Mapping[str, Any]) -> Explanation:
    """Return what a recorded reply means: `{request: {method, path, json}, status, body}`.

    Raises:
        InvalidRequest: It isn't such a recording.
    """
    reply = _reply(document)
    answer = read(reply)
    alarm = _alarm(answer)
    runs = tuple(_run(row) for row in answer.rows)
    headline = _headline(answer, asked_id(reply.path))
    if headline is None:
        return Explanation(
            answer.kind,
            answer.call,
            cause=answer.cause,
            about=answer.about,
            detail=answer.detail,
            notes=answer.notes,
            alarm=alarm,
            jobs=runs,
        )
    meaning = judged(headline, marked(headline.comment, headline.extra))
    lives = sum(one.job_id == headline.job_id for one in answer.rows)
    return Explanation(
        kind=answer.kind,
        call=answer.call,
        state=meaning.state,
        cause=meaning.cause,
        held=meaning.held,
        holder=meaning.holder,
        runs=max(headline.restarts + 1, lives),
        exit_code=meaning.exit_code,
        signal=meaning.signal,
        lost=meaning.lost,
        about=answer.about,
        detail=headline.reason or answer.detail,
        notes=answer.notes,
        alarm=meaning.alarm or alarm,
        jobs=runs,
    )


def _reply(document: Mapping[str, Any]) -> Reply:
    request = document.get("request")
    if not isinstance(request, Mapping) or not isinstance(request.get("path"), str):
        raise InvalidRequest("a recording names the request's method and path", field="request")
    status = document.get("status")
    if not isinstance(status, int):
        raise InvalidRequest("a recording has an HTTP status", field="status")
    body = document.get("body")
    if isinstance(body, str):
        with suppress(ValueError, RecursionError):
            body = json.loads(body)
    method = request.get("method")
    method = method if isinstance(method, str) else "GET"
    return Reply(method.upper(), request["path"], status, body, request.get("json"))


def _headline(answer: Answer, asked: int | None) -> Row | None:
    if answer.kind is not Kind.SIGHTING:
        return None
    return next((row for row in answer.rows if row.job_id == asked), None) or next(
        iter(answer.rows), None
    )


def _alarm(answer: Answer) -> str | None:
    if answer.malformed:
        bad = answer.malformed[0]
        return f"job {bad.job_id or '?'} can't be read: {bad.reason}"
    gate = {"hold", "requeue", "dependency", "comment"} & set(answer.dropped)
    if answer.job_id is not None and gate:
        return f"the server ignored {', '.join(sorted(gate))}: the gate doesn't hold"
    return None


def _run(row: Row) -> Run:
    mark = marked(row.comment, row.extra)
    meaning = judged(row, mark)
    return Run(
        job_id=row.job_id,
        state=meaning.state,
        cause=meaning.cause,
        held=meaning.held,
        holder=meaning.holder,
        exit_code=meaning.exit_code,
        signal=meaning.signal,
        restarts=row.restarts,
        lost=meaning.lost,
        started_at=row.started_at,
        ended_at=row.ended_at,
        nodes=row.nodes,
        reason=row.reason,
        alarm=meaning.alarm,
        ours=mark,
    )
