"""An HTTP API's event (payload 2.0) as a request that is known to be well-formed. Pure.

What the framework lets through is refused here: a body that isn't UTF-8, or too large, or of
another content type, or bare of one; a query parameter that no route has, or that stands twice.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dispatch.api.models import JSON_TYPE, MAX_BODY_BYTES, Problem
from dispatch.api.problems import http_problem
from dispatch.errors import Forbidden, InvalidRequest

MAX_ACTOR = 256
"""Characters of an actor's name; it stands in every entry that the actor writes."""


class Refused(Exception):
    """A request that no route should see.

    Attributes:
        problem: What its caller is shown.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


def actor_of(event: Mapping[str, Any]) -> str:
    """Return who calls, by the word of the authorizer alone: `iam:{arn}` or `oidc:{iss}#{sub}`.

    Raises:
        Forbidden: The authorizer named nobody, or two, or a name too long to be written down.
    """
    authorizer = _inner(event, "requestContext", "authorizer")
    arn = _text(_inner(authorizer, "iam").get("userArn"))
    claims = _inner(authorizer, "jwt", "claims")
    issuer, subject = _text(claims.get("iss")), _text(claims.get("sub"))
    if arn and (issuer or subject):
        raise Forbidden("two identities in one request")
    if arn:
        actor = f"iam:{arn}"
    elif issuer and subject:
        actor = f"oidc:{issuer}#{subject}"
    else:
        raise Forbidden("the request bears no identity: sign it, or send a token")
    if len(actor) > MAX_ACTOR:
        raise Forbidden(f"the caller's name is longer than {MAX_ACTOR} characters")
    return actor


def claims_of(event: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """Return the values of each claim of the token that the authorizer verified.

    An HTTP API writes a list as one text, `[a b]`; scopes stand with spaces between them. A value
    with a space of its own can't be told from two, so no rule should rest on one.
    """
    claims = _inner(event, "requestContext", "authorizer", "jwt", "claims")
    return {name: _values(name, value) for name, value in claims.items()}


def _values(name: str, value: Any) -> frozenset[str]:
    if isinstance(value, list | tuple):
        return frozenset(one for one in value if isinstance(one, str))
    text = _text(value)
    if text.startswith("[") and text.endswith("]"):
        return frozenset(text[1:-1].split())
    if name in ("scope", "scp"):
        return frozenset(text.split())
    return frozenset({text}) if text else frozenset()


def _inner(value: Any, *keys: str) -> Mapping[str, Any]:
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def header_of(event: Mapping[str, Any], name: str) -> str | None:
    """Return a header, whatever the case of its name."""
    for key, value in _inner(event, "headers").items():
        if key.lower() == name.lower() and isinstance(value, str):
            return value
    return None


def body_of(event: Mapping[str, Any]) -> str:
    """Return the body of a request that must have one, as text.

    Raises:
        Refused: 415 for another content type or none, 413 for a body that is too large.
        InvalidRequest: It isn't UTF-8, or there is none.
    """
    kind = (header_of(event, "content-type") or "").split(";")[0].strip().lower()
    if kind != JSON_TYPE:
        said = f"it says {kind!r}" if kind else "it says nothing"
        raise Refused(http_problem(415, f"Content-Type must be {JSON_TYPE}; {said}"))
    body = event.get("body")
    if not isinstance(body, str) or not body:
        raise InvalidRequest("the request has no body")
    if len(body) > 2 * MAX_BODY_BYTES:
        raise _too_large()
    raw = _bytes(body, encoded=bool(event.get("isBase64Encoded")))
    if len(raw) > MAX_BODY_BYTES:
        raise _too_large()
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"the body isn't UTF-8 at byte {error.start}") from None


def _bytes(body: str, *, encoded: bool) -> bytes:
    try:
        return base64.b64decode(body, validate=True) if encoded else body.encode("utf-8")
    except (binascii.Error, UnicodeEncodeError):
        raise InvalidRequest("the body isn't UTF-8") from None


def _too_large() -> Refused:
    return Refused(http_problem(413, f"a body has at most {MAX_BODY_BYTES} bytes"))


@dataclass(frozen=True, slots=True)
class Query:
    """The query parameters of a request, each of which its route knows.

    Attributes:
        values: As they were sent.
    """

    values: Mapping[str, str]

    def text(self, name: str) -> str | None:
        """Return a parameter, or None where it isn't there or empty."""
        return self.values.get(name) or None

    def flag(self, name: str) -> bool | None:
        """Return a parameter that is `true` or `false`.

        Raises:
            InvalidRequest: It is something else.
        """
        value = self.text(name)
        if value is None:
            return None
        if value not in ("true", "false"):
            raise InvalidRequest("true or false", field=name)
        return value == "true"

    def one_of(self, name: str, *choices: str) -> str:
        """Return a parameter that is one of a few words; the first where it isn't there.

        Raises:
            InvalidRequest: It is something else.
        """
        value = self.text(name) or choices[0]
        if value not in choices:
            raise InvalidRequest(f"one of {', '.join(choices)}", field=name)
        return value

    def number(self, name: str, default: int, *, most: int, least: int = 0) -> int:
        """Return a parameter that is a whole number.

        Raises:
            InvalidRequest: It isn't one, or out of range.
        """
        value = self.text(name)
        if value is None:
            return default
        digits = value.removeprefix("-") if least < 0 else value
        if not value.isascii() or not digits.isdigit() or len(value) > 18:
            raise InvalidRequest("a whole number", field=name)
        if not least <= int(value) <= most:
            raise InvalidRequest(f"{value} isn't between {least} and {most}", field=name)
        return int(value)


def query_of(event: Mapping[str, Any], known: frozenset[str] | None) -> Query:
    """Return the query parameters of a request.

    Args:
        event: The request.
        known: Those that its route has; None for one that takes no notice of any. Such is the
            console's page, to which an issuer leads a person back with parameters of its own.

    Raises:
        InvalidRequest: One of them isn't known to the route, or stands twice.
    """
    if known is None:
        return Query({})
    values: dict[str, str] = {}
    for name, value in _inner(event, "queryStringParameters").items():
        if name not in known:
            told = ", ".join(sorted(known)) or "none"
            raise InvalidRequest(f"no such query parameter (there are: {told})", field=name)
        values[name] = _text(value)
    # A parameter that stands twice comes joined with commas; the raw text tells it from one.
    raw = _text(event.get("rawQueryString"))
    names = [piece.split("=", 1)[0] for piece in raw.split("&") if piece]
    for name in names:
        if names.count(name) > 1:
            raise InvalidRequest("the query parameter stands twice", field=name)
    return Query(values)
