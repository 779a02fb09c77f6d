"""A real cluster as the conformance suite's world: its own namespace, and a played kubelet."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from dispatch.record.header import Spec
from dispatch.schedulers.eks.client import KubeClient, NoAnswer, Timeouts, core, jobs, path
from dispatch.schedulers.eks.cluster import EksCluster
from dispatch.schedulers.eks.marks import Identity, read_ref
from dispatch.schedulers.eks.response import Answer
from dispatch.schedulers.eks.settings import EksSettings, KubeconfigAccess, Team, Toleration
from tests.conformance.scheduler.world import Work
from tests.fakes.kube.kubelet import Program
from tests.real.eks.kubelet import LABEL, Body, PlayedKubelet

PATIENCE_S = 240.0
POLL_S = 0.1

PROGRAMS = {
    "succeed": Program(runs_s=0),
    "fail": Program(runs_s=0, exit_code=3),
    "crash": Program(runs_s=0, exit_code=134),
    "last": Program(),
    "hog": Program(runs_s=0, memory_mb=192),
    "graceful": Program(on_term=0),
}
_WORK: dict[Work, dict[str, Any]] = {
    Work.SUCCEED: {"command": ("succeed",)},
    Work.FAIL: {"command": ("fail",)},
    Work.CRASH: {"command": ("crash",)},
    Work.LAST: {"command": ("last",)},
    Work.HOG: {"command": ("hog",), "memory_mb_per_node": 64},
    Work.OVERRUN: {"command": ("last",), "time_limit_s": 1},
}


class TroubledClient(KubeClient):
    """A client between which and its server something happens."""

    trouble: Callable[[str, str], str | None] | None = None

    def call(self, method: str, where: str, *args: Any, **more: Any) -> Answer:
        found = self.trouble(method, where) if self.trouble is not None else None
        if found == "silent":
            raise NoAnswer("nothing gets through")
        answer = super().call(method, where, *args, **more)
        if found == "lost":
            raise NoAnswer("the reply was lost")
        return answer


class RealWorld:
    """One namespace of a real cluster, for one test."""

    def __init__(self, kubeconfig: str, namespace: str) -> None:
        self.namespace = namespace
        self._access = KubeconfigAccess(path=kubeconfig)
        self._admin = KubeClient(self._access, Timeouts(5, 30))
        self._clients: list[TroubledClient] = []
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        answer = self._admin.post(path("api", "v1", "namespaces"), body)
        assert answer.ok, answer.body
        self.kubelet = PlayedKubelet(self._admin, namespace, PROGRAMS, f"{namespace}-node")
        self._scheduler = self.another()

    def close(self) -> None:
        """Leave nothing behind: neither pods that a finalizer keeps, nor the Node."""
        self._scheduler.free(lambda job, ended_at: False)
        self._admin.delete(path("api", "v1", "namespaces", self.namespace), {})
        self.kubelet.lost = False
        deadline = time.monotonic() + PATIENCE_S
        while self.kubelet.pods() and time.monotonic() < deadline:
            self.kubelet.step()
            self._scheduler.free(lambda job, ended_at: False)
            time.sleep(POLL_S)
        self.kubelet.remove()
        for client in self._clients:
            client.close()
        self._admin.close()

    @property
    def scheduler(self) -> EksCluster:
        return self._scheduler

    def settings(self) -> EksSettings:
        return EksSettings(
            name="real",
            access=self._access,
            teams=(Team(owners=("*",), namespace=self.namespace),),
            node_selector={LABEL: self.namespace},
            tolerations=(Toleration(key=LABEL),),
            grace_s=5,
            connect_timeout_s=3,
            request_timeout_s=5,
            requeue_wait_s=5,
            landing_bound_s=1,
            call_bound_s=22,
            node_loss_window_s=30,
            retention_s=31,
        )

    def another(self) -> EksCluster:
        client = TroubledClient(self._access, Timeouts(3, 5))
        self._clients.append(client)
        return EksCluster(self.settings(), self._clock, client=client, pause=self._pause)

    def _clock(self) -> datetime:
        return datetime.now(UTC)

    def _pause(self, seconds: float) -> None:
        self.kubelet.step()
        time.sleep(seconds)

    def spec(self, work: Work, **changes: Any) -> Spec:
        return Spec(**{"name": "work", "image": "played:1", **_WORK[work], **changes})

    def refused_spec(self) -> tuple[Spec, str]:
        return self.spec(Work.LAST, tasks_per_node=2), "tasks_per_node"

    # --- time ---

    def until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            if time.monotonic() >= deadline:
                pytest.fail(f"never: {what}")
            self.kubelet.step()
            time.sleep(POLL_S)

    def advance(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.kubelet.step()
            time.sleep(POLL_S)

    # --- the truth ---

    def pods(self, ref: str) -> list[Body]:
        uid, key = _identity(ref).uid, "batch.kubernetes.io/controller-uid"
        return [p for p in self.kubelet.pods() if p["metadata"]["labels"].get(key) == uid]

    def processes(self, ref: str) -> int:
        here = {p["metadata"]["uid"] for p in self.pods(ref)}
        return sum(1 for uid in self.kubelet.processes if uid in here)

    def environment(self, ref: str) -> Mapping[str, str]:
        for pod in self.pods(ref):
            process = self.kubelet.processes.get(pod["metadata"]["uid"])
            if process is not None:
                return process.environment
        return {}

    def live_pod(self, ref: str) -> Body:
        return next(p for p in self.pods(ref) if p["status"]["phase"] in ("Pending", "Running"))

    # --- what happens to objects ---

    def preempt(self, ref: str) -> None:
        self.kubelet.disrupt(self.live_pod(ref), "PreemptionByScheduler")

    def lose_node(self, ref: str) -> None:
        del ref
        self.kubelet.lose()

    def cancel(self, ref: str) -> None:
        self._admin.delete(
            jobs(self.namespace, _identity(ref).name), {"propagationPolicy": "Background"}
        )

    def hold(self, ref: str) -> None:
        where = jobs(self.namespace, _identity(ref).name)
        assert self._admin.patch(where, {"spec": {"suspend": True}}).ok

    def forget(self, ref: str) -> None:
        self.cancel(ref)
        for pod in self.pods(ref):
            where = core(self.namespace, "pods", pod["metadata"]["name"])
            self._admin.patch(where, {"metadata": {"finalizers": None}})
            self._admin.delete(where, {"gracePeriodSeconds": 0})

    def restart(self) -> None:
        self._scheduler = self.another()

    def alien(self) -> str:
        labels = {"dispatch/job": "somebody"}
        pod = {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "played:1", "command": ["last"]}],
        }
        body = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "aliens", "labels": labels},
            "spec": {"suspend": True, "template": {"metadata": {"labels": labels}, "spec": pod}},
        }
        answer = self._admin.post(jobs(self.namespace), body)
        assert isinstance(answer.body, dict)
        return Identity(self.namespace, "aliens", answer.body["metadata"]["uid"]).ref

    # --- trouble on the way ---

    @contextmanager
    def _troubled(self, judge: Callable[[str, str], str | None]) -> Iterator[None]:
        for client in self._clients:
            client.trouble = judge
        try:
            yield
        finally:
            for client in self._clients:
                client.trouble = None

    @contextmanager
    def replies_lost(self) -> Iterator[None]:
        with self._troubled(lambda method, where: None if method == "GET" else "lost"):
            yield

    @contextmanager
    def silent(self) -> Iterator[None]:
        with self._troubled(lambda method, where: "silent"):
            yield

    @contextmanager
    def cut(self) -> Iterator[None]:
        with self._troubled(lambda method, where: "lost" if where.endswith("/pods") else None):
            yield


def _identity(ref: str) -> Identity:
    identity = read_ref(ref)
    assert identity is not None
    return identity
