"""What the chaos on a real Slurm counts, and what it takes for an excuse."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.real.slurm.truth import Kill, Logged, Ran, at_once, excuse, judge, logged

FIRST = Ran("j00000001", 1_000_000, 7, begin=100.2, last=106.0, code=None)
SECOND = Ran("j00000001", 1_000_000, 7, begin=103.4, last=109.0, code=0)
SLURM = Logged(released={7: [99.0]}, allocated={7: [100.0, 103.2]})
KILL = Kill(at=101.0, answered_at=102.0, forgets_s=12)


def test_a_kill_that_made_slurm_forget_a_start_excuses_the_run_beside_it() -> None:
    assert at_once([SECOND, FIRST]) == [(FIRST, SECOND)]
    assert excuse(FIRST, SECOND, SLURM, [KILL]) == KILL
    verdict = judge([], [FIRST, SECOND], {}, SLURM, [KILL])
    assert verdict.twice == []
    assert "killed at 101.000" in verdict.by_slurm[0]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"kills": []}, "nobody killed it"),
        ({"kills": [replace(KILL, at=99.5)]}, "it was killed before it had started it"),
        ({"kills": [replace(KILL, at=103.3)]}, "it was killed after both"),
        ({"kills": [replace(KILL, forgets_s=0.5)]}, "it had saved the start by then"),
        ({"first": replace(FIRST, last=114.5)}, "the nodes had registered by then"),
        ({"second": replace(SECOND, slurm_id=8)}, "they are two objects"),
        ({"second": replace(SECOND, epoch=1_000_001)}, "Slurm knew of the first"),
        ({"released": [99.0, 102.5]}, "somebody asked for the second"),
        ({"allocated": [100.0]}, "it was started once only"),
        ({"allocated": []}, "Slurm doesn't tell that it started it"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_a_run_beside_another_without_its_excuse_is_a_run_twice(
    change: dict[str, Any], why: str
) -> None:
    slurm = Logged(
        released={7: change.get("released", [99.0]), 8: []},
        allocated={7: change.get("allocated", [100.0, 103.2]), 8: [103.2]},
    )
    first, second = change.get("first", FIRST), change.get("second", SECOND)
    kills = change.get("kills", [KILL])
    verdict = judge([], [first, second], {}, slurm, kills)
    assert (len(verdict.twice), verdict.by_slurm) == (1, []), why


def test_slurmctlds_log_tells_of_releases_starts_and_refused_launches() -> None:
    lines = [
        "53.656] sched: _release_job_rec: release hold on JobId=89 by uid 1000",
        "53.930] sched: Allocate JobId=89 NodeList=n4 #CPUs=1 Partition=main",
        "55.053] sched/backfill: _start_job: Started JobId=89 in main on n4",
        "55.055] Killing non-startable batch JobId=89: Job credential revoked",
        "55.055] _job_complete: JobId=89 WEXITSTATUS 1",
    ]
    found = logged(f"[2026-11-29T22:22:{line}\n" for line in lines)
    assert [len(found.released[89]), len(found.allocated[89]), len(found.not_launched[89])] == [
        1,
        2,
        1,
    ]
    assert found.allocated[89][1] - found.allocated[89][0] == pytest.approx(1.123)
