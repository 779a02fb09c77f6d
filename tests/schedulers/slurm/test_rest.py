"""The thin client: one request each, whole replies, connections kept."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from dispatch.schedulers.slurm import request
from dispatch.schedulers.slurm.rest import NoReply, Rest
from dispatch.schedulers.slurm.settings import Bounds
from dispatch.schedulers.slurm.tokens import MintedTokens
from tests.schedulers.slurm.certificates import certificate
from tests.schedulers.slurm.conftest import Clock, settings
from tests.schedulers.slurm.fake import KEY, FakeSlurm, Served

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
BODY = json.dumps({"jobs": []}).encode()
WHOLE = HEAD % len(BODY) + BODY


class Peer:
    """A server that answers each request with the next of its bytes, or hangs up."""

    def __init__(self, answers: list[bytes | None]) -> None:
        self.answers = answers
        self.requests: list[bytes] = []
        self.connections = 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while True:
            try:
                one, _ = self.socket.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._converse, args=(one,), daemon=True).start()

    def _converse(self, one: socket.socket) -> None:
        with one, suppress(OSError):
            while True:
                raw = b""
                while b"\r\n\r\n" not in raw:
                    got = one.recv(65536)
                    if not got:
                        return
                    raw += got
                self.requests.append(raw)
                answer = self.answers.pop(0) if self.answers else None
                if answer is None:
                    return
                one.sendall(answer)
                if not answer.endswith(BODY):
                    return

    def close(self) -> None:
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


@contextmanager
def speaking_to(
    answers: list[bytes | None], monotonic: Callable[[], float] = time.monotonic
) -> Iterator[tuple[Rest, Peer]]:
    peer = Peer(answers)
    cluster = settings(
        url=f"http://127.0.0.1:{peer.socket.getsockname()[1]}/gate",
        bounds=Bounds(request_timeout_s=5),
    )
    rest = Rest(cluster, MintedTokens(lambda: b"k", Clock()), monotonic=monotonic)
    try:
        yield rest, peer
    finally:
        rest.close()
        peer.close()


def send(rest: Rest, question: request.Question) -> object:
    return rest.send("v0.0.42", question, user="trainer", lifetime_s=5).body


def test_a_reply_is_read_and_the_connection_kept() -> None:
    with speaking_to([WHOLE, WHOLE]) as (rest, peer):
        assert send(rest, request.jobs()) == {"jobs": []}
        assert send(rest, request.jobs()) == {"jobs": []}
        assert peer.connections == 1
        first = peer.requests[0].decode()
        assert first.startswith("GET /gate/slurm/v0.0.42/jobs/ HTTP/1.1\r\n")
        assert "X-SLURM-USER-NAME: trainer" in first
        assert "X-SLURM-USER-TOKEN: ey" in first


@pytest.mark.parametrize(
    "question", [request.jobs(), request.cancel(7), request.hold(7), request.requeue(7)]
)
def test_a_request_without_a_reply_is_never_repeated(question: request.Question) -> None:
    with speaking_to([None, WHOLE]) as (rest, peer):
        with pytest.raises(NoReply) as caught:
            send(rest, question)
        assert caught.value.sent
        assert not caught.value.begun
        assert len(peer.requests) == 1


@pytest.mark.parametrize("cut", [HEAD % len(BODY) + BODY[:4], HEAD % 10_000_000 + b"{" * 70_000])
def test_a_reply_that_is_cut_is_no_reply(cut: bytes) -> None:
    with speaking_to([cut]) as (rest, _):
        with pytest.raises(NoReply) as caught:
            send(rest, request.jobs())
        assert caught.value.begun


@pytest.mark.parametrize("status", [301, 302, 307, 503])
def test_no_redirect_is_followed_and_no_retry_made(status: int) -> None:
    moved = (
        b"HTTP/1.1 %d Elsewhere\r\nLocation: /other\r\nRetry-After: 0\r\nContent-Length: %d\r\n\r\n"
        % (status, len(BODY))
        + BODY
    )
    with speaking_to([moved, WHOLE]) as (rest, peer):
        reply = rest.send("v0.0.42", request.jobs(), user="trainer", lifetime_s=5)
        assert reply.status == status
        assert len(peer.requests) == 1


def test_nobody_listening_means_that_nothing_was_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    cluster = settings(url=f"http://127.0.0.1:{port}")
    rest = Rest(cluster, MintedTokens(lambda: b"k", Clock()), monotonic=time.monotonic)
    with pytest.raises(NoReply) as caught:
        send(rest, request.cancel(7))
    assert not caught.value.sent


def test_a_reply_that_trickles_is_given_up_at_the_time_out() -> None:
    ticks = iter(range(0, 1000, 4))
    long = HEAD % (200_000 + len(BODY)) + b" " * 200_000 + BODY
    with speaking_to([long], monotonic=lambda: float(next(ticks))) as (rest, _):
        with pytest.raises(NoReply, match="request_timeout_s") as caught:
            send(rest, request.jobs())
        assert caught.value.begun


def test_what_isnt_json_is_handed_on_as_text() -> None:
    page = b"<html>down</html>"
    with speaking_to([HEAD % len(page) + page]) as (rest, _):
        assert send(rest, request.jobs()) == "<html>down</html>"


@pytest.mark.parametrize("trusted", [True, False])
def test_over_tls_only_a_server_that_is_trusted_gets_a_token(tmp_path: Path, trusted: bool) -> None:
    cert_file, key_file = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert_file, key_file)
    fake = FakeSlurm(now=Clock().epoch)
    served = Served(fake, context)
    cluster = settings(url=fake.url, ca_file=str(cert_file) if trusted else None)
    rest = Rest(cluster, MintedTokens(lambda: KEY, Clock()), monotonic=time.monotonic)
    try:
        if trusted:
            assert rest.send("v0.0.42", request.ping(), user="ann", lifetime_s=5).status == 200
        else:
            with pytest.raises(NoReply, match="certificate"):
                rest.send("v0.0.42", request.ping(), user="ann", lifetime_s=5)
            assert fake.asked == []
    finally:
        rest.close()
        served.close()
