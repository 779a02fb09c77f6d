"""The console for one person on this machine: its files, and an API that is asked in their name.

A browser can't sign for AWS. This small server can: it listens on the loopback interface only,
gives out the console's files, and passes questions on with the client's own sign-in. It answers
only to its own name (another name that was pointed here is refused), only to its own page, and a
question only with the secret of this run. It asks and never changes anything.
"""

from __future__ import annotations

import hmac
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import httpx

from dispatch.api import JSON_TYPE, PROBLEM_TYPE, STATUS, Problem, answer_text, problem_of
from dispatch.api.console import HEADERS, PAGE, asset
from dispatch.api.routes import ROUTES
from dispatch.errors import DispatchError

HOST = "127.0.0.1"
IDLE_S = 60.0
"""Seconds after which a connection that says nothing is closed."""

_ASKED = tuple(
    route.path.split("/")[1:]
    for route in ROUTES
    if route.method == "GET" and route.content == JSON_TYPE and not route.public
)
_PASSED_ON = ("content-type", "retry-after")
_UNCACHED = {**HEADERS, "Cache-Control": "no-store"}


@dataclass(frozen=True, slots=True)
class Reply:
    """What a browser is sent.

    Attributes:
        status: The HTTP status.
        headers: Those that matter.
        body: All of it.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


class Console:
    """Serves the console until it is closed.

    Args:
        relay: Asks the API one question, `path?query`, and returns whatever it answers.
        secret: What the page has to bring with each question; new for each run.
        port: On the loopback interface; 0 for any free one.

    Raises:
        OSError: The port can't be had.
    """

    def __init__(
        self, relay: Callable[[str], httpx.Response], secret: str, *, port: int = 0
    ) -> None:
        self._relay = relay
        self._secret = secret
        self._server = _Server((HOST, port), _handler(self.reply))
        self._thread = Thread(target=self._serve, name="console", daemon=True)

    @property
    def origin(self) -> str:
        """Where it listens."""
        return f"http://{HOST}:{self._server.server_address[1]}"

    @property
    def address(self) -> str:
        """The address to open; what stands behind `#` is never sent to anybody."""
        return f"{self.origin}/ui#secret={self._secret}"

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def close(self) -> None:
        """Stop answering."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def _serve(self) -> None:
        self._server.serve_forever(poll_interval=0.1)

    def reply(self, method: str, target: str, headers: Mapping[str, str]) -> Reply:
        """Return the answer to one request.

        Args:
            method: As the browser sent it.
            target: The path, with the query.
            headers: With their names in lower case.
        """
        if headers.get("host") != self.origin.removeprefix("http://"):
            return _refused(403, f"this console is called {self.origin}, and by no other name")
        if method != "GET":
            return _refused(405, f"this console only reads: {method} isn't passed on")
        asked = urlsplit(target)
        path = asked.path
        if asked.scheme or asked.netloc:
            return _refused(404, "this console passes nothing on to anywhere else")
        if path == "/":
            return Reply(HTTPStatus.FOUND, {**_UNCACHED, "Location": "/ui"})
        if path == "/ui" or path.startswith("/ui/"):
            return _file(path.removeprefix("/ui").removeprefix("/") or PAGE, headers)
        return self._turned_away(path, headers) or self._asked(target)

    def _turned_away(self, path: str, headers: Mapping[str, str]) -> Reply | None:
        from_elsewhere = headers.get("origin", self.origin) != self.origin
        if from_elsewhere or headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return _refused(403, "another page may not ask this console anything")
        brought = headers.get("authorization", "")
        if not hmac.compare_digest(brought.encode(), f"Bearer {self._secret}".encode()):
            said = "the page doesn't know the secret of this run"
            return _refused(401, f"{said}: open the address that `dispatch ui` printed")
        if not _is_a_question(path):
            return _refused(404, f"the console asks nothing of {path}")
        return None

    def _asked(self, target: str) -> Reply:
        try:
            answer = self._relay(target)
        except DispatchError as error:
            return _problem(_shown(error))
        kept = {name: answer.headers[name] for name in _PASSED_ON if name in answer.headers}
        return Reply(answer.status_code, {**_UNCACHED, **kept}, answer.content)


def _is_a_question(path: str) -> bool:
    """Return whether a path is one that a page may ask: a fixed list, and no way around it."""
    parts = path.split("/")[1:]
    plain = all(part.replace("-", "").replace("_", "").isalnum() for part in parts)
    return plain and any(
        len(asked) == len(parts)
        and all(a[:1] == "{" or a == p for a, p in zip(asked, parts, strict=True))
        for asked in _ASKED
    )


def _file(name: str, headers: Mapping[str, str]) -> Reply:
    found = asset(name)
    if found is None:
        return _refused(404, f"the console has no file {name!r}")
    if found.unchanged(headers.get("if-none-match")):
        return Reply(HTTPStatus.NOT_MODIFIED, found.headers)
    told = {**found.headers, "Content-Type": found.content_type}
    return Reply(HTTPStatus.OK, told, found.text.encode())


def _shown(error: DispatchError) -> Problem:
    """Return an error of the way to the API as a problem; the API's own come as they are."""
    if type(error) in STATUS:
        return problem_of(error)
    detail, code = str(error), error.code
    return Problem(
        type=f"urn:dispatch:problem:{code}",
        title="The API didn't answer",
        status=HTTPStatus.BAD_GATEWAY,
        code=code,
        detail=detail,
    )


def _refused(status: int, detail: str) -> Reply:
    code = HTTPStatus(status).name.lower()
    return _problem(
        Problem(
            type=f"urn:dispatch:problem:{code}",
            title=HTTPStatus(status).phrase,
            status=status,
            code=code,
            detail=detail,
        )
    )


def _problem(problem: Problem) -> Reply:
    told = {**_UNCACHED, "Content-Type": PROBLEM_TYPE}
    return Reply(problem.status, told, answer_text(problem).encode())


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that went away in the middle of an answer."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def _handler(
    reply: Callable[[str, str, Mapping[str, str]], Reply],
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server_version = "Dispatch"
        sys_version = ""
        timeout = IDLE_S

        def do_GET(self) -> None:
            """Answer, whatever the method is."""
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = reply(self.command, self.path, headers)
            if self.command != "GET":
                self.close_connection = True  # a body may follow that nobody reads
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if answer.status != HTTPStatus.NOT_MODIFIED:
                self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)

        do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_GET  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing: a person looks at the page, not at this."""

    return Handler
