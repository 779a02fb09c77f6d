"""The seven intents and their receipts: recorded, with what effect, what it met (protocol §3)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from dispatch.core.parts import Effect
from dispatch.errors import (
    CommitUnknown,
    EntryTooLarge,
    InvalidRequest,
    JobNotFound,
    JobTombstoned,
    RevisionConflict,
    StoreUnavailable,
)
from dispatch.operator import Operator, Receipt
from dispatch.record import fact as facts
from dispatch.record.codec import encode, envelope
from dispatch.record.names import IntentKind, ObjectState, Outcome
from dispatch.record.view import Envelope
from tests.core.histories import t
from tests.operator.desk import Desk
from tests.record.samples import sighting

KINDS = [kind.value for kind in IntentKind]


def ran(desk: Desk, state: ObjectState = ObjectState.RUNNING, **fields: Any) -> str:
    """A job whose object is in this state."""
    job_id = desk.submitted()
    header = desk.job(job_id).header
    said: dict[str, Any] = {"at": desk.now, "by": "s1"}
    shown = sighting(state, ref="o1", spec_digest=header.spec_digest, **fields)
    desk.append(
        job_id,
        [
            facts.Authorized(**said, n=1, trigger="initial", taken_at=desk.now),
            facts.Attempt(**said, n=1, a=1, deadline=desk.now + timedelta(seconds=120)),
            facts.Observed(**said, taken_at=desk.now, seen_at=desk.now, objects=(shown,)),
            facts.Canonical(**said, n=1, ref="o1"),
        ],
    )
    return job_id


@pytest.mark.parametrize("kind", KINDS)
def test_an_intent_is_recorded_and_its_receipt_says_what_it_did(kind: str) -> None:
    desk = Desk()
    job_id = ran(desk)
    before = desk.store.read(job_id).revision
    target = "o1" if kind == "abandon" else None
    receipt = desk.wants(job_id, kind, target=target)
    assert receipt.effect is (Effect.ALREADY if kind == "release" else Effect.APPLIED)
    assert (receipt.job_id, receipt.intent_id, receipt.kind) == (job_id, "i1", IntentKind(kind))
    assert (receipt.entry, receipt.repeated, receipt.refusal) == (before + 1, False, None)
    expected = {"cancel": Outcome.CANCELLED, "give_up": Outcome.FAILED}
    assert receipt.outcome is expected.get(kind)
    assert desk.store.read(job_id).revision == before + 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_repeated_intent_is_answered_alike_and_recorded_once(kind: str) -> None:
    desk = Desk()
    job_id = ran(desk)
    target = "o1" if kind == "abandon" else None
    first = desk.wants(job_id, kind, target=target)
    desk.later(60)
    again = desk.wants(job_id, kind, target=target)
    assert again == replace(first, repeated=True)
    assert desk.store.read(job_id).revision == first.entry


def test_an_id_that_stands_for_another_intent_says_which() -> None:
    desk = Desk()
    job_id = desk.submitted()
    desk.wants(job_id, "hold", "mine")
    receipt = desk.wants(job_id, "cancel", "mine")
    assert (receipt.kind, receipt.repeated, receipt.outcome) == (IntentKind.HOLD, True, None)


@pytest.mark.parametrize("kind", KINDS)
def test_after_settled_an_intent_is_recorded_without_effect(kind: str) -> None:
    desk = Desk()
    job_id = desk.settled()
    target = "1.1" if kind == "abandon" else None
    receipt = desk.wants(job_id, kind, "late", target=target)
    assert (receipt.effect, receipt.note) == (Effect.NO_EFFECT, "the job is settled")
    assert receipt.outcome is Outcome.CANCELLED
    assert desk.job(job_id).settled_at is not None


def test_a_receipt_keeps_the_outcome_that_the_intent_met() -> None:
    """It held a job that was cancelled later; a repeat says what it met then."""
    desk = Desk()
    job_id = desk.submitted()
    desk.wants(job_id, "hold", "h")
    desk.wants(job_id, "cancel", "c")
    assert desk.wants(job_id, "hold", "h").outcome is None
    assert desk.wants(job_id, "hold", "h2").outcome is Outcome.CANCELLED


# --- F37, F40: cancel -----------------------------------------------------------------------


def test_a_cancel_is_an_outcome_at_once_whatever_is_in_flight_f37() -> None:
    desk = Desk()
    job_id = desk.submitted()
    said: dict[str, Any] = {"at": desk.now, "by": "s1"}
    desk.append(
        job_id,
        [
            facts.Authorized(**said, n=1, trigger="initial", taken_at=desk.now),
            facts.Attempt(**said, n=1, a=1, deadline=t(120)),
        ],
    )
    receipt = desk.wants(job_id, "cancel")
    assert (receipt.effect, receipt.outcome) == (Effect.APPLIED, Outcome.CANCELLED)
    desk.supervise(job_id)
    assert desk.job(job_id).settled_at is None
    desk.later(125)
    desk.supervise(job_id)
    assert desk.job(job_id).settled_at is not None


def test_a_cancel_before_anything_was_started_ends_and_settles_f37() -> None:
    desk = Desk()
    assert desk.settled()


def success(desk: Desk) -> facts.OutcomeFact:
    return facts.OutcomeFact(at=desk.now, by="s1", state=Outcome.SUCCEEDED)


def test_a_success_that_was_first_wins_and_the_cancels_receipt_says_so_f40() -> None:
    desk = Desk()
    job_id = ran(desk, ObjectState.SUCCEEDED)
    desk.append(job_id, [success(desk)])
    receipt = desk.wants(job_id, "cancel")
    assert (receipt.effect, receipt.outcome) == (Effect.NO_EFFECT, Outcome.SUCCEEDED)
    assert receipt.note == "the outcome is succeeded already"


def test_a_cancel_that_was_first_wins_and_the_evidence_of_success_is_kept_f40() -> None:
    desk = Desk()
    job_id = ran(desk)
    revision = desk.store.read(job_id).revision
    desk.wants(job_id, "cancel")
    with pytest.raises(RevisionConflict):
        desk.store.commit(job_id, revision, [envelope(success(desk))])
    header = desk.job(job_id).header
    shown = sighting(ObjectState.SUCCEEDED, ref="o1", spec_digest=header.spec_digest)
    later = desk.now + timedelta(seconds=9)
    desk.append(
        job_id,
        [facts.Observed(at=later, by="s1", taken_at=later, seen_at=later, objects=(shown,))],
    )
    job = desk.job(job_id)
    assert job.ending is not None
    assert job.ending.state is Outcome.CANCELLED
    assert job.objects["o1"].run.state is ObjectState.SUCCEEDED


def test_either_of_a_cancel_and_a_success_at_one_revision_wins_whole_f40() -> None:
    for _ in range(20):
        desk = Desk()
        job_id = ran(desk, ObjectState.SUCCEEDED)
        revision = desk.store.read(job_id).revision

        def succeed(desk: Desk = desk, job_id: str = job_id, revision: int = revision) -> bool:
            try:
                desk.store.commit(job_id, revision, [envelope(success(desk))])
            except RevisionConflict:
                return False
            return True

        with ThreadPoolExecutor(2) as pool:
            won = pool.submit(succeed)
            receipt = pool.submit(desk.wants, job_id, "cancel").result()
        expected = Outcome.SUCCEEDED if won.result() else Outcome.CANCELLED
        assert receipt.outcome is expected
        ending = desk.job(job_id).ending
        assert ending is not None
        assert ending.state is expected


# --- F42: a record that can't be folded -----------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_an_intent_is_recorded_in_a_record_this_build_can_not_fold_f42(kind: str) -> None:
    desk = Desk()
    job_id = desk.submitted()
    desk.append_newer(job_id)
    receipt = desk.wants(job_id, kind, target="1.1" if kind == "abandon" else None)
    assert (receipt.entry, receipt.effect, receipt.outcome) == (2, None, None)
    assert receipt.note == "recorded; its effect can't be told by this build"
    assert receipt.refusal is not None
    assert "entry 1" in receipt.refusal
    assert desk.store.read(job_id).revision == 2


def test_a_repeat_in_a_record_this_build_can_not_fold_is_recorded_once_f42() -> None:
    desk = Desk()
    job_id = desk.submitted()
    desk.append_newer(job_id)
    first = desk.wants(job_id, "cancel")
    desk.append_newer(job_id)
    again = desk.wants(job_id, "cancel")
    assert again == replace(first, repeated=True)
    assert desk.store.read(job_id).revision == 3


def test_an_intent_is_recorded_beside_a_history_that_is_invalid_f42() -> None:
    desk = Desk()
    job_id = desk.submitted()
    desk.append(job_id, [facts.Released(at=desk.now, by="s1", ref="nothing")])
    receipt = desk.wants(job_id, "cancel")
    assert receipt.effect is None
    assert receipt.refusal is not None


def test_an_unreadable_control_entry_does_not_pass_for_this_intent() -> None:
    desk = Desk()
    job_id = desk.submitted()
    desk.store.commit(job_id, 0, [Envelope("dispatch.control.v1", '{"id":"i1","kind":"novel"}')])
    assert desk.wants(job_id, "cancel").entry == 2


# --- a busy store ---------------------------------------------------------------------------


class Busy:
    """A store into which somebody else writes evidence before every commit, a while."""

    def __init__(self, desk: Desk, job_id: str, writes: int) -> None:
        self.desk, self.job_id, self.left = desk, job_id, writes

    def __getattr__(self, name: str) -> Any:
        return getattr(self.desk.store, name)

    def commit(self, job_id: str, revision: int, entries: Any, **labels: Any) -> int:
        if self.left > 0:
            self.left -= 1
            self.desk.append(
                job_id,
                [facts.Escalated(at=t(0), by="s1", key=f"k{self.left}", code="c", detail="")],
            )
        return self.desk.store.commit(job_id, revision, entries, **labels)


def busy(desk: Desk, job_id: str, writes: int) -> Operator:
    store: Any = Busy(desk, job_id, writes)
    return Operator(store, lambda: desk.now, desk._pause)


def cancel(operator: Operator, job_id: str) -> Receipt:
    return operator.intend(job_id, IntentKind.CANCEL, intent_id="c", by="bob")


def test_a_stream_of_evidence_does_not_keep_a_cancel_out() -> None:
    desk = Desk()
    job_id = desk.submitted()
    receipt = cancel(busy(desk, job_id, 8), job_id)
    assert (receipt.outcome, receipt.entry) == (Outcome.CANCELLED, 9)
    assert desk.pauses == list(range(8))


def test_an_intent_that_finds_no_gap_before_its_deadline_was_not_written() -> None:
    desk = Desk()
    job_id = desk.submitted()
    with pytest.raises(StoreUnavailable):
        cancel(busy(desk, job_id, 1_000), job_id)
    assert desk.job(job_id).ending is None


def test_an_answer_that_is_lost_is_found_again_and_counts_once() -> None:
    desk = Desk()
    job_id = desk.submitted()

    class Lossy:
        lost = False

        def __getattr__(self, name: str) -> Any:
            return getattr(desk.store, name)

        def commit(self, *args: Any, **labels: Any) -> int:
            revision = desk.store.commit(*args, **labels)
            if not self.lost:
                self.lost = True
                raise CommitUnknown("no answer")
            return revision

    store: Any = Lossy()
    receipt = cancel(Operator(store, lambda: desk.now, desk._pause), job_id)
    assert (receipt.effect, receipt.entry, receipt.repeated) == (Effect.APPLIED, 1, False)
    assert desk.store.read(job_id).revision == 1


# --- what is refused before it is written ---------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"intent_id": ""}, "id"),
        ({"intent_id": "a b"}, "id"),
        ({"intent_id": "x" * 129}, "id"),
        ({"by": ""}, "by"),
        ({"reason": "x" * 4_097}, "reason"),
        ({"target": "1.1"}, "target"),
        ({"kind": IntentKind.ABANDON}, "target"),
        ({"kind": IntentKind.ABANDON, "target": ""}, "target"),
    ],
)
def test_a_malformed_intent_is_refused_by_its_field(changes: dict[str, Any], field: str) -> None:
    desk = Desk()
    job_id = desk.submitted()
    intent: dict[str, Any] = {"kind": IntentKind.CANCEL, "intent_id": "i", "by": "bob", **changes}
    kind = intent.pop("kind")
    with pytest.raises(InvalidRequest) as caught:
        desk.operator.intend(job_id, kind, **intent)
    assert (caught.value.field, caught.value.job) == (field, job_id)
    assert desk.store.read(job_id).revision == 0


def test_an_intent_on_no_job_or_a_tombstoned_one_is_refused() -> None:
    desk = Desk()
    with pytest.raises(JobNotFound):
        desk.wants("jabcdefgh", "cancel")
    job_id = desk.settled()
    desk.operator.tombstone(job_id)
    with pytest.raises(JobTombstoned):
        desk.wants(job_id, "cancel", "again")


def test_there_is_room_for_the_largest_intent_that_may_be_written() -> None:
    desk = Desk()
    job_id = desk.submitted()
    receipt = desk.operator.intend(
        job_id, IntentKind.CANCEL, intent_id="x" * 128, by="b" * 256, reason="𝄞" * 4_096
    )
    assert receipt.effect is Effect.APPLIED
    entry = desk.store.read(job_id).entries[0]
    assert len(entry.body.encode()) > 16_000
    assert EntryTooLarge.code == "entry_too_large"


def test_who_and_when_come_from_the_operator_never_from_the_client() -> None:
    desk = Desk()
    job_id = desk.submitted()
    desk.later(7)
    desk.wants(job_id, "hold")
    hold = desk.job(job_id).user_hold
    assert hold is not None
    assert (hold.by, hold.at) == ("bob", t(7))
    assert '"at":"2026-01-05T12:00:07.000000Z"' in desk.store.read(job_id).entries[0].body
    assert encode(desk.job(job_id).header)
