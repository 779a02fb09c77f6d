"""Kueue, as far as its documentation and code say what it does to a Job; none was recorded.

It suspends what bears its label, admits it by lifting the suspension, and evicts by marking the
pods and suspending again. What is deactivated isn't admitted again.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from tests.fakes.kube.api import Api
from tests.fakes.kube.jobs import over
from tests.fakes.kube.kubelet import set_condition
from tests.fakes.kube.store import Body, Store, parse, stamp

QUEUE = "kueue.x-k8s.io/queue-name"


class Kueue:
    """The controller.

    Attributes:
        admits: Whether there is quota.
    """

    def __init__(self, store: Store, api: Api) -> None:
        self.store = store
        self.api = api
        self.admits = False

    def sync(self) -> None:
        for job in list(self.store.of("jobs")):
            if QUEUE not in job["metadata"]["labels"] or "deletionTimestamp" in job["metadata"]:
                continue
            workload = self.workload(job) or self._make(job)
            suspended = job["spec"]["suspend"] and not job["status"].get("terminating")
            known = any(c["type"] == "Suspended" for c in job["status"].get("conditions", []))
            ready = suspended and known and workload["spec"]["active"]
            if ready and self.admits and self.store.now() >= self._turn(workload):
                self._set(workload, "Admitted", "True", "Admitted", "The workload is admitted")
                self._set(workload, "Evicted", "False", "QuotaReserved", "Quota reserved")
                self._suspend(job, value=False)

    def due(self) -> list[datetime]:
        return [self._turn(w) for w in self.store.of("workloads")] if self.admits else []

    def _turn(self, workload: Body) -> datetime:
        """When a Workload's turn comes: a second after it was queued."""
        times = [c["lastTransitionTime"] for c in workload["status"]["conditions"]]
        queued = max([workload["metadata"]["creationTimestamp"], *times])
        return parse(queued) + timedelta(seconds=1)

    def workload(self, job: Body) -> Body | None:
        return next(iter(self.store.owned("workloads", job["metadata"]["uid"])), None)

    def evict(self, job: Body, reason: str = "Preempted") -> None:
        """Take a Job's place away."""
        workload = self.workload(job)
        assert workload is not None
        if reason == "Deactivated":
            workload["spec"]["active"] = False
        for pod in self.store.owned("pods", job["metadata"]["uid"]):
            if not over(pod):
                why = f"WorkloadEvictedDueTo{reason}"
                set_condition(self.store, pod, "TerminationTarget", "True", why, "evicted")
                self.store.changed("pods", pod)
        self._set(workload, "Evicted", "True", reason, "Preempted to accommodate a workload")
        self._set(workload, "Admitted", "False", "NoReservation", "no quota is reserved")
        self._suspend(job, value=True)

    def _suspend(self, job: Body, *, value: bool) -> None:
        job["spec"]["suspend"] = value
        job["metadata"]["generation"] += 1
        self.store.changed("jobs", job)

    def _make(self, job: Body) -> Body:
        meta = job["metadata"]
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"]}
        return self.store.add(
            "workloads",
            {
                "metadata": {
                    "name": f"job-{meta['name']}",
                    "namespace": meta["namespace"],
                    "ownerReferences": [owner],
                },
                "spec": {"active": True, "queueName": meta["labels"][QUEUE]},
                "status": {"conditions": []},
            },
        )

    def _set(self, workload: Body, kind: str, status: str, reason: str, message: str) -> None:
        others = [c for c in workload["status"]["conditions"] if c["type"] != kind]
        made = {
            "lastTransitionTime": stamp(self.store.now()),
            "message": message,
            "reason": reason,
            "status": status,
            "type": kind,
        }
        workload["status"]["conditions"] = [*others, made]
        self.store.changed("workloads", workload)
