"""The one-machine stack archives into a folder what it then removes."""

import time
from pathlib import Path

import httpx
import pytest

from dispatch.core.fold import fold
from dispatch.record.export import import_text
from dispatch.wiring import utc_now
from tests.embedded.running import Running, settled

PATIENCE_S = 60.0


def test_what_is_tombstoned_on_one_machine_is_archived_in_the_folder(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    stack = Running(tmp_path / "state")
    try:
        job = stack.submit("kept", command=["true"]).json()["job_id"]
        stack.until(job, settled)
        assert httpx.delete(f"{stack.url}/jobs/{job}").status_code < 300
    finally:
        stack.kill()
    # Retention runs as a stack starts, and each hour after that.
    stack = Running(tmp_path / "state", archive=str(archive))
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not (archive / f"{job}.jsonl").exists():
            if time.monotonic() > deadline:
                pytest.fail(f"no archive: {(tmp_path / 'state' / 'stack.log').read_text()}")
            time.sleep(0.05)
        told = fold(import_text((archive / f"{job}.jsonl").read_text()), utc_now())
        assert told.job_id == job
        assert told.settled_at is not None
    finally:
        stack.kill()
