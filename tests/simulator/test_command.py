"""`dispatch simulate`, as a person uses it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simulator.command import main


def test_one_seed_always_goes_the_same_way(capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for _ in range(2):
        assert main(["--seeds", "2", "--start", "5", "--jobs", "1", "--json"]) == 0
        told.append(json.loads(capsys.readouterr().out))
    assert told[0] == told[1]
    assert told[0]["seeds"] == {"slurm": 1, "kubernetes": 1}
    assert told[0]["broken"] == []


def test_a_single_seed_is_told_as_a_story(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--seeds", "1", "--start", "7", "--shape", "slurm", "--jobs", "1", "--explain"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "--- slurm seed 7" in out
    assert "calls start 1.1" in out
    assert "nothing was broken" in out


def test_a_seed_stops_at_a_step_and_shows_record_world_and_calls(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--start", "7", "--shape", "slurm", "--stop-at", "40"]) == 0
    out = capsys.readouterr().out
    assert "stopped at step 40" in out
    for part in ("record of j", "\nworld\n", "\ncalls on their way"):
        assert part in out


def test_a_reverted_rule_is_missed(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--mutant", "release_unwritten", "--seeds", "100", "--start", "1"]
    assert main([*arguments, "--jobs", "1"]) == 0
    assert "P1 (" in capsys.readouterr().out


def test_an_unknown_mutant_is_refused_with_the_names_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--mutant", "gravity"]) == 2
    error = capsys.readouterr().err
    assert "no mutant 'gravity'" in error
    assert "no_hazard" in error


def test_a_persons_own_plan_is_tested(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("plan:\n  default: {action: fail}\n")
    arguments = ["--seeds", "8", "--start", "3", "--jobs", "1", "--plan", str(plan)]
    assert main(arguments) == 0
    assert "with your plan, a job took on average" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("default: {action: pray}", "default.action"),
        ("{}", "default"),
        ("default: {action: fail}\ncolour: red", "colour"),
        ("[unclosed", "while parsing"),
    ],
)
def test_a_plan_that_cannot_be_read_is_refused_with_the_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(text)
    assert main(["--plan", str(plan)]) == 2
    assert said in capsys.readouterr().err
