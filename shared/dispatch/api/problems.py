"""Errors as their caller is shown them: an HTTP status and a problem for each of the taxonomy."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dispatch import errors
from dispatch.api.models import Problem
from dispatch.errors import DispatchError, RecordRefused
from dispatch.narrate.pages import error_page

STATUS: Mapping[type[DispatchError], int] = MappingProxyType(
    {
        errors.DispatchError: 500,
        errors.RecordRefused: 409,
        errors.InvalidRecord: 409,
        errors.SchemaRefused: 409,
        errors.UnknownName: 409,
        errors.CallerError: 400,
        errors.InvalidRequest: 400,
        errors.JobNotFound: 404,
        errors.JobTombstoned: 410,
        errors.IdempotencyConflict: 409,
        errors.NotSettled: 409,
        errors.NothingRan: 409,
        errors.EntryTooLarge: 413,
        errors.UnknownCluster: 422,
        errors.ClusterDrained: 409,
        errors.Forbidden: 403,
        errors.Unsupported: 422,
        errors.RevisionConflict: 409,
        errors.TryLater: 503,
        errors.StoreUnavailable: 503,
        errors.SchedulerUnavailable: 503,
        errors.Unknown: 504,
        errors.CommitUnknown: 504,
        errors.CallUnknown: 504,
        errors.CallRefused: 422,
        errors.HitOther: 409,
        errors.BadConfiguration: 500,
    }
)
"""The HTTP status of every error of the taxonomy; a test holds it complete."""

CODES: Mapping[str, type[DispatchError]] = MappingProxyType({kind.code: kind for kind in STATUS})
"""The class of every error code, for the client."""

RETRY_AFTER_S = 2
"""What `Retry-After` says on a 503 or 504."""

_HTTP_CODES: Mapping[int, tuple[str, str]] = MappingProxyType(
    {
        403: ("forbidden", "The caller isn't known, or may not do this"),
        404: ("route_not_found", "No such route"),
        405: ("method_not_allowed", "No such method here"),
        413: ("body_too_large", "The body is too large"),
        415: ("unsupported_media_type", "The body isn't JSON by its content type"),
        500: ("error", "Something failed here"),
    }
)


def problem_of(error: DispatchError) -> Problem:
    """Return an error as the problem that its caller is shown."""
    kind = type(error)
    field = getattr(error, "field", None)
    detail = str(error)
    if isinstance(error, errors.Unknown):
        detail += "; it may have taken effect: send the same request again, with the same key or id"
    return Problem(
        type=f"urn:dispatch:problem:{kind.code}",
        title=_title(kind),
        status=STATUS[kind],
        code=kind.code,
        detail=detail,
        job=error.job,
        field=field if isinstance(field, str) else None,
        entry=error.entry if isinstance(error, RecordRefused) else None,
        rule=(error.rule or None) if isinstance(error, RecordRefused) else None,
        page=error_page(kind.code),
    )


def http_problem(status: int, detail: str) -> Problem:
    """Return the problem of a request that no route ever saw."""
    code, title = _HTTP_CODES[status]
    return Problem(
        type=f"urn:dispatch:problem:{code}",
        title=title,
        status=status,
        code=code,
        detail=detail,
        page=error_page(code),
    )


def _title(kind: type[DispatchError]) -> str:
    first = (kind.__doc__ or kind.code).strip().splitlines()[0]
    return first.split(";")[0].split("(")[0].strip().rstrip(".")
