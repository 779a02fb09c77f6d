"""The promises of `Records`, each a test of its name.

To put them to a store, see `harness`.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from dispatch.errors import (
    EntryTooLarge,
    IdempotencyConflict,
    InvalidRecord,
    InvalidRequest,
    JobNotFound,
    JobTombstoned,
    NotSettled,
    RevisionConflict,
    StoreUnavailable,
)
from dispatch.record.codec import envelope
from dispatch.record.control import Control
from dispatch.record.names import IntentKind
from dispatch.record.view import Envelope
from dispatch.store.commit import Committed, commit_control
from dispatch.store.records import (
    MAX_COMMIT_BYTES,
    MAX_ENTRIES_PER_COMMIT,
    MAX_ENTRY_BYTES,
    Created,
    Listed,
    Records,
    Store,
)
from tests.conformance.records.harness import Harness
from tests.conformance.records.race import WRITERS, Opener, meet, persist, race
from tests.conformance.records.samples import (
    NOW,
    cancel,
    evidence,
    new_record,
    padded,
    succeeded,
)


def created(store: Records, name: str = "a", **options: Any) -> str:
    return store.create(new_record(name, **options)).job_id


def settled(store: Records, name: str = "a", **options: Any) -> str:
    job_id = created(store, name, **options)
    store.commit(job_id, 0, (evidence(),), settled_at=NOW)
    return job_id


def bodies(store: Records, job_id: str) -> list[str]:
    return [entry.body for entry in store.read(job_id).entries]


def pages(store: Records, **options: Any) -> list[tuple[Listed, ...]]:
    found = []
    cursor = None
    while True:
        page = store.list(cursor=cursor, **options)
        found.append(page.items)
        cursor = page.cursor
        if cursor is None:
            return found


def listed(store: Records, **options: Any) -> list[str]:
    return [line.job_id for page in pages(store, **options) for line in page]


def committed(store: Records, job_id: str, control: Control, tries: int = 1000) -> Committed:
    """Commit an intent with a clock that moves a second a look, and a deadline so many ahead."""
    looks = iter(range(10**6))

    def clock() -> datetime:
        return NOW + timedelta(seconds=next(looks))

    return commit_control(
        store,
        job_id,
        control,
        deadline=NOW + timedelta(seconds=tries),
        clock=clock,
        pause=lambda _: None,
    )


class Overtaken:
    """A store in which somebody else commits evidence right before each of the next commits."""

    def __init__(self, store: Store, times: int) -> None:
        self._store = store
        self.left = times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(
        self,
        job_id: str,
        revision: int,
        entries: Sequence[Envelope],
        *,
        settled_at: datetime | None = None,
    ) -> int:
        if self.left:
            self.left -= 1
            self._store.commit(job_id, revision, (evidence(f"overtakes.{self.left}"),))
        return self._store.commit(job_id, revision, entries, settled_at=settled_at)


class RecordsContract(Harness):
    """Create, read, commit, list, tombstone, remove, and how control intents are committed."""

    # --- create -------------------------------------------------------------------------------

    def test_create_makes_the_record_and_its_key_in_one_step(self, store: Store) -> None:
        new = new_record()
        assert store.create(new) == Created(new.job_id, created=True)
        view = store.read(new.job_id)
        assert (view.header.schema, view.header.body) == (new.header.schema, new.header.body)
        assert (view.revision, view.settled_at, view.tombstoned) == (0, None, False)
        assert store.create(new) == Created(new.job_id, created=False)

    def test_f07_the_same_key_with_the_same_digest_returns_the_existing_job(
        self, store: Store
    ) -> None:
        new = new_record()
        store.create(new)
        later = replace(new, created_at=NOW + timedelta(hours=25))
        assert store.create(later) == Created(new.job_id, created=False)
        assert listed(store) == [new.job_id]

    def test_f07_it_is_returned_even_once_it_is_tombstoned_and_removed(self, store: Store) -> None:
        new = new_record()
        settled(store)
        store.tombstone(new.job_id)
        assert store.create(new) == Created(new.job_id, created=False)
        store.remove(new.job_id)
        assert store.create(new) == Created(new.job_id, created=False)
        with pytest.raises(JobTombstoned):
            store.read(new.job_id)

    def test_f07_the_same_key_with_another_digest_conflicts_and_changes_nothing(
        self, store: Store
    ) -> None:
        new = new_record()
        store.create(new)
        with pytest.raises(IdempotencyConflict) as refused:
            store.create(new_record(command="false"))
        assert refused.value.job == new.job_id
        assert store.read(new.job_id).header.body == new.header.body
        assert len(listed(store)) == 1

    def test_a_job_id_that_stands_for_another_key_conflicts_and_leaves_that_key_free(
        self, store: Store
    ) -> None:
        new, other = new_record(), new_record("other")
        store.create(new)
        with pytest.raises(IdempotencyConflict):
            store.create(replace(other, job_id=new.job_id))
        assert store.create(other) == Created(other.job_id, created=True)

    def test_f07_of_many_creates_of_one_key_at_once_one_makes_the_record(
        self, store: Store
    ) -> None:
        new = new_record()
        with ThreadPoolExecutor(WRITERS) as pool:
            answers = list(pool.map(lambda _: store.create(new), range(WRITERS)))
        assert sorted(answer.created for answer in answers) == [False] * (WRITERS - 1) + [True]
        assert {answer.job_id for answer in answers} == {new.job_id}
        self.catch_up(store)
        assert listed(store) == [new.job_id]

    def test_a_header_that_would_not_fit_is_refused_before_anything_is_written(
        self, store: Store
    ) -> None:
        new = new_record()
        with pytest.raises(EntryTooLarge):
            store.create(replace(new, header=padded(MAX_ENTRY_BYTES + 1)))
        with pytest.raises(JobNotFound):
            store.read(new.job_id)
        assert store.create(new).created

    def test_the_largest_header_that_is_allowed_fits(self, store: Store) -> None:
        new = replace(new_record(), header=padded(MAX_ENTRY_BYTES))
        store.create(new)
        assert store.read(new.job_id).header.body == new.header.body

    # --- read ---------------------------------------------------------------------------------

    def test_read_returns_every_commit_that_was_acknowledged_before(self, store: Store) -> None:
        job_id = created(store)
        for revision in range(12):
            assert store.commit(job_id, revision, (evidence(f"k{revision}"),)) == revision + 1
            view = store.read(job_id)
            assert view.revision == revision + 1
            assert view.entries[-1].body == evidence(f"k{revision}").body

    def test_read_of_a_long_record_has_all_of_it_in_order(self, store: Store) -> None:
        job_id = created(store)
        for start in range(0, 150, MAX_ENTRIES_PER_COMMIT):
            numbers = range(start, start + MAX_ENTRIES_PER_COMMIT)
            store.commit(job_id, start, [evidence(f"k{number}") for number in numbers])
        assert bodies(store, job_id) == [evidence(f"k{number}").body for number in range(150)]

    def test_read_gives_every_body_back_as_it_was_written(self, store: Store) -> None:
        job_id = created(store)
        text = 'Zoë → 東京 \U0001f680 \\u0000 "quoted" \u2028 \x7f'
        stored = envelope(cancel(reason=text))
        store.commit(job_id, 0, (stored,))
        (entry,) = store.read(job_id).entries
        assert (entry.schema, entry.body) == (stored.schema, stored.body)

    def test_read_of_no_record_is_not_found(self, store: Store) -> None:
        with pytest.raises(JobNotFound, match="jnobody00"):
            store.read("jnobody00")

    def test_read_of_a_tombstoned_record_says_so(self, store: Store) -> None:
        job_id = settled(store)
        store.tombstone(job_id)
        with pytest.raises(JobTombstoned, match=job_id):
            store.read(job_id)

    @pytest.mark.parametrize("lost", [1, 3, 5])
    def test_a_gap_is_refused_and_never_read_as_a_shorter_history(
        self, store: Store, lost: int
    ) -> None:
        job_id = created(store)
        store.commit(job_id, 0, [evidence(f"k{number}") for number in range(3)])
        store.commit(job_id, 3, [evidence(f"k{number}") for number in range(3, 5)])
        self.lose_entry(store, job_id, lost)
        with pytest.raises(InvalidRecord) as refused:
            store.read(job_id)
        assert (refused.value.job, refused.value.rule) == (job_id, "gap")

    # --- commit -------------------------------------------------------------------------------

    def test_commit_appends_all_entries_in_order_and_returns_the_new_revision(
        self, store: Store
    ) -> None:
        job_id = created(store)
        assert store.commit(job_id, 0, [evidence("a"), evidence("b"), evidence("c")]) == 3
        assert store.commit(job_id, 3, [evidence("d")]) == 4
        assert bodies(store, job_id) == [evidence(key).body for key in "abcd"]

    def test_all_entries_of_a_commit_carry_one_token_unique_to_it(self, store: Store) -> None:
        job_id = created(store)
        store.commit(job_id, 0, [evidence("a"), evidence("b")])
        store.commit(job_id, 2, [evidence("c")])
        first, second, third = (entry.token for entry in store.read(job_id).entries)
        assert first == second
        assert first != third
        assert first

    @pytest.mark.parametrize("revision", [0, 1, 3, 99])
    def test_f43_commit_at_any_other_revision_appends_nothing(
        self, store: Store, revision: int
    ) -> None:
        job_id = created(store)
        store.commit(job_id, 0, [evidence("a"), evidence("b")])
        with pytest.raises(RevisionConflict, match=job_id):
            store.commit(job_id, revision, [evidence("late"), evidence("later")], settled_at=NOW)
        assert bodies(store, job_id) == [evidence("a").body, evidence("b").body]
        assert store.read(job_id).settled_at is None

    def test_f40_of_a_cancel_and_a_success_at_one_revision_exactly_one_is_there(
        self, store: Store
    ) -> None:
        job_id = created(store)
        store.commit(job_id, 0, [succeeded()])
        with pytest.raises(RevisionConflict):
            store.commit(job_id, 0, [envelope(cancel())])
        assert committed(store, job_id, cancel()).entry == 2
        assert bodies(store, job_id) == [succeeded().body, envelope(cancel()).body]

    def test_of_any_number_of_writers_at_one_revision_exactly_one_succeeds(
        self, opened: Opener, store: Store
    ) -> None:
        job_id = created(store)
        tried = race(opened, self.processes, meet, job_id, 5)
        assert {one.outcome for one in tried} == {"won", "conflict"}
        won = {one.revision: one.body for one in tried if one.outcome == "won"}
        assert sum(one.outcome == "won" for one in tried) == len(won) == 5
        assert bodies(store, job_id) == [won[revision] for revision in range(1, 6)]

    def test_of_many_writers_that_persist_nothing_is_lost_and_nothing_is_doubled(
        self, opened: Opener, store: Store
    ) -> None:
        job_id = created(store)
        tried = race(opened, self.processes, persist, job_id, self.persisted)
        kept = bodies(store, job_id)
        assert len(tried) == len(kept) == WRITERS * self.persisted
        assert {one.revision: one.body for one in tried} == dict(enumerate(kept, start=1))

    def test_commit_to_no_record_is_not_found(self, store: Store) -> None:
        with pytest.raises(JobNotFound):
            store.commit("jnobody00", 0, [evidence()])

    @pytest.mark.parametrize("revision", [1, 0])
    def test_commit_to_a_tombstoned_record_says_so_whatever_the_revision(
        self, store: Store, revision: int
    ) -> None:
        job_id = settled(store)
        store.tombstone(job_id)
        with pytest.raises(JobTombstoned):
            store.commit(job_id, revision, [evidence()])

    def test_a_commit_without_entries_is_an_error_of_the_caller(self, store: Store) -> None:
        job_id = created(store)
        with pytest.raises(ValueError, match=job_id):
            store.commit(job_id, 0, [])

    @pytest.mark.parametrize(
        "entries",
        [
            [evidence(), padded(MAX_ENTRY_BYTES + 1)],
            [padded(MAX_ENTRY_BYTES)] * (MAX_COMMIT_BYTES // MAX_ENTRY_BYTES + 1),
            [evidence()] * (MAX_ENTRIES_PER_COMMIT + 1),
        ],
        ids=["one entry", "all together", "too many"],
    )
    def test_f41_what_would_not_fit_is_refused_and_nothing_of_it_is_written(
        self, store: Store, entries: list[Envelope]
    ) -> None:
        job_id = created(store)
        with pytest.raises(EntryTooLarge, match=job_id):
            store.commit(job_id, 0, entries)
        assert store.read(job_id).revision == 0

    def test_f41_whatever_was_committed_before_there_is_room_for_the_largest_cancel(
        self, store: Store
    ) -> None:
        job_id = created(store)
        largest = [padded(MAX_ENTRY_BYTES)] * (MAX_COMMIT_BYTES // MAX_ENTRY_BYTES)
        store.commit(job_id, 0, largest)
        greatest = Control(
            kind=IntentKind.ABANDON,
            id="i" * 128,
            by="\U0001f680" * 256,
            at=NOW,
            reason="\x01" * 4096,
            target="\U0001f680" * 512,
        )
        assert committed(store, job_id, greatest).entry == len(largest) + 1
        assert bodies(store, job_id)[-1] == envelope(greatest).body
        assert bodies(store, job_id)[:-1] == [entry.body for entry in largest]

    def test_the_settled_labels_are_set_with_the_same_write_and_later_commits_keep_them(
        self, store: Store
    ) -> None:
        job_id = created(store)
        at = NOW + timedelta(microseconds=1)
        store.commit(job_id, 0, [evidence("a")], settled_at=at)
        assert store.read(job_id).settled_at == at
        store.commit(job_id, 1, [evidence("b")])
        assert store.read(job_id).settled_at == at

    # --- list ---------------------------------------------------------------------------------

    def test_list_says_what_the_record_says(self, store: Store) -> None:
        job_id = settled(store, minutes=3)
        self.catch_up(store)
        line = Listed(job_id, "alpha", NOW + timedelta(minutes=3), 1, NOW, tombstoned=False)
        assert store.list().items == (line,)
        store.tombstone(job_id)
        self.catch_up(store)
        assert store.list().items == (replace(line, tombstoned=True),)
        store.remove(job_id)
        self.catch_up(store)
        assert store.list().items == (replace(line, tombstoned=True),)

    def test_list_is_in_the_order_of_creation_then_of_ids(self, store: Store) -> None:
        for number in (3, 1, 2, 0):
            for name in "xyz":
                created(store, f"{name}{number}", minutes=number, cluster=f"c-{name}")
        self.catch_up(store)
        lines = [line for page in pages(store, limit=5) for line in page]
        places = [(line.created_at, line.job_id) for line in lines]
        assert len(places) == 12
        assert places == sorted(places)

    @pytest.mark.parametrize("done", [True, False, None])
    def test_list_newest_first_is_the_same_listing_turned_round(
        self, store: Store, done: bool | None
    ) -> None:
        for number in range(7):
            make = settled if number % 2 else created
            make(store, f"n{number}", minutes=number // 2, cluster=f"c{number % 3}")
        self.catch_up(store)
        asked: dict[str, Any] = {"settled": done, "limit": 2}
        forwards = listed(store, **asked)
        assert len(forwards) == {True: 3, False: 4, None: 7}[done]
        assert listed(store, newest_first=True, **asked) == forwards[::-1]

    def test_a_record_that_is_created_during_a_listing_newest_first_moves_no_other(
        self, store: Store
    ) -> None:
        jobs = [created(store, f"n{number}", minutes=number) for number in range(4)]
        self.catch_up(store)
        first = store.list(limit=2, newest_first=True)
        created(store, "late", minutes=100)
        self.catch_up(store)
        rest = store.list(limit=10, cursor=first.cursor, newest_first=True)
        assert [line.job_id for line in (*first.items, *rest.items)] == jobs[::-1]

    def test_list_by_the_settled_label_and_by_cluster(self, store: Store) -> None:
        names = {
            (cluster, done): {
                (settled if done else created)(store, f"{cluster}{done}{k}", cluster=cluster)
                for k in range(2)
            }
            for cluster in ("alpha", "beta")
            for done in (True, False)
        }
        self.catch_up(store)
        for done in (True, False, None):
            for cluster in ("alpha", "beta", None):
                wanted = set().union(
                    *(
                        jobs
                        for (its_cluster, is_done), jobs in names.items()
                        if done in (None, is_done) and cluster in (None, its_cluster)
                    )
                )
                found = listed(store, settled=done, cluster=cluster, limit=3)
                assert len(found) == len(wanted)
                assert set(found) == wanted
        assert listed(store, cluster="gamma") == []

    @pytest.mark.parametrize("limit", [1, 2, 3, 7, 8])
    def test_every_page_but_the_last_is_full_and_no_cursor_follows_the_last(
        self, store: Store, limit: int
    ) -> None:
        for number in range(7):
            created(store, f"n{number}", minutes=number)
        self.catch_up(store)
        sizes = [len(page) for page in pages(store, limit=limit)]
        assert sum(sizes) == 7
        assert all(size == limit for size in sizes[:-1])
        assert sizes[-1]

    @pytest.mark.parametrize("done", [True, False, None])
    def test_a_record_that_exists_throughout_the_listing_stands_on_exactly_one_page(
        self, store: Store, done: bool | None
    ) -> None:
        make = settled if done else created
        throughout = {make(store, f"n{number}", minutes=2 * number) for number in range(8)}
        found: list[Listed] = []
        cursor = None
        for step in range(100):
            self.catch_up(store)
            page = store.list(settled=done, limit=3, cursor=cursor)
            found += page.items
            cursor = page.cursor
            if cursor is None:
                break
            make(store, f"behind{step}", minutes=2 * step + 1)
            make(store, f"ahead{step}", minutes=100 + step)
        ids = [line.job_id for line in found]
        assert throughout <= set(ids)
        assert len(set(ids)) == len(ids)
        assert all((a.created_at, a.job_id) < (b.created_at, b.job_id) for a, b in pairwise(found))

    def test_a_record_that_is_settled_during_a_listing_of_both_stands_on_one_page(
        self, store: Store
    ) -> None:
        jobs = [created(store, f"n{number}", minutes=number) for number in range(6)]
        self.catch_up(store)
        first = store.list(limit=2)
        for job_id in jobs[1:4]:
            store.commit(job_id, 0, [evidence()], settled_at=NOW)
            store.close(job_id)
        self.catch_up(store)
        rest = listed_after(store, first.cursor)
        assert [line.job_id for line in first.items] + rest == jobs

    @pytest.mark.parametrize(
        "cursor", ["", "x", "bm90IG91cnM", "é", "MjAyNi0wMy0wMVQxMjowMDowMFo="]
    )
    def test_a_cursor_that_is_no_stores_is_refused(self, store: Store, cursor: str) -> None:
        with pytest.raises(InvalidRequest) as refused:
            store.list(cursor=cursor)
        assert refused.value.field == "cursor"

    @pytest.mark.parametrize("limit", [-1, 0, 1001])
    def test_a_limit_out_of_range_is_refused(self, store: Store, limit: int) -> None:
        with pytest.raises(InvalidRequest) as refused:
            store.list(limit=limit)
        assert refused.value.field == "limit"

    # --- tombstone and remove -----------------------------------------------------------------

    def test_only_a_settled_record_can_be_tombstoned(self, store: Store) -> None:
        job_id = created(store)
        store.commit(job_id, 0, [evidence()])
        with pytest.raises(NotSettled, match=job_id):
            store.tombstone(job_id)
        assert store.read(job_id).revision == 1

    def test_tombstone_of_no_record_is_not_found(self, store: Store) -> None:
        with pytest.raises(JobNotFound):
            store.tombstone("jnobody00")

    def test_only_a_tombstoned_record_can_be_removed(self, store: Store) -> None:
        job_id = settled(store)
        with pytest.raises(NotSettled, match=job_id):
            store.remove(job_id)
        assert store.read(job_id).revision == 1
        with pytest.raises(JobNotFound):
            store.remove("jnobody00")

    def test_tombstone_and_remove_can_be_repeated_and_keep_key_and_mark(self, store: Store) -> None:
        job_id = settled(store)
        for _ in range(2):
            store.tombstone(job_id)
        for _ in range(2):
            store.remove(job_id)
        store.tombstone(job_id)
        with pytest.raises(JobTombstoned):
            store.commit(job_id, 1, [evidence()])
        with pytest.raises(IdempotencyConflict):
            store.create(new_record(command="false"))

    def test_remove_leaves_other_records_alone(self, store: Store) -> None:
        job_id, other = settled(store), settled(store, "other")
        store.commit(job_id, 1, [evidence(f"k{number}") for number in range(40)])
        store.tombstone(job_id)
        store.remove(job_id)
        assert store.read(other).revision == 1

    # --- commit_control -----------------------------------------------------------------------

    def test_a_stream_of_evidence_commits_does_not_starve_a_cancel(self, store: Store) -> None:
        job_id = created(store)
        overtaken = Overtaken(store, times=20)
        done = committed(overtaken, job_id, cancel())
        assert overtaken.left == 0
        assert (done.entry, done.repeated) == (21, False)
        assert bodies(store, job_id)[20] == envelope(cancel()).body

    def test_the_deadline_ends_the_tries_and_nothing_was_written(self, store: Store) -> None:
        job_id = created(store)
        overtaken = Overtaken(store, times=1000)
        with pytest.raises(StoreUnavailable, match=f"{job_id}.*c-1"):
            committed(overtaken, job_id, cancel(), tries=5)
        assert envelope(cancel()).body not in bodies(store, job_id)

    def test_cancels_of_many_people_among_real_writers_are_all_there(self, store: Store) -> None:
        job_id = created(store)

        def supervise(writer: int) -> None:
            for k in range(10):
                try:
                    revision = store.read(job_id).revision
                    store.commit(job_id, revision, [evidence(f"{writer}.{k}")])
                except RevisionConflict:
                    continue

        with ThreadPoolExecutor(12) as pool:
            work = [pool.submit(supervise, writer) for writer in range(4)]
            people = [
                pool.submit(committed, store, job_id, cancel(f"c-{person}")) for person in range(8)
            ]
            entries = {done.result().entry for done in people}
            for one in work:
                one.result()
        kept = bodies(store, job_id)
        assert len(entries) == 8
        assert {kept[entry - 1] for entry in entries} == {
            envelope(cancel(f"c-{person}")).body for person in range(8)
        }

    def test_an_intent_id_that_stands_there_is_not_appended_again(self, store: Store) -> None:
        job_id = created(store)
        first = committed(store, job_id, cancel())
        store.commit(job_id, 1, [evidence()])
        again = committed(store, job_id, cancel(reason="said otherwise"))
        assert (first.entry, first.repeated) == (1, False)
        assert (again.entry, again.repeated) == (1, True)
        assert store.read(job_id).revision == 2

    def test_f42_a_cancel_is_appended_to_a_record_whose_facts_this_build_cant_decode(
        self, store: Store
    ) -> None:
        job_id = created(store)
        store.commit(job_id, 0, [Envelope("dispatch.fact.v9", '{"fact":"of the future"}')])
        store.commit(job_id, 1, [Envelope("dispatch.control.v1", '{"id":"c-1","kind":"unheard"}')])
        done = committed(store, job_id, cancel())
        assert (done.entry, done.repeated) == (3, False)
        assert bodies(store, job_id)[2] == envelope(cancel()).body

    def test_a_cancel_of_no_record_or_of_a_tombstoned_one_says_so(self, store: Store) -> None:
        with pytest.raises(JobNotFound):
            committed(store, "jnobody00", cancel())
        job_id = settled(store)
        store.tombstone(job_id)
        with pytest.raises(JobTombstoned):
            committed(store, job_id, cancel())


def listed_after(store: Store, cursor: str | None) -> list[str]:
    found: list[str] = []
    while cursor is not None:
        page = store.list(limit=2, cursor=cursor)
        found += [line.job_id for line in page.items]
        cursor = page.cursor
    return found
