"""Amazon's services behind the ports of the functions: what they take, and what is said if not."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from moto import mock_aws

from dispatch.aws import EventBridgeBus, SqsQueue, parameter, secret
from dispatch.documents import secret_of
from dispatch.errors import BadConfiguration, TryLater
from dispatch.events import Event
from dispatch.messages import Work, parse_work
from dispatch.settings import Settings
from dispatch.store.dynamodb import DynamoRecords
from dispatch.wiring import Wiring

AT = datetime(2026, 11, 29, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def made_up_aws() -> Iterator[None]:
    with mock_aws():
        yield


class Answers:
    """A client whose every call answers, or fails, in a chosen way."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.calls: list[dict[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        def call(**asked: Any) -> Any:
            self.calls.append(asked)
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

        return call


THROTTLED = ClientError({"Error": {"Code": "ThrottlingException", "Message": "slow"}}, "Call")
UNREACHABLE = EndpointConnectionError(endpoint_url="https://example.com")


def test_messages_of_any_number_reach_the_queue() -> None:
    client = boto3.client("sqs")
    url = client.create_queue(QueueName="work")["QueueUrl"]
    sent = [Work(cluster="main", jobs=(f"jaaaaaa{k:02d}",)) for k in range(25)]
    SqsQueue(url).send(sent)
    got = []
    while batch := client.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        got += [parse_work(one["Body"]) for one in batch]
    assert sorted(got, key=repr) == sorted(sent, key=repr)


def test_events_travel_with_type_time_and_detail_ten_at_a_time() -> None:
    client = Answers({"FailedEntryCount": 0})
    bus = EventBridgeBus("bus", client)  # type: ignore[arg-type]
    bus.put([Event(f"j/{k}", "dispatch.outcome.v1", AT, json.dumps({"k": k})) for k in range(12)])
    assert [len(call["Entries"]) for call in client.calls] == [10, 2]
    first = client.calls[0]["Entries"][0]
    assert first == {
        "EventBusName": "bus",
        "Source": "dispatch",
        "DetailType": "dispatch.outcome.v1",
        "Time": AT,
        "Detail": '{"k": 0}',
    }


@pytest.mark.parametrize("answer", [{"Failed": [{"Id": "0"}]}, THROTTLED, UNREACHABLE])
def test_a_message_that_was_not_taken_is_said_so(answer: Any) -> None:
    with pytest.raises(TryLater):
        SqsQueue("url", Answers(answer)).send([Work(cluster="main")])  # type: ignore[arg-type]


@pytest.mark.parametrize("answer", [{"FailedEntryCount": 1}, THROTTLED, UNREACHABLE])
def test_an_event_that_was_not_taken_is_said_so(answer: Any) -> None:
    event = Event("j/outcome", "dispatch.outcome.v1", AT, "{}")
    with pytest.raises(TryLater):
        EventBridgeBus("bus", Answers(answer)).put([event])  # type: ignore[arg-type]


def test_a_parameter_and_a_secret_are_read_by_their_names() -> None:
    boto3.client("ssm").put_parameter(Name="/dispatch/clusters", Value="{}", Type="String")
    boto3.client("secretsmanager").create_secret(Name="dispatch/key", SecretString="s3cret")
    assert parameter("/dispatch/clusters") == "{}"
    assert secret_of("ssm:/dispatch/clusters") == "{}"
    assert secret_of("secretsmanager:dispatch/key") == "s3cret"


def test_what_is_not_there_is_the_configuration_s_fault() -> None:
    with pytest.raises(BadConfiguration, match="nothing"):
        parameter("/nothing")
    with pytest.raises(BadConfiguration, match="nothing"):
        secret("nothing")


def test_a_secret_that_is_no_text_is_refused() -> None:
    boto3.client("secretsmanager").create_secret(Name="bytes", SecretBinary=b"\x00")
    with pytest.raises(BadConfiguration, match="text"):
        secret("bytes")


def test_a_service_that_does_not_answer_is_tried_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boto3, "client", lambda *_, **__: Answers(UNREACHABLE))
    with pytest.raises(TryLater):
        parameter("/dispatch/clusters")


def _good(name: str) -> str:
    local = {"name": name, "adapter": "local", "settings": {"spool": "/nowhere"}}
    return json.dumps({"schema": "dispatch.clusters.v1", "clusters": [local]})


def _configured(*versions: str) -> Wiring:
    client = boto3.client("ssm")
    for text in versions:
        client.put_parameter(Name="/dispatch/clusters", Value=text, Type="String", Overwrite=True)
    return Wiring(Settings(table="records", clusters="ssm:/dispatch/clusters"))


def test_a_process_that_begins_with_a_refused_document_takes_the_last_good_one() -> None:
    wiring = _configured(_good("older"), _good("newer"), "{", '{"schema":"dispatch.clusters.v9"}')
    assert [one.name for one in wiring.clusters.clusters] == ["newer"]
    assert isinstance(wiring.clusters_refused, BadConfiguration)
    assert [one.name for one in wiring.clusters.clusters] == ["newer"]


def test_without_any_good_version_there_are_no_clusters() -> None:
    with pytest.raises(BadConfiguration):
        _ = _configured("{", "[]").clusters
    with pytest.raises(BadConfiguration):
        _ = Wiring(Settings(table="records", clusters="ssm:/nothing")).clusters


def test_a_deployment_is_wired_from_its_settings_alone() -> None:
    document = json.dumps({"schema": "dispatch.clusters.v1", "clusters": []})
    boto3.client("ssm").put_parameter(Name="/dispatch/clusters", Value=document, Type="String")
    wiring = Wiring(
        Settings(
            table="records",
            clusters="ssm:/dispatch/clusters",
            queue_url="https://sqs.eu-west-1.amazonaws.com/111122223333/work",
            event_bus="bus",
        )
    )
    assert isinstance(wiring.store, DynamoRecords)
    assert isinstance(wiring.queue, SqsQueue)
    assert isinstance(wiring.bus, EventBridgeBus)
    assert wiring.clusters.clusters == ()
