"""The template's bucket of archives, made by an engine from the template's own text.

The engine takes no lifecycle from a template: `tests/infra` reads that.
"""

import json
import time
from typing import Any

import boto3
import pytest
from botocore.config import Config

from tests.infra.template import TEMPLATE, Node, load

KEPT = ("Records", "ArchiveBucket", "ArchiveBucketPolicy")
FUNCTIONS = {"Sub", "If", "Equals", "Not", "Join"}
PATIENCE_S = 60.0


def long_form(value: Any) -> Any:
    """A template's short forms in the long form that JSON can say."""
    match value:
        case {"GetAtt": str(path)}:
            return {"Fn::GetAtt": path.split(".", 1)}
        case dict():
            return {
                f"Fn::{key}" if key in FUNCTIONS else key: long_form(one)
                for key, one in value.items()
            }
        case list():
            return [long_form(one) for one in value]
        case _:
            return value


def part() -> Node:
    """The table and the archives, with all that they refer to."""
    tree = load(TEMPLATE)
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Parameters": tree["Parameters"],
        "Conditions": long_form(tree["Conditions"]),
        "Resources": {name: long_form(tree["Resources"][name]) for name in KEPT},
        "Outputs": {"ArchiveBucketName": long_form(tree["Outputs"]["ArchiveBucketName"])},
    }


def deployed(engine: str, name: str, **parameters: str) -> dict[str, str]:
    stacks = boto3.client("cloudformation", endpoint_url=engine)
    stacks.create_stack(
        StackName=name,
        TemplateBody=json.dumps(part()),
        Parameters=[{"ParameterKey": k, "ParameterValue": v} for k, v in parameters.items()],
    )
    end = time.monotonic() + PATIENCE_S
    while True:
        (told,) = stacks.describe_stacks(StackName=name)["Stacks"]
        if not told["StackStatus"].endswith("IN_PROGRESS"):
            break
        assert time.monotonic() < end, told
        time.sleep(0.2)
    assert told["StackStatus"] == "CREATE_COMPLETE", told
    return {one["OutputKey"]: one["OutputValue"] for one in told.get("Outputs", [])}


def s3_of(engine: str) -> Any:
    return boto3.client("s3", endpoint_url=engine, config=Config(s3={"addressing_style": "path"}))


def test_without_archives_there_is_no_bucket(engine: str) -> None:
    assert "ArchiveBucketName" not in deployed(engine, "without")


@pytest.mark.parametrize("days", ["0", "3650"])
def test_the_bucket_is_made_as_it_is_described(engine: str, days: str) -> None:
    out = deployed(engine, f"with-{days}", Archive="on", ArchiveKeepDays=days)
    s3, bucket = s3_of(engine), out["ArchiveBucketName"]
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
    (rule,) = s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"]
    assert rule["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"
    blocked = s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"]
    assert set(blocked.values()) == {True}
    (refused,) = json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"])["Statement"]
    assert refused["Effect"] == "Deny"
    assert refused["Resource"] == [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"]


def test_the_table_of_the_template_has_the_index_that_retention_asks(engine: str) -> None:
    deployed(engine, "indexed")
    client = boto3.client("dynamodb", endpoint_url=engine)
    names = [name for name in client.list_tables()["TableNames"] if name.startswith("indexed-")]
    (name,) = names
    indexes = client.describe_table(TableName=name)["Table"]["GlobalSecondaryIndexes"]
    assert {one["IndexName"] for one in indexes} == {"open", "listing", "retention"}
