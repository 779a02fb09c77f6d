"""For who is on call: every open job, the oldest wait first; and what is drawn in place."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys

from dispatch.record.names import ObjectState
from tests.cli.conftest import Shell
from tests.cli.test_jobs import submitted
from tests.client.network import Handlers
from tests.functions.world import CLUSTERS, World


def rows(text: str) -> list[str]:
    """The lines about jobs."""
    return [line for line in text.splitlines() if re.match(r"^[! ] +j", line)]


def test_jobs_that_wait_come_first_and_the_oldest_wait_of_all(shell: Shell) -> None:
    shell.world.cluster().ends = ObjectState.RUNNING
    runs = submitted(shell, "--name", "runs")
    shell.tick()
    shell.tick()
    late, early = submitted(shell, "--name", "late"), submitted(shell, "--name", "early")
    shell("hold", early)
    shell.world.clock.forward(60)
    shell("hold", late)
    done = shell("top", "--utc")
    assert done.exit_code == 0
    assert [re.findall(r"j\w{20}", line)[0] for line in rows(done.stdout)] == [early, late, runs]
    assert rows(done.stdout)[0].startswith("!")
    assert "held by iam:" in rows(done.stdout)[0]
    assert "3 open, 2 held, 1 running, 2 wait for a person" in done.stdout


def test_each_cluster_is_shown_with_its_open_jobs_last_look_brakes_and_trouble(
    shell: Shell,
) -> None:
    document = json.loads(CLUSTERS)
    document["clusters"][0]["brakes"] = {"paused": "maintenance"}
    shell.world = World(clusters=json.dumps(document))
    shell.network = lambda: Handlers(shell.world)
    submitted(shell)
    shell.tick()
    lines = shell("top").stdout.splitlines()
    assert re.match(r"main +1 +\S.* +paused: maintenance$", lines[1])
    assert re.match(r"wide +0 +never +ok$", lines[2])
    assert rows(shell("top").stdout)[0].endswith("the cluster is paused")


def test_it_can_be_narrowed_and_read_by_machines(shell: Shell) -> None:
    one = submitted(shell, "-l", "team=a")
    submitted(shell, "-l", "team=b")
    told = json.loads(shell("top", "--json", "-l", "team=a").stdout)
    assert [job["job_id"] for job in told["jobs"]] == [one]
    assert told["jobs"][0]["summary"]["since"]
    assert [cluster["name"] for cluster in told["clusters"]] == ["main", "wide"]
    assert rows(shell("top", "-c", "wide").stdout) == []


# --- on a terminal ----------------------------------------------------------------------------


def drawn(shell: Shell, *words: str, until: str, **env: str) -> str:
    """What a command that goes on draws on a terminal, until it has drawn something."""
    ours, its = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", SERVED, *words],
        stdout=its,
        stderr=its,
        stdin=its,
        env={
            **os.environ,
            "TERM": "xterm",
            "COLUMNS": "120",
            "LINES": "30",
            "NO_COLOR": "1",
            **env,
        },
    )
    os.close(its)
    seen = b""
    try:
        while until.encode() not in seen:
            seen += os.read(ours, 65_536)
        process.send_signal(signal.SIGINT)
        while piece := os.read(ours, 65_536):
            seen += piece
    except OSError:
        # Linux says so where the other end is closed and all was read.
        pass
    finally:
        os.close(ours)
        code = process.wait(60)
    return f"{code}\n{seen.decode()}"


SERVED = """
import os, sys
import httpx
import dispatch.cli.connect as connect
from dispatch.api import SubmitRequest
from dispatch.client import Client, Patience
from dispatch.record.header import Spec
from dispatch.record.names import ObjectState
from tests.client.network import URL, Handlers
from tests.functions.world import World
world = World()
world.cluster().ends = ObjectState.RUNNING
answers = Handlers(world)
left = int(os.environ.get("ANSWERS", "9999"))
class Network(httpx.BaseTransport):
    def handle_request(self, request):
        global left
        left -= 1
        if left < 0:
            raise httpx.ConnectError("refused")
        return answers.handle_request(request)
def client(url, patience=None, **more):
    return Client(url, transport=Network(), patience=Patience(tries=1), **more)
connect.Client = client
job = client(URL).submit(SubmitRequest(spec=Spec(name="drawn", command=("x",)), cluster="main"))
for _ in range(3):
    world.work('{"cluster":"main"}')
    world.clock.forward(2)
from dispatch.cli.app import app
words = [job.job_id if word == "JOB" else word for word in sys.argv[1:]]
app([*words, "--url", URL])
"""


def test_top_draws_over_what_it_drew_before_until_it_is_interrupted(shell: Shell) -> None:
    seen = drawn(shell, "top", "--every", "0.5", until="\x1b[1A")
    assert "Ctrl-C ends" in seen
    assert "drawn" in seen
    assert "interrupted; jobs go on" in seen
    assert seen.startswith("130\n")


def test_top_keeps_what_was_known_while_nobody_answers(shell: Shell) -> None:
    seen = drawn(shell, "top", "--every", "0.5", until="No news since then: ", ANSWERS="6")
    drawings = seen.split("Ctrl-C ends")
    assert "drawn" in drawings[-1]
    assert "Asking again" in drawings[-1]
    assert seen.startswith("130\n")


def test_a_watch_draws_in_place_on_a_terminal_and_can_be_had_in_lines(shell: Shell) -> None:
    seen = drawn(shell, "watch", "JOB", until="\x1b[1A")
    assert "desired" in seen
    assert "\x1b[2K" in seen
    lines = drawn(shell, "watch", "JOB", "--lines", until="running")
    assert "\x1b[1A" not in lines
