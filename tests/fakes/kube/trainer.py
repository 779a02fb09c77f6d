"""Kubeflow's Trainer, as far as its public code says what it does; no recording shows it.

Each behaviour names where it is written, by path in kubeflow/trainer; releases differ, so the
controller is of one: 2.0 (v2.0.1), 2.1 (v2.1.0), 2.2 (v2.2.1, and v2.3.0-rc.3 in all of this) or
`later` (its main branch of August 2026).
"""

from __future__ import annotations

from copy import deepcopy
from datetime import datetime, timedelta
from typing import Any

from tests.fakes.kube import events, jobsets
from tests.fakes.kube.api import Api
from tests.fakes.kube.crds import KINDS, runtime_of
from tests.fakes.kube.jobs import condition
from tests.fakes.kube.jobsets import owner, set_condition
from tests.fakes.kube.store import Body, Store, parse

API = "trainer.kubeflow.org/v1alpha1"
ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"


class TrainerController:
    """The controller of TrainJobs.

    Attributes:
        release: Which release it is of.
    """

    def __init__(self, store: Store, api: Api, release: str) -> None:
        self.store = store
        self.api = api
        self.release = release

    def sync(self, trainjob: Body) -> None:
        """Bring one TrainJob a step further; pkg/controller/trainjob_controller.go, Reconcile.

        It never looks whether a TrainJob is being deleted, in any release.
        """
        before, status = repr(trainjob["status"]), trainjob["status"]
        if self.release == "2.0" and _is_finished(trainjob):
            return
        self._clear_failed(status)
        if self._runtime_kind(trainjob) is None:
            reference = trainjob["spec"]["runtimeRef"]
            kind = f"{reference['kind']}.{reference['apiGroup']}"
            said = f"unsupported runtime: {kind}"
            reason = "TrainingRuntimeNotSupported"
            set_condition(self.store, trainjob, "Failed", "True", reason, said)
        elif self.release == "2.1" or not _is_finished(trainjob):
            # 2.1 doesn't look whether it has finished: issues 2981 and 2991 of kubeflow/trainer.
            # 2.2 forgets that it had failed right before it looks: issues 3737 and 3779.
            self._make(trainjob)
        self._suspended(trainjob)
        self._adopt_status(trainjob)
        self._deadline(trainjob)
        if repr(trainjob["status"]) != before:
            self.store.changed("trainjobs", trainjob)

    def due(self) -> list[datetime]:
        """When something here happens by itself."""
        found = [self._deadline_at(t) for t in self.store.of("trainjobs")]
        return [at for at in found if at is not None]

    def _clear_failed(self, status: Body) -> None:
        """Forget a failure at the beginning of each turn (removeFailedCondition).

        2.2 keeps a deadline that passed; later ones keep every failure but the one that tells of
        an unsupported runtime (pull request 3891).
        """
        found = status.get("conditions", [])
        left = [c for c in found if c["type"] != "Failed" or self._keeps(c["reason"])]
        if found:
            status["conditions"] = left

    def _keeps(self, reason: str) -> bool:
        match self.release:
            case "later":
                return reason != "TrainingRuntimeNotSupported"
            case "2.2":
                return reason == "DeadlineExceeded"
            case _:
                return False

    def _runtime_kind(self, trainjob: Body) -> str | None:
        reference = trainjob["spec"]["runtimeRef"]
        ours = reference["apiGroup"] == API.partition("/")[0]
        return KINDS.get(reference["kind"]) if ours else None

    # --- the JobSet ---

    def _make(self, trainjob: Body) -> None:
        """Apply the JobSet; pkg/runtime/framework/plugins/jobset/jobset.go, Build.

        One that runs isn't touched. One that isn't there is made, whatever became of the last.
        """
        meta, spec = trainjob["metadata"], trainjob["spec"]
        there = self.store.get("jobsets", meta["namespace"], meta["name"])
        if there is not None and not spec["suspend"] and not there["spec"]["suspend"]:
            return
        runtime = runtime_of(self.store, trainjob)
        if runtime is None:
            said = "TrainJob resources reconciliation failed: runtime specified in TrainJob is "
            said += "not found"
            reason = "TrainJobResourcesCreationFailed"
            if not self._told(trainjob, said):
                events.tell(self.store, trainjob, "TrainJob", reason, said, "trainer")
            return
        made = self._jobset(trainjob, runtime)
        if there is None:
            self.store.add("jobsets", made, _new_jobset)
            return
        jobsets.default(made)
        was = repr((there["spec"], there["metadata"].get("labels")))
        there["spec"] = {**there["spec"], **made["spec"]}
        there["metadata"]["labels"] = {
            **there["metadata"].get("labels", {}),
            **made["metadata"]["labels"],
        }
        if repr((there["spec"], there["metadata"].get("labels"))) != was:
            there["metadata"]["generation"] += 1
            self.store.changed("jobsets", there)

    def _told(self, trainjob: Body, said: str) -> bool:
        """Return whether this was told already; it backs off, and tries and tells it again."""
        uid = trainjob["metadata"]["uid"]
        found = self.store.of("events", trainjob["metadata"]["namespace"])
        return any(e["involvedObject"]["uid"] == uid and e["message"] == said for e in found)

    def _jobset(self, trainjob: Body, runtime: Body) -> Body:
        spec, meta = trainjob["spec"], trainjob["metadata"]
        template = deepcopy(runtime["spec"]["template"])
        marks = {
            key: {**template.get("metadata", {}).get(key, {}), **spec.get(key, {})}
            for key in ("labels", "annotations")
        }
        for patch in spec.get("runtimePatches", []):
            patched = patch.get("trainingRuntimeSpec", {}).get("template", {})
            for key in ("labels", "annotations"):
                marks[key] |= patched.get("metadata", {}).get(key, {})
        wanted = self._overridden(template["spec"], spec)
        for one in wanted["replicatedJobs"]:
            self._train(one, spec.get("trainer", {}), runtime["spec"].get("mlPolicy", {}))
        return {
            "metadata": {
                **marks,
                "name": meta["name"],
                "namespace": meta["namespace"],
                "ownerReferences": [owner(trainjob, API, "TrainJob")],
            },
            "spec": {**wanted, "suspend": spec["suspend"]},
        }

    def _overridden(self, jobset: Body, spec: Body) -> Body:
        """Merge what a TrainJob says of its pods; pkg/runtime/core/trainingruntime.go.

        2.2: mergeRuntimePatches, a strategic merge of the whole Job template, finalizers too.
        2.1: mergePodTemplateOverrides takes labels and annotations out of the metadata, no more.
        2.0: podSpecOverrides has no metadata.
        """
        for patch in spec.get("runtimePatches", []):
            inner = patch.get("trainingRuntimeSpec", {}).get("template", {}).get("spec", {})
            for wanted in inner.get("replicatedJobs", []):
                for one in jobset["replicatedJobs"]:
                    if one["name"] == wanted["name"]:
                        one["template"] = strategic(one["template"], wanted.get("template", {}))
        for override in spec.get("podTemplateOverrides", []):
            metadata = override.get("metadata", {})
            kept = {k: metadata[k] for k in ("labels", "annotations") if k in metadata}
            self._override(jobset, override, {"metadata": kept, "spec": override.get("spec", {})})
        for override in spec.get("podSpecOverrides", []):
            inner = {k: v for k, v in override.items() if k != "targetJobs"}
            self._override(jobset, override, {"spec": inner})
        return jobset

    def _override(self, jobset: Body, override: Body, pods: Body) -> None:
        targets = {target["name"] for target in override["targetJobs"]}
        for one in jobset["replicatedJobs"]:
            if one["name"] in targets:
                job = one["template"]["spec"]
                job["template"] = strategic(job["template"], pods)

    def _train(self, one: Body, trainer: Body, policy: Body) -> None:
        """Put the trainer's image, command, variables and numbers in (builder.go, plugins).

        With MPI the launcher is the trainer, and one node the fewer where it is a node itself
        (plugins/mpi/mpi.go, EnforceMLPolicy).
        """
        nodes = int(trainer.get("numNodes") or policy.get("numNodes", 1))
        trains = one["template"].get("metadata", {}).get("labels", {}).get(ANCESTOR) == "trainer"
        mpi = "mpi" in policy
        ranks = nodes if trains and not mpi else 1
        if mpi and one["name"] == "node":
            ranks = max(nodes - 1, 1) if policy["mpi"].get("runLauncherAsNode") else nodes
        job = one["template"]["spec"]
        if trains or mpi:
            job["parallelism"] = job["completions"] = ranks
        for container in job["template"]["spec"]["containers"]:
            if container["name"] != "node":
                continue
            if trains:
                container |= {k: trainer[k] for k in ("image", "command", "args") if k in trainer}
            if trains or mpi:
                known = {v["name"]: v for v in container.get("env", [])}
                known |= {v["name"]: v for v in deepcopy(trainer.get("env", []))}
                container["env"] = list(known.values())
                if trainer.get("resourcesPerNode"):
                    container["resources"] = deepcopy(trainer["resourcesPerNode"])

    # --- what it reports ---

    def _suspended(self, trainjob: Body) -> None:
        """Write whether it is suspended (setSuspendedCondition)."""
        if trainjob["spec"]["suspend"]:
            said = "TrainJob is suspended"
            set_condition(self.store, trainjob, "Suspended", "True", "Suspended", said)
        elif condition(trainjob, "Suspended"):
            said = "TrainJob is resumed"
            set_condition(self.store, trainjob, "Suspended", "False", "Resumed", said)

    def _adopt_status(self, trainjob: Body) -> None:
        """Take the JobSet's word for its own (jobset.go, Status); Complete is never taken back."""
        meta = trainjob["metadata"]
        jobset = self.store.get("jobsets", meta["namespace"], meta["name"])
        if jobset is None:
            return
        for theirs, ours in (("Completed", "Complete"), ("Failed", "Failed")):
            found = condition(jobset, theirs)
            past = condition(trainjob, "Failed")
            if found is None or (past and past["reason"] == "DeadlineExceeded"):
                continue
            others = [c for c in trainjob["status"].get("conditions", []) if c["type"] != ours]
            trainjob["status"]["conditions"] = [*others, {**found, "type": ours}]
        rows = jobset["status"].get("replicatedJobsStatus")
        if rows:
            trainjob["status"]["jobsStatus"] = deepcopy(rows)

    def _deadline_at(self, trainjob: Body) -> datetime | None:
        spec = trainjob["spec"]
        limit = spec.get("activeDeadlineSeconds")
        if not limit or spec["suspend"] or _is_finished(trainjob):
            return None
        began = trainjob["metadata"]["creationTimestamp"]
        for found in trainjob["status"].get("conditions", []):
            if found["type"] == "Suspended" and found["status"] == "False":
                began = found["lastTransitionTime"]
        return parse(began) + timedelta(seconds=limit)

    def _deadline(self, trainjob: Body) -> None:
        """Fail what has run for too long, and delete its JobSet (reconcileDeadline, from 2.2)."""
        at, meta = self._deadline_at(trainjob), trainjob["metadata"]
        if self.release in ("2.0", "2.1") or at is None or self.store.now() < at:
            return
        said = "TrainJob exceeded its active deadline"
        set_condition(self.store, trainjob, "Failed", "True", "DeadlineExceeded", said)
        jobset = self.store.get("jobsets", meta["namespace"], meta["name"])
        if jobset is not None:
            self.store.drop("jobsets", jobset)


def _is_finished(trainjob: Body) -> bool:
    return bool(condition(trainjob, "Complete") or condition(trainjob, "Failed"))


def _new_jobset(body: Body, uid: str) -> None:
    del uid
    jobsets.default(body)
    body["metadata"]["generation"] = 1
    body["status"] = {}


def strategic(body: Any, patch: Any, key: str = "") -> Any:
    """Return a body with a strategic merge patch applied, as far as pod templates need it."""
    if isinstance(patch, dict) and isinstance(body, dict):
        result = dict(body)
        for name, value in patch.items():
            result[name] = strategic(body.get(name), value, name) if name in body else value
        return deepcopy(result)
    if isinstance(patch, list) and isinstance(body, list):
        if key == "finalizers":
            return [*body, *(one for one in patch if one not in body)]
        by = {"containers": "name", "volumes": "name", "env": "name", "volumeMounts": "mountPath"}
        if key in by:
            named = {one[by[key]]: one for one in body}
            for one in patch:
                named[one[by[key]]] = strategic(named.get(one[by[key]], {}), one)
            return list(named.values())
    return deepcopy(patch)


def torch_runtime(name: str = "torch-distributed", **jobset: Any) -> Body:
    """Return a runtime like Trainer's own for PyTorch, that starts nothing again by itself.

    manifests/base/runtimes/torch_distributed.yaml, with what Dispatch's guide tells to add.
    """
    return {
        "metadata": {"name": name},
        "spec": {
            "mlPolicy": {"numNodes": 1, "torch": {}},
            "template": {"spec": {"replicatedJobs": [_replicated("node", trains=True)], **jobset}},
        },
    }


def mpi_runtime(name: str = "deepspeed-distributed", **jobset: Any) -> Body:
    """Return a runtime like Trainer's own for MPI.

    manifests/base/runtimes/deepspeed_distributed.yaml, with what Dispatch's guide tells to add.
    """
    workers = _replicated("node", trains=False)
    pods = workers["template"]["spec"]["template"]["spec"]
    pods["containers"][0]["command"] = ["/usr/sbin/sshd"]
    return {
        "metadata": {"name": name},
        "spec": {
            "mlPolicy": {"numNodes": 1, "mpi": {"runLauncherAsNode": True}},
            "template": {
                "spec": {
                    "successPolicy": {"operator": "All", "targetReplicatedJobs": ["launcher"]},
                    "replicatedJobs": [_replicated("launcher", trains=True), workers],
                    **jobset,
                }
            },
        },
    }


def _replicated(name: str, *, trains: bool) -> Body:
    container = {
        "name": "node",
        "image": "runtime:1",
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    return {
        "name": name,
        "template": {
            "metadata": {"labels": {ANCESTOR: "trainer"} if trains else {}},
            "spec": {
                "backoffLimit": 0,
                "podReplacementPolicy": "Failed",
                "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
            },
        },
    }
