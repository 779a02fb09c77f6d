"""Calls that change something: each checks the identity and the tag first, and guards its change.

A change is a merge patch that names the version it was decided on. A conflict is a definite no,
so the object is read and the change decided anew; silence is never answered by a second call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from dispatch.errors import CallRefused, CallUnknown, HitOther
from dispatch.record.names import Cause
from dispatch.schedulers.eks.client import KubeClient, NoAnswer, NotSent, core, jobs
from dispatch.schedulers.eks.lint import lint
from dispatch.schedulers.eks.look import Look, NoEvidence
from dispatch.schedulers.eks.manifest import (
    job_manifest,
    needs_service,
    queue_of,
    service_manifest,
)
from dispatch.schedulers.eks.marks import (
    OUR_SUSPENSION,
    RESTARTS,
    STOPPED_AT,
    Identity,
    counted,
    object_name,
    read_ref,
    read_tag,
    timestamp,
)
from dispatch.schedulers.eks.objects import Job, Unreadable, mapping, read_meta
from dispatch.schedulers.eks.ranks import restarts_of
from dispatch.schedulers.eks.response import Answer, AnswerClass, read_refusal
from dispatch.schedulers.eks.settings import EksSettings, Team
from dispatch.schedulers.scheduler import Started, StartOrder, StartRefused, Tag, Target

CONFLICTS = 8
POLL_S = 0.25
REQUEUE = "requeue"
_CREATE = {"fieldManager": "dispatch", "fieldValidation": "Strict"}

Patch = dict[str, Any]
Change = Callable[[Job], Patch | None]


class Acts:
    """The changing calls on one cluster."""

    def __init__(
        self,
        client: KubeClient,
        look: Look,
        settings: EksSettings,
        clock: Callable[[], datetime],
        pause: Callable[[float], None],
    ) -> None:
        self._client = client
        self._look = look
        self._settings = settings
        self._clock = clock
        self._pause = pause

    # --- start ---

    def start(self, order: StartOrder) -> Started | StartRefused:
        """Create the object, as `Scheduler.start` promises."""
        team = self._settings.team_of(order.owner)
        if team is None:
            said = f"no team of this cluster has {order.owner!r}"
            return StartRefused(Cause.START_REFUSED, said)
        found = lint(order.spec, self._settings)
        if found:
            return StartRefused(Cause.INVALID_SPEC, "; ".join(found))
        queued = queue_of(order.spec, self._settings) is not None
        if queued and needs_service(order.spec):
            # Kueue may admit at any time, so the ranks' names must be there before the Job.
            refused = self._create_service(order.tag, team.namespace, None)
            if refused is not None:
                return StartRefused(Cause.START_REFUSED, refused)
        manifest = job_manifest(order, team, self._settings)
        send = partial(self._client.post, jobs(team.namespace), manifest, _CREATE)
        answer = self._sent(order.tag, send)
        if answer.ok:
            return self._created(order.tag, answer)
        return self._not_created(order.tag, team, answer)

    def _created(self, tag: Tag, answer: Answer) -> Started:
        try:
            meta = read_meta(mapping(answer.body, "Job"))
        except Unreadable as error:
            raise _unknown(tag, f"the reply can't be read: {error}") from error
        if not meta.uid:
            raise _unknown(tag, "the reply names no uid")
        return Started(Identity(meta.namespace, meta.name, meta.uid).ref)

    def _not_created(self, tag: Tag, team: Team, answer: Answer) -> Started | StartRefused:
        refusal = read_refusal(answer.status, answer.body)
        if refusal.name_taken and not refusal.going:
            return self._holder(tag, team)
        match refusal.kind:
            case AnswerClass.REFUSED:
                return StartRefused(refusal.cause or Cause.START_REFUSED, refusal.message)
            case AnswerClass.NOT_KNOWN:
                return StartRefused(Cause.START_REFUSED, refusal.message)
            case _:
                raise _unknown(tag, f"{refusal.code} {refusal.message}")

    def _holder(self, tag: Tag, team: Team) -> Started | StartRefused:
        """Return the object that has the name, if it is this very attempt's."""
        name = object_name(tag)
        try:
            job = self._look.job(team.namespace, name)
        except (NoEvidence, Unreadable) as error:
            raise _unknown(tag, f"the name {name} is taken: {error}") from error
        if job is None:
            return StartRefused(Cause.NAME_TAKEN, f"{name} was just let go of")
        if read_tag(job.meta) != tag:
            return StartRefused(Cause.NAME_TAKEN, f"{name} belongs to another object")
        if job.meta.deleted is not None:
            return StartRefused(Cause.NAME_TAKEN, f"{name} is being deleted")
        identity = Identity(job.meta.namespace, job.meta.name, job.meta.uid)
        return Started(identity.ref, (f"{name} was there already",))

    def _create_service(self, tag: Tag, namespace: str, uid: str | None) -> str | None:
        """Create the Service of an attempt; return why the server won't, None where it is there."""
        body = service_manifest(tag, namespace, uid)
        where = core(namespace, "services")
        answer = self._sent(tag, partial(self._client.post, where, body, _CREATE))
        if answer.ok:
            return None
        refusal = read_refusal(answer.status, answer.body)
        if refusal.name_taken and not refusal.going:
            return None
        if refusal.kind in (AnswerClass.REFUSED, AnswerClass.NOT_KNOWN):
            return f"its Service: {refusal.message}"
        raise _unknown(tag, f"its Service: {refusal.code} {refusal.message}")

    # --- stop ---

    def stop(self, target: Target) -> None:
        """Delete in the foreground, guarded by the uid; its pods' end is seen by a Find."""
        identity = _identity(target)
        job = self._read(target, identity)
        if job is None:
            self._stop_pods(target, identity)
            return
        if job.finished is not None:
            return
        self._mark(target, identity, job)
        if job.meta.deleted is None:
            self._delete(target, jobs(identity.namespace, identity.name), identity.uid)
        elif "orphan" in job.meta.finalizers:
            self._stop_pods(target, identity)

    def _mark(self, target: Target, identity: Identity, job: Job) -> None:
        """Write on the object that Dispatch ends it; like the deletion, guarded by the uid."""
        if STOPPED_AT in job.meta.annotations:
            return
        mark = {"annotations": {STOPPED_AT: timestamp(self._clock())}, "uid": identity.uid}
        where = jobs(identity.namespace, identity.name)
        self._answered(target, partial(self._client.patch, where, {"metadata": mark}))

    def _stop_pods(self, target: Target, identity: Identity) -> None:
        """Delete the pods that a deleted Job left alive."""
        try:
            left = self._look.gather_one(identity, target.tag).pods.get(identity.uid, [])
        except (NoEvidence, Unreadable) as error:
            raise _unknown(target.tag, str(error)) from error
        for pod in left:
            if pod.over or pod.meta.deleted is not None:
                continue
            where = core(identity.namespace, "pods", pod.meta.name)
            mark = {"annotations": {STOPPED_AT: timestamp(self._clock())}, "uid": pod.meta.uid}
            self._answered(target, partial(self._client.patch, where, {"metadata": mark}))
            self._delete(target, where, pod.meta.uid)

    def _delete(self, target: Target, where: str, uid: str) -> None:
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Foreground",
            "preconditions": {"uid": uid},
        }
        self._answered(target, partial(self._client.delete, where, options))

    def _answered(self, target: Target, send: Callable[[], Answer]) -> None:
        """Send; that the object is gone, or another has its name, is success."""
        answer = self._sent(target.tag, send)
        if answer.ok:
            return
        refusal = read_refusal(answer.status, answer.body)
        if refusal.kind is AnswerClass.NOT_KNOWN or refusal.conflict:
            return
        raise _refused_or_unknown(target.tag, answer)

    # --- hold, release, requeue ---

    def hold(self, target: Target) -> None:
        """Suspend; held is what a Find sees once no pod of it is left alive."""
        self._changed(target, _identity(target), _holds(target.tag))

    def release(self, target: Target) -> None:
        """Resume what Dispatch suspended, the ranks' names before it."""
        identity = _identity(target)
        job = self._existing(target, identity)
        if job.completions > 1 and job.suspended:
            refused = self._create_service(target.tag, identity.namespace, identity.uid)
            if refused is not None:
                raise CallRefused(refused, job=target.tag.job)
        self._changed(target, identity, _releases(target.tag))

    def requeue(self, target: Target) -> None:
        """Suspend, wait until that is seen, and resume with one more restart counted.

        The replacement policy keeps the new pods waiting until the old ones are gone. What is cut
        short in between stays suspended: nothing runs, and the call lapses by its deadline.
        """
        identity = _identity(target)
        self._changed(target, identity, _suspends_for_requeue(target))
        until = self._clock() + timedelta(seconds=self._settings.requeue_wait_s)
        for _ in range(1 + int(self._settings.requeue_wait_s / POLL_S)):
            job = self._existing(target, identity)
            if self._clock() >= until:
                break  # a process that stood still meanwhile must not resume it after its bound
            if job.condition("Suspended") is not None and job.started is None:
                self._changed(target, identity, _resumes_counted(target))
                return
            self._pause(POLL_S)
        raise _unknown(target.tag, "it is suspended, and that wasn't seen in time to resume it")

    # --- reading and changing ---

    def _read(self, target: Target, identity: Identity) -> Job | None:
        """Return the object, None where it is gone or another has its name.

        Raises:
            HitOther: It carries another tag.
            CallUnknown: It can't be read.
        """
        try:
            job = self._look.job(identity.namespace, identity.name)
        except (NoEvidence, Unreadable) as error:
            raise _unknown(target.tag, str(error)) from error
        if job is None or job.meta.uid != identity.uid:
            return None
        if read_tag(job.meta) != target.tag:
            raise HitOther(f"{target.ref} carries another tag", job=target.tag.job)
        return job

    def _existing(self, target: Target, identity: Identity) -> Job:
        job = self._read(target, identity)
        if job is None:
            raise CallRefused(f"{target.ref} isn't there", job=target.tag.job)
        return job

    def _changed(self, target: Target, identity: Identity, change: Change) -> None:
        """Read, decide, and patch the very version that was read."""
        for _ in range(CONFLICTS):
            job = self._existing(target, identity)
            patch = change(job)
            if patch is None:
                return
            where = jobs(identity.namespace, identity.name)
            send = partial(self._client.patch, where, _guarded(patch, job))
            answer = self._sent(target.tag, send)
            if answer.ok:
                return
            if not read_refusal(answer.status, answer.body).conflict:
                raise _refused_or_unknown(target.tag, answer)
        raise CallRefused(f"{target.ref} changes all the time", job=target.tag.job)

    def _sent(self, tag: Tag, send: Callable[[], Answer]) -> Answer:
        try:
            return send()
        except (NotSent, NoAnswer) as error:
            raise _unknown(tag, str(error)) from error


def _identity(target: Target) -> Identity:
    identity = read_ref(target.ref)
    if identity is None:
        raise HitOther(f"{target.ref!r} is no ref of this cluster", job=target.tag.job)
    return identity


def _guarded(patch: Patch, job: Job) -> Patch:
    metadata = {**patch.get("metadata", {})}
    metadata |= {"resourceVersion": job.meta.version, "uid": job.meta.uid}
    return {**patch, "metadata": metadata}


def _unknown(tag: Tag, why: str) -> CallUnknown:
    return CallUnknown(f"attempt {tag.n}.{tag.a}: {why}", job=tag.job)


def _refused_or_unknown(tag: Tag, answer: Answer) -> CallRefused | CallUnknown:
    refusal = read_refusal(answer.status, answer.body)
    said = f"attempt {tag.n}.{tag.a}: {refusal.code} {refusal.message}"
    if refusal.kind in (AnswerClass.REFUSED, AnswerClass.NOT_KNOWN):
        return CallRefused(said, job=tag.job)
    return CallUnknown(said, job=tag.job)


def _must_be_whole(job: Job, tag: Tag) -> None:
    """Refuse what can't run again as a whole: Kubernetes keeps what some ranks have done."""
    if job.finished is not None or job.meta.deleted is not None:
        raise CallRefused(f"attempt {tag.n}.{tag.a} has ended", job=tag.job)
    if job.succeeded or job.failed:
        said = f"attempt {tag.n}.{tag.a}: some of its ranks have ended already"
        raise CallRefused(said, job=tag.job)


def _suspend(why: str) -> Patch:
    return {"metadata": {"annotations": {OUR_SUSPENSION: why}}, "spec": {"suspend": True}}


def _holds(tag: Tag) -> Change:
    def change(job: Job) -> Patch | None:
        _must_be_whole(job, tag)
        return None if job.suspended else _suspend("hold")

    return change


def _releases(tag: Tag) -> Change:
    def change(job: Job) -> Patch | None:
        if job.finished is not None or job.meta.deleted is not None:
            raise CallRefused(f"attempt {tag.n}.{tag.a} has ended", job=tag.job)
        if not job.suspended:
            return None
        why = job.meta.annotations.get(OUR_SUSPENSION)
        if why is None:
            said = f"attempt {tag.n}.{tag.a} was suspended by somebody else"
            raise CallRefused(said, job=tag.job)
        return _resume(tag, restarts_of(job) + 1) if why == REQUEUE else _resume(tag, None)

    return change


def _suspends_for_requeue(target: Target) -> Change:
    tag = target.tag

    def change(job: Job) -> Patch | None:
        _must_be_whole(job, tag)
        if restarts_of(job) != target.restarts:
            said = f"it was started again {restarts_of(job)} times, not {target.restarts}"
            raise CallRefused(said, job=tag.job)
        if job.suspended or not job.active:
            raise CallRefused(f"attempt {tag.n}.{tag.a} isn't running", job=tag.job)
        return _suspend(REQUEUE)

    return change


def _resumes_counted(target: Target) -> Change:
    def change(job: Job) -> Patch | None:
        ours = job.meta.annotations.get(OUR_SUSPENSION) == REQUEUE
        if not job.suspended or not ours or restarts_of(job) != target.restarts:
            raise CallRefused("somebody else changed it meanwhile", job=target.tag.job)
        return _resume(target.tag, target.restarts + 1)

    return change


def _resume(tag: Tag, restarts: int | None) -> Patch:
    """Return the patch that resumes; counted, the new pods know in which run they are."""
    annotations: Mapping[str, str | None] = {OUR_SUSPENSION: None}
    if restarts is None:
        return {"metadata": {"annotations": annotations}, "spec": {"suspend": False}}
    return {
        "metadata": {"annotations": {**annotations, RESTARTS: str(restarts)}},
        "spec": {
            "suspend": False,
            "template": {"metadata": {"annotations": counted(restarts, tag)}},
        },
    }
