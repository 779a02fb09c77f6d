"""One Kubernetes cluster as a scheduler: the contract, carried out by the parts beside it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from datetime import datetime

from dispatch.errors import SchedulerUnavailable, Unsupported
from dispatch.record.evidence import Found, Glance
from dispatch.record.header import Declarations, Spec
from dispatch.record.names import Capability
from dispatch.schedulers.eks.acts import Acts
from dispatch.schedulers.eks.check import Check
from dispatch.schedulers.eks.client import KubeClient, NoAnswer, NoEvidence, NotSent, Timeouts, core
from dispatch.schedulers.eks.keeping import Keeping
from dispatch.schedulers.eks.lint import lint
from dispatch.schedulers.eks.look import Look
from dispatch.schedulers.eks.marks import read_ref
from dispatch.schedulers.eks.objects import Pod, Unreadable
from dispatch.schedulers.eks.ranks import first_rank
from dispatch.schedulers.eks.response import Answer, read_refusal
from dispatch.schedulers.eks.runs import runs_of
from dispatch.schedulers.eks.settings import EksAccess, EksSettings
from dispatch.schedulers.eks.signin import EksSignIn
from dispatch.schedulers.scheduler import (
    CheckLine,
    LookedUp,
    Output,
    Sent,
    Started,
    StartOrder,
    StartRefused,
    Target,
)


class EksCluster:
    """A `Scheduler` and a `KeepsEvidence`, for one cluster.

    It keeps connections, a token and the endpoint, and nothing that safety rests on.
    """

    def __init__(
        self,
        settings: EksSettings,
        clock: Callable[[], datetime],
        *,
        client: KubeClient | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings = settings
        self._client = client or open_client(settings, clock)
        self._look = Look(self._client, settings, clock)
        self._acts = Acts(self._client, self._look, settings, clock, pause)
        self._keeping = Keeping(self._client, self._look, settings, clock)
        self._check = Check(self._client, self._look, settings, clock)

    def declare(self) -> Declarations:
        """Return the cluster's declarations, without asking the cluster."""
        return self._settings.declarations()

    def check(self) -> Sequence[CheckLine]:
        """Try what supervision will need and say what was seen. Changes nothing, never raises."""
        return self._check.lines()

    def lint(self, spec: Spec) -> Sequence[str]:
        """Return what the cluster would refuse of a spec, each a sentence naming the field."""
        return lint(spec, self._settings)

    def glance(self) -> Glance:
        """Return a token for each live object, as `Scheduler.glance` promises."""
        return self._look.glance()

    def find(self) -> Found:
        """Return every object of Dispatch here, as `Scheduler.find` promises."""
        return self._look.find()

    def start(self, order: StartOrder) -> Started | StartRefused:
        """Create the object suspended, as `Scheduler.start` promises."""
        return self._acts.start(order)

    def stop(self, target: Target) -> None:
        """Ask for the end of every process of the object, as `Scheduler.stop` promises."""
        self._acts.stop(target)

    def hold(self, target: Target) -> None:
        """Ask that the object doesn't run, as `Scheduler.hold` promises."""
        self._must(Capability.HOLD_PENDING)
        self._acts.hold(target)

    def release(self, target: Target) -> None:
        """Lift our hold or the gate, as `Scheduler.release` promises."""
        self._must(Capability.GATED_START)
        self._acts.release(target)

    def requeue(self, target: Target) -> None:
        """Ask that the same object runs again, as `Scheduler.requeue` promises."""
        self._must(Capability.REQUEUE_LIVE)
        self._acts.requeue(target)

    def lookup(self, targets: Sequence[Target], attempts: Sequence[Sent]) -> LookedUp:
        """Refuse: Kubernetes keeps no accounts.

        Raises:
            Unsupported: Always.
        """
        raise Unsupported(f"cluster {self._settings.name} keeps no accounts of what has gone")

    def output(self, target: Target, *, offset: int, limit: int) -> Output:
        """Return a piece of the log of the first rank, as `Scheduler.output` promises.

        The server gives a log from its start only, so a piece costs what is before it.

        Raises:
            SchedulerUnavailable: Nothing of it can be read now.
        """
        pod = self._first_rank(target)
        if pod is None:
            return Output("", offset, ended=False)
        where = core(pod.meta.namespace, "pods", pod.meta.name, "log")
        query = {"container": pod.container, "limitBytes": str(offset + limit + 1)}
        try:
            answer = self._client.get(where, query, accept="*/*")
        except (NotSent, NoAnswer) as error:
            raise SchedulerUnavailable(str(error), job=target.tag.job) from error
        if not answer.ok:
            raise SchedulerUnavailable(_said(answer), job=target.tag.job)
        return _piece(answer.raw[offset:], offset, limit, ended=pod.over)

    def written_at(self, target: Target) -> datetime | None:
        """Return when the first rank last wrote, as `TellsProgress.written_at` promises."""
        pod = self._first_rank(target)
        if pod is None:
            return None
        where = core(pod.meta.namespace, "pods", pod.meta.name, "log")
        query = {"container": pod.container, "tailLines": "1", "timestamps": "true"}
        try:
            answer = self._client.get(where, query, accept="*/*")
        except (NotSent, NoAnswer) as error:
            raise SchedulerUnavailable(str(error), job=target.tag.job) from error
        if not answer.ok:
            raise SchedulerUnavailable(_said(answer), job=target.tag.job)
        return _stamp(answer.raw)

    def acknowledge(self, targets: Sequence[Target]) -> None:
        """Let go of evidence that was committed, as `KeepsEvidence.acknowledge` promises."""
        self._keeping.acknowledge(targets)

    def free(self, keep: Callable[[str, datetime | None], bool]) -> int:
        """Let go of what nobody records any more, as `KeepsEvidence.free` promises."""
        return self._keeping.free(keep)

    def _must(self, capability: Capability) -> None:
        if not self.declare().can(capability):
            said = f"cluster {self._settings.name} doesn't declare {capability}"
            raise Unsupported(f"{said}: Kueue decides there what runs")

    def _first_rank(self, target: Target) -> Pod | None:
        identity = read_ref(target.ref)
        if identity is None:
            raise SchedulerUnavailable(f"{target.ref!r} is no ref here", job=target.tag.job)
        try:
            gathered = self._look.gather_one(identity, target.tag)
        except (NoEvidence, Unreadable) as error:
            raise SchedulerUnavailable(str(error), job=target.tag.job) from error
        evidence = gathered.evidence(identity.uid)
        if not evidence.pods and evidence.top is None:
            raise SchedulerUnavailable(f"{target.ref} isn't there", job=target.tag.job)
        pods = evidence.pods or ()
        if evidence.train is not None:
            pods = runs_of(evidence.train, pods).present or pods
        first = first_rank(pods)
        return first if first is not None and first.phase != "Pending" else None


def _said(answer: Answer) -> str:
    refusal = read_refusal(answer.status, answer.body)
    return f"{refusal.code} {refusal.message}"


def _stamp(line: bytes) -> datetime | None:
    """Return when a log's line was written, which the server put in front of it."""
    written = line.partition(b" ")[0].decode(errors="replace")
    try:
        # Nanoseconds are more than a time keeps.
        return datetime.fromisoformat(re.sub(r"(\.\d{6})\d*", r"\1", written))
    except ValueError:
        return None


def _piece(rest: bytes, offset: int, limit: int, *, ended: bool) -> Output:
    """Cut a piece that ends between characters, unless a character doesn't fit at all."""
    data, more = rest[:limit], len(rest) > limit
    if more or not ended:
        whole = len(data)
        while whole and len(data) - whole < 4 and not _is_text(data[:whole]):
            whole -= 1
        data = data[:whole] if whole and _is_text(data[:whole]) else data
    return Output(
        text=data.decode(errors="replace"),
        next_offset=offset + len(data),
        ended=ended and not more,
    )


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def open_client(settings: EksSettings, clock: Callable[[], datetime]) -> KubeClient:
    """Return a client for a cluster; nothing is sent before the first request."""
    timeouts = Timeouts(settings.connect_timeout_s, settings.request_timeout_s)
    access = settings.access
    if isinstance(access, EksAccess):
        return KubeClient(EksSignIn(access.cluster_name, access.region, clock), timeouts)
    return KubeClient(access, timeouts)
