"""Tables on narrow terminals, and texts on those that can't show every sign."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pytest

from dispatch.api import ListedAnswer
from dispatch.cli.fitting import fitted
from dispatch.cli.listing import state_of
from dispatch.cli.spelling import spelt, writable
from tests.cli.conftest import Shell
from tests.cli.test_jobs import submitted

TITLES = ("JOB", "NAME", "CLUSTER", "STATE", "CREATED", "BY")
ID = "j6gmbd5lxw2oawgy4wqty"
ROW = (ID, "n" * 60, "local", "held (by local:ada)", "2026-11-29 22:14:58", "local:ada")


def width(row: tuple[str, ...]) -> int:
    return sum(map(len, row)) + 2 * (len(row) - 1)


@pytest.mark.parametrize("columns", range(40, 200, 7))
def test_a_job_s_id_is_whole_on_any_terminal_and_the_rest_fits(columns: int) -> None:
    titles, (row,) = fitted(TITLES, [ROW], columns)
    assert row[titles.index("JOB")] == ID
    assert "STATE" in titles
    assert width(row) <= columns


def test_names_are_cut_before_columns_are_left_away() -> None:
    wide = width(ROW) + len("CLUSTER") - len("local")
    assert fitted(TITLES, [ROW], wide) == (TITLES, [ROW])
    titles, (row,) = fitted(TITLES, [ROW], wide - 10)
    assert titles == TITLES
    assert row == (ID, "n" * 49 + "…", *ROW[2:])
    titles, _ = fitted(TITLES, [ROW], 60)
    assert titles == ("JOB", "NAME", "CLUSTER", "STATE")


def test_a_table_of_something_else_is_left_to_fold() -> None:
    assert fitted(("#", "WHAT"), [("1", "w" * 99)], 20) == (("#", "WHAT"), [("1", "w" * 99)])


def test_a_list_on_a_narrow_terminal_has_every_id_in_whole(shell: Shell) -> None:
    job = submitted(shell, "--name", "n" * 60)
    lines = shell("list", COLUMNS="50").stdout.splitlines()
    assert lines[1].startswith(f"{job}  nnn")
    assert max(map(len, lines)) <= 50
    assert "n" * 60 in shell("list").stdout


def test_a_list_is_chosen_from_as_many_jobs_at_once_are(shell: Shell) -> None:
    one = submitted(shell, "-l", "team=a", "--name", "one")
    two = submitted(shell, "-l", "team=b", "--name", "two")

    def jobs(*words: str) -> list[str]:
        done = shell("list", "--json", *words)
        return [json.loads(line)["job_id"] for line in done.stdout.splitlines()]

    assert jobs("-l", "team=a") == jobs("--name", "one") == [one]
    assert jobs("--state", "pending") == [one, two]
    assert jobs("--state", "running") == jobs("--owner", "nobody") == []
    shell("cancel", two)
    shell("watch", two)
    assert jobs("--all", "-l", "team=b") == jobs("--settled", "--name", "two") == [two]


def test_a_hold_that_was_asked_for_isn_t_a_state_that_is_reached(shell: Shell) -> None:
    held = submitted(shell)
    shell("hold", held)
    assert "held (by " in shell("list").stdout
    line = json.loads(shell("list", "--json").stdout)
    line["summary"]["state"] = "running"
    told = state_of(ListedAnswer.model_validate_json(json.dumps(line)))
    assert told.startswith("running (hold asked by ")


# --- signs ------------------------------------------------------------------------------------


def test_what_an_encoding_lacks_is_spelt() -> None:
    told = {sign: spelt(sign) for sign in "“”…→žé水"}
    assert "".join(told.values()) == '""...->ze?'
    file = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    writable(file)
    file.write("“kůň” é…")
    file.flush()
    assert file.buffer.getvalue() == '"kun" é...'.encode("latin-1")


@pytest.mark.parametrize(
    "locale",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "latin-1"},
    ],
)
def test_a_story_is_told_in_any_locale(shell: Shell, locale: dict[str, str]) -> None:
    job = submitted(shell, "--name", "train")
    exported = shell.file("job.jsonl", shell("export", job).stdout)
    words = [sys.executable, "-m", "dispatch.cli", "why", exported]
    done = subprocess.run(words, env={**os.environ, **locale}, capture_output=True, check=False)
    assert done.stderr == b""
    assert f'{job} "train" on main'.encode() in done.stdout
