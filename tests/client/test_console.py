"""The local console: it answers its own page alone, only reads, and asks as whoever runs it."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest

from dispatch.client import Bearer, Client
from dispatch.client.console import Console
from tests.client.network import URL, Handlers, Scripted
from tests.functions.world import ADA, World

SECRET = "s3cret-of-this-run-and-no-other"
MINE = {"Authorization": f"Bearer {SECRET}"}


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def network(world: World) -> Handlers:
    return Handlers(world)


@pytest.fixture
def console(network: Handlers) -> Iterator[Console]:
    made = Console(Client(URL, transport=network, auth=Bearer(lambda: "callers")).relay, SECRET)
    made.start()
    yield made
    made.close()


def ask(console: Console, path: str, method: str = "GET", **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.request(method, console.origin + path, headers=named, trust_env=False)


def test_it_listens_on_the_loopback_interface_and_on_a_port_of_its_own(console: Console) -> None:
    where = urlsplit(console.origin)
    assert where.hostname == "127.0.0.1"
    assert where.port
    assert console.address == f"{console.origin}/ui#secret={SECRET}"


def test_the_page_and_its_files_come_with_their_strict_headers(console: Console) -> None:
    page = ask(console, "/ui")
    assert page.status_code == 200
    assert "default-src 'none'" in page.headers["content-security-policy"]
    script = ask(console, "/ui/app.js")
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    again = ask(console, "/ui/app.js", If_None_Match=script.headers["etag"])
    assert again.status_code == 304
    assert ask(console, "/ui/nothing.js").status_code == 404
    assert ask(console, "/").headers["location"] == "/ui"


def test_a_question_with_the_secret_is_asked_as_the_caller(
    console: Console, network: Handlers, world: World
) -> None:
    job = world.job()
    answer = ask(console, f"/jobs/{job}/why?utc_offset_min=60", **MINE)
    assert answer.status_code == 200
    assert answer.json()["job_id"] == job
    (asked,) = network.seen
    assert asked.headers["authorization"] == "Bearer callers"
    assert asked.url.query == b"utc_offset_min=60"
    assert ask(console, "/whoami", **MINE).json()["actor"] == ADA


@pytest.mark.parametrize("brought", ["", "Bearer", f"Bearer {SECRET}x", f"Basic {SECRET}", SECRET])
def test_a_question_without_the_secret_is_never_asked(
    console: Console, network: Handlers, brought: str
) -> None:
    answer = ask(console, "/jobs", Authorization=brought)
    assert answer.status_code == 401
    assert "dispatch ui" in answer.json()["detail"]
    assert network.seen == []


@pytest.mark.parametrize("path", ["/jobs", "/ui", "/ui/app.js", "/"])
@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "localhost", "127.0.0.1:1"])
def test_a_name_that_was_pointed_here_gets_nothing(
    console: Console, network: Handlers, host: str, path: str
) -> None:
    answer = ask(console, path, Host=host, **MINE)
    assert answer.status_code == 403
    assert SECRET not in answer.text
    assert network.seen == []


def test_a_request_without_a_host_gets_nothing(console: Console, network: Handlers) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(console.origin).port)
    connection.putrequest("GET", "/jobs", skip_host=True)
    connection.putheader("Authorization", f"Bearer {SECRET}")
    connection.endheaders()
    assert connection.getresponse().status == 403
    connection.close()
    assert network.seen == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "none"},
    ],
)
def test_another_page_may_not_ask_even_with_the_secret(
    console: Console, network: Handlers, headers: dict[str, str]
) -> None:
    answer = ask(console, "/jobs", **headers, **MINE)
    assert answer.status_code == 403
    assert network.seen == []
    assert not any(name.startswith("access-control") for name in answer.headers)


def test_its_own_page_may_ask(console: Console) -> None:
    mine = {"Origin": console.origin, "Sec_Fetch_Site": "same-origin", **MINE}
    assert ask(console, "/jobs", **mine).status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"])
def test_it_only_reads(console: Console, network: Handlers, world: World, method: str) -> None:
    job = world.job()
    answer = ask(console, f"/jobs/{job}", method, **MINE)
    assert answer.status_code == 405
    assert network.seen == []


@pytest.mark.parametrize(
    "path",
    [
        "/openapi.json",
        "/jobs/../whoami",
        "/jobs/%2e%2e/whoami",
        "//evil.example/jobs",
        "/jobs/",
        "/jobs//why",
        "/jobs/j@evil/why",
        "/jobs/jaaaaaaaa/export",
        "/nothing",
        "http://evil.example/jobs",
    ],
)
def test_only_the_questions_of_the_console_are_passed_on(
    console: Console, network: Handlers, path: str
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(console.origin).port)
    connection.request("GET", path, headers={"Host": urlsplit(console.origin).netloc, **MINE})
    assert connection.getresponse().status == 404
    connection.close()
    assert network.seen == []


def test_the_api_s_own_refusals_come_as_they_are(console: Console) -> None:
    answer = ask(console, "/jobs/jaaaaaaaa", **MINE)
    assert (answer.status_code, answer.json()["code"]) == (404, "job_not_found")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["cache-control"] == "no-store"


def test_an_api_that_doesn_t_answer_is_told_as_such() -> None:
    down = Scripted([httpx.ConnectError("refused"), httpx.ReadTimeout("slow")])
    console = Console(Client(URL, transport=down).relay, SECRET)
    told = [console.reply("GET", "/jobs", own(console)) for _ in range(2)]
    console.close()
    assert [one.status for one in told] == [502, 502]
    assert b'"code":"unreachable"' in told[0].body
    assert b'"code":"unanswered"' in told[1].body


def test_a_throttled_answer_keeps_its_word_of_when_to_come_again() -> None:
    busy = Scripted([httpx.Response(503, headers={"Retry-After": "2"}, text="{}")])
    console = Console(Client(URL, transport=busy).relay, SECRET)
    told = console.reply("GET", "/jobs", own(console))
    console.close()
    assert (told.status, told.headers["retry-after"]) == (503, "2")


def own(console: Console) -> dict[str, str]:
    return {"host": urlsplit(console.origin).netloc, "authorization": f"Bearer {SECRET}"}
