from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from dispatch.store.memory import MemoryRecords
from dispatch.store.records import Store
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


class TestMemoryRecords(
    RecordsContract,
    AgendaContract,
    OwnerContract,
    HealthContract,
    RetentionContract,
    FeedContract,
):
    def opener(self, place: Path) -> Opener:
        store = MemoryRecords(token)

        @contextmanager
        def opened() -> Iterator[Store]:
            yield store

        return opened

    def lose_entry(self, store: Store, job_id: str, revision: int) -> None:
        assert isinstance(store, MemoryRecords)
        kept = store._records[job_id]
        assert kept.view is not None
        entries = kept.view.entries
        kept.view = replace(kept.view, entries=entries[: revision - 1] + entries[revision:])
