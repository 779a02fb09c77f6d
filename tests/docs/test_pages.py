"""The pages that follow from the code are what the code says now, and leave nothing out.

`pytest tests/docs/test_pages.py --rewrite` writes them anew.
"""

from __future__ import annotations

import pytest

from dispatch.core.project import State
from dispatch.narrate.cures import CURES
from dispatch.record.names import Cause
from scripts import pages


@pytest.fixture(scope="module")
def wanted() -> dict[str, str]:
    return pages.wanted()


def test_pages_are_as_they_would_be_written(wanted: dict[str, str], rewrite: bool) -> None:
    if rewrite:
        pages.main(wanted.items())
    for name, text in wanted.items():
        assert (pages.DOCS / name).read_text(encoding="utf-8") == text, name


def test_every_cause_is_explained_and_something_helps() -> None:
    assert CURES.keys() == set(Cause)
    assert all(cure.meaning and cure.likely for cure in CURES.values())


def test_the_pictures_show_every_state_of_a_job(wanted: dict[str, str]) -> None:
    drawn = wanted["explanation/states.md"]
    assert all(f"--> {state}:" in drawn for state in State)
