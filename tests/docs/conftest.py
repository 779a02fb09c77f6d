"""A stack that all pages share, and one program that has loaded the command line."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.forked import Forked
from tests.embedded.running import Running, settled


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Dispatch on this machine, with its local cluster."""
    running = Running(tmp_path_factory.mktemp("documented") / "state", tick_s=0.5)
    yield running
    for one in running.get("/jobs?settled=false&limit=1000")["jobs"]:
        running.intend(one["job_id"], "cancel")
    while running.get("/jobs?settled=false")["jobs"]:
        time.sleep(0.1)
    running.kill()


@pytest.fixture(scope="package")
def forked() -> Iterator[Forked]:
    """What `dispatch` is while commands are typed."""
    with tempfile.TemporaryDirectory() as folder:
        server = Forked(Path(folder))
        yield server
        server.end()


@pytest.fixture(scope="package")
def over(stack: Running) -> str:
    """A job that has come to its end."""
    job = stack.submit("over", command=["echo", "hello"]).json()["job_id"]
    stack.until(job, settled)
    return str(job)
