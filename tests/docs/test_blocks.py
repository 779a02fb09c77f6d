"""Every block of code in the documentation is one that works, as far as it can be tried here.

Commands of Dispatch are parsed by the command line itself, without being carried out; the
tutorial is typed as it stands (test_tutorial.py). Documents are read by what reads them in
earnest. What belongs to AWS, to a scheduler or to the shell is known by name only.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from dispatch.cli.app import app
from dispatch.clusters import parse_clusters
from dispatch.jobfile import parse_all
from tests.docs.blocks import ROOT, Block, blocks

LANGUAGES = frozenset({"console", "sh", "python", "yaml", "json", "text", "mermaid"})

OTHERS = frozenset(
    {
        *(".", "[", "cat", "cd", "cp", "done", "do", "export", "for", "grep", "ls", "mkdir", "rm"),
        *(
            "sed",
            "tail",
            "tar",
            "while",
            "xargs",
            "curl",
            "git",
            "jq",
            "pip",
            "sqlite3",
            "systemctl",
        ),
        *("systemctl", "aws", "kubectl", "scontrol", "sinfo", "slurmrestd", "squeue", "torchrun"),
    }
)
"""Programs that aren't ours."""

COMMANDS = [(block, command) for block in blocks("console", "sh") for command in block.commands()]


def test_every_fence_names_a_language_that_is_tried() -> None:
    strange = [
        f"{block}: {block.language!r}" for block in blocks() if block.language not in LANGUAGES
    ]
    assert strange == []


@pytest.mark.parametrize(("block", "typed"), COMMANDS, ids=lambda part: str(part)[:60])
def test_a_command_exists_with_these_options(block: Block, typed: str) -> None:
    for part in re.split(r"\s(?:\||&&|;)\s", typed):
        _known(part.strip(), block)


def _known(command: str, block: Block) -> None:
    inner = re.search(r"\$\((?P<inner>[a-z].*)\)", command)
    if inner is not None:
        _known(inner["inner"], block)
        command = command.replace(inner[0], "VALUE")
    words = shlex.split(re.sub(r"\s[12]?>>?\s*\S+|\s&$", "", command))
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0], re.S):
        words.pop(0)
    if not words:
        return
    program = words[0].removeprefix(".venv/bin/")
    if program == "dispatch":
        _parses(words[1:], str(block))
    elif program == "make":
        _is_a_target(words[1:], str(block))
    elif program in ("python", "python3") and words[1:2] == ["-m"]:
        assert importlib.util.find_spec(words[2]) is not None, f"{block}: no module {words[2]}"
    elif program in ("python", "python3", "bash"):
        assert words[1].startswith("-") or (ROOT / words[1]).exists(), f"{block}: {words[1]}"
    elif "/" in program and not program.startswith((".venv-", "~", "/")):
        assert (ROOT / program).exists(), f"{block}: no {program} here"
    else:
        assert program in OTHERS or program.startswith(".venv-"), f"{block}: what is {program}?"


def _parses(words: list[str], where: str) -> None:
    """Let the command line take a command as far as it goes without doing anything."""
    command: Any = typer.main.get_command(app)
    rest = list(words)
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        assert name in command.commands, f"{where}: no command {name!r}"
        command = command.commands[name]
    known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
    for word in rest:
        if word == "--":
            break
        name = word.split("=")[0]
        if re.fullmatch(r"--?[a-zA-Z][a-z-]*", name) and name != "--help":
            top = ("--version", "--install-completion", "--show-completion")
            assert name in known or name in top, f"{where}: {command.name} has no {name}"


def _is_a_target(words: list[str], where: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", makefile, re.M))
    for word in words:
        if "=" not in word and not word.startswith("-"):
            assert word in targets, f"{where}: no target {word}"


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_compiles_and_imports_what_there_is(block: Block) -> None:
    tree = ast.parse(block.text)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "dispatch":
            module = importlib.import_module(node.module or "")
            for name in node.names:
                assert hasattr(module, name.name), f"{block}: {node.module} has no {name.name}"


class _Loose(yaml.SafeLoader):
    """Reads CloudFormation's own tags as plain values."""


_Loose.add_multi_constructor("!", lambda loader, suffix, node: f"!{suffix}")


@pytest.mark.parametrize("block", blocks("yaml"), ids=str)
def test_yaml_is_read_and_a_job_file_is_one(block: Block) -> None:
    documents = list(yaml.load_all(block.text, Loader=_Loose))
    assert documents
    for read in documents:
        if isinstance(read, dict) and "name" in read and {"command", "script"} & read.keys():
            parse_all(block.text, name=str(block))


@pytest.mark.parametrize("block", blocks("json"), ids=str)
def test_json_is_read_and_a_clusters_document_is_one(block: Block) -> None:
    read: Any = json.loads(block.text)
    if isinstance(read, dict) and str(read.get("schema", "")).startswith("dispatch.clusters."):
        parse_clusters(block.text)


def test_links_between_pages_lead_somewhere() -> None:
    """The site is built strictly too, but only where its environment is."""
    broken = []
    for page in sorted({Path(ROOT / "README.md"), *(ROOT / "docs").rglob("*.md")}):
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
        for target in re.findall(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)", text):
            elsewhere = "://" in target or target.startswith("mailto:")
            if not elsewhere and not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert broken == []
