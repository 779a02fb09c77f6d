"""A spec as a batch/v1 Indexed Job and its headless Service; pure.

The Job starts nothing again by itself: Dispatch does its own recovery, and two recovery loops at
once are how work runs twice. It is created suspended, it never deletes itself, and each of its
pods bears the finalizer that keeps it until its end is in the record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dispatch.record.header import Adjust, Spec
from dispatch.schedulers.eks.marks import (
    EVIDENCE,
    OUR_SUSPENSION,
    OWNER,
    RANKS,
    RESTARTS,
    SPEC_DIGEST,
    USER_LABELS,
    canonical,
    counted,
    object_name,
    tag_labels,
)
from dispatch.schedulers.eks.objects import COMPLETION_INDEX, KUEUE_QUEUE, MAIN
from dispatch.schedulers.eks.settings import EksSettings, Team
from dispatch.schedulers.scheduler import StartOrder, Tag

MASTER_PORT = 29500
SCRIPT_VARIABLE = "DISPATCH_SCRIPT"
_SCRIPT_FOLDER = "/dispatch"
_RUN_SCRIPT = (
    f'printf %s "${SCRIPT_VARIABLE}" > {_SCRIPT_FOLDER}/script && unset {SCRIPT_VARIABLE} && '
    f"chmod 0700 {_SCRIPT_FOLDER}/script && exec {_SCRIPT_FOLDER}/script"
)

Manifest = dict[str, Any]


def escape(value: str) -> str:
    """Return a text that the kubelet's expansion of `$(NAME)` and `$$` turns back into itself."""
    return value.replace("$", "$$")


def job_manifest(order: StartOrder, team: Team, settings: EksSettings) -> Manifest:
    """Return the Job of an attempt, suspended."""
    tag, spec = order.tag, order.spec
    queue = queue_of(spec, settings)
    labels = tag_labels(tag)
    annotations = {
        SPEC_DIGEST: tag.spec_digest,
        OWNER: order.owner,
        RESTARTS: "0",
    }
    if spec.labels:
        annotations[USER_LABELS] = canonical(spec.labels)
    if queue is None:
        annotations[OUR_SUSPENSION] = "gate"
    job_spec: Manifest = {
        "completionMode": "Indexed",
        "completions": spec.nodes,
        "parallelism": spec.nodes,
        "suspend": True,
        "backoffLimit": 0,
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {"rules": _FAIL_AT_ONCE},
        "template": {
            "metadata": {
                "labels": labels,
                "annotations": {
                    SPEC_DIGEST: tag.spec_digest,
                    RANKS: str(spec.nodes),
                    **counted(0, tag),
                },
                "finalizers": [EVIDENCE],
            },
            "spec": _pod_spec(order, team, settings),
        },
    }
    if spec.time_limit_s is not None:
        job_spec["activeDeadlineSeconds"] = spec.time_limit_s
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": object_name(tag),
            "namespace": team.namespace,
            "labels": labels if queue is None else {**labels, KUEUE_QUEUE: queue},
            "annotations": annotations,
        },
        "spec": job_spec,
    }


_FAIL_AT_ONCE: list[Manifest] = [
    {
        "action": "FailJob",
        "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
    },
    {
        "action": "FailJob",
        "onExitCodes": {"containerName": MAIN, "operator": "NotIn", "values": [0]},
    },
]
"""What a pod's end does to its Job; the Job's own message then keeps the exit code as well."""


def queue_of(spec: Spec, settings: EksSettings) -> str | None:
    """Return the Kueue queue that admits the job, None where the gate is ours."""
    if settings.kueue_queue is None:
        return None
    named = spec.eks.kueue_queue if spec.eks is not None else None
    return named or spec.queue or settings.kueue_queue


def needs_service(spec: Spec) -> bool:
    """Return whether the ranks must find each other by name."""
    return spec.nodes > 1


def service_manifest(tag: Tag, namespace: str, job_uid: str | None) -> Manifest:
    """Return the headless Service by which ranks find each other; it goes with its Job."""
    metadata: Manifest = {
        "name": object_name(tag),
        "namespace": namespace,
        "labels": tag_labels(tag),
        "annotations": {SPEC_DIGEST: tag.spec_digest},
    }
    if job_uid is not None:
        metadata["ownerReferences"] = [
            {"apiVersion": "batch/v1", "kind": "Job", "name": object_name(tag), "uid": job_uid}
        ]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": tag_labels(tag),
        },
    }


def _pod_spec(order: StartOrder, team: Team, settings: EksSettings) -> Manifest:
    spec = order.spec
    pod: Manifest = {
        "restartPolicy": "Never",
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": settings.grace_s,
        "automountServiceAccountToken": team.service_account is not None,
        "containers": [_container(order)],
    }
    if team.service_account is not None:
        pod["serviceAccountName"] = team.service_account
    if needs_service(spec):
        pod["subdomain"] = object_name(order.tag)
    if settings.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in settings.image_pull_secrets]
    if spec.eks is not None and spec.eks.priority_class is not None:
        pod["priorityClassName"] = spec.eks.priority_class
    volumes = volumes_of(spec)
    if volumes:
        pod["volumes"] = volumes
    return {**pod, **placement(order, settings)}


def placement(order: StartOrder, settings: EksSettings) -> Manifest:
    """Return the parts of a pod's spec that say where it may run."""
    where: Manifest = {}
    if settings.tolerations:
        where["tolerations"] = [
            {
                "key": one.key,
                "operator": "Exists" if one.value is None else "Equal",
                **({} if one.value is None else {"value": one.value}),
                **({} if one.effect is None else {"effect": one.effect}),
            }
            for one in settings.tolerations
        ]
    eks = order.spec.eks
    selector = {**settings.node_selector, **(eks.node_selector if eks else {})}
    if selector:
        where["nodeSelector"] = selector
    avoided = () if order.adjust is None else order.adjust.avoid_nodes
    if avoided:
        where["affinity"] = stay_off(avoided)
    return where


def stay_off(nodes: tuple[str, ...]) -> Manifest:
    """Return an affinity for any node but these."""
    term = {
        "matchFields": [
            {"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in nodes
        ]
    }
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}
        }
    }


def volumes_of(spec: Spec) -> list[Manifest]:
    """Return the volumes that a spec needs: for its script, and for shared memory."""
    volumes: list[Manifest] = []
    if spec.script is not None:
        volumes.append({"name": "dispatch-script", "emptyDir": {}})
    if spec.eks is not None and spec.eks.shared_memory_mb is not None:
        size = f"{spec.eks.shared_memory_mb}Mi"
        volumes.append(
            {"name": "dispatch-shm", "emptyDir": {"medium": "Memory", "sizeLimit": size}}
        )
    return volumes


def _container(order: StartOrder) -> Manifest:
    spec = order.spec
    container: Manifest = {
        "name": MAIN,
        "image": spec.image,
        "command": command_of(spec),
        "env": _environment(order),
        "resources": resources(spec, order.adjust),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if spec.workdir is not None:
        container["workingDir"] = spec.workdir
    mounts = mounts_of(spec)
    if mounts:
        container["volumeMounts"] = mounts
    return container


def mounts_of(spec: Spec) -> list[Manifest]:
    """Return where a container finds the volumes that its spec needs."""
    mounts = []
    if spec.script is not None:
        mounts.append({"name": "dispatch-script", "mountPath": _SCRIPT_FOLDER})
    if spec.eks is not None and spec.eks.shared_memory_mb is not None:
        mounts.append({"name": "dispatch-shm", "mountPath": "/dev/shm"})  # noqa: S108
    return mounts


def command_of(spec: Spec) -> list[str]:
    """Return the command of a container, escaped; a script runs from a variable."""
    if spec.command is not None:
        return [escape(word) for word in spec.command]
    return ["/bin/sh", "-c", escape(_RUN_SCRIPT)]


def _environment(order: StartOrder) -> list[Manifest]:
    spec, name = order.spec, object_name(order.tag)
    several = needs_service(spec)
    master = f"{name}-0.{name}" if several else "localhost"
    rank = f"metadata.labels['{COMPLETION_INDEX}']"
    fixed = {
        **order.tag.environment(),
        "DISPATCH_NODES": str(spec.nodes),
        "DISPATCH_WORLD_SIZE": str(spec.nodes),
        "DISPATCH_LOCAL_RANK": "0",
        "DISPATCH_MASTER_ADDR": master,
        "DISPATCH_MASTER_PORT": str(MASTER_PORT),
    }
    told: dict[str, Manifest] = {key: plain(key, value) for key, value in fixed.items()}
    told["DISPATCH_EPOCH"] = field("DISPATCH_EPOCH", "metadata.annotations['dispatch/epoch']")
    told["DISPATCH_RESTARTS"] = field(
        "DISPATCH_RESTARTS", "metadata.annotations['dispatch/restarts']"
    )
    for key in ("DISPATCH_RANK", "DISPATCH_NODE_RANK"):
        told[key] = field(key, rank)
    conventional: Mapping[str, Manifest] = {
        "MASTER_ADDR": plain("MASTER_ADDR", master),
        "MASTER_PORT": plain("MASTER_PORT", str(MASTER_PORT)),
        "RANK": field("RANK", rank),
        "WORLD_SIZE": plain("WORLD_SIZE", str(spec.nodes)),
    }
    told |= conventional if several else {}
    told |= {key: plain(key, value) for key, value in spec.env.items()}
    told |= {key: secret(key, value) for key, value in spec.secrets.items()}
    if spec.script is not None:
        told[SCRIPT_VARIABLE] = plain(SCRIPT_VARIABLE, spec.script)
    return [told[key] for key in sorted(told)]


def plain(name: str, value: str) -> Manifest:
    """Return a variable with a value of its own."""
    return {"name": name, "value": escape(value)}


def field(name: str, path: str) -> Manifest:
    """Return a variable that the pod's own metadata gives its value."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def secret(name: str, reference: str) -> Manifest:
    """Return a variable that a Secret gives its value."""
    kept, _, key = reference.partition(":")[2].partition("/")
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": kept, "key": key}}}


def resources(spec: Spec, adjust: Adjust | None) -> Manifest:
    """Return what one node's container asks for, and what it may take."""
    asked: Manifest = {"cpu": str(spec.cpus_per_node)}
    limits: Manifest = {}
    memory = spec.memory_mb_per_node
    if adjust is not None and adjust.memory_mb_per_node is not None:
        memory = adjust.memory_mb_per_node
    if memory is not None:
        asked["memory"] = limits["memory"] = f"{memory}Mi"
    if spec.gpus_per_node:
        resource = spec.eks.gpu_resource if spec.eks is not None else "nvidia.com/gpu"
        asked[resource] = limits[resource] = str(spec.gpus_per_node)
    return {"requests": asked, **({"limits": limits} if limits else {})}
