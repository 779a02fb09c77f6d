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
from dispatch.schedulers.eks.changes import deletion
from dispatch.schedulers.eks.client import KubeClient, NoAnswer, NoEvidence, NotSent, core, jobs
from dispatch.schedulers.eks.judge import read_object
from dispatch.schedulers.eks.look import Look
from dispatch.schedulers.eks.marks import (
    ATTEMPT_NAME,
    EARLIER,
    EVIDENCE,
    JOB,
    KEPT_END,
    OUR_SUSPENSION,
    RECORDED,
    TRAINJOBS,
    EarlierRun,
    Identity,
    KeptEnd,
    canonical,
    kept_end,
    read_ref,
    read_tag,
)
from dispatch.schedulers.eks.objects import JOBSET_NAME, Job, Meta, Pod, Unreadable, read_pod
from dispatch.schedulers.eks.ranks import Reading
from dispatch.schedulers.eks.response import AnswerClass, read_refusal
from dispatch.schedulers.eks.runs import Train, run_of, runs_of
from dispatch.schedulers.eks.settings import EksSettings
from dispatch.schedulers.eks.shapes import JOB as JOB_SHAPE
from dispatch.schedulers.eks.shapes import TRAINJOB, Shape, Top, shape_at
from dispatch.schedulers.eks.train_look import jobsets
from dispatch.schedulers.eks.train_verdict import ENDED, told_ranks
from dispatch.schedulers.eks.verdict import Evidence
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
        evidence = self._look.gather_one(identity, target.tag).evidence(identity.uid)
        reading, top, pods = read_object(evidence), evidence.top, evidence.pods or ()
        if top is None and not pods:
            return
        if top is not None and read_tag(top) != target.tag:
            return
        if reading.state not in ENDED_STATES:
            if evidence.train is not None and reading.restarts == target.restarts:
                self._let_go_before(identity, evidence, evidence.train)
            return
        kept = None if top is None else kept_end(top.annotations.get(KEPT_END))
        if top is not None and (kept is None or kept.restarts != reading.restarts):
            self._write_end(identity, _kept(reading).model_dump_json(exclude_none=True))
        for pod in sorted(pods, key=lambda p: reading.reason.startswith(f"pod {p.meta.name}:")):
            self._free(pod, recorded=True)
        if top is None:
            return
        if evidence.train is not None:
            self._label_made(identity, evidence.train)
        if top.deleted is None:
            self._label(identity)
        elif "foregroundDeletion" in top.finalizers and identity.plural == TRAINJOBS:
            self._let_die(identity, top)

    def _let_go_before(self, identity: Identity, evidence: Evidence, train: Train) -> None:
        """Let go of the runs before the one that the record knows of, their ends kept on it.

        The JobSet controller makes no Job anew while a pod of the old one is kept. So a restart
        waits here until the record has it.
        """
        runs = runs_of(train, evidence.pods or ())
        over = [p for p in runs.before if p.over and EVIDENCE in p.meta.finalizers]
        if not over:
            return
        known = {(one.jobset, one.attempt): one for one in runs.earlier}
        for run in {run_of(pod): None for pod in over}:
            pods = [p for p in runs.before if run_of(p) == run]
            said = told_ranks(evidence, pods)
            known[run] = EarlierRun(jobset=run[0], attempt=run[1], said=said)
        if train.trainjob is not None:
            told = list(known.values())
            silent = [one.model_copy(update={"said": ""}) for one in told[:-_TOLD]]
            written = [one.model_dump() for one in (*silent, *told[-_TOLD:])]
            self._annotate(identity, EARLIER, canonical(written))
        for pod in over:
            self._free(pod, recorded=True)

    def free(self, keep: Callable[[str, datetime | None], bool]) -> int:
        """Let go of the pods of every job that nobody keeps a record of any more.

        A pod that was deleted counts as ended since then; whether it still runs somewhere, only
        its node could say.
        """
        freed = 0
        try:
            for namespace in self._settings.namespaces:
                for pod in self._all_pods(namespace):
                    job, kept = _job_of(pod), EVIDENCE in pod.meta.finalizers
                    if kept and job and not keep(job, _ended_at(pod)):
                        freed += self._free(pod, recorded=False)
        except (NoEvidence, NotSent, NoAnswer, Unreadable) as error:
            raise CallUnknown(f"evidence on {self._settings.name}: {error}") from error
        return freed

    def _all_pods(self, namespace: str) -> list[Pod]:
        """Return every pod of Dispatch's, the unlabelled ones of TrainJobs with them."""
        where, selectors = core(namespace, "pods"), [JOB]
        if self._settings.trainer is not None:
            selectors.append(f"{JOBSET_NAME},!{JOB}")
        return [
            read_pod(body)
            for selector in selectors
            for body in self._look.pages(where, {"labelSelector": selector}, "PodList")
        ]

    # --- steps ---

    def _annotate(self, identity: Identity, name: str, written: str) -> None:
        self._patched(
            shape_at(identity).where(identity.namespace, identity.name),
            {"metadata": {"uid": identity.uid, "annotations": {name: written}}},
        )

    def _write_end(self, identity: Identity, written: str) -> None:
        """Keep an end on the object; a TrainJob is suspended with it, so nothing runs it again."""
        annotations = {KEPT_END: written}
        body: dict[str, Any] = {"metadata": {"uid": identity.uid, "annotations": annotations}}
        if identity.plural == TRAINJOBS:
            annotations[OUR_SUSPENSION] = ENDED
            body["spec"] = {"suspend": True}
        self._patched(shape_at(identity).where(identity.namespace, identity.name), body)

    def _label(self, identity: Identity) -> None:
        self._patched(
            shape_at(identity).where(identity.namespace, identity.name),
            {"metadata": {"uid": identity.uid, "labels": {RECORDED: "true"}}},
        )

    def _let_die(self, identity: Identity, top: Meta) -> None:
        """Make a deletion one in the background: in the foreground Trainer works against it."""
        kept = [f for f in top.finalizers if f != "foregroundDeletion"]
        metadata = {"uid": identity.uid, "finalizers": kept or None}
        where = shape_at(identity).where(identity.namespace, identity.name)
        self._patched(where, {"metadata": metadata})

    def _label_made(self, identity: Identity, train: Train) -> None:
        """Mark what was made of a TrainJob, so that a look has only what is new."""
        made = [(jobsets(identity.namespace, one.meta.name), one.meta) for one in train.jobsets]
        made += [(jobs(identity.namespace, one.meta.name), one.meta) for one in train.children]
        for where, meta in made:
            if RECORDED not in meta.labels:
                metadata = {"uid": meta.uid, "labels": {RECORDED: "true"}}
                self._patched(where, {"metadata": metadata})

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
        for shape in (JOB_SHAPE, *((TRAINJOB,) if self._settings.trainer is not None else ())):
            where, query = shape.where(namespace), {"labelSelector": f"{JOB},{RECORDED}"}
            found = self._look.pages(where, query, f"{shape.kind}List")
            for top in [shape.read(body) for body in found]:
                if top.meta.deleted is None and _ended_before(top.meta, before):
                    self._delete(shape, top)

    def _delete(self, shape: Shape, top: Top) -> None:
        where = shape.where(top.meta.namespace, top.meta.name)
        self._client.delete(where, deletion("Background", top.meta.uid))
        if isinstance(top, Job) and self._settings.kueue_queue is not None and top.completions > 1:
            # It was there before its Job, so it has no owner to go with.
            self._client.delete(core(top.meta.namespace, "services", top.meta.name), {})


_TOLD = 20
"""Earlier runs of a TrainJob whose ends are kept in words; of older ones, that there were any."""


def _job_of(pod: Pod) -> str:
    """Return the job that a pod belongs to, by its label or by the name of its TrainJob."""
    named = ATTEMPT_NAME.match(pod.meta.labels.get(JOBSET_NAME, ""))
    return pod.meta.labels.get(JOB) or (named["job"] if named else "")


def _ended_before(meta: Meta, when: datetime) -> bool:
    end = kept_end(meta.annotations.get(KEPT_END))
    return end is not None and (end.ended_at or meta.created or when) < when


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


def _ended_at(pod: Pod) -> datetime | None:
    """Return when a pod ended, as far as it tells; None while it goes on."""
    if pod.meta.deleted is not None:
        return pod.meta.deleted
    if not pod.over:
        return None
    ends = [c.ended.finished for c in pod.containers if c.ended and c.ended.finished]
    return max(ends, default=pod.meta.created)
