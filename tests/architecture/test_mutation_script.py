"""The script behind `make mutation` reads and reports what the tool left."""

from __future__ import annotations

import tomllib

import pytest

from scripts.mutation import NOTICED, REASONS, SURVIVED, Change, reason_for, without_property

CLASS = '''class A:
    @property
    def double(self) -> int:
        """Twice."""
        return 2 * self.x

    x = 4
'''


def test_a_property_is_written_so_that_it_can_be_changed() -> None:
    written = without_property(CLASS)
    assert "@property" not in written
    names: dict[str, type] = {}
    exec(written, names)
    assert names["A"]().double == 8


def test_a_change_is_explained_by_its_function_and_its_lines() -> None:
    reasons = [{"function": r"next\..*", "was": "a < b", "why": "never equal"}]
    change = Change("next.x", SURVIVED, ("if a < b:",), ("if a <= b:",))
    assert reason_for(change, reasons) == "never equal"
    assert reason_for(Change("rules.x", SURVIVED, ("a < b",), ("a <= b",)), reasons) is None
    assert reason_for(Change("next.x", NOTICED, ("a > b",), ()), reasons) is None


@pytest.mark.parametrize("reason", tomllib.loads(REASONS.read_text())["equivalent"])
def test_every_reason_says_where_and_why(reason: dict[str, str]) -> None:
    assert set(reason) <= {"function", "was", "now", "why"}
    assert set(reason) & {"function", "was", "now"}
    assert reason["why"].endswith(".")
