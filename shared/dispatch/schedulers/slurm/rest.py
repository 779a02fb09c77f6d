"""The thin client: one request, one reply, no silent repeats."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import urllib3

from dispatch.schedulers.slurm.request import Question
from dispatch.schedulers.slurm.response import Reply
from dispatch.schedulers.slurm.settings import SlurmCluster
from dispatch.schedulers.slurm.tokens import Tokens

_CONNECT_TIMEOUT_S = 5.0
_CHUNK = 1 << 16
MAX_BYTES = 512 * 1024 * 1024
"""A reply that is longer isn't read on: nothing may be concluded from a part."""


class NoReply(Exception):
    """No whole reply came.

    Attributes:
        sent: Whether the request may have reached the server.
        begun: Whether an answer had begun to arrive.
    """

    def __init__(self, reason: str, *, sent: bool, begun: bool = False) -> None:
        super().__init__(reason)
        self.sent = sent
        self.begun = begun


class Rest:
    """slurmrestd over HTTP; connections are kept, requests are never repeated."""

    def __init__(
        self, cluster: SlurmCluster, tokens: Tokens, *, monotonic: Callable[[], float]
    ) -> None:
        self._cluster = cluster
        self._tokens = tokens
        self._monotonic = monotonic
        parts = urlsplit(cluster.url)
        assert parts.hostname is not None
        self._prefix = parts.path.rstrip("/")
        self._pool: urllib3.HTTPConnectionPool
        if parts.scheme == "https":
            self._pool = urllib3.HTTPSConnectionPool(
                parts.hostname,
                parts.port or 443,
                maxsize=4,
                cert_reqs="CERT_REQUIRED",
                ca_certs=cluster.ca_file,
            )
        else:
            self._pool = urllib3.HTTPConnectionPool(parts.hostname, parts.port or 80, maxsize=4)

    def send(self, api: str, question: Question, *, user: str, lifetime_s: int) -> Reply:
        """Return the one reply to a question.

        Raises:
            NoReply: It didn't come, or not whole.
            SchedulerUnavailable: There is no token; nothing was sent.
        """
        path = f"/{question.book}/{api}/{question.path}"
        return self.fetch(
            question.method, path, body=question.body, user=user, lifetime_s=lifetime_s
        )

    def fetch(
        self, method: str, path: str, *, user: str, lifetime_s: int, body: Any = None
    ) -> Reply:
        """Return the one reply to a request by its whole path; as `send`."""
        headers = {
            "Accept": "application/json",
            "X-SLURM-USER-NAME": user,
            "X-SLURM-USER-TOKEN": self._tokens.token(user, lifetime_s),
        }
        raw = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            raw = json.dumps(body).encode()
        status, content = self._exchange(method, path, raw, headers)
        return Reply(method, path, status, _parsed(content), body)

    def _exchange(
        self, method: str, path: str, raw: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        limit = float(self._cluster.bounds.request_timeout_s)
        ends = self._monotonic() + limit
        try:
            response = self._pool.urlopen(
                method,
                self._prefix + path,
                body=raw,
                headers=headers,
                retries=False,
                redirect=False,
                assert_same_host=False,
                preload_content=False,
                timeout=urllib3.Timeout(connect=min(_CONNECT_TIMEOUT_S, limit), read=limit),
            )
            try:
                return response.status, self._content(response, ends)
            except (urllib3.exceptions.HTTPError, OSError) as e:
                raise NoReply(f"the reply was cut: {e}", sent=True, begun=True) from None
            finally:
                response.release_conn()
        except (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError) as e:
            raise NoReply(f"no connection: {e}", sent=False) from None
        except (urllib3.exceptions.HTTPError, OSError) as e:
            raise NoReply(f"no whole reply: {type(e).__name__}: {e}", sent=True) from None

    def _content(self, response: urllib3.BaseHTTPResponse, ends: float) -> bytes:
        chunks: list[bytes] = []
        size = 0
        for chunk in response.stream(_CHUNK):
            chunks.append(chunk)
            size += len(chunk)
            if size > MAX_BYTES:
                response.close()
                raise NoReply(f"the reply is longer than {MAX_BYTES} bytes", sent=True, begun=True)
            if self._monotonic() > ends:
                response.close()
                raise NoReply("the reply took longer than request_timeout_s", sent=True, begun=True)
        return b"".join(chunks)

    def forget_token(self) -> None:
        """Have the next call read its secret again."""
        self._tokens.forget()

    def close(self) -> None:
        """Close the kept connections."""
        self._pool.close()


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return content[:4096].decode("utf-8", "replace")
