"""Kubelets and what they run: a process is real to the fake as long as it lives on its host."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from tests.fakes.kube import events
from tests.fakes.kube.api import Api
from tests.fakes.kube.jobs import over
from tests.fakes.kube.store import Body, Store, parse, stamp

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
SIGKILL, SIGTERM = 137, 143


@dataclass(frozen=True)
class Program:
    """What a container's process does.

    Attributes:
        runs_s: How long it runs by itself; None is for ever.
        exit_code: With what it ends by itself.
        memory_mb: How much it takes; more than its limit ends it.
        on_term: With what it ends when told to, None where it doesn't listen.
        term_s: How long it takes over that.
        log: What it writes.
    """

    runs_s: float | None = None
    exit_code: int = 0
    memory_mb: int = 1
    on_term: int | None = SIGTERM
    term_s: float = 0
    log: bytes = b""


@dataclass
class Process:
    """One process on a host."""

    uid: str
    node: str
    environment: dict[str, str]
    arguments: list[str]
    program: Program
    started: datetime
    ends_at: datetime | None
    exit_code: int
    oom: bool = False


Interpret = Callable[[list[str], dict[str, str]], Program]


def expand(text: str, known: dict[str, str]) -> str:
    """Return a text as the kubelet hands it on: `$(NAME)` replaced, `$$` halved."""

    def replaced(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return known.get(match[1], match[0])

    return _REFERENCE.sub(replaced, text)


class Kubelets:
    """All nodes' kubelets."""

    def __init__(self, store: Store, api: Api, interpret: Interpret) -> None:
        self.store = store
        self.api = api
        self.interpret = interpret
        self.processes: dict[str, Process] = {}
        self.unreachable: set[str] = set()
        self.missing_images: dict[str, str] = {}
        self.missing_secrets: set[str] = set()

    # --- time ---

    def due(self) -> list[datetime]:
        found = [p.ends_at for p in self.processes.values() if p.ends_at is not None]
        for pod in self.store.of("pods"):
            if "deletionTimestamp" in pod["metadata"] and not over(pod):
                found.append(parse(pod["metadata"]["deletionTimestamp"]))
        return found

    def sync(self) -> None:
        for pod in list(self.store.of("pods")):
            node = pod["spec"].get("nodeName")
            if node is None or node in self.unreachable:
                continue
            self._sync(pod)
        for uid, process in list(self.processes.items()):
            if process.node in self.unreachable and self._ended(process):
                del self.processes[uid]

    def _ended(self, process: Process) -> bool:
        return process.ends_at is not None and self.store.now() >= process.ends_at

    def _sync(self, pod: Body) -> None:
        meta, status = pod["metadata"], pod["status"]
        process = self.processes.get(meta["uid"])
        if over(pod):
            self._clean_up(pod)
            return
        if "deletionTimestamp" in meta:
            if process is None and "containerStatuses" not in status:
                self._finish(pod, None, 0)
                return
            self._terminate(pod, process)
            process = self.processes.get(meta["uid"])
        elif process is None:
            self._start(pod)
            process = self.processes.get(meta["uid"])
        if process is not None and self._ended(process):
            del self.processes[meta["uid"]]
            self._finish(pod, process, process.exit_code)
            self._clean_up(pod)

    # --- start ---

    def _start(self, pod: Body) -> None:
        container = pod["spec"]["containers"][0]
        image = container["image"]
        why = None
        if image in self.missing_images:
            said = self.missing_images[image]
            reason = "ErrImageNeverPull" if "never" in said.lower() else "ImagePullBackOff"
            why = {"message": said, "reason": reason}
        environment = self._environment(pod, container)
        if isinstance(environment, str):
            said = f'secret "{environment}" not found'
            why = {"message": said, "reason": "CreateContainerConfigError"}
        for volume in pod["spec"].get("volumes", []):
            name = volume.get("secret", {}).get("secretName")
            if name in self.missing_secrets:
                said = f'MountVolume.SetUp failed for volume "{volume["name"]}" : '
                said += f'secret "{name}" not found'
                if "containerStatuses" not in pod["status"]:
                    events.tell(self.store, pod, "Pod", "FailedMount", said, "kubelet")
                why = {"reason": "ContainerCreating"}
        if why is not None:
            self._write(pod, "Pending", {"waiting": why}, ready=False)
            return
        if isinstance(environment, str):
            return
        arguments = [expand(word, environment) for word in container.get("command", [])]
        program = self.interpret(arguments, environment)
        now = self.store.now()
        limit = container["resources"].get("limits", {}).get("memory", "")
        oom = limit.endswith("Mi") and program.memory_mb > int(limit[:-2])
        ends = None if program.runs_s is None else now + timedelta(seconds=program.runs_s)
        code = SIGKILL if oom else program.exit_code
        self.processes[pod["metadata"]["uid"]] = Process(
            pod["metadata"]["uid"],
            pod["spec"]["nodeName"],
            environment,
            arguments,
            program,
            now,
            now if oom else ends,
            code,
            oom,
        )
        self.api.logs[pod["metadata"]["uid"]] = program.log
        self._write(pod, "Running", {"running": {"startedAt": stamp(now)}}, ready=True)

    def _environment(self, pod: Body, container: Body) -> dict[str, str] | str:
        """Return what the process is given, or the Secret that is missing."""
        given: dict[str, str] = {}
        for variable in container.get("env", []):
            source = variable.get("valueFrom", {})
            if "secretKeyRef" in source:
                name = source["secretKeyRef"]["name"]
                if name in self.missing_secrets:
                    return str(name)
                given[variable["name"]] = f"secret {name}/{source['secretKeyRef']['key']}"
            elif "fieldRef" in source:
                given[variable["name"]] = _field(pod, source["fieldRef"]["fieldPath"])
            else:
                given[variable["name"]] = expand(variable.get("value", ""), given)
        return given

    # --- end ---

    def _terminate(self, pod: Body, process: Process | None) -> None:
        """Tell a process to end, and end it when its time is over."""
        if process is None:
            self._finish(pod, None, SIGKILL)
            return
        meta, now = pod["metadata"], self.store.now()
        kill_at = parse(meta["deletionTimestamp"])
        asked_at = kill_at - timedelta(seconds=meta["deletionGracePeriodSeconds"])
        ends, code = kill_at, SIGKILL
        if process.program.on_term is not None:
            by_itself = max(asked_at, process.started) + timedelta(seconds=process.program.term_s)
            if by_itself <= kill_at:
                ends, code = by_itself, process.program.on_term
        if process.ends_at is None or ends < process.ends_at:
            process.ends_at, process.exit_code = ends, code
        if now >= kill_at and process.ends_at > now:
            process.ends_at, process.exit_code = now, SIGKILL

    def _finish(self, pod: Body, process: Process | None, code: int) -> None:
        at = stamp(self.store.now())
        if process is None and "containerStatuses" not in pod["status"]:
            pod["status"] |= {"phase": "Failed"}
            self.store.changed("pods", pod)
            return
        reason = "Completed" if code == 0 else "Error"
        ended: Body = {
            "containerID": f"containerd://{pod['metadata']['uid']}",
            "exitCode": code,
            "finishedAt": at,
            "reason": "OOMKilled" if process is not None and process.oom else reason,
            "startedAt": at if process is None else stamp(process.started),
        }
        if code and process is not None and process.program.log and not process.oom:
            # terminationMessagePolicy: FallbackToLogsOnError
            policy = pod["spec"]["containers"][0]["terminationMessagePolicy"]
            if policy == "FallbackToLogsOnError":
                ended["message"] = process.program.log.decode(errors="replace")[-2048:]
        phase = "Succeeded" if code == 0 else "Failed"
        self._write(pod, phase, {"terminated": ended}, ready=False)

    def _clean_up(self, pod: Body) -> None:
        """Let a deleted pod go for good once its processes have ended and it is counted."""
        meta = pod["metadata"]
        if "deletionTimestamp" not in meta or not meta.get("deletionGracePeriodSeconds"):
            return
        meta["deletionTimestamp"] = stamp(self.store.now())
        meta["deletionGracePeriodSeconds"] = 0
        self.store.changed("pods", pod)

    def _write(self, pod: Body, phase: str, state: Body, *, ready: bool) -> None:
        meta, status = pod["metadata"], pod["status"]
        container = pod["spec"]["containers"][0]
        done = phase in ("Succeeded", "Failed")
        why = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase)
        made = {
            "image": container["image"],
            "imageID": "" if "waiting" in state else "sha256:0",
            "lastState": {},
            "name": container["name"],
            "ready": ready,
            "restartCount": 0,
            "started": ready,
            "state": state,
        }
        if "waiting" not in state:
            made["containerID"] = f"containerd://{meta['uid']}"
        if status.get("containerStatuses") == [made] and status["phase"] == phase:
            return
        status["containerStatuses"] = [made]
        status["phase"] = phase
        status.setdefault("startTime", stamp(self.store.now()))
        for kind, holds in (
            ("PodReadyToStartContainers", not done),
            ("Initialized", True),
            ("Ready", ready),
            ("ContainersReady", ready),
        ):
            reason = why if kind in ("Ready", "ContainersReady") and not holds else None
            set_condition(self.store, pod, kind, "True" if holds else "False", reason)
        self.store.changed("pods", pod)


def set_condition(
    store: Store, pod: Body, kind: str, status: str, reason: str | None = None, message: str = ""
) -> None:
    """Write one condition of a pod, with the generation that was seen."""
    conditions = pod["status"].setdefault("conditions", [])
    made: Body = {
        "lastProbeTime": None,
        "lastTransitionTime": stamp(store.now()),
        "observedGeneration": pod["metadata"]["generation"],
        "status": status,
        "type": kind,
    }
    if reason:
        made["reason"] = reason
    if message:
        made["message"] = message
    for number, old in enumerate(conditions):
        if old["type"] == kind:
            if old["status"] == status:
                made["lastTransitionTime"] = old["lastTransitionTime"]
            conditions[number] = made
            return
    conditions.append(made)


def _field(pod: Body, path: str) -> str:
    match = re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path)
    if match:
        return str(pod["metadata"][match[1]].get(match[2], ""))
    raise AssertionError(f"no such field: {path}")
