"""The recipes on an engine: deployed, and events of our own code sent through them."""

import json
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, TypeVar

import boto3
import pytest

from dispatch.aws import EventBridgeBus
from dispatch.event_details import DETAILS
from tests.functions.world import World
from tests.infra.template import ROOT, load, of_type

PATIENCE_S = 60.0
_Result = TypeVar("_Result")


class Receiver(ThreadingHTTPServer):
    """Keeps what is posted to it."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], Any]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.got.append((headers, json.loads(body)))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def until(look: Callable[[], _Result]) -> _Result:
    end = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < end, "nothing came"
        time.sleep(0.05)
    return found


def resolved(value: Any, given: dict[str, Any]) -> Any:
    """A template's properties with its references followed; `!If` by the condition's name."""
    match value:
        case {"Ref": name}:
            return given[name]
        case {"GetAtt": name}:
            return given[name]
        case {"If": [condition, yes, no]}:
            return resolved(yes if given[condition] else no, given)
        case dict():
            return {key: resolved(one, given) for key, one in value.items()}
        case list():
            return [resolved(one, given) for one in value]
        case _:
            return value


def listening(engine: str, recipe: str, bus: str, **given: Any) -> None:
    """Make a recipe's connection, destination and rule with its own properties."""
    tree = load(ROOT / "infra" / "events" / f"{recipe}.yaml")
    events: Any = boto3.client("events", endpoint_url=engine)
    told = {
        "Bus": bus,
        "DetailTypes": tree["Parameters"]["DetailTypes"]["Default"].split(","),
        "Missed.Arn": "arn:aws:sqs:eu-west-1:000000000000:missed",
        "Role.Arn": "arn:aws:iam::000000000000:role/post",
        **given,
    }
    for name, asked in of_type(tree, "AWS::Events::Connection").items():
        made = events.create_connection(Name=f"{bus}-connection", **resolved(asked, told))
        told[f"{name}.Arn"] = made["ConnectionArn"]
    for name, asked in of_type(tree, "AWS::Events::ApiDestination").items():
        made = events.create_api_destination(Name=f"{bus}-channel", **resolved(asked, told))
        told[f"{name}.Arn"] = made["ApiDestinationArn"]
    (rule,) = of_type(tree, "AWS::Events::Rule").values()
    asked = resolved(rule, told)
    events.put_rule(
        Name=f"{bus}-rule",
        EventBusName=bus,
        EventPattern=json.dumps(asked["EventPattern"]),
        State="ENABLED",
    )
    put = events.put_targets(Rule=f"{bus}-rule", EventBusName=bus, Targets=asked["Targets"])
    assert put["FailedEntryCount"] == 0, put


def published(engine: str, bus: str) -> dict[str, Any]:
    """Let a job of a small world end, and publish what that world's publisher said of it."""
    world = World()
    job = world.job()
    world.settle(job)
    view = world.store.read(job)
    records = [
        {
            "eventID": str(number),
            "eventName": "INSERT",
            "dynamodb": {
                "SequenceNumber": str(number),
                "NewImage": {
                    "pk": {"S": f"JOB#{job}"},
                    "sk": {"S": f"E#{number:010d}"},
                    "job_id": {"S": job},
                    "revision": {"N": str(number)},
                    "schema": {"S": entry.schema},
                    "body": {"S": entry.body},
                    "token": {"S": entry.token},
                },
            },
        }
        for number, entry in enumerate(view.entries, start=1)
    ]
    world.events({"Records": records}, None)
    client: Any = boto3.client("events", endpoint_url=engine)
    EventBridgeBus(bus, client).put(world.bus.put_)
    (outcome,) = (one for one in world.bus.put_ if one.detail_type == "dispatch.outcome.v1")
    detail: dict[str, Any] = json.loads(outcome.detail)
    return detail


def bus_of(engine: str, name: str) -> str:
    boto3.client("events", endpoint_url=engine).create_event_bus(Name=name)
    return name


@pytest.mark.parametrize("service", ["slack", "teams"])
def test_a_channel_is_told_of_an_outcome_in_its_own_form(
    engine: str, receiver: Receiver, service: str
) -> None:
    bus = bus_of(engine, f"chat-{service}")
    listening(engine, "chat", bus, Url=receiver.url, Slack=service == "slack")
    detail = published(engine, bus)
    _, said = until(lambda: receiver.got[:1])[0]
    card = said["attachments"][0]["content"]["body"][0] if service == "teams" else said
    assert f"job {detail['name']} ({detail['job_id']}) on main" in card["text"]
    assert "dispatch.outcome.v1 succeeded" in card["text"]
    assert len(receiver.got) == 1


def test_a_webhook_gets_the_whole_event_and_the_key(engine: str, receiver: Receiver) -> None:
    bus = bus_of(engine, "webhook")
    listening(engine, "webhook", bus, Url=receiver.url, Key="sixteen-letters-at-least")
    detail = published(engine, bus)
    until(lambda: len(receiver.got) >= 2)
    for headers, said in receiver.got:
        assert headers["x-api-key"] == "sixteen-letters-at-least"
        assert said["source"] == "dispatch"
        DETAILS[said["detail-type"]].model_validate_json(json.dumps(said["detail"]))
    assert detail in [said["detail"] for _, said in receiver.got]


def test_the_mail_s_stack_is_deployed_and_its_rule_publishes_to_the_topic(engine: str) -> None:
    bus = bus_of(engine, "mail")
    stacks = boto3.client("cloudformation", endpoint_url=engine)
    stacks.create_stack(
        StackName="mail",
        TemplateBody=(ROOT / "infra" / "events" / "email.yaml").read_text(),
        Parameters=[
            {"ParameterKey": "Bus", "ParameterValue": bus},
            {"ParameterKey": "Email", "ParameterValue": "oncall@example.com"},
        ],
    )
    made = until(
        lambda: [
            one
            for one in stacks.describe_stacks(StackName="mail")["Stacks"]
            if not one["StackStatus"].endswith("IN_PROGRESS")
        ]
    )[0]
    assert made["StackStatus"] == "CREATE_COMPLETE", made
    (topic,) = (one["OutputValue"] for one in made["Outputs"])
    told: Any = boto3.client("sns", endpoint_url=engine)
    mailed = told.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    assert [(one["Protocol"], one["Endpoint"]) for one in mailed] == [
        ("email", "oncall@example.com")
    ]
    # Nobody reads mail here: a queue that subscribes too hears what the mail would say.
    queues = boto3.client("sqs", endpoint_url=engine)
    url = queues.create_queue(QueueName="mailed")["QueueUrl"]
    arn = queues.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
    told.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn["QueueArn"])
    detail = {
        "version": 1,
        "id": "j1/1",
        "at": "2026-11-29T12:00:00.000000Z",
        "job_id": "j1",
        "cluster": "hpc",
        "detail": "the plan asks what to do",
    }
    boto3.client("events", endpoint_url=engine).put_events(
        Entries=[
            {
                "EventBusName": bus,
                "Source": "dispatch",
                "DetailType": "dispatch.recovery_hold.v1",
                "Detail": json.dumps(detail),
            }
        ]
    )
    (message,) = until(lambda: queues.receive_message(QueueUrl=url).get("Messages", []))
    said = json.loads(message["Body"])["Message"]
    assert "dispatch.recovery_hold.v1 on hpc, job j1: the plan asks what to do" in said
