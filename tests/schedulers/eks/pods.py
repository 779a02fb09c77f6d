"""Small bodies of pods and Jobs, with only what a decision needs."""

from __future__ import annotations

from typing import Any

Body = dict[str, Any]

AT = "2026-07-25T21:26:4{}Z"


def pod(
    phase: str,
    *,
    exit_code: int | None = None,
    reason: str = "Error",
    disruption: str | None = None,
    kind: str = "DisruptionTarget",
    deleted: bool = False,
    **status: Any,
) -> Body:
    """Return a pod; `exit_code` is its main container's."""
    body: Body = {
        "kind": "Pod",
        "metadata": {"name": "d-job-1-1-0-abcde", "uid": "u-1", "generation": 1},
        "spec": {"containers": [{"name": "main"}], "nodeName": "n1"},
        "status": {"phase": phase, "conditions": [], **status},
    }
    if exit_code is not None:
        ended = {
            "exitCode": exit_code,
            "reason": "Completed" if exit_code == 0 else reason,
            "startedAt": AT.format(0),
            "finishedAt": AT.format(8),
        }
        body["status"]["containerStatuses"] = [{"name": "main", "state": {"terminated": ended}}]
    elif phase == "Running":
        running = {"running": {"startedAt": AT.format(0)}}
        body["status"]["containerStatuses"] = [{"name": "main", "state": running}]
    if disruption is not None:
        body["status"]["conditions"].append(
            {
                "type": kind,
                "status": "True",
                "reason": disruption,
                "lastTransitionTime": AT.format(7),
            }
        )
    if deleted:
        body["metadata"] |= {
            "deletionTimestamp": AT.format(8),
            "deletionGracePeriodSeconds": 0,
            "generation": 2,
        }
    return body


def condition(kind: str, reason: str = "", message: str = "") -> Body:
    return {
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": AT.format(9),
    }


def job(*conditions: Body, suspend: bool = False, completions: int = 1, **status: Any) -> Body:
    return {
        "kind": "Job",
        "metadata": {"name": "d-job-1-1", "uid": "j-1", "generation": 2},
        "spec": {"suspend": suspend, "completions": completions, "backoffLimit": 0},
        "status": {"conditions": list(conditions), **status},
    }


FAILED = condition("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
COMPLETE = condition("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
SUSPENDED = condition("Suspended", "JobSuspended", "Job suspended")
