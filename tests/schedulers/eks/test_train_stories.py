"""What happens to TrainJobs: what Trainer, JobSet and Kueue do behind our back, over real TLS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from dispatch.errors import CallRefused, CallUnknown, Unsupported
from dispatch.record.names import Capability, Cause, ObjectState
from dispatch.schedulers.eks.marks import EARLIER, EVIDENCE, KEPT_END, OBJECT, RECORDED
from dispatch.schedulers.scheduler import Started, StartRefused, Target
from tests.conformance.scheduler.contract import JOB, Play
from tests.conformance.scheduler.world import Work
from tests.fakes.kube.api import Request
from tests.fakes.kube.jobs import condition
from tests.fakes.kube.server import Fault
from tests.fakes.kube.store import Body
from tests.fakes.kube.tls import Authority
from tests.schedulers.eks.train_world import EKS, MPI, TRAINJOBS, KueueTrainWorld, TrainWorld
from tests.schedulers.eks.world import NAMESPACE

Open = Callable[..., TrainWorld]


@pytest.fixture
def opened(authority: Authority) -> Iterator[Open]:
    """Open worlds with what a test says of them, and close them."""
    worlds: list[TrainWorld] = []

    def make(kind: type[TrainWorld] = TrainWorld, **changes: Any) -> TrainWorld:
        worlds.append(kind(authority, **changes))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()


def run(world: TrainWorld, program: str = "last", **spec: Any) -> tuple[Play, Target]:
    """Run a TrainJob whose processes are that program."""
    play = Play(world)
    order = replace(play.order(Work.LAST), spec=world.spec(Work.LAST, command=(program,), **spec))
    started = world.scheduler.start(order)
    assert isinstance(started, Started)
    target = Target(started.ref, order.tag)
    if play.can(Capability.GATED_START):
        world.scheduler.release(target)
    play.wait(target, ObjectState.RUNNING)
    return play, target


def rank(world: TrainWorld, target: Target, index: int) -> Body:
    """Return the newest pod of a rank."""
    key = "batch.kubernetes.io/job-completion-index"
    found = [p for p in world.pods(target.ref) if p["metadata"]["labels"][key] == str(index)]
    return max(found, key=lambda p: int(p["metadata"]["resourceVersion"]))


def live(world: TrainWorld) -> int:
    return len(world.kube.kubelets.processes)


# --- start ---


def test_it_is_made_of_a_runtime_and_its_pods_keep_their_evidence(opened: Open) -> None:
    world = opened()
    play, target = run(world, nodes=2)
    jobset = world.jobset(target.ref)
    assert jobset["metadata"]["labels"]["dispatch/job"] == JOB
    pods = world.pods(target.ref)
    assert len(pods) == 2
    assert all(EVIDENCE in p["metadata"]["finalizers"] for p in pods)
    uid = world.trainjob(target.ref)["metadata"]["uid"]
    assert {p["metadata"]["annotations"][OBJECT] for p in pods} == {uid}
    given = world.environment(target.ref)
    assert (given["DISPATCH_EPOCH"], given["DISPATCH_JOBSET_RESTARTS"]) == ("1000000", "0")
    assert play.see(target).nodes == ("n1",)


@pytest.mark.parametrize(
    ("runtime", "said"),
    [
        ({"name": "nosuch"}, "must be created before"),
        ({"name": "torch-distributed", "kind": "TrainingRuntime"}, "must be created before"),
        ({"name": "torch-distributed", "jobs": ("trainer",)}, "replicated job"),
    ],
)
def test_a_wrong_runtime_reference_is_refused_with_its_cause(
    opened: Open, runtime: dict[str, Any], said: str
) -> None:
    world = opened()
    play = Play(world)
    spec = world.spec(Work.LAST, eks={**EKS, "runtime": runtime})
    refused = world.scheduler.start(replace(play.order(Work.LAST), spec=spec))
    assert isinstance(refused, StartRefused)
    assert refused.cause is Cause.INVALID_SPEC
    assert said in refused.detail
    assert play.refs() == []


def test_a_runtime_that_goes_before_the_jobset_is_made_is_a_wait_with_its_cause(
    opened: Open,
) -> None:
    world = opened()
    play = Play(world)
    world.kube.asleep = True
    target = play.start(Work.LAST)
    runtime = world.kube.store.get("clustertrainingruntimes", "", "torch-distributed")
    assert runtime is not None
    world.kube.store.drop("clustertrainingruntimes", runtime)
    world.scheduler.release(target)
    world.kube.asleep = False
    world.advance(1)
    seen = play.see(target)
    assert (seen.state, seen.cause) == (ObjectState.PENDING, Cause.INVALID_SPEC)
    assert "not found" in (seen.reason or "")


def test_a_name_that_gets_too_long_is_refused_before_it_is_sent(opened: Open) -> None:
    world = opened()
    play = Play(world)
    jobs = ("a-replicated-job-with-quite-a-long-name",)
    spec = world.spec(Work.LAST, eks={**EKS, "runtime": {"name": "torch", "jobs": jobs}})
    world.server.seen.clear()
    refused = world.scheduler.start(replace(play.order(Work.LAST), spec=spec))
    assert isinstance(refused, StartRefused)
    assert refused.cause is Cause.INVALID_SPEC
    assert "eks.runtime.jobs" in refused.detail
    assert world.server.seen == []


def test_f09_a_lost_create_reply_is_adopted_by_its_name(opened: Open) -> None:
    world = opened()
    play = Play(world)
    order = play.order(Work.LAST)
    with world.replies_lost(), pytest.raises(CallUnknown):
        world.scheduler.start(order)
    (ref,) = play.refs()
    again = world.scheduler.start(order)
    assert isinstance(again, Started)
    assert again.ref == ref


# --- what a look costs ---


def test_there_is_one_find_a_namespace_and_each_level_is_listed_once(opened: Open) -> None:
    world = opened()
    run(world)
    world.server.seen.clear()
    assert world.scheduler.find().complete
    listed = [s.path.rpartition("/")[2] for s in world.server.seen]
    ours, theirs = ["jobs", "pods"], ["trainjobs", "jobsets", "jobs", "pods"]
    assert listed == ["kube-system", NAMESPACE, *ours, *theirs]


@pytest.mark.parametrize("part", ["/trainjobs", "/jobsets", "/jobs", "/pods"])
def test_f06_a_level_that_isnt_answered_is_no_evidence(opened: Open, part: str) -> None:
    world = opened()
    play, target = run(world)
    with world.server.faults(lambda r: Fault.BROKEN if r.path.endswith(part) else None):
        found = world.scheduler.find()
    assert not found.complete
    assert found.by_job == {}
    assert play.see(target).state is ObjectState.RUNNING


def test_a_cluster_that_serves_no_crds_is_no_empty_one(opened: Open) -> None:
    world = opened()
    world.kube.api.trainer = None
    found = world.scheduler.find()
    assert not found.complete
    assert NAMESPACE in (found.error or "")


# --- ends ---


def test_an_exit_code_is_that_of_the_rank_that_failed_by_itself(opened: Open) -> None:
    world = opened()
    play, target = run(world, "trap", nodes=2)
    world.kube.end(rank(world, target, 1), 3)
    seen = play.wait_for_end(target)
    # The JobSet that fails deletes the other rank, which exits with 9 for that.
    assert (seen.cause, seen.exit_code) == (Cause.APP_ERROR, 3)


def test_a_drained_pod_that_exits_0_is_no_success(opened: Open) -> None:
    world = opened()
    play, target = run(world, "graceful")
    world.kube.evict(rank(world, target, 0))
    seen = play.wait_for_end(target)
    assert (seen.state, seen.cause) == (ObjectState.FAILED, Cause.EVICTED)
    assert condition(world.trainjob(target.ref), "Complete")  # so Kubernetes counted it


def test_of_mpi_the_launcher_decides_and_the_workers_that_it_leaves_dont(opened: Open) -> None:
    world = opened()
    play, target = run(world, nodes=3, eks=MPI)
    names = {"launcher", "node"}
    key = "jobset.sigs.k8s.io/replicatedjob-name"
    pods = world.pods(target.ref)
    assert {p["metadata"]["labels"][key] for p in pods} == names
    assert len(pods) == 3
    (launcher,) = [p for p in pods if p["metadata"]["labels"][key] == "launcher"]
    world.kube.end(launcher, 0)
    seen = play.wait_for_end(target)
    assert (seen.state, seen.exit_code) == (ObjectState.SUCCEEDED, 0)
    assert live(world) == 0


def test_of_mpi_a_failed_worker_ends_it_with_its_code(opened: Open) -> None:
    world = opened()
    play, target = run(world, nodes=3, eks=MPI)
    key = "jobset.sigs.k8s.io/replicatedjob-name"
    workers = [p for p in world.pods(target.ref) if p["metadata"]["labels"][key] == "node"]
    world.kube.end(workers[0], 7)
    seen = play.wait_for_end(target)
    assert (seen.cause, seen.exit_code) == (Cause.APP_ERROR, 7)


def test_a_deadline_is_trainers_and_its_pods_are_kept(opened: Open) -> None:
    world = opened()
    play, target = run(world, time_limit_s=60)
    world.advance(61)
    seen = play.wait_for_end(target)
    assert (seen.state, seen.cause) == (ObjectState.FAILED, Cause.TIMEOUT)
    assert world.kube.store.get("jobsets", NAMESPACE, seen.ref.split("/")[2]) is None
    assert all(EVIDENCE in p["metadata"]["finalizers"] for p in world.pods(target.ref))


def test_a_lost_node_is_undecided_until_its_pod_is_collected(opened: Open) -> None:
    world = opened()
    play, target = run(world)
    node = rank(world, target, 0)["spec"]["nodeName"]
    world.kube.lose_node(node)
    world.advance(60)
    assert play.see(target).state is ObjectState.RUNNING
    world.advance(300)
    going = play.see(target)
    assert (going.state, going.cause) == (ObjectState.ENDING, Cause.NODE_LOST)
    assert going.lost_at is not None
    world.advance(86_400)
    assert play.see(target).state is ObjectState.ENDING
    assert live(world) == 1
    world.kube.remove_node(node)
    seen = play.wait_for_end(target)
    assert (seen.cause, seen.exit_code) == (Cause.NODE_LOST, None)


def test_a_quota_that_is_used_up_is_a_wait_with_its_reason(opened: Open) -> None:
    world = opened()
    play = Play(world)
    world.kube.api.quota[NAMESPACE] = 0
    target = play.begin(Work.LAST)
    world.advance(1)
    seen = play.see(target)
    assert (seen.state, seen.cause, seen.held) == (ObjectState.PENDING, Cause.NO_CAPACITY, False)
    assert "exceeded quota" in (seen.reason or "")
    del world.kube.api.quota[NAMESPACE]
    play.wait(target, ObjectState.RUNNING)


def test_pods_that_find_no_place_are_a_wait_with_its_reason(opened: Open) -> None:
    world = opened()
    play = Play(world)
    spec = world.spec(Work.LAST, cpus_per_node=4000)
    started = world.scheduler.start(replace(play.order(Work.LAST), spec=spec))
    assert isinstance(started, Started)
    target = Target(started.ref, play.order(Work.LAST).tag)
    world.scheduler.release(target)
    seen = play.see(target)
    assert (seen.state, seen.cause) == (ObjectState.PENDING, Cause.NO_CAPACITY)
    world.advance(3000)
    assert play.see(target) == seen


# --- Kueue ---


def test_preempted_by_kueue_and_readmitted_it_is_the_same_object(opened: Open) -> None:
    world = opened(KueueTrainWorld, kueue_queue="team-queue")
    world.kube.kueue.admits = True
    play, target = run(world, "stubborn")
    assert not play.can(Capability.GATED_START)
    world.kube.kueue.admits = False
    world.kube.kueue.evict(world.trainjob(target.ref))
    going = play.see(target)
    assert (going.state, going.cause) == (ObjectState.ENDING, Cause.PREEMPTED)
    waits = play.wait_until(target, lambda s: s.held, "suspended by Kueue")
    assert (waits.state, waits.holder, waits.cause) == (ObjectState.PENDING, "kueue", None)
    assert "Preempted" in (waits.reason or "")
    assert "exit code 137" in (waits.reason or "")
    assert live(world) == 0
    world.kube.kueue.admits = True
    runs = play.wait(target, ObjectState.RUNNING)
    assert runs.ref == target.ref
    assert live(world) == 1


def test_under_kueue_a_deleted_trainjob_still_tells_its_end_as_its_own(opened: Open) -> None:
    world = opened(KueueTrainWorld, kueue_queue="team-queue")
    world.kube.kueue.admits = True
    play, target = run(world)
    world.cancel(target.ref)
    seen = play.wait_for_end(target)
    assert (seen.cause, seen.exit_code) == (Cause.STOPPED_OUTSIDE, 143)


# --- JobSet restarts ---


def test_a_jobset_restart_is_a_new_run_and_the_first_runs_codes_are_told(opened: Open) -> None:
    world = opened(jobset={"failurePolicy": {"maxRestarts": 1}})
    play, target = run(world, "trap", nodes=2)
    world.kube.end(rank(world, target, 1), 3)
    seen = play.wait_until(target, lambda s: s.restarts == 1, "restarted")
    play.wait_for_none(target)
    seen = play.see(target)
    assert (seen.ref, seen.state) == (target.ref, ObjectState.PENDING)
    assert "exit code 3" in (seen.reason or "")
    assert "node-0-1: exit code 3" in (seen.reason or "")
    # The pods are kept, so the restart waits for the record.
    world.advance(3600)
    assert live(world) == 0
    world.scheduler.acknowledge([replace(target, restarts=0)])
    world.advance(1)
    assert live(world) == 0
    world.scheduler.acknowledge([replace(target, restarts=1)])
    runs = play.wait(target, ObjectState.RUNNING)
    assert (runs.ref, runs.restarts) == (target.ref, 1)
    assert "node-0-1: exit code 3" in (runs.reason or "")
    assert world.environment(target.ref)["DISPATCH_JOBSET_RESTARTS"] == "1"
    assert "exit code 3" in world.trainjob(target.ref)["metadata"]["annotations"][EARLIER]
    world.kube.end(rank(world, target, 0), 0)
    world.kube.end(rank(world, target, 1), 0)
    done = play.wait_for_end(target)
    assert (done.state, done.restarts) == (ObjectState.SUCCEEDED, 1)


def test_a_jobset_that_has_no_restarts_left_ends_with_the_last_runs_code(opened: Open) -> None:
    world = opened(jobset={"failurePolicy": {"maxRestarts": 1}})
    play, target = run(world)
    world.kube.end(rank(world, target, 0), 3)
    play.wait_until(target, lambda s: s.restarts == 1, "restarted")
    world.scheduler.acknowledge([replace(target, restarts=1)])
    play.wait(target, ObjectState.RUNNING)
    world.kube.end(rank(world, target, 0), 5)
    seen = play.wait_for_end(target)
    assert (seen.cause, seen.exit_code, seen.restarts) == (Cause.APP_ERROR, 5, 1)


def test_a_requeue_after_a_jobset_restart_counts_both(opened: Open) -> None:
    world = opened(jobset={"failurePolicy": {"maxRestarts": 1}})
    play, target = run(world)
    world.kube.end(rank(world, target, 0), 3)
    play.wait_until(target, lambda s: s.restarts == 1, "restarted")
    world.scheduler.acknowledge([replace(target, restarts=1)])
    play.wait(target, ObjectState.RUNNING)
    with pytest.raises(CallRefused):
        world.scheduler.requeue(target)
    world.scheduler.requeue(replace(target, restarts=1))
    play.wait_until(target, lambda s: s.restarts == 2, "restarted by us")
    play.wait(target, ObjectState.RUNNING)
    assert world.environment(target.ref)["DISPATCH_EPOCH"] == "1000002"


# --- what is made anew ---


def test_a_jobset_deleted_by_hand_is_made_anew_and_is_a_new_run(opened: Open) -> None:
    world = opened()
    play, target = run(world)
    first = world.jobset(target.ref)["metadata"]["uid"]
    world.delete_jobset(target.ref)
    runs = play.wait_until(
        target, lambda s: s.restarts == 1 and s.state is ObjectState.RUNNING, "made anew"
    )
    assert world.jobset(target.ref)["metadata"]["uid"] != first
    assert "exit code 143" in (runs.reason or "")
    assert live(world) == 1


def test_a_jobset_deleted_in_the_foreground_waits_for_the_record(opened: Open) -> None:
    world = opened()
    play, target = run(world)
    world.delete_jobset(target.ref, "Foreground")
    seen = play.wait_until(target, lambda s: s.restarts == 1, "going")
    assert seen.state is ObjectState.PENDING
    world.advance(600)
    assert live(world) == 0
    world.scheduler.acknowledge([replace(target, restarts=1)])
    play.wait(target, ObjectState.RUNNING)


def ttl(seconds: int) -> dict[str, Any]:
    return {"ttlSecondsAfterFinished": seconds}


def test_a_ttl_that_a_runtime_sets_takes_no_evidence_away(opened: Open) -> None:
    world = opened(release="later", jobset=ttl(60))
    play, target = run(world)
    world.kube.end(rank(world, target, 0), 7)
    world.advance(3600)
    seen = play.see(target)
    assert (seen.state, seen.cause, seen.exit_code) == (ObjectState.FAILED, Cause.APP_ERROR, 7)
    world.scheduler.acknowledge([target])
    world.advance(10)
    assert world.kube.store.get("jobsets", NAMESPACE, target.ref.split("/")[2]) is None
    assert play.refs() == []
    assert world.trainjob(target.ref)["metadata"]["labels"][RECORDED] == "true"


@pytest.mark.parametrize("release", ["2.1", "2.2"])
def test_an_end_that_is_recorded_is_never_run_again_whatever_trainer_makes(
    opened: Open, release: str
) -> None:
    # 2.1 makes the JobSet of any TrainJob anew once it is gone, 2.2 that of a failed one.
    evidence = "trainjob" if release == "2.2" else "runtime"
    world = opened(release=release, evidence=evidence, jobset=ttl(60))
    play, target = run(world)
    world.kube.end(rank(world, target, 0), 7)
    seen = play.wait_for_end(target)
    world.scheduler.acknowledge([target])
    world.advance(600)
    # Trainer has made it anew, and it is suspended: nothing of it runs, and it is shown no more.
    assert world.jobset(target.ref)["spec"]["suspend"] is True
    assert world.processes(target.ref) == 0
    assert play.refs() == []
    assert str(seen.exit_code) in world.trainjob(target.ref)["metadata"]["annotations"][KEPT_END]


def test_an_ended_job_that_runs_again_is_met_as_a_new_run_and_stopped(opened: Open) -> None:
    # Before the record has its end, nothing keeps Trainer 2.2 from running a failed one again.
    world = opened(jobset=ttl(60))
    play, target = run(world)
    world.kube.end(rank(world, target, 0), 7)
    ended = play.wait_for_end(target)
    world.delete_jobset(target.ref, "Background")
    again = play.wait_until(target, lambda s: s.state is ObjectState.RUNNING, "it runs again")
    assert (again.ref, again.restarts) == (target.ref, ended.restarts + 1)
    assert "exit code 7" in (again.reason or "")
    world.scheduler.stop(replace(target, restarts=1))
    stopped = play.wait_for_end(target)
    assert (stopped.cause, stopped.restarts) == (Cause.STOPPED, 1)
    world.advance(3600)
    assert live(world) == 0


def test_a_success_that_runs_again_is_never_a_success_twice(opened: Open) -> None:
    world = opened(release="2.1", evidence="runtime", jobset=ttl(60))
    play, target = run(world)
    world.kube.end(rank(world, target, 0), 0)
    assert play.wait_for_end(target).state is ObjectState.SUCCEEDED
    world.advance(61)
    # The foreground deletion by its TTL waits for the pods; somebody frees them by hand.
    for pod in world.pods(target.ref):
        pod["metadata"].pop("finalizers", None)
        world.kube.store.drop("pods", pod)
    world.kube.settle()
    again = play.wait_until(target, lambda s: s.state is not ObjectState.SUCCEEDED, "runs again")
    assert condition(world.trainjob(target.ref), "Complete")  # Trainer never takes it back
    assert again.state in (ObjectState.PENDING, ObjectState.RUNNING)
    world.scheduler.stop(target)
    assert play.wait_for_end(target).cause is Cause.STOPPED
    assert live(world) == 0


def test_a_trainjob_made_anew_from_its_manifest_is_another_object(opened: Open) -> None:
    world = opened()
    play, target = run(world)
    body = world.trainjob(target.ref)
    world.cancel(target.ref)
    play.wait_for_end(target)
    saved = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {k: body["metadata"][k] for k in ("name", "labels", "annotations")},
        "spec": body["spec"],
    }
    world.request("POST", TRAINJOBS, saved)
    world.advance(5)
    refs = play.refs()
    assert target.ref in refs
    (other,) = [ref for ref in refs if ref != target.ref]
    world.scheduler.stop(Target(other, target.tag))
    assert play.wait_for_end(Target(other, target.tag)).cause is Cause.STOPPED
    assert play.see(target).cause is Cause.STOPPED_OUTSIDE


# --- deletions ---


def test_a_trainjob_deleted_by_hand_while_it_runs_keeps_its_exit_codes(opened: Open) -> None:
    world = opened()
    play, target = run(world, "stubborn", nodes=2)
    world.cancel(target.ref)
    going = play.see(target)
    assert (going.ref, going.state) == (target.ref, ObjectState.ENDING)
    seen = play.wait_for_end(target)
    assert (seen.cause, seen.exit_code) == (Cause.STOPPED_OUTSIDE, 137)
    assert len(world.pods(target.ref)) == 2
    world.scheduler.acknowledge([target])
    assert world.pods(target.ref) == []
    assert play.refs() == []


def test_a_foreground_deletion_is_let_end_once_its_end_is_recorded(opened: Open) -> None:
    world = opened()
    play, target = run(world)
    world.kubectl("DELETE", target.ref, {"propagationPolicy": "Foreground"})
    seen = play.wait_for_end(target)
    assert (seen.cause, seen.exit_code) == (Cause.STOPPED_OUTSIDE, 143)
    world.advance(600)
    assert play.see(target) == seen
    world.scheduler.acknowledge([target])
    world.advance(600)
    assert list(world.kube.store.of("trainjobs", NAMESPACE)) == []
    assert list(world.kube.store.of("jobsets", NAMESPACE)) == []
    assert world.processes(target.ref) == 0
    assert play.refs() == []


def test_a_foreground_deletion_that_trainer_works_against_is_ended_by_a_stop(
    opened: Open,
) -> None:
    world = opened(evidence="none")
    play, target = run(world)
    world.kubectl("DELETE", target.ref, {"propagationPolicy": "Foreground"})
    world.advance(120)
    # Nothing keeps its pods, so Trainer makes its JobSet anew, again and again.
    assert world.trainjob(target.ref)["metadata"]["deletionTimestamp"]
    going = play.see(target)
    assert (going.state, going.cause) == (ObjectState.ENDING, Cause.STOPPED_OUTSIDE)
    world.scheduler.stop(target)
    world.advance(120)
    play.wait_for_none(target)
    assert list(world.kube.store.of("trainjobs", NAMESPACE)) == []
    assert play.refs() == []


def test_a_stop_is_a_guarded_suspension_and_never_a_foreground_deletion(opened: Open) -> None:
    world = opened()
    play, target = run(world, "stubborn")
    sent: list[Request] = []

    def judge(request: Request) -> Fault | None:
        if request.method != "GET":
            sent.append(request)
        return None

    with world.server.faults(judge):
        world.scheduler.stop(target)
    (only,) = sent
    assert only.body["spec"] == {"suspend": True}
    assert only.body["metadata"]["uid"] == target.ref.rpartition("/")[2]
    assert play.see(target).state is ObjectState.ENDING
    assert live(world) == 1
    assert play.wait_for_end(target).cause is Cause.STOPPED
    assert live(world) == 0


def test_a_release_that_lands_after_a_stop_resumes_nothing(opened: Open) -> None:
    world = opened()
    play, target = run(world, "stubborn")
    world.scheduler.hold(target)
    world.scheduler.stop(target)
    with pytest.raises(CallRefused, match="stopped"):
        world.scheduler.release(target)
    assert play.wait_for_end(target).cause is Cause.STOPPED
    world.advance(600)
    assert live(world) == 0


def test_a_stop_that_trainer_doesnt_follow_becomes_a_deletion(opened: Open) -> None:
    world = opened()
    play, target = run(world, "stubborn")
    world.kube.trainer = None  # its controller is down
    world.scheduler.stop(target)
    world.advance(60)
    world.scheduler.stop(target)
    assert live(world) == 1
    world.advance(60)
    world.scheduler.stop(target)
    assert world.kube.store.get("trainjobs", NAMESPACE, target.ref.split("/")[2]) is None
    seen = play.wait_for_end(target)
    assert (seen.ref, seen.cause) == (target.ref, Cause.STOPPED)
    play.wait_for_none(target)


# --- suspend and resume ---


def test_a_suspension_keeps_its_evidence_and_a_release_runs_the_same_object(opened: Open) -> None:
    world = opened()
    play, target = run(world, "stubborn")
    world.scheduler.hold(target)
    going = play.see(target)
    assert (going.state, going.held) == (ObjectState.ENDING, False)
    held = play.wait_until(target, lambda s: s.held, "held")
    assert (held.holder, held.state) == (None, ObjectState.PENDING)
    assert "exit code 137" in (held.reason or "")
    world.scheduler.release(target)
    runs = play.wait(target, ObjectState.RUNNING)
    assert (runs.restarts, runs.cause) == (0, None)
    assert len(world.pods(target.ref)) == 2


def test_a_run_of_which_a_rank_has_ended_is_never_run_again_in_part(opened: Open) -> None:
    world = opened()
    play, target = run(world, nodes=2)
    world.kube.end(rank(world, target, 0), 0)
    for call in (world.scheduler.requeue, world.scheduler.hold):
        with pytest.raises(CallRefused, match="ranks"):
            call(target)
    assert play.see(target).state is ObjectState.RUNNING


def test_a_requeue_resumes_only_once_the_old_pods_are_gone(opened: Open) -> None:
    world = opened()
    play, target = run(world, "stubborn")
    with pytest.raises(CallUnknown, match="in time"):
        world.scheduler.requeue(target)
    play.wait_until(target, lambda s: s.held, "held")
    assert live(world) == 0
    # A release afterwards finishes it, as the new run that it is.
    world.scheduler.release(target)
    assert play.wait(target, ObjectState.RUNNING).restarts == 1
    assert live(world) == 1


# --- where no finalizer can be set ---


@pytest.mark.parametrize("release", ["2.0", "2.1", "2.2"])
def test_without_a_finalizer_a_pod_that_vanished_is_lost(opened: Open, release: str) -> None:
    world = opened(release=release, evidence="none")
    play, target = run(world)
    (pod,) = world.pods(target.ref)
    assert EVIDENCE not in pod["metadata"].get("finalizers", [])
    world.kube.end(pod, 0)
    world.kube.store.drop("pods", pod)
    world.kube.settle()
    seen = play.wait_for_end(target)
    assert (seen.state, seen.cause, seen.exit_code) == (ObjectState.FAILED, Cause.LOST, None)


def test_without_a_finalizer_a_lost_pod_may_live_on_as_on_a_lost_node(opened: Open) -> None:
    world = opened(evidence="none")
    play, target = run(world)
    world.lose_node(target.ref)
    seen = play.wait_for_end(target)
    assert (seen.state, seen.cause) == (ObjectState.FAILED, Cause.LOST)
    assert seen.lost_at is not None
    assert live(world) == 1


def test_without_a_finalizer_what_runs_isnt_held(opened: Open) -> None:
    world = opened(evidence="none")
    play, target = run(world)
    with pytest.raises(Unsupported, match="keeps no pods"):
        world.scheduler.hold(target)
    assert play.see(target).state is ObjectState.RUNNING


@pytest.mark.parametrize("release", ["2.0", "2.1", "2.2"])
def test_without_a_finalizer_an_end_that_is_seen_is_told(opened: Open, release: str) -> None:
    world = opened(release=release, evidence="none")
    play, target = run(world)
    world.kube.end(rank(world, target, 0), 3)
    seen = play.wait_for_end(target)
    assert (seen.cause, seen.exit_code) == (Cause.APP_ERROR, 3)


def test_without_any_mark_on_the_pods_a_stop_is_seen_through(opened: Open) -> None:
    world = opened(release="2.0", evidence="none")
    play, target = run(world, "stubborn")
    assert "dispatch/job" not in world.pods(target.ref)[0]["metadata"]["labels"]
    world.scheduler.stop(target)
    assert play.see(target).state is ObjectState.ENDING
    assert live(world) == 1
    assert play.wait_for_end(target).cause is Cause.STOPPED
    assert live(world) == 0


def test_finalizers_of_2_1_are_dropped_without_a_word_so_they_are_refused_in_the_settings() -> None:
    from tests.schedulers.eks.train_world import trainer_of

    with pytest.raises(ValueError, match="drops a TrainJob's finalizers"):
        trainer_of("2.1", "trainjob")
    assert trainer_of("2.1", "runtime").evidence == "runtime"


def test_a_runtime_that_bears_the_finalizer_keeps_its_pods(opened: Open) -> None:
    world = opened(release="2.0", evidence="runtime")
    play, target = run(world)
    (pod,) = world.pods(target.ref)
    world.kube.evict(pod)
    world.advance(86_400)
    assert play.see(target).cause is Cause.EVICTED
    assert world.scheduler.free(lambda job, ended_at: job != JOB) == 1
    assert EVIDENCE not in pod["metadata"].get("finalizers", [])


# --- both shapes in one namespace ---


def test_jobs_and_trainjobs_live_beside_each_other(opened: Open) -> None:
    world = opened()
    play, target = run(world)
    order = replace(play.order(Work.LAST, a=2), spec=world.spec(Work.LAST, eks=None))
    started = world.scheduler.start(order)
    assert isinstance(started, Started)
    other = Target(started.ref, order.tag)
    world.scheduler.release(other)
    play.wait(other, ObjectState.RUNNING)
    assert sorted(play.refs()) == sorted([target.ref, other.ref])
    tokens = world.scheduler.glance().tokens
    assert {target.ref, other.ref} == set(tokens)
    world.scheduler.stop(other)
    assert play.wait_for_end(other).cause is Cause.STOPPED
    assert play.see(target).state is ObjectState.RUNNING


def test_somebody_elses_trainjobs_are_none_of_ours(opened: Open) -> None:
    world = opened()
    play, target = run(world)
    world.alien()
    world.advance(5)
    assert play.refs() == [target.ref]
    assert list(play.whole().by_job) == [JOB]
