"""What happens to jobs on Kubernetes, told from the side of a supervisor, over real TLS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dispatch.errors import CallRefused, CallUnknown, HitOther, SchedulerUnavailable
from dispatch.record.names import Capability, Cause, ObjectState
from dispatch.schedulers.eks.marks import EVIDENCE, KEPT_END, RECORDED, read_ref
from dispatch.schedulers.scheduler import KeepsEvidence, Started, StartRefused, Target
from tests.conformance.scheduler.contract import JOB, Play
from tests.conformance.scheduler.world import Work
from tests.fakes.kube.api import Request
from tests.fakes.kube.server import Fault
from tests.fakes.kube.store import Body
from tests.fakes.kube.tls import Authority
from tests.schedulers.eks.world import NAMESPACE, EksWorld

JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


@pytest.fixture
def play(world: EksWorld) -> Play:
    return Play(world)


def name_of(target: Target) -> str:
    identity = read_ref(target.ref)
    assert identity is not None
    return identity.name


def run(world: EksWorld, play: Play, program: str, **spec: object) -> Target:
    """Run a job whose process is that program."""
    order = play.order(Work.LAST)
    made = world.spec(Work.LAST, command=(program,), **spec)
    started = world.scheduler.start(replace(order, spec=made))
    assert isinstance(started, Started)
    target = Target(started.ref, order.tag)
    world.scheduler.release(target)
    play.wait(target, ObjectState.RUNNING)
    return target


def only(method: str, suffix: str, fault: Fault) -> Callable[[Request], Fault | None]:
    """Return a judge that lets one fault happen to the first request that fits."""
    left = [fault]

    def judge(request: Request) -> Fault | None:
        if request.method == method and request.path.endswith(suffix) and left:
            return left.pop()
        return None

    return judge


# --- start ---


def test_f09_a_lost_create_reply_is_adopted_by_its_name(world: EksWorld, play: Play) -> None:
    order = play.order(Work.LAST)
    with world.server.faults(only("POST", "/jobs", Fault.CLOSE_AFTER)), pytest.raises(CallUnknown):
        world.scheduler.start(order)
    assert len(play.refs()) == 1
    again = world.scheduler.start(order)
    assert isinstance(again, Started)
    assert play.refs() == [again.ref]


def test_f09_a_taken_name_is_adopted_only_by_the_tag(world: EksWorld, play: Play) -> None:
    order = play.order(Work.LAST)
    first = world.scheduler.start(order)
    assert isinstance(first, Started)
    other = replace(order, tag=replace(order.tag, generation=1))
    refused = world.scheduler.start(other)
    assert isinstance(refused, StartRefused)
    assert refused.cause is Cause.NAME_TAKEN


def test_a_name_whose_holder_is_going_is_refused_and_not_adopted(
    world: EksWorld, play: Play
) -> None:
    # The second of the three 409s: the same reason, another message.
    target = play.run()
    world.scheduler.stop(target)
    play.wait_for_end(target)
    refused = world.scheduler.start(play.order(Work.LAST))
    assert isinstance(refused, StartRefused)
    assert refused.cause is Cause.NAME_TAKEN
    assert "being deleted" in refused.detail


def test_a_conflict_is_a_definite_no_and_is_decided_anew(world: EksWorld, play: Play) -> None:
    # The third: the object changed between the look and the patch; nothing was done.
    target = play.start(Work.LAST)
    changed: list[str] = []

    def judge(request: Request) -> Fault | None:
        if request.method == "PATCH" and not changed:
            changed.append("yes")
            job = world.kube.job(name_of(target), NAMESPACE)
            job["metadata"]["annotations"]["somebody"] = "was here"
            world.kube.store.changed("jobs", job)
        return None

    with world.server.faults(judge):
        world.scheduler.release(target)
    assert changed
    assert play.wait(target, ObjectState.RUNNING).restarts == 0


def test_what_the_server_refuses_is_refused_with_its_words(world: EksWorld, play: Play) -> None:
    world.kube.api.denied.add("create jobs")
    refused = world.scheduler.start(play.order(Work.LAST))
    assert isinstance(refused, StartRefused)
    assert refused.cause is Cause.START_REFUSED
    assert "cannot create" in refused.detail


def test_who_belongs_to_no_team_starts_nothing(authority: Authority) -> None:
    from dispatch.schedulers.eks.settings import Team

    teams = (Team(owners=("iam:team-a/*",), namespace=NAMESPACE, service_account="team-a"),)
    world = EksWorld(authority, teams=teams)
    try:
        order = Play(world).order(Work.LAST)
        refused = world.scheduler.start(replace(order, owner="iam:team-b/eve"))
        assert isinstance(refused, StartRefused)
        assert "iam:team-b/eve" in refused.detail
        started = world.scheduler.start(replace(order, owner="iam:team-a/ann"))
        assert isinstance(started, Started)
        (job,) = world.kube.store.of("jobs", NAMESPACE)
        assert job["spec"]["template"]["spec"]["serviceAccountName"] == "team-a"
    finally:
        world.close()


def test_start_is_one_request_and_never_repeated(world: EksWorld, play: Play) -> None:
    world.server.seen.clear()
    world.scheduler.start(play.order(Work.LAST))
    assert [(s.method, s.path) for s in world.server.seen] == [("POST", JOBS)]
    assert world.server.seen[0].query["fieldValidation"] == "Strict"


# --- ends that someone else brings about ---


def test_a_drained_pod_that_exits_0_is_no_success(world: EksWorld, play: Play) -> None:
    target = run(world, play, "graceful")
    world.kube.evict(world.live_pod(target.ref))
    seen = play.wait_for_end(target)
    assert (seen.state, seen.cause, seen.exit_code) == (ObjectState.FAILED, Cause.EVICTED, 0)
    job = world.kube.job(name_of(target), NAMESPACE)
    assert job["status"]["succeeded"] == 1  # so Kubernetes counted it


def test_a_deleted_pod_that_exits_0_is_no_success(world: EksWorld, play: Play) -> None:
    target = run(world, play, "graceful")
    world.kube.api.delete_pod(world.live_pod(target.ref))
    seen = play.wait_for_end(target)
    assert (seen.state, seen.cause) == (ObjectState.FAILED, Cause.INTERRUPTED)


def test_an_eviction_between_two_looks_loses_nothing(world: EksWorld, play: Play) -> None:
    target = run(world, play, "last")
    world.kube.evict(world.live_pod(target.ref))
    # A day passes: events are forgotten, the pod would be long gone.
    world.advance(86_400)
    seen = play.see(target)
    assert (seen.state, seen.cause, seen.exit_code) == (ObjectState.FAILED, Cause.EVICTED, 143)


def test_f21_preemption_is_told_and_the_job_starts_nothing_again(
    world: EksWorld, play: Play
) -> None:
    target = run(world, play, "stubborn")
    world.kube.preempt(world.live_pod(target.ref))
    going = play.see(target)
    assert (going.state, going.cause) == (ObjectState.ENDING, Cause.PREEMPTED)
    seen = play.wait_for_end(target)
    assert (seen.cause, seen.restarts) == (Cause.PREEMPTED, 0)
    world.advance(3600)
    assert world.processes(target.ref) == 0


def test_f21_a_stop_of_what_is_being_preempted_ends_it_once(world: EksWorld, play: Play) -> None:
    target = run(world, play, "stubborn")
    world.kube.preempt(world.live_pod(target.ref))
    world.scheduler.stop(target)
    seen = play.wait_for_end(target)
    assert seen.cause is Cause.PREEMPTED
    assert play.refs() == [target.ref]


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
def test_a_persons_kubectl_delete_is_seen_as_that(world: EksWorld, play: Play, policy: str) -> None:
    target = run(world, play, "last")
    world.kubectl("DELETE", target.ref, {"propagationPolicy": policy})
    seen = play.wait_for_end(target)
    assert (seen.cause, seen.exit_code) == (Cause.STOPPED_OUTSIDE, 143)


def test_a_job_deleted_as_orphan_runs_on_and_is_stopped_by_its_pods(
    world: EksWorld, play: Play
) -> None:
    target = run(world, play, "last")
    world.kubectl("DELETE", target.ref, {})
    assert world.kube.store.get("jobs", NAMESPACE, name_of(target)) is None
    assert play.see(target).state is ObjectState.RUNNING
    world.scheduler.stop(target)
    assert play.wait_for_end(target).cause is Cause.STOPPED
    play.wait_for_none(target)


def test_a_ttl_that_somebody_sets_takes_no_evidence_away(world: EksWorld, play: Play) -> None:
    target = run(world, play, "last")
    world.kubectl("PATCH", target.ref, {"spec": {"ttlSecondsAfterFinished": 0}})
    world.kube.end(world.live_pod(target.ref), 7)
    world.advance(3600)
    seen = play.see(target)
    assert (seen.cause, seen.exit_code) == (Cause.APP_ERROR, 7)
    world.scheduler.acknowledge([target])
    assert play.refs() == []
    assert world.kube.pods(namespace=NAMESPACE) == []


def test_a_foreground_delete_waits_for_the_record_and_no_longer(
    world: EksWorld, play: Play
) -> None:
    target = run(world, play, "last")
    world.scheduler.stop(target)
    seen = play.wait_for_end(target)
    assert seen.cause is Cause.STOPPED
    assert world.kube.store.get("jobs", NAMESPACE, name_of(target)) is not None
    assert play.see(target) == seen
    world.scheduler.acknowledge([target])
    assert world.kube.store.get("jobs", NAMESPACE, name_of(target)) is None


# --- nodes ---


def test_a_lost_node_is_undecided_until_its_pod_is_collected(world: EksWorld, play: Play) -> None:
    target = run(world, play, "last")
    node = world.live_pod(target.ref)["spec"]["nodeName"]
    world.kube.lose_node(node)
    world.advance(60)
    assert play.see(target).state is ObjectState.RUNNING
    world.advance(300)
    going = play.see(target)
    assert (going.state, going.cause) == (ObjectState.ENDING, Cause.NODE_LOST)
    assert going.lost_at is not None
    world.advance(86_400)
    assert play.see(target).state is ObjectState.ENDING
    assert world.processes(target.ref) == 1
    world.kube.remove_node(node)
    seen = play.wait_for_end(target)
    assert (seen.cause, seen.exit_code) == (Cause.NODE_LOST, None)


def test_node_lost_requeued_and_node_back_never_runs_twice(world: EksWorld, play: Play) -> None:
    target = run(world, play, "last")
    node = world.live_pod(target.ref)["spec"]["nodeName"]
    world.kube.lose_node(node)
    world.advance(50)
    world.scheduler.requeue(target)
    seen = play.see(target)
    assert (seen.state, seen.restarts) == (ObjectState.PENDING, 1)
    world.advance(3600)
    # The old process may live; the new one waits for its pod to go.
    assert world.processes(target.ref) == 1
    assert play.see(target).state is ObjectState.PENDING
    world.kube.node_back(node)
    play.wait(target, ObjectState.RUNNING)
    assert world.processes(target.ref) == 1
    assert world.environment(target.ref)["DISPATCH_EPOCH"] == "1000001"


def test_a_run_after_a_lost_node_goes_on_telling_of_the_loss(world: EksWorld, play: Play) -> None:
    """Somebody suspends and resumes it: the process on the lost node may compute beside it."""
    target = run(world, play, "last")
    node = world.live_pod(target.ref)["spec"]["nodeName"]
    world.kube.lose_node(node)
    world.advance(60)
    world.hold(target.ref)
    world.advance(400)
    world.kube.remove_node(node)
    play.wait_until(target, lambda s: s.held, "held")
    lost_at = play.see(target).lost_at
    world.kubectl("PATCH", target.ref, {"spec": {"suspend": False}})
    seen = play.wait(target, ObjectState.RUNNING)
    assert (seen.restarts, seen.lost_at) == (0, lost_at)
    assert lost_at is not None


def test_a_node_that_comes_back_reports_the_true_exit_code(world: EksWorld, play: Play) -> None:
    target = run(world, play, "trap")
    node = world.live_pod(target.ref)["spec"]["nodeName"]
    world.kube.lose_node(node)
    world.advance(400)
    world.kube.node_back(node)
    seen = play.wait_for_end(target)
    assert (seen.cause, seen.exit_code) == (Cause.EVICTED, 9)


# --- waiting ---


def test_a_quota_that_is_used_up_is_a_wait_with_its_reason(world: EksWorld, play: Play) -> None:
    world.kube.api.quota[NAMESPACE] = 0
    target = play.begin(Work.LAST)
    seen = play.see(target)
    assert (seen.state, seen.cause, seen.held) == (ObjectState.PENDING, Cause.NO_CAPACITY, False)
    assert "exceeded quota" in (seen.reason or "")
    world.advance(60)
    assert play.see(target).reason == seen.reason
    del world.kube.api.quota[NAMESPACE]
    play.wait(target, ObjectState.RUNNING)


@pytest.mark.parametrize(
    ("trouble", "cause"),
    [
        ("image", Cause.IMAGE_PULL_FAILED),
        ("secret", Cause.INVALID_SPEC),
        ("capacity", Cause.NO_CAPACITY),
    ],
)
def test_a_wait_that_never_ends_by_itself_has_a_cause_and_steady_words(
    world: EksWorld, play: Play, trouble: str, cause: Cause
) -> None:
    spec = world.spec(Work.LAST)
    if trouble == "image":
        world.kube.kubelets.missing_images["work:1"] = "not found"
    elif trouble == "secret":
        world.kube.kubelets.missing_secrets.add("nosuch")
        spec = world.spec(Work.LAST, secrets={"KEY": "kubernetes:nosuch/key"})
    else:
        spec = world.spec(Work.LAST, cpus_per_node=4000)
    order = replace(play.order(Work.LAST), spec=spec)
    started = world.scheduler.start(order)
    assert isinstance(started, Started)
    target = Target(started.ref, order.tag)
    world.scheduler.release(target)
    seen = play.see(target)
    assert (seen.state, seen.cause) == (ObjectState.PENDING, cause)
    assert seen.reason
    world.advance(3000)
    assert play.see(target) == seen


# --- what a look is worth ---


@pytest.mark.parametrize(
    "fault",
    [Fault.BUSY, Fault.BROKEN, Fault.LATE, Fault.HTML, Fault.EMPTY, Fault.CUT, Fault.CLOSE_BEFORE],
)
@pytest.mark.parametrize("part", ["/jobs", "/pods", f"/{NAMESPACE}"])
def test_f06_f13_a_look_in_part_is_no_evidence(
    world: EksWorld, play: Play, fault: Fault, part: str
) -> None:
    target = play.run()
    with world.server.faults(lambda r: fault if r.path.endswith(part) else None):
        found = world.scheduler.find()
    assert not found.complete
    assert found.error
    assert found.by_job == {}
    assert play.see(target).state is ObjectState.RUNNING


def test_f06_a_lost_page_is_no_evidence(authority: Authority) -> None:
    world = EksWorld(authority, page_size=2)
    try:
        play = Play(world)
        for a in range(1, 6):
            play.start(Work.LAST, a=a)
        assert len(play.refs()) == 5
        pages = [s for s in world.server.seen if s.path == JOBS and s.method == "GET"]
        assert len(pages) == 3

        def judge(request: Request) -> Fault | None:
            return Fault.BROKEN if "continue" in request.query else None

        with world.server.faults(judge):
            found = world.scheduler.find()
        assert not found.complete
        assert found.by_job == {}

        def expire(request: Request) -> Fault | None:
            if "continue" in request.query:
                world.kube.api.expire_pages()
            return None

        with world.server.faults(expire):
            found = world.scheduler.find()
        assert not found.complete
        assert "410" in (found.error or "")
    finally:
        world.close()


def test_f13_a_question_that_isnt_allowed_is_no_evidence(world: EksWorld, play: Play) -> None:
    play.run()
    world.kube.api.denied.add("list pods")
    assert not world.scheduler.find().complete


def test_f15_a_job_that_isnt_there_is_absent_from_a_whole_look_and_nothing_more(
    world: EksWorld, play: Play
) -> None:
    target = play.run()
    world.forget(target.ref)
    found = play.whole()
    assert found.by_job == {}
    with pytest.raises(SchedulerUnavailable):
        world.scheduler.output(target, offset=0, limit=10)


def test_f28_a_pod_that_vanished_by_force_is_lost(world: EksWorld, play: Play) -> None:
    target = play.run()
    pod = world.live_pod(target.ref)
    world.kube.end(pod, 5)
    pod["metadata"].pop("finalizers")
    world.kube.store.drop("pods", pod)
    world.kube.settle()
    seen = play.see(target)
    # The exit code stands in the Job's own message, and nowhere else.
    assert (seen.cause, seen.exit_code) == (Cause.APP_ERROR, 5)
    job = world.kube.job(name_of(target), NAMESPACE)
    for found in job["status"]["conditions"]:
        found |= {"reason": "BackoffLimitExceeded", "message": "Job has reached the limit"}
    seen = play.see(target)
    assert (seen.state, seen.cause, seen.exit_code) == (ObjectState.FAILED, Cause.LOST, None)


def test_another_cluster_behind_the_same_name_has_another_identity(
    world: EksWorld, authority: Authority
) -> None:
    before = world.scheduler.find().identity
    space = world.kube.store.get("namespaces", "", "kube-system")
    assert space is not None
    assert before == space["metadata"]["uid"]
    space["metadata"]["uid"] = "another"
    assert world.scheduler.find().identity == world.scheduler.glance().identity == "another"


def test_a_namespace_that_isnt_there_is_no_empty_cluster(world: EksWorld, play: Play) -> None:
    play.run()
    space = world.kube.store.get("namespaces", "", NAMESPACE)
    assert space is not None
    world.kube.store.drop("namespaces", space)
    found = world.scheduler.find()
    assert not found.complete
    assert NAMESPACE in (found.error or "")


def test_a_namespace_recreated_under_us_holds_nothing_of_ours(world: EksWorld, play: Play) -> None:
    target = play.run()
    world.forget(target.ref)
    space = world.kube.store.get("namespaces", "", NAMESPACE)
    assert space is not None
    world.kube.store.drop("namespaces", space)
    world.kube.add_namespace(NAMESPACE)
    # Somebody restores the manifests: the same names and labels, other uids.
    again = play.run()
    assert name_of(again) == name_of(target)
    assert again.ref != target.ref
    world.scheduler.stop(target)
    with pytest.raises(CallRefused):
        world.scheduler.hold(target)
    assert play.see(again).state is ObjectState.RUNNING


def test_a_namespace_that_is_being_deleted_takes_no_more(world: EksWorld, play: Play) -> None:
    target = play.run()
    world.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}")
    refused = world.scheduler.start(play.order(Work.LAST, a=2))
    assert isinstance(refused, StartRefused)
    assert "being terminated" in refused.detail
    # It waits for the record, and goes once that has the end.
    seen = play.wait_for_end(target)
    assert (seen.cause, seen.exit_code) == (Cause.STOPPED_OUTSIDE, 143)
    world.scheduler.acknowledge([target])
    assert world.kube.store.get("namespaces", "", NAMESPACE) is None


def test_a_token_that_expires_in_the_middle_of_a_pass_is_renewed_once(
    world: EksWorld, play: Play
) -> None:
    target = play.run()
    world.kube.api.tokens["better"] = "dispatch"
    scheduler = world.another(["good", "better"])
    assert scheduler.find().complete

    def judge(request: Request) -> Fault | None:
        if request.path.endswith("/pods"):
            world.kube.api.tokens.pop("good", None)
        return None

    world.server.seen.clear()
    with world.server.faults(judge):
        found = scheduler.find()
    assert found.complete
    assert [s.ref for s in found.by_job[JOB]] == [target.ref]
    assert [s.path for s in world.server.seen].count(PODS) == 2


def test_a_token_that_is_refused_for_good_is_no_evidence(world: EksWorld, play: Play) -> None:
    target = play.run()
    scheduler = world.another(["worse"])
    with pytest.raises(SchedulerUnavailable):
        scheduler.find()
    with pytest.raises(CallUnknown):
        scheduler.stop(target)
    assert play.see(target).state is ObjectState.RUNNING


def test_a_look_reads_nodes_and_events_only_where_they_matter(world: EksWorld, play: Play) -> None:
    play.run()
    play.start(Work.LAST, a=2)
    world.server.seen.clear()
    world.scheduler.find()
    assert [s.path for s in world.server.seen] == [
        "/api/v1/namespaces/kube-system",
        f"/api/v1/namespaces/{NAMESPACE}",
        JOBS,
        PODS,
    ]


# --- cancel windows ---


def test_f37_a_stop_before_the_object_is_visible_ends_it_when_it_is(
    world: EksWorld, play: Play
) -> None:
    order = play.order(Work.LAST)
    with world.replies_lost(), pytest.raises(CallUnknown):
        world.scheduler.start(order)
    (ref,) = play.refs()
    world.scheduler.stop(Target(ref, order.tag))
    play.settle_calls()
    assert play.refs() == []


def test_f37_a_stop_of_a_job_without_pods_ends_it(world: EksWorld, play: Play) -> None:
    target = play.start(Work.LAST)
    world.scheduler.stop(target)
    assert world.kube.store.get("jobs", NAMESPACE, name_of(target)) is None
    assert world.kube.pods(namespace=NAMESPACE) == []


def test_f37_a_stop_of_what_finds_no_place_ends_it(world: EksWorld, play: Play) -> None:
    order = replace(play.order(Work.LAST), spec=world.spec(Work.LAST, cpus_per_node=4000))
    started = world.scheduler.start(order)
    assert isinstance(started, Started)
    target = Target(started.ref, order.tag)
    world.scheduler.release(target)
    assert play.see(target).cause is Cause.NO_CAPACITY
    world.scheduler.stop(target)
    seen = play.wait_for_end(target)
    assert (seen.cause, seen.started_at) == (Cause.STOPPED, None)
    world.scheduler.acknowledge([target])
    assert play.refs() == []


def test_f37_a_delete_that_answers_404_is_success(world: EksWorld, play: Play) -> None:
    target = play.run()

    def judge(request: Request) -> Fault | None:
        if request.method == "DELETE":
            world.forget(target.ref)
        return None

    with world.server.faults(judge):
        world.scheduler.stop(target)
    assert play.refs() == []


def test_f37_a_stop_of_what_has_failed_deletes_nothing(world: EksWorld, play: Play) -> None:
    target, seen = play.end(Work.FAIL)
    world.server.seen.clear()
    world.scheduler.stop(target)
    assert {s.method for s in world.server.seen} == {"GET"}
    assert play.see(target) == seen


def test_a_stop_is_guarded_by_the_uid(world: EksWorld, play: Play) -> None:
    target = play.run()

    def judge(request: Request) -> Fault | None:
        if request.method == "DELETE":
            assert request.body["propagationPolicy"] == "Foreground"
            assert request.body["preconditions"]["uid"] == target.ref.rpartition("/")[2]
        return None

    with world.server.faults(judge):
        world.scheduler.stop(target)
    play.wait_for_none(target)


def test_a_ref_of_another_adapter_is_never_followed(world: EksWorld, play: Play) -> None:
    target = replace(play.run(), ref="prod:12@1700000000")
    for call in (world.scheduler.stop, world.scheduler.hold, world.scheduler.release):
        with pytest.raises(HitOther):
            call(target)


# --- hold, release, requeue ---


def test_held_is_verified_by_the_pods_and_not_by_the_condition(world: EksWorld, play: Play) -> None:
    target = run(world, play, "stubborn")
    world.scheduler.hold(target)
    going = play.see(target)
    assert (going.state, going.held) == (ObjectState.ENDING, False)
    assert world.processes(target.ref) == 1
    play.wait_until(target, lambda s: s.held, "held")
    assert world.processes(target.ref) == 0


def test_a_held_run_keeps_its_exit_code(world: EksWorld, play: Play) -> None:
    target = run(world, play, "trap")
    world.scheduler.hold(target)
    held = play.wait_until(target, lambda s: s.held, "held")
    assert "exit code 9" in (held.reason or "")
    world.scheduler.release(target)
    running = play.wait(target, ObjectState.RUNNING)
    assert (running.restarts, running.cause) == (0, None)
    assert len(world.pods(target.ref)) == 2


def test_a_requeue_is_one_guarded_patch_each_way_and_counted_on_the_object(
    world: EksWorld, play: Play
) -> None:
    target = play.run()
    bodies: list[Body] = []

    def judge(request: Request) -> Fault | None:
        if request.method == "PATCH":
            bodies.append(request.body)
        return None

    with world.server.faults(judge):
        world.scheduler.requeue(target)
    suspend, resume = bodies
    assert suspend["spec"] == {"suspend": True}
    assert resume["spec"]["suspend"] is False
    assert resume["metadata"]["annotations"]["dispatch/restarts"] == "1"
    assert all(b["metadata"]["resourceVersion"] and b["metadata"]["uid"] for b in bodies)
    play.wait(target, ObjectState.RUNNING)
    assert world.environment(target.ref)["DISPATCH_RESTARTS"] == "1"


def test_a_requeue_that_was_decided_on_another_run_sends_nothing(
    world: EksWorld, play: Play
) -> None:
    target = play.run()
    world.scheduler.requeue(target)
    play.wait(target, ObjectState.RUNNING)
    world.server.seen.clear()
    with pytest.raises(CallRefused):
        world.scheduler.requeue(target)
    assert {s.method for s in world.server.seen} == {"GET"}
    assert play.see(target).state is ObjectState.RUNNING


def test_a_requeue_cut_short_leaves_nothing_running_and_counts_nothing(
    world: EksWorld, play: Play
) -> None:
    target = play.run()
    lost = only("PATCH", name_of(target), Fault.CLOSE_AFTER)
    with world.server.faults(lost), pytest.raises(CallUnknown):
        world.scheduler.requeue(target)
    seen = play.wait_until(target, lambda s: s.held, "held")
    assert (seen.restarts, seen.holder) == (0, None)
    assert world.processes(target.ref) == 0
    # A release afterwards finishes it, as the new run that it is.
    world.scheduler.release(target)
    assert play.wait(target, ObjectState.RUNNING).restarts == 1


def test_a_requeue_whose_process_stood_still_resumes_nothing_after_its_bound(
    world: EksWorld, play: Play
) -> None:
    target = play.run()
    suspended: list[Request] = []

    def stand_still(request: Request) -> Fault | None:
        if request.method == "PATCH":
            suspended.append(request)
        elif suspended:
            world.advance(play.declared.call_bound_s)
        return None

    with world.server.faults(stand_still), pytest.raises(CallUnknown, match="in time"):
        world.scheduler.requeue(target)
    assert len(suspended) == 1
    assert play.wait_until(target, lambda s: s.held, "held").restarts == 0
    assert world.processes(target.ref) == 0


def test_a_run_of_which_a_rank_has_ended_is_never_run_again_in_part(
    world: EksWorld, play: Play
) -> None:
    target = run(world, play, "last", nodes=2)
    world.kube.end(world.pods(target.ref)[0], 0)
    for call in (world.scheduler.requeue, world.scheduler.hold):
        with pytest.raises(CallRefused, match="ranks"):
            call(target)
    assert play.see(target).state is ObjectState.RUNNING


def test_several_ranks_find_each_other_by_name(world: EksWorld, play: Play) -> None:
    target = run(world, play, "last", nodes=3)
    name = name_of(target)
    service = world.kube.store.get("services", NAMESPACE, name)
    assert service is not None
    assert service["spec"]["clusterIP"] == "None"
    assert service["metadata"]["ownerReferences"][0]["uid"] == target.ref.rpartition("/")[2]
    given = [
        world.kube.kubelets.processes[p["metadata"]["uid"]].environment
        for p in world.pods(target.ref)
    ]
    assert sorted(g["RANK"] for g in given) == ["0", "1", "2"]
    assert {(g["WORLD_SIZE"], g["MASTER_ADDR"]) for g in given} == {("3", f"{name}-0.{name}")}
    assert {p["spec"]["subdomain"] for p in world.pods(target.ref)} == {name}
    world.scheduler.stop(target)
    play.wait_for_end(target)
    world.scheduler.acknowledge([target])
    assert world.kube.store.get("services", NAMESPACE, name) is None


# --- evidence ---


def test_evidence_is_kept_until_it_is_acknowledged_and_output_longer(
    world: EksWorld, play: Play
) -> None:
    assert isinstance(world.scheduler, KeepsEvidence)
    target, seen = play.end(Work.FAIL)
    (pod,) = world.pods(target.ref)
    assert EVIDENCE in pod["metadata"]["finalizers"]
    world.scheduler.acknowledge([target])
    (pod,) = world.pods(target.ref)
    assert "finalizers" not in pod["metadata"]
    assert play.refs() == []
    assert play.scheduler.output(target, offset=0, limit=100).text.startswith("so it ended")
    job = world.kube.job(name_of(target), NAMESPACE)
    assert job["metadata"]["labels"][RECORDED] == "true"
    assert str(seen.exit_code) in job["metadata"]["annotations"][KEPT_END]


def test_what_is_recorded_goes_after_its_retention(world: EksWorld, play: Play) -> None:
    target, _ = play.end(Work.FAIL)
    world.scheduler.acknowledge([target])
    world.advance(world.settings.retention_s + 1)
    later, _ = play.end(Work.SUCCEED, a=2)
    world.scheduler.acknowledge([later])
    assert world.kube.store.get("jobs", NAMESPACE, name_of(target)) is None
    assert world.kube.store.get("jobs", NAMESPACE, name_of(later)) is not None


def test_an_acknowledgement_never_touches_what_runs(world: EksWorld, play: Play) -> None:
    target = play.run()
    world.scheduler.acknowledge([target])
    (pod,) = world.pods(target.ref)
    assert EVIDENCE in pod["metadata"]["finalizers"]
    assert play.see(target).state is ObjectState.RUNNING


def test_an_acknowledgement_cut_at_any_request_changes_no_end(world: EksWorld, play: Play) -> None:
    target = run(world, play, "last", nodes=2)
    # Neither the cause nor the code stands in the Job's own message.
    world.kube.evict(world.pods(target.ref)[1])
    seen = play.wait_for_end(target)
    assert (seen.cause, seen.exit_code) == (Cause.EVICTED, 143)
    for whole in range(1, 20):
        left = [whole]

        def judge(request: Request, left: list[int] = left) -> Fault | None:
            left[0] -= 1
            return Fault.CLOSE_AFTER if left[0] <= 0 else None

        try:
            with world.server.faults(judge):
                world.scheduler.acknowledge([target])
        except CallUnknown:
            again = play.look(target)
            assert again is None or (again.cause, again.exit_code, again.ended_at) == (
                seen.cause,
                seen.exit_code,
                seen.ended_at,
            )
        else:
            break
    else:
        pytest.fail("it never got through")
    assert play.refs() == []


def test_pods_of_jobs_without_a_record_are_let_go_of_and_others_kept(
    world: EksWorld, play: Play
) -> None:
    kept, _ = play.end(Work.FAIL)
    settled, _ = play.end(Work.FAIL, job="jobsettled0001")
    assert world.scheduler.free(lambda job, ended_at: job == JOB) == 1
    assert EVIDENCE in world.pods(kept.ref)[0]["metadata"]["finalizers"]
    assert "finalizers" not in world.pods(settled.ref)[0]["metadata"]
    # When Dispatch is gone for good, nothing is wanted any more.
    assert world.scheduler.free(lambda job, ended_at: False) == 1
    assert "finalizers" not in world.pods(kept.ref)[0]["metadata"]


def test_pods_of_a_recorded_job_never_come_back_as_orphans(world: EksWorld, play: Play) -> None:
    target, _ = play.end(Work.FAIL)
    (pod,) = world.pods(target.ref)
    # Somebody has freed it by hand before the record had its end.
    del pod["metadata"]["finalizers"]
    world.kube.store.changed("pods", pod)
    world.scheduler.acknowledge([target])
    assert pod["metadata"]["labels"][RECORDED] == "true"
    # And somebody takes the mark off.
    del pod["metadata"]["labels"][RECORDED]
    world.kube.store.changed("pods", pod)
    assert play.refs() == []


def test_letting_go_keeps_the_finalizers_of_others(world: EksWorld, play: Play) -> None:
    target, _ = play.end(Work.FAIL)
    (pod,) = world.pods(target.ref)
    pod["metadata"]["finalizers"].append("somebody.example/keeps")
    world.kube.store.changed("pods", pod)
    world.scheduler.acknowledge([target])
    assert pod["metadata"]["finalizers"] == ["somebody.example/keeps"]


def test_kueues_eviction_is_seen_and_its_suspension_left_alone(authority: Authority) -> None:
    from tests.schedulers.eks.world import KueueWorld

    world = KueueWorld(authority, kueue_queue="team-queue")
    try:
        play = Play(world)
        assert not play.can(Capability.GATED_START)
        target = play.start(Work.LAST)
        waits = play.see(target)
        assert (waits.state, waits.held, waits.holder) == (ObjectState.PENDING, True, "kueue")
        world.kube.kueue.admits = True
        play.wait(target, ObjectState.RUNNING)
        world.kube.kueue.admits = False
        world.kube.kueue.evict(world.kube.job(name_of(target), NAMESPACE))
        world.kube.settle()
        seen = play.wait_until(target, lambda s: s.held, "suspended by Kueue")
        assert seen.holder == "kueue"
        assert "WorkloadEvictedDueToPreempted" in (seen.reason or "")
        world.kube.kueue.admits = True
        play.wait(target, ObjectState.RUNNING)
    finally:
        world.close()
