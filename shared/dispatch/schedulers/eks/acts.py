"""Calls that change something: each checks the identity and the tag first, and guards its change.

A change is a merge patch that names the version it was decided on. A conflict is a definite no,
so the object is read and the change decided anew; silence is never answered by a second call.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

from dispatch.errors import CallRefused, CallUnknown, HitOther, Unsupported
from dispatch.record.names import Capability, Cause, ObjectState
from dispatch.schedulers.eks import changes
from dispatch.schedulers.eks.changes import Change
from dispatch.schedulers.eks.client import KubeClient, NoAnswer, NoEvidence, NotSent, core
from dispatch.schedulers.eks.judge import read_object
from dispatch.schedulers.eks.lint import lint
from dispatch.schedulers.eks.look import Look
from dispatch.schedulers.eks.manifest import queue_of, service_manifest
from dispatch.schedulers.eks.marks import (
    JOBS,
    STOPPED_AT,
    TRAINJOBS,
    Identity,
    object_name,
    read_ref,
    read_tag,
    timestamp,
)
from dispatch.schedulers.eks.objects import Job, Unreadable, mapping, read_meta
from dispatch.schedulers.eks.ranks import Reading, restarts_in
from dispatch.schedulers.eks.response import Answer, AnswerClass, Gathered, read_refusal
from dispatch.schedulers.eks.runs import runs_of
from dispatch.schedulers.eks.settings import EksSettings, Team
from dispatch.schedulers.eks.shapes import Shape, Top, shape_at, shape_of
from dispatch.schedulers.eks.train_manifest import labels_pods
from dispatch.schedulers.eks.train_objects import INITIALIZERS, TrainJob
from dispatch.schedulers.eks.verdict import stopped_at
from dispatch.schedulers.scheduler import Started, StartOrder, StartRefused, Tag, Target

CONFLICTS = 8
DISOBEYED_S = 60
"""How long, over the grace of its pods, a TrainJob may take to follow its suspension."""
POLL_S = 0.25
_EXECUTING = (ObjectState.RUNNING, ObjectState.ENDING)
_CREATE = {"fieldManager": "dispatch", "fieldValidation": "Strict"}


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
        shape, queued = shape_of(order.spec), queue_of(order.spec, self._settings) is not None
        too_long = shape.refuses(order.tag, order.spec)
        if too_long is not None:
            return StartRefused(Cause.INVALID_SPEC, too_long)
        if queued and shape.names_ranks(order.spec):
            # Kueue may admit at any time, so the ranks' names must be there before the Job.
            refused = self._create_service(order.tag, team.namespace, None)
            if refused is not None:
                return StartRefused(Cause.START_REFUSED, refused)
        manifest = shape.manifest(order, team, self._settings)
        send = partial(self._client.post, shape.where(team.namespace), manifest, _CREATE)
        answer = self._sent(order.tag, send)
        if not answer.ok:
            return self._not_created(order.tag, team, shape, answer)
        started = self._created(order.tag, shape, answer)
        if queued and shape.plural == TRAINJOBS and labels_pods(self._settings):
            self._name_on_pods(started, order.tag)
        return started

    def _created(self, tag: Tag, shape: Shape, answer: Answer) -> Started:
        try:
            meta = read_meta(mapping(answer.body, shape.kind))
        except Unreadable as error:
            raise _unknown(tag, f"the reply can't be read: {error}") from error
        if not meta.uid:
            raise _unknown(tag, "the reply names no uid")
        return Started(Identity(meta.namespace, meta.name, meta.uid, shape.plural).ref)

    def _name_on_pods(self, started: Started, tag: Tag) -> None:
        """Write a queued TrainJob's uid on its future pods, where Kueue isn't quicker.

        A release does so where the gate is ours. Without it, pods that outlive their TrainJob
        are met as another object of the same attempt.
        """
        target = Target(started.ref, tag)
        identity = _identity(target)
        try:
            self._changed(target, identity, changes.name_on_pods(tag), tries=2)
        except (CallRefused, CallUnknown, HitOther):
            return  # it has started, whatever became of this

    def _not_created(
        self, tag: Tag, team: Team, shape: Shape, answer: Answer
    ) -> Started | StartRefused:
        refusal = read_refusal(answer.status, answer.body)
        if refusal.name_taken and not refusal.going:
            return self._holder(tag, team, shape)
        match refusal.kind:
            case AnswerClass.REFUSED:
                return StartRefused(refusal.cause or Cause.START_REFUSED, refusal.message)
            case AnswerClass.NOT_KNOWN:
                return StartRefused(Cause.START_REFUSED, refusal.message)
            case _:
                raise _unknown(tag, f"{refusal.code} {refusal.message}")

    def _holder(self, tag: Tag, team: Team, shape: Shape) -> Started | StartRefused:
        """Return the object that has the name, if it is this very attempt's."""
        name = object_name(tag)
        try:
            top = self._look.top(shape, team.namespace, name)
        except (NoEvidence, Unreadable) as error:
            raise _unknown(tag, f"the name {name} is taken: {error}") from error
        if top is None:
            return StartRefused(Cause.NAME_TAKEN, f"{name} was just let go of")
        if read_tag(top.meta) != tag:
            return StartRefused(Cause.NAME_TAKEN, f"{name} belongs to another object")
        if top.meta.deleted is not None:
            return StartRefused(Cause.NAME_TAKEN, f"{name} is being deleted")
        identity = Identity(top.meta.namespace, top.meta.name, top.meta.uid, shape.plural)
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
        """Delete it with all that was made of it, guarded by the uid; a Find sees the pods' end."""
        identity = _identity(target)
        top = self._read(target, identity)
        if top is None:
            self._stop_pods(target, identity)
            return
        if isinstance(top, TrainJob):
            self._stop_trainjob(target, identity, top)
            return
        if top.finished is not None:
            return
        self._mark(target, identity, top, {})
        if top.meta.deleted is None:
            self._delete(target, identity)
        elif "orphan" in top.meta.finalizers:
            self._stop_pods(target, identity)

    def _stop_trainjob(self, target: Target, identity: Identity, top: TrainJob) -> None:
        """Stop a TrainJob, and whatever Trainer would make of it again.

        Where the gate is ours it is suspended by the patch that marks it, and deleted once none
        of its pods lives, or none obeys: as long as it is there, it tells of what was made of it.
        Kueue would resume it, so there it is deleted at once. A deletion in the foreground, which
        Trainer works against, becomes one in the background.
        """
        reading = self._reading(target, identity)
        ended = reading.state in (ObjectState.SUCCEEDED, ObjectState.FAILED)
        if ended and (top.finished is not None or top.suspended):
            return
        gated, patch = self._settings.kueue_queue is None, changes.Patch()
        if gated and not top.suspended:
            patch["spec"] = {"suspend": True}
        if "foregroundDeletion" in top.meta.finalizers:
            kept = [f for f in top.meta.finalizers if f != "foregroundDeletion"]
            patch["metadata"] = {"finalizers": kept or None}
        since = stopped_at(top.meta)
        self._mark(target, identity, top, patch)
        bound = timedelta(seconds=self._settings.grace_s + DISOBEYED_S)
        late = since is not None and self._clock() - since > bound
        if top.meta.deleted is None and (not gated or late or reading.held):
            self._stop_pods(target, identity, mark_only=True)
            self._delete(target, identity)

    def _mark(self, target: Target, identity: Identity, top: Top, extra: changes.Patch) -> None:
        """Write on the object that Dispatch ends it; like the deletion, guarded by the uid."""
        metadata: changes.Patch = {**extra.get("metadata", {})}
        if STOPPED_AT not in top.meta.annotations:
            metadata["annotations"] = {STOPPED_AT: timestamp(self._clock())}
        patch = {**extra, "metadata": metadata} if metadata else extra
        if not patch:
            return
        patch["metadata"] = {**metadata, "uid": identity.uid}
        where = shape_at(identity).where(identity.namespace, identity.name)
        self._answered(target, partial(self._client.patch, where, patch))

    def _stop_pods(self, target: Target, identity: Identity, *, mark_only: bool = False) -> None:
        """Delete the pods that are left alive, or mark them where another deletion takes them."""
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
            if mark_only:
                continue
            options = changes.deletion("Foreground", pod.meta.uid)
            self._answered(target, partial(self._client.delete, where, options))

    def _delete(self, target: Target, identity: Identity) -> None:
        shape = shape_at(identity)
        where = shape.where(identity.namespace, identity.name)
        options = changes.deletion(shape.propagation, identity.uid)
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
        """Suspend; held is what a Find sees once no pod of it is left alive.

        Raises:
            Unsupported: It runs, and nobody keeps its pods.
        """
        identity = _identity(target)
        kept = self._settings.declarations().can(Capability.HOLD_RUNNING)
        if not kept and self._reading(target, identity).state in _EXECUTING:
            said = f"hold: {target.ref} runs, and cluster {self._settings.name} keeps no pods"
            raise Unsupported(said, job=target.tag.job)
        before = self._before(target, identity)
        self._changed(target, identity, changes.hold(target.tag, part_done=before.part_done))

    def release(self, target: Target) -> None:
        """Resume what Dispatch suspended, the ranks' names before it."""
        identity = _identity(target)
        shape, top = shape_at(identity), self._existing(target, identity)
        if isinstance(top, Job) and top.completions > 1 and top.suspended:
            refused = self._create_service(target.tag, identity.namespace, identity.uid)
            if refused is not None:
                raise CallRefused(refused, job=target.tag.job)
        restarts = self._restarts(target, identity, top)
        self._changed(target, identity, changes.release(shape, target.tag, restarts))

    def requeue(self, target: Target) -> None:
        """Suspend, wait until that is seen, and resume with one more restart counted.

        A Job's replacement policy keeps the new pods waiting until the old ones are gone; of a
        TrainJob the pods must be gone before. What is cut short in between stays suspended:
        nothing runs, and the call lapses by its deadline.
        """
        identity = _identity(target)
        shape, before = shape_at(identity), self._before(target, identity)
        self._changed(target, identity, changes.suspend_for_requeue(target, before))
        until = self._clock() + timedelta(seconds=self._settings.requeue_wait_s)
        for _ in range(1 + int(self._settings.requeue_wait_s / POLL_S)):
            top = self._existing(target, identity)
            if self._clock() >= until:
                break  # a process that stood still meanwhile must not resume it after its bound
            if self._stands_still(target, identity, top):
                self._changed(target, identity, changes.resume_counted(shape, target, before.ours))
                return
            self._pause(POLL_S)
        raise _unknown(target.tag, "it is suspended, and that wasn't seen in time to resume it")

    def _stands_still(self, target: Target, identity: Identity, top: Top) -> bool:
        """Return whether a suspension has come through to where a resume runs a new run whole."""
        if isinstance(top, Job):
            return top.condition("Suspended") is not None and top.started is None
        return top.condition("Suspended") is not None and self._reading(target, identity).held

    def _restarts(self, target: Target, identity: Identity, top: Top) -> int:
        """Return how often it was started again: others count a TrainJob's restarts, too."""
        if isinstance(top, Job):
            return restarts_in(top.meta)
        return self._reading(target, identity).restarts

    def _before(self, target: Target, identity: Identity) -> changes.Before:
        """Return what must be known before a run is ended; a Job tells it itself."""
        if identity.plural == JOBS:
            return changes.Before(target.restarts, target.restarts)
        evidence = self._gathered(target, identity).evidence(identity.uid)
        reading = read_object(evidence)
        if evidence.train is None or evidence.top is None:
            return changes.Before(target.restarts, target.restarts)
        present = runs_of(evidence.train, evidence.pods or ()).present
        return changes.Before(
            ours=restarts_in(evidence.top),
            restarts=reading.restarts,
            runs=any(not p.over for p in present),
            part_done=any(p.over and p.rank[0] not in INITIALIZERS for p in present),
        )

    # --- reading and changing ---

    def _gathered(self, target: Target, identity: Identity) -> Gathered:
        try:
            return self._look.gather_one(identity, target.tag)
        except (NoEvidence, Unreadable) as error:
            raise _unknown(target.tag, str(error)) from error

    def _reading(self, target: Target, identity: Identity) -> Reading:
        return read_object(self._gathered(target, identity).evidence(identity.uid))

    def _read(self, target: Target, identity: Identity) -> Top | None:
        """Return the object, None where it is gone or another has its name.

        Raises:
            HitOther: It carries another tag.
            CallUnknown: It can't be read.
        """
        try:
            top = self._look.top(shape_at(identity), identity.namespace, identity.name)
        except (NoEvidence, Unreadable) as error:
            raise _unknown(target.tag, str(error)) from error
        if top is None or top.meta.uid != identity.uid:
            return None
        if read_tag(top.meta) != target.tag:
            raise HitOther(f"{target.ref} carries another tag", job=target.tag.job)
        return top

    def _existing(self, target: Target, identity: Identity) -> Top:
        top = self._read(target, identity)
        if top is None:
            raise CallRefused(f"{target.ref} isn't there", job=target.tag.job)
        return top

    def _changed(
        self, target: Target, identity: Identity, change: Change, *, tries: int = CONFLICTS
    ) -> None:
        """Read, decide, and patch the very version that was read."""
        where = shape_at(identity).where(identity.namespace, identity.name)
        for _ in range(tries):
            top = self._existing(target, identity)
            patch = change(top)
            if patch is None:
                return
            send = partial(self._client.patch, where, changes.guarded(patch, top))
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


def _unknown(tag: Tag, why: str) -> CallUnknown:
    return CallUnknown(f"attempt {tag.n}.{tag.a}: {why}", job=tag.job)


def _refused_or_unknown(tag: Tag, answer: Answer) -> CallRefused | CallUnknown:
    refusal = read_refusal(answer.status, answer.body)
    said = f"attempt {tag.n}.{tag.a}: {refusal.code} {refusal.message}"
    if refusal.kind in (AnswerClass.REFUSED, AnswerClass.NOT_KNOWN):
        return CallRefused(said, job=tag.job)
    return CallUnknown(said, job=tag.job)
