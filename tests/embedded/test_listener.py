"""The listener: HTTP of this machine's user as the events that an HTTP API sends."""

import base64
import io
import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from dispatch.api import MAX_BODY_BYTES
from dispatch.errors import Forbidden
from embedded import listener, peer
from embedded.listener import Listener, event_of, local_actor
from tests.functions.world import World

SPEC = {"name": "train", "command": ["true"]}


def environ(method: str = "GET", path: str = "/whoami", body: bytes = b"", **extra: Any) -> Any:
    return {
        "REQUEST_METHOD": method,
        "PATH_INFO": path,
        "QUERY_STRING": "",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "SERVER_PORT": "8750",
        "REMOTE_ADDR": "127.0.0.1",
        "REMOTE_PORT": "40000",
        "HTTP_HOST": "127.0.0.1:8750",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": io.BytesIO(body),
        **extra,
    }


class Answered:
    """One answer of a listener."""

    def __init__(self, application: Listener, asked: Any) -> None:
        self.headers: dict[str, str] = {}

        def start(status: str, headers: list[tuple[str, str]]) -> None:
            self.status = int(status.split(maxsplit=1)[0])
            self.headers = {name.lower(): value for name, value in headers}

        self.body = b"".join(application(asked, start))


@pytest.fixture
def application() -> Listener:
    from functions.intents.app import make_handler

    world = World()
    handler = make_handler(world.wiring, world.log, actor=local_actor)
    return Listener(handler, "ada", known_peer=False)


def test_every_caller_is_the_local_user(application: Listener) -> None:
    answer = Answered(application, environ())
    assert (answer.status, json.loads(answer.body)["actor"]) == (200, "local:ada")
    assert answer.headers["cache-control"] == "no-store"


def test_the_console_s_files_keep_their_own_word_about_caches(application: Listener) -> None:
    page = Answered(application, environ(path="/ui/app.js"))
    assert page.status == 200
    assert page.headers["cache-control"] == "no-cache"
    again = environ(path="/ui/app.js", HTTP_IF_NONE_MATCH=page.headers["etag"])
    kept = Answered(application, again)
    assert (kept.status, kept.body) == (304, b"")
    assert "content-length" not in kept.headers


def test_an_event_that_is_not_this_listener_s_names_nobody() -> None:
    for authorizer in ({}, {"iam": {"userArn": "arn"}}, {"local": {"user": ""}}):
        with pytest.raises(Forbidden):
            local_actor({"requestContext": {"authorizer": authorizer}})


def test_a_body_travels_byte_for_byte(application: Listener) -> None:
    body = json.dumps({"cluster": "main", "spec": {**SPEC, "labels": {"für": "ä"}}}).encode()
    asked = environ(
        "POST",
        "/jobs",
        body,
        CONTENT_TYPE="application/json",
        HTTP_IDEMPOTENCY_KEY="key-1",
    )
    assert Answered(application, asked).status == 201
    event = event_of(environ("POST", "/jobs", b"\xff\x00"), "ada")
    assert base64.b64decode(event["body"]) == b"\xff\x00"


def test_a_path_and_a_query_travel_as_an_http_api_sends_them() -> None:
    asked = environ(path="/jobs", QUERY_STRING="limit=2&cursor=a%2Bb&limit=3&empty=")
    event = event_of(asked, "ada")
    assert event["rawQueryString"] == "limit=2&cursor=a%2Bb&limit=3&empty="
    assert event["queryStringParameters"] == {"limit": "2,3", "cursor": "a+b", "empty": ""}


@pytest.mark.parametrize("host", ["evil.example.com", "evil.example.com:8750", "", "10.0.0.1"])
def test_a_name_that_only_points_here_is_refused(application: Listener, host: str) -> None:
    answer = Answered(application, environ(HTTP_HOST=host))
    assert answer.status == 403
    assert json.loads(answer.body)["code"] == "forbidden"


def test_a_body_that_is_too_large_is_refused_unread(application: Listener) -> None:
    asked = environ("POST", "/jobs", CONTENT_LENGTH=str(MAX_BODY_BYTES + 1))
    asked["wsgi.input"] = None
    assert Answered(application, asked).status == 413


@pytest.mark.parametrize(("uid", "status"), [(os.getuid(), 200), (54321, 403), (None, 403)])
def test_only_the_owner_s_processes_are_let_in(
    application: Listener, monkeypatch: pytest.MonkeyPatch, uid: int | None, status: int
) -> None:
    monkeypatch.setattr(listener, "uid_of_peer", lambda *_: uid)
    strict = Listener(application._handler, "ada", known_peer=True)
    assert Answered(strict, environ()).status == status


# --- who is at the other end ------------------------------------------------------------------

TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:222E 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1
   1: 0100007F:9C40 0100007F:222E 01 00000000:00000000 00:00000000 00000000  1001        0 2 1
   2: 0100007F:222E 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  1000        0 3 1
"""


def test_the_peer_s_user_is_told_from_our_own(tmp_path: Path) -> None:
    table = tmp_path / "tcp"
    table.write_text(TABLE)
    assert peer.uid_of_peer(40_000, 8_750, table) == 1001
    assert peer.uid_of_peer(8_750, 40_000, table) == 1000
    assert peer.uid_of_peer(40_001, 8_750, table) is None
    assert peer.uid_of_peer(40_000, 8_750, tmp_path / "nothing") is None


def test_a_connection_of_our_own_is_known_as_ours() -> None:
    assert peer.can_tell()
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(1)
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
            assert peer.uid_of_peer(client.getsockname()[1], port) == os.getuid()
