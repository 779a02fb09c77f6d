"""What stands there after `sam deploy`."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from dispatch.api.routes import ROUTES
from tests.real.rehearsal.deployment import Deployment, resources


def described(deployed: Deployment) -> dict[str, Any]:
    aws = deployed.engine.client("dynamodb")
    table: dict[str, Any] = aws.describe_table(TableName=deployed.outputs["Table"])["Table"]
    return table


def test_the_table_can_not_be_deleted_even_by_the_root(deployed: Deployment) -> None:
    assert described(deployed)["DeletionProtectionEnabled"] is True
    with pytest.raises(ClientError, match="protect"):
        deployed.engine.client("dynamodb").delete_table(TableName=deployed.outputs["Table"])


def test_the_stream_shows_new_images(deployed: Deployment) -> None:
    assert described(deployed)["StreamSpecification"] == {
        "StreamEnabled": True,
        "StreamViewType": "NEW_IMAGE",
    }


def test_every_function_serves_a_published_version(deployed: Deployment) -> None:
    aws = deployed.engine.client("lambda")
    for name in ("Intents", "Supervisor", "Events", "Retention"):
        function = deployed.outputs[f"{name}FunctionName"]
        alias = aws.get_alias(FunctionName=function, Name="live")
        assert alias["FunctionVersion"].isdigit()
        told = aws.get_function_configuration(FunctionName=function, Qualifier="live")
        assert told["Runtime"] == "python3.13"
        assert (told.get("SnapStart") or {}).get("ApplyOn", "None") == (
            "PublishedVersions" if name == "Intents" else "None"
        )


def test_every_function_has_a_role_of_its_own(deployed: Deployment) -> None:
    names = ("Intents", "Supervisor", "Events", "Retention")
    assert len({deployed.role_of(name) for name in names}) == len(names)


def test_the_queue_hands_on_to_the_dead_letter_queue(deployed: Deployment) -> None:
    told = deployed.engine.client("sqs").get_queue_attributes(
        QueueUrl=deployed.outputs["WorkQueueUrl"], AttributeNames=["All"]
    )["Attributes"]
    assert "DeadQueue" in told["RedrivePolicy"]


def test_every_mapping_is_enabled_and_the_streams_are_filtered(deployed: Deployment) -> None:
    mappings = deployed.engine.client("lambda").list_event_source_mappings()
    ours = [
        one for one in mappings["EventSourceMappings"] if f":{deployed.name}-" in one["FunctionArn"]
    ]
    assert {one["State"] for one in ours} == {"Enabled"}
    assert len(ours) == 3
    streams = [one for one in ours if ":dynamodb:" in one["EventSourceArn"]]
    assert len(streams) == 2
    assert all(one["FilterCriteria"]["Filters"] for one in streams)


def test_every_route_of_the_handler_is_deployed(deployed: Deployment) -> None:
    gateway = deployed.engine.client("apigatewayv2")
    (api,) = [one for one in gateway.get_apis()["Items"] if one["Name"] == deployed.name]
    routes = gateway.get_routes(ApiId=api["ApiId"])["Items"]
    assert {one["RouteKey"]: one["AuthorizationType"] for one in routes} == {
        f"{one.method} {one.path}": "NONE" if one.public else "AWS_IAM" for one in ROUTES
    }


def test_the_tick_is_neither_retried_nor_kept(deployed: Deployment) -> None:
    scheduler = deployed.engine.client("scheduler")
    (one,) = [
        found
        for found in scheduler.list_schedules()["Schedules"]
        if found["Name"].startswith(f"{deployed.name}-Tick")
    ]
    told = scheduler.get_schedule(Name=one["Name"], GroupName=one["GroupName"])
    assert told["ScheduleExpression"] == "rate(1 minute)"
    assert told["Target"]["RetryPolicy"] == {
        "MaximumRetryAttempts": 0,
        "MaximumEventAgeInSeconds": 60,
    }
    config = deployed.engine.client("lambda").get_function_event_invoke_config(
        FunctionName=deployed.outputs["SupervisorFunctionName"], Qualifier="live"
    )
    assert config["MaximumRetryAttempts"] == 0
    assert config["MaximumEventAgeInSeconds"] == 60


def test_alarms_and_dashboard_come_with_it(deployed: Deployment) -> None:
    kinds = [kind for _, kind in resources(deployed.engine, deployed.name)]
    told = deployed.engine.client("cloudwatch").get_paginator("describe_alarms").paginate()
    topic = deployed.outputs["AlarmTopicArn"]
    # Other stacks stand beside this one; what is this one's tells this one's people.
    alarms = [one for page in told for one in page["MetricAlarms"] if topic in one["AlarmActions"]]
    assert len(alarms) == kinds.count("AWS::CloudWatch::Alarm") > 0
    assert kinds.count("AWS::CloudWatch::Dashboard") == 1
