"""A real cluster with Trainer's and JobSet's controllers; its jobs are TrainJobs."""

from __future__ import annotations

from typing import Any

from dispatch.record.header import Spec
from dispatch.schedulers.eks.client import KubeClient, Timeouts, core, path
from dispatch.schedulers.eks.marks import Identity, read_ref
from dispatch.schedulers.eks.objects import JOBSET_NAME, mapping
from dispatch.schedulers.eks.settings import EksSettings, KubeconfigAccess, TrainerSettings
from dispatch.schedulers.eks.shapes import TRAINJOB
from dispatch.schedulers.eks.train_check import release_of
from tests.conformance.scheduler.world import Work
from tests.fakes.kube.trainer import torch_runtime
from tests.real.eks.kubelet import Body
from tests.real.eks.world import RealWorld

GROUP = ("apis", "trainer.kubeflow.org", "v1alpha1")
RUNTIME = "played"
EKS = {"kind": "trainjob", "runtime": {"name": RUNTIME, "kind": "TrainingRuntime"}}


def served_release(kubeconfig: str) -> str | None:
    """Return the release of Trainer that a cluster serves, None where it serves none."""
    client = KubeClient(KubeconfigAccess(path=kubeconfig), Timeouts(5, 10))
    try:
        if not client.get(path("apis", "jobset.x-k8s.io", "v1alpha2")).ok:
            return None
        answer = client.get(path("openapi", "v3", *GROUP))
        return release_of(mapping(answer.body, "openapi")) if answer.ok else None
    finally:
        client.close()


class RealTrainWorld(RealWorld):
    """One namespace of a real cluster, with a runtime of its own, for one test."""

    def __init__(self, kubeconfig: str, namespace: str, release: str) -> None:
        self.release = release
        super().__init__(kubeconfig, namespace)
        body: Body = torch_runtime(RUNTIME)
        for one in body["spec"]["template"]["spec"]["replicatedJobs"]:
            if self._evidence == "runtime":
                pods = one["template"]["spec"]["template"]
                pods["metadata"] = {"finalizers": ["dispatch/evidence"]}
        head = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainingRuntime"}
        where = path(*GROUP, "namespaces", namespace, "trainingruntimes")
        answer = self._admin.post(where, {**head, **body})
        assert answer.ok, answer.body

    @property
    def _evidence(self) -> str:
        return "trainjob" if self.release == "2.2" else "runtime"

    def settings(self) -> EksSettings:
        given = {"release": self.release, "evidence": self._evidence}
        trainer = TrainerSettings.model_validate(given)
        return super().settings().model_copy(update={"trainer": trainer})

    def spec(self, work: Work, **changes: Any) -> Spec:
        return super().spec(work, **{"eks": EKS, **changes})

    def pods(self, ref: str) -> list[Body]:
        name = _identity(ref).name
        return [p for p in self.kubelet.pods() if p["metadata"]["labels"].get(JOBSET_NAME) == name]

    def cancel(self, ref: str) -> None:
        self._admin.delete(self._where(ref), {"propagationPolicy": "Background"})

    def hold(self, ref: str) -> None:
        assert self._admin.patch(self._where(ref), {"spec": {"suspend": True}}).ok

    def forget(self, ref: str) -> None:
        self.cancel(ref)
        for pod in self.pods(ref):
            where = core(self.namespace, "pods", pod["metadata"]["name"])
            self._admin.patch(where, {"metadata": {"finalizers": None}})
            self._admin.delete(where, {"gracePeriodSeconds": 0})

    def _where(self, ref: str) -> str:
        return TRAINJOB.where(self.namespace, _identity(ref).name)

    def alien(self) -> str:
        body = {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "metadata": {"name": "aliens", "labels": {"dispatch/job": "somebody"}},
            "spec": {
                "suspend": True,
                "runtimeRef": EKS["runtime"],
                "trainer": {"image": "played:1", "command": ["last"]},
            },
        }
        answer = self._admin.post(TRAINJOB.where(self.namespace), body)
        assert isinstance(answer.body, dict)
        uid = answer.body["metadata"]["uid"]
        return Identity(self.namespace, "aliens", uid, TRAINJOB.plural).ref


def _identity(ref: str) -> Identity:
    identity = read_ref(ref)
    assert identity is not None
    return identity
