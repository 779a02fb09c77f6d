"""One Slurm cluster behind the scheduler's contract."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from dispatch.errors import (
    CallUnknown,
    SchedulerUnavailable,
    Unsupported,
)
from dispatch.record.evidence import Found, Glance
from dispatch.record.header import Declarations, Spec
from dispatch.record.names import ENDED_STATES, Capability, Cause
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
from dispatch.schedulers.slurm import request
from dispatch.schedulers.slurm.check import checked
from dispatch.schedulers.slurm.ends import Ends
from dispatch.schedulers.slurm.lookup import Lookup
from dispatch.schedulers.slurm.objects import Objects
from dispatch.schedulers.slurm.response import Answer, Call, Kind
from dispatch.schedulers.slurm.rest import Rest
from dispatch.schedulers.slurm.rows import Row
from dispatch.schedulers.slurm.session import Cut, Doubt, Session
from dispatch.schedulers.slurm.settings import SlurmCluster
from dispatch.schedulers.slurm.sighting import evidence
from dispatch.schedulers.slurm.tags import Identity, Mark

Clock = Callable[[], datetime]


class SlurmScheduler:
    """Slurm over REST, v0.0.42 and v0.0.45; see `Scheduler` for what each method promises.

    What it remembers (ids it has seen, the version in use, when slurmctld last answered) only
    saves requests; nothing that is safe depends on it.
    """

    def __init__(
        self,
        cluster: SlurmCluster,
        rest: Rest,
        *,
        clock: Clock,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._sleep = sleep
        self._session = Session(cluster, rest, clock)
        self._objects = Objects(cluster, self._session, clock)
        self._ends = Ends(cluster, self._session, clock)
        self._refs: dict[int, str] = {}
        self._mended: set[str] = set()
        self._last_submit: datetime | None = None
        self._broken: str | None = None
        self._identity = cluster.cluster_name or ""

    # --- what it says of itself -------------------------------------------------------------

    def declare(self) -> Declarations:
        """Return the cluster's declarations; as `Scheduler.declare`."""
        cluster, bounds = self._cluster, self._cluster.bounds
        capabilities = [Capability.GATED_START, Capability.HOLD_PENDING, Capability.EXIT_CODES]
        if cluster.accounting != "none":
            capabilities.append(Capability.LOOKUP)
        if cluster.in_place:
            capabilities += [Capability.HOLD_RUNNING, Capability.REQUEUE_LIVE]
        return Declarations(
            adapter="slurm",
            cluster=cluster.name,
            capabilities=tuple(capabilities),
            node_loss_window_s=bounds.node_loss_window_s,
            call_bound_s=cluster.call_bound_s,
            landing_bound_s=cluster.landing_bound_s,
            request_timeout_s=bounds.request_timeout_s,
            retention_s=bounds.retention_s,
            save_window_s=bounds.save_window_s,
            clock_skew_s=bounds.clock_skew_s,
            lookup_lag_s=bounds.lookup_lag_s,
        )

    def check(self) -> Sequence[CheckLine]:
        """Try what supervision needs and say what was seen; as `Scheduler.check`."""
        return checked(self._cluster, self._session, self._clock)

    def lint(self, spec: Spec) -> Sequence[str]:
        """Return what the cluster's rules refuse of a spec; as `Scheduler.lint`."""
        return request.problems(self._cluster, spec)

    # --- looking ----------------------------------------------------------------------------

    def glance(self) -> Glance:
        """Return a token for each known live object; as `Scheduler.glance`.

        Slurm's cheap list has no tags, so an object that no Find has shown yet isn't in it.
        """
        taken_at = self._clock()
        answer = self._looked(request.states())
        tokens: dict[str, str] = {}
        for row in answer.rows:
            ref = self._refs.get(row.job_id)
            if ref is not None and row.meaning.state not in ENDED_STATES:
                tokens[ref] = ",".join(sorted(row.tokens))
        return Glance(self._cluster.name, answer.identity, taken_at, self._clock(), tokens)

    def find(self) -> Found:
        """Return every object of Dispatch that slurmctld shows; as `Scheduler.find`.

        An object that somebody made requeueable again is set back on the way, so that Slurm
        doesn't start it by itself.
        """
        taken_at = self._clock()
        try:
            answer = self._looked(request.jobs())
        except Cut as cut:
            return Found(
                cluster=self._cluster.name,
                identity=self._identity,
                taken_at=taken_at,
                seen_at=self._clock(),
                complete=False,
                error=cut.message,
            )
        seen_at = self._clock()
        seen = evidence(self._cluster, replace(answer, rows=self._ends.completed(answer.rows)))
        for row, mark in seen.ours:
            self._refs[row.job_id] = str(Identity(mark.cluster, row.job_id, mark.at_ms))
        if len(self._refs) > 4 * len(seen.ours) + 1000:
            shown = {row.job_id for row, _ in seen.ours}
            self._refs = {key: ref for key, ref in self._refs.items() if key in shown}
        self._set_back(seen.ours)
        return Found(
            cluster=self._cluster.name,
            identity=answer.identity,
            taken_at=taken_at,
            seen_at=seen_at,
            complete=not seen.doubts,
            by_job=seen.by_job,
            error="; ".join(seen.doubts) or None,
            doubts=seen.of_jobs,
        )

    def _looked(self, question: request.Question) -> Answer:
        answer = self._session.read(question)
        # The short list of an idle cluster is empty; the full one says so with its time.
        empty = answer.kind is Kind.NOT_KNOWN and answer.call is Call.STATES
        if answer.kind is not Kind.SIGHTING and not empty:
            raise SchedulerUnavailable(f"cluster {self._cluster.name}: {answer.detail}")
        expected = self._cluster.cluster_name
        if expected is not None and answer.identity != expected:
            raise SchedulerUnavailable(
                f"cluster {self._cluster.name}: Slurm calls itself {answer.identity!r}, "
                f"not {expected!r}: look at url and cluster_name"
            )
        self._identity = answer.identity
        return answer

    def _set_back(self, ours: Sequence[tuple[Row, Mark]]) -> None:
        for row, mark in ours:
            key = f"{mark.cluster}:{row.job_id}@{mark.at_ms}+{row.restarts}"
            if not row.requeue or row.meaning.state in ENDED_STATES or key in self._mended:
                continue
            self._mended.add(key)
            try:
                self._session.call(request.may_requeue(row.job_id, False), user=row.user)
            except Doubt:
                self._mended.discard(key)
                return

    # --- starting ---------------------------------------------------------------------------

    def start(self, order: StartOrder) -> Started | StartRefused:
        """Submit the job held, once; as `Scheduler.start`."""
        refused = self._refused_here(order)
        if refused is not None:
            return refused
        user = self._cluster.run_as.get(order.owner, self._cluster.user)
        self._pace()
        mark = Mark(order.tag, self._cluster.name, int(self._clock().timestamp() * 1000))
        try:
            self._session.alive()
            answer = self._session.call(request.submission(self._cluster, order, mark), user=user)
        except Doubt as doubt:
            what = f"start of {order.tag.n}.{order.tag.a}: {doubt}"
            error = CallUnknown if doubt.sent else SchedulerUnavailable
            raise error(what, job=order.tag.job) from None
        match answer.kind:
            case Kind.SIGHTING if answer.job_id is not None:
                return self._started(answer, answer.job_id, mark)
            case Kind.REFUSED:
                about = f"{answer.about}: " if answer.about else ""
                return StartRefused(answer.cause or Cause.START_REFUSED, about + answer.detail)
            case _:
                raise CallUnknown(
                    f"start of {order.tag.n}.{order.tag.a}: {answer.kind}: {answer.detail}",
                    job=order.tag.job,
                )

    def _refused_here(self, order: StartOrder) -> StartRefused | None:
        cluster = self._cluster
        if self._broken is not None:
            return StartRefused(Cause.START_REFUSED, self._broken)
        found = request.problems(cluster, order.spec, order.owner)
        if found:
            return StartRefused(Cause.INVALID_SPEC, "; ".join(found))
        if cluster.run_as and order.owner not in cluster.run_as:
            return StartRefused(
                Cause.START_REFUSED,
                f"{order.owner} has no Unix user on cluster {cluster.name} (run_as)",
            )
        return None

    def _started(self, answer: Answer, job_id: int, mark: Mark) -> Started:
        ref = str(Identity(mark.cluster, job_id, mark.at_ms))
        self._refs[job_id] = ref
        dropped = sorted(request.GATE_FIELDS & set(answer.dropped))
        # That it is held is what was asked for.
        notes = tuple(note for note in answer.notes if "held state" not in note)
        if dropped:
            self._broken = (
                f"cluster {self._cluster.name} ignores {', '.join(dropped)} in what is submitted "
                f"(seen on job {job_id}): nothing more is started there"
            )
            notes = (self._broken, *notes)
        return Started(ref, notes)

    def _pace(self) -> None:
        now = self._clock()
        if self._last_submit is not None:
            since = (now - self._last_submit).total_seconds()
            if 0 <= since < self._cluster.pace_s:
                self._sleep(self._cluster.pace_s - since)
        self._last_submit = self._clock()

    # --- calls on an object -----------------------------------------------------------------

    def stop(self, target: Target) -> None:
        """Cancel the job with its whole tree; as `Scheduler.stop`."""
        self._objects.stop(target)

    def hold(self, target: Target) -> None:
        """Hold the job; as `Scheduler.hold`. A running one is held by requeueing it held."""
        self._objects.hold(target)

    def release(self, target: Target) -> None:
        """Lift our hold or the gate; as `Scheduler.release`. Others' holds aren't fought."""
        self._objects.release(target)

    def requeue(self, target: Target) -> None:
        """Have the same job run again from the start; as `Scheduler.requeue`."""
        self._objects.requeue(target)

    # --- accounting, output -----------------------------------------------------------------

    def lookup(self, targets: Sequence[Target], attempts: Sequence[Sent]) -> LookedUp:
        """Ask accounting; as `Scheduler.lookup`. A row without an end says nothing of one."""
        if self._cluster.accounting == "none":
            raise Unsupported(f"lookup: cluster {self._cluster.name} has no accounting")
        looked = Lookup(self._cluster, self._session, self._ends, self._clock)
        return looked.of(targets, attempts)

    def written_at(self, target: Target) -> datetime | None:
        """Return when a job last said that it goes on; as `TellsProgress.written_at`.

        Nobody can read its output over REST: it says so itself (`DISPATCH_BEAT`).
        """
        return self._objects.beat_at(target)

    def output(self, target: Target, *, offset: int, limit: int) -> Output:
        """Raise `Unsupported`: Slurm's REST API reads no files."""
        raise Unsupported(
            f"output: Slurm's REST API reads no files; see the job's output path on "
            f"cluster {self._cluster.name}",
            job=target.tag.job,
        )

    def close(self) -> None:
        """Close the kept connections."""
        self._session.close()
