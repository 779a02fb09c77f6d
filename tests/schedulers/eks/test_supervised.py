"""The real supervisor over the adapter and the fake: whole jobs, from submit to settled."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from dispatch.core.fold import fold
from dispatch.core.job import Job
from dispatch.operator import Operator, Submit
from dispatch.record.header import Plan, Rule
from dispatch.record.names import Action, Cause, IntentKind, ObjectState, Outcome
from dispatch.store.memory import MemoryRecords
from dispatch.supervisor.sweep import Sweeper
from tests.conformance.scheduler.world import Work
from tests.schedulers.eks.world import CLUSTER, NAMESPACE, EksWorld

PLAN = Plan(
    default=Rule(action=Action.FAIL),
    causes={
        Cause.PREEMPTED: Rule(action=Action.REQUEUE, limit=2, in_place=True),
        Cause.EVICTED: Rule(action=Action.RESUBMIT, limit=2),
        Cause.NODE_LOST: Rule(action=Action.RESUBMIT, limit=2),
    },
)


class Supervised:
    """One job on the fake cluster, with the supervisor that a deployment has."""

    def __init__(self, world: EksWorld) -> None:
        self.world = world
        self.numbers = count(1)
        self.records = MemoryRecords(lambda: f"token-{next(self.numbers)}")
        self.operator = Operator(self.records, world.kube.clock, lambda tries: None)
        self.sweeper = Sweeper(
            self.records, world.scheduler, world.kube.clock, "supervisor", lambda: 60.0
        )
        self.job_id = ""

    def submit(self, work: Work, *, key: str = "one", **changes: Any) -> str:
        wanted = Submit(
            idempotency_key=key,
            spec=self.world.spec(work, **changes),
            plan=PLAN,
            declarations=self.world.scheduler.declare(),
        )
        submitted = self.operator.submit(wanted, by="iam:ann").job_id
        self.job_id = self.job_id or submitted
        return submitted

    def intend(self, kind: IntentKind) -> None:
        intent_id = f"i{next(self.numbers)}"
        self.operator.intend(self.job_id, kind, intent_id=intent_id, by="iam:ann")

    def job(self) -> Job:
        return fold(self.records.read(self.job_id), self.world.kube.now)

    def until(self, holds: Callable[[Job], bool], what: str, *, every_s: float = 30) -> Job:
        for _ in range(400):
            job = self.job()
            if holds(job):
                return job
            self.sweeper.sweep(CLUSTER, [self.job_id])
            self.world.advance(every_s)
        pytest.fail(f"never {what}")

    def until_it_runs(self) -> Job:
        """Sweep until a process runs and the record says so."""

        def runs(job: Job) -> bool:
            seen = [k.run.state for k in job.objects.values()]
            return bool(self.pods_running()) and ObjectState.RUNNING in seen

        return self.until(runs, "running", every_s=1)

    def until_settled(self) -> Job:
        return self.until(lambda job: job.settled_at is not None, "settled")

    def pods_running(self) -> list[Any]:
        pods = self.world.kube.pods(namespace=NAMESPACE)
        return [p for p in pods if p["status"]["phase"] == "Running"]


def outcome_of(job: Job) -> Outcome | None:
    return None if job.ending is None else job.ending.state


@pytest.fixture
def supervised(world: EksWorld) -> Supervised:
    return Supervised(world)


def test_a_job_that_succeeds_is_settled_and_its_evidence_let_go_of(supervised: Supervised) -> None:
    supervised.submit(Work.SUCCEED, nodes=2)
    job = supervised.until_settled()
    assert outcome_of(job) is Outcome.SUCCEEDED
    assert len(job.objects) == 1
    pods = supervised.world.kube.pods(namespace=NAMESPACE)
    assert len(pods) == 2
    assert not any("finalizers" in p["metadata"] for p in pods)


def test_a_job_that_fails_keeps_its_exit_code_in_the_record(supervised: Supervised) -> None:
    supervised.submit(Work.FAIL)
    job = supervised.until_settled()
    (known,) = job.objects.values()
    assert (outcome_of(job), known.run.cause, known.run.exit_code) == (
        Outcome.FAILED,
        Cause.APP_ERROR,
        3,
    )


def test_a_cancel_ends_the_process_and_settles(supervised: Supervised) -> None:
    supervised.submit(Work.LAST)
    supervised.until_it_runs()
    supervised.intend(IntentKind.CANCEL)
    job = supervised.until_settled()
    assert outcome_of(job) is Outcome.CANCELLED
    assert supervised.world.kube.kubelets.processes == {}
    assert list(supervised.world.kube.store.of("jobs", NAMESPACE)) == []


def test_a_drained_job_runs_again_as_a_new_submission_and_nothing_twice(
    supervised: Supervised,
) -> None:
    supervised.submit(Work.LAST)
    supervised.until_it_runs()
    supervised.world.kube.evict(supervised.pods_running()[0])
    supervised.until(lambda job: len(job.submissions) == 2, "submitted again")
    supervised.until_it_runs()
    assert len(supervised.world.kube.kubelets.processes) == 1
    supervised.world.kube.end(supervised.pods_running()[0], 0)
    job = supervised.until_settled()
    assert outcome_of(job) is Outcome.SUCCEEDED
    assert [k.run.cause for k in job.objects.values()] == [Cause.EVICTED, None]


def test_a_lost_node_is_waited_for_and_never_runs_twice(supervised: Supervised) -> None:
    supervised.submit(Work.LAST)
    supervised.until_it_runs()
    kube = supervised.world.kube
    lost, began = supervised.pods_running()[0]["spec"]["nodeName"], kube.now
    kube.lose_node(lost, removed_after_s=400, dies_after_s=600)
    job = supervised.until(lambda job: len(job.submissions) == 2, "submitted again")
    (process,) = kube.kubelets.processes.values()
    assert process.node != lost
    assert (process.started - began).total_seconds() > 600
    assert next(iter(job.objects.values())).run.cause is Cause.NODE_LOST


def test_a_hold_and_a_release_run_the_same_object_again(supervised: Supervised) -> None:
    supervised.submit(Work.LAST)
    supervised.until_it_runs()
    supervised.intend(IntentKind.HOLD)
    held = supervised.until(lambda job: any(k.run.held for k in job.objects.values()), "held")
    assert supervised.world.kube.kubelets.processes == {}
    supervised.intend(IntentKind.RELEASE)
    supervised.until_it_runs()
    supervised.world.kube.end(supervised.pods_running()[0], 0)
    job = supervised.until_settled()
    assert outcome_of(job) is Outcome.SUCCEEDED
    assert job.objects.keys() == held.objects.keys()


def test_a_wanted_requeue_in_place_runs_the_same_object_again(supervised: Supervised) -> None:
    supervised.submit(Work.LAST)
    supervised.until_it_runs()
    supervised.intend(IntentKind.REQUEUE)
    supervised.until(
        lambda job: (
            any(k.run.restarts == 1 for k in job.objects.values()) or len(job.submissions) > 1
        ),
        "requeued",
    )
    supervised.until_it_runs()
    (process,) = supervised.world.kube.kubelets.processes.values()
    assert int(process.environment["DISPATCH_EPOCH"]) > 1_000_000
    supervised.world.kube.end(supervised.pods_running()[0], 0)
    assert outcome_of(supervised.until_settled()) is Outcome.SUCCEEDED
