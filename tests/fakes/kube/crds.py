"""What an API server does for Trainer's and JobSet's CRDs: schemas, webhooks, discovery.

The recordings show the CRDs served without their controllers. What a TrainJob may say is that of
its release: pkg/apis/trainer/v1alpha1/trainjob_types.go of kubeflow/trainer at v2.0.1, v2.1.0 and
v2.2.1.
"""

from __future__ import annotations

import re
from typing import Any

from tests.fakes.kube import statuses
from tests.fakes.kube.store import Body, Store

TRAINER = "trainer.kubeflow.org"
JOBSET = "jobset.x-k8s.io"
VERSIONS = {TRAINER: "v1alpha1", JOBSET: "v1alpha2"}
KINDS = {"ClusterTrainingRuntime": "clustertrainingruntimes", "TrainingRuntime": "trainingruntimes"}
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")

Schema = dict[str, Any]
_METADATA: Schema = dict.fromkeys(("labels", "annotations", "finalizers", "name", "namespace"))
_AFTER_2_0: Schema = {"affinity": None, "imagePullSecrets": None, "schedulingGates": None}
_CONTAINER: Schema = {"name": None, "env": None, "volumeMounts": None}
_PODS: Schema = {
    "serviceAccountName": None,
    "nodeSelector": None,
    "tolerations": None,
    "volumes": None,
    "initContainers": [_CONTAINER],
    "containers": [_CONTAINER],
}
_TRAINER: Schema = dict.fromkeys(
    ("image", "command", "args", "env", "numNodes", "resourcesPerNode", "numProcPerNode")
)
_COMMON: Schema = {
    "runtimeRef": dict.fromkeys(("name", "apiGroup", "kind")),
    "initializer": None,
    "trainer": _TRAINER,
    "suspend": None,
    "managedBy": None,
}
_TARGETS = [{"name": None}]
_PATCHED: Schema = {
    "metadata": _METADATA,
    "spec": {
        "replicatedJobs": [
            {
                "name": None,
                "template": {
                    "metadata": _METADATA,
                    "spec": {
                        "template": {
                            "metadata": _METADATA,
                            "spec": {**_PODS, **_AFTER_2_0, "securityContext": None},
                        }
                    },
                },
            }
        ]
    },
}
SPECS: dict[str, Schema] = {
    "2.0": {
        **_COMMON,
        "labels": None,
        "annotations": None,
        "podSpecOverrides": [{"targetJobs": _TARGETS, **_PODS}],
    },
    "2.1": {
        **_COMMON,
        "labels": None,
        "annotations": None,
        "podTemplateOverrides": [
            {"targetJobs": _TARGETS, "metadata": _METADATA, "spec": {**_PODS, **_AFTER_2_0}}
        ],
    },
    "2.2": {
        **_COMMON,
        "activeDeadlineSeconds": None,
        "runtimePatches": [
            {"manager": None, "time": None, "trainingRuntimeSpec": {"template": _PATCHED}}
        ],
    },
}
SPECS["later"] = SPECS["2.2"]


def _unknown(schema: Any, value: Any, at: str) -> list[str]:
    if isinstance(schema, list):
        rows = value if isinstance(value, list) else []
        return [f for n, row in enumerate(rows) for f in _unknown(schema[0], row, f"{at}[{n}]")]
    if schema is None or not isinstance(value, dict):
        return []
    found = []
    for key, item in value.items():
        here = f"{at}.{key}".lstrip(".")
        found += _unknown(schema[key], item, here) if key in schema else [here]
    return found


_JOBSET_SPEC: Schema = dict.fromkeys(
    (
        "coordinator",
        "failurePolicy",
        "managedBy",
        "network",
        "replicatedJobs",
        "startupPolicy",
        "successPolicy",
        "suspend",
        "ttlSecondsAfterFinished",
    )
)


def decode(plural: str, body: Body, release: str) -> None:
    """Refuse an unknown field, as fieldValidation=Strict does."""
    group, spec = (TRAINER, SPECS[release]) if plural == "trainjobs" else (JOBSET, _JOBSET_SPEC)
    known = {"apiVersion": None, "kind": None, "metadata": None, "status": None}
    found = _unknown({**known, "spec": spec}, body, "")
    if found:
        raise statuses.unknown_field(plural, VERSIONS[group], found[0])


def new_jobset(body: Body) -> None:
    """Fill in a new JobSet as its CRD does, without any webhook; the recording shows it."""
    for one in body["spec"]["replicatedJobs"]:
        one.setdefault("replicas", 1)
        one.setdefault("groupName", "default")
    if "failurePolicy" in body["spec"]:
        body["spec"]["failurePolicy"].setdefault("restartStrategy", "Recreate")
    body["metadata"]["generation"] = 1
    body["status"] = {}


def fill_in(body: Body) -> None:
    """Fill in a new TrainJob as its CRD does, without any webhook; the recording shows it."""
    spec = body["spec"]
    spec.setdefault("suspend", False)
    spec.setdefault("managedBy", "trainer.kubeflow.org/trainjob-controller")
    spec["runtimeRef"].setdefault("apiGroup", TRAINER)
    spec["runtimeRef"].setdefault("kind", "ClusterTrainingRuntime")
    body["metadata"]["generation"] = 1
    body["status"] = {}


def new_trainjob(store: Store, body: Body) -> None:
    """Fill in and judge a new TrainJob, as the CRD and Trainer's webhook do.

    The schema's defaults are those of the recording. The webhook looks for the runtime, and for
    every replicated job that is overridden: ValidateObjects in pkg/runtime/core, Validate in
    pkg/runtime/framework/plugins/jobset and in plugins/torch.
    """
    name, spec = body["metadata"]["name"], body["spec"]
    if not _NAME.match(name):
        said = "metadata.name must match RFC 1035 DNS label format"
        raise statuses.invalid("trainjobs", name, [("<nil>", f"Invalid value: {said}")])
    fill_in(body)
    reference = spec["runtimeRef"]
    if reference["kind"] not in KINDS:
        raise _denied(f"unsupported runtime: {reference['kind']}.{reference['apiGroup']}")
    runtime = runtime_of(store, body)
    if runtime is None:
        plural, field = KINDS[reference["kind"]], "spec.RuntimeRef"
        kind = reference["kind"][0].lower() + reference["kind"][1:]
        missing = f'{reference["kind"]}.{TRAINER} "{reference["name"]}" not found'
        said = f"{missing}: specified {kind} must be created before the TrainJob is created"
        if plural == "trainingruntimes":
            field = "spec.runtimeRef"
        raise _denied(f"{field}: Invalid value: {reference}: {said}")
    known = {one["name"] for one in runtime["spec"]["template"]["spec"]["replicatedJobs"]}
    if not overridden(spec) <= known:
        said = "must not have replicated job that doesn't exist in the runtime job template"
        raise _denied(f"spec.runtimePatches: Invalid value: {said}")
    reserved = sorted(
        v["name"] for v in spec.get("trainer", {}).get("env", []) if v["name"].startswith("PET_")
    )
    if reserved:
        said = f"must not have reserved envs, invalid envs configured: {reserved}"
        raise _denied(f"spec.trainer.env: Invalid value: {said}")


def runtime_of(store: Store, trainjob: Body) -> Body | None:
    """Return the runtime that a TrainJob refers to, None where there is none."""
    reference = trainjob["spec"]["runtimeRef"]
    plural = KINDS.get(reference["kind"], "")
    cluster_wide = plural == "clustertrainingruntimes"
    namespace = "" if cluster_wide else trainjob["metadata"]["namespace"]
    return store.get(plural, namespace, reference["name"])


def overridden(spec: Body) -> set[str]:
    """Return the replicated jobs that a TrainJob says something of."""
    found = set()
    for patch in spec.get("runtimePatches", []):
        inner = patch.get("trainingRuntimeSpec", {}).get("template", {}).get("spec", {})
        found |= {one["name"] for one in inner.get("replicatedJobs", [])}
    for key in ("podTemplateOverrides", "podSpecOverrides"):
        for override in spec.get(key, []):
            found |= {target["name"] for target in override["targetJobs"]}
    return found


def _denied(said: str) -> statuses.Refused:
    hook = "validator.trainjob.trainer.kubeflow.org"
    message = f'admission webhook "{hook}" denied the request: {said}'
    return statuses.failure(403, "Forbidden", message)


def changed(store: Store, plural: str, old: Body, new: Body) -> None:
    """Refuse a change of what is fixed, by the CRDs' rules and by the webhooks.

    Of a TrainJob only `suspend` and the overrides may change, and these only while it is
    suspended and nothing of it is active (checkRuntimePatchesImmutability). Of a JobSet the pods'
    labels, annotations and placement may, while it is suspended (ValidateUpdate).
    """
    name = old["metadata"]["name"]
    if plural != "trainjobs":
        return
    free = {"suspend", "runtimePatches", "podTemplateOverrides", "podSpecOverrides"}
    for field in sorted(old["spec"].keys() | new["spec"].keys()):
        before, after = old["spec"].get(field), new["spec"].get(field)
        if before == after:
            continue
        if field not in free:
            said = "Invalid value: field is immutable"
            raise statuses.invalid(plural, name, [(f"spec.{field}", said)])
        if field == "suspend":
            continue
        jobset = store.get("jobsets", old["metadata"]["namespace"], name)
        rows = [] if jobset is None else jobset["status"].get("replicatedJobsStatus", [])
        running = not old["spec"]["suspend"] and not new["spec"]["suspend"]
        if running or any(row["active"] for row in rows):
            raise _denied(f"spec.{field}: Forbidden: can only be modified when suspended")


def discovery(path: str, release: str) -> Body | None:
    """Return the answer to a question of what is served, None where it is another question."""
    for group, version in VERSIONS.items():
        served = {"groupVersion": f"{group}/{version}", "version": version}
        if path == f"/apis/{group}":
            return {"kind": "APIGroup", "apiVersion": "v1", "name": group, "versions": [served]}
        if path == f"/apis/{group}/{version}":
            names = ["trainjobs", *KINDS.values()] if group == TRAINER else ["jobsets"]
            listed = [{"name": n, "namespaced": True} for n in names]
            head = {"kind": "APIResourceList", "apiVersion": "v1"}
            return {**head, "groupVersion": served["groupVersion"], "resources": listed}
    if path == f"/openapi/v3/apis/{TRAINER}/{VERSIONS[TRAINER]}":
        spec: Schema = {"properties": {field: {} for field in SPECS[release]}}
        schema = {"com.github.kubeflow.trainer.v1alpha1.TrainJob": {"properties": {"spec": spec}}}
        return {"openapi": "3.0.0", "components": {"schemas": schema}}
    return None
