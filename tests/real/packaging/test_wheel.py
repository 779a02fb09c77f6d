"""The command and its client as people install them: a wheel in an environment of its own."""

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZipFile

import pytest

from scripts.requirements import closure, export, normal, parse_lock, wanted

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
VERSION = PROJECT["project"]["version"]
NEVER_NEEDED = {"boto3", "botocore", "aws-lambda-powertools", "kubernetes", "waitress", "greenlet"}


def built(source: Path, target: Path) -> tuple[Path, Path]:
    """Build the sdist and the wheel of a tree; return both."""
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(target)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (sdist,), (wheel,) = target.glob("*.tar.gz"), target.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return built(ROOT, tmp_path_factory.mktemp("dist"))


class Installed:
    """A fresh environment: the wheel, what some tables of pyproject.toml ask for, and no more."""

    def __init__(
        self, place: Path, wheel: Path, *tables: str, python: str = sys.executable
    ) -> None:
        subprocess.run([python, "-m", "venv", str(place / "env")], check=True)
        self.bin = place / "env" / "bin"
        self.place = place
        asked = [one for table in tables for one in wanted(PROJECT)[table]]
        names = [one for one in asked if normal(one) != PROJECT["project"]["name"]]
        pinned = place / "pinned.txt"
        pinned.write_text(
            export(closure(parse_lock((ROOT / "requirements.lock").read_text()), names))
        )
        self.pip("install", "--require-hashes", "-r", str(pinned))
        self.pip("install", "--no-deps", str(wheel))

    def pip(self, *words: str) -> str:
        return self.python("-m", "pip", "-q", "--disable-pip-version-check", *words)

    def packages(self) -> set[str]:
        listed = json.loads(self.python("-m", "pip", "list", "--format", "json"))
        return {normal(one["name"]) for one in listed}

    def python(self, *words: str) -> str:
        done = self.run("python", *words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run(
        self, program: str, *words: str, env: Mapping[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        told = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "DISPATCH_"))}
        told |= {"DISPATCH_STATE": str(self.place / "state"), **(env or {})}
        # In a folder of its own: nothing of the checkout may be found by chance.
        return subprocess.run(
            [self.bin / program, *words],
            cwd=self.place,
            env=told,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def command(made: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("command"), made[1], "dependencies")


# --- what is in it ----------------------------------------------------------------------------


def test_the_same_tree_makes_the_same_bytes(made: tuple[Path, Path], tmp_path: Path) -> None:
    again = built(ROOT, tmp_path)
    for one, other in zip(made, again, strict=True):
        assert (one.name, one.read_bytes()) == (other.name, other.read_bytes())


def test_the_sdist_alone_makes_the_same_wheel(made: tuple[Path, Path], tmp_path: Path) -> None:
    sdist, wheel = made
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    _, again = built(tmp_path / f"dispatch_record-{VERSION}", tmp_path / "dist")
    assert again.read_bytes() == wheel.read_bytes()


def test_the_wheel_holds_the_product_and_nothing_of_tests_or_tools(made: tuple[Path, Path]) -> None:
    names = ZipFile(made[1]).namelist()
    tops = {name.split("/")[0] for name in names}
    own = f"dispatch_record-{VERSION}.dist-info"
    assert tops == {"dispatch", "embedded", "functions", "simulator", own}
    assert {"dispatch/cli/app.py", f"{own}/licenses/LICENSE"} <= set(names)
    strays = ("__pycache__", "requirements.txt", "/tests/", "conftest", ".sqlite")
    assert [name for name in names if any(stray in name for stray in strays)] == []


def test_the_sdist_holds_all_that_a_build_and_a_reader_need(made: tuple[Path, Path]) -> None:
    with tarfile.open(made[0]) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {"pyproject.toml", "requirements.lock", "Makefile", "template.yaml"} <= names
    assert {"README.md", "CHANGELOG.md", "LICENSE", "SECURITY.md", "tests/conftest.py"} <= names
    strays = re.compile(r"^(build|dist|\.venv[^/]*|\.aws-sam|\.git)/|\.pyc$")
    assert [name for name in names if strays.search(name)] == []


# --- the command and the client alone -----------------------------------------------------------


def test_it_needs_what_it_says_and_nothing_more(command: Installed) -> None:
    assert "No broken requirements" in command.python("-m", "pip", "check")
    listed = command.packages()
    assert "pydantic" in listed
    assert not NEVER_NEEDED & listed


def test_the_version_is_the_one_that_pyproject_says(command: Installed) -> None:
    done = command.run("dispatch", "--version")
    assert (done.returncode, done.stdout) == (0, f"dispatch {VERSION}\n")


def test_help_is_shown_for_the_whole_and_for_each_command(command: Installed) -> None:
    whole = command.run("dispatch", "--help")
    assert whole.returncode == 0, whole.stderr
    names = re.findall(r"^  ([a-z]+)  +\S", whole.stdout.split("Commands:")[1], re.MULTILINE)
    assert {"submit", "why", "history", "cancel", "verify", "explain"} <= set(names)
    # `simulate` hands its --help to the simulator, which needs an extra.
    failed = [
        name
        for name in names
        if name != "simulate" and command.run("dispatch", name, "--help").returncode
    ]
    assert failed == []


def test_a_submission_is_shown_without_being_sent(command: Installed) -> None:
    done = command.run("dispatch", "submit", "--dry-run", "-c", "hpc", "-N", "2", "--", "hostname")
    assert done.returncode == 0, done.stderr
    request = json.loads(done.stdout)
    assert (request["cluster"], request["spec"]["nodes"]) == ("hpc", 2)
    assert request["spec"]["command"] == ["hostname"]


@pytest.mark.parametrize("adapter", ["slurm", "eks"])
def test_a_scheduler_s_own_words_are_explained(command: Installed, adapter: str) -> None:
    said, meant = {
        "slurm": (
            {
                "request": {"method": "GET", "path": "/slurm/v0.0.43/job/42"},
                "status": 404,
                "body": {"errors": [{"error_number": 2017, "error": "Invalid job id specified"}]},
            },
            "not_known",
        ),
        "eks": (
            {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404},
            "not",
        ),
    }[adapter]
    file = command.place / f"{adapter}.json"
    file.write_text(json.dumps(said))
    done = command.run("dispatch", "explain", "--adapter", adapter, str(file))
    assert done.returncode == 0, done.stderr
    assert meant in done.stdout.lower()


def test_a_record_is_verified_and_told_offline(command: Installed) -> None:
    (command.place / "not.jsonl").write_text("{}\n")
    refused = command.run("dispatch", "verify", "./not.jsonl")
    assert refused.returncode == 1
    assert "refused" in refused.stdout


def test_the_client_is_imported_and_says_what_it_cannot_reach(command: Installed) -> None:
    code = (
        "from dispatch.client import Client, Unreachable\n"
        "try:\n"
        "    Client('http://127.0.0.1:9').whoami()\n"
        "except Unreachable as error:\n"
        "    print(type(error).__name__)\n"
    )
    assert command.python("-c", code) == "Unreachable\n"


@pytest.mark.parametrize("words", [["up"], ["demo"], ["simulate", "--seeds", "1"]], ids=" ".join)
def test_a_part_that_is_not_installed_says_how_to_install_it(
    command: Installed, words: list[str]
) -> None:
    done = command.run("dispatch", *words)
    assert done.returncode != 0
    assert "pip install 'dispatch-record[" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_signing_without_its_extra_says_what_is_missing(command: Installed) -> None:
    told = {"DISPATCH_URL": "https://x.execute-api.eu-west-1.amazonaws.com", "DISPATCH_AUTH": "iam"}
    done = command.run("dispatch", "whoami", env=told)
    assert done.returncode != 0
    assert "pip install 'dispatch-record[aws]'" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_it_works_on_the_python_of_the_functions_too(
    made: tuple[Path, Path], tmp_path: Path
) -> None:
    found = subprocess.run(
        [ROOT / "scripts" / "find-python", "3.13"], capture_output=True, text=True, check=True
    )
    installed = Installed(tmp_path, made[1], "dependencies", python=found.stdout.strip())
    assert installed.run("dispatch", "--version").stdout == f"dispatch {VERSION}\n"
    done = installed.run("dispatch", "submit", "--dry-run", "-c", "hpc", "--", "hostname")
    assert json.loads(done.stdout)["spec"]["command"] == ["hostname"]


# --- with extras ------------------------------------------------------------------------------


def test_with_its_extra_the_one_machine_stack_runs_from_the_wheel(
    made: tuple[Path, Path], tmp_path: Path
) -> None:
    tables = ("dependencies", "extra layer", "extra embedded")
    installed = Installed(tmp_path, made[1], *tables)
    listed = installed.packages()
    assert "kubernetes" not in listed
    done = installed.run("dispatch", "demo")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_with_its_extra_the_proof_runs_from_the_wheel(
    made: tuple[Path, Path], tmp_path: Path
) -> None:
    installed = Installed(tmp_path, made[1], "dependencies", "extra simulate")
    done = installed.run("dispatch", "simulate", "--seeds", "20")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "violations: 0" in done.stdout
