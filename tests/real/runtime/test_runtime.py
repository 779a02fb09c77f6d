"""The built functions under Amazon's own runtime."""

import json
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dispatch.core.fold import fold
from dispatch.record.codec import encode
from dispatch.record.control import CONTROL_SCHEMA, Control
from dispatch.record.names import IntentKind
from dispatch.record.view import Envelope
from dispatch.store.sqlite import SqliteRecords
from tests.functions.world import fixture
from tests.real.runtime.conftest import Start

LIMIT_BYTES = 6 * 1024 * 1024
FUNCTIONS = ("IntentsFunction", "SupervisorFunction", "EventsFunction", "RetentionFunction")


def request(method: str, path: str, body: Any = None, **headers: str) -> dict[str, Any]:
    """An HTTP API's event from somebody who signed."""
    event = fixture("http-iam", path=path, method=method)
    event["rawPath"] = path
    event["rawQueryString"] = ""
    event.pop("queryStringParameters", None)
    event["requestContext"]["http"] |= {"method": method, "path": path}
    event["requestContext"]["stage"] = "$default"
    event["headers"] = {"content-type": "application/json", **headers}
    event["isBase64Encoded"] = False
    event.pop("body", None)
    if body is not None:
        event["body"] = json.dumps(body)
    return event


def submission(cluster: str = "here") -> dict[str, Any]:
    body = {"spec": {"name": "x", "command": ["true"]}, "cluster": cluster}
    return request("POST", "/jobs", body, **{"idempotency-key": "one"})


def work(cluster: str, job: str) -> dict[str, Any]:
    body = json.dumps({"cluster": cluster, "jobs": [job]})
    return {"Records": [{"messageId": "m", "body": body, "eventSource": "aws:sqs"}]}


def test_the_api_takes_a_job_and_the_worker_runs_it(start: Start) -> None:
    intents, supervisor = start("IntentsFunction"), start("SupervisorFunction")
    made = intents.invoke(submission())
    assert made["statusCode"] == 201, made
    job = json.loads(made["body"])["job_id"]
    status: dict[str, Any] = {}
    for _ in range(20):
        assert supervisor.invoke(work("here", job)) == {"batchItemFailures": []}
        status = json.loads(intents.invoke(request("GET", f"/jobs/{job}"))["body"])
        if "outcome" in status:
            break
    assert status.get("outcome") == "succeeded"


def test_an_event_that_is_none_of_the_three_fails_by_name(start: Start) -> None:
    answer = start("SupervisorFunction").invoke({"source": "somewhere else"})
    assert answer["errorType"] == "InvalidRequest"
    assert "neither a tick, a stream nor a queue" in answer["errorMessage"]


def test_a_poison_message_is_given_back_and_no_other(start: Start) -> None:
    event = work("here", "jaaaaaaaa")
    event["Records"].append({"messageId": "bad", "body": "{", "eventSource": "aws:sqs"})
    answer = start("SupervisorFunction").invoke(event)
    assert answer == {"batchItemFailures": [{"itemIdentifier": "bad"}]}


def test_publishing_and_removal_answer_in_their_contract(start: Start) -> None:
    assert start("EventsFunction").invoke({"Records": []}) == {"batchItemFailures": []}
    assert start("RetentionFunction").invoke({}) == {"removed": 0, "complete": True}


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that takes connections and never says a word."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen(64)
        yield one.getsockname()[1]


def test_a_time_out_in_the_middle_of_a_pass_leaves_a_record_that_goes_on(
    start: Start, silent: int, tmp_path: Path
) -> None:
    secret = tmp_path / "token"
    secret.write_text("not a token")
    slurm = {
        "name": "hpc",
        "adapter": "slurm",
        "settings": {
            "url": f"http://127.0.0.1:{silent}",
            "api": "v0.0.42",
            "user": "dispatch",
            "sign_in": {"kind": "hs256", "secret": f"file:{secret}", "encoding": "text"},
            "queues": {"all": {"partition": "all"}},
            "default_queue": "all",
        },
    }
    secret.write_text("k" * 64)
    made = start("IntentsFunction", clusters=[slurm]).invoke(submission("hpc"))
    job = json.loads(made["body"])["job_id"]
    worker = start("SupervisorFunction", clusters=[slurm], timeout_s=8)
    answer = worker.invoke(work("hpc", job))
    assert "timed out" in json.dumps(answer).lower(), answer
    # The same process is used again, or a new one: either way the next call is answered.
    assert "batchItemFailures" in worker.invoke({"Records": [_bad()]})
    store = SqliteRecords(tmp_path / "records.sqlite", lambda: "t")
    folded = fold(store.read(job), datetime.now(UTC))
    assert folded.ending is None
    assert all(entry.schema == "dispatch.fact.v1" for entry in store.read(job).entries)


def _bad() -> dict[str, str]:
    return {"messageId": "bad", "body": "{", "eventSource": "aws:sqs"}


def test_an_answer_is_cut_before_the_limit_and_says_where_it_goes_on(
    start: Start, tmp_path: Path
) -> None:
    intents = start("IntentsFunction")
    job = json.loads(intents.invoke(submission())["body"])["job_id"]
    tokens = iter(range(10_000))
    store = SqliteRecords(tmp_path / "records.sqlite", lambda: f"t{next(tokens)}")
    for number in range(2000):
        wish = Control(
            kind=IntentKind.HOLD,
            id=f"i{number}",
            by="iam:arn:aws:iam::111122223333:user/ada",
            at=datetime.now(UTC),
            reason="x" * 4000,
        )
        store.commit(job, number, [Envelope(CONTROL_SCHEMA, encode(wish), "")])
    answer = intents.invoke(request("GET", f"/jobs/{job}/export"))
    assert answer["statusCode"] == 200
    assert LIMIT_BYTES // 2 < len(json.dumps(answer)) < LIMIT_BYTES
    last = int({k.lower(): v for k, v in answer["headers"].items()}["dispatch-next"])
    assert 0 < last < 2000


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_cold_start_writes_nothing_to_the_log_but_lambda_s_own_lines(
    start: Start, function: str
) -> None:
    runtime = start(function)
    runtime.invoke({})
    log = runtime.log.read_text()
    for fault in ("ImportModuleError", "ModuleNotFoundError", "DeprecationWarning"):
        assert fault not in log, log[-2000:]
