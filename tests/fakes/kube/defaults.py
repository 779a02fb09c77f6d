"""What the API server fills in, as far as a Job, its pods and its Service show it."""

from __future__ import annotations

from copy import deepcopy

from tests.fakes.kube.store import Body

TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"

_BEAR_WITH = [
    {
        "effect": "NoExecute",
        "key": f"node.kubernetes.io/{key}",
        "operator": "Exists",
        "tolerationSeconds": 300,
    }
    for key in ("not-ready", "unreachable")
]
_TOKEN = {
    "defaultMode": 420,
    "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {
            "configMap": {
                "items": [{"key": "ca.crt", "path": "ca.crt"}],
                "name": "kube-root-ca.crt",
            }
        },
        {
            "downwardAPI": {
                "items": [
                    {
                        "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                        "path": "namespace",
                    }
                ]
            }
        },
    ],
}


def job(body: Body, uid: str) -> None:
    """Fill in a Job that is about to be stored."""
    name, spec = body["metadata"]["name"], body["spec"]
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("completions", 1)
    spec.setdefault("parallelism", 1)
    spec.setdefault("suspend", False)
    spec["manualSelector"] = False
    replaced = "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
    spec.setdefault("podReplacementPolicy", replaced)
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
    labels |= {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    pod_spec(spec["template"]["spec"])
    body["metadata"]["generation"] = 1
    body["status"] = {}


def pod_spec(spec: Body) -> None:
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    for container in spec["containers"] + spec.get("initContainers", []):
        tagged = ":" in container["image"].rpartition("/")[2]
        container.setdefault("imagePullPolicy", "IfNotPresent" if tagged else "Always")
        container.setdefault("resources", {})
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        for variable in container.get("env", []):
            reference = variable.get("valueFrom", {}).get("fieldRef")
            if reference is not None:
                reference.setdefault("apiVersion", "v1")


def pod(owner: Body, index: int, suffix: str) -> Body:
    """Return the pod that the Job controller makes for one index."""
    name, uid = owner["metadata"]["name"], owner["metadata"]["uid"]
    template = deepcopy(owner["spec"]["template"])
    meta, spec = template["metadata"], template["spec"]
    prefix = f"{name}-{index}-"
    volume = f"kube-api-access-{suffix}"
    for container in spec["containers"]:
        container.setdefault("env", []).append(
            {
                "name": "JOB_COMPLETION_INDEX",
                "valueFrom": {
                    "fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}
                },
            }
        )
        if spec.get("automountServiceAccountToken", True):
            container.setdefault("volumeMounts", []).append(
                {
                    "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                    "name": volume,
                    "readOnly": True,
                }
            )
    if spec.get("automountServiceAccountToken", True):
        spec.setdefault("volumes", []).append({"name": volume, "projected": deepcopy(_TOKEN)})
    per_index = "backoffLimitPerIndex" in owner["spec"]
    counted = {"batch.kubernetes.io/job-index-failure-count": "0"} if per_index else {}
    account = spec.get("serviceAccountName", "default")
    spec |= {
        "enableServiceLinks": spec.get("enableServiceLinks", True),
        "hostname": f"{name}-{index}",
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "serviceAccount": account,
        "serviceAccountName": account,
        "tolerations": spec.get("tolerations", []) + deepcopy(_BEAR_WITH),
    }
    return {
        "metadata": {
            "annotations": {**meta.get("annotations", {}), INDEX: str(index), **counted},
            "finalizers": [*meta.get("finalizers", []), TRACKING],
            "generateName": prefix,
            "generation": 1,
            "labels": {**meta["labels"], INDEX: str(index)},
            "name": f"{prefix}{suffix}",
            "namespace": owner["metadata"]["namespace"],
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "blockOwnerDeletion": True,
                    "controller": True,
                    "kind": "Job",
                    "name": name,
                    "uid": uid,
                }
            ],
        },
        "spec": spec,
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }
