"""Numbers and times in every shape that a server has sent or could send."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from dispatch.schedulers.slurm.numbers import instant, number, positive
from dispatch.schedulers.slurm.response import Reply, read

NOWHEN = (
    0,
    -1,
    True,
    None,
    "1700000000",
    253_402_300_800,
    67_768_036_191_676_800,
    2**63,
    float("nan"),
    float("inf"),
    {"set": False, "number": 5},
    {"set": True, "infinite": True, "number": 5},
    {"set": True, "number": 0xFFFF_FFFE},
    {"set": True, "number": {}},
)


@pytest.mark.parametrize("value", NOWHEN)
def test_what_is_no_time_is_none(value: Any) -> None:
    assert instant(value) is None


@pytest.mark.parametrize("value", [1_700_000_000, {"set": True, "number": 1_700_000_000}])
def test_a_time_is_utc_in_either_shape(value: Any) -> None:
    assert instant(value) == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


@pytest.mark.parametrize("value", ["²", "1" * 5_000, "12_[0-20:5]", "21+0", "", -3, 0, 2**32 - 1])
def test_what_is_no_id_is_none(value: Any) -> None:
    assert positive(value) is None


def test_ids_come_as_numbers_or_digits() -> None:
    assert (positive(42), positive("42"), number(0), number(4.0)) == (42, 42, 0, 4)


@pytest.mark.parametrize("stamp", NOWHEN)
def test_a_list_with_an_impossible_last_update_is_still_read(stamp: Any) -> None:
    # Found by chance: 2**63 there made the reader fall, and with it the whole Find.
    got = read(Reply("GET", "/slurm/v0.0.42/jobs/", 200, {"jobs": [], "last_update": stamp}))
    assert got.last_update is None
