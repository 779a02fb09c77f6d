"""What can go wrong on the way, and the API's problems as the errors they stand for."""

from __future__ import annotations

from typing import Any, ClassVar

import httpx
from pydantic import ValidationError

from dispatch.api import CODES, Problem
from dispatch.errors import (
    CallerError,
    DispatchError,
    Forbidden,
    InvalidRequest,
    RecordRefused,
    TryLater,
    Unknown,
)

_LATER = frozenset({429, 503})
_IN_DOUBT = frozenset({408, 502, 504})


class Unreachable(TryLater):
    """No connection to the endpoint came about; nothing was sent."""

    code: ClassVar[str] = "unreachable"


class Unanswered(Unknown):
    """The request was sent and no answer came; it may have taken effect."""

    code: ClassVar[str] = "unanswered"


class BadAnswer(DispatchError):
    """The answer isn't one that this API gives; another service may be listening there."""

    code: ClassVar[str] = "bad_answer"


class ServerFailed(DispatchError):
    """Something failed on the other side; its log says what."""

    code: ClassVar[str] = "server_failed"


class WaitedTooLong(DispatchError):
    """What was waited for didn't come in the time given; the job goes on."""

    code: ClassVar[str] = "waited_too_long"


def error_of(reply: httpx.Response) -> DispatchError:
    """Return the error that an answer stands for, of the class its code names."""
    where = f"{reply.request.method} {reply.request.url.copy_with(query=None)}"
    try:
        problem = Problem.model_validate_json(reply.content)
    except ValidationError:
        return _plain(reply, where)
    kind = CODES.get(problem.code)
    if kind is None:
        return _unknown_code(reply, problem, where)
    named: dict[str, Any] = {"job": problem.job}
    if issubclass(kind, RecordRefused):
        named |= {"entry": problem.entry, "field": problem.field, "rule": problem.rule or ""}
    elif issubclass(kind, InvalidRequest):
        named["field"] = problem.field
    # The detail is the other side's whole sentence; the class puts the same words in front again.
    return kind(problem.detail.removeprefix(str(kind("", **named))), **named)


def _unknown_code(reply: httpx.Response, problem: Problem, where: str) -> DispatchError:
    if reply.status_code >= 500:
        return ServerFailed(problem.detail, job=problem.job)
    return CallerError(f"{where}: {problem.title}: {problem.detail}", job=problem.job)


def _plain(reply: httpx.Response, where: str) -> DispatchError:
    code = reply.status_code
    if code in (401, 403):
        return Forbidden(f"{where}: refused with {code}: the caller isn't known, or may not")
    if code in _LATER:
        return TryLater(f"{where}: answered with {code}")
    if code in _IN_DOUBT:
        return Unknown(f"{where}: answered with {code}")
    if code >= 500:
        return ServerFailed(f"{where}: answered with {code}")
    return BadAnswer(f"{where}: answered with {code}, and not as this API does")
