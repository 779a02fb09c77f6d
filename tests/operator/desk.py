"""An operator on a store in memory, with a clock that the test turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from dispatch.core.decide import decide
from dispatch.core.fold import fold
from dispatch.core.job import Job
from dispatch.operator import Operator, Receipt, Submit
from dispatch.record.codec import Entry, envelope
from dispatch.record.evidence import Discovery
from dispatch.record.fact import Settled
from dispatch.record.header import Plan, Rule, Spec
from dispatch.record.names import Action, IntentKind, UnmatchedPolicy
from dispatch.record.view import Envelope
from dispatch.store.memory import MemoryRecords
from tests.core.histories import SPEC, T0, declared


@dataclass
class Desk:
    """The operator, its store and its clock."""

    now: datetime = T0
    count: int = 0
    pauses: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = MemoryRecords(self._token)
        self.operator = Operator(self.store, lambda: self.now, self._pause)

    def _token(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def _pause(self, tries: int) -> None:
        self.pauses.append(tries)
        self.now += timedelta(seconds=1)

    def later(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def submits(
        self, key: str = "key-1", spec: Spec = SPEC, supersedes: str | None = None
    ) -> Submit:
        return Submit(
            idempotency_key=key,
            spec=spec,
            plan=Plan(default=Rule(action=Action.HOLD)),
            declarations=declared(),
            unmatched=UnmatchedPolicy.RETRY,
            supersedes=supersedes,
        )

    def submitted(self, key: str = "key-1", supersedes: str | None = None) -> str:
        return self.operator.submit(self.submits(key, supersedes=supersedes), by="ann").job_id

    def wants(
        self, job_id: str, kind: str, intent_id: str = "i1", target: str | None = None
    ) -> Receipt:
        return self.operator.intend(
            job_id, IntentKind(kind), intent_id=intent_id, by="bob", target=target
        )

    def job(self, job_id: str) -> Job:
        return fold(self.store.read(job_id), self.now)

    def append(self, job_id: str, entries: Sequence[Entry]) -> None:
        stored = [envelope(entry) for entry in entries]
        settled = next((one.at for one in entries if isinstance(one, Settled)), None)
        self.store.commit(job_id, self.store.read(job_id).revision, stored, settled_at=settled)

    def append_newer(self, job_id: str) -> None:
        """A fact of a schema that this build doesn't know."""
        stored = Envelope("dispatch.fact.v2", '{"fact":"novel"}')
        self.store.commit(job_id, self.store.read(job_id).revision, [stored])

    def supervise(self, job_id: str) -> None:
        """One pass on an empty cluster, calls left out."""
        job = self.job(job_id)
        look = Discovery(self.now, self.now, complete=True)
        decision = decide(job, look, self.now, by="s1")
        if decision.facts:
            self.append(job_id, decision.facts)

    def settled(self, key: str = "key-1", supersedes: str | None = None) -> str:
        """A job that was cancelled before it began, and is settled."""
        job_id = self.submitted(key, supersedes)
        self.wants(job_id, "cancel")
        self.supervise(job_id)
        assert self.job(job_id).settled_at is not None
        return job_id
