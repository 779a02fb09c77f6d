"""The console's files and the questions it asks: one list, strict headers, the same words."""

from __future__ import annotations

import json
import re
from datetime import UTC, timedelta, timezone
from html import unescape
from typing import Any

import pytest

from dispatch.api import answer_text, reader_of, story_of, timeline_of
from dispatch.api.console import ASSETS, HEADERS, asset
from dispatch.api.routes import ROUTES
from dispatch.narrate.story import why
from dispatch.narrate.words import Reader
from tests.architecture.sources import ROOT
from tests.functions.world import SPEC, Reply, World, http_event
from tests.narrate.stories import STORIES
from tests.narrate.written import at

FOLDER = ROOT / "shared/dispatch/ui"
SCRIPTS = sorted(FOLDER.glob("*.js"))


@pytest.fixture
def world() -> World:
    return World()


# --- the files --------------------------------------------------------------------------------


def test_the_console_s_list_is_what_the_folder_holds() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(ASSETS)


def test_the_page_is_answered_under_ui_and_by_its_name(world: World) -> None:
    page = world.http("GET", "/ui")
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.text == world.http("GET", "/ui/index.html").text
    assert "<title>Dispatch</title>" in page.text


@pytest.mark.parametrize("name", ASSETS)
def test_every_file_comes_with_its_type_and_the_strict_headers(world: World, name: str) -> None:
    answer = world.http("GET", f"/ui/{name}")
    assert answer.status == 200
    assert answer.headers["content-type"] == ASSETS[name]
    assert answer.text == (FOLDER / name).read_text(encoding="utf-8")
    for header, value in HEADERS.items():
        assert answer.headers[header.lower()] == value


def test_the_policy_lets_nothing_in_from_elsewhere_and_nothing_inline() -> None:
    rules = dict(one.split(" ", 1) for one in HEADERS["Content-Security-Policy"].split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["frame-ancestors"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for kind in ("script-src", "style-src", "connect-src", "img-src"):
        assert rules[kind] == "'self'"
    assert rules["trusted-types"] == "'none'"
    assert HEADERS["X-Content-Type-Options"] == "nosniff"


def test_a_file_that_is_had_already_isn_t_sent_again(world: World) -> None:
    etag = world.http("GET", "/ui/app.js").headers["etag"]
    again = world.http("GET", "/ui/app.js", headers={"if-none-match": f'"x", W/{etag}'})
    assert (again.status, again.text) == (304, "")
    assert again.headers["etag"] == etag
    other = world.http("GET", "/ui/app.js", headers={"if-none-match": '"x"'})
    assert other.status == 200


@pytest.mark.parametrize("name", ["nothing.js", "..%2fapi%2fconsole.py", ".", "__init__.py"])
def test_what_isn_t_on_the_list_isn_t_there(world: World, name: str) -> None:
    answer = world.http("GET", f"/ui/{name}")
    assert answer.status == 404
    assert asset(name) is None


def test_the_page_holds_nothing_inline_and_loads_nothing_from_anywhere_else() -> None:
    text = (FOLDER / "index.html").read_text()
    assert not re.search(r"\son\w+=|style=|<style|javascript:|https?://", text)
    assert re.findall(r"<script[^>]*>([^<]*)", text) == [""]
    used = re.findall(r'(?:src|href)="(?!#)([^"]+)"', text)
    assert {one.removeprefix("ui/") for one in used} <= set(ASSETS)
    css = (FOLDER / "app.css").read_text()
    assert not re.search(r"@import|https?:|url\((?!#)", css)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_never_takes_text_for_markup_or_code(script: Any) -> None:
    text = script.read_text()
    sinks = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc"
    assert not re.search(sinks, text)
    assert not re.search(r"setTimeout\(\s*[\"'`]|localStorage|document\.cookie", text)
    for name in re.findall(r'from "\./([^"]+)"', text):
        assert name in ASSETS
    assert len(text.splitlines()) <= 400


def test_the_console_asks_the_api_only_questions() -> None:
    """What is posted goes to the issuer, and one place does it."""
    for path in SCRIPTS:
        text = path.read_text()
        assert text.count("fetch(") == (1 if path.name in ("access.js", "signin.js") else 0)
        if path.name != "signin.js":
            assert not re.search(r"method:|\bPOST\b|\bDELETE\b", text)
    assert (
        'fetch(url, { ...how, credentials: "omit", redirect: "error" })'
        in (FOLDER / "signin.js").read_text()
    )


def test_whoever_is_let_to_the_console_isn_t_let_to_any_job(world: World) -> None:
    job = world.job()
    nobody = http_event("GET", f"/jobs/{job}/why")
    nobody["requestContext"].pop("authorizer")
    assert world.request(nobody).status == 403
    page = http_event("GET", "/ui")
    page["requestContext"].pop("authorizer")
    assert world.request(page).status == 200


def test_only_the_console_s_files_are_open_to_browsers_without_a_token() -> None:
    assert [one.path for one in ROUTES if one.console] == ["/ui", "/ui/{asset}"]
    assert [one.path for one in ROUTES if one.public] == ["/openapi.json", "/"]


# --- signing in -------------------------------------------------------------------------------

VARIABLES = {
    "ConsoleClient": "a-client",
    "ConsoleIssuer": "https://issuer.example/pool",
    "ConsoleAudience": "dispatch",
    "ConsoleScopes": "openid,offline_access",
    "ConsoleTokenOrigin": "https://tokens.issuer.example",
}


def deployed(world: World, name: str = "", **variables: str) -> Reply:
    """Ask for a file of the console as a stage with variables does."""
    event = http_event("GET", f"/ui{name}")
    event["stageVariables"] = {**VARIABLES, **variables}
    event["requestContext"].pop("authorizer")
    return world.request(event)


def connects(answer: Reply) -> str:
    policy = answer.headers["content-security-policy"]
    rules = dict(one.split(" ", 1) for one in policy.split("; "))
    assert {**rules, "connect-src": "'self'"} == dict(
        one.split(" ", 1) for one in HEADERS["Content-Security-Policy"].split("; ")
    )
    return rules["connect-src"]


def test_a_page_that_signs_in_is_told_how_and_may_ask_the_issuer_alone(world: World) -> None:
    page = deployed(world)
    told = re.search(r'<meta name="sign-in" content="([^"]+)">', page.text)
    assert told is not None
    assert json.loads(unescape(told[1])) == {
        "issuer": "https://issuer.example/pool",
        "client_id": "a-client",
        "audience": "dispatch",
        "scopes": "openid offline_access",
        "token_origin": "https://tokens.issuer.example",
    }
    wanted = "'self' https://issuer.example https://tokens.issuer.example"
    assert connects(page) == connects(deployed(world, "/app.js")) == wanted
    own = deployed(world, ConsoleTokenOrigin="")
    assert connects(own) == "'self' https://issuer.example"
    assert own.headers["etag"] != page.headers["etag"]
    bare = deployed(world, ConsoleClient="")
    assert bare.text == world.http("GET", "/ui").text
    assert connects(bare) == "'self'"


def test_what_a_deployment_says_of_the_issuer_is_never_markup(world: World) -> None:
    page = deployed(world, ConsoleClient='"><script>x</script>')
    assert "<script>x" not in page.text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ConsoleIssuer", ""),
        ("ConsoleIssuer", "http://issuer.example"),
        ("ConsoleIssuer", "javascript:alert(1)"),
        ("ConsoleIssuer", "https://issuer.example;script-src *"),
        ("ConsoleIssuer", "https://me:secret@issuer.example"),
        ("ConsoleIssuer", "https://issuer.example:port"),
        ("ConsoleTokenOrigin", "https://*"),
        ("ConsoleScopes", "email,profile"),
    ],
)
def test_an_issuer_that_no_page_should_ask_is_refused(world: World, name: str, value: str) -> None:
    answer = deployed(world, **{name: value})
    assert (answer.status, answer.body["code"]) == (500, "bad_configuration")
    assert name in answer.body["detail"]


def test_an_issuer_may_send_a_person_back_with_whatever_it_likes(world: World) -> None:
    event = http_event("GET", "/ui")
    event["rawQueryString"] = "code=a&state=b&session_state=c.d"
    event["queryStringParameters"] = {"code": "a", "state": "b", "session_state": "c.d"}
    assert world.request(event).status == 200


# --- the questions ----------------------------------------------------------------------------


def test_the_story_over_the_wire_is_the_one_that_the_command_line_tells(world: World) -> None:
    job = world.job()
    world.settle(job)
    told = world.http("GET", f"/jobs/{job}/why").body
    view = world.store.read(job)
    own = why(view, Reader(world.clock.now, UTC))
    assert told["headline"] == own.headline
    assert [one["title"] for one in told["sections"]] == [one.title for one in own.sections]
    assert told["sections"][1]["lines"] == list(own.sections[1].lines)
    assert [one["command"] for one in told["advice"]] == [one.command for one in own.advice]
    assert (told["name"], told["revision"], told["foldable"]) == ("train", view.revision, True)


def test_times_are_told_by_the_reader_s_clock(world: World) -> None:
    job = world.job()
    east = world.http("GET", f"/jobs/{job}/why", query="utc_offset_min=330").body
    assert "times in UTC+05:30" in east["sections"][0]["lines"][0]
    west = world.http("GET", f"/jobs/{job}/timeline", query="utc_offset_min=-90")
    assert west.status == 200
    for wrong in ("1440", "-1440", "abc", "--5", "-", "1.5"):
        refused = world.http("GET", f"/jobs/{job}/why", query=f"utc_offset_min={wrong}")
        assert (refused.status, refused.body["field"]) == (400, "utc_offset_min")


def test_a_timeline_over_the_wire_has_every_entry_and_goes_on_until_now(world: World) -> None:
    job = world.job()
    world.settle(job)
    told = world.http("GET", f"/jobs/{job}/timeline").body
    view = world.store.read(job)
    assert [one["entry"] for one in told["marks"]] == list(range(1, view.revision + 1))
    assert [one["entry"] for one in told["lines"]] == list(range(view.revision + 1))
    assert told["settled"] is True
    assert told["now"] > told["spans"][0]["start"]


@pytest.mark.parametrize("name", STORIES)
def test_every_story_can_be_sent_those_too_that_can_t_be_folded(name: str) -> None:
    view, seconds = STORIES[name]
    reader = Reader(at(seconds), timezone(timedelta(hours=1)))
    assert answer_text(story_of(view(), reader, None))
    assert answer_text(timeline_of(view(), reader))
    assert reader_of(at(0), 60).zone == timezone(timedelta(minutes=60))


@pytest.mark.parametrize("path", ["why", "timeline"])
def test_a_job_that_isn_t_there_has_neither_story_nor_picture(world: World, path: str) -> None:
    answer = world.http("GET", f"/jobs/jaaaaaaaa/{path}")
    assert (answer.status, answer.body["code"]) == (404, "job_not_found")


def listed(answer: Reply) -> list[str]:
    return [one["job_id"] for one in answer.body["jobs"]]


def test_a_listing_can_be_turned_round(world: World) -> None:
    jobs = [world.job(f"k-{n}") for n in range(5)]
    first = world.http("GET", "/jobs", query="order=newest&limit=2")
    assert listed(first) == jobs[:2:-1]
    cursor = first.body["cursor"]
    rest = world.http("GET", "/jobs", query=f"order=newest&limit=9&cursor={cursor}")
    assert listed(rest) == jobs[2::-1]
    assert listed(world.http("GET", "/jobs", query="order=oldest")) == jobs
    refused = world.http("GET", "/jobs", query="order=fastest")
    assert (refused.status, refused.body["field"]) == (400, "order")


def test_a_summary_says_whose_it_is_and_what_it_waits_for(world: World) -> None:
    world.job(spec={**SPEC, "labels": {"team": "vision"}})
    (line,) = world.http("GET", "/jobs", query="summary=true").body["jobs"]
    job = line["job_id"]
    assert line["summary"]["labels"] == {"team": "vision"}
    world.intend(job, "hold")
    (line,) = world.http("GET", "/jobs", query="summary=true").body["jobs"]
    waits = line["summary"]["waiting_for"]
    assert [one["what"] for one in waits] == ["person"]
