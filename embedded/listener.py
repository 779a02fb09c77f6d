"""HTTP on this machine as API Gateway events, for the same handler that Lambda calls.

Only the loopback interface, only by a loopback name (a page of the web that points its own name
here is refused), and only for the user whose stack it is.
"""

from __future__ import annotations

import base64
import getpass
import os
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from threading import Lock
from typing import Any
from urllib.parse import parse_qsl

from dispatch.api import MAX_BODY_BYTES, PROBLEM_TYPE, answer_text, http_problem
from dispatch.errors import Forbidden
from embedded.context import FunctionContext
from embedded.peer import uid_of_peer

Environ = dict[str, Any]
StartResponse = Callable[[str, list[tuple[str, str]]], Any]
Handler = Callable[[dict[str, Any], Any], dict[str, Any]]

HOST = "127.0.0.1"
REQUEST_TIME_S = 29.0
_NAMES = frozenset({"127.0.0.1", "localhost"})


def local_user() -> str:
    """Return the name of the user whose stack this is."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"uid-{os.getuid()}"


def local_actor(event: Mapping[str, Any]) -> str:
    """Return who calls, by the word of this listener alone: `local:{user}`.

    Raises:
        Forbidden: The event isn't this listener's.
    """
    authorizer = event.get("requestContext", {}).get("authorizer", {})
    user = authorizer.get("local", {}).get("user")
    if not isinstance(user, str) or not user:
        raise Forbidden("the request bears no identity")
    return f"local:{user}"


class Listener:
    """A WSGI application around the intents handler.

    Args:
        handler: The intents handler.
        user: Who every caller is taken for.
        known_peer: Whether only this user's processes are let in.
    """

    def __init__(self, handler: Handler, user: str, *, known_peer: bool) -> None:
        self._handler = handler
        self._user = user
        self._known_peer = known_peer
        # The framework keeps the current event where all threads see it.
        self._one_at_a_time = Lock()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one HTTP request."""
        answer = self._turned_away(environ) or self._answer(environ)
        status = HTTPStatus(answer["statusCode"])
        body = _body(answer)
        headers = [(name, str(value)) for name, value in answer.get("headers", {}).items()]
        if status not in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED):
            headers.append(("Content-Length", str(len(body))))
        if not any(name.lower() == "cache-control" for name, _ in headers):
            headers.append(("Cache-Control", "no-store"))
        start_response(f"{status.value} {status.phrase}", headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    def _turned_away(self, environ: Environ) -> dict[str, Any] | None:
        host = environ.get("HTTP_HOST", "").rsplit(":", 1)[0]
        if host not in _NAMES:
            return _problem(403, f"this stack is called {HOST}, not {host!r}")
        if self._known_peer:
            peer = uid_of_peer(int(environ["REMOTE_PORT"]), int(environ["SERVER_PORT"]))
            if peer != os.getuid():
                return _problem(403, f"this stack belongs to user {self._user}")
        if int(environ.get("CONTENT_LENGTH") or 0) > MAX_BODY_BYTES:
            return _problem(413, f"a body has at most {MAX_BODY_BYTES} bytes")
        return None

    def _answer(self, environ: Environ) -> dict[str, Any]:
        event = event_of(environ, self._user)
        with self._one_at_a_time:
            return self._handler(event, FunctionContext("intents", REQUEST_TIME_S))


def event_of(environ: Environ, user: str) -> dict[str, Any]:
    """Return a request as an HTTP API would send it (payload 2.0), in the name of a user."""
    path = environ.get("PATH_INFO", "/").encode("latin-1").decode("utf-8", "replace") or "/"
    query = environ.get("QUERY_STRING", "")
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    headers = {
        name[5:].replace("_", "-").lower(): value
        for name, value in environ.items()
        if name.startswith("HTTP_")
    }
    if environ.get("CONTENT_TYPE"):
        headers["content-type"] = environ["CONTENT_TYPE"]
    values: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        values[name] = f"{values[name]},{value}" if name in values else value
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": query,
        "headers": headers,
        "requestContext": {
            "stage": "$default",
            "http": {
                "method": environ["REQUEST_METHOD"],
                "path": path,
                "protocol": environ.get("SERVER_PROTOCOL", "HTTP/1.1"),
                "sourceIp": environ.get("REMOTE_ADDR", HOST),
            },
            "authorizer": {"local": {"user": user}},
        },
        "isBase64Encoded": bool(body),
    }
    if values:
        event["queryStringParameters"] = values
    if body:
        event["body"] = base64.b64encode(body).decode()
    return event


def _problem(status: int, detail: str) -> dict[str, Any]:
    return {
        "statusCode": status,
        "headers": {"Content-Type": PROBLEM_TYPE},
        "body": answer_text(http_problem(status, detail)),
    }


def _body(answer: Mapping[str, Any]) -> bytes:
    text = answer.get("body") or ""
    return base64.b64decode(text) if answer.get("isBase64Encoded") else text.encode()
