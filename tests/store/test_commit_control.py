"""What `commit_control` does with answers that say neither yes nor no."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from dispatch.errors import CommitUnknown, DispatchError, StoreUnavailable
from dispatch.record.codec import envelope
from dispatch.record.view import Envelope, View
from dispatch.store.commit import Committed, commit_control
from dispatch.store.memory import MemoryRecords
from dispatch.store.records import Records
from tests.conformance.records.samples import NOW, cancel, evidence, new_record, token

LANDED = "landed, and nobody knows"
NOT_LANDED = "not landed, and nobody knows"
UNAVAILABLE = "unavailable"
UNREADABLE = "unreadable"


class Scripted:
    """A store whose next answers are told beforehand; after them it answers as it is."""

    def __init__(self, *script: str) -> None:
        self.script = list(script)
        self.store = MemoryRecords(token)
        self.job_id = self.store.create(new_record()).job_id
        self.pauses: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def read(self, job_id: str) -> View:
        if self.script and self.script[0] == UNREADABLE:
            self.script.pop(0)
            raise StoreUnavailable("no answer", job=job_id)
        return self.store.read(job_id)

    def commit(
        self,
        job_id: str,
        revision: int,
        entries: Sequence[Envelope],
        *,
        settled_at: datetime | None = None,
    ) -> int:
        answer = self.script.pop(0) if self.script else ""
        if answer == UNAVAILABLE:
            raise StoreUnavailable("no answer", job=job_id)
        if answer == NOT_LANDED:
            raise CommitUnknown("no answer", job=job_id)
        done = self.store.commit(job_id, revision, entries, settled_at=settled_at)
        if answer == LANDED:
            raise CommitUnknown("no answer", job=job_id)
        return done

    def cancel(self, seconds: int = 100) -> Committed:
        looks = iter(range(10**6))
        records: Records = self
        return commit_control(
            records,
            self.job_id,
            cancel(),
            deadline=NOW + timedelta(seconds=seconds),
            clock=lambda: NOW + timedelta(seconds=next(looks)),
            pause=self.pauses.append,
        )

    def cancels(self) -> int:
        return [e.body for e in self.store.read(self.job_id).entries].count(envelope(cancel()).body)


def test_an_unknown_commit_that_landed_is_found_and_is_this_callers_own() -> None:
    store = Scripted(LANDED)
    done = store.cancel()
    assert (done.entry, done.repeated, done.view.revision) == (1, False, 1)
    assert store.cancels() == 1


def test_an_unknown_commit_that_did_not_land_is_made_again() -> None:
    store = Scripted(NOT_LANDED, NOT_LANDED)
    done = store.cancel()
    assert (done.entry, done.repeated, done.view.revision) == (1, False, 1)
    assert store.cancels() == 1


def test_a_store_that_comes_back_before_the_deadline_takes_the_intent() -> None:
    store = Scripted(UNREADABLE, UNAVAILABLE, UNREADABLE)
    assert store.cancel().entry == 1
    assert store.pauses == [0, 1, 2]


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ([UNAVAILABLE] * 50, StoreUnavailable),
        ([UNREADABLE] * 50, StoreUnavailable),
        ([NOT_LANDED] * 50, CommitUnknown),
        ([NOT_LANDED] + [UNREADABLE] * 50, CommitUnknown),
        ([LANDED] + [UNREADABLE] * 50, CommitUnknown),
        ([NOT_LANDED] + [UNAVAILABLE] * 50, CommitUnknown),
    ],
)
def test_the_deadline_says_unknown_exactly_if_it_may_be_there(
    script: list[str], error: type[DispatchError]
) -> None:
    store = Scripted(*script)
    with pytest.raises(error, match=store.job_id) as told:
        store.cancel(seconds=10)
    assert type(told.value) is error


def test_the_view_it_returns_is_the_record_right_after_the_intent() -> None:
    store = Scripted()
    store.store.commit(store.job_id, 0, [evidence()])
    done = store.cancel()
    assert [entry.body for entry in done.view.entries] == [
        entry.body for entry in store.store.read(store.job_id).entries
    ]
