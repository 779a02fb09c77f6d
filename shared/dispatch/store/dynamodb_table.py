"""One DynamoDB table as the store calls it: what a reply means, and when to send again.

No exception of botocore leaves this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    ParamValidationError,
)

from dispatch.errors import CommitUnknown, EntryTooLarge, StoreUnavailable
from dispatch.store import items
from dispatch.store.items import Answer, Item

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_Result = TypeVar("_Result")

_DELETES_AT_ONCE = 100


def create_table(client: DynamoDBClient, table: str) -> None:
    """Create the table if it isn't there, and wait until it can be used.

    For engines on this machine; a deployment's table is made by its template.

    Raises:
        StoreUnavailable: It can't be made.
    """
    try:
        client.create_table(**items.create_table_request(table))
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") != "ResourceInUseException":
            raise StoreUnavailable(f"table {table}: {error}") from error
    except BotoCoreError as error:
        raise StoreUnavailable(f"table {table}: {error}") from error
    try:
        client.get_waiter("table_exists").wait(TableName=table)
    except (ClientError, BotoCoreError) as error:
        raise StoreUnavailable(f"table {table}: {error}") from error


class DynamoTable:
    """Sends requests to one table, again where that is safe, and maps its errors to ours.

    Args:
        client: A low-level client.
        table: The table's name.
        pause: Waits before try `k` = 1, 2, ….
        tries: How often a write is sent.
    """

    def __init__(
        self, client: DynamoDBClient, table: str, *, pause: Callable[[int], None], tries: int
    ) -> None:
        self._client = client
        self._table = table
        self._pause = pause
        self._tries = tries

    def transact(
        self, request: Item, job_id: str, settle: Callable[[], _Result | None]
    ) -> _Result | None:
        """Send a transaction until it is settled: None for a clear yes, else what settling says.

        It is sent again with the same token and conditions, so it can't land twice. `settle` reads
        back: it returns something if this write landed, None if nothing did yet, and raises what
        the caller should see if another's did.

        Raises:
            EntryTooLarge: It would never fit.
            StoreUnavailable: Nothing was written.
            CommitUnknown: It may have landed, or land yet.
        """
        doubt = False
        last: Exception | None = None
        for k in range(self._tries):
            if k:
                self._pause(k)
            try:
                self._client.transact_write_items(**request)
                return None
            except (ClientError, BotoCoreError) as error:
                last = error
                verdict = _verdict(error)
            if verdict in (Answer.TOO_LARGE, Answer.REFUSED):
                break
            if verdict is Answer.AGAIN:
                continue
            try:
                outcome = settle()
            except StoreUnavailable:
                doubt = True
                continue
            if outcome is not None:
                return outcome
            doubt = doubt or verdict is Answer.DOUBT
        if doubt:
            raise CommitUnknown(f"it may be there: {last}", job=job_id) from last
        raise _failure(last, job_id) from last

    def update(self, request: Item, job_id: str | None) -> bool:
        """Send an update that may be repeated; return False where its condition fails.

        Raises:
            StoreUnavailable: It may be there; do it again.
        """
        last: Exception | None = None
        for k in range(self._tries):
            if k:
                self._pause(k)
            try:
                self._client.update_item(**request)
                return True
            except (ClientError, BotoCoreError) as error:
                last = error
                verdict = _verdict(error)
            if verdict is Answer.NO:
                return False
            if verdict in (Answer.TOO_LARGE, Answer.REFUSED):
                break
        raise _failure(last, job_id) from last

    def get(self, key: Item, job_id: str | None) -> Item | None:
        """Return one item as last written, or None.

        Raises:
            StoreUnavailable: There was no answer.
        """
        reply = self._call(
            self._client.get_item, job_id, TableName=self._table, Key=key, ConsistentRead=True
        )
        item: Item | None = reply.get("Item")
        return item

    def query(self, request: Item, job_id: str | None) -> Iterator[Item]:
        """Yield all items of a query, page after page.

        Raises:
            StoreUnavailable: A page didn't come.
        """
        start: Item = {}
        while True:
            reply = self._call(self._client.query, job_id, **request, **start)
            yield from reply["Items"]
            if not reply.get("LastEvaluatedKey"):
                return
            start = {"ExclusiveStartKey": reply["LastEvaluatedKey"]}

    def _call(self, method: Callable[..., Any], job_id: str | None, **request: Any) -> Any:
        try:
            return method(**request)
        except (ClientError, BotoCoreError) as error:
            raise _failure(error, job_id) from error

    def put(self, item: Item) -> None:
        """Keep an item in place of what was there.

        Raises:
            StoreUnavailable: It may be there; put it again.
        """
        self._call(self._client.put_item, None, TableName=self._table, Item=item)

    def delete(self, keys: Sequence[Item], job_id: str) -> None:
        """Delete items, in no order; whoever is interrupted does it again.

        Transactions, as the right to a batch write would be a right to overwrite too.

        Raises:
            StoreUnavailable: Some may be left.
        """
        for start in range(0, len(keys), _DELETES_AT_ONCE):
            deletes = [
                {"Delete": {"TableName": self._table, "Key": key}}
                for key in keys[start : start + _DELETES_AT_ONCE]
            ]
            try:
                self.transact({"TransactItems": deletes}, job_id, lambda: None)
            except CommitUnknown as doubt:
                raise StoreUnavailable("some items may be left", job=job_id) from doubt


def _verdict(error: ClientError | BotoCoreError) -> Answer:
    match error:
        case ClientError():
            said = items.answer(dict(error.response))
            # The client sent it more than once, and only the last reply is known.
            retried = error.response.get("ResponseMetadata", {}).get("RetryAttempts", 0) > 0
            return Answer.DOUBT if retried and said in (Answer.AGAIN, Answer.REFUSED) else said
        case NoCredentialsError() | ParamValidationError():
            return Answer.REFUSED
        case _:
            return Answer.DOUBT


def _failure(error: Exception | None, job_id: str | None) -> StoreUnavailable | EntryTooLarge:
    if isinstance(error, ClientError) and _verdict(error) is Answer.TOO_LARGE:
        return EntryTooLarge(f"it would not fit: {error}", job=job_id)
    return StoreUnavailable(f"DynamoDB: {error}", job=job_id)
