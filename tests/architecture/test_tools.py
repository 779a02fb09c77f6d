"""The tools that judge the source run with the tests, so a green run means a clean tree."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

BIN = Path(sys.executable).parent


def run(*command: str) -> None:
    done = subprocess.run(
        [BIN / command[0], *command[1:]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.fail(f"{' '.join(command)}\n{done.stdout}{done.stderr}", pytrace=False)


def test_ruff_finds_no_fault() -> None:
    run("ruff", "check", ".")


def test_every_file_is_in_the_project_s_format() -> None:
    run("ruff", "format", "--check", ".")


@pytest.mark.timeout(900)
def test_mypy_strict_finds_no_fault() -> None:
    run("mypy", "--no-error-summary")


def test_imports_keep_to_the_arrows_of_the_architecture() -> None:
    run("lint-imports", "--no-logo")
