"""A DynamoDB engine of the benchmarks' own, on this machine and for as long as they run."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from benchmarks.figures import CannotMeasure
from dispatch.store.dynamodb import DynamoRecords
from dispatch.store.dynamodb_table import create_table

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
_LOOKS = 300
_LOOK_S = 0.1


def token() -> str:
    """Return a commit's token."""
    return uuid4().hex


@contextmanager
def folder() -> Iterator[Path]:
    """Lend a folder on the disk that the project is on; it is gone afterwards."""
    BUILD.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="bench-", dir=BUILD) as place:
        yield Path(place)


@contextmanager
def engine() -> Iterator[str]:
    """Run an engine and lend its address.

    Raises:
        CannotMeasure: It isn't installed, or doesn't start.
    """
    command = Path(os.environ.get("DISPATCH_MINISTACK") or ROOT / ".venv-ministack/bin/ministack")
    if not command.is_file():
        raise CannotMeasure(f"there is no DynamoDB engine at {command}: run `make env-ministack`")
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    told = {"GATEWAY_PORT": str(port), "BIND_HOST": "127.0.0.1", "IOT_MTLS_ENABLED": "0"}
    with folder() as place, (place / "log").open("wb") as log:
        process = subprocess.Popen(
            [command], cwd=place, env=os.environ | told, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            endpoint = f"http://127.0.0.1:{port}"
            _wait(process, endpoint, place / "log")
            yield endpoint
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def client_of(endpoint: str, **config: Any) -> DynamoDBClient:
    """Return a client for an engine, with keys that belong to nobody."""
    return boto3.client(
        "dynamodb",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="benchmark",
        aws_secret_access_key="benchmark",  # noqa: S106 - the engine asks for any key
        config=Config(**config),
    )


def _wait(process: subprocess.Popen[bytes], endpoint: str, log: Path) -> None:
    client = client_of(
        endpoint, retries={"total_max_attempts": 1}, connect_timeout=1, read_timeout=5
    )
    for _ in range(_LOOKS):
        if process.poll() is not None:
            break
        try:
            client.list_tables()
        except (BotoCoreError, ClientError):
            time.sleep(_LOOK_S)
        else:
            return
    raise CannotMeasure(f"the DynamoDB engine did not start: {log.read_text()[-300:]}")


def table_on(client: DynamoDBClient) -> tuple[str, DynamoRecords]:
    """Return a fresh table's name and the store on it."""
    name = f"bench-{token()}"
    create_table(client, name)
    return name, DynamoRecords(client, name, token, pause=lambda k: time.sleep(0.005 * 2**k))
