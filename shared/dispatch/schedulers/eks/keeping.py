"""The evidence finalizer: what keeps ended pods, and who lets go of them when.

The order is what makes it safe to stop at any step. The end is written on the Job first, so that
a look tells the same whatever becomes of the pods; then the pods are let go of, the one that
decided last; then the Job itself is marked as recorded and shown no more. It stays for its output
until its retention is over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from dispatch.errors import CallUnknown
from dispatch.record.names import ENDED_STATES
from dispatch.schedulers.eks.client import KubeClient, NoAnswer, NotSent, core, jobs
from dispatch.schedulers.eks.look import Look, NoEvidence
from dispatch.schedulers.eks.marks import (
    EVIDENCE,
    JOB,
    KEPT_END,
    RECORDED,
    Identity,
    KeptEnd,
    kept_end,
    read_ref,
    read_tag,
)
from dispatch.schedulers.eks.objects import Job, Pod, Unreadable, read_job, read_pod
from dispatch.schedulers.eks.ranks import Reading
from dispatch.schedulers.eks.response import AnswerClass, read_refusal
from dispatch.schedulers.eks.settings import EksSettings
from dispatch.schedulers.eks.verdict import read_object
from dispatch.schedulers.scheduler import Target

CONFLICTS = 8


class Keeping:
    """Letting go of evidence on one cluster."""

    def __init__(
        self,
        client: KubeClient,
        look: Look,
        settings: EksSettings,
        clock: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._look = look
        self._settings = settings
        self._clock = clock

    def acknowledge(self, targets: Sequence[Target]) -> None:
        """Let go of the evidence of ended objects, and delete what was kept long enough.

        Raises:
            CallUnknown: Ask again later; what was done so far stands.
        """
        namespaces: dict[str, None] = {}
        try:
            for target in targets:
                identity = read_ref(target.ref)
                if identity is not None:
                    self._let_go(target, identity)
                    namespaces[identity.namespace] = None
            for namespace in namespaces:
                self._delete_old(namespace)
        except (NoEvidence, NotSent, NoAnswer, Unreadable) as error:
            raise CallUnknown(f"evidence on {self._settings.name}: {error}") from error

    def _let_go(self, target: Target, identity: Identity) -> None:
        gathered = self._look.gather_one(identity, target.tag)
        reading = read_object(gathered.evidence(identity.uid))
        job = gathered.jobs.get(identity.uid)
        pods = gathered.pods.get(identity.uid, [])
        if reading.state not in ENDED_STATES or (job is None and not pods):
            return
        if job is not None and read_tag(job.meta) != target.tag:
            return
        if job is not None and KEPT_END not in job.meta.annotations:
            self._annotate(identity, _kept(reading))
        for pod in sorted(pods, key=lambda p: reading.reason.startswith(f"pod {p.meta.name}:")):
            self._free(pod, recorded=True)
        if job is not None and job.meta.deleted is None:
            self._label(identity)

    def free(self, keep: Callable[[str], bool]) -> int:
        """Let go of the pods of every job that nobody keeps a record of any more.

        Args:
            keep: Whether a job's evidence is still wanted; False for what is settled,
                tombstoned or unknown.

        Returns:
            How many pods were let go of.

        Raises:
            CallUnknown: Some are left; ask again later.
        """
        freed = 0
        try:
            for namespace in self._settings.namespaces:
                where, query = core(namespace, "pods"), {"labelSelector": JOB}
                for pod in [read_pod(b) for b in self._look.pages(where, query, "PodList")]:
                    if EVIDENCE in pod.meta.finalizers and not keep(pod.meta.labels[JOB]):
                        freed += self._free(pod, recorded=False)
        except (NoEvidence, NotSent, NoAnswer, Unreadable) as error:
            raise CallUnknown(f"evidence on {self._settings.name}: {error}") from error
        return freed

    # --- steps ---

    def _annotate(self, identity: Identity, end: KeptEnd) -> None:
        written = end.model_dump_json(exclude_none=True)
        self._patched(
            jobs(identity.namespace, identity.name),
            {"metadata": {"uid": identity.uid, "annotations": {KEPT_END: written}}},
        )

    def _label(self, identity: Identity) -> None:
        self._patched(
            jobs(identity.namespace, identity.name),
            {"metadata": {"uid": identity.uid, "labels": {RECORDED: "true"}}},
        )

    def _free(self, pod: Pod, *, recorded: bool) -> bool:
        """Take our finalizer off a pod, and mark it as recorded; others' finalizers stay."""
        where = core(pod.meta.namespace, "pods", pod.meta.name)
        for _ in range(CONFLICTS):
            marked = not recorded or RECORDED in pod.meta.labels
            if EVIDENCE not in pod.meta.finalizers and marked:
                return False
            metadata: dict[str, Any] = {
                "uid": pod.meta.uid,
                "resourceVersion": pod.meta.version,
                "finalizers": [f for f in pod.meta.finalizers if f != EVIDENCE] or None,
            }
            if recorded:
                metadata["labels"] = {RECORDED: "true"}
            if self._patched(where, {"metadata": metadata}):
                return True
            body = self._look.ask_for(where)
            if body is None or (again := read_pod(body)).meta.uid != pod.meta.uid:
                return False
            pod = again
        raise NoEvidence(f"pod {pod.meta.name} changes all the time")

    def _patched(self, where: str, body: dict[str, Any]) -> bool:
        """Patch; return False where a precondition failed, or the object is gone."""
        answer = self._client.patch(where, body)
        if answer.ok:
            return True
        refusal = read_refusal(answer.status, answer.body)
        if refusal.kind is AnswerClass.NOT_KNOWN or refusal.conflict:
            return False
        raise NoEvidence(f"{refusal.code} {refusal.message}")

    def _delete_old(self, namespace: str) -> None:
        before = self._clock() - timedelta(seconds=self._settings.retention_s)
        query = {"labelSelector": f"{JOB},{RECORDED}"}
        found = [read_job(b) for b in self._look.pages(jobs(namespace), query, "JobList")]
        for job in found:
            if job.meta.deleted is None and _ended_before(job, before):
                self._delete(job)

    def _delete(self, job: Job) -> None:
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {"uid": job.meta.uid},
        }
        self._client.delete(jobs(job.meta.namespace, job.meta.name), options)
        if self._settings.kueue_queue is not None and job.completions > 1:
            # It was there before its Job, so it has no owner to go with.
            self._client.delete(core(job.meta.namespace, "services", job.meta.name), {})


def _ended_before(job: Job, when: datetime) -> bool:
    end = kept_end(job.meta.annotations.get(KEPT_END))
    return end is not None and (end.ended_at or job.meta.created or when) < when


def _kept(reading: Reading) -> KeptEnd:
    return KeptEnd(
        state=reading.state,
        restarts=reading.restarts,
        cause=reading.cause,
        exit_code=reading.exit_code,
        signal=reading.signal,
        nodes=reading.nodes[:64],
        started_at=reading.started_at,
        ended_at=reading.ended_at,
        lost_at=reading.lost_at,
        reason=reading.reason,
    )
