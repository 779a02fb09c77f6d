"""The items of DynamoDB, as the streams, the policies and the limits of the service see them."""

import json

import pytest

from dispatch.record.codec import envelope
from dispatch.record.view import Envelope
from dispatch.store import items
from dispatch.store.items import Answer, answer
from dispatch.store.records import (
    MAX_COMMIT_BYTES,
    MAX_ENTRIES_PER_COMMIT,
    MAX_ENTRY_BYTES,
)
from dispatch.store.rules import MAX_QUIET_BYTES
from tests.conformance.records.samples import NOW, cancel, evidence, new_record, padded

ITEM_LIMIT = 400 * 1024
TRANSACTION_LIMIT = 4 * 1024 * 1024
ACTIONS_LIMIT = 100


def size(item: items.Item) -> int:
    """The size as the service counts it: names and values, without the JSON around them."""
    return sum(
        len(name.encode()) + len(str(next(iter(value.values()))).encode())
        for name, value in item.items()
    )


def test_entries_sort_by_number_and_before_head_and_header() -> None:
    keys = [items.entry_sk(number) for number in (1, 2, 9, 10, 99, 1_000_000, 9_999_999_999)]
    everything = [*keys, items.HEAD, items.HEADER]
    assert everything == sorted(everything)
    assert all(items.FIRST_ENTRY < key < items.LAST_ENTRY for key in keys)


def test_the_largest_entry_is_an_item_with_room_to_spare() -> None:
    request = items.commit_request(
        "t", "j" * 41, 0, [padded(MAX_ENTRY_BYTES)], token="x" * 36, settled_at=NOW
    )
    item = request["TransactItems"][1]["Put"]["Item"]
    assert size(item) < ITEM_LIMIT - 64 * 1024


def test_the_largest_commit_is_within_one_transaction() -> None:
    entries = [padded(MAX_COMMIT_BYTES // MAX_ENTRIES_PER_COMMIT)] * MAX_ENTRIES_PER_COMMIT
    request = items.commit_request("t", "j" * 41, 0, entries, token="x" * 36, settled_at=NOW)
    assert len(request["TransactItems"]) == MAX_ENTRIES_PER_COMMIT + 1 <= ACTIONS_LIMIT
    assert len(json.dumps(request)) < TRANSACTION_LIMIT


def test_the_largest_hint_leaves_the_head_far_from_its_limit() -> None:
    assert MAX_QUIET_BYTES < ITEM_LIMIT // 4


def test_every_action_of_a_create_and_a_commit_has_its_condition() -> None:
    made = items.create_request("t", new_record(), "token")
    added = items.commit_request("t", "j1", 4, [evidence()], token="token", settled_at=None)
    for request in (made, added):
        assert request["ClientRequestToken"] == "token"
        for action in request["TransactItems"]:
            (parts,) = action.values()
            assert parts["ConditionExpression"]


@pytest.mark.parametrize(
    ("stored", "kind"),
    [
        (envelope(cancel()), "cancel"),
        (evidence(), "escalated"),
        (Envelope("dispatch.fact.v9", '{"fact":"of_the_future"}'), "of_the_future"),
        (Envelope("dispatch.fact.v9", "[1]"), "unknown"),
        (Envelope("dispatch.fact.v9", '{"fact":""}'), "unknown"),
        (Envelope("dispatch.fact.v9", "not json"), "unknown"),
    ],
)
def test_an_entry_shows_what_a_stream_filters_on(stored: Envelope, kind: str) -> None:
    request = items.commit_request("t", "j1", 0, [stored], token="x", settled_at=None)
    item = request["TransactItems"][1]["Put"]["Item"]
    assert item["kind"] == {"S": kind}
    assert item["schema"] == {"S": stored.schema}


def test_the_table_has_its_indexes_on_demand_and_a_stream_of_new_images() -> None:
    request = items.create_table_request("t")
    assert request["BillingMode"] == "PAY_PER_REQUEST"
    assert request["StreamSpecification"]["StreamViewType"] == "NEW_IMAGE"
    indexes = {index["IndexName"]: index for index in request["GlobalSecondaryIndexes"]}
    assert set(indexes) == {items.OPEN_INDEX, items.LISTING_INDEX, items.RETENTION_INDEX}
    used = {key["AttributeName"] for index in indexes.values() for key in index["KeySchema"]}
    used |= {key["AttributeName"] for key in request["KeySchema"]}
    assert used == {each["AttributeName"] for each in request["AttributeDefinitions"]}


@pytest.mark.parametrize(
    ("codes", "said"),
    [
        (["None", "ConditionalCheckFailed"], Answer.NO),
        (["TransactionConflict", "ConditionalCheckFailed"], Answer.NO),
        (["TransactionConflict", "None"], Answer.AGAIN),
        (["None", "ProvisionedThroughputExceeded"], Answer.AGAIN),
        (["ThrottlingError"], Answer.AGAIN),
        ([], Answer.AGAIN),
        (["ValidationError"], Answer.REFUSED),
    ],
)
def test_a_cancelled_transaction_says_why(codes: list[str], said: Answer) -> None:
    reasons = [{"Code": code} for code in codes]
    error = {"Error": {"Code": "TransactionCanceledException"}, "CancellationReasons": reasons}
    assert answer(error) is said


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        ("ConditionalCheckFailedException", 400, Answer.NO),
        ("TransactionConflictException", 400, Answer.AGAIN),
        ("ProvisionedThroughputExceededException", 400, Answer.AGAIN),
        ("ThrottlingException", 400, Answer.AGAIN),
        ("TransactionInProgressException", 400, Answer.DOUBT),
        ("InternalServerError", 500, Answer.DOUBT),
        ("ServiceUnavailable", 503, Answer.DOUBT),
        ("NeverHeardOfIt", 502, Answer.DOUBT),
        ("AccessDeniedException", 400, Answer.REFUSED),
        ("IdempotentParameterMismatchException", 400, Answer.REFUSED),
    ],
)
def test_every_other_error_says_whether_it_may_have_landed(
    code: str, status: int, said: Answer
) -> None:
    error = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    assert answer(error) is said
