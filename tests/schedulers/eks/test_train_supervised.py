"""The real supervisor over TrainJobs: whole jobs, from submit to settled, whatever Trainer does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dispatch.record.names import Cause, IntentKind, ObjectState, Outcome
from tests.conformance.scheduler.world import Work
from tests.fakes.kube.store import Body
from tests.fakes.kube.tls import Authority
from tests.schedulers.eks.test_supervised import Supervised, outcome_of
from tests.schedulers.eks.train_world import KueueTrainWorld, TrainWorld
from tests.schedulers.eks.world import NAMESPACE

Open = Callable[..., Supervised]


@pytest.fixture
def supervised(authority: Authority) -> Iterator[Open]:
    """Open worlds with a supervisor, and close them."""
    worlds: list[TrainWorld] = []

    def make(kind: type[TrainWorld] = TrainWorld, **changes: Any) -> Supervised:
        worlds.append(kind(authority, **changes))
        return Supervised(worlds[-1])

    yield make
    for world in worlds:
        world.close()


def running(it: Supervised) -> Body:
    (pod,) = it.pods_running()
    found: Body = pod
    return found


def processes(it: Supervised) -> int:
    return len(it.world.kube.kubelets.processes)


def test_a_trainjob_that_succeeds_is_settled_and_its_evidence_let_go_of(supervised: Open) -> None:
    it = supervised()
    it.submit(Work.SUCCEED, nodes=2)
    job = it.until_settled()
    assert outcome_of(job) is Outcome.SUCCEEDED
    assert len(job.objects) == 1
    pods = it.world.kube.pods(namespace=NAMESPACE)
    assert len(pods) == 2
    assert not any("finalizers" in p["metadata"] for p in pods)


def test_a_jobset_restart_stands_in_the_record_with_the_first_runs_code(supervised: Open) -> None:
    it = supervised(jobset={"failurePolicy": {"maxRestarts": 1}})
    it.submit(Work.LAST)
    it.until_it_runs()
    it.world.kube.end(running(it), 3)
    job = it.until(lambda job: any(k.run.restarts == 1 for k in job.objects.values()), "restarted")
    (known,) = job.objects.values()
    assert "exit code 3" in (known.run.reason or "")
    it.until_it_runs()
    assert len(it.job().submissions) == 1
    it.world.kube.end(running(it), 0)
    job = it.until_settled()
    assert outcome_of(job) is Outcome.SUCCEEDED
    assert len(job.objects) == 1


def test_a_failed_job_that_trainer_would_run_again_runs_once(supervised: Open) -> None:
    it = supervised(jobset={"ttlSecondsAfterFinished": 60})
    it.submit(Work.FAIL)
    job = it.until_settled()
    (known,) = job.objects.values()
    assert (outcome_of(job), known.run.cause, known.run.exit_code) == (
        Outcome.FAILED,
        Cause.APP_ERROR,
        3,
    )
    it.world.advance(3600)
    assert processes(it) == 0
    assert len(it.world.kube.pods(namespace=NAMESPACE)) <= 1


def test_an_ended_job_that_runs_again_before_it_is_recorded_succeeds_at_most_once(
    supervised: Open,
) -> None:
    it = supervised(release="2.1", evidence="none", jobset={"ttlSecondsAfterFinished": 60})
    it.submit(Work.LAST)
    it.until_it_runs()
    it.world.kube.end(running(it), 0)
    # Nobody looks while its TTL passes, and Trainer 2.1 runs it again.
    it.world.advance(120)
    assert processes(it) == 1
    it.world.kube.end(running(it), 0)
    job = it.until_settled()
    assert outcome_of(job) is Outcome.SUCCEEDED
    assert processes(it) == 0
    it.world.advance(3600)
    assert processes(it) == 0


def test_a_cancel_ends_the_processes_and_settles(supervised: Open) -> None:
    it = supervised()
    it.submit(Work.LAST, nodes=2)
    it.until(lambda job: processes(it) == 2, "running", every_s=1)
    it.intend(IntentKind.CANCEL)
    job = it.until_settled()
    assert outcome_of(job) is Outcome.CANCELLED
    assert processes(it) == 0


def test_a_hold_and_a_release_run_the_same_object_again(supervised: Open) -> None:
    it = supervised()
    it.submit(Work.LAST)
    it.until_it_runs()
    it.intend(IntentKind.HOLD)
    held = it.until(lambda job: any(k.run.held for k in job.objects.values()), "held")
    assert processes(it) == 0
    it.intend(IntentKind.RELEASE)
    it.until_it_runs()
    it.world.kube.end(running(it), 0)
    job = it.until_settled()
    assert outcome_of(job) is Outcome.SUCCEEDED
    assert job.objects.keys() == held.objects.keys()


def test_a_deleted_trainjob_is_submitted_again_and_nothing_runs_twice(supervised: Open) -> None:
    it = supervised()
    it.submit(Work.LAST)
    job = it.until_it_runs()
    (ref,) = job.objects
    it.world.cancel(ref)
    job = it.until(lambda job: outcome_of(job) is not None, "ended")
    # The plan ends the job with a cause that it has no rule for.
    assert next(iter(job.objects.values())).run.cause is Cause.STOPPED_OUTSIDE
    it.until_settled()
    assert processes(it) == 0


def test_a_lost_node_is_waited_for_and_never_runs_twice(supervised: Open) -> None:
    it = supervised()
    it.submit(Work.LAST)
    it.until_it_runs()
    kube = it.world.kube
    lost, began = running(it)["spec"]["nodeName"], kube.now
    kube.lose_node(lost, removed_after_s=400, dies_after_s=600)
    job = it.until(lambda job: len(job.submissions) == 2, "submitted again")
    (process,) = kube.kubelets.processes.values()
    assert process.node != lost
    assert (process.started - began).total_seconds() > 600
    assert next(iter(job.objects.values())).run.cause is Cause.NODE_LOST


def test_preempted_by_kueue_and_readmitted_it_is_one_object_of_one_submission(
    supervised: Open,
) -> None:
    it = supervised(KueueTrainWorld, kueue_queue="team-queue")
    kueue = it.world.kube.kueue
    kueue.admits = True
    it.submit(Work.LAST)
    job = it.until_it_runs()
    (ref,) = job.objects
    kueue.admits = False
    world = it.world
    assert isinstance(world, KueueTrainWorld)
    kueue.evict(world.trainjob(ref))
    waits = it.until(
        lambda job: job.objects[ref].run.state is ObjectState.PENDING, "suspended", every_s=5
    )
    assert "Preempted" in (waits.objects[ref].run.reason or "")
    kueue.admits = True
    it.until_it_runs()
    it.world.kube.end(running(it), 0)
    job = it.until_settled()
    assert outcome_of(job) is Outcome.SUCCEEDED
    assert (len(job.submissions), len(job.objects)) == (1, 1)


def test_without_kept_pods_a_lost_node_never_runs_twice(supervised: Open) -> None:
    it = supervised(evidence="none")
    it.submit(Work.LAST)
    it.until_it_runs()
    kube = it.world.kube
    lost, began = running(it)["spec"]["nodeName"], kube.now
    kube.lose_node(lost, removed_after_s=400, dies_after_s=600)
    # What is left of it says lost, and the plan asks nobody: it ends the job.
    job = it.until(lambda job: outcome_of(job) is not None, "ended")
    assert next(iter(job.objects.values())).run.cause in (Cause.LOST, Cause.NODE_LOST)
    assert (kube.now - began).total_seconds() > 600
    it.until_settled()
    assert processes(it) == 0
