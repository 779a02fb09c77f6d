"""One event for each decision, with an id that stays the same whenever it is published again."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from dispatch.errors import TryLater
from dispatch.event_details import DETAILS, schema_text
from dispatch.events import DETAIL_TYPES
from dispatch.record.fact import FACT_SCHEMA
from dispatch.record.names import ObjectState
from dispatch.record.view import Envelope
from tests.architecture.sources import ROOT
from tests.functions.world import Context, World, fixture


def stream(entries: Iterable[tuple[str, int]]) -> dict[str, Any]:
    records = []
    for place, (job, number) in enumerate(entries, start=1):
        record = fixture("stream-control", job=job)["Records"][0]
        record["dynamodb"]["NewImage"]["revision"]["N"] = str(number)
        record["dynamodb"]["SequenceNumber"] = str(place)
        records.append(record)
    return {"Records": records}


def every_entry(world: World, job: str) -> list[tuple[str, int]]:
    return [(job, number) for number in range(1, world.store.read(job).revision + 1)]


def published(world: World) -> list[tuple[str, str]]:
    return [(one.detail_type, one.id) for one in world.bus.put_]


def test_a_job_that_succeeds_publishes_its_outcome_and_that_it_settled(world: World) -> None:
    job = world.job()
    world.settle(job)
    assert world.events(stream(every_entry(world, job)), Context()) == {"batchItemFailures": []}
    assert published(world) == [
        ("dispatch.outcome.v1", f"{job}/outcome"),
        ("dispatch.settled.v1", f"{job}/settled"),
    ]
    detail = json.loads(world.bus.put_[0].detail)
    assert detail["version"] == 1
    assert (detail["job_id"], detail["outcome"], detail["cluster"]) == (job, "succeeded", "main")


def test_a_cancel_is_an_outcome_though_it_is_no_fact(world: World) -> None:
    job = world.job()
    world.intend(job, "cancel")
    world.events(stream([(job, 1)]), Context())
    assert published(world) == [("dispatch.outcome.v1", f"{job}/outcome")]
    assert json.loads(world.bus.put_[0].detail)["outcome"] == "cancelled"


def test_a_give_up_publishes_its_outcome_and_its_escalation(world: World) -> None:
    job = world.job()
    world.intend(job, "give_up", "enough")
    world.events(stream([(job, 1)]), Context())
    assert published(world) == [
        ("dispatch.outcome.v1", f"{job}/outcome"),
        ("dispatch.escalation.v1", f"{job}/give_up/enough"),
    ]


def test_a_recovery_hold_is_published_with_its_cause(world: World) -> None:
    world.cluster().ends = ObjectState.FAILED
    job = world.job(plan={"default": {"action": "hold"}})
    for _ in range(4):
        world.work('{"cluster":"main"}')
        world.clock.forward(2)
    world.events(stream(every_entry(world, job)), Context())
    kinds = [kind for kind, _ in published(world)]
    assert "dispatch.recovery_hold.v1" in kinds
    held = next(one for one in world.bus.put_ if one.detail_type == "dispatch.recovery_hold.v1")
    assert json.loads(held.detail)["cause"] == "app_error"


def test_a_late_or_repeated_delivery_gives_the_same_events(world: World) -> None:
    job = world.job()
    world.intend(job, "cancel")
    world.events(stream([(job, 1)]), Context())
    early = [(one.id, one.detail) for one in world.bus.put_]
    world.settle(job)
    world.bus.put_.clear()
    world.events(stream([(job, 1)]), Context())
    assert [(one.id, one.detail) for one in world.bus.put_] == early


def test_each_entry_alone_gives_what_all_together_give(world: World) -> None:
    job = world.job()
    world.settle(job)
    entries = every_entry(world, job)
    world.events(stream(entries), Context())
    together = published(world)
    world.bus.put_.clear()
    for entry in entries:
        world.events(stream([entry]), Context())
    assert published(world) == together


def test_an_entry_that_decides_nothing_publishes_nothing(world: World) -> None:
    job = world.job()
    world.intend(job, "hold")
    world.events(stream([(job, 1)]), Context())
    assert world.bus.put_ == []


def test_the_stream_goes_on_from_what_could_not_be_published(world: World) -> None:
    first, second = world.job("a"), world.job("b")
    for job in (first, second):
        world.intend(job, "cancel")
    world.bus.failure = TryLater("throttled")
    answer = world.events(stream([(first, 1), (second, 1)]), Context())
    assert answer == {"batchItemFailures": [{"itemIdentifier": "1"}]}
    world.bus.failure = None
    world.events(stream([(first, 1), (second, 1)]), Context())
    assert [id_ for _, id_ in published(world)] == [f"{first}/outcome", f"{second}/outcome"]


def test_a_record_that_cannot_be_folded_is_an_escalation_and_blocks_no_other(
    world: World,
) -> None:
    broken, well = world.job("a"), world.job("b")
    world.store.commit(broken, 0, (Envelope(FACT_SCHEMA, '{"fact":"nonsense"}', "t"),))
    world.intend(well, "cancel")
    answer = world.events(stream([(broken, 1), (well, 1)]), Context())
    assert answer == {"batchItemFailures": []}
    assert published(world) == [
        ("dispatch.escalation.v1", f"{broken}/refused/1"),
        ("dispatch.outcome.v1", f"{well}/outcome"),
    ]


def test_a_record_that_was_removed_meanwhile_is_passed_over(world: World) -> None:
    assert world.events(stream([("jaaaaaaaa", 1)]), Context()) == {"batchItemFailures": []}


@pytest.mark.parametrize("detail_type", DETAIL_TYPES)
def test_the_schema_in_the_repository_is_what_would_be_written(detail_type: str) -> None:
    kept = (ROOT / "infra/events" / f"{detail_type}.json").read_text(encoding="utf-8")
    assert kept == schema_text(detail_type), "run: python scripts/event_schemas.py"


def test_every_detail_type_has_a_schema_and_no_other_has_one() -> None:
    assert set(DETAILS) == set(DETAIL_TYPES)
    schemas = (ROOT / "infra/events").glob("*.json")
    assert {one.stem for one in schemas} == set(DETAIL_TYPES)


def test_every_detail_type_is_documented() -> None:
    page = (ROOT / "docs/reference/api.md").read_text()
    for name in DETAIL_TYPES:
        assert name in page


@pytest.mark.parametrize("name", ["job_id", "revision"])
def test_a_stream_record_that_is_no_entry_s_is_told_of_and_holds_up_nothing(
    world: World, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    job = world.job()
    world.settle(job)
    last = world.store.read(job).revision
    event = stream([("jaaaaaaaa", 1), (job, last)])
    del event["Records"][0]["dynamodb"]["NewImage"][name]
    assert world.events(event, Context()) == {"batchItemFailures": []}
    assert world.bus.put_ != []
    assert [getattr(one, "signal", None) for one in caplog.records] == ["record_refused"]
