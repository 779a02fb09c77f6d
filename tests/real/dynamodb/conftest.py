"""A DynamoDB engine of these tests' own, on this machine and for as long as they run."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

ROOT = Path(__file__).resolve().parents[3]
_LOOKS = 300
_LOOK_S = 0.1


def command() -> Path:
    told = os.environ.get("DISPATCH_MINISTACK")
    found = Path(told) if told else ROOT / ".venv-ministack" / "bin" / "ministack"
    if not found.is_file():
        pytest.fail(f"there is no DynamoDB engine at {found}: run `make env-ministack`")
    return found


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def wait_for(process: "subprocess.Popen[bytes]", endpoint: str, log: Path) -> None:
    once = Config(retries={"total_max_attempts": 1}, connect_timeout=1, read_timeout=5)
    client = boto3.client("dynamodb", endpoint_url=endpoint, config=once)
    for _ in range(_LOOKS):
        if process.poll() is not None:
            break
        try:
            client.list_tables()
        except (BotoCoreError, ClientError):
            time.sleep(_LOOK_S)
        else:
            return
    pytest.fail(f"the DynamoDB engine did not start:\n{log.read_text()[-4000:]}")


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory, no_account_of_a_person: None) -> Iterator[str]:
    """The engine's address. Never left out: where it doesn't start, the tests fail."""
    place = tmp_path_factory.mktemp("engine")
    port = free_port()
    log = place / "log"
    environment = os.environ | {
        "GATEWAY_PORT": str(port),
        "BIND_HOST": "127.0.0.1",
        "IOT_MTLS_ENABLED": "0",
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [command()], cwd=place, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        endpoint = f"http://127.0.0.1:{port}"
        wait_for(process, endpoint, log)
        yield endpoint
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
