"""A spec as a TrainJob of Kubeflow's Trainer, and what may be changed of one later; pure.

A TrainJob names a runtime, which is the cluster's own, and says what is different from it. What a
release lets it say of its pods differs (settings: `trainer.release`): from 2.2 on `runtimePatches`
are merged whole, a finalizer with them; 2.1 keeps labels and annotations of `podTemplateOverrides`
and drops the rest; 2.0 has `podSpecOverrides` without any metadata. It is created suspended, and
it never deletes itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from dispatch.record.header import Spec, TrainingRuntime
from dispatch.schedulers.eks.manifest import (
    SCRIPT_VARIABLE,
    Manifest,
    command_of,
    field,
    mounts_of,
    placement,
    plain,
    queue_of,
    resources,
    secret,
    volumes_of,
)
from dispatch.schedulers.eks.marks import (
    EPOCH,
    EVIDENCE,
    OBJECT,
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
from dispatch.schedulers.eks.objects import COMPLETION_INDEX, JOBSET_ATTEMPT, KUEUE_QUEUE, TRAINER
from dispatch.schedulers.eks.settings import EksSettings, Team, TrainerSettings
from dispatch.schedulers.eks.train_objects import INITIALIZERS, TRAINER_GROUP, TrainJob
from dispatch.schedulers.scheduler import StartOrder, Tag

MANAGER = "dispatch/supervisor"
"""Whose of a TrainJob's runtimePatches is ours."""
LONGEST_POD_NAME = 63
_AT_HOME = ("serviceAccountName", "nodeSelector", "tolerations", "volumes", "containers")
"""What Trainer 2.0 lets a TrainJob say of its pods."""


def runtime_of(spec: Spec) -> TrainingRuntime:
    """Return the runtime of a spec of kind trainjob."""
    if spec.eks is None or spec.eks.runtime is None:
        raise ValueError("the spec is of no TrainJob")
    return spec.eks.runtime


def trainjob_manifest(order: StartOrder, team: Team, settings: EksSettings) -> Manifest:
    """Return the TrainJob of an attempt, suspended."""
    tag, spec = order.tag, order.spec
    queue = queue_of(spec, settings)
    annotations = {SPEC_DIGEST: tag.spec_digest, OWNER: order.owner, RESTARTS: "0"}
    if spec.labels:
        annotations[USER_LABELS] = canonical(spec.labels)
    if queue is None:
        annotations[OUR_SUSPENSION] = "gate"
    labels = tag_labels(tag)
    runtime = runtime_of(spec)
    wanted: Manifest = {
        "runtimeRef": {"apiGroup": TRAINER_GROUP, "kind": runtime.kind, "name": runtime.name},
        "suspend": True,
        "trainer": _trainer(order, settings),
        **_overrides(order, team, settings),
    }
    if spec.time_limit_s is not None:
        wanted["activeDeadlineSeconds"] = spec.time_limit_s
    return {
        "apiVersion": f"{TRAINER_GROUP}/v1alpha1",
        "kind": "TrainJob",
        "metadata": {
            "name": object_name(tag),
            "namespace": team.namespace,
            "labels": labels if queue is None else {**labels, KUEUE_QUEUE: queue},
            "annotations": annotations,
        },
        "spec": wanted,
    }


def longest_pod_name(tag: Tag, spec: Spec) -> str:
    """Return the longest name that a pod of it can get; the JobSet's webhook refuses more."""
    name = max(runtime_of(spec).jobs, key=len)
    return f"{object_name(tag)}-{name}-0-{spec.nodes - 1}-abcde"


def _trainer(order: StartOrder, settings: EksSettings) -> Manifest:
    spec = order.spec
    found: Manifest = {
        "command": command_of(spec),
        "env": _environment(order, settings),
        "numNodes": spec.nodes,
    }
    if spec.image is not None:
        found["image"] = spec.image
    asked = spec.eks.trainer if spec.eks is not None else None
    if asked is not None and asked.processes_per_node is not None:
        found["numProcPerNode"] = asked.processes_per_node
    own = spec.cpus_per_node == 1 and spec.memory_mb_per_node is None and not spec.gpus_per_node
    adjusted = order.adjust is not None and order.adjust.memory_mb_per_node is not None
    if adjusted or not own:
        # Trainer puts it in the place of all that the runtime asks for.
        found["resourcesPerNode"] = resources(spec, order.adjust)
    return found


def _environment(order: StartOrder, settings: EksSettings) -> list[Manifest]:
    spec, tag = order.spec, order.tag
    fixed = {
        **tag.environment(),
        "DISPATCH_NODES": str(spec.nodes),
        "DISPATCH_RESTARTS": "0",
    }
    told: dict[str, Manifest] = {key: plain(key, value) for key, value in fixed.items()}
    if labels_pods(settings):
        told["DISPATCH_EPOCH"] = field("DISPATCH_EPOCH", f"metadata.annotations['{EPOCH}']")
        told["DISPATCH_RESTARTS"] = field(
            "DISPATCH_RESTARTS", f"metadata.annotations['{RESTARTS}']"
        )
    for key, path in (
        ("DISPATCH_NODE_RANK", COMPLETION_INDEX),
        ("DISPATCH_JOBSET_RESTARTS", JOBSET_ATTEMPT),
    ):
        told[key] = field(key, f"metadata.labels['{path}']")
    told |= {key: plain(key, value) for key, value in spec.env.items()}
    told |= {key: secret(key, value) for key, value in spec.secrets.items()}
    if spec.script is not None:
        told[SCRIPT_VARIABLE] = plain(SCRIPT_VARIABLE, spec.script)
    return [told[key] for key in sorted(told)]


def trainer_of(settings: EksSettings) -> TrainerSettings:
    """Return the cluster's Trainer; a spec that needs one was refused where there is none."""
    if settings.trainer is None:
        raise ValueError(f"cluster {settings.name} has no Trainer")
    return settings.trainer


def labels_pods(settings: EksSettings) -> bool:
    """Return whether a TrainJob can put labels and annotations on its pods here."""
    return trainer_of(settings).release != "2.0"


# --- what it says of its pods, by release ---


def _overrides(order: StartOrder, team: Team, settings: EksSettings) -> Manifest:
    labels = tag_labels(order.tag)
    marks = {SPEC_DIGEST: order.tag.spec_digest}
    jobs = runtime_of(order.spec).jobs
    trainer = trainer_of(settings)
    match trainer.release:
        case "2.0":
            pods = [
                {
                    "targetJobs": [{"name": job}],
                    **{k: v for k, v in _pod(job, order, team, settings).items() if k in _AT_HOME},
                }
                for job in jobs
            ]
            return {"labels": labels, "annotations": marks, "podSpecOverrides": pods}
        case "2.1":
            pods = [
                {
                    "targetJobs": [{"name": job}],
                    "metadata": _pod_metadata(order, keeps=False),
                    **_spec(_pod(job, order, team, settings)),
                }
                for job in jobs
            ]
            return {"labels": labels, "annotations": marks, "podTemplateOverrides": pods}
        case "2.2":
            keeps = trainer.evidence == "trainjob"
            patched = [
                {
                    "name": job,
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": {
                            "template": {
                                "metadata": _pod_metadata(order, keeps=keeps),
                                **_spec(_pod(job, order, team, settings)),
                            }
                        },
                    },
                }
                for job in jobs
            ]
            template = {
                "metadata": {"labels": labels, "annotations": marks},
                "spec": {"replicatedJobs": patched},
            }
            ours = {"manager": MANAGER, "trainingRuntimeSpec": {"template": template}}
            return {"runtimePatches": [ours]}
        case _:
            assert_never(trainer.release)


def _spec(pod: Manifest) -> Manifest:
    return {"spec": pod} if pod else {}


def _pod_metadata(order: StartOrder, *, keeps: bool) -> Manifest:
    tag, spec = order.tag, order.spec
    annotations = {SPEC_DIGEST: tag.spec_digest, **counted(0, tag)}
    if len(runtime_of(spec).jobs) == 1:
        annotations[RANKS] = str(spec.nodes)
    found: Manifest = {"labels": tag_labels(tag), "annotations": annotations}
    return {**found, "finalizers": [EVIDENCE]} if keeps else found


def _pod(job: str, order: StartOrder, team: Team, settings: EksSettings) -> Manifest:
    """Return what the pods of one replicated job have that their runtime doesn't say."""
    spec = order.spec
    pod = placement(order, settings)
    if team.service_account is not None:
        pod["serviceAccountName"] = team.service_account
    if settings.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in settings.image_pull_secrets]
    mounts = mounts_of(spec)
    if mounts and job not in INITIALIZERS:
        pod["volumes"] = volumes_of(spec)
        pod["containers"] = [{"name": TRAINER, "volumeMounts": mounts}]
    return pod


# --- what is changed later ---


def resumed(trainjob: TrainJob, tag: Tag, run: tuple[int, int] | None) -> Manifest:
    """Return the patch that resumes a TrainJob, whose new pods know whose they are.

    Args:
        trainjob: As it was read; a patch writes its lists whole.
        tag: Whose it is.
        run: How often Dispatch started it again, and how often all together; None where neither
            counts up.
    """
    annotations: dict[str, str | None] = {OUR_SUSPENSION: None}
    if run is not None:
        annotations[RESTARTS] = str(run[0])
    return {
        "metadata": {"annotations": annotations},
        "spec": {"suspend": False, **marked_pods(trainjob, tag, run)},
    }


def marked_pods(trainjob: TrainJob, tag: Tag, run: tuple[int, int] | None) -> Manifest:
    """Return the lists of a TrainJob with its own uid, and its run, on all its pods."""
    marks = {OBJECT: trainjob.meta.uid}
    if run is not None:
        marks |= {RESTARTS: str(run[0]), EPOCH: str(tag.epoch + run[1])}
    if any(one.get("manager") == MANAGER for one in trainjob.patches):
        patches = [
            _marked(one, _PATCHED, marks) if one.get("manager") == MANAGER else one
            for one in trainjob.patches
        ]
        return {"runtimePatches": patches}
    if trainjob.overrides:
        return {"podTemplateOverrides": [_marked(one, (), marks) for one in trainjob.overrides]}
    return {}


_PATCHED = ("trainingRuntimeSpec", "template", "spec", "replicatedJobs")
_IN_A_JOB = ("template", "spec", "template")


def _marked(value: Any, where: Sequence[str], marks: Mapping[str, str]) -> Any:
    """Return an override of pods with more annotations on them, where they are ours."""
    if where:
        head, *rest = where
        if not isinstance(value, Mapping) or head not in value:
            return value
        return {**value, head: _marked(value[head], rest, marks)}
    if isinstance(value, list):
        return [_marked(one, _IN_A_JOB, marks) for one in value]
    metadata = value.get("metadata")
    if not isinstance(metadata, Mapping):
        return value
    known = metadata.get("annotations")
    if not isinstance(known, Mapping) or SPEC_DIGEST not in known:
        return value
    return {**value, "metadata": {**metadata, "annotations": {**known, **marks}}}
