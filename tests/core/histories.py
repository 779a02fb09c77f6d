"""Histories for tests, written so that they read as they happened.

Time is told in seconds after `T0`. Every method appends one entry at `self.now`; `later(10)` lets
time pass. `job()` encodes the history, folds it, and gives the job.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from dispatch.core.decide import Decision, decide
from dispatch.core.fold import fold
from dispatch.core.job import Job
from dispatch.core.next import next_steps
from dispatch.core.project import Status, project
from dispatch.core.steps import Next
from dispatch.record import fact as facts
from dispatch.record.codec import Entry, envelope, spec_digest
from dispatch.record.control import Control
from dispatch.record.evidence import Discovery, Sighting
from dispatch.record.header import Adjust, Declarations, Header, Lineage, Plan, Rule, Spec
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

T0 = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
SPEC = Spec(name="train", command=("python", "train.py"), nodes=2, memory_mb_per_node=1000)
OTHER_DIGEST = "0" * 64

UNGATED: tuple[Capability, ...] = (Capability.HOLD_PENDING, Capability.EXIT_CODES)
GATED: tuple[Capability, ...] = (Capability.GATED_START, *UNGATED)
FULL: tuple[Capability, ...] = (
    *GATED,
    Capability.HOLD_RUNNING,
    Capability.REQUEUE_LIVE,
    Capability.REQUEUE_ENDED,
)

SKEW_S = 5
CALL_BOUND_S = 120
NODE_LOSS_WINDOW_S = 300
SAVE_WINDOW_S = 20
BACK_OFF_S = 10


def t(seconds: float) -> datetime:
    """The time that many seconds after the job's creation."""
    return T0 + timedelta(seconds=seconds)


def declared(capabilities: Sequence[Capability] = GATED, **changes: Any) -> Declarations:
    """A cluster's declarations, with windows that are easy to count with."""
    bounds: dict[str, Any] = {
        "node_loss_window_s": NODE_LOSS_WINDOW_S,
        "call_bound_s": CALL_BOUND_S,
        "landing_bound_s": 30,
        "request_timeout_s": 10,
        "retention_s": 300,
        "save_window_s": SAVE_WINDOW_S,
        "clock_skew_s": SKEW_S,
    }
    return Declarations(
        adapter="test", cluster="c1", capabilities=tuple(capabilities), **{**bounds, **changes}
    )


def plan(
    default: Action = Action.HOLD,
    *,
    pending_limit_s: int | None = None,
    in_place: bool = False,
    **causes: Rule,
) -> Plan:
    """A plan: what to do by default, and about the causes that are named."""
    return Plan(
        default=Rule(action=default, in_place=in_place),
        causes={Cause(name): rule for name, rule in causes.items()},
        pending_limit_s=pending_limit_s,
        start_backoff_s=BACK_OFF_S,
    )


class History:
    """A record in the making."""

    def __init__(
        self,
        *,
        capabilities: Sequence[Capability] = GATED,
        plan: Plan | None = None,
        start_retries: int = 2,
        unmatched: UnmatchedPolicy = UnmatchedPolicy.RETRY,
        lineage: Lineage | None = None,
        spec: Spec = SPEC,
        **declarations: Any,
    ) -> None:
        self.header = Header(
            job_id="jabcdefgh",
            idempotency_key="key-1",
            spec=spec,
            spec_digest=spec_digest(spec),
            plan=plan or Plan(default=Rule(action=Action.HOLD), start_backoff_s=BACK_OFF_S),
            declarations=declared(capabilities, **declarations),
            start_retries=start_retries,
            unmatched=unmatched,
            created_by="ann",
            created_at=T0,
            lineage=lineage or Lineage(),
        )
        self.entries: list[Entry] = []
        self.now = 0.0

    # --- time and reading -----------------------------------------------------------------

    def later(self, seconds: float) -> Self:
        self.now += seconds
        return self

    def at(self, seconds: float) -> Self:
        self.now = seconds
        return self

    def view(self) -> View:
        stored = tuple(envelope(entry, "token") for entry in self.entries)
        return View(self.header.job_id, envelope(self.header, "token"), stored)

    def job(self, now: float | None = None) -> Job:
        return fold(self.view(), t(self.now if now is None else now))

    def sees(
        self,
        *sightings: Sighting,
        complete: bool = True,
        taken: float | None = None,
        seen: float | None = None,
        looked_up: Sequence[str] = (),
    ) -> Discovery:
        """A look at the cluster, taken now unless told otherwise."""
        began = self.now if taken is None else taken
        return Discovery(
            taken_at=t(began),
            seen_at=t(began if seen is None else seen),
            complete=complete,
            sightings=sightings,
            looked_up=frozenset(looked_up),
            error=None if complete else "a page was lost",
        )

    def next(self, *sightings: Sighting, **look: Any) -> Next:
        return next_steps(self.job(), self.sees(*sightings, **look), t(self.now), by="s1")

    def decide(self, *sightings: Sighting, **look: Any) -> Decision:
        return decide(self.job(), self.sees(*sightings, **look), t(self.now), by="s1")

    def status(self, *sightings: Sighting, **look: Any) -> Status:
        return project(self.job(), self.sees(*sightings, **look), t(self.now))

    def recorded_status(self) -> Status:
        return project(self.job(), None, t(self.now))

    def add(self, *entries: Entry) -> Self:
        self.entries += entries
        return self

    # --- sightings ------------------------------------------------------------------------

    def sight(self, ref: str = "o1", state: str = "running", **fields: Any) -> Sighting:
        """One object as a look shows it; of attempt 1.1 unless told otherwise."""
        cause = fields.pop("cause", None)
        if cause is None and state in ("failed", "gone"):
            cause = "app_error" if state == "failed" else "lost"
        shown: dict[str, Any] = {
            "n": 1,
            "a": 1,
            "spec_digest": self.header.spec_digest,
            "generation": self.header.lineage.generation,
            "source": "test",
            **fields,
        }
        for name in ("started_at", "ended_at", "lost_at"):
            if isinstance(shown.get(name), int | float):
                shown[name] = t(shown[name])
        return Sighting(
            ref=ref,
            state=ObjectState(state),
            cause=None if cause is None else Cause(cause),
            **shown,
        )

    # --- facts ----------------------------------------------------------------------------

    def _said(self) -> dict[str, Any]:
        return {"at": t(self.now), "by": "s1"}

    def authorized(
        self,
        n: int = 1,
        trigger: str | None = None,
        *,
        taken: float | None = None,
        cause: str | None = None,
        adjust: Adjust | None = None,
    ) -> Self:
        return self.add(
            facts.Authorized(
                **self._said(),
                n=n,
                trigger=trigger or ("initial" if n == 1 else f"ctl:{n}"),
                taken_at=t(self.now if taken is None else taken),
                cause=None if cause is None else Cause(cause),
                adjust=adjust,
            )
        )

    def attempt(self, n: int = 1, a: int = 1, *, deadline: float | None = None) -> Self:
        end = self.now + CALL_BOUND_S if deadline is None else deadline
        return self.add(facts.Attempt(**self._said(), n=n, a=a, deadline=t(end)))

    def replied(self, n: int = 1, a: int = 1, ref: str = "o1") -> Self:
        started = ReplyResult.STARTED
        return self.add(facts.Replied(**self._said(), n=n, a=a, result=started, ref=ref))

    def refused(
        self, n: int = 1, a: int = 1, cause: str = "start_refused", detail: str | None = None
    ) -> Self:
        refused = ReplyResult.REFUSED
        return self.add(
            facts.Replied(
                **self._said(), n=n, a=a, result=refused, cause=Cause(cause), detail=detail
            )
        )

    def not_sent(self, n: int = 1, a: int = 1) -> Self:
        return self.add(facts.Replied(**self._said(), n=n, a=a, result=ReplyResult.NOT_SENT))

    def observed(
        self, *objects: Sighting, taken: float | None = None, seen: float | None = None
    ) -> Self:
        began = self.now if taken is None else taken
        return self.add(
            facts.Observed(
                **self._said(),
                taken_at=t(began),
                seen_at=t(began if seen is None else seen),
                objects=objects,
            )
        )

    def shows(self, ref: str = "o1", state: str = "running", **fields: Any) -> Self:
        """An observation of one object, by a Find taken now."""
        return self.observed(self.sight(ref, state, **fields))

    def unmatched(self, n: int = 1, a: int = 1, *, taken: float | None = None) -> Self:
        began = t(self.now if taken is None else taken)
        return self.add(facts.Unmatched(**self._said(), n=n, a=a, taken_at=began))

    def canonical(self, ref: str = "o1", n: int = 1) -> Self:
        return self.add(facts.Canonical(**self._said(), n=n, ref=ref))

    def retired(self, ref: str = "o1", reason: str = "another is canonical") -> Self:
        return self.add(facts.Retired(**self._said(), ref=ref, reason=reason))

    def expired(
        self, ref: str = "o1", cause: str = "no_capacity", trigger: str = "pend:1.1"
    ) -> Self:
        return self.add(facts.Expired(**self._said(), ref=ref, cause=Cause(cause), trigger=trigger))

    def released(self, ref: str = "o1") -> Self:
        return self.add(facts.Released(**self._said(), ref=ref))

    def hold_call(
        self, ref: str = "o1", *, run: int = 1, restarts: int = 0, deadline: float | None = None
    ) -> Self:
        end = self.now + CALL_BOUND_S if deadline is None else deadline
        return self.add(
            facts.HoldCall(**self._said(), ref=ref, run=run, restarts=restarts, deadline=t(end))
        )

    def requeue_call(
        self,
        ref: str = "o1",
        trigger: str = "rec:1.1",
        *,
        run: int = 1,
        restarts: int = 0,
        deadline: float | None = None,
        cause: str | None = None,
    ) -> Self:
        end = self.now + CALL_BOUND_S if deadline is None else deadline
        return self.add(
            facts.RequeueCall(
                **self._said(),
                ref=ref,
                run=run,
                restarts=restarts,
                deadline=t(end),
                trigger=trigger,
                cause=None if cause is None else Cause(cause),
            )
        )

    def recovery_hold(self, cause: str = "app_error", trigger: str = "rec:1.1:h") -> Self:
        return self.add(facts.RecoveryHold(**self._said(), cause=Cause(cause), trigger=trigger))

    def outcome(self, state: str = "succeeded", cause: str | None = None) -> Self:
        if cause is None and state == "failed":
            cause = "app_error"
        return self.add(
            facts.OutcomeFact(
                **self._said(),
                state=Outcome(state),
                cause=None if cause is None else Cause(cause),
            )
        )

    def escalated(self, key: str = "k", code: str = "test", detail: str = "look") -> Self:
        return self.add(facts.Escalated(**self._said(), key=key, code=code, detail=detail))

    def settled(self, *, taken: float | None = None) -> Self:
        began = t(self.now if taken is None else taken)
        return self.add(facts.Settled(**self._said(), taken_at=began))

    # --- control intents ------------------------------------------------------------------

    def wants(
        self,
        kind: str,
        id: str | None = None,
        *,
        target: str | None = None,
        reason: str | None = None,
    ) -> Self:
        return self.add(
            Control(
                kind=IntentKind(kind),
                id=id or kind,
                by="bob",
                at=t(self.now),
                reason=reason,
                target=target,
            )
        )

    # --- stages that many histories share -------------------------------------------------

    def started(self, n: int = 1, ref: str = "o1", trigger: str | None = None) -> Self:
        """Submission n is authorized and started; its object exists, held by the gate."""
        return self.authorized(n, trigger).attempt(n).replied(n, ref=ref).canonical(ref, n)

    def running(self, n: int = 1, ref: str = "o1", trigger: str | None = None) -> Self:
        """Submission n runs: started, released, seen running ten seconds later."""
        self.started(n, ref, trigger)
        if Capability.GATED_START in self.header.declarations.capabilities:
            self.released(ref)
        return self.later(10).shows(ref, "running", n=n)

    def ended(self, state: str = "failed", **fields: Any) -> Self:
        """The object o1 of submission 1 ran and, ten seconds later, has ended."""
        return self.running().later(10).shows("o1", state, **fields)

    def cancelled_and_stopped(self) -> Self:
        """A running job was cancelled, and its object is seen stopped; not settled yet."""
        return self.running().wants("cancel").later(10).shows("o1", "failed", cause="stopped")

    def over(self) -> Self:
        """Cancelled, stopped, past the save window, and settled."""
        return self.cancelled_and_stopped().later(SAVE_WINDOW_S).settled()
