"""The file itself: what it is opened as, what it refuses, and what its failures are called."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from dispatch.errors import (
    CommitUnknown,
    JobNotFound,
    RevisionConflict,
    SchemaRefused,
    StoreUnavailable,
)
from dispatch.store.records import ClusterHealth
from dispatch.store.sqlite import SqliteRecords
from dispatch.store.sqlite_file import SCHEMA_VERSION
from tests.conformance.records.samples import NOW, evidence, new_record, token


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "records.sqlite"


class Failing(sqlite3.Connection):
    """Fails the statements that begin so, as a disk would."""

    begins = ""

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        if Failing.begins and sql.startswith(Failing.begins):
            raise sqlite3.OperationalError("disk I/O error")
        return super().execute(sql, *values)


def failing(*args: Any, **options: Any) -> sqlite3.Connection:
    return sqlite3.connect(*args, factory=Failing, **options)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda begins: monkeypatch.setattr(Failing, "begins", begins)


def test_what_was_written_is_there_when_the_file_is_opened_again(path: Path) -> None:
    store = SqliteRecords(path, token)
    job_id = store.create(new_record()).job_id
    store.commit(job_id, 0, [evidence()], settled_at=NOW)
    before = store.read(job_id)
    store.put_health(ClusterHealth("alpha", "s1", NOW))
    store.close_file()
    again = SqliteRecords(str(path), token)
    assert again.read(job_id) == before
    assert again.get_health("alpha") == ClusterHealth("alpha", "s1", NOW)
    again.close_file()


def test_every_connection_writes_ahead_and_syncs_each_commit(path: Path) -> None:
    opened: list[sqlite3.Connection] = []

    def connect(*args: Any, **options: Any) -> sqlite3.Connection:
        opened.append(sqlite3.connect(*args, **options))
        return opened[-1]

    store = SqliteRecords(path, token, connect=connect)
    for number in range(3):
        store.create(new_record(f"n{number}"))
    assert opened
    for connection in opened:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    store.close_file()


def test_a_file_with_tables_of_a_newer_build_is_refused_and_left_as_it_is(path: Path) -> None:
    SqliteRecords(path, token).close_file()
    with closing(sqlite3.connect(path)) as file:
        file.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    before = path.read_bytes()
    with pytest.raises(SchemaRefused, match=f"version {SCHEMA_VERSION + 1}") as refused:
        SqliteRecords(path, token)
    assert str(path) in str(refused.value)
    assert path.read_bytes() == before


def test_the_database_of_another_program_is_refused_and_left_as_it_is(path: Path) -> None:
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()
    with pytest.raises(SchemaRefused, match="another program"):
        SqliteRecords(path, token)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(path: Path) -> None:
    path.write_text("a letter\n" * 1000)
    with pytest.raises(SchemaRefused, match="no SQLite file"):
        SqliteRecords(path, token)
    assert path.read_text() == "a letter\n" * 1000


def test_a_folder_that_is_not_there_is_unavailable_and_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="nowhere"):
        SqliteRecords(tmp_path / "nowhere" / "records.sqlite", token)


def test_many_that_open_a_new_file_at_once_share_one(path: Path) -> None:
    def work(path: Path, number: int, together: Barrier) -> None:
        together.wait(60)
        store = SqliteRecords(path, token)
        store.create(new_record(f"n{number}"))
        store.close_file()

    with ThreadPoolExecutor(8) as pool:
        for turn in range(5):
            file = path.with_suffix(f".{turn}")
            together = Barrier(8)
            for one in [pool.submit(work, file, number, together) for number in range(8)]:
                one.result()
            store = SqliteRecords(file, token)
            assert len(store.list().items) == 8
            store.close_file()


def test_a_writer_that_does_not_let_go_makes_writes_unavailable_and_reads_go_on(
    path: Path,
) -> None:
    store = SqliteRecords(path, token, busy_s=0.01)
    job_id = store.create(new_record()).job_id
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="locked"):
            store.commit(job_id, 0, [evidence()])
        assert store.read(job_id).revision == 0
        other.execute("ROLLBACK")
    assert store.commit(job_id, 0, [evidence()]) == 1
    store.close_file()


def test_a_failure_before_the_end_is_unavailable_and_nothing_was_written(
    path: Path, broken: Any
) -> None:
    store = SqliteRecords(path, token, connect=failing)
    job_id = store.create(new_record()).job_id
    broken("UPDATE")
    with pytest.raises(StoreUnavailable, match=f"{job_id}.*disk I/O error"):
        store.commit(job_id, 0, [evidence()])
    broken("")
    assert store.read(job_id).revision == 0
    store.close_file()


def test_a_failure_at_the_very_end_of_a_commit_or_a_create_is_unknown(
    path: Path, broken: Any
) -> None:
    store = SqliteRecords(path, token, connect=failing)
    job_id = store.create(new_record()).job_id
    broken("COMMIT")
    with pytest.raises(CommitUnknown, match=job_id):
        store.commit(job_id, 0, [evidence()])
    with pytest.raises(CommitUnknown):
        store.create(new_record("b"))
    with pytest.raises(StoreUnavailable):
        store.acquire("alpha/0", "s1", now=NOW, ttl_s=60)
    broken("")
    assert store.commit(job_id, 0, [evidence()]) == 1
    with pytest.raises(JobNotFound):
        store.read(new_record("b").job_id)
    store.close_file()


def test_a_full_disk_is_unavailable_and_the_store_works_again_once_there_is_room(
    path: Path,
) -> None:
    pages = [10**6]

    def connect(*args: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = sqlite3.connect(*args, **options)
        connection.execute(f"PRAGMA max_page_count = {pages[0]}")
        return connection

    store = SqliteRecords(path, token, connect=connect)
    job_id = store.create(new_record()).job_id
    store.close_file()
    pages[0] = 1
    many = [evidence(f"k{number}" * 20) for number in range(50)]

    def fill() -> None:
        for revision in range(0, 5000, 50):
            store.commit(job_id, revision, many)

    with pytest.raises(StoreUnavailable, match="full"):
        fill()
    pages[0] = 10**6
    store.close_file()
    revision = store.read(job_id).revision
    assert revision % 50 == 0
    assert store.commit(job_id, revision, many) == revision + 50
    store.close_file()


def test_the_file_itself_lets_no_entry_change_and_none_go_before_its_tombstone(
    path: Path,
) -> None:
    store = SqliteRecords(path, token)
    job_id = store.create(new_record()).job_id
    store.commit(job_id, 0, [evidence()])
    with closing(sqlite3.connect(path)) as file:
        with pytest.raises(sqlite3.IntegrityError, match="never changes"):
            file.execute("UPDATE entries SET body = '{}' WHERE revision = 1")
        with pytest.raises(sqlite3.IntegrityError, match="tombstoned"):
            file.execute("DELETE FROM entries WHERE revision = 1")
    assert store.read(job_id).revision == 1
    store.close_file()


def test_a_refused_commit_gives_its_connection_back(path: Path) -> None:
    opened: list[object] = []

    def connect(*args: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = sqlite3.connect(*args, **options)
        opened.append(connection)
        return connection

    store = SqliteRecords(path, token, connect=connect)
    job_id = store.create(new_record()).job_id
    for _ in range(20):
        with pytest.raises(RevisionConflict):
            store.commit(job_id, 7, [evidence()])
    assert len(opened) == 1
    store.close_file()


def plan(path: Path, query: str) -> str:
    with closing(sqlite3.connect(path)) as file:
        return " ".join(row[3] for row in file.execute(f"EXPLAIN QUERY PLAN {query}"))


def test_a_file_of_an_earlier_build_gets_the_indexes_that_retention_asks(tmp_path: Path) -> None:
    path = tmp_path / "records.sqlite"
    SqliteRecords(path, token).close_file()
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("DROP INDEX closed_records")
        file.execute("DROP INDEX marked_records")
    store = SqliteRecords(path, token)
    assert list(store.archivable(NOW)) == list(store.removable()) == []
    assert "closed_records" in plan(
        path,
        "SELECT job_id FROM records WHERE NOT open AND NOT tombstoned AND settled_at <= 'x'",
    )
    assert "marked_records" in plan(path, "SELECT job_id FROM records WHERE tombstoned = 1")
    store.close_file()
