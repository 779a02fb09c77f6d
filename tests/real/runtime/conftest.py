"""Amazon's runtime on this machine: the emulator binary, its Python client, and the build."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

ROOT = Path(__file__).resolve().parents[3]
BUILD = ROOT / "build" / "sam"
RAPID = "lib/python3.13/site-packages/samcli/local/rapid/aws-lambda-rie-x86_64"


@dataclass(frozen=True)
class Runtime:
    """One function in Amazon's runtime; it takes one call at a time."""

    url: str
    log: Path
    pid: int

    def invoke(self, event: Mapping[str, Any]) -> Any:
        """Call the function and return what comes back, decoded where it is JSON."""
        answer = httpx.post(self.url, content=json.dumps(event), timeout=600)
        try:
            return answer.json()
        except ValueError:
            return answer.text

    def killed_for_memory(self) -> None:
        """End the function's process as the kernel does where its memory is used up."""
        for child in psutil.Process(self.pid).children(recursive=True):
            if "awslambdaric" in child.cmdline():
                child.kill()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@contextmanager
def running(
    function: str, place: Path, settings: Mapping[str, str], timeout_s: int = 60
) -> Iterator[Runtime]:
    emulator = ROOT / ".venv-sam" / RAPID
    code = BUILD / function
    for needed in (emulator, code):
        if not needed.exists():
            pytest.fail(f"there is no {needed}: run `make build env-runtime`")
    emulator.chmod(0o755)
    # Both addresses are given: by default it listens on every interface.
    port, inner = free_port(), free_port()
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{code}:{BUILD / 'DispatchLayer' / 'python'}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "LAMBDA_TASK_ROOT": str(code),
        "AWS_LAMBDA_FUNCTION_NAME": function,
        "AWS_LAMBDA_FUNCTION_TIMEOUT": str(timeout_s),
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_EC2_METADATA_DISABLED": "true",
        "POWERTOOLS_TRACE_DISABLED": "true",
        **settings,
    }
    log = place / f"{function}-{port}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                emulator,
                "--runtime-interface-emulator-address",
                f"127.0.0.1:{port}",
                "--runtime-api-address",
                f"127.0.0.1:{inner}",
                ROOT / ".venv-runtime" / "bin" / "python",
                "-m",
                "awslambdaric",
                "app.handler",
            ],
            cwd=code,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        _wait(process, port, log)
        url = f"http://127.0.0.1:{port}/2015-03-31/functions/function/invocations"
        yield Runtime(url, log, process.pid)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    for _ in range(200):
        if process.poll() is not None:
            break
        with socket.socket() as one:
            one.settimeout(0.1)
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
    pytest.fail(f"Amazon's runtime did not start:\n{log.read_text()[-4000:]}")


Start = Callable[..., Runtime]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a function over a file of records and a cluster that is this machine."""
    assert sys.platform == "linux"
    local = {"name": "here", "adapter": "local", "settings": {"spool": str(tmp_path / "spool")}}
    with ExitStack() as stack:

        def started(
            function: str, *, clusters: list[dict[str, Any]] | None = None, timeout_s: int = 60
        ) -> Runtime:
            document = {"schema": "dispatch.clusters.v1", "clusters": clusters or [local]}
            settings = {
                "DISPATCH_SQLITE": str(tmp_path / "records.sqlite"),
                "DISPATCH_CLUSTERS": json.dumps(document),
                "DISPATCH_QUEUE_URL": "http://127.0.0.1:9/queue",
                "DISPATCH_EVENT_BUS": "events",
            }
            return stack.enter_context(running(function, tmp_path, settings, timeout_s))

        yield started
