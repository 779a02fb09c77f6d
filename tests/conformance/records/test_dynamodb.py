from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dispatch.store import items
from dispatch.store.dynamodb import DynamoRecords
from dispatch.store.dynamodb_table import create_table
from dispatch.store.records import Store
from tests.conformance.records.contract import RecordsContract
from tests.conformance.records.moto_table import moto_client
from tests.conformance.records.optional import AgendaContract, HealthContract, OwnerContract
from tests.conformance.records.race import Opener
from tests.conformance.records.retention import RetentionContract
from tests.conformance.records.samples import token

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


@pytest.fixture(scope="module")
def client() -> Iterator["DynamoDBClient"]:
    with moto_client() as client:
        yield client


class TestDynamoRecords(
    RecordsContract, AgendaContract, OwnerContract, HealthContract, RetentionContract
):
    persisted = 1

    @pytest.fixture(autouse=True)
    def fresh_table(self, client: "DynamoDBClient") -> Iterator[None]:
        self.client = client
        self.table = f"records-{token()}"
        create_table(client, self.table)
        yield
        client.delete_table(TableName=self.table)

    def opener(self, place: Path) -> Opener:
        store = DynamoRecords(self.client, self.table, token, pause=lambda _: None)

        @contextmanager
        def opened() -> Iterator[Store]:
            yield store

        return opened

    def lose_entry(self, store: Store, job_id: str, revision: int) -> None:
        key = items.job_key(job_id, items.entry_sk(revision))
        self.client.delete_item(TableName=self.table, Key=key)
