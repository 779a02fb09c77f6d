"""Every rule that is taken away must be missed: by a story, or by seeds."""

from __future__ import annotations

import pytest

from simulator.mutants import MUTANTS, Mutant, applied
from simulator.stories import STORIES


def found_by(mutant: Mutant) -> list[str]:
    """The stories that break a rule once this one is reverted."""
    found = []
    with applied(mutant):
        for story in STORIES:
            try:
                story.play()
            except Exception as error:  # noqa: BLE001 - a reverted rule may break anything
                found.append(f"{story.name}: {error}")
    return found


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_rule_is_missed_once_it_is_reverted(mutant: Mutant) -> None:
    assert found_by(mutant) != []


def test_every_rule_is_back_in_its_place_afterwards() -> None:
    before = {story.name: story.play().transcript for story in STORIES[:3]}
    for mutant in MUTANTS:
        with applied(mutant):
            pass
    assert {story.name: story.play().transcript for story in STORIES[:3]} == before
