"""The cloud on this machine: one process on the loopback interface that enforces IAM."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import boto3
import httpx
import psutil
import pytest
from botocore.config import Config

ROOT = Path(__file__).resolve().parents[3]
REGION = "us-east-1"

_Result = TypeVar("_Result")


PATIENCE_S = 600
"""How long anything is waited for before it counts as never coming; a busy machine takes long."""


def until(
    what: str, look: Callable[[], _Result | None], *, within_s: float = PATIENCE_S
) -> _Result:
    """Look again and again until there is something; fail by name where nothing comes."""
    end = time.monotonic() + within_s
    last: Exception | None = None
    while time.monotonic() < end:
        try:
            found = look()
        except (httpx.HTTPError, OSError) as error:
            last, found = error, None
        if found:
            return found
        time.sleep(0.25)
    pytest.fail(f"not within {within_s} s: {what} ({last})")


@dataclass
class Engine:
    """The engine, its root's credentials, and everything it was told to do."""

    place: Path
    port: int
    process: subprocess.Popen[bytes]
    root: Mapping[str, str]
    clients: dict[str, Any] = field(default_factory=dict)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.place / "engine.log").read_text(errors="replace")

    def client(self, service: Any) -> Any:
        """A client of the account's root."""
        if service not in self.clients:
            self.clients[service] = boto3.client(
                service,
                endpoint_url=self.endpoint,
                region_name=REGION,
                aws_access_key_id=self.root["AWS_ACCESS_KEY_ID"],
                aws_secret_access_key=self.root["AWS_SECRET_ACCESS_KEY"],
                config=Config(read_timeout=PATIENCE_S, retries={"total_max_attempts": 1}),
            )
        return self.clients[service]

    def workers(self, function: str) -> list[psutil.Process]:
        """The processes in which the engine runs a function now; all of them are its children."""
        found = []
        for child in psutil.Process(self.process.pid).children(recursive=True):
            try:
                command = " ".join(child.cmdline())
            except psutil.Error:
                continue
            if f"lambda-{function}" in command and "_worker" in command:
                found.append(child)
        return found


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def _command() -> list[str | Path]:
    told = os.environ.get("DISPATCH_MINISTACK")
    found = Path(told) if told else ROOT / ".venv-ministack" / "bin" / "ministack"
    if not found.is_file():
        pytest.fail(f"there is no engine at {found}: run `make env-ministack`")
    # -P: what stands beside that file is no module of the engine's.
    quick = Path(__file__).with_name("quick_engine.py")
    return [found.with_name("python"), "-P", quick, ROOT / "build" / "unpacked"]


@contextmanager
def running_engine(place: Path) -> Iterator[Engine]:
    """An engine of its own, ended with all that it started. Never left out: it starts or fails."""
    port = free_port()
    root = {
        "AWS_ACCESS_KEY_ID": "AKIA" + secrets.token_hex(8).upper(),
        "AWS_SECRET_ACCESS_KEY": secrets.token_hex(20),
    }
    (place / "tmp").mkdir()
    environment = {
        **os.environ,
        **root,
        "GATEWAY_PORT": str(port),
        "BIND_HOST": "127.0.0.1",
        "IOT_MTLS_ENABLED": "0",
        "AUTH": "true",
        "MINISTACK_REGION": REGION,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "TMPDIR": str(place / "tmp"),
    }
    with (place / "engine.log").open("wb") as output:
        process = subprocess.Popen(
            _command(),
            cwd=place,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    engine = Engine(place, port, process, root)
    try:

        def healthy() -> bool:
            if process.poll() is not None:
                pytest.fail(f"the engine ended:\n{engine.log[-4000:]}")
            health = httpx.get(f"{engine.endpoint}/_ministack/health", timeout=5)
            return health.status_code == 200

        until("the engine answers", healthy)
        yield engine
    finally:
        started: list[psutil.Process] = []
        with suppress(psutil.NoSuchProcess):
            started = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _end(started, within_s=0)
        # Runners of jobs detach themselves: they are nobody's children, and were told to end.
        _end(_of(place), within_s=30)
        shutil.rmtree(place / "tmp", ignore_errors=True)


def _of(place: Path) -> list[psutil.Process]:
    """The processes that name this folder, or stand below it, and their children."""
    found = []
    for one in psutil.process_iter():
        with suppress(psutil.Error):
            words = (*one.cmdline(), one.cwd())
            if one.pid != os.getpid() and any(str(place) in word for word in words):
                found += [one, *one.children(recursive=True)]
    return found


def _end(processes: list[psutil.Process], *, within_s: float) -> None:
    _, left = psutil.wait_procs(processes, timeout=within_s)
    for one in left:
        with suppress(psutil.NoSuchProcess):
            one.kill()
    psutil.wait_procs(left, timeout=10)
