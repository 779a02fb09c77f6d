"""Kueue, as far as its documentation and code say what it does to a Job; none was recorded.

It suspends what bears its label, admits it by lifting the suspension, and evicts by marking the
pods and suspending again. What is deactivated isn't admitted again.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from tests.fakes.kube.api import Api
from tests.fakes.kube.jobs import condition, over
from tests.fakes.kube.kubelet import set_condition
from tests.fakes.kube.store import Body, Store, parse, stamp

QUEUE = "kueue.x-k8s.io/queue-name"
MANAGER = "kueue.x-k8s.io/manager"
"""Whose of a TrainJob's runtimePatches is Kueue's."""


def _active(job: Body) -> bool:
    """Whether anything of a TrainJob is active (trainjob_controller.go, IsActive)."""
    return any(row.get("active") for row in job["status"].get("jobsStatus", []))


class Kueue:
    """The controller.

    Attributes:
        admits: Whether there is quota.
    """

    def __init__(self, store: Store, api: Api) -> None:
        self.store = store
        self.api = api
        self.admits = False
        api.created = self.admission

    def sync(self) -> None:
        for plural, job in [(p, b) for p in ("jobs", "trainjobs") for b in self.store.of(p)]:
            if QUEUE not in job["metadata"].get("labels", {}):
                continue
            if "deletionTimestamp" in job["metadata"] or "ownerReferences" in job["metadata"]:
                continue
            if condition(job, "Complete") or condition(job, "Failed"):
                continue
            workload = self.workload(job) or self._make(plural, job)
            quiet = not job["status"].get("terminating") and not _active(job)
            suspended = job["spec"]["suspend"] and quiet
            known = any(c["type"] == "Suspended" for c in job["status"].get("conditions", []))
            ready = suspended and known and workload["spec"]["active"]
            if ready and self.admits and self.store.now() >= self._turn(workload):
                self._set(workload, "Admitted", "True", "Admitted", "The workload is admitted")
                self._set(workload, "Evicted", "False", "QuotaReserved", "Quota reserved")
                self._suspend(plural, job, value=False)

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
        """Take the place of a Job or a TrainJob away.

        A TrainJob is only suspended (pkg/controller/jobs/trainjob of kubernetes-sigs/kueue, Stop):
        its pods bear no mark of Kueue's, which alone its pod integration writes.
        """
        plural = "trainjobs" if "runtimeRef" in job["spec"] else "jobs"
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
        self._suspend(plural, job, value=True)

    def _suspend(self, plural: str, job: Body, *, value: bool) -> None:
        """Suspend or resume; of a TrainJob its place is written into Kueue's runtimePatch first."""
        for patch in job["spec"].get("runtimePatches", []):
            if patch["manager"] == MANAGER:
                inner = patch["trainingRuntimeSpec"]["template"]["spec"]
                inner["replicatedJobs"] = [] if value else [{"name": "node"}]
        job["spec"]["suspend"] = value
        job["metadata"]["generation"] += 1
        self.store.changed(plural, job)

    def admission(self, plural: str, body: Body) -> None:
        """Suspend a new TrainJob and add a runtimePatch (trainjob_webhook.go, Default)."""
        if plural != "trainjobs" or QUEUE not in body["metadata"].get("labels", {}):
            return
        body["spec"]["suspend"] = True
        if self.api.trainer not in ("2.0", "2.1"):
            ours = {"manager": MANAGER, "trainingRuntimeSpec": {"template": {"spec": {}}}}
            body["spec"].setdefault("runtimePatches", []).append(ours)

    def _make(self, plural: str, job: Body) -> Body:
        meta = job["metadata"]
        version, kind = ("batch/v1", "Job")
        if plural == "trainjobs":
            version, kind = ("trainer.kubeflow.org/v1alpha1", "TrainJob")
        owner = {"apiVersion": version, "kind": kind, "name": meta["name"], "uid": meta["uid"]}
        return self.store.add(
            "workloads",
            {
                "metadata": {
                    "name": f"{kind.lower()}-{meta['name']}",
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
