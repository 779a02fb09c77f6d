"""The fake behind loopback TLS, and the faults of the wire between it and its callers."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import format_datetime
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.fakes.kube import statuses
from tests.fakes.kube.api import Reply, Request
from tests.fakes.kube.cluster import KubeCluster
from tests.fakes.kube.tls import Authority


class Fault(Enum):
    """What may happen to a request."""

    HANG = auto()  # it arrives, and nothing comes back for as long as the caller waits
    CLOSE_BEFORE = auto()  # the connection is closed before it is looked at
    CLOSE_AFTER = auto()  # it takes effect, and the connection is closed
    CUT = auto()  # half of the reply arrives
    BUSY = auto()  # 429
    BROKEN = auto()  # 500
    LATE = auto()  # 504
    HTML = auto()  # a proxy's page
    EMPTY = auto()  # 200, and no body


Judge = Callable[[Request], Fault | None]

_STATUSES = {
    Fault.BUSY: (429, "TooManyRequests", "the server has received too many requests"),
    Fault.BROKEN: (500, "InternalError", "Internal error occurred: etcdserver: leader changed"),
    Fault.LATE: (504, "Timeout", "Timeout: request did not complete within the allotted timeout"),
}


@dataclass
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    query: dict[str, str]


class KubeServer:
    """A cluster that real HTTP clients can reach.

    Attributes:
        cluster: What answers.
        host: Its URL.
        ca_pem: The authority that signed its certificate.
        seen: Every request that arrived, in order.
    """

    def __init__(self, cluster: KubeCluster, authority: Authority) -> None:
        self.cluster = cluster
        self.ca_pem = authority.ca_pem
        self.seen: list[Seen] = []
        self._judge: Judge | None = None
        self._lock = threading.Lock()
        self._woken = threading.Event()
        outer = self

        class Handler(_Handler):
            server_of = outer

        self._http = _Server(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(authority.certificate_file, authority.key_file)
        self._http.socket = context.wrap_socket(
            self._http.socket, server_side=True, do_handshake_on_connect=False
        )
        self.host = f"https://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._woken.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @contextmanager
    def faults(self, judge: Judge) -> Iterator[None]:
        """Let a judge say what happens to each request."""
        before, self._judge = self._judge, judge
        try:
            yield
        finally:
            self._judge = before

    def judged(self, request: Request) -> Fault | None:
        self.seen.append(Seen(request.method, request.path, request.query))
        return None if self._judge is None else self._judge(request)

    def answer(self, request: Request) -> Reply:
        with self._lock:
            return self.cluster.handle(request)

    def hang(self) -> None:
        self._woken.wait(30)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a caller that gives up is what these tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body leave together, or each reply waits for a delayed acknowledgement.
    wbufsize = -1
    disable_nagle_algorithm = True
    server_of: KubeServer

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length)
        request = Request(
            self.command,
            self.path,
            json.loads(raw) if raw else None,
            {k.lower(): v for k, v in self.headers.items()},
        )
        server = self.server_of
        match server.judged(request):
            case None:
                self._reply(server.answer(request))
            case Fault.HANG:
                server.hang()
                self.close_connection = True
            case Fault.CLOSE_BEFORE:
                self.close_connection = True
            case Fault.CLOSE_AFTER:
                server.answer(request)
                self.close_connection = True
            case Fault.CUT:
                whole = server.answer(request)
                self._reply(Reply(whole.status, None, whole.encoded()), cut=True)
            case Fault.HTML:
                self._reply(Reply(502, None, b"<html><body>Bad Gateway</body></html>"))
            case Fault.EMPTY:
                self._reply(Reply(200, None, b""))
            case fault:
                code, reason, said = _STATUSES[fault]
                self._reply(Reply(code, statuses.failure(code, reason, said).body))

    do_GET = _serve  # noqa: N815
    do_POST = _serve  # noqa: N815
    do_PATCH = _serve  # noqa: N815
    do_DELETE = _serve  # noqa: N815

    def _reply(self, reply: Reply, *, cut: bool = False) -> None:
        body = reply.encoded()
        self.send_response_only(reply.status)
        # The cluster's clock, not this machine's: a caller compares it with its own.
        self.send_header("Date", format_datetime(self.server_of.cluster.now, usegmt=True))
        self.send_header("Content-Type", "application/json" if reply.raw is None else "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if cut else body)
        self.close_connection = self.close_connection or cut
