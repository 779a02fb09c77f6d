"""The store that may fail keeps every promise of the contracts, whether it fails or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from dispatch.errors import CommitUnknown, RevisionConflict, StoreUnavailable
from dispatch.record.codec import decode_entry
from dispatch.store.commit import commit_control
from dispatch.store.memory import MemoryRecords
from dispatch.store.records import Store
from simulator.chance import Chance
from simulator.faults import Fault, Faults, NoFaults
from simulator.stage import Actor, Crashed, Stage, instant
from simulator.store import LATEST_LANDING_S, FaultyStore
from simulator.wire import Flights, Wire
from tests.conformance.records.contract import RecordsContract, bodies, created
from tests.conformance.records.optional import AgendaContract, HealthContract, OwnerContract
from tests.conformance.records.race import Opener
from tests.conformance.records.samples import cancel, evidence, token
from tests.simulator.scheduler_world import Alone, Scripted


class Unmoved(Actor):
    """An actor that waits for nothing, so that many threads can be the same one."""

    def park(self, seconds: float) -> None:
        return


def faulty(inner: Store, faults: Faults, actor: Actor, chance: Chance | None = None) -> FaultyStore:
    wire = Wire(
        actor,
        faults,
        chance or Chance("store"),
        Flights(),
        timeout_s=10,
        landing_s=20,
        unbounded=False,
    )
    return FaultyStore(inner, wire)


class TestFaultyStoreWithoutFaults(RecordsContract, AgendaContract, OwnerContract, HealthContract):
    def opener(self, place: Path) -> Opener:
        self.inner = MemoryRecords(token)
        store = faulty(self.inner, NoFaults(), Unmoved(Stage(), "client"))

        @contextmanager
        def opened() -> Iterator[Store]:
            yield store

        return opened

    def lose_entry(self, store: Store, job_id: str, revision: int) -> None:
        kept = self.inner._records[job_id]
        assert kept.view is not None
        entries = kept.view.entries
        kept.view = replace(kept.view, entries=entries[: revision - 1] + entries[revision:])


class TestFaultyStoreUnderFaults:
    """What each fault does to a commit, by what was written and by what its caller learns."""

    @pytest.fixture
    def inner(self) -> MemoryRecords:
        tokens = count(1)
        return MemoryRecords(lambda: str(next(tokens)))

    @pytest.fixture
    def stage(self) -> Stage:
        return Stage()

    def store(self, inner: Store, stage: Stage, fault: Fault) -> FaultyStore:
        faults = Scripted()
        faults.now = {"commit": fault}
        return faulty(inner, faults, Alone(stage, "client", pace=0.1))

    def test_a_commit_without_a_fault_is_its_callers_own(
        self, inner: MemoryRecords, stage: Stage
    ) -> None:
        job_id = created(inner)
        told: list[str] = []
        store = faulty(inner, NoFaults(), Alone(stage, "client"))
        store.landed = lambda job, entries: told.append("landed")
        store.owned = lambda job, entries: told.append("owned")
        assert store.commit(job_id, 0, (evidence(),)) == 1
        assert told == ["landed", "owned"]

    @pytest.mark.parametrize(
        ("fault", "error", "kept"),
        [
            (Fault.UNAVAILABLE, StoreUnavailable, 0),
            (Fault.CONFLICT, RevisionConflict, 0),
            (Fault.NEVER, CommitUnknown, 0),
            (Fault.LOST, CommitUnknown, 1),
            (Fault.CRASH_BEFORE, Crashed, 0),
            (Fault.CRASH_AFTER, Crashed, 1),
        ],
    )
    def test_f43_what_a_fault_writes_and_what_its_caller_learns(
        self,
        inner: MemoryRecords,
        stage: Stage,
        fault: Fault,
        error: type[BaseException],
        kept: int,
    ) -> None:
        job_id = created(inner)
        told: list[str] = []
        store = self.store(inner, stage, fault)
        store.landed = lambda job, entries: told.append("landed")
        store.owned = lambda job, entries: told.append("owned")
        with pytest.raises(error):
            store.commit(job_id, 0, (evidence(),))
        assert len(bodies(inner, job_id)) == kept
        assert told == ["landed"] * kept

    @pytest.mark.parametrize("fault", [Fault.SLOW, Fault.FROZEN])
    def test_a_slow_commit_is_written_once(
        self, inner: MemoryRecords, stage: Stage, fault: Fault
    ) -> None:
        job_id = created(inner)
        assert self.store(inner, stage, fault).commit(job_id, 0, (evidence(),)) == 1
        assert len(bodies(inner, job_id)) == 1

    def test_f42_a_commit_that_lands_late_lands_at_its_revision(
        self, inner: MemoryRecords, stage: Stage
    ) -> None:
        job_id = created(inner)
        with pytest.raises(CommitUnknown):
            self.store(inner, stage, Fault.LATE).commit(job_id, 0, (evidence("late"),))
        assert bodies(inner, job_id) == []
        stage.run(stage.now + LATEST_LANDING_S)
        assert bodies(inner, job_id) == [evidence("late").body]

    def test_f42_a_commit_that_lands_late_never_overtakes_another(
        self, inner: MemoryRecords, stage: Stage
    ) -> None:
        job_id = created(inner)
        with pytest.raises(CommitUnknown):
            self.store(inner, stage, Fault.LATE).commit(job_id, 0, (evidence("late"),))
        inner.commit(job_id, 0, (evidence("first"),))
        stage.run(stage.now + LATEST_LANDING_S)
        assert bodies(inner, job_id) == [evidence("first").body]

    @pytest.mark.parametrize("seed", range(20))
    def test_an_intent_is_recorded_once_whatever_goes_wrong(
        self, inner: MemoryRecords, stage: Stage, seed: int
    ) -> None:
        job_id = created(inner)
        chance = Chance(f"intent/{seed}")
        faults = Faults(chance, 0.7, until=1e9)
        store = faulty(inner, faults, Alone(stage, "client", pace=0.1), chance)

        def again(say: Callable[[], object]) -> None:
            for _ in range(400):
                try:
                    say()
                except (Crashed, StoreUnavailable, CommitUnknown, RevisionConflict):
                    continue
                return
            pytest.fail("it never went through")

        for name in ("c-1", "c-2"):
            again(
                lambda name=name: commit_control(  # type: ignore[misc]
                    store,
                    job_id,
                    cancel(name),
                    deadline=instant(stage.now + 60),
                    clock=lambda: instant(stage.now),
                    pause=lambda tries: stage.run(stage.now + 1),
                )
            )
        stage.run(stage.now + LATEST_LANDING_S)
        view = inner.read(job_id)
        said = [
            decode_entry(one, job=job_id, entry=number).id  # type: ignore[union-attr]
            for number, one in enumerate(view.entries, start=1)
        ]
        assert said == ["c-1", "c-2"]
