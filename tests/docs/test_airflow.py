"""The Airflow how-to's task, run on a one-machine stack by a stand-in of Airflow itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dispatch.client import Client, SigV4
from tests.docs.blocks import blocks
from tests.embedded.running import Running

PAGE = "docs/how-to/airflow.md"
URL = "https://abc123.execute-api.eu-west-1.amazonaws.com"


class Airflow:
    """As much of it as the page uses: a task runs at once, and is tried again when it fails.

    What is taken is held to what `airflow.sdk` takes: unknown words are refused.
    """

    def __init__(self, day: str) -> None:
        self.day = day
        self.dags: list[str] = []
        self.tries: list[str] = []
        self.results: list[Any] = []
        self._context: dict[str, Any] = {}

    def dag(self, *, schedule: str, start_date: datetime, catchup: bool) -> Callable[..., Any]:
        assert schedule == "@daily"
        assert not catchup
        assert start_date.year == 2026

        def made(function: Callable[[], None]) -> Callable[[], None]:
            def run() -> None:
                self.dags.append(function.__name__)
                function()

            return run

        return made

    def task(self, *, retries: int, retry_delay: timedelta) -> Callable[..., Any]:
        assert retry_delay == timedelta(minutes=5)

        def made(function: Callable[[], Any]) -> Callable[[], Any]:
            return partial(self._tried, function, retries)

        return made

    def _tried(self, function: Callable[[], Any], retries: int) -> Any:
        named = type("Named", (), {"dag_id": self.dags[-1], "task_id": function.__name__})
        self._context = {"dag": named, "task": named, "ds": self.day}
        for left in range(retries, -1, -1):
            self.tries.append(function.__name__)
            try:
                self.results.append(function())
            except Exception:
                if not left:
                    raise
            else:
                return self.results[-1]
        raise AssertionError("unreachable")

    def get_current_context(self) -> dict[str, Any]:
        return self._context


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Running]:
    running = Running(tmp_path / "state")
    yield running
    running.kill()


def page() -> tuple[str, str]:
    """The function and the task, as they stand on the page."""
    function, task = [block.text for block in blocks("python") if block.page == PAGE]
    return function, task


def module(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> ModuleType:
    made = ModuleType(name)
    vars(made).update(members)
    monkeypatch.setitem(sys.modules, name, made)
    return made


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch, stack: Running) -> Airflow:
    """Airflow, a company's module, and an API on AWS: that is the stack here."""
    stand_in = Airflow("2026-01-05")
    sdk = {name: getattr(stand_in, name) for name in ("dag", "task", "get_current_context")}
    module(monkeypatch, "airflow")
    module(monkeypatch, "airflow.sdk", **sdk)
    module(monkeypatch, "my_company")
    exec(page()[0], vars(module(monkeypatch, "my_company.jobs")))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nobody")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")

    def client(url: str, *, auth: Any) -> Client:
        assert url == URL
        assert isinstance(auth, SigV4)
        return Client(stack.url)

    monkeypatch.setattr("dispatch.client.Client", client)
    return stand_in


def runs(monkeypatch: pytest.MonkeyPatch, command: str) -> str:
    """The page's task, of which only what it computes is changed: here are no four nodes."""
    task = page()[1]
    written = 'command=("python", "train.py", context["ds"]), nodes=4'
    assert written in task
    return task.replace(written, f'command=("sh", "-c", {command!r}, context["ds"])').replace(
        '"main"', '"local"'
    )


def test_a_dag_s_task_is_one_job_a_day_however_often_it_runs(
    monkeypatch: pytest.MonkeyPatch, airflow: Airflow, stack: Running
) -> None:
    task = runs(monkeypatch, 'echo "trained for $0"')
    exec(task, {})
    exec(task, {})  # the same task, cleared
    airflow.day = "2026-01-06"
    exec(task, {})
    first, again, other = airflow.results
    assert first == again != other
    with Client(stack.url) as client:
        assert len(list(client.jobs())) == 2
        assert client.logs(first).text == "trained for 2026-01-05\n"


def test_a_task_whose_job_failed_fails_in_each_try_and_makes_no_second_job(
    monkeypatch: pytest.MonkeyPatch, airflow: Airflow, stack: Running
) -> None:
    with pytest.raises(Exception, match=r"failed \(app_error\); see: dispatch why j"):
        exec(runs(monkeypatch, "exit 3"), {})
    assert len(airflow.tries) == 4
    with Client(stack.url) as client:
        assert len(list(client.jobs())) == 1


def test_a_worker_that_dies_while_it_waits_finds_the_same_job_in_its_next_try(
    monkeypatch: pytest.MonkeyPatch, airflow: Airflow, stack: Running
) -> None:
    died: list[str] = []
    real = Client.watch

    def watch(self: Client, job: str, **more: Any) -> Any:
        if not died:
            died.append(job)
            raise ConnectionError("the worker's machine went away")
        return real(self, job, **more)

    monkeypatch.setattr(Client, "watch", watch)
    exec(runs(monkeypatch, "exit 0"), {})
    assert airflow.tries == ["train", "train"]
    assert airflow.results == died
