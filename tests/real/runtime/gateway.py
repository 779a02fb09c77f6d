"""An HTTP API in front of Amazon's runtime: requests in, payload 2.0 events to a pool of it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from queue import Queue
from threading import Thread
from typing import Any

import waitress.server

from dispatch.api import PROBLEM_TYPE, answer_text, http_problem
from embedded.listener import event_of
from tests.real.runtime.conftest import Runtime

LIMIT_BYTES = 6 * 1024 * 1024
"""Of what a function takes; what is larger never reaches one."""

_TOO_LARGE: dict[str, Any] = {
    "statusCode": 413,
    "headers": {"Content-Type": PROBLEM_TYPE},
    "body": answer_text(http_problem(413, "larger than a function takes")),
}
CALLER = "arn:aws:iam::111122223333:user/ada"


class Gateway:
    """A WSGI application that does what an HTTP API does, in the name of one IAM user.

    Args:
        pool: Runtimes of one function; each takes one call at a time.
    """

    def __init__(self, pool: Sequence[Runtime]) -> None:
        self._free: Queue[Runtime] = Queue()
        for one in pool:
            self._free.put(one)
        self.broken: list[tuple[Any, Any]] = []

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        runtime = self._free.get()
        try:
            event = _signed(event_of(environ, "ada"))
            whole = len(json.dumps(event)) <= LIMIT_BYTES
            answer = runtime.invoke(event) if whole else _TOO_LARGE
        finally:
            self._free.put(runtime)
        if not isinstance(answer, dict) or "statusCode" not in answer:
            # What the gateway itself says where a function fails.
            self.broken.append((event, answer))
            answer = {"statusCode": 500, "body": json.dumps({"message": "Internal Server Error"})}
        status = HTTPStatus(answer["statusCode"])
        body = str(answer.get("body") or "").encode()
        if answer.get("isBase64Encoded"):
            body = base64.b64decode(body)
        headers = [(name, str(value)) for name, value in (answer.get("headers") or {}).items()]
        if status is not HTTPStatus.NO_CONTENT:
            headers.append(("Content-Length", str(len(body))))
        start_response(f"{status.value} {status.phrase}", headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]


def _signed(event: dict[str, Any]) -> dict[str, Any]:
    """The same request as IAM's authorizer passes it on; text stands as text in it."""
    context = event["requestContext"]
    context["authorizer"] = {"iam": {"userArn": CALLER, "accountId": "111122223333"}}
    if event["isBase64Encoded"]:
        try:
            event["body"] = base64.b64decode(event["body"]).decode()
        except UnicodeDecodeError:
            return event
        event["isBase64Encoded"] = False
    return event


@contextmanager
def serving(gateway: Gateway, threads: int) -> Iterator[str]:
    """Listen on the loopback interface and yield the address."""
    made = waitress.server.create_server(gateway, host="127.0.0.1", port=0, threads=threads)
    server: Any = made  # its types leave out what one of its two kinds has
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.effective_port}"
    finally:
        server.close()
        thread.join(10)
