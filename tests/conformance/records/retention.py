"""The promises of `Retention`, each a test of its name."""

from datetime import timedelta

import pytest

from dispatch.errors import (
    JobNotFound,
    JobTombstoned,
    NotSettled,
    RevisionConflict,
)
from dispatch.store.records import Store
from tests.conformance.records.contract import bodies, created, settled
from tests.conformance.records.harness import Harness
from tests.conformance.records.samples import NOW, evidence, new_record, succeeded

SECOND = timedelta(seconds=1)


def closed(store: Store, name: str, *, late_s: int = 0) -> str:
    """A record that was settled so much later than the others, and closed."""
    new = new_record(name)
    store.create(new)
    at = NOW + timedelta(seconds=late_s)
    store.commit(new.job_id, 0, [succeeded()], settled_at=at)
    store.close(new.job_id)
    return new.job_id


class RetentionContract(Harness):
    """What is due for an archive, and what for removal."""

    def test_archivable_is_what_was_settled_by_then_and_is_closed(self, store: Store) -> None:
        early, same = closed(store, "early"), closed(store, "same", late_s=10)
        closed(store, "late", late_s=11)
        created(store, "open")
        settled(store, "settled but covered yet")
        self.catch_up(store)
        assert set(store.archivable(NOW + 10 * SECOND)) == {early, same}
        assert list(store.archivable(NOW - SECOND)) == []

    def test_each_of_many_is_archivable_once(self, store: Store) -> None:
        jobs = [closed(store, f"n{number}", late_s=number) for number in range(40)]
        self.catch_up(store)
        assert sorted(store.archivable(NOW + 100 * SECOND)) == sorted(jobs)

    def test_a_tombstoned_record_is_archivable_no_more_even_if_it_is_closed_again(
        self, store: Store
    ) -> None:
        job_id = closed(store, "a")
        store.tombstone(job_id)
        store.close(job_id)
        self.catch_up(store)
        assert list(store.archivable(NOW)) == []
        assert list(store.removable()) == [job_id]

    def test_removable_is_what_is_tombstoned_until_it_is_removed(self, store: Store) -> None:
        marked, gone = settled(store, "marked"), settled(store, "gone")
        settled(store, "kept")
        for job_id in (marked, gone):
            store.tombstone(job_id)
        self.catch_up(store)
        assert set(store.removable()) == {marked, gone}
        store.remove(gone)
        self.catch_up(store)
        assert list(store.removable()) == [marked]

    def test_what_is_tombstoned_again_is_removable_again(self, store: Store) -> None:
        job_id = settled(store)
        store.tombstone(job_id)
        store.remove(job_id)
        store.tombstone(job_id)
        self.catch_up(store)
        assert list(store.removable()) == [job_id]
        store.remove(job_id)
        self.catch_up(store)
        assert list(store.removable()) == []

    def test_a_tombstoned_record_can_be_read_whole_until_it_is_removed(self, store: Store) -> None:
        job_id = settled(store)
        store.commit(job_id, 1, [evidence(f"k{number}") for number in range(5)])
        before = store.read(job_id)
        store.tombstone(job_id)
        with pytest.raises(JobTombstoned):
            store.read(job_id)
        left = store.read_tombstoned(job_id)
        assert left is not None
        assert (left.header, left.entries) == (before.header, before.entries)
        store.remove(job_id)
        assert store.read_tombstoned(job_id) is None

    def test_a_tombstoned_record_of_which_a_part_is_gone_is_not_read_as_whole(
        self, store: Store
    ) -> None:
        job_id = settled(store)
        store.commit(job_id, 1, [evidence("a"), evidence("b")])
        store.tombstone(job_id)
        self.lose_entry(store, job_id, 2)
        assert store.read_tombstoned(job_id) is None

    def test_read_tombstoned_is_for_tombstoned_records_alone(self, store: Store) -> None:
        with pytest.raises(NotSettled):
            store.read_tombstoned(settled(store))
        with pytest.raises(JobNotFound):
            store.read_tombstoned("jnobody00")

    def test_a_mark_for_one_revision_is_not_set_at_another(self, store: Store) -> None:
        job_id = closed(store, "a")
        read = store.read(job_id).revision
        store.commit(job_id, read, [evidence("came between")])
        with pytest.raises(RevisionConflict):
            store.tombstone(job_id, revision=read)
        assert len(bodies(store, job_id)) == read + 1
        store.tombstone(job_id, revision=read + 1)
        store.tombstone(job_id, revision=read + 1)
        with pytest.raises(JobTombstoned):
            store.read(job_id)

    def test_a_mark_for_a_revision_needs_a_settled_record_too(self, store: Store) -> None:
        job_id = created(store)
        with pytest.raises(NotSettled):
            store.tombstone(job_id, revision=0)
        with pytest.raises(JobNotFound):
            store.tombstone("jnobody00", revision=0)
