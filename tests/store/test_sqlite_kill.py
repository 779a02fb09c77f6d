"""SIGKILL in the middle of commits: every acknowledged commit is there, and no half of one.

It shows what the death of a process leaves; the loss of power needs `synchronous=FULL`, which
`test_sqlite_file` looks at.
"""

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from dispatch.store.records import MAX_ENTRIES_PER_COMMIT
from dispatch.store.sqlite import SqliteRecords
from tests.conformance.records.samples import evidence, new_record, token

PART = 3


def killed(path: Path, job_id: str, names: list[str], after: int) -> dict[int, str]:
    """Kill so many writers once the first has had so many acknowledgements; return all of them."""
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.store.sqlite_committer", str(path), job_id, name],
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    lines: list[str] = []
    try:
        first = children[0].stdout
        assert first is not None
        lines += [first.readline() for _ in range(after)]
    finally:
        for child in children:
            child.kill()
    for child in children:
        lines += child.communicate()[0].splitlines()
        assert child.returncode == -signal.SIGKILL
    whole = [line.strip() for line in lines if line.strip().endswith("}")]
    return {int(number): body for number, body in (line.split(" ", 1) for line in whole)}


@pytest.mark.parametrize("writers", [1, 3])
def test_every_acknowledged_commit_is_there_after_sigkill_and_no_half_of_one(
    tmp_path: Path, writers: int
) -> None:
    path = tmp_path / "records.sqlite"
    store = SqliteRecords(path, token)
    job_id = store.create(new_record()).job_id
    acknowledged: dict[int, str] = {}
    entries = store.read(job_id).entries
    for turn, after in enumerate((1, 4, 9, 23)):
        names = [f"t{turn}w{k}" for k in range(writers)]
        acknowledged |= killed(path, job_id, names, after)
        entries = store.read(job_id).entries
        assert len(entries) % PART == 0
        assert {number: entries[number - 1].body for number in acknowledged} == acknowledged
        for start in range(0, len(entries), PART):
            assert len({entry.token for entry in entries[start : start + PART]}) == 1
        assert len({entry.body for entry in entries}) == len(entries)
        with closing(sqlite3.connect(path)) as file:
            assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert len(acknowledged) >= 1 + 4 + 9 + 23
    changes = store.changes(0, 10**6)
    assert [change.revision for change in changes] == list(range(len(entries) + 1))
    last = store.commit(
        job_id, len(entries), [evidence(f"after.{k}") for k in range(MAX_ENTRIES_PER_COMMIT)]
    )
    assert last == len(entries) + MAX_ENTRIES_PER_COMMIT
    store.close_file()
