"""Every recording is read to the right class, state and cause."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dispatch.schedulers.eks.explain import explain
from dispatch.schedulers.eks.response import AnswerClass
from tests.schedulers.eks.expectations import EXPECTED, Expected

RECORDINGS = Path(__file__).parent / "recordings"


def recording(name: str) -> Any:
    return json.loads((RECORDINGS / f"{name}.json").read_text())


def test_every_recording_has_an_expectation() -> None:
    assert {path.stem for path in RECORDINGS.glob("*.json")} == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_recording_is_read_to_its_class_state_and_cause(name: str) -> None:
    seen = explain(recording(name))
    assert (
        Expected(
            answer=str(seen.answer),
            state=None if seen.state is None else str(seen.state),
            cause=None if seen.cause is None else str(seen.cause),
            exit_code=seen.exit_code,
            held=seen.held,
            proven=not seen.unproven,
        )
        == EXPECTED[name]
    )


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_recording_is_read_the_same_from_its_text(name: str) -> None:
    text = (RECORDINGS / f"{name}.json").read_text()
    assert explain(text) == explain(text.encode()) == explain(json.loads(text))


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_unknown_fields_change_nothing(name: str) -> None:
    # F30: a server may add fields at any time.
    def with_more(value: Any) -> Any:
        if isinstance(value, dict):
            grown = {k: with_more(v) for k, v in value.items()}
            maps = ("labels", "annotations", "matchLabels", "nodeSelector")
            inner = {k: v if k in maps else grown[k] for k, v in value.items()}
            return {**inner, "addedIn99": {"deep": [1, 2]}} if "metadata" in value else inner
        return [with_more(v) for v in value] if isinstance(value, list) else value

    document = recording(name)
    assert explain(with_more(document)) == explain(document)


def test_the_detail_keeps_the_schedulers_own_words() -> None:
    assert "termination message" in explain(recording("real-exit3")).detail
    assert "exceeds the limit" in explain(recording("real-evicted-ephem")).detail
    assert "nosuch" in explain(recording("real-badvol")).detail


def test_times_and_nodes_are_read() -> None:
    seen = explain(recording("real-oom"))
    assert seen.nodes == ("real1",)
    assert seen.ended_at == datetime(2026, 11, 29, 13, 47, 46, tzinfo=UTC)
    lost = explain(recording("pod-on-lost-node"))
    assert lost.lost_at == datetime(2026, 11, 29, 13, 30, 25, tzinfo=UTC)


def test_a_start_that_never_happened_has_no_time() -> None:
    # The runtime writes 1970 there.
    assert explain(recording("real-noexec")).started_at is None


@pytest.mark.parametrize(
    "document",
    [
        "",
        b"",
        "<html><body>502 Bad Gateway</body></html>",
        "null",
        "[]",
        "{}",
        "3",
        '"Unauthorized"',
        "{",
        '{"kind": "Status", "status": "Failure", "reason": "Unauthorized", "code": 401}',
        '{"kind": "Status", "status": "Failure", "reason": "TooManyRequests", "code": 429}',
        '{"kind": "Status", "status": "Failure", "reason": "InternalError", "code": 500}',
        '{"kind": "Status", "status": "Failure", "reason": "ServiceUnavailable", "code": 503}',
        '{"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}',
        '{"kind": "Job", "metadata": "disp"}',
        '{"kind": "Pod", "metadata": {"name": 7}}',
        '{"kind": "Pod", "metadata": {"name": "p"}, "status": {"containerStatuses": {}}}',
        '{"type": "ERROR", "object": {"kind": "Status", "status": "Failure", "code": 410,'
        ' "reason": "Expired"}}',
    ],
)
def test_f06_f13_what_is_no_answer_is_no_evidence(document: str | bytes) -> None:
    seen = explain(document)
    assert seen.answer is AnswerClass.NO_EVIDENCE
    assert (seen.state, seen.cause) == (None, None)
    assert seen.detail or seen.what


def test_f15_a_job_that_isnt_there_is_not_known_and_no_end() -> None:
    seen = explain(
        {
            "kind": "Status",
            "status": "Failure",
            "reason": "NotFound",
            "code": 404,
            "details": {"name": "d-job-1-1", "group": "batch", "kind": "jobs"},
        }
    )
    assert (seen.answer, seen.state, seen.cause) == (AnswerClass.NOT_KNOWN, None, None)


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ('pods "x" is forbidden: exceeded quota: rq, requested: pods=1', AnswerClass.REFUSED),
        (
            'jobs.batch is forbidden: User "u" cannot create resource "jobs" in API group "batch"',
            AnswerClass.REFUSED,
        ),
        (
            'jobs.batch is forbidden: User "u" cannot list resource "jobs" in API group "batch"',
            AnswerClass.NO_EVIDENCE,
        ),
    ],
)
def test_forbidden_is_a_no_to_a_call_and_no_answer_to_a_question(
    message: str, answer: AnswerClass
) -> None:
    body = {"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403}
    assert explain({**body, "message": message}).answer is answer
