"""How each recording is read: its class, and the state and cause where it shows one.

Written down from what the recording shows, not from what the code says. A Job alone proves no
success, and BackoffLimitExceeded alone names no cause: both take the pods' own evidence.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Expected:
    answer: str
    state: str | None = None
    cause: str | None = None
    exit_code: int | None = None
    held: bool = False
    proven: bool = True


def shows(
    state: str | None,
    cause: str | None = None,
    exit_code: int | None = None,
    *,
    held: bool = False,
    proven: bool = True,
) -> Expected:
    return Expected("sighting", state, cause, exit_code, held, proven)


def hints(state: str, cause: str | None = None, exit_code: int | None = None) -> Expected:
    """What events and a Job without its pods tell: a hint, and no proof."""
    return shows(state, cause, exit_code, proven=False)


REFUSED = Expected("refused")
BAD_SPEC = Expected("refused", cause="invalid_spec")
NAME_TAKEN = Expected("refused", cause="name_taken")
NO_EVIDENCE = Expected("no evidence")

EXPECTED: dict[str, Expected] = {
    # Only creations: the Job has pods, and what they do isn't said.
    "delete-events-background": hints("pending"),
    "delete-events-foreground": hints("pending"),
    "delete-events-orphan": hints("pending"),
    # The Job is gone at once; its processes may live on.
    "delete-reply-background": Expected("unknown"),
    "delete-reply-foreground": shows("ending", "stopped_outside", proven=False),
    # Orphaned pods live on without their Job.
    "delete-reply-orphan": hints("running"),
    "err-400-field-selector": REFUSED,
    "err-400-strict-unknown-field": BAD_SPEC,
    "err-404": Expected("not known"),
    "err-409-already-exists": NAME_TAKEN,
    "err-409-conflict-patch-rv": REFUSED,
    "err-409-conflict-put": REFUSED,
    "err-409-delete-rv-precondition": REFUSED,
    "err-409-delete-uid-precondition": REFUSED,
    "err-409-object-being-deleted": NAME_TAKEN,
    "err-409-ssa-conflict": REFUSED,
    "err-410-continue-expired": NO_EVIDENCE,
    "err-422-immutable": BAD_SPEC,
    "err-422-name": BAD_SPEC,
    "err-504-future-rv": NO_EVIDENCE,
    "err-jobset-invalid": BAD_SPEC,
    "event-eventsv1": shows("pending", held=True, proven=False),
    "job-01-created": hints("pending"),
    "job-02-pods-running": shows("running"),
    "job-02-running": hints("running"),
    "job-03-one-succeeded": hints("running"),
    "job-04-complete": hints("succeeded"),
    "job-04-events": hints("succeeded"),
    "job-04-pods": shows("succeeded", exit_code=0, proven=False),
    "job-10-one-failed": hints("running"),
    # The first life of rank 0 ended; the Job has started it again.
    "job-10-pods": shows("running", "app_error", 1),
    "job-11-backofflimit": hints("failed", "lost"),
    "job-11-events": hints("failed", "lost"),
    # The last life of rank 0 decided.
    "job-11-pods": shows("failed", "out_of_memory", 137),
    "job-12-failindex": hints("running"),
    "job-13-events": hints("failed", "app_error", 43),
    # The Job's own message keeps the exit code.
    "job-13-podfailurepolicy": shows("failed", "app_error", 43),
    # Suspension was asked for; two pods live.
    "job-20-suspend-patch-reply": hints("ending"),
    # Suspended=True while two pods are going: not held yet.
    "job-21-suspended": hints("ending"),
    "job-22-events": hints("pending"),
    "job-22-resumed": hints("running"),
    "job-24-created-suspended": shows("pending", held=True, proven=False),
    "job-failedcreate-quota-events": hints("pending", "no_capacity"),
    "job-preempted-ignored": hints("pending"),
    "job-preempted-nopolicy": hints("failed", "lost"),
    "jobset-created-no-controller": hints("pending"),
    "moto-eks-describe-cluster": NO_EVIDENCE,
    # A Node shows no job; what runs on it may live on.
    "node-unreachable": shows(None, "node_lost"),
    "pod-evicted-by-api": shows("ending", "evicted"),
    # The first row that matches is the exit code's; a pod alone doesn't tell who deleted it.
    "pod-evidence-kept-by-finalizer": shows("failed", "app_error", 143),
    "pod-node-lost-events": hints("running", "node_lost"),
    "pod-on-lost-node": shows("ending", "node_lost"),
    "pod-preempted": shows("ending", "preempted"),
    "pod-preempted-events": hints("ending", "preempted"),
    "pod-unschedulable": shows("pending", "no_capacity"),
    "pod-unschedulable-events": hints("pending", "no_capacity"),
    "real-badconfig": shows("pending", "invalid_spec"),
    "real-badimage": shows("pending", "image_pull_failed"),
    # Only an event says that the volume's secret is missing.
    "real-badvol": shows("pending", "invalid_spec"),
    "real-ddl": shows("failed", "timeout"),
    # Complete, and its pod, which was deleted and exited 0, is gone.
    "real-deleted-graceful": hints("failed", "lost"),
    "real-dollar": shows("failed", "app_error", 3),
    # The same as the Complete Job above, to anyone who sees the Job alone: not proven.
    "real-evict-exit0-counts-as-success": hints("succeeded"),
    "real-evicted-ephem": shows("failed", "disk_pressure", 137),
    "real-exit137": shows("failed", "app_error", 137),
    "real-exit3": shows("failed", "app_error", 3),
    "real-initfail": shows("failed", "launch_failed"),
    "real-live": shows("failed", "app_error", 137),
    "real-logmsg": shows("failed", "app_error", 9),
    "real-nevpull": shows("pending", "image_pull_failed"),
    "real-noexec": shows("failed", "launch_failed", 128),
    "real-ok": shows("succeeded", exit_code=0),
    # BackoffLimitExceeded, and the pod is gone: nothing may be invented.
    "real-onfailure-end": shows("failed", "lost"),
    "real-onfailure-evidence-finalizer": shows("failed", "app_error", 4),
    "real-oom": shows("failed", "out_of_memory", 137),
    # No pod is left alive, and the ended ones are kept beside it.
    "real-suspend-evidence-finalizer": shows("pending", held=True),
    "real-watch-pod-delete-graceful": shows("failed", "interrupted", 0),
    "real-watch-pod-delete-stubborn": shows("failed", "app_error", 137),
    "trainjob-created-no-controller": hints("pending"),
    "ttl-events": hints("failed", "lost"),
    "watch-job-events": hints("succeeded"),
}
