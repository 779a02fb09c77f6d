"""The handlers as Lambda calls them: made at the first call, from the environment alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from dispatch.errors import BadConfiguration
from functions.events import app as events
from functions.intents import app as intents
from functions.retention import app as retention
from functions.supervisor import app as supervisor
from tests.functions.world import Context, fixture, http_event


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local = {"name": "main", "adapter": "local", "settings": {"spool": str(tmp_path / "spool")}}
    document = json.dumps({"schema": "dispatch.clusters.v1", "clusters": [local]})
    monkeypatch.setenv("DISPATCH_SQLITE", str(tmp_path / "records.sqlite"))
    monkeypatch.setenv("DISPATCH_CLUSTERS", document)
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "dispatch-supervisor")
    for app in (intents, supervisor, events, retention):
        app._started.cache_clear()


@pytest.mark.usefixtures("environment")
def test_the_four_handlers_work_together_from_the_environment() -> None:
    context: Any = Context()
    body = {"cluster": "main", "spec": {"name": "x", "command": ["true"]}}
    made = intents.handler(
        http_event("POST", "/jobs", body, headers={"idempotency-key": "k"}), context
    )
    assert made["statusCode"] == 201
    job = json.loads(made["body"])["job_id"]
    intents.handler(
        http_event("POST", f"/jobs/{job}/intents", {"kind": "cancel", "id": "i"}), context
    )
    assert supervisor.handler(fixture("sqs"), context) == {"batchItemFailures": []}
    status = json.loads(intents.handler(http_event("GET", f"/jobs/{job}"), context)["body"])
    assert (status["outcome"], "settled_at" in status) == ("cancelled", True)
    history = intents.handler(http_event("GET", f"/jobs/{job}/history"), context)["body"]
    assert json.loads(history)["entries"][-1]["by"] == "dispatch-supervisor"
    assert retention.handler({}, context)["complete"] is True


@pytest.mark.usefixtures("environment")
def test_a_handler_without_its_queue_or_bus_says_which_setting_is_missing() -> None:
    context: Any = Context()
    with pytest.raises(BadConfiguration, match="DISPATCH_QUEUE_URL"):
        supervisor.handler(fixture("tick"), context)
    with pytest.raises(BadConfiguration, match="DISPATCH_EVENT_BUS"):
        events.handler(fixture("stream-control", job="jaaaaaaaa"), context)


def test_a_handler_without_a_store_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISPATCH_SQLITE", raising=False)
    retention._started.cache_clear()
    with pytest.raises(BadConfiguration, match="DISPATCH_TABLE"):
        retention.handler({}, Context())
