import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from dispatch.store.records import Store
from dispatch.store.sqlite import SqliteRecords
from tests.conformance.records.contract import RecordsContract
from tests.conformance.records.optional import (
    AgendaContract,
    FeedContract,
    HealthContract,
    OwnerContract,
)
from tests.conformance.records.race import Opener
from tests.conformance.records.retention import RetentionContract
from tests.conformance.records.samples import token


@dataclass(frozen=True)
class SqliteOpener:
    path: Path

    @contextmanager
    def __call__(self) -> Iterator[Store]:
        store = SqliteRecords(self.path, token, busy_s=60)
        yield store
        store.close_file()


class TestSqliteRecords(
    RecordsContract,
    AgendaContract,
    OwnerContract,
    HealthContract,
    RetentionContract,
    FeedContract,
):
    processes = 4

    def opener(self, place: Path) -> Opener:
        self.path = place / "records.sqlite"
        return SqliteOpener(self.path)

    def lose_entry(self, store: Store, job_id: str, revision: int) -> None:
        with closing(sqlite3.connect(self.path)) as file, file:
            file.execute("DROP TRIGGER entries_stay")
            file.execute(
                "DELETE FROM entries WHERE job_id = ? AND revision = ?", (job_id, revision)
            )
