"""A deployment of the built template, and the ways in which people and triggers reach it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import yaml

from dispatch.api import StatusAnswer, SubmitRequest
from dispatch.client import Client, Patience, SigV4
from dispatch.record.codec import parse_strict
from dispatch.record.header import Plan, Rule, Spec
from dispatch.record.names import Action, Cause
from tests.real.rehearsal.adapt import adapted
from tests.real.rehearsal.engine import PATIENCE_S, REGION, ROOT, Engine, until

CLUSTER = "here"
FUNCTIONS = ("Intents", "Supervisor", "Events", "Retention")
BUILD = ROOT / "build" / "sam"
ARTIFACTS = "artifacts"
DIED = "Worker process died"
UNDER_WAY = ("ApproximateNumberOfMessagesNotVisible",)

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
        # Of a busy machine nobody should think that nothing answers.
        patience = Patience(connect_s=60, answer_s=120, tries=8)
        return Client(self.outputs["Url"], auth=auth, patience=patience)

    def get(self, path: str, **arguments: Any) -> httpx.Response:
        """Ask without the client, so in ways that it never would."""
        return httpx.get(self.outputs["Url"] + path, timeout=PATIENCE_S, **arguments)

    # --- triggers -----------------------------------------------------------------------------

    def invoke(
        self, function: str, event: Mapping[str, Any], version: str = "live"
    ) -> dict[str, Any]:
        """Run a function's live version, or another, and return the invocation's whole answer.

        The engine still gives calls to workers that a test ended, one after another; Lambda
        wouldn't. Such a call is made again.
        """
        while True:
            answer = self.engine.client("lambda").invoke(
                FunctionName=self.outputs[f"{function}FunctionName"],
                Qualifier=version,
                Payload=json.dumps(event).encode(),
            )
            payload = json.loads(answer["Payload"].read() or b"null")
            if (payload or {}).get("errorMessage") != DIED:
                return {"failed": answer.get("FunctionError"), "answer": payload}

    def look(
        self, *, jobs: Sequence[str] | None = None, version: str = "live", cluster: str = CLUSTER
    ) -> dict[str, Any]:
        """Have a worker serve one message, as the queue would."""
        body: dict[str, Any] = {"cluster": cluster}
        if jobs is not None:
            body["jobs"] = list(jobs)
        message = {"messageId": "m1", "body": json.dumps(body), "eventSource": "aws:sqs"}
        return self.invoke("Supervisor", {"Records": [message]}, version)

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

    def stop_functions(self, *functions: str) -> None:
        """Let none of these run, whoever calls: how a person stops what might act.

        The engine holds a function to its limit, but not the versions of it, so what feeds
        them is switched off too. That comes first: a message that meets the limit is hidden for
        twelve minutes.
        """
        for name in functions:
            self._feed(name, enabled=False)
        until("nothing is under way", lambda: self.waiting("Work", *UNDER_WAY) == 0)
        for name in functions:
            self.engine.client("lambda").put_function_concurrency(
                FunctionName=self.outputs[f"{name}FunctionName"], ReservedConcurrentExecutions=0
            )

    def let_run(self, *functions: str) -> None:
        for name in functions:
            self.engine.client("lambda").delete_function_concurrency(
                FunctionName=self.outputs[f"{name}FunctionName"]
            )
            self._feed(name, enabled=True)

    def _feed(self, function: str, *, enabled: bool) -> None:
        aws = self.engine.client("lambda")
        name = self.outputs[f"{function}FunctionName"]
        for one in aws.list_event_source_mappings()["EventSourceMappings"]:
            if f":{name}" in one["FunctionArn"]:
                aws.update_event_source_mapping(UUID=one["UUID"], Enabled=enabled)

    def configure(
        self,
        spools: Mapping[str, str],
        *,
        access: Mapping[str, Any] | None = None,
        cold: Sequence[str] = ("Supervisor",),
    ) -> None:
        """Put a document of local clusters where the stack looks for it.

        Args:
            spools: The spool of each cluster.
            access: Who may do what.
            cold: The functions whose workers are ended, as they have the document before it;
                between two messages, as a worker's is hidden for twelve minutes if it dies.
        """
        if cold:
            self.until_idle()
        clusters = [
            {"name": name, "adapter": "local", "settings": {"spool": spool}}
            for name, spool in spools.items()
        ]
        document: dict[str, Any] = {"schema": "dispatch.clusters.v1", "clusters": clusters}
        if access is not None:
            document["access"] = access
        self.engine.client("ssm").put_parameter(
            Name=self.outputs["Clusters"],
            Type="String",
            Value=json.dumps(document),
            Overwrite=True,
        )
        for function in cold:
            for worker in self.engine.workers(self.outputs[f"{function}FunctionName"]):
                with suppress(psutil.NoSuchProcess):
                    worker.kill()

    # --- versions -----------------------------------------------------------------------------

    def versions(self) -> dict[str, str]:
        """The version of each function that its alias serves."""
        aws = self.engine.client("lambda")
        return {
            name: aws.get_alias(FunctionName=self.outputs[f"{name}FunctionName"], Name="live")[
                "FunctionVersion"
            ]
            for name in FUNCTIONS
        }

    def shift(self, versions: Mapping[str, str]) -> None:
        """Have the aliases serve these versions, as a shift of traffic ends."""
        for name, version in versions.items():
            self.engine.client("lambda").update_alias(
                FunctionName=self.outputs[f"{name}FunctionName"],
                Name="live",
                FunctionVersion=version,
            )

    # --- queues and logs ----------------------------------------------------------------------

    def until_idle(self) -> None:
        """Wait until no message is left, and so no worker at work that a queue set going."""
        until(f"{self.name} has nothing left to do", lambda: self.waiting("Work") == 0)

    def waiting(self, queue: str, *names: str) -> int:
        """How many messages a queue holds, seen or not, or only those that are so called."""
        told = self.engine.client("sqs").get_queue_attributes(
            QueueUrl=self.outputs[f"{queue}QueueUrl"], AttributeNames=["All"]
        )["Attributes"]
        names = names or ("ApproximateNumberOfMessages", *UNDER_WAY)
        return sum(int(told[name]) for name in names)

    def logged(self, function: str) -> list[dict[str, Any]]:
        """The lines of a function's log that are JSON: what it says, and its metrics."""
        group = self.engine.client("cloudformation").describe_stack_resource(
            StackName=self.name, LogicalResourceId=f"{function}Log"
        )["StackResourceDetail"]["PhysicalResourceId"]
        pages = self.engine.client("logs").get_paginator("filter_log_events")
        found = []
        for page in pages.paginate(logGroupName=group):
            for event in page["events"]:
                for line in event["message"].splitlines():
                    if line.startswith("{"):
                        with suppress(ValueError):  # a line that the engine cut
                            found.append(json.loads(line))
        return found

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

    def objects(self, job: str) -> list[str]:
        """The objects of a job that the cluster has, by attempt: `1.1`, `2.1`."""
        found = (self.spool / "objects").glob(f"{job}.*")
        return sorted(place.name.split(".", 1)[1] for place in found)

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

    def role_of_the_schedule(self) -> str:
        name = self.engine.client("cloudformation").describe_stack_resource(
            StackName=self.name, LogicalResourceId="TickRole"
        )["StackResourceDetail"]["PhysicalResourceId"]
        role: str = self.engine.client("iam").get_role(RoleName=name)["Role"]["Arn"]
        return role

    def probe(
        self, function: str, role: str | None = None
    ) -> Callable[[str, str, Mapping[str, Any]], str]:
        """Make a function that has another's role, or this one, and tries single calls with it."""
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("app.py", PROBE)
        name = f"{self.name}-probe-{function.lower()}"
        aws = self.engine.client("lambda")
        aws.create_function(
            FunctionName=name,
            Runtime="python3.13",
            Handler="app.handler",
            Role=role or self.role_of(function),
            Code={"ZipFile": packed.getvalue()},
            Timeout=30,
        )

        def tried(service: str, call: str, arguments: Mapping[str, Any]) -> str:
            event = {"service": service, "call": call, "arguments": arguments}
            answer = aws.invoke(FunctionName=name, Payload=json.dumps(event).encode())
            said = json.loads(answer["Payload"].read())
            return said if isinstance(said, str) else json.dumps(said)

        return tried


def deploy(
    engine: Engine, name: str, *, layer: Path | None = None, **parameters: str
) -> Deployment:
    """Deploy the build with `sam deploy`, anew or over what is there; fail with its words.

    Args:
        engine: Where.
        name: The stack's name.
        layer: The code of another build's layer, in place of this one's.
        parameters: The template's.
    """
    packaged = _packaged(engine, layer)
    command: list[str | Path] = [
        *("--template", packaged, "--stack-name", name),
        *("--capabilities", "CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"),
        *("--no-confirm-changeset", "--no-progressbar", "--no-fail-on-empty-changeset"),
        *("--s3-bucket", ARTIFACTS),
    ]
    if parameters:
        command += ["--parameter-overrides", *(f"{k}={v}" for k, v in parameters.items())]
    _sam(engine, "deploy", *command)
    (stack,) = engine.client("cloudformation").describe_stacks(StackName=name)["Stacks"]
    outputs = {one["OutputKey"]: one["OutputValue"] for one in stack["Outputs"]}
    spool = engine.place / "spool" / name
    spool.mkdir(parents=True, exist_ok=True)
    deployed = Deployment(engine, name, outputs, spool)
    deployed.configure({CLUSTER: str(spool)}, cold=())
    return deployed


def _packaged(engine: Engine, layer: Path | None) -> Path:
    """Upload the build once, and the layer of another; a deployment then moves resources only."""
    packaged = engine.place / f"packaged-{layer.name if layer else 'build'}.yaml"
    if packaged.is_file():
        return packaged
    built = BUILD / "template.yaml"
    if not built.is_file():
        pytest.fail("there is no build: run `make build`")
    if layer is None:
        engine.client("s3").create_bucket(Bucket=ARTIFACTS)
        template = adapted(yaml.safe_load(built.read_text()))
    else:
        template = yaml.safe_load(_packaged(engine, None).read_text())
        template["Resources"]["DispatchLayer"]["Properties"]["ContentUri"] = str(layer)
    watching = str(BUILD / "Monitoring" / "template.yaml")
    template["Resources"]["Monitoring"]["Properties"]["TemplateURL"] = watching
    unpackaged = BUILD / "rehearsal.yaml"
    unpackaged.write_text(yaml.safe_dump(template, sort_keys=False))
    _sam(
        engine,
        *("package", "--template", unpackaged, "--s3-bucket", ARTIFACTS),
        *("--output-template-file", packaged, "--no-progressbar"),
    )
    told = yaml.safe_load(packaged.read_text())
    # `sam deploy` takes an address of the engine for no address of S3: it uploads this one itself.
    told["Resources"]["Monitoring"]["Properties"]["TemplateURL"] = watching
    packaged.write_text(yaml.safe_dump(told, sort_keys=False))
    return packaged


def _sam(engine: Engine, verb: str, *arguments: str | Path) -> None:
    settings = engine.place / "samconfig.toml"
    settings.write_text("version = 0.1\n")
    environment = {
        **os.environ,
        **engine.root,
        "AWS_ENDPOINT_URL": engine.endpoint,
        "AWS_DEFAULT_REGION": REGION,
        "HOME": str(engine.place),
        "SAM_CLI_TELEMETRY": "0",
    }
    sam = ROOT / ".venv-sam" / "bin" / "sam"
    command = [sam, verb, "--config-file", settings, "--region", REGION, *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.fail(f"sam {verb}:\n{done.stdout[-6000:]}\n{done.stderr[-2000:]}", pytrace=False)


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
