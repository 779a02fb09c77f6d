"""Retention on an engine: archives in its bucket, and a run that asks only for what is due."""

import logging
from typing import Any

import boto3
import pytest
from botocore.config import Config

from dispatch.aws import S3Archive
from dispatch.core.fold import fold
from dispatch.errors import JobTombstoned
from dispatch.record.export import import_text
from dispatch.settings import Settings
from dispatch.store.dynamodb import DynamoRecords
from dispatch.store.dynamodb_table import create_table
from dispatch.wiring import Edges, Wiring
from functions.retention.app import make_handler
from tests.functions.world import CLUSTERS, Context, World

DAY_S = 86_400


def test_records_are_archived_by_age_removed_and_never_visited_again(engine: str) -> None:
    client = boto3.client("dynamodb", endpoint_url=engine)
    create_table(client, "retained")
    tokens = iter(range(10_000))
    store = DynamoRecords(client, "retained", lambda: f"kept-{next(tokens)}", pause=lambda _: None)
    s3: Any = boto3.client(
        "s3", endpoint_url=engine, config=Config(s3={"addressing_style": "path"})
    )
    s3.create_bucket(
        Bucket="archive", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
    )
    world = World(store)
    jobs = [world.job(f"k{number}") for number in range(3)]
    for job in jobs:
        world.settle(job)
    kept = world.job("kept")
    world.intend(kept, "hold")
    world.clock.forward(3600)
    for _ in range(3):
        world.work('{"cluster":"main"}')
    told = {job: fold(store.read(job), world.clock()) for job in jobs}
    wiring = Wiring(
        Settings(clusters=CLUSTERS, archive_after_days=30),
        Edges(world.clock),
        store=store,
        archive=S3Archive("archive", s3),
    )
    run = make_handler(wiring, logging.getLogger("tests.retention"))
    assert run({}, Context()) == {"removed": 0, "archived": 0, "complete": True}
    world.clock.forward(31 * DAY_S)
    store.tombstone(jobs[0])
    assert run({}, Context()) == {"removed": 1, "archived": 2, "complete": True}
    assert run({}, Context()) == {"removed": 2, "archived": 0, "complete": True}
    for job in jobs:
        with pytest.raises(JobTombstoned):
            store.read(job)
        left = client.query(
            TableName="retained",
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": f"JOB#{job}"}},
        )["Items"]
        assert [item["sk"]["S"] for item in left] == ["HEAD"]
        body = s3.get_object(Bucket="archive", Key=f"records/{job}.jsonl")["Body"].read()
        assert fold(import_text(body.decode()), world.clock()) == told[job]
    assert store.read(kept).revision > 0
    asked: list[str] = []
    client.meta.events.register(
        "before-parameter-build.dynamodb", lambda model, **_: asked.append(model.name)
    )
    world.clock.forward(400 * DAY_S)
    assert run({}, Context()) == {"removed": 0, "archived": 0, "complete": True}
    # One query for each partition of the index, and nothing for what is gone.
    assert asked == ["Query"] * 32
