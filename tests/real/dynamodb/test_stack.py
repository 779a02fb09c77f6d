"""The one-machine stack on a real engine: the table's own stream, and the same deaths."""

import re
from pathlib import Path

import boto3

from dispatch.store.dynamodb import DynamoRecords
from dispatch.store.dynamodb_table import create_table
from embedded.state import Position
from embedded.stream import TableSource
from tests.embedded.running import Running, settled
from tests.functions.world import World


def test_a_table_s_stream_shows_each_header_and_entry_once_and_in_order(
    engine: str, tmp_path: Path
) -> None:
    client = boto3.client("dynamodb", endpoint_url=engine)
    create_table(client, "streamed")
    tokens = iter(range(1000))
    store = DynamoRecords(client, "streamed", lambda: f"s{next(tokens)}", pause=lambda _: None)
    world = World(store)
    job = world.job()
    for k in range(5):
        world.intend(job, "hold", f"i-{k}")
    streams = boto3.client("dynamodbstreams", endpoint_url=engine)
    source = TableSource(client, streams, "streamed")
    position = Position(tmp_path / "stream.json")
    seen = []
    for _ in range(50):
        for shard, records in source.read(position):
            seen += [record["dynamodb"]["NewImage"] for record in records]
            position.put({shard: records[-1]["dynamodb"]["SequenceNumber"]})
    of_the_record = [
        image for image in seen if image["sk"]["S"] == "HEADER" or image["sk"]["S"].startswith("E#")
    ]
    assert [int(image["revision"]["N"]) for image in of_the_record] == [0, 1, 2, 3, 4, 5]


def test_a_stack_on_a_table_that_is_killed_again_and_again_ends_as_if_it_never_was(
    engine: str, tmp_path: Path
) -> None:
    def started() -> Running:
        return Running(tmp_path / "state", store="dynamodb", endpoint=engine, table="stacked")

    ran = tmp_path / "ran"
    script = f"echo $DISPATCH_SUBMISSION.$DISPATCH_ATTEMPT >> {ran}; sleep 1; exit 3"
    stack = started()
    try:
        job = stack.submit("once", command=["sh", "-c", script]).json()["job_id"]
        for least in (0, 3, 6):
            stack.until(job, lambda status, least=least: status["revision"] >= least)  # type: ignore[misc]
            stack.kill()
            stack = started()
            assert stack.url, stack.ended()
        status = stack.until(job, settled)
        assert (status["outcome"], status["exit_code"]) == ("failed", 3)
        assert re.fullmatch(r"1\.[12]\n", ran.read_text())
        code, out = stack.end()
        assert code == 0, out
    finally:
        if stack.process.poll() is None:
            stack.kill()
