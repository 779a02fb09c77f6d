"""What `dispatch explain` makes of TrainJobs and JobSets: class, state and cause."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from dispatch.record.names import Cause, ObjectState
from dispatch.schedulers.eks.explain import explain
from dispatch.schedulers.eks.response import AnswerClass
from tests.schedulers.eks.pods import AT, Body, pod
from tests.schedulers.eks.test_recordings import recording

SAID = "jobset failed due to one or more job failures (first failed job: tj1-node-0)"


def condition(kind: str, reason: str, message: str = "", status: str = "True") -> Body:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": AT.format(9),
    }


def trainjob(*conditions: Body, **spec: Any) -> Body:
    body: Body = deepcopy(recording("trainjob-created-no-controller"))
    body["spec"] |= spec
    body["status"] = {"conditions": list(conditions)}
    return body


def jobset(*conditions: Body, status: dict[str, Any] | None = None, **spec: Any) -> Body:
    body: Body = deepcopy(recording("jobset-created-no-controller"))
    body["spec"] |= spec
    body["status"] = {"conditions": list(conditions), **(status or {})}
    return body


@pytest.mark.parametrize(
    ("body", "state", "cause"),
    [
        (trainjob(), "pending", None),
        (trainjob(condition("Complete", "AllJobsCompleted")), "succeeded", None),
        (trainjob(condition("Failed", "FailedJobs", SAID)), "failed", Cause.LOST),
        (trainjob(condition("Failed", "DeadlineExceeded")), "failed", Cause.TIMEOUT),
        (
            trainjob(condition("Failed", "TrainingRuntimeNotSupported")),
            "failed",
            Cause.INVALID_SPEC,
        ),
        (trainjob(condition("Suspended", "Resumed", status="False")), "pending", None),
        (jobset(), "pending", None),
        (jobset(condition("Completed", "AllJobsCompleted")), "succeeded", None),
        (jobset(condition("Failed", "ReachedMaxRestarts", SAID)), "failed", Cause.LOST),
        (jobset(condition("Restarting", "DefaultFailurePolicy", SAID)), "pending", None),
        (jobset(status={"replicatedJobsStatus": [{"name": "node", "ready": 1}]}), "running", None),
    ],
)
def test_one_alone_tells_its_state_and_proves_no_success(
    body: Body, state: str, cause: Cause | None
) -> None:
    seen = explain(body)
    assert (seen.answer, seen.state, seen.cause) == (AnswerClass.SIGHTING, state, cause)
    assert seen.unproven or cause in (Cause.TIMEOUT, Cause.INVALID_SPEC)


def test_what_is_suspended_is_held() -> None:
    for body in (trainjob(suspend=True), jobset(suspend=True)):
        seen = explain(body)
        assert (seen.state, seen.held) == (ObjectState.PENDING, True)


def test_restarts_are_counted() -> None:
    assert explain(jobset(status={"restarts": 2})).restarts == 2


def of_jobset(body: Body, attempt: int = 0, index: int = 0) -> Body:
    """Return a pod as one of that JobSet's."""
    body["metadata"]["uid"] = f"u-{attempt}-{index}"
    body["metadata"]["creationTimestamp"] = AT.format(attempt)
    body["metadata"]["labels"] = {
        "jobset.sigs.k8s.io/jobset-name": "js1",
        "jobset.sigs.k8s.io/jobset-uid": jobset()["metadata"]["uid"],
        "jobset.sigs.k8s.io/replicatedjob-name": "node",
        "jobset.sigs.k8s.io/restart-attempt": str(attempt),
        "batch.kubernetes.io/job-completion-index": str(index),
    }
    return body


def test_with_its_pods_a_failed_jobset_has_their_cause_and_code() -> None:
    failed = jobset(condition("Failed", "FailedJobs", SAID))
    pods = [
        of_jobset(pod("Failed", exit_code=3)),
        of_jobset(pod("Succeeded", exit_code=0), index=1),
    ]
    capture = {"jobset": failed, "pods": pods}
    listed = {"kind": "List", "items": [failed, *pods]}
    for document in (capture, listed):
        seen = explain(document)
        assert (seen.state, seen.cause, seen.exit_code) == (
            ObjectState.FAILED,
            Cause.APP_ERROR,
            3,
        )
        assert not seen.unproven
        assert len(seen.parts) == 2


def test_with_all_its_pods_a_completed_jobset_is_a_proven_success() -> None:
    done = jobset(condition("Completed", "AllJobsCompleted"))
    pods = [of_jobset(pod("Succeeded", exit_code=0), index=n) for n in range(2)]
    seen = explain({"jobset": done, "pods": pods})
    assert (seen.state, seen.exit_code, seen.unproven) == (ObjectState.SUCCEEDED, 0, False)
    short = explain({"jobset": done, "pods": pods[:1]})
    assert (short.state, short.cause, short.unproven) == (ObjectState.FAILED, Cause.LOST, True)


def test_after_a_restart_the_run_before_is_told_and_doesnt_decide() -> None:
    restarted = jobset(status={"restarts": 1})
    pods = [of_jobset(pod("Failed", exit_code=3)), of_jobset(pod("Running"), attempt=1)]
    seen = explain({"jobset": restarted, "pods": pods})
    assert (seen.state, seen.cause, seen.restarts) == (ObjectState.RUNNING, None, 1)
    assert "exit code 3" in seen.detail


@pytest.mark.parametrize(
    "message",
    [
        'admission webhook "validator.trainjob.trainer.kubeflow.org" denied the request: '
        'spec.RuntimeRef: Invalid value: {}: ClusterTrainingRuntime "x" not found',
        'admission webhook "vjobset.kb.io" denied the request: invalid replicatedJob name',
    ],
)
def test_a_webhook_that_denies_a_spec_is_a_refusal_of_the_spec(message: str) -> None:
    body = {"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden"}
    seen = explain({**body, "message": message})
    assert (seen.answer, seen.cause) == (AnswerClass.REFUSED, Cause.INVALID_SPEC)


def test_a_list_of_trainjobs_is_told_apart() -> None:
    failed = trainjob(condition("Failed", "DeadlineExceeded"))
    seen = explain({"kind": "TrainJobList", "items": [trainjob(), failed]})
    assert (seen.cause, len(seen.parts)) == (Cause.TIMEOUT, 2)
