"""Requests are strict, answers may gain fields, and what is sent can be read back."""

import json
from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from dispatch.api import (
    IntentRequest,
    Problem,
    ReceiptAnswer,
    StatusAnswer,
    SubmitRequest,
    answer_text,
    parse_intent,
    parse_submit,
    status_of,
)
from dispatch.core.fold import fold
from dispatch.core.project import Staleness, Status, project
from dispatch.errors import InvalidRequest
from dispatch.record.names import IntentKind
from tests.functions.world import World


def test_an_answer_with_a_field_of_a_later_build_is_read() -> None:
    text = '{"job_id":"j","intent_id":"i","kind":"cancel","entry":1,"repeated":false,"new":[1]}'
    assert ReceiptAnswer.model_validate_json(text).kind is IntentKind.CANCEL


def test_an_answer_is_read_strictly_all_the_same() -> None:
    with pytest.raises(ValidationError):
        Problem.model_validate_json('{"type":"t","title":"t","status":"4","code":"c","detail":""}')


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('{"kind":"cancel","id":"i","by":"mallory"}', "by"),
        ('{"kind":"cancel","id":"i","id":"j"}', "id"),
        ('{"kind":"destroy","id":"i"}', "kind"),
        ('{"kind":"cancel"}', "id"),
        ('{"kind":"cancel","id":"with space"}', "id"),
        ('{"kind":"cancel","id":1}', "id"),
    ],
)
def test_an_intent_is_refused_by_the_field_that_is_wrong(text: str, field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_intent(text, job="jabcdefgh")
    assert refused.value.field == field
    assert refused.value.job == "jabcdefgh"


def test_a_request_as_a_client_writes_it_is_read_back() -> None:
    request = SubmitRequest.model_validate_json(
        '{"cluster":"main","spec":{"name":"x","command":["y"]},"start_retries":0}'
    )
    assert parse_submit(request.model_dump_json(exclude_none=True)) == request
    intent = IntentRequest(kind=IntentKind.HOLD, id="i-1", reason="wait")
    assert parse_intent(intent.model_dump_json(exclude_none=True)) == intent


def test_a_status_is_sent_field_by_field_as_projected() -> None:
    world = World()
    job_id = world.job()
    world.settle(job_id)
    now = world.clock()
    job = fold(world.store.read(job_id), now)
    status = project(job, None, now, staleness=Staleness("me", now, now, "no answer"))
    sent = StatusAnswer.model_validate_json(answer_text(status_of(status, job.header, now)))
    assert set(Status.__slots__) <= set(StatusAnswer.model_fields)
    for name in ("state", "outcome", "desired", "revision", "ref", "evidence_at", "settled_at"):
        assert getattr(sent, name) == getattr(status, name), name
    assert sent.stale_since is not None
    assert sent.stale_since.last_error == "no answer"


def test_times_are_sent_in_utc_with_microseconds() -> None:
    world = World()
    job_id = world.job()
    told = json.loads(world.http("GET", f"/jobs/{job_id}").text)["created_at"]
    assert told.endswith("Z")
    assert datetime.fromisoformat(told).tzinfo == UTC
