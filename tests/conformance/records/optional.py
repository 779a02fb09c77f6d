"""The promises of `Agenda`, `Owner`, `Health` and `Feed`, each a test of its name."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from dispatch.errors import InvalidRequest
from dispatch.store.records import ClusterHealth, ClusterTrouble, Due, Feed, Lease, Quiet, Store
from dispatch.store.rules import BUCKETS
from tests.conformance.records.contract import created, settled
from tests.conformance.records.harness import Harness
from tests.conformance.records.samples import NOW, evidence, new_record

QUIET = Quiet(0, ("ref-1", "ref-2"), "d1", NOW + timedelta(hours=1), "build-1")
LATER = NOW + timedelta(seconds=30)


def due(store: Store, cluster: str = "alpha", **options: Any) -> dict[str, Due]:
    lines = list(store.open_jobs(cluster, **options))
    found = {line.job_id: line for line in lines}
    assert len(found) == len(lines)
    return found


class AgendaContract(Harness):
    """The index of the records that supervision still has to look after."""

    @pytest.mark.parametrize("shards", [1, 2, 4, 8, BUCKETS])
    def test_the_shards_of_a_cluster_have_each_of_its_open_records_once(
        self, store: Store, shards: int
    ) -> None:
        jobs = {created(store, f"n{number}") for number in range(24)}
        created(store, "elsewhere", cluster="beta")
        self.catch_up(store)
        parts = [set(due(store, shard=shard, shards=shards)) for shard in range(shards)]
        assert set().union(*parts) == jobs
        assert sum(len(part) for part in parts) == len(jobs)
        assert shards == 1 or max(len(part) for part in parts) < len(jobs)

    @pytest.mark.parametrize(("shard", "shards"), [(0, 0), (0, 3), (0, 32), (2, 2), (-1, 2)])
    def test_a_shard_that_does_not_exist_is_refused(
        self, store: Store, shard: int, shards: int
    ) -> None:
        with pytest.raises(InvalidRequest):
            list(store.open_jobs("alpha", shard=shard, shards=shards))

    def test_an_open_record_shows_its_revision_and_no_hint_at_first(self, store: Store) -> None:
        job_id = created(store)
        store.commit(job_id, 0, [evidence("a"), evidence("b")])
        self.catch_up(store)
        assert due(store) == {job_id: Due(job_id, 2, None)}

    def test_a_settled_record_stays_open_until_it_is_closed(self, store: Store) -> None:
        job_id = settled(store)
        self.catch_up(store)
        assert set(due(store)) == {job_id}
        store.close(job_id)
        self.catch_up(store)
        assert due(store) == {}
        store.close(job_id)
        store.commit(job_id, 1, [evidence()])
        self.catch_up(store)
        assert due(store) == {}

    def test_a_tombstoned_record_is_open_no_more(self, store: Store) -> None:
        job_id = settled(store)
        store.tombstone(job_id)
        self.catch_up(store)
        assert due(store) == {}

    def test_close_does_nothing_to_a_record_that_is_not_settled_or_not_there(
        self, store: Store
    ) -> None:
        job_id = created(store)
        store.close(job_id)
        store.close("jnobody00")
        self.catch_up(store)
        assert set(due(store)) == {job_id}

    def test_a_hint_is_left_while_the_record_is_at_its_revision(self, store: Store) -> None:
        job_id = created(store)
        store.set_quiet(job_id, QUIET)
        self.catch_up(store)
        assert due(store)[job_id] == Due(job_id, 0, QUIET)
        for_ever = replace(QUIET, wait_until=None, refs=())
        store.set_quiet(job_id, for_ever)
        self.catch_up(store)
        assert due(store)[job_id].quiet == for_ever

    def test_a_hint_of_another_revision_is_not_left(self, store: Store) -> None:
        job_id = created(store)
        store.commit(job_id, 0, [evidence()])
        store.set_quiet(job_id, QUIET)
        store.set_quiet(job_id, replace(QUIET, revision=2))
        store.set_quiet("jnobody00", QUIET)
        self.catch_up(store)
        assert due(store) == {job_id: Due(job_id, 1, None)}

    def test_a_hint_is_not_left_on_a_closed_record(self, store: Store) -> None:
        job_id = settled(store)
        store.close(job_id)
        store.set_quiet(job_id, replace(QUIET, revision=1))
        self.catch_up(store)
        assert due(store) == {}

    def test_a_commit_makes_the_hint_that_was_left_tell_another_revision(
        self, store: Store
    ) -> None:
        job_id = created(store)
        store.set_quiet(job_id, QUIET)
        store.commit(job_id, 0, [evidence()])
        self.catch_up(store)
        line = due(store)[job_id]
        assert line.revision == 1
        assert line.quiet is None or line.quiet.revision == 0

    def test_a_hint_too_large_to_keep_is_not_kept(self, store: Store) -> None:
        job_id = created(store)
        store.set_quiet(job_id, replace(QUIET, refs=tuple(f"{k:0500}" for k in range(200))))
        self.catch_up(store)
        assert due(store)[job_id].quiet is None


class OwnerContract(Harness):
    """Leases of one cluster's shard, and what they don't promise."""

    def test_a_free_lease_is_acquired(self, store: Store) -> None:
        lease = store.acquire("alpha/0", "s1", now=NOW, ttl_s=60)
        assert lease is not None
        assert (lease.name, lease.owner) == ("alpha/0", "s1")
        assert lease.until == NOW + timedelta(seconds=60)
        assert store.acquire("alpha/1", "s2", now=NOW, ttl_s=60) is not None

    def test_nobody_else_gets_it_while_it_lasts(self, store: Store) -> None:
        store.acquire("alpha/0", "s1", now=NOW, ttl_s=60)
        assert store.acquire("alpha/0", "s2", now=LATER, ttl_s=60) is None

    def test_its_owner_acquires_it_again_under_the_same_fence(self, store: Store) -> None:
        first = acquired(store, "s1")
        again = store.acquire("alpha/0", "s1", now=LATER, ttl_s=60)
        assert again == replace(first, until=LATER + timedelta(seconds=60))

    def test_one_that_ran_out_goes_to_whoever_asks_under_a_larger_fence(self, store: Store) -> None:
        first = acquired(store, "s1")
        second = store.acquire("alpha/0", "s2", now=first.until, ttl_s=60)
        assert second is not None
        assert (second.owner, second.fence > first.fence) == ("s2", True)
        own = store.acquire("alpha/0", "s2", now=second.until, ttl_s=60)
        assert own is not None
        assert own.fence > second.fence

    def test_renew_moves_the_end_of_the_same_term(self, store: Store) -> None:
        first = acquired(store, "s1")
        renewed = store.renew(first, now=LATER, ttl_s=60)
        assert renewed == replace(first, until=LATER + timedelta(seconds=60))
        assert store.acquire("alpha/0", "s2", now=first.until, ttl_s=60) is None

    def test_a_term_that_ran_out_or_was_followed_is_not_renewed(self, store: Store) -> None:
        first = acquired(store, "s1")
        assert store.renew(first, now=first.until, ttl_s=60) is None
        second = store.acquire("alpha/0", "s2", now=first.until, ttl_s=60)
        assert store.renew(first, now=LATER, ttl_s=60) is None
        assert second is not None
        assert store.renew(second, now=second.until - timedelta(seconds=1), ttl_s=60) is not None
        assert store.renew(Lease("never", "s1", 1, LATER), now=NOW, ttl_s=60) is None

    def test_release_ends_the_term_and_its_fence_is_not_used_again(self, store: Store) -> None:
        first = acquired(store, "s1")
        store.release(first)
        assert store.renew(first, now=NOW, ttl_s=60) is None
        second = store.acquire("alpha/0", "s2", now=NOW, ttl_s=60)
        assert second is not None
        assert second.fence > first.fence

    def test_release_of_a_term_that_is_over_does_nothing(self, store: Store) -> None:
        first = acquired(store, "s1")
        second = store.acquire("alpha/0", "s2", now=first.until, ttl_s=60)
        assert second is not None
        store.release(first)
        store.release(Lease("never", "s1", 1, LATER))
        assert store.acquire("alpha/0", "s3", now=first.until, ttl_s=60) is None

    def test_of_many_that_acquire_at_once_one_gets_it(self, store: Store) -> None:
        with ThreadPoolExecutor(16) as pool:
            leases = list(
                pool.map(lambda k: store.acquire("alpha/0", f"s{k}", now=NOW, ttl_s=60), range(16))
            )
        assert sum(lease is not None for lease in leases) == 1

    def test_f43_a_lease_does_not_keep_a_stale_holder_from_trying_the_revision_does(
        self, store: Store
    ) -> None:
        """A supervisor that was frozen past its term goes on; only the revision stops it."""
        job_id = created(store)
        first = acquired(store, "s1")
        second = store.acquire("alpha/0", "s2", now=first.until, ttl_s=60)
        assert second is not None
        assert store.commit(job_id, 0, [evidence("of the stale holder")]) == 1


class HealthContract(Harness):
    """The supervisor's word about a cluster."""

    def test_what_was_last_put_is_what_is_got(self, store: Store) -> None:
        first = ClusterHealth("alpha", "s1", NOW)
        second = ClusterHealth(
            "alpha", "s2", LATER, NOW, "no answer", "id-7", (("k", "text: é"), ("l", "m"))
        )
        second = replace(
            second,
            loss_accepted_at=NOW,
            failing_since=NOW,
            retry_at=LATER,
            troubles=(ClusterTrouble("unreachable", NOW, "no answer: é"),),
            told=("cluster/alpha/unreachable/x",),
            withheld=("job j: start", "job k: start"),
        )
        store.put_health(first)
        assert store.get_health("alpha") == first
        store.put_health(second)
        assert store.get_health("alpha") == second
        store.put_health(first)
        assert store.get_health("alpha") == first

    def test_a_cluster_nobody_spoke_of_has_none(self, store: Store) -> None:
        store.put_health(ClusterHealth("alpha", "s1", NOW))
        assert store.get_health("beta") is None


class FeedContract(Harness):
    """What Memory and SQLite have in place of a stream."""

    def feed(self, store: Store) -> Feed:
        assert isinstance(store, Feed)
        return store

    def test_changes_are_the_headers_and_entries_in_the_order_of_their_commits(
        self, store: Store
    ) -> None:
        first, second = created(store), created(store, "b")
        store.commit(second, 0, [evidence("x"), evidence("y")])
        store.commit(first, 0, [evidence("z")])
        changes = self.feed(store).changes(0, 100)
        assert [(job_id, revision) for _, job_id, revision, _ in changes] == [
            (first, 0),
            (second, 0),
            (second, 1),
            (second, 2),
            (first, 1),
        ]
        assert changes[0].envelope.body == new_record().header.body
        assert [change.envelope for change in changes[2:4]] == list(store.read(second).entries)
        assert all(a.seq < b.seq for a, b in pairwise(changes))

    def test_changes_go_on_after_a_place_and_are_limited(self, store: Store) -> None:
        job_id = created(store)
        store.commit(job_id, 0, [evidence(f"k{number}") for number in range(9)])
        feed = self.feed(store)
        everything = feed.changes(0, 100)
        found = []
        after = 0
        while changes := feed.changes(after, 4):
            assert len(changes) <= 4
            found += changes
            after = changes[-1].seq
        assert found == everything
        assert len(found) == 10

    def test_nothing_that_comes_later_has_a_smaller_place_even_after_a_removal(
        self, store: Store
    ) -> None:
        feed = self.feed(store)
        job_id = settled(store)
        last = feed.changes(0, 100)[-1].seq
        store.tombstone(job_id)
        store.remove(job_id)
        assert feed.changes(0, 100) == []
        created(store, "b")
        assert [change.seq > last for change in feed.changes(last, 100)] == [True]

    def test_of_many_writers_each_acknowledged_entry_is_in_the_changes_once(
        self, store: Store
    ) -> None:
        jobs = [created(store, f"n{number}") for number in range(8)]
        feed = self.feed(store)

        def write(job_id: str) -> None:
            for revision in range(6):
                store.commit(job_id, revision, [evidence(f"{job_id}.{revision}")])

        seen: list[tuple[str, int]] = []
        with ThreadPoolExecutor(8) as pool:
            writers = [pool.submit(write, job_id) for job_id in jobs]
            after = 0
            while True:
                done = all(writer.done() for writer in writers)
                changes = feed.changes(after, 5)
                seen += [(change.job_id, change.revision) for change in changes]
                after = changes[-1].seq if changes else after
                if done and not changes:
                    break
            for writer in writers:
                writer.result()
        assert sorted(seen) == sorted((job_id, k) for job_id in jobs for k in range(7))


def acquired(store: Store, owner: str) -> Lease:
    lease = store.acquire("alpha/0", owner, now=NOW, ttl_s=60)
    assert lease is not None
    return lease
