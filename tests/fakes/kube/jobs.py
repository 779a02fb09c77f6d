"""The Job controller: pods by index, its own book-keeping, conditions in their order."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from tests.fakes.kube import defaults, events
from tests.fakes.kube.api import Api
from tests.fakes.kube.defaults import INDEX, TRACKING
from tests.fakes.kube.store import Body, Store, parse, stamp

BACK_OFF_S = 10


def over(pod: Body) -> bool:
    return pod["status"]["phase"] in ("Succeeded", "Failed")


def leaving(pod: Body) -> bool:
    return "deletionTimestamp" in pod["metadata"] and not over(pod)


def ready(pod: Body) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def index_of(pod: Body) -> int:
    return int(pod["metadata"]["labels"][INDEX])


def condition(body: Body, kind: str) -> Body | None:
    for found in body["status"].get("conditions", []):
        if found["type"] == kind and found["status"] == "True":
            return dict(found)
    return None


def ranges(indexes: set[int]) -> str:
    """Return indexes as Kubernetes writes them: `0-2,5`."""
    parts: list[list[int]] = []
    for i in sorted(indexes):
        if parts and parts[-1][-1] == i - 1:
            parts[-1] = [parts[-1][0], i]
        else:
            parts.append([i])
    return ",".join("-".join(str(i) for i in dict.fromkeys(p)) for p in parts)


def indexes(written: str) -> set[int]:
    found: set[int] = set()
    for part in written.split(","):
        first, _, last = part.partition("-")
        if first:
            found |= set(range(int(first), int(last or first) + 1))
    return found


class JobController:
    def __init__(self, store: Store, api: Api) -> None:
        self.store = store
        self.api = api
        self.wait_until: dict[str, datetime] = {}

    def sync(self, job: Body) -> None:
        """Bring one Job a step further, and write its status once."""
        before = repr(job["status"])
        status = job["status"]
        pods = self.store.owned("pods", job["metadata"]["uid"])
        self._count(job, pods)
        done = condition(job, "Complete") or condition(job, "Failed")
        if done is None and "deletionTimestamp" not in job["metadata"]:
            self._steer(job, pods)
        pods = self.store.owned("pods", job["metadata"]["uid"])
        active = sum(1 for p in pods if not over(p) and not leaving(p))
        status["active"] = active
        status["ready"] = sum(1 for p in pods if not over(p) and not leaving(p) and ready(p))
        status["terminating"] = sum(1 for p in pods if leaving(p))
        status["uncountedTerminatedPods"] = {}
        for field in ("active", "failed", "succeeded"):
            if not status.get(field):
                status.pop(field, None)
        job["status"] = {k: status[k] for k in sorted(status)}
        if repr(job["status"]) != before:
            self.store.changed("jobs", job)

    def due(self) -> list[datetime]:
        """When something here happens by itself."""
        found = list(self.wait_until.values())
        for job in self.store.of("jobs"):
            limit, started = (
                job["spec"].get("activeDeadlineSeconds"),
                job["status"].get("startTime"),
            )
            if limit and started:
                found.append(parse(started) + timedelta(seconds=limit))
            ttl, done = job["spec"].get("ttlSecondsAfterFinished"), self._finished_at(job)
            if ttl is not None and done is not None:
                found.append(done + timedelta(seconds=ttl))
        return found

    def expire(self, job: Body) -> None:
        """Delete a finished Job whose time to live is over, as the TTL controller does."""
        ttl, done = job["spec"].get("ttlSecondsAfterFinished"), self._finished_at(job)
        if ttl is None or done is None or "deletionTimestamp" in job["metadata"]:
            return
        if self.store.now() >= done + timedelta(seconds=ttl):
            self.api._going("jobs", job, "foregroundDeletion")

    def _finished_at(self, job: Body) -> datetime | None:
        done = condition(job, "Complete") or condition(job, "Failed")
        return None if done is None else parse(done["lastTransitionTime"])

    # --- counting what has ended ---

    def _count(self, job: Body, pods: list[Body]) -> None:
        status, fresh = job["status"], False
        for pod in pods:
            finalizers = pod["metadata"].get("finalizers", [])
            if not over(pod) or TRACKING not in finalizers:
                continue
            if pod["status"]["phase"] == "Succeeded":
                done = indexes(status.get("completedIndexes", "")) | {index_of(pod)}
                status["completedIndexes"] = ranges(done)
                status["succeeded"] = status.get("succeeded", 0) + 1
            else:
                self._failed(job, pod)
                fresh = True
            finalizers.remove(TRACKING)
            if not finalizers:
                del pod["metadata"]["finalizers"]
            self.store.changed("pods", pod)
        if fresh:
            wait = BACK_OFF_S * 2 ** (status.get("failed", 1) - 1)
            until = self.store.now() + timedelta(seconds=wait)
            self.wait_until[job["metadata"]["uid"]] = until

    def _failed(self, job: Body, pod: Body) -> None:
        status = job["status"]
        action, message = self._policy(job, pod)
        if action == "Ignore":
            return
        status["failed"] = status.get("failed", 0) + 1
        if condition(job, "FailureTarget") or "deletionTimestamp" in job["metadata"]:
            return
        if action == "FailJob":
            self._set(job, "FailureTarget", "PodFailurePolicy", message)
        elif status["failed"] > job["spec"]["backoffLimit"]:
            said = "Job has reached the specified backoff limit"
            self._set(job, "FailureTarget", "BackoffLimitExceeded", said)

    def _policy(self, job: Body, pod: Body) -> tuple[str, str]:
        named = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        rules = job["spec"].get("podFailurePolicy", {}).get("rules", [])
        for number, rule in enumerate(rules):
            action, words = rule["action"], f"matching {rule['action']} rule at index {number}"
            for wanted in rule.get("onPodConditions", []):
                if condition(pod, wanted["type"]):
                    said = f"Pod {named} has condition {wanted['type']} {words}"
                    return action, said
            codes = rule.get("onExitCodes")
            for container in pod["status"].get("containerStatuses", []) if codes else []:
                ended = container["state"].get("terminated")
                if ended is None or not ended["exitCode"]:
                    continue
                among = ended["exitCode"] in codes["values"]
                if among is (codes["operator"] == "In"):
                    said = f"Container {container['name']} for pod {named} failed with exit code"
                    return action, f"{said} {ended['exitCode']} {words}"
        return "Count", ""

    # --- steering ---

    def _steer(self, job: Body, pods: list[Body]) -> None:
        live = [p for p in pods if not over(p)]
        target = condition(job, "FailureTarget") or self._overran(job)
        if target is not None:
            for pod in live:
                self._end_pod(job, pod)
            if not any(not over(p) for p in self.store.owned("pods", job["metadata"]["uid"])):
                self._finish(job, "Failed", target["reason"], target["message"])
            return
        if job["status"].get("succeeded", 0) >= job["spec"]["completions"]:
            said = "Reached expected number of succeeded pods"
            if condition(job, "SuccessCriteriaMet") is None:
                self._set(job, "SuccessCriteriaMet", "CompletionsReached", said)
                return
            if not live:
                job["status"]["completionTime"] = stamp(self.store.now())
                self._finish(job, "Complete", "CompletionsReached", said)
            return
        if job["spec"]["suspend"]:
            self._suspend(job, live)
        else:
            self._run(job, live)

    def _overran(self, job: Body) -> Body | None:
        limit, started = job["spec"].get("activeDeadlineSeconds"), job["status"].get("startTime")
        if not limit or not started or job["spec"]["suspend"]:
            return None
        if self.store.now() < parse(started) + timedelta(seconds=limit):
            return None
        said = "Job was active longer than specified deadline"
        return self._set(job, "FailureTarget", "DeadlineExceeded", said)

    def _suspend(self, job: Body, live: list[Body]) -> None:
        for pod in live:
            if "deletionTimestamp" not in pod["metadata"]:
                # Taken off before, so that a pod which ends for this is no failure of its Job.
                pod["metadata"]["finalizers"].remove(TRACKING)
                if not pod["metadata"]["finalizers"]:
                    del pod["metadata"]["finalizers"]
            self._end_pod(job, pod)
        if condition(job, "Suspended") is None:
            job["status"].pop("startTime", None)
            self._set(job, "Suspended", "JobSuspended", "Job suspended")
            events.tell(self.store, job, "Job", "Suspended", "Job suspended", "job-controller")

    def _run(self, job: Body, live: list[Body]) -> None:
        status = job["status"]
        if condition(job, "Suspended"):
            for found in status["conditions"]:
                if found["type"] == "Suspended":
                    at = stamp(self.store.now())
                    found |= {"status": "False", "reason": "JobResumed", "message": "Job resumed"}
                    found |= {"lastProbeTime": at, "lastTransitionTime": at}
            status["startTime"] = stamp(self.store.now())
            events.tell(self.store, job, "Job", "Resumed", "Job resumed", "job-controller")
        status.setdefault("startTime", stamp(self.store.now()))
        if self.store.now() < self.wait_until.get(job["metadata"]["uid"], self.store.now()):
            return
        self.wait_until.pop(job["metadata"]["uid"], None)
        replaced_late = job["spec"]["podReplacementPolicy"] == "Failed"
        there = {index_of(p) for p in live if replaced_late or not leaving(p)}
        done = indexes(status.get("completedIndexes", ""))
        wanted = job["spec"]["parallelism"] - (sum(map(leaving, live)) if replaced_late else 0)
        for index in range(job["spec"]["completions"]):
            if index in there or index in done or len(there) >= max(wanted, 0):
                continue
            if not self._create(job, index):
                break
            there.add(index)

    def _create(self, job: Body, index: int) -> bool:
        namespace = job["metadata"]["namespace"]
        pod = defaults.pod(job, index, self.store.suffix())
        name = pod["metadata"]["name"]
        limit = self.api.quota.get(namespace)
        used = sum(1 for p in self.store.of("pods", namespace) if not over(p))
        if limit is not None and used >= limit:
            said = (
                f'Error creating: pods "{name}" is forbidden: exceeded quota: rq, requested: '
                f"pods=1, used: pods={used}, limited: pods={limit}"
            )
            events.tell(self.store, job, "Job", "FailedCreate", said, "job-controller")
            again = self.store.now() + timedelta(seconds=BACK_OFF_S)
            self.wait_until[job["metadata"]["uid"]] = again
            return False
        self.store.add("pods", pod)
        said = f"Created pod: {name}"
        events.tell(self.store, job, "Job", "SuccessfulCreate", said, "job-controller")
        return True

    def _end_pod(self, job: Body, pod: Body) -> None:
        if "deletionTimestamp" in pod["metadata"]:
            return
        self.api.delete_pod(pod)
        said = f"Deleted pod: {pod['metadata']['name']}"
        events.tell(self.store, job, "Job", "SuccessfulDelete", said, "job-controller")

    def _finish(self, job: Body, kind: str, reason: str, message: str) -> None:
        self._set(job, kind, reason, message)
        told = "Completed" if kind == "Complete" else reason
        said = "Job completed" if kind == "Complete" else message
        events.tell(self.store, job, "Job", told, said, "job-controller")

    def _set(self, job: Body, kind: str, reason: str, message: str) -> Body:
        at = stamp(self.store.now())
        made: dict[str, Any] = {
            "lastProbeTime": at,
            "lastTransitionTime": at,
            "message": message,
            "reason": reason,
            "status": "True",
            "type": kind,
        }
        others = [c for c in job["status"].get("conditions", []) if c["type"] != kind]
        job["status"]["conditions"] = [*others, made]
        return made
