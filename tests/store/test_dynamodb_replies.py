"""F41: what DynamoDB's replies, and replies that never came, make of a write.

The faults are put on the wire by botocore's own events: a reply is lost after the engine wrote, or
an answer is given in the engine's place. What botocore then does is botocore's.
"""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from dispatch.errors import (
    CommitUnknown,
    EntryTooLarge,
    IdempotencyConflict,
    InvalidRecord,
    RevisionConflict,
    StoreUnavailable,
)
from dispatch.record.codec import envelope
from dispatch.store import items
from dispatch.store.dynamodb import DynamoRecords
from dispatch.store.dynamodb_table import create_table
from dispatch.store.records import ClusterHealth, Created, Lease, Quiet
from tests.conformance.records.contract import committed
from tests.conformance.records.moto_table import moto_client
from tests.conformance.records.samples import (
    NOW,
    cancel,
    evidence,
    new_record,
    padded,
    token,
)

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

WRITE = "TransactWriteItems"
LOSE = "the engine writes, and its reply is lost"
CUT = "the request never arrives"


class Wire:
    """Between one client and the engine: a plan of faults for each operation, first come first."""

    def __init__(self, client: "DynamoDBClient") -> None:
        self.client = client
        self.plans: dict[str, list[Any]] = {}
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.between: Callable[[], object] = lambda: None
        client.meta.events.register_first("provide-client-params.dynamodb.*", self._asked)
        client.meta.events.register("before-call.dynamodb.*", self._instead)
        client.meta.events.register_last("before-send", self._after)

    def plan(self, operation: str, *faults: Any) -> None:
        self.plans[operation] = list(faults)

    def _next(self, operation: str, kinds: Callable[[Any], bool]) -> Any:
        plan = self.plans.get(operation)
        return plan.pop(0) if plan and kinds(plan[0]) else None

    def _asked(self, params: dict[str, Any], model: Any, **_: Any) -> None:
        self.sent.append((model.name, params))

    def _instead(self, model: Any, **_: Any) -> Any:
        fault = self._next(model.name, lambda fault: fault is CUT or isinstance(fault, dict))
        if fault is None:
            return None
        self.between()
        if fault is CUT:
            raise EndpointConnectionError(endpoint_url="http://127.0.0.1")
        return SimpleNamespace(status_code=fault["ResponseMetadata"]["HTTPStatusCode"]), fault

    def _after(self, event_name: str, **_: Any) -> None:
        if self._next(event_name.rsplit(".", 1)[1], lambda fault: fault is LOSE):
            raise ReadTimeoutError(endpoint_url="http://127.0.0.1")


def refused(code: str, status: int = 400, retries: int = 0, message: str = "") -> dict[str, Any]:
    return {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status, "RetryAttempts": retries},
    }


def cancelled(*reasons: str) -> dict[str, Any]:
    return refused("TransactionCanceledException") | {
        "CancellationReasons": [{"Code": reason} for reason in reasons]
    }


class Setting:
    """A store whose client's wire is at fault, and another that is sound, on one table."""

    def __init__(self, sound: "DynamoDBClient", *, attempts: int = 1) -> None:
        self.table = f"records-{token()}"
        create_table(sound, self.table)
        retries: Any = {"mode": "standard", "total_max_attempts": attempts}
        faulty = boto3.client("dynamodb", config=Config(retries=retries))
        self.wire = Wire(faulty)
        self.pauses: list[int] = []
        self.store = DynamoRecords(faulty, self.table, token, pause=self.pauses.append, tries=5)
        self.sound = DynamoRecords(sound, self.table, token, pause=lambda _: None)
        self.job_id = self.sound.create(new_record()).job_id
        self.store.create(new_record())
        self.wire.sent.clear()

    def commit(self, key: str = "mine") -> int:
        return self.store.commit(self.job_id, 0, [evidence(key), evidence(f"{key} too")])

    def bodies(self) -> list[str]:
        return [entry.body for entry in self.sound.read(self.job_id).entries]

    def writes(self) -> list[dict[str, Any]]:
        return [params for name, params in self.wire.sent if name == WRITE]


MINE = [evidence("mine").body, evidence("mine too").body]


@pytest.fixture(scope="module")
def client() -> Iterator["DynamoDBClient"]:
    with moto_client() as client:
        yield client


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)


@pytest.fixture
def at(client: "DynamoDBClient") -> Setting:
    return Setting(client)


# --- (a) the write landed, and its reply didn't ------------------------------------------------


def test_f41_a_the_clients_own_retry_is_told_no_and_the_token_says_mine(
    client: "DynamoDBClient",
) -> None:
    at = Setting(client, attempts=3)
    at.wire.plan(WRITE, LOSE)
    assert at.commit() == 2
    assert len(at.writes()) == 1, "botocore sent it again, the store did not"
    assert at.bodies() == MINE


def test_f41_a_a_lost_reply_without_retries_is_settled_by_reading_back(at: Setting) -> None:
    at.wire.plan(WRITE, LOSE)
    assert at.commit() == 2
    assert len(at.writes()) == 1
    assert at.bodies() == MINE


def test_f41_a_a_lost_reply_that_cant_be_read_back_is_settled_by_sending_it_again(
    at: Setting,
) -> None:
    at.wire.plan(WRITE, LOSE)
    at.wire.plan("GetItem", CUT)
    assert at.commit() == 2
    first, second = at.writes()
    assert first == second
    assert at.bodies() == MINE


def test_f41_a_a_lost_reply_that_can_never_be_read_back_is_unknown(at: Setting) -> None:
    at.wire.plan(WRITE, *[LOSE] * 5)
    at.wire.plan("GetItem", *[CUT] * 5)
    with pytest.raises(CommitUnknown, match=at.job_id):
        at.commit()
    assert at.bodies() == MINE


def test_f41_a_a_create_whose_reply_was_lost_says_that_it_created(
    client: "DynamoDBClient",
) -> None:
    for attempts in (1, 3):
        at = Setting(client, attempts=attempts)
        new = new_record("another")
        at.wire.plan(WRITE, LOSE)
        assert at.store.create(new) == Created(new.job_id, created=True)
        assert at.store.create(new) == Created(new.job_id, created=False)


def test_f41_a_a_create_that_never_arrives_is_unknown_and_may_be_repeated(at: Setting) -> None:
    new = new_record("another")
    at.wire.plan(WRITE, *[CUT] * 5)
    with pytest.raises(CommitUnknown, match=new.job_id):
        at.store.create(new)
    assert at.store.create(new) == Created(new.job_id, created=True)


def test_a_commit_that_arrives_at_the_second_try_is_there_once(at: Setting) -> None:
    at.wire.plan(WRITE, CUT)
    assert at.commit() == 2
    assert at.bodies() == MINE
    assert at.pauses == [1]


def test_a_commit_that_never_arrives_is_unknown_as_it_may_land_yet(at: Setting) -> None:
    at.wire.plan(WRITE, *[CUT] * 5)
    with pytest.raises(CommitUnknown, match=at.job_id):
        at.commit()
    assert at.bodies() == []


@pytest.mark.parametrize("code", ["InternalServerError", "TransactionInProgressException"])
def test_an_answer_that_says_neither_is_settled_by_reading_back(at: Setting, code: str) -> None:
    at.wire.plan(WRITE, refused(code, 500 if code == "InternalServerError" else 400))
    assert at.commit() == 2
    assert at.bodies() == MINE


def test_a_doubt_stays_a_doubt_whatever_is_answered_after_it(at: Setting) -> None:
    at.wire.plan(WRITE, CUT, *[cancelled("TransactionConflict")] * 4)
    with pytest.raises(CommitUnknown):
        at.commit()


def test_a_commit_that_lands_while_it_is_read_back_is_not_taken_for_anothers(
    at: Setting, client: "DynamoDBClient"
) -> None:
    reads: list[str] = []

    def land(**_: Any) -> None:
        reads.append("read")
        if len(reads) == 2:
            client.transact_write_items(**at.writes()[0])

    at.wire.client.meta.events.register("provide-client-params.dynamodb.GetItem", land)
    at.wire.plan(WRITE, CUT)
    assert at.commit() == 2
    assert len(reads) == 2
    assert at.bodies() == MINE


# --- (b) another came first --------------------------------------------------------------------


def test_f41_b_a_condition_that_failed_by_another_is_a_conflict(at: Setting) -> None:
    at.sound.commit(at.job_id, 0, [evidence("theirs")])
    with pytest.raises(RevisionConflict, match=at.job_id):
        at.commit()
    assert len(at.writes()) == 1
    assert at.bodies() == [evidence("theirs").body]


def test_f41_b_another_that_came_first_while_a_request_was_lost_is_a_conflict(
    at: Setting,
) -> None:
    at.wire.between = lambda: at.sound.commit(at.job_id, 0, [evidence("theirs")])
    at.wire.plan(WRITE, CUT)
    with pytest.raises(RevisionConflict):
        at.commit()
    assert at.bodies() == [evidence("theirs").body]


def test_f41_b_a_condition_that_failed_and_cant_be_read_back_is_unknown(at: Setting) -> None:
    at.sound.commit(at.job_id, 0, [evidence("theirs")])
    at.wire.plan("GetItem", *[CUT] * 5)
    with pytest.raises(CommitUnknown):
        at.commit()


def test_f41_b_a_create_that_met_another_digest_is_a_conflict(at: Setting) -> None:
    at.wire.between = lambda: at.sound.create(new_record("b", command="false"))
    at.wire.plan(WRITE, CUT)
    with pytest.raises(IdempotencyConflict):
        at.store.create(new_record("b"))


# --- (c) transactions that met, (d) throttling -------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        cancelled("TransactionConflict", "None"),
        cancelled("None", "TransactionConflict"),
        cancelled("None", "ProvisionedThroughputExceeded"),
        refused("ProvisionedThroughputExceededException"),
        refused("ThrottlingException"),
    ],
    ids=["c: the head", "c: an entry", "d: half-way", "d: provisioned", "d: throttled"],
)
def test_f41_c_d_it_is_sent_again_at_the_same_revision_after_a_pause(
    at: Setting, fault: dict[str, Any]
) -> None:
    at.wire.plan(WRITE, fault, fault, fault)
    assert at.commit() == 2
    assert at.pauses == [1, 2, 3]
    assert all(write == at.writes()[0] for write in at.writes())
    assert at.bodies() == MINE


@pytest.mark.parametrize(
    "fault", [cancelled("TransactionConflict"), refused("ThrottlingException")], ids=["c", "d"]
)
def test_f41_c_d_without_end_it_is_unavailable_and_nothing_was_written(
    at: Setting, fault: dict[str, Any]
) -> None:
    at.wire.plan(WRITE, *[fault] * 5)
    with pytest.raises(StoreUnavailable, match=at.job_id):
        at.commit()
    assert at.bodies() == []
    assert len(at.writes()) == 5


def test_a_conflict_answered_to_the_clients_own_retry_is_unknown_too(at: Setting) -> None:
    at.wire.plan(WRITE, *[refused("ThrottlingException", retries=2)] * 5)
    with pytest.raises(CommitUnknown):
        at.commit()


def test_a_cancel_gets_through_all_of_these(at: Setting) -> None:
    at.wire.plan(
        WRITE, CUT, cancelled("TransactionConflict"), LOSE, refused("InternalServerError", 500)
    )
    done = committed(at.store, at.job_id, cancel())
    assert done.entry == 1
    assert at.bodies() == [envelope(cancel()).body]


# --- (e) what doesn't fit, and what is refused --------------------------------------------------


def test_f41_e_an_item_near_the_limit_is_refused_before_anything_is_sent(at: Setting) -> None:
    with pytest.raises(EntryTooLarge, match=at.job_id):
        at.store.commit(at.job_id, 0, [padded(399 * 1024)])
    assert at.wire.sent == []
    committed(at.store, at.job_id, cancel())


def test_f41_e_what_the_engine_finds_too_large_is_said_to_be_too_large(at: Setting) -> None:
    said = refused("ValidationException", message="Item size has exceeded the maximum allowed size")
    at.wire.plan(WRITE, said)
    with pytest.raises(EntryTooLarge, match=at.job_id):
        at.commit()


def test_a_refusal_is_not_sent_again_and_names_its_code(at: Setting) -> None:
    at.wire.plan(WRITE, refused("AccessDeniedException"))
    with pytest.raises(StoreUnavailable, match="AccessDeniedException"):
        at.commit()
    assert len(at.writes()) == 1


# --- updates that may be repeated ---------------------------------------------------------------


def test_updates_whose_replies_were_lost_have_their_effect_once(at: Setting) -> None:
    for fault in (LOSE, CUT, refused("TransactionConflictException")):
        at.wire.plan("UpdateItem", fault)
        lease = at.store.acquire(f"alpha/{fault!s:.20}", "s1", now=NOW, ttl_s=60)
        assert lease is not None
        assert lease.fence == 1
        at.wire.plan("UpdateItem", fault)
        at.store.release(lease)
        again = at.store.acquire(lease.name, "s2", now=NOW, ttl_s=60)
        assert again is not None
        assert again.fence == 2
    at.sound.commit(at.job_id, 0, [evidence()], settled_at=NOW)
    at.wire.plan("UpdateItem", LOSE)
    at.store.tombstone(at.job_id)
    assert at.sound.list().items[0].tombstoned


def test_deletes_whose_reply_was_lost_are_sent_again(at: Setting) -> None:
    at.sound.commit(at.job_id, 0, [evidence(f"k{k}") for k in range(30)], settled_at=NOW)
    at.store.tombstone(at.job_id)
    at.wire.plan("TransactWriteItems", LOSE)
    at.store.remove(at.job_id)
    query = items.record_query(at.table, at.job_id, first=items.FIRST_ENTRY)
    kept = [item["sk"]["S"] for item in at.wire.client.query(**query)["Items"]]
    assert kept == [items.HEAD]


LEASE = Lease("alpha/0", "s1", 1, NOW)
CALLS: dict[str, Callable[[DynamoRecords], object]] = {
    "create": lambda store: store.create(new_record("b", cluster="gamma")),
    "read": lambda store: store.read("jnobody00"),
    "commit": lambda store: store.commit("jnobody00", 0, [evidence()]),
    "list": lambda store: store.list(),
    "tombstone": lambda store: store.tombstone("jnobody00"),
    "remove": lambda store: store.remove("jnobody00"),
    "open_jobs": lambda store: list(store.open_jobs("alpha")),
    "set_quiet": lambda store: store.set_quiet("jnobody00", Quiet(0, (), "d", None, "b")),
    "close": lambda store: store.close("jnobody00"),
    "acquire": lambda store: store.acquire("alpha/0", "s1", now=NOW, ttl_s=60),
    "renew": lambda store: store.renew(LEASE, now=NOW, ttl_s=60),
    "release": lambda store: store.release(LEASE),
    "put_health": lambda store: store.put_health(ClusterHealth("alpha", "s1", NOW)),
    "get_health": lambda store: store.get_health("alpha"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(
    "error",
    [
        ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "Any"),
        EndpointConnectionError(endpoint_url="http://127.0.0.1"),
    ],
    ids=["refused", "unreachable"],
)
def test_no_exception_of_the_vendor_crosses_the_stores_edge(
    call: Callable[[DynamoRecords], object], error: Exception
) -> None:
    class Down:
        def __getattr__(self, name: str) -> Any:
            def fail(**_: Any) -> Any:
                raise error

            return fail

    down: Any = Down()
    store = DynamoRecords(down, "t", token, pause=lambda _: None, tries=2)
    with pytest.raises((StoreUnavailable, CommitUnknown)) as told:
        call(store)
    assert told.value.__cause__ is error


# --- a query isn't a snapshot -------------------------------------------------------------------


class Looks:
    """A client whose queries show what is told, one look after the other; the last one stays."""

    def __init__(self, *looks: tuple[int | None, list[int]]) -> None:
        self.looks = list(looks)

    def query(self, **request: Any) -> Any:
        head, numbers = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        first = request["ExpressionAttributeValues"][":first"]["S"]
        found: list[Any] = [
            {
                **items.job_key("j1", items.entry_sk(number)),
                "revision": {"N": str(number)},
                "schema": {"S": "s"},
                "body": {"S": str(number)},
                "token": {"S": "t"},
            }
            for number in numbers
            if items.entry_sk(number) >= first
        ]
        if head is not None:
            found.append({**items.job_key("j1", items.HEAD), "revision": {"N": str(head)}})
        header = {"schema": {"S": "h"}, "body": {"S": "{}"}, "token": {"S": "t"}}
        found.append({**items.job_key("j1", items.HEADER), **header})
        return {"Items": found}

    def read(self) -> list[str]:
        client: Any = self
        store = DynamoRecords(client, "t", token, pause=lambda _: None)
        return [entry.body for entry in store.read("j1").entries]


@pytest.mark.parametrize(
    "looks",
    [
        [(2, [1, 2])],
        [(2, [1]), (2, [1, 2])],
        [(1, [1, 2]), (2, [1, 2])],
        [(2, [2]), (2, [1, 2])],
        [(0, [1]), (2, [1, 2])],
        [(2, [1]), (2, [1]), (2, [1]), (2, [1, 2])],
    ],
    ids=["agreed", "head first", "entries first", "second entry first", "half", "slowly"],
)
def test_a_commit_met_half_way_is_read_to_its_end(looks: list[Any]) -> None:
    assert Looks(*looks).read() == ["1", "2"]


def test_a_record_that_grows_with_every_look_is_read_as_far_as_it_was_when_asked() -> None:
    looks = [(k + 1, list(range(1, k + 1))) for k in range(3, 9)]
    assert Looks(*looks).read()[:4] == ["1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("looks", "missing"),
    [
        ((3, [1, 3]), 2),
        ((2, [1]), 2),
        ((1, []), 1),
        ((0, [2]), 1),
    ],
    ids=["in the middle", "at the end", "all", "ahead of the head"],
)
def test_what_stays_missing_is_a_gap(looks: tuple[int, list[int]], missing: int) -> None:
    with pytest.raises(InvalidRecord) as refusal:
        Looks(looks).read()
    assert (refusal.value.entry, refusal.value.rule) == (missing, "gap")
