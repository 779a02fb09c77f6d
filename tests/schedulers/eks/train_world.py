"""A cluster with Kubeflow's Trainer as the conformance suite's world, whose jobs are TrainJobs."""

from __future__ import annotations

from typing import Any

from dispatch.record.header import Spec
from dispatch.schedulers.eks.marks import Identity, read_ref
from dispatch.schedulers.eks.settings import TrainerSettings
from tests.conformance.scheduler.world import Work
from tests.fakes.kube.jobsets import NAME, UID
from tests.fakes.kube.store import Body
from tests.fakes.kube.tls import Authority
from tests.fakes.kube.trainer import mpi_runtime, torch_runtime
from tests.schedulers.eks.world import NAMESPACE, EksWorld

TRAINJOBS = f"/apis/trainer.kubeflow.org/v1alpha1/namespaces/{NAMESPACE}/trainjobs"
EKS = {"kind": "trainjob", "runtime": {"name": "torch-distributed"}}
MPI = {
    "kind": "trainjob",
    "runtime": {"name": "deepspeed-distributed", "jobs": ("launcher", "node")},
}


def trainer_of(release: str = "2.2", evidence: str = "trainjob") -> TrainerSettings:
    """Return the settings for a release of Trainer."""
    known = "2.2" if release == "later" else release
    return TrainerSettings.model_validate({"release": known, "evidence": evidence})


class TrainWorld(EksWorld):
    """One fake cluster with Trainer, behind its server; every spec is one of a TrainJob."""

    def __init__(
        self,
        authority: Authority,
        *,
        release: str = "2.2",
        evidence: str = "trainjob",
        jobset: dict[str, Any] | None = None,
        **changes: Any,
    ) -> None:
        given = {"trainer": trainer_of(release, evidence), **changes}
        super().__init__(authority, **given)
        runtimes = (torch_runtime(**(jobset or {})), mpi_runtime(**(jobset or {})))
        if evidence == "runtime":
            for one in runtimes:
                _bear_the_finalizer(one)
        self.kube.install_trainer(release, *runtimes)

    def spec(self, work: Work, **changes: Any) -> Spec:
        return super().spec(work, **{"eks": EKS, **changes})

    def refused_spec(self) -> tuple[Spec, str]:
        return self.spec(Work.LAST, tasks_per_node=2), "tasks_per_node"

    # --- the truth ---

    def pods(self, ref: str) -> list[Body]:
        name = identity(ref).name
        return [p for p in self.kube.pods() if p["metadata"]["labels"].get(NAME) == name]

    def trainjob(self, ref: str) -> Body:
        found = self.kube.store.get("trainjobs", NAMESPACE, identity(ref).name)
        assert found is not None, f"no TrainJob {ref}"
        return found

    def jobset(self, ref: str) -> Body:
        found = self.kube.store.get("jobsets", NAMESPACE, identity(ref).name)
        assert found is not None, f"no JobSet of {ref}"
        return found

    def pods_of_present(self, ref: str) -> list[Body]:
        """Return the pods of the JobSet that is there now."""
        uid = self.jobset(ref)["metadata"]["uid"]
        return [p for p in self.pods(ref) if p["metadata"]["labels"][UID] == uid]

    # --- what happens to objects ---

    def forget(self, ref: str) -> None:
        """Delete an object for good, as an administrator who also takes the finalizers off."""
        if self.kube.store.get("trainjobs", NAMESPACE, identity(ref).name) is not None:
            self.kubectl("DELETE", ref, {"propagationPolicy": "Background"})
        for pod in self.pods(ref):
            pod["metadata"].pop("finalizers", None)
            self.kube.store.drop("pods", pod)
        self.kube.settle()

    def delete_jobset(self, ref: str, policy: str = "Background") -> None:
        """Delete a JobSet as somebody with kubectl does."""
        name = identity(ref).name
        path = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{NAMESPACE}/jobsets/{name}"
        self.request("DELETE", path, {"propagationPolicy": policy})

    def alien(self) -> str:
        body = {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "metadata": {"name": "aliens", "labels": {"dispatch/job": "somebody"}},
            "spec": {
                "runtimeRef": {"name": "torch-distributed"},
                "trainer": {"image": "work:1", "command": ["last"]},
            },
        }
        made = self.request("POST", TRAINJOBS, body)
        return Identity(NAMESPACE, "aliens", made["metadata"]["uid"], "trainjobs").ref

    def kubectl(self, method: str, ref: str, body: Body) -> Body:
        return self.request(method, f"{TRAINJOBS}/{identity(ref).name}", body)


class KueueTrainWorld(TrainWorld):
    """The same where Kueue admits; somebody else's hold is a deactivated Workload there."""

    def hold(self, ref: str) -> None:
        self.kube.kueue.evict(self.trainjob(ref), "Deactivated")
        self.kube.settle()


def _bear_the_finalizer(runtime: Body) -> None:
    for one in runtime["spec"]["template"]["spec"]["replicatedJobs"]:
        pods = one["template"]["spec"]["template"]
        pods.setdefault("metadata", {})["finalizers"] = ["dispatch/evidence"]


def identity(ref: str) -> Identity:
    found = read_ref(ref)
    assert found is not None
    return found
