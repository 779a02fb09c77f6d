"""The whole conformance suite on a DynamoDB engine, with writers in several processes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import sleep
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ReadTimeoutError

from dispatch.store import items
from dispatch.store.dynamodb import DynamoRecords
from dispatch.store.dynamodb_table import create_table
from dispatch.store.records import Created, Store
from tests.conformance.records.contract import RecordsContract, bodies, created
from tests.conformance.records.optional import AgendaContract, HealthContract, OwnerContract
from tests.conformance.records.race import Opener
from tests.conformance.records.retention import RetentionContract
from tests.conformance.records.samples import evidence, new_record, token

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


def client_of(endpoint: str) -> "DynamoDBClient":
    retries: Any = {"mode": "standard", "total_max_attempts": 3}
    config = Config(retries=retries, max_pool_connections=40)
    return boto3.client("dynamodb", endpoint_url=endpoint, config=config)


@dataclass(frozen=True)
class DynamoOpener:
    endpoint: str
    table: str

    @contextmanager
    def __call__(self) -> Iterator[Store]:
        chance = Random()

        def pause(k: int) -> None:
            sleep(chance.uniform(0, min(1.0, 0.01 * 2**k)))

        client = client_of(self.endpoint)
        yield DynamoRecords(client, self.table, token, pause=pause)
        client.close()


class TestDynamoRecordsOnAnEngine(
    RecordsContract, AgendaContract, OwnerContract, HealthContract, RetentionContract
):
    processes = 4

    @pytest.fixture(autouse=True)
    def fresh_table(self, engine: str) -> Iterator[None]:
        self.endpoint = engine
        self.table = f"records-{token()}"
        self.client = client_of(engine)
        create_table(self.client, self.table)
        yield
        self.client.delete_table(TableName=self.table)
        self.client.close()

    def opener(self, place: Path) -> Opener:
        return DynamoOpener(self.endpoint, self.table)

    def lose_entry(self, store: Store, job_id: str, revision: int) -> None:
        key = items.job_key(job_id, items.entry_sk(revision))
        self.client.delete_item(TableName=self.table, Key=key)

    @pytest.mark.parametrize("lost", [1, 2, 3, 4], ids=lambda lost: f"{lost} replies")
    def test_f41_a_replies_that_are_lost_on_the_wire_leave_each_write_there_once(
        self, monkeypatch: pytest.MonkeyPatch, lost: int
    ) -> None:
        """Three lost replies use up the client's own tries; then the store reads back."""
        monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
        client = client_of(self.endpoint)
        store = DynamoRecords(client, self.table, token, pause=lambda _: None)
        job_id = created(store)
        session = client._endpoint.http_session  # type: ignore[attr-defined]
        send = session.send
        left = [0]

        def lose(request: Any) -> Any:
            reply = send(request)
            if b"TransactWriteItems" in request.headers["X-Amz-Target"] and left[0]:
                left[0] -= 1
                raise ReadTimeoutError(endpoint_url=request.url)
            return reply

        monkeypatch.setattr(session, "send", lose)
        left[0] = lost
        assert store.commit(job_id, 0, [evidence("a"), evidence("b")]) == 2
        left[0] = lost
        other = new_record("other")
        assert store.create(other) == Created(other.job_id, created=True)
        assert bodies(store, job_id) == [evidence("a").body, evidence("b").body]
        client.close()

    def test_create_table_again_leaves_the_table_as_it_is(self, store: Store) -> None:
        job_id = created(store)
        create_table(self.client, self.table)
        assert store.read(job_id).revision == 0
