"""The simulated clusters keep every promise of a scheduler, so they can't drift from adapters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dispatch.record.names import Capability, Cause, ObjectState
from dispatch.schedulers.scheduler import KeepsEvidence
from simulator.worlds import kubernetes
from simulator.worlds.kubernetes import KubernetesWorld
from simulator.worlds.rows import Event, Traits
from simulator.worlds.slurm import SlurmWorld
from simulator.worlds.trainjob import TrainJobWorld
from tests.conformance.scheduler.contract import Play, SchedulerContract
from tests.conformance.scheduler.suspending import SuspendingContract
from tests.conformance.scheduler.world import Work, World
from tests.simulator.scheduler_world import SimulatedWorld, declared

SLURM = (
    Capability.GATED_START,
    Capability.HOLD_PENDING,
    Capability.EXIT_CODES,
    Capability.LOOKUP,
)
IN_PLACE = (*SLURM, Capability.REQUEUE_LIVE, Capability.REQUEUE_ENDED, Capability.HOLD_RUNNING)
UNKEPT = (
    Capability.GATED_START,
    Capability.HOLD_PENDING,
    Capability.REQUEUE_LIVE,
    Capability.EXIT_CODES,
    Capability.UNIQUE_NAMES,
)
KUBERNETES = (*UNKEPT, Capability.HOLD_RUNNING)


class TestSlurmWorld(SchedulerContract):
    @pytest.fixture
    def world(self) -> World:
        traits = Traits(declared("slurm", *SLURM), save_lag_s=5.0, queue_s=3.0)
        return SimulatedWorld(SlurmWorld, traits)


class TestSlurmWorldInPlace(SchedulerContract):
    @pytest.fixture
    def world(self) -> World:
        traits = Traits(declared("slurm", *IN_PLACE), save_lag_s=5.0, queue_s=3.0)
        return SimulatedWorld(SlurmWorld, traits)


class TestKubernetesWorld(SuspendingContract):
    """With our finalizer, which keeps pods until their end is recorded."""

    @pytest.fixture
    def world(self) -> World:
        traits = Traits(
            declared("eks", *KUBERNETES), save_lag_s=5.0, queue_s=3.0, keeps_evidence=True
        )
        return SimulatedWorld(KubernetesWorld, traits)


class TestKubernetesWorldWithoutFinalizer(TestKubernetesWorld):
    """What ends a pod from outside takes along why it ended; nothing shows it any more."""

    @pytest.fixture
    def world(self) -> World:
        traits = Traits(declared("eks", *UNKEPT), save_lag_s=5.0, queue_s=3.0)
        return SimulatedWorld(KubernetesWorld, traits)

    def test_preemption_is_seen_as_that(self, play: Play) -> None:
        """F21, where only the Job is left to tell of it: a failure, and no word of its own."""
        target = play.run()
        play.world.preempt(target.ref)
        seen = play.wait_for_end(target)
        assert seen.cause in (Cause.INTERRUPTED, Cause.LOST)
        assert seen.exit_code is None
        play.wait_for_none(target)

    def test_somebody_elses_cancel_is_not_ours(self, play: Play) -> None:
        """It is absent once its pod is gone, and until then it isn't put down to us."""
        target = play.run()
        play.world.cancel(target.ref)
        assert play.see(target).cause is Cause.STOPPED_OUTSIDE
        play.world.until(lambda: play.look(target) is None, "it is gone")
        assert play.world.processes(target.ref) == 0

    def test_stop_ends_the_whole_process_tree(self, play: Play) -> None:
        """It is absent only once its pod is gone: a foreground deletion waits for it."""
        target = play.run()
        play.wait_for_processes(target)
        play.scheduler.stop(target)
        assert play.see(target).state is ObjectState.ENDING
        play.world.until(lambda: play.look(target) is None, "it is gone")
        assert play.world.processes(target.ref) == 0


class TestTrainJobWorld(TestKubernetesWorld):
    """Objects that others start again: here none does, as a run by itself must end."""

    @pytest.fixture
    def world(self, monkeypatch: pytest.MonkeyPatch) -> World:
        monkeypatch.setattr(kubernetes, "NODES_BACK", 0.0)
        traits = Traits(
            declared("eks", *KUBERNETES), save_lag_s=5.0, queue_s=3.0, keeps_evidence=True
        )
        world = SimulatedWorld(TrainJobWorld, traits)
        cluster = world.cluster
        assert isinstance(cluster, TrainJobWorld)
        cluster.budgets, cluster.remakes = (0,), ""
        return world

    def test_a_restart_waits_until_the_record_has_it(self, world: World, play: Play) -> None:
        assert isinstance(world, SimulatedWorld)
        assert isinstance(world.cluster, TrainJobWorld)
        world.cluster.budgets = (1,)
        target = play.begin(Work.FAIL)
        seen = play.wait_until(target, lambda s: s.restarts == 1, "restarted")
        assert seen.state is ObjectState.PENDING
        play.world.advance(60)
        assert play.see(target).state is ObjectState.PENDING
        assert isinstance(play.scheduler, KeepsEvidence)
        play.scheduler.acknowledge([target])
        play.world.advance(60)
        assert play.see(target).state is ObjectState.PENDING
        play.scheduler.acknowledge([replace(target, restarts=1)])
        assert play.wait_for_end(target).restarts == 1

    def test_what_is_made_anew_is_another_run_of_the_same_object(
        self, world: World, play: Play
    ) -> None:
        assert isinstance(world, SimulatedWorld)
        assert isinstance(world.cluster, TrainJobWorld)
        target = play.run()
        world.cluster.delete_outside(target.ref, "jobset")
        seen = play.wait_until(target, lambda s: s.restarts == 1, "made anew")
        assert seen.ref == target.ref
        assert isinstance(play.scheduler, KeepsEvidence)
        play.scheduler.acknowledge([replace(target, restarts=1)])
        play.wait(target, ObjectState.RUNNING)


class TestKubernetesWorldWithKueue(SchedulerContract):
    """Kueue decides what runs, so neither gate nor hold nor requeue is declared."""

    @pytest.fixture
    def world(self) -> World:
        capabilities = (Capability.EXIT_CODES, Capability.UNIQUE_NAMES)
        traits = Traits(
            declared("eks", *capabilities), save_lag_s=5.0, queue_s=3.0, keeps_evidence=True
        )
        return SimulatedWorld(KubernetesWorld, traits)

    def test_preemption_is_seen_as_that(self, play: Play) -> None:
        """F21: Kueue takes its place away and gives it another; it never ended."""
        target = play.run()
        before = play.see(target)
        play.world.preempt(target.ref)
        seen = play.wait_until(target, lambda s: s.state is ObjectState.PENDING, "suspended")
        assert seen.holder == "kueue"
        again = play.wait(target, ObjectState.RUNNING)
        assert again.started_at != before.started_at
        assert play.world.processes(target.ref) == 1


class TestUniqueNames:
    """What only a cluster with names can do to a Start."""

    @pytest.fixture
    def world(self) -> SimulatedWorld:
        traits = Traits(declared("eks", *KUBERNETES), queue_s=3.0, keeps_evidence=True)
        return SimulatedWorld(KubernetesWorld, traits)

    def test_f09_a_name_whose_holder_is_going_is_taken_until_it_has_gone(
        self, world: SimulatedWorld
    ) -> None:
        play = Play(world)
        target = play.run()
        play.scheduler.stop(target)
        refused = play.scheduler.start(play.order(Work.LAST))
        assert getattr(refused, "cause", None) is Cause.NAME_TAKEN
        play.wait_for_end(target)
        world.cluster.acknowledge(target.ref)
        assert play.start(Work.LAST).ref != target.ref

    def test_f19_what_is_made_anew_under_a_name_is_another_object(
        self, world: SimulatedWorld
    ) -> None:
        play = Play(world)
        target, seen = play.end(Work.FAIL)
        world.cluster.befall(Event.REQUEUE, target.ref, 0.0)
        refs = play.refs()
        assert len(refs) == 2
        assert play.see(target).cause is seen.cause
        world.until(
            lambda: sum(world.processes(ref) for ref in refs) == 1, "the other one executes"
        )
        assert world.processes(target.ref) == 0

    def test_another_cluster_answers_after_a_restore(self, world: SimulatedWorld) -> None:
        play = Play(world)
        before = play.whole()
        world.advance(30)
        target = play.run()
        assert isinstance(world.cluster, KubernetesWorld)
        world.cluster.restore(20.0, 3.0)
        world.advance(5)
        after = play.whole()
        assert after.identity != before.identity
        assert play.look(target) is None
        assert world.processes(target.ref) == 0
