"""The table of evidence and causes, row by row, and what several pods show together."""

from __future__ import annotations

from typing import Any

import pytest

from dispatch.record.names import Cause, ObjectState
from dispatch.schedulers.eks.explain import Explanation, explain
from tests.schedulers.eks.pods import COMPLETE, FAILED, SUSPENDED, Body, condition, job, pod

S = ObjectState


def shown(document: Body) -> tuple[ObjectState | None, Cause | None]:
    seen = explain(document)
    return seen.state, seen.cause


def captured(seen_job: Body, *pods: Body, **more: Any) -> Explanation:
    return explain({"job": seen_job, "pods": list(pods), **more})


def rank(index: int, body: Body) -> Body:
    body["metadata"] |= {
        "name": f"d-job-1-1-{index}-abcde",
        "uid": f"u-{index}",
        "labels": {"batch.kubernetes.io/job-completion-index": str(index)},
    }
    return body


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("PreemptionByScheduler", Cause.PREEMPTED),
        ("EvictionByEvictionAPI", Cause.EVICTED),
        ("DeletionByTaintManager", Cause.EVICTED),
        ("DeletionByPodGC", Cause.NODE_LOST),
        ("DeletionByDeviceTaintManager", Cause.DEVICE_FAILED),
        ("AReasonOfKubernetes199", Cause.INTERRUPTED),
    ],
)
@pytest.mark.parametrize("exit_code", [137, 143, 1, 0])
def test_f27_a_disruption_outranks_the_exit_code_that_it_brought_about(
    reason: str, cause: Cause, exit_code: int
) -> None:
    phase = "Succeeded" if exit_code == 0 else "Failed"
    seen = explain(pod(phase, exit_code=exit_code, disruption=reason, deleted=True))
    assert (seen.state, seen.cause, seen.exit_code) == (S.FAILED, cause, exit_code)


def test_f27_kueues_eviction_is_a_preemption() -> None:
    # The body of the case, word for word.
    seen = explain(
        {
            "metadata": {
                "deletionTimestamp": "2026-07-25T21:26:48Z",
                "labels": {"dispatch/record": "r1"},
            },
            "status": {
                "phase": "Failed",
                "conditions": [
                    {
                        "type": "TerminationTarget",
                        "status": "True",
                        "reason": "WorkloadEvictedDueToPreempted",
                    }
                ],
                "containerStatuses": [
                    {"name": "main", "state": {"terminated": {"exitCode": 137, "reason": "Error"}}}
                ],
            },
        }
    )
    assert (seen.state, seen.cause, seen.exit_code) == (S.FAILED, Cause.PREEMPTED, 137)


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("Evicted", Cause.NODE_PRESSURE),
        ("Terminated", Cause.NODE_SHUTDOWN),
        ("Preempting", Cause.PREEMPTED),
    ],
)
def test_f27_what_the_kubelet_ends_says_why_in_the_pods_reason(reason: str, cause: Cause) -> None:
    body = pod("Failed", exit_code=143, disruption="TerminationByKubelet", reason="Error")
    body["status"]["reason"] = reason
    assert shown(body) == (S.FAILED, cause)


def test_f27_out_of_memory_under_a_disruption_is_the_disruption() -> None:
    body = pod("Failed", exit_code=137, reason="OOMKilled", disruption="EvictionByEvictionAPI")
    assert shown(body) == (S.FAILED, Cause.EVICTED)


def test_f23_out_of_memory_is_told_from_a_kill() -> None:
    assert shown(pod("Failed", exit_code=137, reason="OOMKilled")) == (
        S.FAILED,
        Cause.OUT_OF_MEMORY,
    )
    assert shown(pod("Failed", exit_code=137)) == (S.FAILED, Cause.APP_ERROR)


def test_f23_a_child_that_was_killed_alone_shows_only_its_parents_success() -> None:
    events = [{"reason": "SystemOOM", "type": "Warning", "involvedObject": {"kind": "Node"}}]
    done = job(COMPLETE, succeeded=1)
    seen = captured(done, pod("Succeeded", exit_code=0), podEvents=events)
    assert (seen.state, seen.cause) == (S.SUCCEEDED, None)


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("The node was low on resource: memory. Threshold quantity: 100Mi", Cause.NODE_PRESSURE),
        ('Usage of EmptyDir volume "e" exceeds the limit "5Mi". ', Cause.DISK_PRESSURE),
        (
            "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi.",
            Cause.DISK_PRESSURE,
        ),
    ],
)
def test_f23_an_eviction_by_the_kubelet_names_what_was_short(message: str, cause: Cause) -> None:
    body = pod("Failed", exit_code=137)
    body["status"] |= {"reason": "Evicted", "message": message}
    assert shown(body) == (S.FAILED, cause)


@pytest.mark.parametrize(
    ("reason", "code", "cause"),
    [
        ("StartError", 128, Cause.LAUNCH_FAILED),
        ("ContainerCannotRun", 127, Cause.LAUNCH_FAILED),
        ("ContainerStatusUnknown", 137, Cause.LOST),
    ],
)
def test_the_runtimes_own_reasons(reason: str, code: int, cause: Cause) -> None:
    assert shown(pod("Failed", exit_code=code, reason=reason)) == (S.FAILED, cause)


def test_a_status_that_is_unknown_has_no_exit_code() -> None:
    seen = explain(pod("Failed", exit_code=137, reason="ContainerStatusUnknown"))
    assert seen.exit_code is None


@pytest.mark.parametrize(
    "reason", ["OutOfcpu", "OutOfmemory", "OutOfpods", "NodeShutdown", "UnexpectedAdmissionError"]
)
def test_a_node_that_rejects_a_pod_is_told_from_one_that_ran_it(reason: str) -> None:
    assert shown(pod("Failed") | {"status": {"phase": "Failed", "reason": reason}}) == (
        S.FAILED,
        Cause.NODE_REJECTED,
    )


def test_a_node_that_shuts_down_ends_what_ran_on_it() -> None:
    body = pod("Failed", exit_code=143)
    body["status"] |= {"reason": "Terminated", "message": "in response to imminent node shutdown."}
    assert shown(body) == (S.FAILED, Cause.NODE_SHUTDOWN)


def test_a_pods_own_deadline_is_a_timeout() -> None:
    body = pod("Failed", exit_code=143)
    body["status"]["reason"] = "DeadlineExceeded"
    assert shown(body) == (S.FAILED, Cause.TIMEOUT)


def test_success_after_a_deletion_was_asked_for_is_none() -> None:
    assert shown(pod("Succeeded", exit_code=0, deleted=True)) == (S.FAILED, Cause.INTERRUPTED)


def test_success_that_was_written_before_the_deletion_was_seen_is_one() -> None:
    body = pod("Succeeded", exit_code=0, deleted=True)
    ready = {"type": "Ready", "status": "False", "reason": "PodCompleted", "observedGeneration": 1}
    body["status"]["conditions"].append(ready)
    assert shown(body) == (S.SUCCEEDED, None)
    ready["observedGeneration"] = 2
    assert shown(body) == (S.FAILED, Cause.INTERRUPTED)


def test_a_failure_that_nothing_explains_is_lost() -> None:
    assert shown(pod("Failed")) == (S.FAILED, Cause.LOST)


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("ErrImagePull", Cause.IMAGE_PULL_FAILED),
        ("ImagePullBackOff", Cause.IMAGE_PULL_FAILED),
        ("ErrImageNeverPull", Cause.IMAGE_PULL_FAILED),
        ("InvalidImageName", Cause.IMAGE_PULL_FAILED),
        ("CreateContainerConfigError", Cause.INVALID_SPEC),
        ("CreateContainerError", Cause.INVALID_SPEC),
        ("RunContainerError", Cause.LAUNCH_FAILED),
        ("ContainerCreating", None),
        ("PodInitializing", None),
    ],
)
def test_waits_that_never_end_by_themselves_have_a_cause(reason: str, cause: Cause | None) -> None:
    waiting = [{"name": "main", "state": {"waiting": {"reason": reason, "message": "why"}}}]
    assert shown(pod("Pending", containerStatuses=waiting)) == (S.PENDING, cause)


def test_the_words_of_a_wait_stay_the_same_while_nothing_changes() -> None:
    def words(reason: str, message: str) -> str:
        waiting = [{"name": "main", "state": {"waiting": {"reason": reason, "message": message}}}]
        return explain(pod("Pending", containerStatuses=waiting)).detail

    failed = 'failed to pull and unpack image "x:1": not found'
    back_off = f'Back-off pulling image "x:1": ErrImagePull: {failed}'
    assert words("ErrImagePull", failed) == words("ImagePullBackOff", back_off)

    def unschedulable(message: str) -> str:
        why = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        return explain(pod("Pending", conditions=[{**why, "message": message}])).detail

    rest = " no new claims to deallocate, preemption: 0/4 nodes are available: 4 No victims."
    one = "0/4 nodes are available: 1 node(s) had untolerated taint(s), 3 Insufficient cpu."
    two = "0/9 nodes are available: 7 Insufficient cpu, 2 node(s) had untolerated taint(s)."
    assert unschedulable(one + rest) == unschedulable(two + rest)


@pytest.mark.parametrize("reason", ["Unschedulable", "SchedulingGated"])
def test_what_finds_no_place_lacks_capacity(reason: str) -> None:
    why = {"type": "PodScheduled", "status": "False", "reason": reason, "message": "no"}
    assert shown(pod("Pending", conditions=[why])) == (S.PENDING, Cause.NO_CAPACITY)


def test_a_lost_node_leaves_it_open_whether_the_process_lives() -> None:
    going = pod("Running", disruption="DeletionByTaintManager", deleted=True)
    unready = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-07-25T21:20:00Z"}
    going["status"]["conditions"].append(unready)
    seen = explain(going)
    assert (seen.state, seen.cause) == (S.ENDING, Cause.NODE_LOST)
    assert seen.lost_at is not None


def test_a_taint_on_a_ready_node_is_an_eviction() -> None:
    going = pod("Running", disruption="DeletionByTaintManager", deleted=True)
    node = {
        "kind": "Node",
        "metadata": {"name": "n1"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    seen = captured(job(active=1), going, nodes=[node])
    assert (seen.state, seen.cause) == (S.ENDING, Cause.EVICTED)


# --- a Job with its pods ---


def test_an_end_needs_the_jobs_condition_and_its_pods_evidence() -> None:
    failed = pod("Failed", exit_code=3)
    assert captured(job(active=0), failed).state is S.ENDING
    target = condition("FailureTarget", "BackoffLimitExceeded")
    assert captured(job(target), failed).state is S.ENDING
    assert captured(job(FAILED), failed).state is S.FAILED
    assert captured(job(FAILED), pod("Running")).state is S.ENDING
    succeeded = pod("Succeeded", exit_code=0)
    assert captured(job(condition("SuccessCriteriaMet")), succeeded).state is S.ENDING
    assert captured(job(COMPLETE), succeeded).state is S.SUCCEEDED


def test_complete_is_no_success_where_a_pod_was_deleted_or_evicted() -> None:
    deleted = pod("Succeeded", exit_code=0, deleted=True)
    assert captured(job(COMPLETE), deleted).cause is Cause.INTERRUPTED
    evicted = pod("Succeeded", exit_code=0, disruption="EvictionByEvictionAPI")
    assert captured(job(COMPLETE), evicted).cause is Cause.EVICTED
    one = captured(job(COMPLETE, completions=2), rank(0, pod("Succeeded", exit_code=0)))
    assert (one.state, one.cause) == (S.FAILED, Cause.LOST)


def test_f28_what_vanished_without_a_trace_is_lost_and_nothing_is_invented() -> None:
    gone = captured(job(FAILED, failed=1))
    assert (gone.state, gone.cause, gone.exit_code) == (S.FAILED, Cause.LOST, None)
    # Active went from 1 to 0, and nobody said anything: no end, and no success.
    silent = captured(job(startTime="2026-07-25T21:26:40Z"))
    assert (silent.state, silent.cause) == (S.PENDING, None)


def test_f28_the_jobs_own_message_is_the_last_trace() -> None:
    said = (
        "Container main for pod ml/d-0-x failed with exit code 9 matching FailJob rule at index 1"
    )
    seen = captured(job(condition("Failed", "PodFailurePolicy", said)))
    assert (seen.cause, seen.exit_code) == (Cause.APP_ERROR, 9)
    said = "Pod ml/d-0-x has condition DisruptionTarget matching FailJob rule at index 0"
    assert captured(job(condition("Failed", "PodFailurePolicy", said))).cause is Cause.INTERRUPTED
    # 137 alone may be the program's, the kernel's or the kubelet's.
    said = "Container main for pod ml/d-0-x failed with exit code 137 matching FailJob rule at"
    seen = captured(job(condition("Failed", "PodFailurePolicy", said)))
    assert (seen.cause, seen.exit_code) == (Cause.LOST, 137)


def test_the_first_row_decides_among_several_ranks() -> None:
    crashed = rank(0, pod("Failed", exit_code=1))
    preempted = rank(1, pod("Failed", exit_code=143, disruption="PreemptionByScheduler"))
    seen = captured(job(FAILED, completions=2), crashed, preempted)
    assert seen.cause is Cause.PREEMPTED
    out_of_memory = rank(1, pod("Failed", exit_code=137, reason="OOMKilled"))
    assert captured(job(FAILED, completions=2), crashed, out_of_memory).cause is Cause.OUT_OF_MEMORY


def test_a_sibling_that_the_job_ended_explains_nothing() -> None:
    crashed = rank(1, pod("Failed", exit_code=7))
    ended = rank(0, pod("Failed", exit_code=143, deleted=True))
    seen = captured(job(FAILED, completions=2), ended, crashed)
    assert (seen.cause, seen.exit_code) == (Cause.APP_ERROR, 7)


def test_a_person_who_deletes_the_pod_isnt_the_programs_fault() -> None:
    for code in (143, 137):
        seen = captured(job(FAILED), pod("Failed", exit_code=code, deleted=True))
        assert (seen.cause, seen.exit_code) == (Cause.STOPPED_OUTSIDE, code)
    # A code of the program's own is the program's word.
    seen = captured(job(FAILED), pod("Failed", exit_code=4, deleted=True))
    assert (seen.cause, seen.exit_code) == (Cause.APP_ERROR, 4)


def test_several_ranks_run_once_all_have_started() -> None:
    both = [rank(0, pod("Running")), rank(1, pod("Running"))]
    assert captured(job(completions=2, active=2), *both).state is S.RUNNING
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    half = [rank(0, pod("Running")), rank(1, pod("Pending", conditions=[unschedulable]))]
    seen = captured(job(completions=2, active=2), *half)
    assert (seen.state, seen.cause) == (S.PENDING, Cause.NO_CAPACITY)


def test_a_pod_of_an_earlier_run_is_no_end_of_this_one() -> None:
    again = job(startTime="2026-07-25T21:26:40Z")
    again["metadata"]["annotations"] = {"dispatch/restarts": "1"}
    kept = pod("Failed", exit_code=3, deleted=True)
    # Two clocks wrote these times; the count tells the runs apart.
    kept["metadata"] |= {
        "creationTimestamp": "2026-07-25T21:26:41Z",
        "annotations": {"dispatch/restarts": "0"},
    }
    seen = captured(again, kept)
    assert (seen.state, seen.cause, seen.restarts) == (S.PENDING, None, 1)
    kept["metadata"]["annotations"] = {"dispatch/restarts": "1"}
    assert captured(again, kept).state is S.ENDING


def test_a_pod_that_was_deleted_before_its_job_was_resumed_is_no_end_of_this_run() -> None:
    resumed = job(startTime="2026-07-25T21:26:59Z")
    kept = pod("Failed", exit_code=9, deleted=True)
    kept["metadata"]["creationTimestamp"] = "2026-07-25T21:26:10Z"
    assert captured(resumed, kept).state is S.PENDING


def test_held_takes_more_than_the_condition() -> None:
    going = captured(job(SUSPENDED, suspend=True, terminating=1), pod("Running", deleted=True))
    assert (going.state, going.held) == (S.ENDING, False)
    counted = captured(job(SUSPENDED, suspend=True, terminating=1))
    assert (counted.state, counted.held) == (S.ENDING, False)
    unseen = captured(job(suspend=True, terminating=0))
    assert (unseen.state, unseen.held) == (S.ENDING, False)
    kept = pod("Failed", exit_code=9, deleted=True)
    held = captured(job(SUSPENDED, suspend=True, terminating=0), kept)
    assert (held.state, held.held) == (S.PENDING, True)


def test_f22_what_is_held_still_tells_of_the_lost_node_of_its_run() -> None:
    lost = condition("DisruptionTarget", "DeletionByPodGC", "no execution")
    kept = pod("Failed", conditions=[lost], deleted=True)
    held = captured(job(SUSPENDED, suspend=True, terminating=0), kept)
    assert (held.state, held.held) == (S.PENDING, True)
    assert held.lost_at is not None
    alive = captured(
        job(SUSPENDED, suspend=True, terminating=0), pod("Failed", exit_code=9, deleted=True)
    )
    assert alive.lost_at is None


def test_a_deadline_of_the_jobs_is_a_timeout_whatever_its_pods_say() -> None:
    over = condition("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
    seen = captured(job(over), pod("Failed", exit_code=143, deleted=True))
    assert seen.cause is Cause.TIMEOUT


def test_pods_that_may_not_be_created_say_why_in_an_event() -> None:
    def waits(message: str) -> Explanation:
        about = {"kind": "Job", "uid": "j-1"}
        event = {"reason": "FailedCreate", "message": message, "type": "Warning"}
        return captured(job(), podEvents=[{**event, "involvedObject": about}])

    quota = 'Error creating: pods "d-0-{}" is forbidden: exceeded quota: rq, '
    quota += "requested: pods=1, used: pods={}, limited: pods=4"
    assert waits(quota.format("a", 3)).cause is Cause.NO_CAPACITY
    assert waits(quota.format("a", 3)).detail == waits(quota.format("b", 4)).detail
    account = 'Error creating: pods "d-0-a" is forbidden: serviceaccount "x" not found'
    assert waits(account).cause is Cause.INVALID_SPEC


def test_pods_without_their_job_are_alive_as_long_as_they_are() -> None:
    assert explain({"pods": [pod("Running")]}).state is S.RUNNING
    assert explain({"pods": [pod("Running", deleted=True)]}).state is S.ENDING
