"""A person: random intents while things go wrong, and answers to what is asked afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dispatch.core import rules
from dispatch.core.job import Job
from dispatch.core.parts import AttemptState
from dispatch.core.settled import open_because
from dispatch.core.waiting import waits
from dispatch.errors import DispatchError
from dispatch.operator import Operator
from dispatch.record.names import IntentKind, UnmatchedPolicy
from dispatch.supervisor.health import accept_loss
from simulator.stage import Actor, Crashed, instant
from simulator.store import NEWER_SCHEMA, Dialect

if TYPE_CHECKING:
    from simulator.run import Run

ANSWERS_EVERY_S = 40.0


class Person:
    """Has intents, and answers."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._count = 0
        self._extra = 0
        self._actor = Actor(run.stage, "ada", pace=run.scenario.pace_s)
        wire = run.wire(self._actor, run.faults)
        self._dialect = run.scenario.dialects[-1]
        store = run.store(wire, self._dialect)
        self._operator = Operator(store, self._actor.clock, self._pause)

    def _pause(self, tries: int) -> None:
        self._actor.park(min(2.0, 0.1 * 2**tries))

    def begin(self) -> None:
        """Let the person have intents at random times, and answer once it is calm."""
        run = self._run
        moments = sorted(
            run.chance.span(0.5, run.scenario.calm_at) for _ in range(run.scenario.intents)
        )

        def body() -> None:
            for moment in moments:
                self._actor.park(max(0.0, moment - run.stage.now))
                self._intend(*self._some_intent())
            self._actor.park(max(0.0, run.scenario.calm_at - run.stage.now))
            while True:
                self._actor.park(ANSWERS_EVERY_S)
                self.accept_a_loss()
                for job_id in run.jobs:
                    self._answer(run.watch.job(job_id))

        run.stage.spawn(self._actor, body, 0.0)

    def soon(self, after: float) -> None:
        """Have one more intent in so many seconds."""
        self._extra += 1
        actor = Actor(self._run.stage, f"ada-{self._extra}", pace=self._run.scenario.pace_s)
        wire = self._run.wire(actor, self._run.faults)
        store = self._run.store(wire, self._dialect)
        operator = Operator(store, actor.clock, lambda tries: actor.park(0.5))
        self._run.stage.spawn(
            actor,
            lambda: self._intend(*self._some_intent(), saying=(actor, operator)),
            self._run.stage.now + after,
        )

    def _some_intent(self) -> tuple[str, IntentKind, str | None]:
        run = self._run
        job_id = run.chance.pick(run.jobs)
        kind = run.chance.weighted(run.scenario.kinds)
        target = None
        if kind is IntentKind.ABANDON:
            job = run.watch.job(job_id)
            target = run.chance.pick(
                [*job.objects, *(f"{n}.{a}" for n, a in job.attempts), "nothing/9/9"]
            )
        return job_id, kind, target

    def _intend(
        self,
        job_id: str,
        kind: IntentKind,
        target: str | None = None,
        *,
        saying: tuple[Actor, Operator] | None = None,
    ) -> None:
        self._count += 1
        actor, operator = saying or (self._actor, self._operator)
        try:
            receipt = operator.intend(
                job_id, kind, intent_id=f"i{self._count}", by="ada", target=target
            )
            actor.tell(f"{kind} {target or ''}: {receipt.effect} {receipt.note or ''}")
            self._run.stage.counts[f"a person's intent: {kind}"] += 1
            self._count_an_older_build(job_id, kind)
        except Crashed:
            actor.tell(f"{kind}: the client crashed")
        except DispatchError as error:
            actor.tell(f"{kind}: {error}")

    def _count_an_older_build(self, job_id: str, kind: IntentKind) -> None:
        entries = self._run.records.read(job_id).entries
        if self._dialect is Dialect.OLDER and any(one.schema == NEWER_SCHEMA for one in entries):
            self._run.stage.counts[f"an older build, beside newer facts: {kind}"] += 1

    def accept_a_loss(self) -> None:
        """Say that a restored cluster is the one that is meant, and that a loss is real."""
        run = self._run
        cluster = run.scenario.declared.cluster
        health = run.records.get_health(cluster)
        if health is None:
            return
        other = health.identity not in (None, run.world.identity)
        if other or "mass_loss" in dict(health.escalations):
            accept_loss(run.records, cluster, by="ada", at=self._actor.clock())

    def _answer(self, job: Job) -> None:
        """Answer whatever the job waits for a person to do."""
        run = self._run
        if job.settled_at is not None:
            return
        if job.recovery is not None:
            self._intend(
                job.job_id,
                run.chance.pick(
                    (IntentKind.RELEASE, IntentKind.RESUBMIT, IntentKind.GIVE_UP, IntentKind.CANCEL)
                ),
            )
        elif job.user_hold is not None:
            self._intend(job.job_id, run.chance.pick((IntentKind.RELEASE, IntentKind.CANCEL)))
        elif _held_by_nobody(job):
            self._intend(job.job_id, run.chance.pick((IntentKind.RESUBMIT, IntentKind.CANCEL)))
        for known in rules.undisposed_foreign(job):
            self._intend(job.job_id, IntentKind.ABANDON, known.ref)
        for ref in run.world.stuck:
            stuck = job.objects.get(ref)
            if stuck is not None and not (stuck.ended or stuck.abandoned):
                self._intend(job.job_id, IntentKind.ABANDON, ref)
        if job.header.unmatched is UnmatchedPolicy.MANUAL:
            for attempt in job.attempts.values():
                if attempt.state is AttemptState.UNMATCHED:
                    if job.ending is None and run.chance.hits(0.5):
                        self._intend(job.job_id, IntentKind.RESUBMIT)
                    else:
                        self._intend(job.job_id, IntentKind.ABANDON, f"{attempt.n}.{attempt.a}")

    def why_not(self, job: Job) -> str:
        """Return why a job isn't settled."""
        now = instant(self._run.stage.now)
        reasons = open_because(job, now, now)
        return "; ".join(reasons + [one.detail for one in waits(job, None, now)])


def _held_by_nobody(job: Job) -> bool:
    """Return whether a job waits for a person to see to a hold that nobody is known to have."""
    known = job.canonical
    if known is None or job.ending is not None or job.resubmit is not None:
        return False
    return known.run.held and known.run.holder is None and not known.ours_held
