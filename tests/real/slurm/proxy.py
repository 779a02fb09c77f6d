"""A proxy before slurmrestd that loses, cuts and swallows what a test tells it to."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Callable
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


class Trouble(StrEnum):
    """What happens to one request."""

    NONE = "it gets through and back"
    SWALLOW = "it doesn't get through"
    LOSE_REPLY = "it takes effect and its reply is lost"
    CUT_REPLY = "its reply arrives in part"


Chooser = Callable[[str, str], Trouble]


def none(method: str, path: str) -> Trouble:
    return Trouble.NONE


def is_call(method: str, path: str) -> bool:
    """Return whether a request changes something."""
    return method != "GET" or path.partition("?")[0].endswith("/requeue")


class Proxy:
    """Forwards to one upstream; `choose` says what goes wrong with each request."""

    def __init__(self, upstream: str, tls: ssl.SSLContext | None = None) -> None:
        parts = urlsplit(upstream)
        self.choose: Chooser = none
        self.requests: list[tuple[str, str]] = []
        self.sent_bytes = 0
        proxy = self

        class Handler(_Handler):
            def upstream(self) -> http.client.HTTPConnection:
                return http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=60)

            def chosen(self) -> Trouble:
                proxy.requests.append((self.command, self.path))
                return proxy.choose(self.command, self.path)

            def sent(self, size: int) -> None:
                proxy.sent_bytes += size

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def upstream(self) -> http.client.HTTPConnection:
        raise NotImplementedError

    def chosen(self) -> Trouble:
        raise NotImplementedError

    def sent(self, size: int) -> None:
        raise NotImplementedError

    def _forward(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        trouble = self.chosen()
        if trouble is Trouble.SWALLOW:
            return self._hang_up()
        names = ("Accept", "Content-Type", "X-SLURM-USER-NAME", "X-SLURM-USER-TOKEN")
        headers = {name: self.headers[name] for name in names if name in self.headers}
        connection = self.upstream()
        try:
            connection.request(self.command, self.path, body=raw or None, headers=headers)
            reply = connection.getresponse()
            content = reply.read()
        except (OSError, http.client.HTTPException):
            return self._hang_up()
        finally:
            connection.close()
        if trouble is Trouble.LOSE_REPLY:
            return self._hang_up()
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.headers.get("Content-Type", "text/plain"))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if trouble is Trouble.CUT_REPLY:
            self.wfile.write(content[: len(content) // 2])
            return self._hang_up()
        self.sent(len(content))
        self.wfile.write(content)
        return None

    def _hang_up(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_POST = do_DELETE = _forward  # noqa: N815 - the names are http.server's

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
