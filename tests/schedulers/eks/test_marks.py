"""What people can write into labels and annotations doesn't make a reader fall."""

from __future__ import annotations

import pytest

from dispatch.record.names import Cause
from dispatch.schedulers.eks.objects import counted
from dispatch.schedulers.eks.words import read_message


@pytest.mark.parametrize("written", ["", "-1", "²", "\u0661", "1" * 5_000, "1e3", " 1", "9999999"])
def test_what_is_no_count_counts_as_none(written: str) -> None:
    assert counted(written) == 0


def test_a_count_is_read() -> None:
    assert counted("12") == 12


def test_an_exit_code_that_is_none_leaves_the_end_unexplained() -> None:
    told = f"Container main for pod ml/x failed with exit code {'9' * 5_000} matching FailJob rule"
    assert read_message(told) == (Cause.LOST, None)
