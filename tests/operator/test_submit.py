"""Submit: one key is one job, and only a settled job is superseded (protocol §2)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from dispatch.errors import (
    CommitUnknown,
    EntryTooLarge,
    IdempotencyConflict,
    InvalidRequest,
    JobNotFound,
    JobTombstoned,
    NotSettled,
    RecordRefused,
)
from dispatch.operator import Operator, Submitted, job_id_of
from dispatch.record.codec import decode_header, spec_digest
from dispatch.record.header import Spec
from dispatch.record.names import UnmatchedPolicy
from dispatch.store.records import Created, NewRecord
from tests.core.histories import SPEC
from tests.operator.desk import Desk

OTHER = Spec(name="other", command=("true",))


def test_a_submit_writes_the_header_and_nothing_else() -> None:
    desk = Desk()
    wanted = replace(desk.submits(), start_retries=7, unmatched=UnmatchedPolicy.MANUAL)
    submitted = desk.operator.submit(wanted, by="ann")
    assert submitted == Submitted(job_id_of("key-1"), created=True, generation=0)
    view = desk.store.read(submitted.job_id)
    header = decode_header(view.header)
    assert view.revision == 0
    assert (header.spec, header.plan, header.declarations) == (
        wanted.spec,
        wanted.plan,
        wanted.declarations,
    )
    assert header.spec_digest == spec_digest(SPEC)
    assert (header.start_retries, header.unmatched) == (7, UnmatchedPolicy.MANUAL)
    assert (header.created_by, header.created_at) == ("ann", desk.now)
    assert (header.idempotency_key, header.lineage.supersedes) == ("key-1", None)


def test_a_job_id_comes_from_the_key_alone() -> None:
    assert job_id_of("key-1") == job_id_of("key-1")
    assert job_id_of("key-1") != job_id_of("key-2")
    desk = Desk()
    assert decode_header(desk.store.read(desk.submitted("key-9")).header).job_id == job_id_of(
        "key-9"
    )


def test_the_same_key_and_spec_is_the_same_job_f07() -> None:
    desk = Desk()
    first = desk.operator.submit(desk.submits(), by="ann")
    desk.later(25 * 3_600)
    again = desk.operator.submit(desk.submits(), by="eve")
    assert again == Submitted(first.job_id, created=False, generation=0)
    assert decode_header(desk.store.read(first.job_id).header).created_by == "ann"


def test_the_same_key_and_another_spec_is_a_conflict_f07() -> None:
    desk = Desk()
    desk.submitted()
    with pytest.raises(IdempotencyConflict):
        desk.operator.submit(desk.submits(spec=OTHER), by="ann")
    assert len(desk.store.list().items) == 1


def test_parallel_submits_of_one_key_make_one_job_f07() -> None:
    desk = Desk()
    with ThreadPoolExecutor(8) as pool:
        answers = list(
            pool.map(lambda _: desk.operator.submit(desk.submits(), by="ann"), range(32))
        )
    assert sum(answer.created for answer in answers) == 1
    assert len({answer.job_id for answer in answers}) == 1


def test_a_submit_after_the_tombstone_finds_the_key_and_makes_nothing_f07() -> None:
    desk = Desk()
    job_id = desk.settled()
    desk.operator.tombstone(job_id)
    desk.store.remove(job_id)
    assert not desk.operator.submit(desk.submits(), by="ann").created
    with pytest.raises(IdempotencyConflict):
        desk.operator.submit(desk.submits(spec=OTHER), by="ann")
    with pytest.raises(JobTombstoned):
        desk.store.read(job_id)


def test_a_submit_whose_answer_was_lost_is_sent_again_f07() -> None:
    desk = Desk()

    class Lossy:
        """Creates, and loses the answer once."""

        lost = False

        def __getattr__(self, name: str) -> Any:
            return getattr(desk.store, name)

        def create(self, new: NewRecord) -> Created:
            created = desk.store.create(new)
            if not self.lost:
                self.lost = True
                raise CommitUnknown("no answer", job=new.job_id)
            return created

    operator = Operator(Lossy(), lambda: desk.now, desk.pauses.append)
    with pytest.raises(CommitUnknown):
        operator.submit(desk.submits(), by="ann")
    assert operator.submit(desk.submits(), by="ann") == Submitted(
        job_id_of("key-1"), created=False, generation=0
    )


@pytest.mark.parametrize("key", ["", " ", "a b", "a\n", "k" * 201, "schlüssel", "a\x00", "\ta"])
def test_a_bad_key_is_refused_by_name(key: str) -> None:
    desk = Desk()
    with pytest.raises(InvalidRequest) as caught:
        desk.operator.submit(desk.submits(key), by="ann")
    assert caught.value.field == "idempotency_key"
    assert desk.store.list().items == ()


@pytest.mark.parametrize("key", ["a", "k" * 200, "2026-01-05/run#7!~"])
def test_a_good_key_is_taken_as_it_is(key: str) -> None:
    desk = Desk()
    assert decode_header(desk.store.read(desk.submitted(key)).header).idempotency_key == key


@pytest.mark.parametrize(
    ("field", "by", "retries"), [("created_by", "", 2), ("start_retries", "ann", 101)]
)
def test_what_no_header_can_say_is_refused_by_name(field: str, by: str, retries: int) -> None:
    desk = Desk()
    with pytest.raises(InvalidRequest) as caught:
        desk.operator.submit(replace(desk.submits(), start_retries=retries), by=by)
    assert caught.value.field == field


def test_a_spec_that_would_not_fit_is_refused_before_anything_is_written() -> None:
    desk = Desk()
    huge = Spec(name="huge", command=("x" * 131_072,) * 3)
    with pytest.raises(EntryTooLarge):
        desk.operator.submit(desk.submits(spec=huge), by="ann")
    assert desk.store.list().items == ()


# --- superseding ----------------------------------------------------------------------------


def test_a_settled_job_is_superseded_by_the_next_generation() -> None:
    desk = Desk()
    first = desk.settled("key-1")
    second = desk.settled("key-2", first)
    third = desk.operator.submit(desk.submits("key-3", supersedes=second), by="ann")
    assert third.generation == 2
    lineage = decode_header(desk.store.read(third.job_id).header).lineage
    assert (lineage.supersedes, lineage.generation) == (second, 2)


def test_a_job_that_is_not_settled_is_not_superseded() -> None:
    desk = Desk()
    first = desk.submitted("key-1")
    desk.wants(first, "cancel")
    with pytest.raises(NotSettled):
        desk.submitted("key-2", first)
    assert len(desk.store.list().items) == 1


def test_a_job_that_is_not_there_is_not_superseded() -> None:
    with pytest.raises(JobNotFound):
        Desk().submitted("key-2", "jabcdefgh")


def test_a_tombstoned_job_is_not_superseded() -> None:
    desk = Desk()
    first = desk.settled("key-1")
    desk.operator.tombstone(first)
    with pytest.raises(JobTombstoned):
        desk.submitted("key-2", first)


def test_a_job_whose_record_can_not_be_folded_is_not_superseded() -> None:
    desk = Desk()
    first = desk.submitted("key-1")
    desk.append_newer(first)
    with pytest.raises(RecordRefused):
        desk.submitted("key-2", first)


def test_a_job_does_not_supersede_itself() -> None:
    with pytest.raises(InvalidRequest) as caught:
        Desk().submitted("key-1", job_id_of("key-1"))
    assert caught.value.field == "supersedes"


def test_what_is_no_job_id_is_not_superseded() -> None:
    with pytest.raises(InvalidRequest) as caught:
        Desk().submitted("key-1", "no job")
    assert caught.value.field == "supersedes"


def test_a_repeat_does_not_ask_what_became_of_the_job_it_superseded_f07() -> None:
    desk = Desk()
    first = desk.settled("key-1")
    second = desk.submitted("key-2", first)
    desk.operator.tombstone(first)
    desk.store.remove(first)
    again = desk.operator.submit(desk.submits("key-2", supersedes=first), by="ann")
    assert again == Submitted(second, created=False, generation=1)


def test_a_repeat_answers_with_the_recorded_generation() -> None:
    desk = Desk()
    first = desk.settled("key-1")
    desk.submitted("key-2", first)
    plain = desk.operator.submit(desk.submits("key-2"), by="ann")
    assert (plain.created, plain.generation) == (False, 1)


def test_a_repeat_after_its_own_tombstone_makes_nothing_f07() -> None:
    desk = Desk()
    first = desk.settled("key-1")
    second = desk.settled("key-2", first)
    desk.operator.tombstone(second)
    again = desk.operator.submit(desk.submits("key-2", supersedes=first), by="ann")
    assert (again.job_id, again.created) == (second, False)


# --- tombstone ------------------------------------------------------------------------------


def test_only_a_settled_record_is_tombstoned() -> None:
    desk = Desk()
    job_id = desk.submitted()
    with pytest.raises(NotSettled):
        desk.operator.tombstone(job_id)
    with pytest.raises(JobNotFound):
        desk.operator.tombstone("jabcdefgh")
    desk.wants(job_id, "cancel")
    desk.supervise(job_id)
    desk.operator.tombstone(job_id)
    desk.operator.tombstone(job_id)
    with pytest.raises(JobTombstoned):
        desk.store.read(job_id)
