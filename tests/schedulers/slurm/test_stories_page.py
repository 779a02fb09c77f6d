"""The page that says which stories were seen on a real Slurm leaves none out and invents none."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "reference" / "slurm-stories.md").read_text(encoding="utf-8")
REAL, FAKE = PAGE.split("## Only on the fake", 1)
CONTRACT = "test_contract.py"
"""The promises of every adapter are on the contract's own page."""


def cases_in(*paths: Path) -> set[str]:
    found: set[str] = set()
    for path in paths:
        found |= set(re.findall(r"^ *def (test_\w+)\(", path.read_text(encoding="utf-8"), re.M))
    return found


def named(text: str) -> list[str]:
    return re.findall(r"`(test_\w+)`", text)


def test_every_story_that_runs_on_a_real_slurm_is_named_once_and_no_other() -> None:
    paths = (ROOT / "tests" / "real" / "slurm").rglob("test_*.py")
    real = cases_in(*(path for path in paths if path.name != CONTRACT))
    assert sorted(named(REAL)) == sorted(real)


def test_every_story_that_is_told_of_the_fake_alone_is_a_test_beside_it() -> None:
    fake = cases_in(*(ROOT / "tests" / "schedulers" / "slurm").glob("test_*.py"))
    told = named(FAKE)
    assert told
    assert set(told) <= fake
    assert not set(told) & set(named(REAL))
