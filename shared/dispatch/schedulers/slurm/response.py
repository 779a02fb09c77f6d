"""Slurm's replies, read: jobs, accounting rows and errors to what they are worth; pure.

An error is never an answer, an empty list is one only where Slurm says when it was made, and a
success is one only with the identity or the read that proves it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from dispatch.record.names import Cause
from dispatch.schedulers.slurm import said, verdicts
from dispatch.schedulers.slurm.numbers import positive
from dispatch.schedulers.slurm.rows import Malformed, Row, accounting_row, job_row, state_row
from dispatch.schedulers.slurm.verdicts import Judged, Verdict

READABLE: Final = range(40, 46)
"""The data parsers (v0.0.n) whose replies can be read; fewer are spoken to."""

SUPPORTED: Final = ("v0.0.45", "v0.0.42")
"""The versions that are spoken to, best first."""


class Call(StrEnum):
    """What was asked."""

    SUBMIT = "submit"
    JOB = "job"
    JOBS = "jobs"
    STATES = "states"
    CANCEL = "cancel"
    UPDATE = "update"
    REQUEUE = "requeue"
    ACCOUNTING = "accounting"
    PING = "ping"
    OTHER = "other"


class Kind(StrEnum):
    """What a reply is worth.

    `accepted` is the one that proves nothing by itself: a read must show the effect.
    """

    SIGHTING = "sighting"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    NOT_KNOWN = "not_known"
    CREDENTIALS = "credentials"
    WRONG_VERSION = "wrong_version"


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP reply, and the request it answers.

    Attributes:
        method: The request's method.
        path: The request's path, with its query.
        status: The HTTP status.
        body: Parsed JSON, or the text where it wasn't JSON.
        sent: The request's JSON body, where there was one.
    """

    method: str
    path: str
    status: int
    body: Any
    sent: Any = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply that was read.

    Attributes:
        kind: What it is worth.
        call: What was asked.
        detail: Slurm's words, for people.
        cause: Why a Start was refused.
        about: What a person must look at.
        notes: What was said beside a success.
        dropped: Request fields that the server says it ignored.
        job_id: The id of a submitted job.
        rows: The jobs or runs it shows, newest run first within an id.
        malformed: Rows that couldn't be read, each with its reason.
        identity: The cluster's own name.
        release: Slurm's release.
        last_update: When slurmctld says its jobs last changed.
    """

    kind: Kind
    call: Call
    detail: str = ""
    cause: Cause | None = None
    about: str = ""
    notes: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    job_id: int | None = None
    rows: tuple[Row, ...] = ()
    malformed: tuple[Malformed, ...] = ()
    identity: str = ""
    release: str = ""
    last_update: datetime | None = None


_ID_PATH = re.compile(r"/job/([0-9]+)(?:/|\?|\Z)")
_NO_SUCH_ROW = "found nothing"
_NOT_CHANGED = "no job changes"
_SIGN_IN_STATUSES: Final = frozenset({401, 511})
# The worst word decides: where one entry is doubt, nothing was learnt.
_WORST_FIRST: Final = tuple(Verdict)


def call_of(method: str, path: str) -> Call:
    """Return what a request asks, by its path."""
    bare = path.partition("?")[0].rstrip("/")
    if bare.startswith("/slurmdb/"):
        return Call.ACCOUNTING if re.search(r"/jobs?(/[^/]+)?\Z", bare) else Call.OTHER
    match bare.split("/")[3:]:
        case ["job", "submit"]:
            return Call.SUBMIT
        case ["job", _, "requeue"] | ["jobs", "requeue"]:
            return Call.REQUEUE
        case ["job", _] if method == "GET":
            return Call.JOB
        case ["job", _] | ["jobs"] if method == "DELETE":
            return Call.CANCEL
        case ["job", _]:
            return Call.UPDATE
        case ["jobs", "state"]:
            return Call.STATES
        case ["jobs"]:
            return Call.JOBS
        case ["ping"]:
            return Call.PING
        case _:
            return Call.OTHER


def asked_id(path: str) -> int | None:
    """Return the job id in a request's path, where it names one."""
    found = _ID_PATH.search(path)
    return int(found[1]) if found else None


def read(reply: Reply) -> Answer:
    """Return what a reply is worth; total over everything that HTTP can carry."""
    call = call_of(reply.method, reply.path)
    body = reply.body if isinstance(reply.body, Mapping) else None
    version = said.version(reply.path, body)
    if version is not None and version not in READABLE:
        known = f"v0.0.{READABLE.start} to v0.0.{READABLE.stop - 1}"
        return Answer(Kind.WRONG_VERSION, call, f"API v0.0.{version} isn't read here, {known} are")
    if body is None:
        return _without_json(reply, call)
    meta = said.meta(body)
    told = tuple(said.errors(body))
    if call is Call.SUBMIT:
        return _submitted(reply, body, told, meta)
    if call is Call.CANCEL:
        told += tuple(said.cancel_status(body))
    if call is Call.UPDATE:
        told += tuple(said.results(body))
    if told:
        return _by_errors(reply, call, told, meta)
    return _by_status(reply, call, body, meta)


# --- what is wrong --------------------------------------------------------------------------


def _without_json(reply: Reply, call: Call) -> Answer:
    text = str(reply.body or "").strip()[:200] or "an empty body"
    detail = f"HTTP {reply.status}, no JSON: {text}"
    if reply.status in _SIGN_IN_STATUSES or reply.status == 403:
        return Answer(Kind.CREDENTIALS, call, detail)
    if reply.status == 404:
        return Answer(Kind.WRONG_VERSION, call, detail)
    return Answer(Kind.UNKNOWN, call, detail)


def _by_errors(
    reply: Reply, call: Call, told: tuple[said.Said, ...], meta: dict[str, Any]
) -> Answer:
    worst = min(told, key=lambda one: _WORST_FIRST.index(one.judged.verdict))
    detail = f"HTTP {reply.status}: " + "; ".join(one.words for one in told)
    kind = {
        Verdict.CREDENTIALS: Kind.CREDENTIALS,
        Verdict.WRONG_VERSION: Kind.WRONG_VERSION,
        Verdict.DOUBT: Kind.UNKNOWN,
        Verdict.REFUSED: Kind.REFUSED,
        Verdict.NOT_KNOWN: Kind.NOT_KNOWN,
        Verdict.DONE: Kind.ACCEPTED,
    }[worst.judged.verdict]
    if kind is Kind.UNKNOWN and reply.status in _SIGN_IN_STATUSES:
        kind = Kind.CREDENTIALS
    about = worst.judged.about if kind in (Kind.REFUSED, Kind.NOT_KNOWN) else ""
    return Answer(kind, call, detail, about=about, **meta)


def _by_status(reply: Reply, call: Call, body: Mapping[str, Any], meta: dict[str, Any]) -> Answer:
    status = reply.status
    if status in _SIGN_IN_STATUSES or status == 403:
        return Answer(Kind.CREDENTIALS, call, f"HTTP {status}", **meta)
    if status == 404:
        return Answer(
            Kind.WRONG_VERSION, call, "HTTP 404 without an error: path or API version", **meta
        )
    if not 200 <= status < 300:
        return Answer(Kind.UNKNOWN, call, f"HTTP {status} without an error", **meta)
    match call:
        case Call.JOB | Call.JOBS:
            return _jobs(call, body, meta)
        case Call.STATES:
            return _states(body, meta)
        case Call.ACCOUNTING:
            return _accounting(body, meta)
        case Call.PING:
            return _ping(body, meta)
        case Call.CANCEL | Call.UPDATE | Call.REQUEUE | Call.OTHER:
            return Answer(
                Kind.ACCEPTED,
                call,
                "accepted; a read must show its effect",
                notes=said.warnings(body),
                dropped=said.dropped(body),
                **meta,
            )
        case Call.SUBMIT:
            raise AssertionError("a submit's reply is read by itself")


# --- each call's success --------------------------------------------------------------------


def _submitted(
    reply: Reply, body: Mapping[str, Any], told: tuple[said.Said, ...], meta: dict[str, Any]
) -> Answer:
    result = body.get("result")
    result = result if isinstance(result, Mapping) else {}
    job_id = positive(body.get("job_id")) or positive(result.get("job_id"))
    hard = tuple(one for one in told if one.number not in verdicts.NOTES)
    message = body.get("job_submit_user_msg")
    notes = tuple(one.words for one in told if one not in hard) + said.warnings(body)
    if isinstance(message, str) and message.strip():
        notes += (message.strip(),)
    if job_id is not None and not hard and 200 <= reply.status < 300:
        held = (
            "held state" in " ".join(notes).lower()
            or any(one.number == verdicts.JOB_HELD for one in told)
            or result.get("error_code") == verdicts.JOB_HELD
        )
        return Answer(
            Kind.SIGHTING,
            Call.SUBMIT,
            f"job {job_id} was created",
            job_id=job_id,
            notes=notes,
            dropped=said.dropped(body),
            rows=(Row.submitted(job_id, held=held),),
            **meta,
        )
    if job_id is not None:
        return Answer(
            Kind.UNKNOWN,
            Call.SUBMIT,
            f"job {job_id} and errors beside it: " + "; ".join(one.words for one in told),
            job_id=job_id,
            **meta,
        )
    if not told:
        if reply.status == 404 or reply.status in (*_SIGN_IN_STATUSES, 403):
            return _by_status(reply, Call.SUBMIT, body, meta)
        detail = f"HTTP {reply.status} without a job id"
        return Answer(Kind.UNKNOWN, Call.SUBMIT, detail, notes=said.warnings(body), **meta)
    answer = _by_errors(reply, Call.SUBMIT, told, meta)
    if answer.kind is Kind.NOT_KNOWN or answer.kind is Kind.ACCEPTED:
        # Not an answer about an object: the request named an id or a state that can't be had.
        judged = Judged(Verdict.REFUSED, "job id", Cause.INVALID_SPEC)
    else:
        judged = next(
            (one.judged for one in told if one.judged.verdict is Verdict.REFUSED),
            Judged(Verdict.DOUBT),
        )
        if answer.kind is not Kind.REFUSED:
            return answer
    return Answer(
        Kind.REFUSED, Call.SUBMIT, answer.detail, cause=judged.cause, about=judged.about, **meta
    )


def _jobs(call: Call, body: Mapping[str, Any], meta: dict[str, Any]) -> Answer:
    entries = body.get("jobs")
    warnings = said.warnings(body)
    if not isinstance(entries, list):
        return Answer(Kind.UNKNOWN, call, "no list of jobs in the reply", notes=warnings, **meta)
    if any(_NOT_CHANGED in one.lower() for one in warnings):
        detail = "an answer to 'what changed', not a list of jobs"
        return Answer(Kind.UNKNOWN, call, detail, notes=warnings, **meta)
    rows, malformed = _read_rows(entries, job_row)
    if not entries and call is Call.JOB:
        return Answer(Kind.NOT_KNOWN, call, "no such job in the reply", about="job id", **meta)
    if not entries and meta["last_update"] is None:
        return Answer(Kind.UNKNOWN, call, "an empty list without a time", notes=warnings, **meta)
    return Answer(
        Kind.SIGHTING,
        call,
        f"{len(entries)} job(s)",
        rows=rows,
        malformed=malformed,
        notes=warnings,
        **meta,
    )


def _states(body: Mapping[str, Any], meta: dict[str, Any]) -> Answer:
    entries = body.get("jobs")
    if not isinstance(entries, list):
        return Answer(Kind.UNKNOWN, Call.STATES, "no list of states in the reply", **meta)
    rows, malformed = _read_rows(entries, state_row)
    kind = Kind.SIGHTING if entries else Kind.NOT_KNOWN
    return Answer(
        kind, Call.STATES, f"{len(entries)} state(s)", rows=rows, malformed=malformed, **meta
    )


def _accounting(body: Mapping[str, Any], meta: dict[str, Any]) -> Answer:
    entries = body.get("jobs")
    warnings = said.warnings(body)
    if not isinstance(entries, list):
        return Answer(Kind.UNKNOWN, Call.ACCOUNTING, "no list of jobs in the reply", **meta)
    if not entries:
        strange = [one for one in warnings if _NO_SUCH_ROW not in one.lower()]
        kind = Kind.UNKNOWN if strange else Kind.NOT_KNOWN
        return Answer(
            kind,
            Call.ACCOUNTING,
            "accounting has no such job",
            about="job id",
            notes=warnings,
            **meta,
        )
    rows, malformed = _read_rows(entries, accounting_row)
    ordered = tuple(sorted(rows, key=lambda row: row.life, reverse=True))
    return Answer(
        Kind.SIGHTING,
        Call.ACCOUNTING,
        f"{len(entries)} run(s)",
        rows=ordered,
        malformed=malformed,
        notes=warnings,
        **meta,
    )


def _ping(body: Mapping[str, Any], meta: dict[str, Any]) -> Answer:
    pings = body.get("pings")
    up = isinstance(pings, list) and any(
        isinstance(one, Mapping) and (one.get("pinged") == "UP" or one.get("responding") is True)
        for one in pings
    )
    if up:
        return Answer(Kind.ACCEPTED, Call.PING, "slurmctld answers", **meta)
    return Answer(Kind.UNKNOWN, Call.PING, "slurmctld doesn't answer slurmrestd", **meta)


# --- pieces ---------------------------------------------------------------------------------


def _read_rows(
    entries: Iterable[Any], reader: Any
) -> tuple[tuple[Row, ...], tuple[Malformed, ...]]:
    rows: list[Row] = []
    malformed: list[Malformed] = []
    for entry in entries:
        one = reader(entry)
        (malformed if isinstance(one, Malformed) else rows).append(one)
    return tuple(rows), tuple(malformed)


def digest(raw: Any) -> str:
    """Return a digest of raw evidence; never news by itself."""
    return hashlib.sha256(json.dumps(raw, sort_keys=True, default=str).encode()).hexdigest()
