"""What frameworks and networks let through, in the manner of F13: refused, and never a 500."""

import base64
import json
from typing import Any

import pytest

from dispatch.api import MAX_BODY_BYTES
from dispatch.errors import CommitUnknown, StoreUnavailable
from dispatch.store.memory import MemoryRecords
from tests.functions.world import SPEC, World, http_event

BODY = json.dumps({"cluster": "main", "spec": SPEC})
KEY = {"idempotency-key": "k"}


def post(world: World, body: str, **headers: str) -> Any:
    return world.http("POST", "/jobs", body, headers={**KEY, **headers})


def test_a_duplicate_key_is_refused_though_the_last_one_would_win(world: World) -> None:
    answer = post(world, '{"cluster":"main","cluster":"wide","spec":' + json.dumps(SPEC) + "}")
    assert (answer.status, answer.body["field"]) == (400, "cluster")
    assert "twice" in answer.body["detail"]


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ("{", "character"),
        (BODY + "x", "extra data"),
        ('{"cluster":"main","spec":NaN}', "NaN"),
        ('{"cluster":"main","spec":{"name":"x","command":["y"],"nodes":"2"}}', "nodes"),
        ('{"cluster":"main","spec":{"name":"x","command":["y"],"nodes":2.5}}', "nodes"),
        ('{"cluster":"main","spec":{"name":"x","command":["y"],"color":1}}', "color"),
        ('{"cluster":"main"}', "spec"),
        ("[]", "spec"),
        ("null", "object"),
        ("[" * 100_000, "nested"),
        ('{"cluster":"main","spec":{"name":"\\ud800","command":["y"]}}', ""),
    ],
)
def test_a_malformed_body_is_refused_with_its_reason(world: World, body: str, word: str) -> None:
    answer = post(world, body)
    assert (answer.status, answer.body["code"]) == (400, "invalid_request")
    assert word in answer.body["detail"] or "[]" in body or "null" in body
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_body_that_is_not_utf_8_is_refused_and_not_a_500(world: World) -> None:
    event = http_event("POST", "/jobs", headers=KEY)
    event["body"] = base64.b64encode(BODY.encode()[:-2] + b'\xff"}').decode()
    event["isBase64Encoded"] = True
    answer = world.request(event)
    assert (answer.status, answer.body["code"]) == (400, "invalid_request")
    assert "UTF-8" in answer.body["detail"]


def test_a_base64_body_is_read_and_a_broken_one_refused(world: World) -> None:
    event = http_event("POST", "/jobs", headers=KEY)
    event["isBase64Encoded"] = True
    event["body"] = base64.b64encode(BODY.encode()).decode()
    assert world.request(event).status == 201
    event["body"] = "!!!"
    assert world.request(event).status == 400


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonl", "json"]
)
def test_another_content_type_or_none_is_refused(world: World, kind: str) -> None:
    answer = post(world, BODY, **{"content-type": kind})
    assert (answer.status, answer.body["code"]) == (415, "unsupported_media_type")


def test_a_missing_content_type_is_refused(world: World) -> None:
    event = http_event("POST", "/jobs", BODY, headers=KEY)
    del event["headers"]["content-type"]
    assert world.request(event).status == 415


def test_a_charset_beside_the_content_type_is_taken(world: World) -> None:
    kind = {"Content-Type": "Application/JSON; charset=utf-8"}
    event = http_event("POST", "/jobs", BODY, headers=KEY)
    del event["headers"]["content-type"]
    event["headers"].update(kind)
    assert world.request(event).status == 201


def test_a_body_that_is_too_large_is_refused_unread(world: World) -> None:
    answer = post(world, "x" * (MAX_BODY_BYTES + 1))
    assert (answer.status, answer.body["code"]) == (413, "body_too_large")


def test_f41_e_a_spec_that_would_not_fit_is_refused_before_anything_is_written(
    world: World,
) -> None:
    spec = {**SPEC, "env": {f"NAME_{k}": "x" * 32_000 for k in range(12)}}
    answer = world.submit(spec=spec)
    assert (answer.status, answer.body["code"]) == (413, "entry_too_large")
    assert world.store.list().items == ()


def test_f41_e_the_largest_intent_fits_whatever_was_written_before(world: World) -> None:
    job = world.job()
    receipt = world.intend(job, "cancel", "i" * 128, reason="\u00fc" * 4096)
    assert (receipt.status, receipt.body["effect"]) == (200, "applied")


@pytest.mark.parametrize("key", ["", "with space", "x" * 201, "\u00fcber"])
def test_a_key_that_is_none_is_refused(world: World, key: str) -> None:
    answer = world.http(
        "POST", "/jobs", json.loads(BODY), headers={"idempotency-key": key} if key else {}
    )
    assert (answer.status, answer.body["code"]) == (400, "invalid_request")
    assert "dempotency" in answer.body["field"]


@pytest.mark.parametrize(
    ("path", "query", "field"),
    [
        ("/jobs", "setled=true", "setled"),
        ("/jobs", "settled=yes", "settled"),
        ("/jobs", "limit=0", "limit"),
        ("/jobs", "limit=1001", "limit"),
        ("/jobs", "limit=-1", "limit"),
        ("/jobs", "limit=1&limit=2", "limit"),
        ("/jobs", "cursor=nonsense", "cursor"),
        ("/jobs", "summary=true&limit=101", "limit"),
        ("/whoami", "as=root", "as"),
    ],
)
def test_a_query_that_no_route_has_is_refused(
    world: World, path: str, query: str, field: str
) -> None:
    answer = world.http("GET", path, query=query)
    assert (answer.status, answer.body["field"]) == (400, field)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/jobs/a/b/c", 404),
        ("GET", "//", 404),
        ("GET", "/jobs/", 404),
        ("GET", "/jobs/\u00ceC\x15", 404),
        ("GET", "/jobs/a\x15/history", 404),
        ("GET", "/jobs/\ud800", 404),
        ("PUT", "/", 405),
        ("PUT", "/jobs", 405),
        ("PATCH", "/jobs/jaaaaaaaa", 405),
        ("OPTIONS", "/jobs", 405),
        ("HEAD", "/jobs", 405),
    ],
)
def test_what_no_route_answers_is_a_problem_too(
    world: World, method: str, path: str, status: int
) -> None:
    answer = world.http(method, path)
    assert answer.status == status
    assert answer.headers["content-type"] == "application/problem+json"
    # RFC 9110 asks for the methods beside a 405.
    methods = answer.headers.get("allow", "").split(", ")
    assert method not in methods
    assert (methods != [""]) == (status == 405)


class Broken(MemoryRecords):
    """A store that fails in a chosen way."""

    def __init__(self, error: Exception) -> None:
        super().__init__(lambda: "t")
        self.error = error

    def create(self, new: Any) -> Any:
        raise self.error

    def read(self, job_id: str) -> Any:
        raise self.error


def test_a_store_that_does_not_answer_is_said_to_be_tried_later() -> None:
    world = World(Broken(StoreUnavailable("no answer")))
    answer = world.submit()
    assert (answer.status, answer.body["code"]) == (503, "store_unavailable")
    assert int(answer.headers["retry-after"]) > 0


def test_a_commit_that_may_be_there_is_told_from_one_that_is_not() -> None:
    world = World(Broken(CommitUnknown("it may be there")))
    answer = world.submit()
    assert (answer.status, answer.body["code"]) == (504, "commit_unknown")
    assert "same key" in answer.body["detail"]


def test_what_nobody_foresaw_is_a_problem_without_inner_words() -> None:
    world = World(Broken(RuntimeError("secret inner words")))
    answer = world.http("GET", "/jobs/jaaaaaaaa")
    assert (answer.status, answer.body["code"]) == (500, "error")
    assert "secret" not in answer.text
