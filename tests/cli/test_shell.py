"""What the shell sees: completion, colours when they are asked for, and brakes in a story."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Shell
from tests.cli.test_jobs import submitted
from tests.client.network import Handlers
from tests.functions.world import CLUSTERS, World

ASK = """\
eval "$(dispatch completion bash)"
COMP_WORDS=({words}); COMP_CWORD={place}
_dispatch_completion dispatch
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def completed(*words: str) -> list[str]:
    """What bash offers for the last of some words."""
    script = ASK.format(words=" ".join(("dispatch", *words)), place=len(words))
    installed = Path(sys.executable).parent
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        env={
            **os.environ,
            "PATH": f"{installed}:{os.environ['PATH']}",
            "DISPATCH_URL": "",
            "DISPATCH_STATE": "/nowhere",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_bash_completes_commands_and_their_options() -> None:
    assert completed("resu") == ["resubmit"]
    assert "--preview" in completed("cancel", "--pre")


def test_where_a_job_is_wanted_the_open_ones_are_offered_with_their_names(shell: Shell) -> None:
    one, two = submitted(shell, "--name", "one"), submitted(shell, "--name", "two")
    shell("cancel", two)
    shell("watch", two)
    asked = {"_DISPATCH_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "dispatch why "}
    offered = shell(**asked).stdout
    assert f'"{one}":"one starting"' in offered
    assert two not in offered
    asked["_TYPER_COMPLETE_ARGS"] = f"dispatch cancel {one[:4]}"
    assert one in shell(**asked).stdout


def test_where_nobody_answers_a_shell_is_offered_nothing_and_told_nothing() -> None:
    assert completed("why", "j") == []


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: Shell, name: str) -> None:
    done = shell("completion", name)
    assert done.exit_code == 0
    assert "_DISPATCH_COMPLETE" in done.stdout


def test_colours_are_had_or_not_as_color_says_wherever_it_stands(shell: Shell) -> None:
    submitted(shell)
    for words in (["--color", "always", "list"], ["list", "--color=always"]):
        assert "\x1b[1m" in shell(*words, NO_COLOR="1").stdout
    assert "\x1b" not in shell("list", "--color", "never", FORCE_COLOR="1").stdout
    assert "\x1b" not in shell("list").stdout
    assert shell("list", "--color", "loud").exit_code == 2


def test_color_behind_two_dashes_is_the_job_s_own(shell: Shell) -> None:
    done = shell("submit", "-c", "main", "--dry-run", "--", "ls", "--color", "always")
    assert json.loads(done.stdout)["spec"]["command"] == ["ls", "--color", "always"]


def test_the_list_of_commands_says_of_each_what_it_is_for_in_whole(shell: Shell) -> None:
    listed = shell("--help", COLUMNS="80").stdout.split("Commands:")[1].split("Exit codes")[0]
    lines = [line.split(maxsplit=1) for line in listed.splitlines() if line.strip()]
    assert len(lines) > 30
    assert [line for line in lines if len(line) < 2 or not line[1].rstrip().endswith(".")] == []
    assert "..." not in listed


def test_a_story_names_the_brakes_that_hold_the_job_back(shell: Shell) -> None:
    document = json.loads(CLUSTERS)
    document["clusters"][0]["brakes"] = {"paused": "new disks until noon"}
    shell.world = World(clusters=json.dumps(document))
    shell.network = lambda: Handlers(shell.world)
    job = submitted(shell)
    told = shell("why", job).stdout
    assert "The cluster is paused (“new disks until noon”)" in told
    assert "dispatch clusters list" in told


def test_a_history_can_be_followed_until_the_job_is_settled(shell: Shell) -> None:
    job = submitted(shell)
    done = shell("history", job, "--follow")
    assert done.exit_code == 0
    entries = [int(line.split()[0]) for line in done.stdout.splitlines()]
    assert entries == list(range(len(entries)))
    assert "settled: nothing of this job is left" in done.stdout.splitlines()[-1]
    assert shell("history", shell.file("a.jsonl", "x"), "--follow").exit_code == 2


def test_no_error_of_the_command_line_leaves_open_what_to_do(shell: Shell) -> None:
    job = submitted(shell)
    torn = shell.file("torn.jsonl", "{}")
    for words in (
        ["status", "jnothere0000000000001"],
        ["why", torn],
        ["history", torn],
        ["tombstone", job],
        ["submit", "missing.yaml"],
        ["submit", "-c", "nowhere", "--", "true"],
        ["lint", "missing.yaml"],
        ["next", torn, "-d", torn, "--now", "noon"],
        ["explain", "-a", "slurm", torn + "x"],
        ["clusters", "check", "main"],
        ["discover", "main"],
        ["usage", "--by", "x"],
        ["export", job, "-o", "/nowhere/x"],
        ["accept-loss"],
        ["resubmit", job, "--set", "nodes=2"],
    ):
        done = shell(*words)
        assert done.exit_code != 0, words
        said = done.stderr
        assert "next: " in said or "Try 'dispatch" in said or "next " in said, (words, said)
        assert "Traceback" not in said
