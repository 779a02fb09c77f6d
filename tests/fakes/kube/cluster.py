"""The whole cluster: API server, controllers, scheduler, nodes, and a clock that a test moves."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from tests.fakes.kube import events
from tests.fakes.kube.api import OWNERS, Api, Reply, Request, stamp_after
from tests.fakes.kube.jobs import JobController, over
from tests.fakes.kube.jobsets import JobSetController
from tests.fakes.kube.kubelet import Interpret, Kubelets, Program, set_condition
from tests.fakes.kube.kueue import Kueue
from tests.fakes.kube.store import Body, Store, parse, stamp
from tests.fakes.kube.trainer import TrainerController

UNREADY_AFTER = timedelta(seconds=48)
"""How long a silent kubelet is believed, as it was measured."""
COLLECTED_AFTER = timedelta(seconds=61)
"""How long after its Node object a pod is collected, as it was measured."""
COLLECTOR = timedelta(seconds=20)
START = datetime(2026, 11, 29, 14, 0, tzinfo=UTC)
STEPS = 200


def runs_for_ever(arguments: list[str], environment: dict[str, str]) -> Program:
    del arguments, environment
    return Program()


class KubeCluster:
    """A cluster with one node.

    Attributes:
        api: The API server's state that isn't objects: tokens, rights, quotas, logs.
        kubelets: What runs where.
        asleep: Whether the controllers do nothing, so that a test sees what lies in between.
    """

    def __init__(self, interpret: Interpret = runs_for_ever, nodes: tuple[str, ...] = ("n1",)):
        self.now = START
        self.store = Store(lambda: self.now)
        self.api = Api(self.store)
        self.kubelets = Kubelets(self.store, self.api, interpret)
        self.jobs = JobController(self.store, self.api)
        self.kueue = Kueue(self.store, self.api)
        self.jobsets = JobSetController(self.store, self.api)
        self.trainer: TrainerController | None = None
        self.asleep = False
        self._silent_since: dict[str, datetime] = {}
        self._node_gone_at: dict[str, datetime] = {}
        self._remove_at: dict[str, datetime] = {}
        self._dies_at: dict[str, datetime] = {}
        for namespace in ("default", "kube-system"):
            self.add_namespace(namespace)
        for node in nodes:
            self.add_node(node)

    def install_trainer(self, release: str, *runtimes: Body) -> None:
        """Serve Trainer's and JobSet's CRDs, and run their controllers."""
        self.api.trainer = release
        self.trainer = TrainerController(self.store, self.api, release)
        for runtime in runtimes:
            self.store.add("clustertrainingruntimes", runtime)

    def clock(self) -> datetime:
        return self.now

    def handle(self, request: Request) -> Reply:
        """Answer a request as of now, and let what follows from it follow."""
        reply = self.api.handle(request)
        self.settle()
        return reply

    # --- what there is ---

    def add_namespace(self, name: str) -> Body:
        body = {"metadata": {"name": name}, "spec": {"finalizers": ["kubernetes"]}}
        return self.store.add("namespaces", {**body, "status": {"phase": "Active"}})

    def add_node(self, name: str, cpu: int = 64, labels: dict[str, str] | None = None) -> Body:
        ready = {
            "lastHeartbeatTime": stamp(self.now),
            "lastTransitionTime": stamp(self.now),
            "message": "kubelet is posting ready status",
            "reason": "KubeletReady",
            "status": "True",
            "type": "Ready",
        }
        return self.store.add(
            "nodes",
            {
                "metadata": {
                    "name": name,
                    "labels": {"kubernetes.io/hostname": name, **(labels or {})},
                },
                "spec": {},
                "status": {"allocatable": {"cpu": str(cpu)}, "conditions": [ready]},
            },
        )

    def job(self, name: str, namespace: str = "default") -> Body:
        found = self.store.get("jobs", namespace, name)
        assert found is not None, f"no Job {name}"
        return found

    def pods(self, job: str | None = None, namespace: str | None = None) -> list[Body]:
        return [
            p
            for p in self.store.of("pods", namespace)
            if job is None or p["metadata"]["labels"].get("job-name") == job
        ]

    def pod(self, job: str, namespace: str | None = None) -> Body:
        (found,) = self.pods(job, namespace)
        return found

    # --- time ---

    def advance(self, seconds: float) -> None:
        """Let time pass; everything that is due on the way happens at its own time."""
        end = self.now + timedelta(seconds=seconds)
        self.settle()
        while True:
            coming = [t for t in self._due() if self.now < t < end]
            if not coming:
                break
            self.now = min(coming)
            self.settle()
        self.now = end
        self.settle()

    def _due(self) -> list[datetime]:
        found = [*self.jobs.due(), *self.kubelets.due(), *self.kueue.due(), *self.jobsets.due()]
        found += [] if self.trainer is None else self.trainer.due()
        found += [_seen_at(jobset) for jobset in self.store.of("jobsets")]
        found += [t + UNREADY_AFTER for t in self._silent_since.values()]
        found += [t + COLLECTED_AFTER for t in self._node_gone_at.values()]
        found += [*self._remove_at.values(), *self._dies_at.values()]
        found += [*self._tolerated().values(), *self._unscheduled().values()]
        return found

    def settle(self) -> None:
        """Run every controller until nothing changes any more."""
        if self.asleep:
            return
        for _ in range(STEPS):
            before = self.store.version
            self._nodes()
            self._schedule()
            self.kubelets.sync()
            for trainjob in list(self.store.of("trainjobs")) if self.trainer else []:
                assert self.trainer is not None
                self.trainer.sync(trainjob)
            for jobset in list(self.store.of("jobsets")):
                self.jobsets.sync(jobset)
            for job in list(self.store.of("jobs")):
                self.jobs.expire(job)
                self.jobs.sync(job)
            self.kueue.sync()
            self._collect()
            events.forget(self.store)
            if self.store.version == before:
                return
        raise AssertionError("the cluster doesn't come to rest")

    # --- the scheduler ---

    def _schedule(self) -> None:
        for pod in self.pods():
            if "nodeName" in pod["spec"] or "deletionTimestamp" in pod["metadata"] or over(pod):
                continue
            fits = [n for n in self.store.of("nodes") if self._fits(pod, n)]
            if fits:
                pod["spec"]["nodeName"] = fits[0]["metadata"]["name"]
                set_condition(self.store, pod, "PodScheduled", "True")
                self.store.changed("pods", pod)
                continue
            count = len(list(self.store.of("nodes")))
            said = (
                f"0/{count} nodes are available: {count} Insufficient cpu. no new claims to "
                f"deallocate, preemption: 0/{count} nodes are available: {count} Preemption is "
                "not helpful for scheduling."
            )
            known = [c["message"] for c in pod["status"].get("conditions", []) if "message" in c]
            if said not in known:
                set_condition(self.store, pod, "PodScheduled", "False", "Unschedulable", said)
                self.store.changed("pods", pod)
                events.tell(self.store, pod, "Pod", "FailedScheduling", said, "default-scheduler")

    def _fits(self, pod: Body, node: Body) -> bool:
        name, labels = node["metadata"]["name"], node["metadata"]["labels"]
        borne = {t["key"] for t in pod["spec"]["tolerations"] if t.get("effect") != "NoExecute"}
        if any(t["key"] not in borne for t in node["spec"].get("taints", [])):
            return False
        if node["spec"].get("unschedulable"):
            return False
        if any(labels.get(k) != v for k, v in pod["spec"].get("nodeSelector", {}).items()):
            return False
        affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
        required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {})
        for term in required.get("nodeSelectorTerms", []):
            if any(name in field["values"] for field in term["matchFields"]):
                return False
        used = sum(
            _cpu(p) for p in self.pods() if p["spec"].get("nodeName") == name and not over(p)
        )
        return used + _cpu(pod) <= int(node["status"]["allocatable"]["cpu"])

    # --- disruptions ---

    def disrupt(self, pod: Body, reason: str, message: str, kind: str = "DisruptionTarget") -> None:
        """Write who ends a pod, and delete it."""
        set_condition(self.store, pod, kind, "True", reason, message)
        self.store.changed("pods", pod)
        self.api.delete_pod(pod)
        self.settle()

    def evict(self, pod: Body) -> None:
        """Drain: the eviction API, as Karpenter and spot handlers use it too."""
        self.disrupt(pod, "EvictionByEvictionAPI", "Eviction API: evicting")

    def preempt(self, pod: Body) -> None:
        said = "default-scheduler: preempting to accommodate a higher priority pod"
        self.disrupt(pod, "PreemptionByScheduler", said)

    def exceed_disk(self, pod: Body, volume: str) -> None:
        """End a pod that has filled its volume, as its kubelet does."""
        process = self.kubelets.processes.pop(pod["metadata"]["uid"])
        said = f'Usage of EmptyDir volume "{volume}" exceeds the limit "5Mi". '
        pod["status"] |= {"reason": "Evicted", "message": said}
        self.kubelets._finish(pod, process, 137)
        self.settle()

    def end(self, pod: Body, code: int) -> None:
        """Let a pod's process end by itself, now."""
        process = self.kubelets.processes[pod["metadata"]["uid"]]
        process.ends_at, process.exit_code = self.now, code
        self.settle()

    # --- nodes that are lost ---

    def lose_node(
        self, name: str, *, removed_after_s: float | None = None, dies_after_s: float | None = None
    ) -> None:
        """Cut a node off: its kubelet is silent, its processes live on until the host dies."""
        self.kubelets.unreachable.add(name)
        self._silent_since[name] = self.now
        if removed_after_s is not None:
            self._remove_at[name] = self.now + timedelta(seconds=removed_after_s)
        if dies_after_s is not None:
            self._dies_at[name] = self.now + timedelta(seconds=dies_after_s)

    def node_back(self, name: str) -> None:
        """Let a kubelet speak again; it reports what became of its pods."""
        self.kubelets.unreachable.discard(name)
        self._silent_since.pop(name, None)
        self._dies_at.pop(name, None)
        node = self.store.get("nodes", "", name)
        assert node is not None
        node["spec"] = {}
        node["status"]["conditions"][0] |= {
            "status": "True",
            "reason": "KubeletReady",
            "lastTransitionTime": stamp(self.now),
        }
        self.store.changed("nodes", node)
        self.settle()

    def remove_node(self, name: str) -> None:
        node = self.store.get("nodes", "", name)
        if node is not None:
            self.store.drop("nodes", node)
            self._node_gone_at[name] = self.now
            self._silent_since.pop(name, None)

    def _nodes(self) -> None:
        here = {n["metadata"]["name"] for n in self.store.of("nodes")}
        for name in {p["spec"].get("nodeName", "") for p in self.pods()} - here - {""}:
            self._node_gone_at.setdefault(name, self.now)
        for name, since in list(self._silent_since.items()):
            node = self.store.get("nodes", "", name)
            if node is not None and not node["spec"] and self.now >= since + UNREADY_AFTER:
                self._unready(node)
        for name, at in list(self._remove_at.items()):
            if self.now >= at:
                del self._remove_at[name]
                self.remove_node(name)
        for name, at in list(self._dies_at.items()):
            if self.now >= at:
                del self._dies_at[name]
                doomed = [u for u, p in self.kubelets.processes.items() if p.node == name]
                for uid in doomed:
                    del self.kubelets.processes[uid]
        for uid, at in self._tolerated().items():
            pod = next(p for p in self.pods() if p["metadata"]["uid"] == uid)
            if self.now >= at:
                said = "Taint manager: deleting due to NoExecute taint"
                set_condition(
                    self.store, pod, "DisruptionTarget", "True", "DeletionByTaintManager", said
                )
                self.store.changed("pods", pod)
                self.api.delete_pod(pod)

    def _unready(self, node: Body) -> None:
        at = stamp(self.now)
        node["status"]["conditions"][0] |= {
            "lastTransitionTime": at,
            "message": "Kubelet stopped posting node status.",
            "reason": "NodeStatusUnknown",
            "status": "Unknown",
        }
        key = "node.kubernetes.io/unreachable"
        node["spec"] = {
            "taints": [
                {"effect": "NoSchedule", "key": key, "timeAdded": at},
                {"effect": "NoExecute", "key": key, "timeAdded": at},
            ]
        }
        self.store.changed("nodes", node)
        for pod in self.pods():
            if pod["spec"].get("nodeName") == node["metadata"]["name"] and not over(pod):
                set_condition(self.store, pod, "Ready", "False")
                self.store.changed("pods", pod)
                events.tell(
                    self.store, pod, "Pod", "NodeNotReady", "Node is not ready", "node-controller"
                )

    def _tolerated(self) -> dict[str, datetime]:
        """When each pod on a tainted node has borne with it for long enough."""
        found = {}
        for pod in self.pods():
            node = self.store.get("nodes", "", pod["spec"].get("nodeName", ""))
            if node is None or "deletionTimestamp" in pod["metadata"] or over(pod):
                continue
            for taint in node["spec"].get("taints", []):
                borne = [
                    t.get("tolerationSeconds")
                    for t in pod["spec"]["tolerations"]
                    if t["key"] == taint["key"]
                ]
                if taint["effect"] == "NoExecute" and borne and borne[0] is not None:
                    at = parse(taint["timeAdded"]) + timedelta(seconds=borne[0])
                    found[pod["metadata"]["uid"]] = at
        return found

    # --- garbage ---

    def _unscheduled(self) -> dict[str, datetime]:
        return {
            p["metadata"]["uid"]: parse(p["metadata"]["deletionTimestamp"]) + COLLECTOR
            for p in self.pods()
            if "deletionTimestamp" in p["metadata"] and "nodeName" not in p["spec"] and not over(p)
        }

    def _collect(self) -> None:
        for uid, at in self._unscheduled().items():
            if self.now >= at:
                pod = next(p for p in self.pods() if p["metadata"]["uid"] == uid)
                pod["status"]["phase"] = "Failed"
                self.store.changed("pods", pod)
        for name, gone in self._node_gone_at.items():
            for pod in self.pods():
                here = pod["spec"].get("nodeName") == name and not over(pod)
                if here and self.now >= gone + COLLECTED_AFTER:
                    said = "PodGC: node no longer exists"
                    set_condition(
                        self.store, pod, "DisruptionTarget", "True", "DeletionByPodGC", said
                    )
                    pod["status"]["phase"] = "Failed"
                    self.store.changed("pods", pod)
                    self.api.delete_pod(pod, 0)
        for plural in reversed(OWNERS):  # one level a turn: controllers see what has gone
            for body in list(self.store.of(plural)):
                self._finalize(plural, body)
        self._empty_namespaces()
        self._owners()

    def _empty_namespaces(self) -> None:
        """Delete what is in a namespace that is being deleted; it goes once it is empty."""
        for space in list(self.store.of("namespaces")):
            name = space["metadata"]["name"]
            if "deletionTimestamp" not in space["metadata"]:
                continue
            for pod in self.pods(namespace=name):
                self.api.delete_pod(pod)
            for plural in ("trainjobs", "jobsets", "jobs", "services", "events", "workloads"):
                for body in list(self.store.of(plural, name)):
                    self.store.drop(plural, body)
            if not self.pods(namespace=name):
                self.store.drop("namespaces", space)

    def _finalize(self, plural: str, body: Body) -> None:
        """Do what a deletion that says Orphan or Foreground asks of what was made of an object.

        In the foreground what blocks its owner is deleted in the foreground as well. What was
        made a moment ago isn't seen yet, so a controller that makes it anew is never done.
        """
        meta, made = body["metadata"], _MADE[plural]
        finalizers = meta.get("finalizers", [])
        left = self.store.owned(made, meta["uid"])
        if "orphan" in finalizers:
            for one in left:
                del one["metadata"]["ownerReferences"]
                self.store.changed(made, one)
            finalizers.remove("orphan")
        elif "foregroundDeletion" in finalizers:
            for one in left:
                if made == "pods":
                    self.api.delete_pod(one)
                elif made == "jobsets" and self.now < _seen_at(one):
                    continue
                elif "deletionTimestamp" not in one["metadata"]:
                    self.api._going(made, one, "foregroundDeletion")
            if self.store.owned(made, meta["uid"]):
                return
            finalizers.remove("foregroundDeletion")
        else:
            return
        if not finalizers:
            del meta["finalizers"]
        self.store.changed(plural, body)

    def _owners(self) -> None:
        """Delete what belongs to something that is gone."""
        there = {b["metadata"]["uid"] for b in self.store.objects.values()}
        for plural in ("jobsets", "jobs", "pods", "services", "workloads"):
            for body in list(self.store.of(plural)):
                owners = body["metadata"].get("ownerReferences", [])
                if not owners or any(o["uid"] in there for o in owners):
                    continue
                if plural != "pods":
                    self.store.drop(plural, body)
                elif "deletionTimestamp" not in body["metadata"]:
                    self._uncounted(body)
                    self.api.delete_pod(body)
                else:
                    self._uncounted(body)

    def _uncounted(self, pod: Body) -> None:
        """Take off the Job controller's finalizer where there is no Job any more to count it."""
        finalizers = pod["metadata"].get("finalizers", [])
        if "batch.kubernetes.io/job-tracking" in finalizers:
            finalizers.remove("batch.kubernetes.io/job-tracking")
            if not finalizers:
                del pod["metadata"]["finalizers"]
            self.store.changed("pods", pod)


_MADE = {"jobs": "pods", "jobsets": "jobs", "trainjobs": "jobsets"}
"""What is made of an object of each kind."""


def _seen_at(body: Body) -> datetime:
    """When the garbage collector knows of an object."""
    return parse(body["metadata"]["creationTimestamp"]) + timedelta(seconds=1)


def _cpu(pod: Body) -> int:
    asked = pod["spec"]["containers"][0]["resources"].get("requests", {}).get("cpu", "0")
    return int(asked[:-1]) // 1000 if asked.endswith("m") else int(asked)


Clock = Callable[[], datetime]
__all__ = ["Clock", "KubeCluster", "Program", "Request", "stamp_after"]
