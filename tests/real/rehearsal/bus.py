"""Somebody who subscribed to the bus, and what arrived there."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.real.rehearsal.deployment import Deployment
from tests.real.rehearsal.engine import until

Heard = Callable[[], list[dict[str, Any]]]
"""Takes what is new from the queue, and returns all that ever came."""


def subscribe(deployed: Deployment) -> Heard:
    """Let a queue hear everything that a deployment publishes from now on."""
    engine, name = deployed.engine, f"subscriber-{deployed.name}"
    sqs = engine.client("sqs")
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    where = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
    allowed = {
        "Effect": "Allow",
        "Principal": {"Service": "events.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": where["QueueArn"],
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
    bus = deployed.outputs["BusName"]
    events = engine.client("events")
    events.put_rule(Name=name, EventBusName=bus, EventPattern=json.dumps({"source": ["dispatch"]}))
    targets = [{"Id": "queue", "Arn": where["QueueArn"]}]
    events.put_targets(Rule=name, EventBusName=bus, Targets=targets)
    kept: list[dict[str, Any]] = []

    def listen() -> list[dict[str, Any]]:
        answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
        for message in answer.get("Messages", ()):
            kept.append(json.loads(message["Body"]))
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return kept

    return listen


def told(heard: Heard, job: str, kind: str) -> dict[str, Any]:
    """Wait for one event about a job."""

    def look() -> dict[str, Any] | None:
        for event in heard():
            if event["detail"].get("job_id") == job and event["detail-type"] == kind:
                return event
        return None

    return until(f"job {job}: the event {kind}", look)
