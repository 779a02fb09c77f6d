"""A deployment of the built template, and the ways in which people and triggers reach it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from dispatch.api import StatusAnswer, SubmitRequest
from dispatch.client import Client, SigV4
from dispatch.record.codec import parse_strict
from dispatch.record.header import Plan, Rule, Spec
from dispatch.record.names import Action, Cause
from tests.real.rehearsal.adapt import adapted
from tests.real.rehearsal.engine import REGION, ROOT, Engine, until

CLUSTER = "here"
BUILD = ROOT / "build" / "sam"

PLAN = Plan(
    default=Rule(action=Action.HOLD),
    causes={
        Cause.PREEMPTED: Rule(action=Action.RESUBMIT, limit=3),
        Cause.APP_ERROR: Rule(action=Action.FAIL),
    },
)

PROBE = """
import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

def handler(event, context):
    client = boto3.client(event["service"], config=Config(retries={"total_max_attempts": 1}))
    try:
        getattr(client, event["call"])(**event["arguments"])
    except ClientError as error:
        return error.response["Error"]["Code"]
    return "done"
"""
"""Tries one call as whichever role it was made with."""


@dataclass(frozen=True)
class Deployment:
    """One stack."""

    engine: Engine
    name: str
    outputs: Mapping[str, str]
    spool: Path

    # --- people -------------------------------------------------------------------------------

    def person(self, name: str, *actions: str) -> tuple[str, str]:
        """Make a user with these rights, and return the key."""
        iam = self.engine.client("iam")
        iam.create_user(UserName=name)
        if actions:
            statement = {"Effect": "Allow", "Action": list(actions), "Resource": "*"}
            document = {"Version": "2012-10-17", "Statement": [statement]}
            iam.put_user_policy(
                UserName=name, PolicyName="rights", PolicyDocument=json.dumps(document)
            )
        key = iam.create_access_key(UserName=name)["AccessKey"]
        return key["AccessKeyId"], key["SecretAccessKey"]

    def signing(self, key: tuple[str, str]) -> SigV4:
        """How the command line signs with a key that stands in its environment."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_ACCESS_KEY_ID", key[0])
            patch.setenv("AWS_SECRET_ACCESS_KEY", key[1])
            return SigV4(REGION)

    def client(self, auth: httpx.Auth) -> Client:
        return Client(self.outputs["Url"], auth=auth)

    def get(self, path: str, **arguments: Any) -> httpx.Response:
        """Ask without the client, so in ways that it never would."""
        return httpx.get(self.outputs["Url"] + path, timeout=60, **arguments)

    # --- triggers -----------------------------------------------------------------------------

    def invoke(self, function: str, event: Mapping[str, Any]) -> dict[str, Any]:
        """Run a function's live version and return the whole answer of the invocation."""
        answer = self.engine.client("lambda").invoke(
            FunctionName=self.outputs[f"{function}FunctionName"],
            Qualifier="live",
            Payload=json.dumps(event).encode(),
        )
        payload = json.loads(answer["Payload"].read() or b"null")
        return {"failed": answer.get("FunctionError"), "answer": payload}

    def look(self, *, jobs: Sequence[str] | None = None) -> dict[str, Any]:
        """Have a worker serve one message, as the queue would."""
        body: dict[str, Any] = {"cluster": CLUSTER}
        if jobs is not None:
            body["jobs"] = list(jobs)
        message = {"messageId": "m1", "body": json.dumps(body), "eventSource": "aws:sqs"}
        return self.invoke("Supervisor", {"Records": [message]})

    def tick(self) -> dict[str, Any]:
        return self.invoke("Supervisor", {"source": "dispatch.tick"})

    def schedule(self, state: str) -> None:
        """Turn the schedule on or off, and leave the rest of it as it was deployed."""
        scheduler = self.engine.client("scheduler")
        (one,) = [
            found
            for found in scheduler.list_schedules()["Schedules"]
            if found["Name"].startswith(f"{self.name}-Tick")
        ]
        told = scheduler.get_schedule(Name=one["Name"], GroupName=one["GroupName"])
        kept = {
            name: told[name]
            for name in ("Name", "GroupName", "ScheduleExpression", "FlexibleTimeWindow", "Target")
        }
        scheduler.update_schedule(**kept, State=state)

    # --- jobs ---------------------------------------------------------------------------------

    def submit(self, client: Client, script: str, name: str, *, key: str | None = None) -> str:
        spec = Spec(name=name, command=("sh", "-c", script))
        request = SubmitRequest(spec=spec, cluster=CLUSTER, plan=PLAN)
        return client.submit(request, key=key).job_id

    def looked_until(
        self, client: Client, job: str, what: str, done: Callable[[StatusAnswer], bool]
    ) -> StatusAnswer:
        """Have the cluster looked at until a job is as it should be."""

        def look() -> StatusAnswer | None:
            status = client.get(job)
            if done(status):
                return status
            self.look()
            return None

        return until(f"job {job}: {what}", look)

    def facts(self, client: Client, job: str) -> list[dict[str, Any]]:
        """The bodies of a record's entries."""
        return [parse_strict(entry.body) for entry in client.record(job).entries]

    # --- the table ----------------------------------------------------------------------------

    def items(self, pk: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.engine.client("dynamodb").query(
            TableName=self.outputs["Table"],
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": pk}},
            ConsistentRead=True,
        )["Items"]
        return found

    # --- rights -------------------------------------------------------------------------------

    def role_of(self, function: str) -> str:
        told = self.engine.client("lambda").get_function_configuration(
            FunctionName=self.outputs[f"{function}FunctionName"]
        )
        role: str = told["Role"]
        return role

    def probe(self, function: str) -> Callable[[str, str, Mapping[str, Any]], str]:
        """Make a function that has another's role and tries single calls with it."""
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("app.py", PROBE)
        name = f"{self.name}-probe-{function.lower()}"
        aws = self.engine.client("lambda")
        aws.create_function(
            FunctionName=name,
            Runtime="python3.13",
            Handler="app.handler",
            Role=self.role_of(function),
            Code={"ZipFile": packed.getvalue()},
            Timeout=30,
        )

        def tried(service: str, call: str, arguments: Mapping[str, Any]) -> str:
            event = {"service": service, "call": call, "arguments": arguments}
            answer = aws.invoke(FunctionName=name, Payload=json.dumps(event).encode())
            said = json.loads(answer["Payload"].read())
            return said if isinstance(said, str) else json.dumps(said)

        return tried


def deploy(engine: Engine, name: str, **parameters: str) -> Deployment:
    """Deploy the build as `sam deploy` does; fail with its words where it fails."""
    built = BUILD / "template.yaml"
    if not built.is_file():
        pytest.fail("there is no build: run `make build`")
    template = BUILD / "rehearsal.yaml"
    template.write_text(yaml.safe_dump(adapted(yaml.safe_load(built.read_text())), sort_keys=False))
    settings = engine.place / "samconfig.toml"
    settings.write_text("version = 0.1\n")
    command: list[str | Path] = [
        ROOT / ".venv-sam" / "bin" / "sam",
        *("deploy", "--config-file", settings, "--template", template, "--stack-name", name),
        *("--resolve-s3", "--capabilities", "CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"),
        *("--no-confirm-changeset", "--no-progressbar", "--region", REGION),
        "--no-fail-on-empty-changeset",
    ]
    if parameters:
        command += ["--parameter-overrides", *(f"{k}={v}" for k, v in parameters.items())]
    environment = {
        **os.environ,
        **engine.root,
        "AWS_ENDPOINT_URL": engine.endpoint,
        "AWS_DEFAULT_REGION": REGION,
        "HOME": str(engine.place),
        "SAM_CLI_TELEMETRY": "0",
    }
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.fail(f"sam deploy:\n{done.stdout[-6000:]}\n{done.stderr[-2000:]}", pytrace=False)
    (stack,) = engine.client("cloudformation").describe_stacks(StackName=name)["Stacks"]
    outputs = {one["OutputKey"]: one["OutputValue"] for one in stack["Outputs"]}
    deployed = Deployment(engine, name, outputs, engine.place / "spool")
    _give_clusters(deployed)
    return deployed


def _give_clusters(deployed: Deployment) -> None:
    cluster = {"name": CLUSTER, "adapter": "local", "settings": {"spool": str(deployed.spool)}}
    document = {"schema": "dispatch.clusters.v1", "clusters": [cluster]}
    deployed.engine.client("ssm").put_parameter(
        Name=deployed.outputs["Clusters"],
        Type="String",
        Value=json.dumps(document),
        Overwrite=True,
    )


def resources(engine: Engine, stack: str) -> list[tuple[str, str]]:
    """What a stack and the stacks within it hold: logical name and type."""
    found = []
    listed = engine.client("cloudformation").describe_stack_resources(StackName=stack)
    for one in listed["StackResources"]:
        found.append((one["LogicalResourceId"], one["ResourceType"]))
        if one["ResourceType"] == "AWS::CloudFormation::Stack":
            inner = resources(engine, one["PhysicalResourceId"])
            found += [(f"{one['LogicalResourceId']}/{name}", kind) for name, kind in inner]
    return found
