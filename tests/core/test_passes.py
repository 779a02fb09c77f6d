"""What one pass commits together, and when it is over (protocol §6, §7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import cast

from dispatch.core.fold import fold
from dispatch.core.job import Job
from dispatch.operator import Operator, Submit
from dispatch.record.codec import decode_entry
from dispatch.record.control import Control
from dispatch.record.evidence import Discovery
from dispatch.record.names import IntentKind
from dispatch.record.view import View
from dispatch.schedulers.scheduler import Scheduler, Started, StartOrder, Target
from dispatch.store.memory import MemoryRecords
from dispatch.supervisor.loop import Ended, Passed, Supervisor
from tests.core.histories import SPEC, declared, plan, t


@dataclass
class Cluster:
    """A cluster that takes every call.

    Attributes:
        ref: The name of the next object.
        calls: What was called.
        meanwhile: Done while a Start is on its way.
    """

    ref: str = "o1"
    calls: list[str] = field(default_factory=list)
    meanwhile: Callable[[], object] = lambda: None

    def start(self, order: StartOrder) -> Started:
        self.calls.append(f"start {order.tag.n}.{order.tag.a}")
        self.meanwhile()
        return Started(self.ref)

    def release(self, target: Target) -> None:
        self.calls.append(f"release {target.ref}")

    def stop(self, target: Target) -> None:
        self.calls.append(f"stop {target.ref}")


@dataclass
class Yard:
    """One job in a store, a cluster, and a supervisor for it."""

    cluster: Cluster = field(default_factory=Cluster)
    tokens: int = 0
    looks: int = 0
    left: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = MemoryRecords(self._token)
        self.operator = Operator(self.store, lambda: t(0), lambda _: None)
        wanted = Submit("key-1", SPEC, plan(), declared())
        self.job_id = self.operator.submit(wanted, by="ann").job_id

    def _token(self) -> str:
        self.tokens += 1
        return f"t{self.tokens}"

    def clock(self) -> datetime:
        self.looks += 1
        return t(self.looks / 100)

    def time_left(self) -> float:
        return self.left.pop(0) if self.left else 600.0

    def passes(self) -> Passed:
        scheduler = cast(Scheduler, self.cluster)
        supervisor = Supervisor(self.store, scheduler, self.clock, "s1", self.time_left)
        return supervisor.supervise(self.job_id, Discovery(self.clock(), self.clock(), True))

    @property
    def view(self) -> View:
        return self.store.read(self.job_id)

    @property
    def job(self) -> Job:
        return fold(self.view, t(0))

    @property
    def commits(self) -> list[list[str]]:
        """The kinds of the entries, one list for each commit."""
        together: dict[str, list[str]] = {}
        for stored in self.view.entries:
            entry = decode_entry(stored)
            kind = entry.kind if isinstance(entry, Control) else entry.fact
            together.setdefault(stored.token, []).append(str(kind))
        return list(together.values())


STARTED = [["authorized", "attempt"], ["replied", "canonical", "released"]]


def test_a_reply_is_committed_with_what_follows_from_it() -> None:
    yard = Yard()
    passed = yard.passes()
    assert yard.commits == STARTED
    assert (passed.ended, passed.commits, passed.facts) == (Ended.IDLE, 2, 5)
    assert yard.cluster.calls == ["start 1.1", "release o1"]
    assert passed.job == yard.job


def test_a_reply_is_kept_alone_where_somebody_else_wrote_meanwhile() -> None:
    """The pass ends: what follows is decided on the record as it then stands."""
    yard = Yard()
    yard.cluster.meanwhile = lambda: yard.operator.intend(
        yard.job_id, IntentKind.HOLD, intent_id="i1", by="ann"
    )
    passed = yard.passes()
    assert yard.commits == [["authorized", "attempt"], ["hold"], ["replied"]]
    assert passed.ended is Ended.CONFLICT
    assert yard.cluster.calls == ["start 1.1"]
    yard.cluster.meanwhile = lambda: None
    yard.passes()
    assert yard.commits[3:] == [["canonical"]]
    assert yard.cluster.calls == ["start 1.1"]


def test_a_reply_is_kept_though_no_time_is_left_for_what_follows() -> None:
    yard = Yard(left=[600.0, 5.0])
    passed = yard.passes()
    assert passed.ended is Ended.OUT_OF_TIME
    assert yard.commits == [["authorized", "attempt"], ["replied"]]
    assert yard.cluster.calls == ["start 1.1"]


def test_a_reply_that_names_another_attempt_s_object_is_left_out() -> None:
    yard = Yard()
    yard.passes()
    yard.operator.intend(yard.job_id, IntentKind.RESUBMIT, intent_id="i1", by="ann")
    yard.operator.intend(yard.job_id, IntentKind.ABANDON, intent_id="i2", by="ann", target="o1")
    passed = yard.passes()
    assert yard.commits[2:] == [["resubmit"], ["abandon"], ["authorized", "attempt"]]
    assert [one.call for one in passed.troubles] == ["late"]
    assert "1.1" in passed.troubles[0].detail


def test_a_pass_that_is_complete_reads_the_clock_for_no_further_round() -> None:
    """Nothing else was due; what falls due later has a time, and the next tick."""
    yard = Yard()
    yard.passes()
    yard.operator.intend(yard.job_id, IntentKind.CANCEL, intent_id="i1", by="ann")
    before = yard.looks
    passed = yard.passes()
    assert yard.cluster.calls[-1] == "stop o1"
    assert passed.ended is Ended.IDLE
    assert yard.looks - before == 3  # two for the look, one for its one round
