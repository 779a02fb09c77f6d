"""A Kubernetes cluster as the conformance suite's world: the fake, reached over real TLS."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from dispatch.record.header import Spec
from dispatch.schedulers.eks.client import Endpoint, KubeClient, Timeouts
from dispatch.schedulers.eks.cluster import EksCluster
from dispatch.schedulers.eks.marks import Identity, read_ref
from dispatch.schedulers.eks.settings import EksSettings, InClusterAccess, Team
from tests.conformance.scheduler.world import Work
from tests.fakes.kube.api import Request
from tests.fakes.kube.cluster import KubeCluster
from tests.fakes.kube.kubelet import Program
from tests.fakes.kube.server import Fault, KubeServer
from tests.fakes.kube.store import Body
from tests.fakes.kube.tls import Authority

CLUSTER = "prod"
NAMESPACE = "ml"
PATIENCE = 600

PROGRAMS = {
    "succeed": Program(runs_s=0),
    "fail": Program(runs_s=0, exit_code=3, log="so it ended: ünwell\n".encode()),
    "crash": Program(runs_s=0, exit_code=134),
    "last": Program(log=b"still here\n"),
    "hog": Program(runs_s=0, memory_mb=192),
    "graceful": Program(on_term=0),
    "stubborn": Program(on_term=None),
    "trap": Program(on_term=9),
}
_WORK: dict[Work, dict[str, Any]] = {
    Work.SUCCEED: {"command": ("succeed",)},
    Work.FAIL: {"command": ("fail",)},
    Work.CRASH: {"command": ("crash",)},
    Work.LAST: {"command": ("last",)},
    Work.HOG: {"command": ("hog",), "memory_mb_per_node": 64},
    Work.OVERRUN: {"command": ("last",), "time_limit_s": 1},
}


def interpret(arguments: list[str], environment: dict[str, str]) -> Program:
    del environment
    return PROGRAMS.get(arguments[0], PROGRAMS["last"])


class Bearer:
    """A sign-in with a token that a test gives."""

    def __init__(self, server: KubeServer, tokens: list[str] | None = None) -> None:
        self.server = server
        self.tokens = tokens or ["good"]

    def endpoint(self) -> Endpoint:
        return Endpoint(self.server.host, self.server.ca_pem)

    def token(self) -> str:
        return self.tokens[0]

    def renew(self) -> bool:
        if len(self.tokens) == 1:
            return False
        self.tokens.pop(0)
        return True

    def forget_endpoint(self) -> None:
        return


def settings_of(**changes: Any) -> EksSettings:
    """Return the settings of the world's cluster; its access is what `Bearer` stands in for."""
    given: dict[str, Any] = {
        "name": CLUSTER,
        "access": InClusterAccess(),
        "teams": (Team(owners=("*",), namespace=NAMESPACE),),
        "page_size": 50,
    }
    return EksSettings(**{**given, **changes})


class EksWorld:
    """One fake cluster behind its server."""

    def __init__(
        self, authority: Authority, *, nodes: tuple[str, ...] = ("n1", "n2"), **changes: Any
    ) -> None:
        self.kube = KubeCluster(interpret, nodes)
        self.kube.add_namespace(NAMESPACE)
        self.server = KubeServer(self.kube, authority)
        self.settings = settings_of(**changes)
        self._clients: list[KubeClient] = []
        self._scheduler = self.another()

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self.server.close()

    @property
    def scheduler(self) -> EksCluster:
        return self._scheduler

    def another(self, tokens: list[str] | None = None, total_s: float = 10) -> EksCluster:
        client = KubeClient(Bearer(self.server, tokens), Timeouts(2, total_s))
        self._clients.append(client)
        return EksCluster(self.settings, self.kube.clock, client=client, pause=self.kube.advance)

    def kubeconfig(self, folder: Path) -> str:
        """Write a kubeconfig that leads to the fake."""
        authority = folder / "ca.pem"
        authority.write_text(self.server.ca_pem)
        server = {"server": self.server.host, "certificate-authority": str(authority)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": server}],
            "users": [{"name": "u", "user": {"token": "good"}}],
        }
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(config))
        return str(path)

    def spec(self, work: Work, **changes: Any) -> Spec:
        given: dict[str, Any] = {"name": "work", "image": "work:1", **_WORK[work]}
        return Spec(**{**given, **changes})

    def refused_spec(self) -> tuple[Spec, str]:
        return self.spec(Work.LAST, tasks_per_node=2), "tasks_per_node"

    # --- time ---

    def until(self, holds: Callable[[], bool], what: str) -> None:
        for _ in range(PATIENCE):
            if holds():
                return
            self.kube.advance(1)
        pytest.fail(f"never: {what}")

    def advance(self, seconds: float) -> None:
        self.kube.advance(seconds)

    # --- the truth ---

    def pods(self, ref: str) -> list[Body]:
        uid = _identity(ref).uid
        key = "batch.kubernetes.io/controller-uid"
        return [p for p in self.kube.pods() if p["metadata"]["labels"].get(key) == uid]

    def processes(self, ref: str) -> int:
        here = {p["metadata"]["uid"] for p in self.pods(ref)}
        return sum(1 for uid in self.kube.kubelets.processes if uid in here)

    def environment(self, ref: str) -> Mapping[str, str]:
        for pod in self.pods(ref):
            process = self.kube.kubelets.processes.get(pod["metadata"]["uid"])
            if process is not None:
                return process.environment
        return {}

    def live_pod(self, ref: str) -> Body:
        live = [p for p in self.pods(ref) if p["status"]["phase"] in ("Pending", "Running")]
        return live[0]

    # --- what happens to objects ---

    def preempt(self, ref: str) -> None:
        self.kube.preempt(self.live_pod(ref))

    def lose_node(self, ref: str) -> None:
        node = self.live_pod(ref)["spec"]["nodeName"]
        # The cloud takes the Node object away before the host has surely died.
        self.kube.lose_node(node, removed_after_s=380, dies_after_s=600)

    def cancel(self, ref: str) -> None:
        self.kubectl("DELETE", ref, {"propagationPolicy": "Background"})

    def hold(self, ref: str) -> None:
        self.kubectl("PATCH", ref, {"spec": {"suspend": True}})

    def forget(self, ref: str) -> None:
        """Delete an object for good, as an administrator who also takes the finalizers off."""
        if self.kube.store.get("jobs", NAMESPACE, _identity(ref).name) is not None:
            self.kubectl("DELETE", ref, {"propagationPolicy": "Background"})
        for pod in self.pods(ref):
            pod["metadata"].pop("finalizers", None)
            self.kube.store.drop("pods", pod)
        self.kube.settle()

    def restart(self) -> None:
        """Restart the API server: what etcd keeps is all there was, so only pages are forgotten."""
        self.kube.api.expire_pages()
        self._scheduler = self.another()

    def alien(self) -> str:
        body = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "aliens", "labels": {"dispatch/job": "somebody"}},
            "spec": {
                "template": {
                    "metadata": {"labels": {"dispatch/job": "somebody"}},
                    "spec": {
                        "restartPolicy": "Never",
                        "containers": [{"name": "main", "image": "work:1", "command": ["last"]}],
                    },
                }
            },
        }
        made = self.request("POST", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", body)
        return Identity(NAMESPACE, "aliens", made["metadata"]["uid"]).ref

    def kubectl(self, method: str, ref: str, body: Body) -> Body:
        name = _identity(ref).name
        return self.request(method, f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{name}", body)

    def request(self, method: str, path: str, body: Body | None = None) -> Body:
        """Do what somebody with kubectl does."""
        headers = {"authorization": "Bearer good", "content-type": "application/merge-patch+json"}
        reply = self.kube.handle(Request(method, path, body, headers))
        assert reply.status < 300, reply.body
        answered: Body = reply.body
        return answered

    # --- trouble on the way ---

    @contextmanager
    def replies_lost(self) -> Iterator[None]:
        with self.server.faults(
            lambda request: None if request.method == "GET" else Fault.CLOSE_AFTER
        ):
            yield

    @contextmanager
    def silent(self) -> Iterator[None]:
        with self.server.faults(lambda request: Fault.CLOSE_BEFORE):
            yield

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Let a list of pods be cut off in the middle of a page."""
        with self.server.faults(
            lambda request: Fault.CUT if request.path.endswith("/pods") else None
        ):
            yield


class KueueWorld(EksWorld):
    """A cluster on which Kueue admits; somebody else's hold is a deactivated Workload there."""

    def hold(self, ref: str) -> None:
        self.kube.kueue.evict(self.kube.job(_identity(ref).name, NAMESPACE), "Deactivated")
        self.kube.settle()


def _identity(ref: str) -> Identity:
    identity = read_ref(ref)
    assert identity is not None
    return identity
