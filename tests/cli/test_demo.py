"""The demo tells the truth, and ends alike when its stack is killed in the middle of it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dispatch.narrate.history import history
from dispatch.narrate.words import Reader
from dispatch.record.view import View
from embedded.demo.play import play
from embedded.demo.process import StackProcess
from embedded.demo.stories import ENDINGS, STORIES, Story, Told, deviations, marks

NAMES = {"preempted": "train", "cancelled": "wait", "given_up": "grow"}


@dataclass
class Heard:
    """A teller that keeps what it is told."""

    lines: list[str] = field(default_factory=list)
    views: list[View] = field(default_factory=list)

    def title(self, text: str) -> None:
        self.lines.append(text)

    def say(self, text: str) -> None:
        self.lines.append(text)

    def record(self, view: View) -> None:
        self.views.append(view)


def told_in_full(view: View) -> str:
    reader = Reader(datetime.now(UTC), UTC)
    return "\n".join(line.what for line in history(view, reader).lines)


@pytest.mark.timeout(300)
def test_the_demo_ends_with_0_and_shows_the_three_histories(tmp_path: Path) -> None:
    kept = tmp_path / "demo"
    done = subprocess.run(
        [sys.executable, "-m", "dispatch.cli", "demo", "--utc", "--keep", str(kept)],
        env={**os.environ, "COLUMNS": "260"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    shown = re.sub(r"\s+", " ", done.stdout)
    for words in (
        "1. A job on two nodes is preempted and recovers",
        "was preempted",
        "submission 2 may start",
        "“train” on local: succeeded, settled",
        "2. A job is cancelled while it runs",
        "asked to cancel it: done; the outcome is cancelled",
        "“wait” on local: cancelled, settled",
        "3. A job runs out of memory, is held, and is given up",
        "ran out of memory",
        "asked to give it up: done; the outcome is failed",
        "“grow” on local: failed (out_of_memory), settled",
    ):
        assert words in shown
    for name, ending in ENDINGS.items():
        assert marks(kept / "marks" / name) == ending.marks


@pytest.mark.timeout(300)
@pytest.mark.parametrize("story", STORIES, ids=[one.__name__ for _, one in STORIES])
def test_a_stack_killed_at_every_point_of_a_story_ends_it_alike_and_runs_nothing_twice(
    story: tuple[str, Story], tmp_path: Path
) -> None:
    heard, points = Heard(), []

    def killed(stack: StackProcess, point: str) -> None:
        points.append(point)
        stack.kill()
        stack.start()

    code = play(heard, root=tmp_path / "demo", stories=[story], between=killed)
    assert code == 0, "\n".join(heard.lines)
    assert len(points) == 3
    name = NAMES[story[1].__name__]
    assert marks(tmp_path / "demo" / "marks" / name) == ENDINGS[name].marks
    assert len(heard.views) == 1
    assert "settled: nothing of this job is left anywhere" in told_in_full(heard.views[0])


@pytest.mark.timeout(300)
def test_a_stack_killed_while_a_run_is_being_stopped_and_again_before_it_settles_loses_nothing(
    tmp_path: Path,
) -> None:
    heard = Heard()

    def killed(stack: StackProcess, point: str) -> None:
        if point == "cancelled/asked":
            for _ in range(3):
                stack.kill()
                stack.start()

    assert play(heard, root=tmp_path / "demo", stories=[STORIES[1]], between=killed) == 0, (
        "\n".join(heard.lines)
    )


@pytest.mark.timeout(300)
def test_a_story_that_goes_otherwise_is_said_and_ends_with_1_and_leaves_nothing_running(
    tmp_path: Path,
) -> None:
    heard, pids = Heard(), []

    def meddled(stack: StackProcess, point: str) -> None:
        if point == "cancelled/running":
            path = tmp_path / "demo" / "marks" / "wait"
            pids.append(int(path.read_text().splitlines()[0].rpartition("pid=")[2]))
            os.kill(pids[0], signal.SIGKILL)
            for _ in range(200):
                with stack.client() as client:
                    (one,) = client.jobs()
                    if client.get(one.job_id).holds:
                        return

    assert play(heard, root=tmp_path / "demo", stories=[STORIES[1]], between=meddled) == 1
    assert "It didn't go as told" in heard.lines
    said = " ".join(heard.lines)
    assert "its runs ended with" in said
    assert str(tmp_path / "demo") in said
    assert not Path(f"/proc/{pids[0]}").exists()


def judged(view: View, folder: Path, name: str = "wait") -> Sequence[str]:
    return deviations(Told(name, view.job_id, view), folder, datetime.now(UTC))


@pytest.mark.timeout(300)
def test_every_deviation_of_an_ending_is_noticed(tmp_path: Path) -> None:
    heard = Heard()
    assert play(heard, root=tmp_path / "demo", stories=[STORIES[1]]) == 0, "\n".join(heard.lines)
    (view,) = heard.views
    folder = tmp_path / "demo" / "marks"
    assert judged(view, folder) == []
    assert any("isn't settled" in one for one in judged(view.at(view.revision - 1), folder))
    assert any("outcome is None" in one for one in judged(view.at(3), folder))
    assert any("its runs ended" in one for one in judged(view.at(3), folder))
    with (folder / "wait").open("a") as file:
        file.write("start submission=1 rank=0 pid=1\n")
    assert [one for one in judged(view, folder) if "its tasks wrote" in one]
