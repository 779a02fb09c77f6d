"""A kubelet that is played, on a Node object of its own, for a control plane that has no node.

The API server, its controllers and its scheduler are real; only the processes aren't. So the suite
says the same on a cluster with machines and on one without.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from dispatch.schedulers.eks.client import KubeClient, path
from tests.fakes.kube.kubelet import SIGKILL, Program, expand

Body = dict[str, Any]
LABEL = "dispatch-test/played"
HEARTBEAT = timedelta(seconds=5)


def stamp(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class Process:
    """What would be a process if there were a machine."""

    environment: dict[str, str]
    program: Program
    started: datetime
    ends_at: datetime | None
    exit_code: int
    reason: str | None = None


class PlayedKubelet:
    """The kubelet of one Node, moved on by `step`."""

    def __init__(
        self, client: KubeClient, namespace: str, programs: dict[str, Program], name: str
    ) -> None:
        self.client = client
        self.namespace = namespace
        self.programs = programs
        self.name = name
        self.processes: dict[str, Process] = {}
        self.lost = False
        self._beaten: datetime | None = None
        self._create_node()

    def now(self) -> datetime:
        return datetime.now(UTC)

    # --- the Node ---

    def _create_node(self) -> None:
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": {LABEL: self.namespace}},
            "spec": {"taints": [{"key": LABEL, "effect": "NoExecute", "value": self.namespace}]},
        }
        answer = self.client.post(path("api", "v1", "nodes"), node)
        assert answer.ok, answer.body
        self._beat()

    def _beat(self) -> None:
        now = self.now()
        if self._beaten is not None and now < self._beaten + HEARTBEAT:
            return
        self._beaten = now
        capacity = {"cpu": "64", "memory": "256Gi", "pods": "100"}
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "played",
            "lastHeartbeatTime": stamp(now),
            "lastTransitionTime": stamp(now),
        }
        status = {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}
        where = path("api", "v1", "nodes", self.name, "status")
        self.client.patch(where, {"status": status})

    def lose(self) -> None:
        """Fall silent, and let the cloud take the Node object away; processes live on a little."""
        self.lost = True
        self.client.delete(path("api", "v1", "nodes", self.name), {})
        for process in self.processes.values():
            process.ends_at = self.now() + timedelta(seconds=5)

    def remove(self) -> None:
        self.client.delete(path("api", "v1", "nodes", self.name), {})

    # --- pods ---

    def pods(self) -> list[Body]:
        answer = self.client.get(path("api", "v1", "namespaces", self.namespace, "pods"))
        assert answer.ok, answer.body
        assert isinstance(answer.body, dict)
        return list(answer.body["items"])

    def step(self) -> None:
        """Do what a kubelet does in a moment."""
        if self.lost:
            now = self.now()
            dead = [u for u, p in self.processes.items() if p.ends_at and p.ends_at <= now]
            for uid in dead:
                del self.processes[uid]
            return
        self._beat()
        for pod in self.pods():
            if pod["spec"].get("nodeName") == self.name:
                self._sync(pod)

    def _sync(self, pod: Body) -> None:
        meta, phase, now = pod["metadata"], pod["status"].get("phase"), self.now()
        process = self.processes.get(meta["uid"])
        if phase in ("Succeeded", "Failed"):
            if "deletionTimestamp" in meta and meta.get("deletionGracePeriodSeconds"):
                self._let_go(pod)
            return
        if "deletionTimestamp" not in meta and process is None:
            self._start(pod)
            return
        if "deletionTimestamp" in meta and process is None:
            self._end(pod, Process({}, Program(), now, now, SIGKILL))
            return
        assert process is not None
        if "deletionTimestamp" in meta and process.ends_at is None:
            self._told_to_go(pod, process)
        if process.ends_at is not None and process.ends_at <= now:
            del self.processes[meta["uid"]]
            self._end(pod, process)

    def _told_to_go(self, pod: Body, process: Process) -> None:
        kill_at = datetime.fromisoformat(pod["metadata"]["deletionTimestamp"])
        code = process.program.on_term
        by_itself = self.now() + timedelta(seconds=process.program.term_s)
        if code is None or by_itself > kill_at:
            process.ends_at, process.exit_code = kill_at, SIGKILL
        else:
            process.ends_at, process.exit_code = by_itself, code

    def _start(self, pod: Body) -> None:
        container, now = pod["spec"]["containers"][0], self.now()
        given = environment(pod)
        words = [expand(w, given) for w in container.get("command", [])]
        program = self.programs[words[0]]
        limit = container.get("resources", {}).get("limits", {}).get("memory", "")
        oom = limit.endswith("Mi") and program.memory_mb > int(limit[:-2])
        runs = program.runs_s
        ends = now if oom else None if runs is None else now + timedelta(seconds=runs)
        code = SIGKILL if oom else program.exit_code
        reason = "OOMKilled" if oom else None
        self.processes[pod["metadata"]["uid"]] = Process(given, program, now, ends, code, reason)
        self._write(pod, "Running", {"running": {"startedAt": stamp(now)}}, ready=True)

    def _end(self, pod: Body, process: Process) -> None:
        ended = {
            "exitCode": process.exit_code,
            "reason": process.reason or ("Error" if process.exit_code else "Completed"),
            "startedAt": stamp(process.started),
            "finishedAt": stamp(self.now()),
        }
        phase = "Failed" if process.exit_code else "Succeeded"
        self._write(pod, phase, {"terminated": ended}, ready=False)
        if "deletionTimestamp" in pod["metadata"]:
            self._let_go(pod)

    def _write(self, pod: Body, phase: str, state: Body, *, ready: bool) -> None:
        container, now = pod["spec"]["containers"][0], stamp(self.now())
        written = {
            "name": container["name"],
            "image": container["image"],
            "imageID": "played",
            "lastState": {},
            "ready": ready,
            "restartCount": 0,
            "started": ready,
            "state": state,
        }
        kept = [c for c in pod["status"].get("conditions", []) if c["type"] != "Ready"]
        made = {"type": "Ready", "status": str(ready), "lastTransitionTime": now}
        status = {
            "phase": phase,
            "startTime": pod["status"].get("startTime", now),
            "conditions": [*kept, made],
            "containerStatuses": [written],
        }
        where = path("api", "v1", "namespaces", self.namespace, "pods", pod["metadata"]["name"])
        self.client.patch(f"{where}/status", {"status": status})

    def _let_go(self, pod: Body) -> None:
        where = path("api", "v1", "namespaces", self.namespace, "pods", pod["metadata"]["name"])
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        self.client.delete(where, options)

    def disrupt(self, pod: Body, reason: str) -> None:
        """Write who ends a pod, as the scheduler and the eviction API do, and delete it."""
        made = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": reason,
            "message": "played",
            "lastTransitionTime": stamp(self.now()),
        }
        kept = pod["status"].get("conditions", [])
        where = path("api", "v1", "namespaces", self.namespace, "pods", pod["metadata"]["name"])
        self.client.patch(f"{where}/status", {"status": {"conditions": [*kept, made]}})
        self.client.delete(where, {})


def environment(pod: Body) -> dict[str, str]:
    """Return what the process of a pod would be given."""
    given: dict[str, str] = {}
    for variable in pod["spec"]["containers"][0].get("env", []):
        source = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
        if source:
            kind, _, rest = source.removeprefix("metadata.").partition("['")
            given[variable["name"]] = pod["metadata"].get(kind, {}).get(rest[:-2], "")
        else:
            given[variable["name"]] = expand(variable.get("value", ""), given)
    return given
