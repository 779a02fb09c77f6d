"""The examples and how-tos for people's own programs, run for real on a one-machine stack."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from dispatch.client import Client
from dispatch.record.header import Spec
from tests.docs.blocks import ROOT, blocks
from tests.embedded.running import Running, settled

EXAMPLE = ROOT / "docs/examples/fenced-checkpoints"


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Running]:
    running = Running(tmp_path / "state")
    yield running
    running.kill()


class Person:
    """Somebody at a shell, with the stack's address."""

    def __init__(self, stack: Running, folder: Path) -> None:
        self.folder = folder
        bin_ = Path(sys.executable).parent
        self.environment = {
            **os.environ,
            "PATH": f"{bin_}:{os.environ['PATH']}",
            "PYTHONPATH": f"{ROOT / 'shared'}:{ROOT}",
            "DISPATCH_URL": stack.url,
        }

    def types(self, command: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env={**self.environment, **env},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )


@pytest.fixture
def person(stack: Running, tmp_path: Path) -> Person:
    return Person(stack, tmp_path)


# --- checkpoints ------------------------------------------------------------------------------


def loop() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fenced_train", EXAMPLE / "train.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_preempted_run_goes_on_from_its_checkpoint_and_its_late_twin_is_fenced(
    stack: Running, person: Person, tmp_path: Path
) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "mine", ignore=shutil.ignore_patterns("__pycache__"))
    folder = tmp_path / "mine"
    linted = person.types(f"dispatch lint {folder}/job.yaml")
    assert linted.returncode == 0, linted.stdout + linted.stderr
    made = person.types(
        f"dispatch submit {folder}/job.yaml --json --set workdir={folder} "
        '--set \'command=[python3, train.py, checkpoints, "6", "0.5"]\''
    )
    job = json.loads(made.stdout)["job_id"]
    checkpoint = folder / "checkpoints/checkpoint.json"
    status = stack.until(job, lambda status: status["state"] == "running" and checkpoint.exists())
    assert status["epoch"] == 1_000_000
    spool = stack.state / "local"
    admin = person.types(
        f"python -m dispatch.schedulers.local.admin {spool} preempt {status['ref']}"
    )
    assert admin.returncode == 0, admin.stderr
    over = stack.until(job, settled)
    assert (over["outcome"], over["submission"]) == ("succeeded", 2)
    written = json.loads(checkpoint.read_text(encoding="utf-8"))
    assert written == {"step": 6, "epoch": 2_000_000}
    said = person.types(f"dispatch logs {job}").stdout
    assert re.search(r"epoch 2000000 goes on from step [1-6]\b", said)

    twin = person.types("python3 mine/train.py mine/checkpoints 9 0", DISPATCH_EPOCH="1000000")
    assert twin.returncode == 75
    assert "fenced: epoch 2000000 has mine/checkpoints" in twin.stdout
    assert json.loads(checkpoint.read_text(encoding="utf-8")) == written


def test_a_run_whose_place_was_taken_writes_nothing_any_more(tmp_path: Path) -> None:
    train = loop()
    old = train.Checkpoints(tmp_path, (1_000_000, "1"))
    old.save(1)
    new = train.Checkpoints(tmp_path, (1_000_001, "2"))
    assert new.load() == 1
    with pytest.raises(train.Fenced):
        old.save(2)
    assert new.load() == 1
    new.save(2)
    with pytest.raises(train.Fenced):
        train.Checkpoints(tmp_path, (1_000_000, "9"))


def test_of_two_runs_with_one_epoch_the_later_start_wins(tmp_path: Path) -> None:
    train = loop()
    first = train.Checkpoints(tmp_path, (1_000_000, "1"))
    second = train.Checkpoints(tmp_path, (1_000_000, "2"))
    with pytest.raises(train.Fenced):
        first.save(1)
    second.save(1)


# --- notebooks and Airflow --------------------------------------------------------------------


def cells(page: str, stack: Running) -> Iterator[tuple[str, str]]:
    for block in blocks("python"):
        if block.page == page:
            yield str(block), block.text.replace("http://127.0.0.1:8750", stack.url)


def test_the_notebook_runs_from_its_first_cell_to_its_last(
    stack: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {}
    for where, text in cells("docs/how-to/notebooks.md", stack):
        exec(compile(text, where, "exec"), names)
    said = capsys.readouterr().out
    assert "Outcome.SUCCEEDED" in said or "succeeded" in said
    assert "hello from 1000000" in said
    assert "Is it safe to run it again?" in said
    assert said.count(" new\n") == 2
    assert names["again"].generation == 1
    names["client"].close()


def test_a_task_that_airflow_tries_again_is_one_job(stack: Running) -> None:
    names: dict[str, Any] = {}
    where, text = next(cells("docs/how-to/airflow.md", stack))
    exec(compile(text, where, "exec"), names)
    with Client(stack.url) as client:
        well = Spec(name="well", command=("true",))
        first = names["run_job"](client, well, "local", "airflow/dag/task/2026-01-01")
        assert names["run_job"](client, well, "local", "airflow/dag/task/2026-01-01") == first
        bad = Spec(name="bad", command=("false",))
        for _ in range(2):
            with pytest.raises(names["JobFailed"], match=r"failed \(app_error\)"):
                names["run_job"](client, bad, "local", "airflow/dag/task/2026-01-02")
        assert len(list(client.jobs())) == 2


# --- GitHub Actions ---------------------------------------------------------------------------


def steps() -> list[tuple[str, str]]:
    """What the workflow's steps run, with their names."""
    (text, *_) = [
        block.text for block in blocks("yaml") if block.page == "docs/how-to/github-actions.md"
    ]
    listed = yaml.safe_load(text)["jobs"]["train"]["steps"]
    found = [(one.get("name", one["run"].split()[1]), one["run"]) for one in listed if "run" in one]
    return [(name, run) for name, run in found if not run.startswith("pip ")]


def filled(run: str, **known: str) -> str:
    return re.sub(r"\$\{\{ (\S+) \}\}", lambda met: known[met[1].replace(".", "_")], run)


def stand_in_for_jq(person: Person) -> None:
    """Put what the page asks of jq in its place, where that may not be installed."""
    folder = person.folder / "bin"
    folder.mkdir()
    script = "import json, sys; print(json.load(open(sys.argv[3]))[sys.argv[2][1:]])"
    (folder / "jq").write_text(f"#!/bin/sh\nexec {sys.executable} -c '{script}' \"$@\"\n")
    (folder / "jq").chmod(0o755)
    person.environment["PATH"] = f"{folder}:{person.environment['PATH']}"


def test_the_workflow_s_steps_submit_wait_and_explain_one_job_however_often_they_run(
    stack: Running, person: Person, tmp_path: Path
) -> None:
    stand_in_for_jq(person)
    assert person.types("dispatch init train.yaml --scheduler local").returncode == 0
    output, summary = tmp_path / "output", tmp_path / "summary"
    files = {"GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(summary)}
    known = {"github_repository_id": "1", "github_run_id": "2", "github_sha": "abc"}
    quick = "sed -i 's/sleep 1/sleep 0/' train.yaml"
    assert person.types(quick).returncode == 0
    jobs = set()
    for _ in range(2):
        for name, run in steps():
            if name == "Cancel with the workflow":
                continue
            done = person.types(filled(run, **known), **files)
            assert done.returncode == 0, (name, done.stdout, done.stderr)
            if output.exists():
                job = output.read_text(encoding="utf-8").split("=")[-1].strip()
                known["steps_submit_outputs_job"] = job
        jobs.add(known["steps_submit_outputs_job"])
    assert len(jobs) == 1
    assert "succeeded" in summary.read_text(encoding="utf-8")
    (cancel,) = (run for name, run in steps() if name == "Cancel with the workflow")
    done = person.types(filled(cancel, **known), **files)
    assert "no effect" in done.stdout
    assert "the outcome is succeeded" in done.stdout
