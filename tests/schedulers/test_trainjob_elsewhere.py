"""A TrainJob that is sent to another kind of cluster is refused by its field."""

from __future__ import annotations

from dispatch.record.header import Spec
from dispatch.schedulers.local.request import Limits, refusals
from dispatch.schedulers.slurm.request import problems
from tests.schedulers.slurm.conftest import settings

EKS = {"kind": "trainjob", "runtime": {"name": "torch-distributed"}}
SPEC = Spec.model_validate({"name": "train", "command": ("true",), "eks": EKS})


def test_the_local_cluster_refuses_it() -> None:
    (said,) = refusals(SPEC, Limits())
    assert said == "field 'eks.kind': a trainjob runs on a Kubernetes cluster only"


def test_slurm_refuses_it() -> None:
    (said,) = problems(settings(), SPEC)
    assert said == "eks.kind: a trainjob runs on a Kubernetes cluster only"
