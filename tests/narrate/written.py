"""Histories as a supervisor and people write them, made by hand and to the second."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from dispatch.record import fact as facts
from dispatch.record.codec import Entry, envelope, spec_digest
from dispatch.record.control import Control
from dispatch.record.evidence import Sighting
from dispatch.record.header import Declarations, Header, Lineage, Plan, Rule, Spec
from dispatch.record.names import (
    Action,
    Capability,
    Cause,
    IntentKind,
    ObjectState,
    Outcome,
    ReplyResult,
    UnmatchedPolicy,
)
from dispatch.record.view import View

START = datetime(2026, 3, 5, 9, 0, 0, tzinfo=UTC)
JOB = "jtrainingjob0000001"
REF = "local/{job}.{n}.{a}/c0ffee{n}{a}"

PLAN = Plan(
    default=Rule(action=Action.HOLD),
    causes={
        Cause.PREEMPTED: Rule(action=Action.RESUBMIT, limit=2, backoff_s=5),
        Cause.APP_ERROR: Rule(action=Action.FAIL),
    },
)
DECLARED = Declarations(
    adapter="local",
    cluster="local",
    capabilities=(
        Capability.GATED_START,
        Capability.HOLD_PENDING,
        Capability.REQUEUE_LIVE,
        Capability.OUTPUT,
    ),
    node_loss_window_s=30,
    call_bound_s=20,
    landing_bound_s=5,
    request_timeout_s=10,
    retention_s=600,
    save_window_s=2,
)


def at(seconds: float) -> datetime:
    """The time so many seconds after the job was created."""
    return START + timedelta(seconds=seconds)


@dataclass
class Written:
    """A record being written; each method appends one entry."""

    plan: Plan = PLAN
    declared: Declarations = DECLARED
    spec: Spec = field(
        default_factory=lambda: Spec(
            name="train",
            command=("python", "train.py", "--epochs", "3"),
            nodes=2,
            memory_mb_per_node=512,
        )
    )
    unmatched: UnmatchedPolicy = UnmatchedPolicy.RETRY
    supersedes: str | None = None
    start_retries: int = 2
    entries: list[Entry] = field(default_factory=list)

    @property
    def header(self) -> Header:
        return Header(
            job_id=JOB,
            idempotency_key="train-1",
            spec=self.spec,
            spec_digest=spec_digest(self.spec),
            plan=self.plan,
            declarations=self.declared,
            start_retries=self.start_retries,
            unmatched=self.unmatched,
            created_by="local:ada",
            created_at=START,
            lineage=Lineage(
                supersedes=self.supersedes, generation=0 if self.supersedes is None else 1
            ),
        )

    @property
    def view(self) -> View:
        return View(
            JOB,
            envelope(self.header),
            tuple(envelope(one, f"t{n}") for n, one in enumerate(self.entries, start=1)),
        )

    def ref(self, n: int = 1, a: int = 1) -> str:
        return REF.format(job=JOB, n=n, a=a)

    def add(self, entry: Entry) -> Written:
        self.entries.append(entry)
        return self

    def intent(self, seconds: float, kind: IntentKind, **more: Any) -> Written:
        name = more.pop("id", f"i{len(self.entries)}")
        return self.add(Control(kind=kind, id=name, by="local:grace", at=at(seconds), **more))

    def fact(self, seconds: float, kind: type[Any], **more: Any) -> Written:
        return self.add(kind(at=at(seconds), by="supervisor", **more))

    def authorized(
        self, seconds: float, n: int = 1, trigger: str = "initial", **more: Any
    ) -> Written:
        taken = more.pop("taken_at", at(seconds))
        return self.fact(seconds, facts.Authorized, n=n, trigger=trigger, taken_at=taken, **more)

    def attempt(self, seconds: float, n: int = 1, a: int = 1) -> Written:
        return self.fact(seconds, facts.Attempt, n=n, a=a, deadline=at(seconds + 20))

    def started(self, seconds: float, n: int = 1, a: int = 1) -> Written:
        return self.fact(
            seconds, facts.Replied, n=n, a=a, result=ReplyResult.STARTED, ref=self.ref(n, a)
        )

    def refused(self, seconds: float, n: int, a: int, cause: Cause, detail: str) -> Written:
        return self.fact(
            seconds,
            facts.Replied,
            n=n,
            a=a,
            result=ReplyResult.REFUSED,
            cause=cause,
            detail=detail,
        )

    def sighting(self, state: ObjectState, n: int = 1, a: int = 1, **more: Any) -> Sighting:
        fields: dict[str, Any] = {
            "ref": self.ref(n, a),
            "n": n,
            "a": a,
            "spec_digest": self.header.spec_digest,
            "generation": self.header.lineage.generation,
            "state": state,
            "source": "spool",
        }
        return Sighting(**(fields | more))

    def saw(self, seconds: float, *seen: Sighting) -> Written:
        return self.fact(
            seconds, facts.Observed, taken_at=at(seconds - 0.5), seen_at=at(seconds), objects=seen
        )

    def released(self, seconds: float, n: int = 1, a: int = 1) -> Written:
        self.fact(seconds, facts.Canonical, n=n, ref=self.ref(n, a))
        return self.fact(seconds, facts.Released, ref=self.ref(n, a))

    def runs(self, seconds: float, n: int = 1, a: int = 1) -> Written:
        """Everything from an authorized submission to its run."""
        self.attempt(seconds, n, a).started(seconds + 1, n, a).released(seconds + 1, n, a)
        return self.saw(
            seconds + 2,
            self.sighting(
                ObjectState.RUNNING, n, a, nodes=("n0", "n1"), started_at=at(seconds + 1.5)
            ),
        )

    def ends(
        self, seconds: float, state: ObjectState, n: int = 1, a: int = 1, **more: Any
    ) -> Written:
        return self.saw(seconds, self.sighting(state, n, a, ended_at=at(seconds - 1), **more))


def preempted_and_recovered() -> Written:
    """A job that loses its place once, runs again and succeeds."""
    w = Written().authorized(1).runs(2)
    w.ends(
        12,
        ObjectState.FAILED,
        cause=Cause.PREEMPTED,
        signal=15,
        reason="preempted by administrator",
    )
    w.authorized(20, 2, "rec:1.1", cause=Cause.PREEMPTED)
    w.runs(21, 2)
    w.ends(40, ObjectState.SUCCEEDED, 2, exit_code=0)
    w.fact(41, facts.OutcomeFact, state=Outcome.SUCCEEDED)
    return w.fact(43, facts.Settled, taken_at=at(42.5))


def cancelled_while_running() -> Written:
    """A person ends a running job."""
    w = Written().authorized(1).runs(2)
    w.intent(9, IntentKind.CANCEL, reason="wrong data")
    w.ends(11, ObjectState.FAILED, cause=Cause.STOPPED, signal=15)
    return w.fact(14, facts.Settled, taken_at=at(13.5))


def held_for_a_person() -> Written:
    """A job that ran out of memory, about which the plan asks."""
    w = Written().authorized(1).runs(2)
    w.ends(
        12,
        ObjectState.FAILED,
        cause=Cause.OUT_OF_MEMORY,
        signal=9,
        reason="node 1 used 530 MB of 512 MB",
    )
    return w.fact(
        13,
        facts.RecoveryHold,
        cause=Cause.OUT_OF_MEMORY,
        trigger="rec:1.1:h",
        detail="node 1 used 530 MB of 512 MB",
    )


def given_up() -> Written:
    """A person's answer to that."""
    w = held_for_a_person()
    w.intent(60, IntentKind.GIVE_UP, reason="needs a bigger machine")
    return w.fact(65, facts.Settled, taken_at=at(64.5))
