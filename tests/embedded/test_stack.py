"""The whole stack in a process of its own, on the local cluster: real jobs, real deaths."""

import json
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx
import pytest

from dispatch.core.fold import fold
from dispatch.record.export import import_text
from dispatch.settings import stack_url
from dispatch.wiring import utc_now
from tests.embedded.running import Running, settled


@pytest.fixture
def starts(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    running: list[Running] = []

    def start(state: Path | None = None, **settings: Any) -> Running:
        one = Running(state or tmp_path / "state", **settings)
        running.append(one)
        return one

    yield start
    for one in running:
        if one.process.poll() is None:
            one.kill()


def told(folder: Path, job: str) -> list[str]:
    """The ids of a settled job's events, which follow the record a moment later, by the stream."""
    events = folder / "state/events.jsonl"
    while f"{job}/settled" not in events.read_text():
        time.sleep(0.02)
    return [json.loads(line)["id"] for line in events.read_text().splitlines()]


def test_a_job_runs_from_submit_to_settled(starts: Callable[..., Running], tmp_path: Path) -> None:
    stack = starts()
    made = stack.submit("hello", command=["sh", "-c", "echo rank $DISPATCH_RANK"], nodes=2)
    assert made.status_code == 201
    job = made.json()["job_id"]
    status = stack.until(job, settled)
    assert (status["outcome"], status["submission"], status["attempt"]) == ("succeeded", 1, 1)
    assert stack.get(f"/jobs/{job}/logs")["text"] == "rank 0\n"
    assert status["created_by"].startswith("local:")
    told(tmp_path, job)
    code, out = stack.end()
    assert code == 0, out
    assert told(tmp_path, job) == [f"{job}/outcome", f"{job}/settled"]
    assert "outcome succeeded" in out


def test_a_stack_that_is_killed_again_and_again_ends_as_if_it_never_was(
    starts: Callable[..., Running], tmp_path: Path
) -> None:
    """SIGKILL after the submit, and whenever the record has grown: one run, the same outcome."""
    ran = tmp_path / "ran"
    script = f"echo $DISPATCH_SUBMISSION.$DISPATCH_ATTEMPT >> {ran}; sleep 1; exit 3"
    stack = starts()
    job = stack.submit("once", command=["sh", "-c", script]).json()["job_id"]
    for least in (0, 1, 3, 5, 7):
        stack.until(job, lambda status, least=least: status["revision"] >= least)  # type: ignore[misc]
        stack.kill()
        stack = starts()
        assert stack.url, stack.ended()
    status = stack.until(job, settled)
    assert (status["outcome"], status["cause"], status["exit_code"]) == ("failed", "app_error", 3)
    # A death between the recorded attempt and its Start leaves the run to the next attempt.
    assert re.fullmatch(r"1\.[12]\n", ran.read_text())
    again = stack.submit("once", command=["sh", "-c", script])
    assert (again.status_code, again.json()["job_id"]) == (200, job)
    export = httpx.get(f"{stack.url}/jobs/{job}/export").text
    assert fold(import_text(export), utc_now()).settled_at is not None
    assert set(told(tmp_path, job)) == {f"{job}/outcome", f"{job}/settled"}


def test_a_cancel_that_was_recorded_before_the_death_is_carried_out_after_it(
    starts: Callable[..., Running], tmp_path: Path
) -> None:
    stack = starts()
    ended = tmp_path / "ended"
    job = stack.submit("long", command=["sh", "-c", f"sleep 60; touch {ended}"]).json()["job_id"]
    stack.until(job, lambda status: status["state"] == "running")
    assert stack.intend(job, "cancel")["outcome"] == "cancelled"
    stack.kill()
    stack = starts()
    status = stack.until(job, settled)
    assert status["outcome"] == "cancelled"
    assert not ended.exists()


def test_a_second_stack_on_the_same_state_is_refused_and_told_of_the_first(
    starts: Callable[..., Running], tmp_path: Path
) -> None:
    first = starts()
    second = starts()
    code, out = second.ended()
    assert code != 0
    assert "running" in out
    assert str(first.process.pid) in out
    assert first.url in out
    assert stack_url(tmp_path / "state") == first.url
    assert first.get("/whoami")["actor"].startswith("local:")


def test_a_port_that_is_taken_is_said_so(starts: Callable[..., Running], tmp_path: Path) -> None:
    first = starts()
    port = int(first.url.rsplit(":", 1)[1])
    code, out = starts(tmp_path / "other", port=port).ended()
    assert code != 0
    assert "--port" in out


def test_f07_parallel_submits_of_one_key_over_http_make_one_job(
    starts: Callable[..., Running],
) -> None:
    stack = starts()
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: stack.submit("same", command=["true"]), range(16)))
    assert sorted(one.status_code for one in made) == [200] * 15 + [201]
    assert len({one.json()["job_id"] for one in made}) == 1
    assert len(stack.get("/jobs")["jobs"]) == 1


def test_the_stack_listens_on_the_loopback_interface_alone(
    starts: Callable[..., Running],
) -> None:
    stack = starts()
    port = int(stack.url.rsplit(":", 1)[1])
    listening = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    ours = [row[1] for row in listening if row[3] == "0A" and row[1].endswith(f":{port:04X}")]
    assert ours == [f"0100007F:{port:04X}"]
    assert stack.url == f"http://127.0.0.1:{port}"


def test_a_document_of_clusters_in_the_state_folder_takes_the_default_s_place(
    starts: Callable[..., Running], tmp_path: Path
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    clusters = [
        {"name": name, "adapter": "local", "settings": {"spool": str(tmp_path / name)}}
        for name in ("one", "two")
    ]
    document = {"schema": "dispatch.clusters.v1", "clusters": clusters}
    (state / "clusters.json").write_text(json.dumps(document))
    stack = starts()
    assert [one["name"] for one in stack.get("/clusters")["clusters"]] == ["one", "two"]


def test_jobs_outlive_a_stack_that_is_stopped(
    starts: Callable[..., Running], tmp_path: Path
) -> None:
    stack = starts()
    mark = tmp_path / "mark"
    job = stack.submit("on", command=["sh", "-c", f"sleep 2; touch {mark}"]).json()["job_id"]
    stack.until(job, lambda status: status["state"] == "running")
    assert stack.end()[0] == 0
    while not mark.exists():
        time.sleep(0.05)
    assert starts().until(job, settled)["outcome"] == "succeeded"


def test_the_state_folder_holds_nothing_that_others_may_read(
    starts: Callable[..., Running], tmp_path: Path
) -> None:
    starts()
    assert (tmp_path / "state").stat().st_mode & 0o077 == 0


def test_a_stack_ends_though_clients_go_on_asking_over_the_connections_they_have(
    starts: Callable[..., Running],
) -> None:
    """A browser's page and `dispatch top` keep theirs open; nothing is left to them, or told."""
    stack = starts()
    with httpx.Client(base_url=stack.url) as client:
        assert client.get("/whoami").status_code == 200
        asking = Event()

        def ask() -> None:
            with suppress(httpx.TransportError):
                while True:
                    client.get("/jobs?settled=false")
                    asking.set()

        thread = Thread(target=ask)
        thread.start()
        asking.wait(20)
        code, out = stack.end()
        thread.join(20)
        assert not thread.is_alive()
    assert code == 0, out
    assert out.splitlines()[-1].startswith("stopping; jobs run on")
    assert "still running" not in (stack.state / "stack.log").read_text()
