"""The built functions under Amazon's own runtime."""

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from time import sleep
from typing import Any
from urllib.parse import parse_qsl

import pytest

from dispatch.core.fold import fold
from dispatch.core.parts import AttemptState
from dispatch.record.codec import encode, parse_strict
from dispatch.record.control import CONTROL_SCHEMA, Control
from dispatch.record.names import IntentKind
from dispatch.record.view import Envelope
from dispatch.store.sqlite import SqliteRecords
from tests.fakes.kube.api import Request
from tests.fakes.kube.server import Fault
from tests.fakes.kube.tls import Authority, make_authority
from tests.functions.world import fixture
from tests.real.runtime.conftest import Runtime, Start
from tests.schedulers.eks.world import NAMESPACE, EksWorld

LIMIT_BYTES = 6 * 1024 * 1024
FUNCTIONS = ("IntentsFunction", "SupervisorFunction", "EventsFunction", "RetentionFunction")


def request(
    method: str, path: str, body: Any = None, *, query: str = "", **headers: str
) -> dict[str, Any]:
    """An HTTP API's event from somebody who signed."""
    event = fixture("http-iam", path=path, method=method)
    event["rawPath"] = path
    event["rawQueryString"] = query
    event.pop("queryStringParameters", None)
    if query:
        event["queryStringParameters"] = dict(parse_qsl(query))
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
    nothing = {"archived": 0, "removed": 0, "complete": True}
    assert start("RetentionFunction").invoke({}) == nothing


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
    # The runtime ends the process and begins another; the call after that is answered.
    assert "batchItemFailures" in _answered(worker, {"Records": [_bad()]})
    store = SqliteRecords(tmp_path / "records.sqlite", lambda: "t")
    folded = fold(store.read(job), datetime.now(UTC))
    assert folded.ending is None
    assert all(entry.schema == "dispatch.fact.v1" for entry in store.read(job).entries)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("authority"))


def test_an_end_for_want_of_memory_in_the_middle_of_a_start_starts_nothing_twice(
    start: Start, authority: Authority, tmp_path: Path
) -> None:
    world = EksWorld(authority)
    kubernetes = {
        "name": "k8s",
        "adapter": "eks",
        "settings": {
            "access": {"kind": "kubeconfig", "path": world.kubeconfig(tmp_path)},
            "teams": [{"owners": ["*"], "namespace": NAMESPACE}],
        },
    }
    starting = Event()

    def judge(request: Request) -> Fault | None:
        if request.method != "POST" or not request.path.endswith("/jobs"):
            return None
        starting.set()
        return Fault.HANG

    body = {"spec": {"name": "x", "command": ["last"], "image": "work:1"}, "cluster": "k8s"}
    asked = request("POST", "/jobs", body, **{"idempotency-key": "one"})
    made = start("IntentsFunction", clusters=[kubernetes]).invoke(asked)
    job = json.loads(made["body"])["job_id"]
    worker = start("SupervisorFunction", clusters=[kubernetes])
    with world.server.faults(judge), ThreadPoolExecutor(1) as pool:
        working = pool.submit(worker.invoke, work("k8s", job))
        assert starting.wait(100)
        worker.killed_for_memory()
        answer = working.result()
    assert answer["errorType"] == "Runtime.ExitError", answer
    assert "killed" in answer["errorMessage"]
    store = SqliteRecords(tmp_path / "records.sqlite", lambda: "t")
    kinds = [parse_strict(entry.body)["fact"] for entry in store.read(job).entries]
    assert kinds == ["authorized", "attempt"]

    # The next call has a process of its own, and finds a Start that may still land.
    assert _answered(worker, work("k8s", job)) == {"batchItemFailures": []}
    sent = [one for one in world.server.seen if one.method == "POST" and "/jobs" in one.path]
    assert len(sent) == 1
    folded = fold(store.read(job), datetime.now(UTC))
    assert (folded.ending, folded.attempts[1, 1].state) == (None, AttemptState.UNKNOWN)
    world.close()


def _answered(worker: Runtime, event: dict[str, Any]) -> Any:
    """What the function answers, once the runtime has a process for it again."""
    for _ in range(100):
        answer = worker.invoke(event)
        if answer.get("errorType") != "Sandbox.Failure":
            return answer
        sleep(0.2)
    pytest.fail("no answer any more")


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
    seen = 0
    after: int | None = 0
    while after is not None:
        query = f"after={after}&limit=1000"
        page = intents.invoke(request("GET", f"/jobs/{job}/history", query=query))
        assert len(json.dumps(page)) < LIMIT_BYTES
        shown = json.loads(page["body"])
        seen += len(shown["entries"])
        after = shown.get("next_after")
    assert seen == 2000


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_cold_start_writes_nothing_to_the_log_but_lambda_s_own_lines(
    start: Start, function: str
) -> None:
    runtime = start(function)
    runtime.invoke({})
    log = runtime.log.read_text()
    for fault in ("ImportModuleError", "ModuleNotFoundError", "DeprecationWarning"):
        assert fault not in log, log[-2000:]
