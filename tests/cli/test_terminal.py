"""Where a command speaks to, what a person sees, and that no part of it is left undocumented."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
import typer
from typer.main import get_command

from dispatch import errors
from dispatch.cli.app import app
from dispatch.cli.connect import client
from dispatch.cli.exits import Code, code_of, next_of, outcome_code
from dispatch.cli.screen import LocalZone
from dispatch.client import Bearer, SigV4
from dispatch.errors import DispatchError
from dispatch.record.export import export_text
from dispatch.record.names import Outcome
from tests.architecture.sources import ROOT
from tests.cli.conftest import Shell
from tests.narrate.written import given_up

REFERENCE = ROOT / "docs/reference/cli.md"


# --- where to -----------------------------------------------------------------------------------


def test_without_a_stack_or_an_address_it_is_said_how_to_start_one(shell: Shell) -> None:
    done = shell("list", DISPATCH_URL="")
    assert done.exit_code == 5
    assert "no stack has left word in" in done.stderr
    assert "next: start a stack here with `dispatch up`" in done.stderr


def test_the_address_comes_from_the_option_then_the_environment_then_the_stack_here(
    shell: Shell,
) -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url.copy_with(query=None)))
        return httpx.Response(200, json={"jobs": []})

    shell.network = lambda: httpx.MockTransport(answer)
    state = shell.folder / "state"
    state.mkdir()
    (state / "stack.json").write_text(json.dumps({"pid": 1, "url": "http://127.0.0.1:3"}))
    shell("list", "--url", "http://127.0.0.1:1", DISPATCH_URL="http://127.0.0.1:2")
    shell("list", DISPATCH_URL="http://127.0.0.1:2")
    shell("list", DISPATCH_URL="")
    assert asked == [f"http://127.0.0.1:{number}/jobs" for number in (1, 2, 3)]


def test_how_to_sign_in_follows_from_the_environment_and_the_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used: list[object] = []
    monkeypatch.setattr(
        "dispatch.cli.connect.Client", lambda url, **more: used.append(more.get("auth"))
    )
    aws = "https://abc.execute-api.eu-west-1.amazonaws.com"
    client("http://127.0.0.1:1")
    client(aws)
    monkeypatch.setenv("DISPATCH_AUTH", "iam")
    client("https://jobs.example.org")
    monkeypatch.setenv("DISPATCH_TOKEN", "t")
    monkeypatch.delenv("DISPATCH_AUTH")
    client(aws)
    assert [type(one) for one in used] == [type(None), SigV4, SigV4, Bearer]


@pytest.mark.parametrize(("way", "words"), [("magic", "is none of"), ("bearer", "it is empty")])
def test_a_way_to_sign_in_that_can_t_be_is_refused(way: str, words: str, shell: Shell) -> None:
    done = shell("list", DISPATCH_AUTH=way)
    assert done.exit_code == 1
    assert words in done.stderr


# --- what is seen -------------------------------------------------------------------------------


def seen_on_a_terminal(file: Path, **env: str) -> str:
    """What `verify` writes when its output is a terminal."""
    ours, its = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "dispatch.cli", "why", str(file), "--utc"],
        stdout=its,
        stderr=subprocess.PIPE,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", **env},
        check=True,
    )
    os.close(its)
    pieces = []
    try:
        while piece := os.read(ours, 65_536):
            pieces.append(piece)
    except OSError:
        # Linux says so where the other end is closed and all was read.
        assert done.returncode == 0
    os.close(ours)
    return b"".join(pieces).decode()


def test_colours_are_for_terminals_and_no_color_is_respected(tmp_path: Path) -> None:
    file = tmp_path / "export.jsonl"
    file.write_text(export_text(given_up().view), encoding="utf-8")
    colour = re.compile(r"\x1b\[[0-9;]*3[0-7]m")
    assert colour.search(seen_on_a_terminal(file))
    plain = seen_on_a_terminal(file, NO_COLOR="1")
    assert not colour.search(plain)
    assert max(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in plain.splitlines()) <= 80


def test_what_goes_into_a_pipe_has_no_escapes_and_no_trailing_spaces(shell: Shell) -> None:
    file = shell.file("export.jsonl", export_text(given_up().view))
    for words in (["history", file], ["why", file], ["verify", file]):
        for done in (shell(*words), shell(*words, COLUMNS="60")):
            assert "\x1b" not in done.stdout
            assert not re.search(r"[ \t]+$", done.stdout, re.MULTILINE)


def test_times_are_shown_with_the_offset_of_their_own_day(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "from datetime import UTC, datetime; from dispatch.cli.screen import LocalZone;"
        "print(*(datetime(2026, m, 1, 12, tzinfo=UTC).astimezone(LocalZone())"
        ".strftime('%H:%M%z%Z') for m in (1, 7)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TZ": "Europe/Berlin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["13:00+0100CET", "14:00+0200CEST"]


def test_a_local_time_is_the_same_moment() -> None:
    now = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    assert now.astimezone(LocalZone()).astimezone(UTC) == now


# --- exit codes ---------------------------------------------------------------------------------


def kinds(of: type[DispatchError] = DispatchError) -> list[type[DispatchError]]:
    below = [one for kind in of.__subclasses__() for one in kinds(kind)]
    return [of, *below]


def test_every_error_but_the_root_says_what_to_do_next() -> None:
    silent = {
        kind.__name__
        for kind in kinds()
        if kind.__module__.startswith(("dispatch.errors", "dispatch.client", "dispatch.cli"))
        and next_of(kind("x")) is None
    }
    assert silent == {"DispatchError"}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.JobNotFound("x"), Code.NOT_FOUND),
        (errors.JobTombstoned("x"), Code.NOT_FOUND),
        (errors.UnknownCluster("x"), Code.NOT_FOUND),
        (errors.IdempotencyConflict("x"), Code.CONFLICT),
        (errors.NotSettled("x"), Code.CONFLICT),
        (errors.StoreUnavailable("x"), Code.LATER),
        (errors.CommitUnknown("x"), Code.UNKNOWN),
        (errors.InvalidRequest("x"), Code.REFUSED),
        (errors.InvalidRecord("x"), Code.REFUSED),
        (errors.Forbidden("x"), Code.REFUSED),
    ],
)
def test_an_error_s_kind_decides_the_exit_code(error: DispatchError, code: Code) -> None:
    assert code_of(error) is code


def test_an_outcome_has_an_exit_code_of_its_own() -> None:
    codes = [outcome_code(one) for one in (*Outcome, None)]
    assert codes == [0, 10, 11, 12]


# --- the reference ------------------------------------------------------------------------------


def commands() -> dict[str, typer.models.CommandInfo]:
    found: dict[str, typer.models.CommandInfo] = {}
    root = get_command(app)
    for name, command in getattr(root, "commands").items():  # noqa: B009 - the vendored type is private
        for sub, inner in (getattr(command, "commands", None) or {"": command}).items():
            found[f"{name} {sub}".strip()] = inner
    return found


def test_the_reference_names_every_command_option_and_exit_code() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    missing = []
    for name, command in commands().items():
        if f"dispatch {name}" not in text:
            missing.append(name)
        for parameter in getattr(command, "params"):  # noqa: B009
            longest = max(parameter.opts, key=len)
            if longest.startswith("--") and longest != "--help" and f"`{longest}" not in text:
                missing.append(f"{name} {longest}")
    missing += [f"code {int(code)}" for code in Code if f"| {int(code)} |" not in text]
    assert missing == []


def test_the_reference_names_no_command_that_isn_t_there() -> None:
    known = {name.split()[0] for name in commands()}
    named = set(re.findall(r"`dispatch ([a-z][a-z-]*)", REFERENCE.read_text(encoding="utf-8")))
    assert named <= known


PAGES = [
    ROOT / "README.md",
    ROOT / "docs/tutorials/first-job.md",
    ROOT / "docs/how-to/read-a-history.md",
    ROOT / "docs/reference/cli.md",
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_a_page_shows_has_only_options_that_exist(page: Path) -> None:
    known = commands()
    shown = re.findall(r"^\$ dispatch (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    wrong = []
    for line in shown:
        words = line.split(" -- ")[0].split("#")[0].split("|")[0].split(">")[0].split()
        name = " ".join(words[:2]) if " ".join(words[:2]) in known else words[0]
        if name not in known:
            wrong.append(line)
            continue
        options = {one for p in getattr(known[name], "params") for one in p.opts}  # noqa: B009
        used = {word.split("=")[0] for word in words if word.startswith("-") and len(word) > 1}
        if not used <= {*options, "--help", "--seeds"}:
            wrong.append(line)
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_to_a_file_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_what_somebody_wrote_is_shown_on_a_terminal_and_never_obeyed(shell: Shell) -> None:
    job = shell.world.job()
    evil = "\x1b]0;owned\x07\x1b[2Jgone\x9b31m\u202etxt\x7f"
    shell.world.intend(job, "hold", reason=evil)
    for words in (["why", job], ["history", job], ["status", job]):
        done = shell(*words)
        assert done.exit_code == 0, done.output
        assert not set(done.stdout) & set("\x1b\x07\x9b\u202e\x7f")
    assert "\u241b]0;owned" in shell("history", job).stdout
