"""The JobSet controller, as far as its public code says what it does; no recording shows it.

Each behaviour names where it is written, by path in kubernetes-sigs/jobset at its main branch of
August 2026 (release 0.12 is near to it). Played: one Job for each replica, restarts, suspension,
success and failure policies, TTL, the webhook's defaults. Not played: in-place restarts, restarts
of single Jobs, ordered startup, volume claims.
"""

from __future__ import annotations

from copy import deepcopy
from datetime import datetime, timedelta
from typing import Any

from tests.fakes.kube import defaults
from tests.fakes.kube.api import Api
from tests.fakes.kube.jobs import condition
from tests.fakes.kube.store import Body, Store, parse, stamp

NAME = "jobset.sigs.k8s.io/jobset-name"
UID = "jobset.sigs.k8s.io/jobset-uid"
ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"
REPLICATED = "jobset.sigs.k8s.io/replicatedjob-name"
INDEX = "jobset.sigs.k8s.io/job-index"


def default(body: Body) -> None:
    """Fill in a new JobSet; pkg/webhooks/jobset_webhook.go, Default."""
    spec = body["spec"]
    spec.setdefault("suspend", False)
    spec.setdefault("successPolicy", {"operator": "All"})
    spec.setdefault("network", {"enableDNSHostnames": True, "publishNotReadyAddresses": True})
    for one in spec["replicatedJobs"]:
        one.setdefault("replicas", 1)
        one.setdefault("groupName", "default")
        job = one["template"]["spec"]
        job.setdefault("completionMode", "Indexed")
        job["template"]["spec"].setdefault("restartPolicy", "OnFailure")


def finished(jobset: Body) -> Body | None:
    return condition(jobset, "Completed") or condition(jobset, "Failed")


def set_condition(
    store: Store, body: Body, kind: str, status: str, reason: str, message: str
) -> bool:
    """Write a condition as metav1 has it; return whether anything changed."""
    conditions = body["status"].setdefault("conditions", [])
    made = {
        "lastTransitionTime": stamp(store.now()),
        "message": message,
        "reason": reason,
        "status": status,
        "type": kind,
    }
    for number, old in enumerate(conditions):
        if old["type"] == kind:
            if old["status"] == status:
                made["lastTransitionTime"] = old["lastTransitionTime"]
            conditions[number] = made
            return bool(made != old)
    conditions.append(made)
    return True


class JobSetController:
    """The controller; it does nothing to a JobSet that is being deleted (Reconcile)."""

    def __init__(self, store: Store, api: Api) -> None:
        self.store = store
        self.api = api

    def sync(self, jobset: Body) -> None:
        """Bring one JobSet a step further; pkg/controllers/jobset_controller.go, reconcile."""
        if "deletionTimestamp" in jobset["metadata"]:
            return
        before = repr(jobset["status"])
        restarts = jobset["status"].setdefault("restarts", 0)
        owned = self.store.owned("jobs", jobset["metadata"]["uid"])
        present = [j for j in owned if int(j["metadata"]["labels"][ATTEMPT]) >= restarts]
        self._count(jobset, present)
        if finished(jobset) is not None:
            self._finish(jobset, present)
        else:
            self._steer(jobset, owned, present)
        if repr(jobset["status"]) != before:
            self.store.changed("jobsets", jobset)

    def due(self) -> list[datetime]:
        """When something here happens by itself."""
        return [at for js in self.store.of("jobsets") if (at := self._expires_at(js)) is not None]

    def _steer(self, jobset: Body, owned: list[Body], present: list[Body]) -> None:
        for job in owned:
            # getChildJobs, deleteJobs: of an earlier attempt, deleted in the foreground.
            if job not in present and "deletionTimestamp" not in job["metadata"]:
                self.api._going("jobs", job, "foregroundDeletion")
        failed = [j for j in present if condition(j, "Failed")]
        if failed:
            self._fail_or_restart(jobset, failed[0])
            return
        if self._succeeded(jobset, present):
            return
        self._create(jobset, owned)
        present = [
            j
            for j in self.store.owned("jobs", jobset["metadata"]["uid"])
            if int(j["metadata"]["labels"][ATTEMPT]) >= jobset["status"]["restarts"]
        ]
        active = [j for j in present if not condition(j, "Complete")]
        if jobset["spec"]["suspend"]:
            self._suspend(jobset, active)
        else:
            self._resume(jobset, active)

    # --- ends ---

    def _finish(self, jobset: Body, present: list[Body]) -> None:
        """Delete what is still active, and the JobSet itself once its TTL is over.

        reconcile; pkg/controllers/ttl_after_finished.go, which deletes in the foreground.
        """
        for job in present:
            done = condition(job, "Complete") or condition(job, "Failed")
            if done is None and "deletionTimestamp" not in job["metadata"]:
                self.api._going("jobs", job, "foregroundDeletion")
        expires = self._expires_at(jobset)
        if expires is not None and self.store.now() >= expires:
            self.api._going("jobsets", jobset, "foregroundDeletion")

    def _expires_at(self, jobset: Body) -> datetime | None:
        ttl, done = jobset["spec"].get("ttlSecondsAfterFinished"), finished(jobset)
        if ttl is None or done is None or "deletionTimestamp" in jobset["metadata"]:
            return None
        return parse(done["lastTransitionTime"]) + timedelta(seconds=ttl)

    def _succeeded(self, jobset: Body, present: list[Body]) -> bool:
        """Apply the success policy; pkg/controllers/success_policy.go."""
        policy, wanted = jobset["spec"]["successPolicy"], jobset["spec"]["replicatedJobs"]
        targets = policy.get("targetReplicatedJobs") or [one["name"] for one in wanted]
        done = [
            j
            for j in present
            if condition(j, "Complete") and j["metadata"]["labels"][REPLICATED] in targets
        ]
        needed = sum(one["replicas"] for one in wanted if one["name"] in targets)
        needed = 1 if policy["operator"] == "Any" else needed
        if len(done) < needed:
            return False
        said = "jobset completed successfully"
        set_condition(self.store, jobset, "Completed", "True", "AllJobsCompleted", said)
        jobset["status"]["terminalState"] = "Completed"
        return True

    def _fail_or_restart(self, jobset: Body, failed: Body) -> None:
        """Apply the failure policy; pkg/controllers/failure_policy.go, executeFailurePolicy.

        Without one the JobSet fails with its first Job. With one, all Jobs are made anew, at most
        `maxRestarts` times.
        """
        status, policy = jobset["status"], jobset["spec"].get("failurePolicy")
        first = f" (first failed job: {failed['metadata']['name']})"
        if policy is None:
            reason, said = "FailedJobs", "jobset failed due to one or more job failures"
        elif status.get("restartsCountTowardsMax", 0) >= policy.get("maxRestarts", 0):
            reason = "ReachedMaxRestarts"
            said = "jobset failed due to reaching max number of restarts"
        else:
            status["restarts"] += 1
            status["restartsCountTowardsMax"] = status.get("restartsCountTowardsMax", 0) + 1
            said = f"applying RestartJobSet failure policy action{first}"
            set_condition(self.store, jobset, "Restarting", "True", "DefaultFailurePolicy", said)
            return
        set_condition(self.store, jobset, "Failed", "True", reason, said + first)
        status["terminalState"] = "Failed"

    # --- Jobs ---

    def _create(self, jobset: Body, owned: list[Body]) -> None:
        """Make the Jobs that aren't there; one that is still going has the name (shouldCreateJob).

        A replicated job with `dependsOn` waits for what it depends on (pkg/controllers/
        depends_on.go).
        """
        taken = {j["metadata"]["name"] for j in owned}
        for one in jobset["spec"]["replicatedJobs"]:
            if not all(self._reached(jobset, d) for d in one.get("dependsOn", [])):
                continue
            for index in range(one["replicas"]):
                name = f"{jobset['metadata']['name']}-{one['name']}-{index}"
                if name in taken:
                    continue
                space = jobset["metadata"]["namespace"]
                if self.store.get("jobs", space, name) is not None:
                    continue  # of a JobSet that is gone, and going itself; it tries again
                self.store.add("jobs", self._job(jobset, one, index, name), defaults.job)

    def _reached(self, jobset: Body, dependency: Body) -> bool:
        counts = {one["name"]: one for one in jobset["status"].get("replicatedJobsStatus", [])}
        seen = counts.get(dependency["name"], {})
        key = "succeeded" if dependency["status"] == "Complete" else "ready"
        return bool(seen.get(key, 0) + (seen.get("succeeded", 0) if key == "ready" else 0))

    def _job(self, jobset: Body, one: Body, index: int, name: str) -> Body:
        """Return a child Job: its own metadata and its pods' alike (labelAndAnnotateObject)."""
        template: Body = deepcopy(one["template"])
        meta = jobset["metadata"]
        marks = {
            NAME: meta["name"],
            UID: meta["uid"],
            REPLICATED: one["name"],
            ATTEMPT: str(jobset["status"]["restarts"]),
            INDEX: str(index),
        }
        own, pods = template.get("metadata", {}), template["spec"]["template"]
        pods.setdefault("metadata", {})
        for metadata in (own, pods["metadata"]):
            metadata["labels"] = {**metadata.get("labels", {}), **marks}
            metadata["annotations"] = {**metadata.get("annotations", {}), **marks}
        pods["spec"]["subdomain"] = meta["name"]
        return {
            "metadata": {
                **own,
                "name": name,
                "namespace": meta["namespace"],
                "ownerReferences": [owner(jobset, "jobset.x-k8s.io/v1alpha2", "JobSet")],
            },
            "spec": {**template["spec"], "suspend": jobset["spec"]["suspend"]},
        }

    # --- suspension ---

    def _suspend(self, jobset: Body, active: list[Body]) -> None:
        for job in active:
            if not job["spec"]["suspend"] and "deletionTimestamp" not in job["metadata"]:
                job["spec"]["suspend"] = True
                job["metadata"]["generation"] += 1
                self.store.changed("jobs", job)
        said = "jobset is suspended"
        set_condition(self.store, jobset, "Suspended", "True", "SuspendedJobs", said)

    def _resume(self, jobset: Body, active: list[Body]) -> None:
        """Resume the Jobs, with what may have changed of their pods meanwhile (resumeJob)."""
        templates = {
            one["name"]: one["template"]["spec"]["template"]
            for one in jobset["spec"]["replicatedJobs"]
        }
        for job in active:
            if not job["spec"]["suspend"]:
                continue
            job["status"].pop("startTime", None)
            ours = templates[job["metadata"]["labels"][REPLICATED]]
            pods = job["spec"]["template"]
            for key in ("labels", "annotations"):
                pods["metadata"][key] = {
                    **pods["metadata"].get(key, {}),
                    **ours.get("metadata", {}).get(key, {}),
                }
            selector = ours["spec"].get("nodeSelector")
            if selector:
                pods["spec"]["nodeSelector"] = {**pods["spec"].get("nodeSelector", {}), **selector}
            job["spec"]["suspend"] = False
            job["metadata"]["generation"] += 1
            self.store.changed("jobs", job)
        if condition(jobset, "Suspended"):
            said = "jobset is resumed"
            set_condition(self.store, jobset, "Suspended", "False", "ResumeJobs", said)

    def _count(self, jobset: Body, present: list[Body]) -> None:
        """Write how many Jobs do what (calculateReplicatedJobStatuses)."""
        rows = []
        for one in jobset["spec"]["replicatedJobs"]:
            ours = [j for j in present if j["metadata"]["labels"][REPLICATED] == one["name"]]
            row: dict[str, Any] = dict.fromkeys(
                ("active", "failed", "ready", "succeeded", "suspended"), 0
            )
            for job in ours:
                if condition(job, "Complete"):
                    row["succeeded"] += 1
                elif condition(job, "Failed"):
                    row["failed"] += 1
                else:
                    status = job["status"]
                    whole = status.get("ready", 0) + status.get("succeeded", 0)
                    row["active"] += status.get("active", 0) > 0
                    row["suspended"] += job["spec"]["suspend"]
                    row["ready"] += whole >= job["spec"]["parallelism"]
            rows.append({"name": one["name"], **row})
        if any(any(v for k, v in row.items() if k != "name") for row in rows) or present:
            jobset["status"]["replicatedJobsStatus"] = rows


def owner(body: Body, version: str, kind: str) -> Body:
    return {
        "apiVersion": version,
        "blockOwnerDeletion": True,
        "controller": True,
        "kind": kind,
        "name": body["metadata"]["name"],
        "uid": body["metadata"]["uid"],
    }
