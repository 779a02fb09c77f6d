"""At least a hundred jobs on a real Slurm while everything dies, is cut off, lost or meddled with.

`DISPATCH_CHAOS_SEED`, `_JOBS` and `_EVENTS` make another run of it, or a longer one. With
`DISPATCH_CHAOS_CLOSED=1` a killed slurmctld is brought back with closed partitions until its nodes
have registered; then no run beside another is excused.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.real.slurm.chaos import Chaos
from tests.real.slurm.real import RealSlurm
from tests.real.slurm.terms import MIN_JOB_AGE_S
from tests.real.slurm.truth import judge, logged, table, told_by

SEED = int(os.environ.get("DISPATCH_CHAOS_SEED", "1"))
JOBS = int(os.environ.get("DISPATCH_CHAOS_JOBS", "100"))
EVENTS = int(os.environ.get("DISPATCH_CHAOS_EVENTS", str(JOBS * 6 // 10)))
NOT_RUN = tuple(f": {cause}" for cause in ("launch_failed", "stopped", "stopped_outside", "lost"))
CLOSED = os.environ.get("DISPATCH_CHAOS_CLOSED") == "1"
REPORT = Path("build/reports/slurm-chaos.txt")


def test_no_job_is_run_twice_or_lost_and_every_outcome_is_what_its_runs_wrote(
    real: RealSlurm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert JOBS >= 100
    began = time.monotonic()
    real.configure("MinJobAge", str(MIN_JOB_AGE_S))
    chaos = Chaos(real, SEED, JOBS, tmp_path, closed=CLOSED)
    try:
        chaos.run(EVENTS)
        chaos.calm()
        chaos.settle(patience_s=240 + JOBS)
        jobs = [chaos.folded(job_id) for job_id in chaos.kinds]
        runs = told_by(chaos.truth)
    finally:
        chaos.close()
        real.configure("MinJobAge", "300")
    with (real.base / "log" / "slurmctld.log").open() as log:
        verdict = judge(jobs, runs, chaos.kinds, logged(log), chaos.kills)
    took = time.monotonic() - began
    title = f"Chaos on Slurm {real.release}: seed {SEED}, {took:.0f} s"
    title += ", partitions closed after a crash" if CLOSED else ""
    report = table(verdict, chaos.happened, title)
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(report + "\n")
    with capsys.disabled():
        print(f"\n\n{report}\n")
    assert verdict.twice == []
    assert verdict.lost == []
    assert verdict.disagree == []
    # Slurm tells each of these as an exit that no process made.
    assert all(one.endswith(NOT_RUN) for one in verdict.not_launched), verdict.not_launched
    assert len(jobs) == JOBS
    assert verdict.runs >= verdict.outcomes["succeeded"] + verdict.outcomes["failed"]
