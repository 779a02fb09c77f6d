"""The rules of the protocol, each of which can be reverted by name to see that it is missed.

A rule is a small function of the product; a mutant puts another in its place, wherever the product
calls it. Only tests and `dispatch simulate --mutant` do that.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from dispatch.core import fold as fold_module
from dispatch.core import merge, news, observe, recover, rules, settled, starting, stopping, wishes
from dispatch.core import next as next_module
from dispatch.core.fold import extend
from dispatch.core.steps import Append, Release
from dispatch.errors import CommitUnknown
from dispatch.record.codec import decode_header, envelope
from dispatch.record.evidence import Found
from dispatch.supervisor import execute, loop
from dispatch.supervisor.belief import Belief, hinted
from dispatch.supervisor.sweep import Sweeper
from simulator.wire import Wire
from simulator.worlds.cluster import SimScheduler


@dataclass(frozen=True, slots=True)
class Patch:
    """One function in another's place.

    Attributes:
        owner: The module or class that has it.
        name: Its name there.
        instead: What stands there instead.
    """

    owner: Any
    name: str
    instead: Any


@dataclass(frozen=True, slots=True)
class Mutant:
    """One rule, reverted.

    Attributes:
        name: Of the mutant.
        rule: The rule that it breaks.
        patches: What is put in whose place.
    """

    name: str
    rule: str
    patches: tuple[Patch, ...]


@contextmanager
def applied(mutant: Mutant | None) -> Iterator[None]:
    """Let a mutant be in force."""
    with ExitStack() as stack:
        for patch in mutant.patches if mutant is not None else ():
            stack.enter_context(_patched(patch))
        yield


@contextmanager
def _patched(patch: Patch) -> Iterator[None]:
    original = getattr(patch.owner, patch.name)
    before = [(patch.owner, patch.name, original)]
    if not isinstance(patch.owner, type):
        before = list(_places(original))
    for owner, name, value in before:
        instead = patch.instead
        if isinstance(value, tuple):
            instead = tuple(patch.instead if one is original else one for one in value)
        setattr(owner, name, instead)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


def _places(original: Any) -> Iterator[tuple[Any, str, Any]]:
    """Yield where the product knows a function: under a name, or in a table."""
    for module in list(sys.modules.values()):
        if not getattr(module, "__name__", "").startswith("dispatch."):
            continue
        for name, value in list(vars(module).items()):
            in_table = isinstance(value, tuple) and any(one is original for one in value)
            if value is original or in_table:
                yield module, name, value


# --- what stands in a rule's place ------------------------------------------------------------


def _always(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


def _mine_anyway(original: Callable[..., Any]) -> Callable[..., Any]:
    def commit(self: Any, passed: Any, view: Any, added: Any) -> Any:
        try:
            return original(self, passed, view, added)
        except CommitUnknown:
            return view.with_entries(tuple(envelope(fact) for fact in added))

    return commit


def _unwritten_release(original: Callable[..., Any]) -> Callable[..., Any]:
    def release(*given: Any) -> Any:
        return [
            replace(step, fact=None) if isinstance(step, Release) else step
            for step in original(*given)
        ]

    return release


def _live_evidence(original: Callable[..., Any]) -> Callable[..., Any]:
    def steps(job: Any, discovery: Any, now: Any, *, by: str = "supervisor") -> Any:
        for step in news.record(job, discovery, now, by) if job.settled_at is None else ():
            if isinstance(step, Append):
                job = extend(job, step.facts)
        return original(job, discovery, now, by=by)

    return steps


def _from_taken_at(original: Callable[..., Any]) -> Callable[..., Any]:
    def observed(job: Any, fact: Any) -> Any:
        return original(job, fact.model_copy(update={"seen_at": fact.taken_at}))

    return observed


def _only_holds(job: Any) -> None:
    job.user_hold = None
    job.recovery = None


def _by_restarts(known: Any) -> str:
    return f"rec:{known.n}.{known.run.restarts + 1}"


def _any_find(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda job, discovery: original(job, replace(discovery, complete=True))


def _in_no_doubt(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda found, job_id: original(replace(found, doubts={}), job_id)


class _Configured:
    """Records as an actor reads them that goes by its own configuration, not the recorded one."""

    def __init__(self, inner: Any, declared: Any) -> None:
        self._inner = inner
        self._declared = declared

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def read(self, job_id: str) -> Any:
        view = self._inner.read(job_id)
        header = decode_header(view.header, job=job_id)
        header = header.model_copy(update={"declarations": self._declared})
        return replace(view, header=envelope(header))


def _by_its_configuration(original: Callable[..., Any]) -> Callable[..., Any]:
    def rounds(self: Any, passed: Any, discovery: Any) -> Any:
        records = _Configured(self.records, self.scheduler.declare())
        return original(replace(self, records=records), passed, discovery)

    return rounds


def _unmatched_at_once(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda taken_at, deadline, declared: True


def _settled_at_outcome(job: Any, taken_at: Any, now: Any) -> list[str]:
    return [] if job.ending is not None else ["there is no outcome"]


def _m(name: str, rule: str, *patches: tuple[Any, str, Any]) -> Mutant:
    return Mutant(name, rule, tuple(Patch(*patch) for patch in patches))


_NO = _always(False)
_YES = _always(True)
_NONE = _always(None)
_EMPTY = _always([])
_LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)

MUTANTS: tuple[Mutant, ...] = (
    _m("unmatched_before_deadline", "§5", (rules, "past_deadline", _YES)),
    _m("no_node_loss_window", "§5 stopped", (rules, "node_lost_from", _NONE)),
    _m("no_hazard", "§5 hazard", (rules, "hazard_from", _NONE)),
    _m("no_hazard_for_runs_between", "§5 hazard", (merge, "runs_between", _NO)),
    _m("no_hazard_for_the_vanished", "§5 hazard", (merge, "vanished_executing", _NO)),
    _m("settle_with_unknown_attempts", "§5 settled", (settled, "_attempts", _EMPTY)),
    _m("settle_on_a_vouch", "§5 settled", (rules, "may_land_vouched_for", _NO)),
    _m("settle_with_open_requeue", "§5 settled", (settled, "_calls", _EMPTY)),
    _m("settle_with_live_objects", "§5 settled", (settled, "_objects", _EMPTY)),
    _m(
        "act_while_call_open",
        "§6 rows 13, 14",
        (rules, "open_calls", _EMPTY),
        (recover, "call_blocks_recovery", _NO),
    ),
    _m("ungated_beside_a_vouch", "ADR 34", (rules, "vouched_for_may_land", _NO)),
    _m("a_landed_requeue_is_over", "ADR 34", (rules, "requeue_may_land", _NO)),
    _m("send_after_deadline", "§7", (execute.Calls, "_may_still_be_sent", _YES)),
    _m("start_resent_by_transport", "§1.1", (Wire, "resends", True)),
    _m("absence_before_sight", "§5", (rules, "absence_counts", _YES)),
    _m("live_evidence", "§1.2", (next_module, "steps_due", _live_evidence(next_module.steps_due))),
    _m(
        "success_under_open_call",
        "§6 row 12",
        (rules, "open_requeue_calls", _EMPTY),
        (next_module, "call_blocks_success", _NO),
    ),
    _m("cancel_keeps_pending", "§3 cancel", (wishes, "_lift_everything", _only_holds)),
    _m("no_save_window_settling", "§5 save window", (rules, "saved_for_settling", _YES)),
    # The next gate waits for the same (ADR 41), so that both must go before anything is missed.
    _m(
        "no_save_window_closing",
        "§5 save window",
        (rules, "saved_for_closing", _YES),
        (rules, "saved_for_starting", _YES),
    ),
    _m("no_save_window_starting", "ADR 41", (rules, "saved_for_starting", _YES)),
    _m("no_window_for_unseen_reruns", "ADR 42", (rules, "_reruns", _EMPTY)),
    _m("sticky_for_ever", "§5 runs", (merge, "sticky", _YES)),
    _m("lower_restarts_ignored", "§5 runs", (merge, "restarts_undone", _NO)),
    _m("windows_from_taken_at", "§5 clocks", (observe, "observe", _from_taken_at(observe.observe))),
    _m("triggers_by_restarts", "§4 triggers", (rules, "run_trigger", _by_restarts)),
    _m("release_beside_another", "§6 row 11", (rules, "others_may_execute", _NO)),
    _m(
        "release_beside_its_earlier_run",
        "§6 rows 10, 11",
        (next_module, "earlier_run_may_execute", _NO),
    ),
    _m(
        "release_unwritten",
        "§4 released",
        (next_module, "_release", _unwritten_release(next_module._release)),
    ),
    _m("row_0_empty", "§6 row 0", (next_module, "_after_settled", _EMPTY)),
    _m(
        "call_on_unknown_commit",
        "§7",
        (loop.Supervisor, "_commit", _mine_anyway(loop.Supervisor._commit)),
    ),
    _m(
        "decides_by_its_configuration",
        "§2",
        (loop.Supervisor, "_rounds", _by_its_configuration(loop.Supervisor._rounds)),
    ),
    _m("abandoned_blocks", "§5 closed", (rules, "canonical_released_from_closing", _NO)),
    _m(
        "foreign_does_not_block",
        "§5 foreign",
        (starting, "foreign_blocks_start", _NO),
        (fold_module, "_no_foreign", _NONE),
    ),
    _m("foreign_is_ours", "§5 foreign", (observe, "is_foreign", _NO)),
    _m("start_on_any_find", "§6 row 16", (starting, "may_start", _any_find(starting.may_start))),
    _m("doubts_ignored", "§1.3", (Found, "discovery", _in_no_doubt(Found.discovery))),
    _m("attempt_beside_unknown", "§6 row 16", (rules, "attempt_closed", _YES)),
    _m("duplicates_not_retired", "§6 row 5", (next_module, "_retire", _EMPTY)),
    _m("nothing_is_stopped", "§6 row 6", (stopping, "stop_because", _NONE)),
    _m("accounting_not_asked", "§6 row 1b", (news, "lookup_first", _NO)),
    _m("accounting_not_waited_for", "ADR 20", (news, "lag_over", _always(_LONG_AGO))),
    _m("budget_not_counted", "§2 plan", (fold_module, "_spend", _NONE)),
    _m("an_undone_release_stays", "§5 save window", (rules, "opened_for_good", _YES)),
    _m("a_forgotten_run_is_over", "ADR 31", (SimScheduler, "_forgot_no_run", _NONE)),
    _m("opened_on_any_look", "ADR 39", (rules, "sees_everything", _YES)),
    _m("a_mass_loss_is_believed", "§7 mass loss", (Belief, "mass_loss", _NONE)),
    _m(
        "accounting_explains_every_loss",
        "ADR 40",
        (Belief, "_ended_by_accounting", lambda _, lost: len(lost)),
    ),
    _m("another_cluster_is_believed", "§7 mass loss", (Belief, "another_cluster", _NONE)),
    _m("whole_looks_never_come", "ADR 28", (Sweeper, "_slow_beat", _NO)),
    _m("what_vanished_never_ran", "§6 row 13", (rules, "never_executed", _YES)),
    _m("an_abandoned_holder_is_going", "§7, row 17", (starting, "name_wont_come_free", _NO)),
    _m("attempts_never_close", "§6 row 2", (next_module, "_close_attempts", _EMPTY)),
    _m(
        "hints_have_the_last_word",
        "ADR 39",
        (Belief, "_live_in_record", lambda _, due: hinted(due)),
    ),
    _m("hold_is_no_requeue", "§5 call open", (rules, "holding_restarts", _NO)),
)
"""Every rule of the protocol that can be reverted."""
