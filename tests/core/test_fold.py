"""Fold as a whole: who decides, what it leaves alone, what it refuses, what it costs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from dispatch.core import rules
from dispatch.core.decide import decide
from dispatch.core.fold import extend, fold, replay
from dispatch.core.next import next_steps
from dispatch.core.project import project
from dispatch.core.stopping import stop_due_since
from dispatch.errors import InvalidRecord, RecordRefused, SchemaRefused, UnknownName
from dispatch.record.codec import envelope
from dispatch.record.fact import Canonical
from dispatch.record.header import Lineage
from dispatch.record.view import Envelope, View
from tests.core.histories import FULL, OTHER_DIGEST, History, t
from tests.core.test_next_calls import as_recorded, quiet, rows


def refusal_of(view: View) -> RecordRefused | None:
    """Why a record doesn't fold, or None if it does."""
    try:
        fold(view, t(0))
    except RecordRefused as refusal:
        return refusal
    return None


def eventful() -> History:
    """A preempted run, a requeue in place that expires, a second submission, a cancel."""
    history = History(capabilities=FULL).running().wants("hold").wants("release").later(5)
    history.shows("o1", "failed", cause="preempted").requeue_call(cause="preempted").later(125)
    history.shows("o1", "failed", cause="preempted").later(30)
    history.authorized(2, "rec:1.1:f", cause="preempted").attempt(2).later(10)
    history.shows("o2", "pending", n=2, held=True).canonical("o2", 2).released("o2").later(10)
    history.shows("o2", "running", n=2).shows("x", "running", n=9).escalated("foreign/x")
    history.wants("abandon", target="x").wants("cancel").later(10)
    history.shows("o2", "failed", n=2, cause="stopped").later(30)
    return history.settled()


# --- everyone gets the same -----------------------------------------------------------------


def test_all_folds_of_one_revision_are_equal_whatever_the_readers_now() -> None:
    view = eventful().view()
    first = fold(view, t(0))
    for now in (-1e6, 40, 200, 1e9):
        assert fold(view, t(now)) == first


def test_fold_keeps_the_passs_time_beside_what_the_record_says() -> None:
    view = eventful().view()
    assert fold(view, t(1)).as_of == t(1)
    assert fold(view, t(1)) == fold(view, t(2))


def test_every_prefix_of_a_valid_history_folds() -> None:
    view = eventful().view()
    for revision in range(view.revision + 1):
        assert fold(view.at(revision), t(999)).revision == revision


def test_replay_and_extend_say_what_fold_says() -> None:
    history = eventful()
    whole = history.job()
    assert replay(history.header, history.entries) == whole
    half = replay(history.header, history.entries[:9])
    assert extend(half, history.entries[9:]) == whole
    assert half == replay(history.header, history.entries[:9])


# --- nothing is changed that was handed in --------------------------------------------------


@pytest.mark.parametrize(
    "situation",
    [
        History,
        lambda: History().authorized().attempt(),
        lambda: History().running(),
        lambda: History().ended(),
        lambda: History(capabilities=FULL).ended().requeue_call(),
        lambda: History().running().wants("cancel"),
        eventful,
    ],
)
def test_next_project_decide_and_extend_change_no_job(situation: Callable[[], History]) -> None:
    history = situation().later(130)
    job = history.job()
    before = deepcopy(job)
    seen = [history.sight("o1", "failed", restarts=1), history.sight("n", "running", n=7)]
    for look in (history.sees(*seen), history.sees(), history.sees(complete=False)):
        next_steps(job, look, t(history.now))
        project(job, look, t(history.now))
        decision = decide(job, look, t(history.now))
        extend(job, decision.facts)
        assert job == before
        assert job.as_of == before.as_of


def test_the_same_inputs_give_the_same_answers() -> None:
    history = History(capabilities=FULL).ended()
    look = history.sees(*as_recorded(history))
    assert next_steps(history.job(), look, t(60)) == next_steps(history.job(), look, t(60))
    assert project(history.job(), look, t(60)) == project(history.job(), look, t(60))


# --- what fold refuses beside the facts' own rules ------------------------------------------


def test_a_header_of_another_job_is_refused() -> None:
    view = replace(History().view(), job_id="jsomebody")
    with pytest.raises(InvalidRecord) as caught:
        fold(view, t(0))
    assert (caught.value.rule, caught.value.field, caught.value.entry) == ("other_job", "job_id", 0)


def test_an_entry_of_a_newer_build_is_refused_by_its_number_f42() -> None:
    view = History().running().view()
    newer = Envelope("dispatch.fact.v2", view.entries[2].body)
    with pytest.raises(SchemaRefused) as caught:
        fold(replace(view, entries=(*view.entries[:2], newer, *view.entries[3:])), t(0))
    assert (caught.value.rule, caught.value.entry) == ("unknown_schema", 3)
    assert caught.value.job == "jabcdefgh"


def test_an_entry_with_an_unknown_name_is_refused_by_its_number_f42() -> None:
    view = History().authorized().view()
    stored = view.entries[0]
    newer = stored._replace(body=stored.body.replace('"authorized"', '"authorised"'))
    with pytest.raises(UnknownName) as caught:
        fold(view.with_entries((newer,)), t(0))
    assert (caught.value.field, caught.value.entry) == ("fact", 2)


def test_two_facts_that_changed_places_are_refused_f42() -> None:
    view = eventful().view()
    refused = []
    for at in range(view.revision - 1):
        swapped = list(view.entries)
        swapped[at], swapped[at + 1] = swapped[at + 1], swapped[at]
        refusal = refusal_of(replace(view, entries=tuple(swapped)))
        if refusal is not None:
            refused.append(refusal.rule)
            assert refusal.entry is not None
            assert refusal.entry >= at + 1
    assert len(refused) >= 10
    attempt_first = list(view.entries)
    attempt_first[0], attempt_first[1] = attempt_first[1], attempt_first[0]
    with pytest.raises(InvalidRecord) as caught:
        fold(replace(view, entries=tuple(attempt_first)), t(0))
    assert (caught.value.rule, caught.value.entry) == ("not_latest_submission", 1)


def test_a_fact_that_stands_twice_is_refused_or_changes_nothing() -> None:
    history = eventful()
    for at, entry in enumerate(history.entries):
        twice = [*history.entries[: at + 1], entry]
        once = replay(history.header, history.entries[: at + 1])
        try:
            again = replay(history.header, twice)
        except InvalidRecord:
            continue
        again.revision = once.revision
        assert again == once, entry


def test_a_refused_entry_leaves_the_job_it_was_offered_to_alone() -> None:
    history = History().running()
    job = history.job()
    before = deepcopy(job)
    fact = Canonical(at=t(0), by="s1", n=1, ref="o1")
    with pytest.raises(InvalidRecord) as caught:
        extend(job, [fact])
    assert caught.value.entry == history.view().revision + 1
    assert job == before


# --- the job's own questions ----------------------------------------------------------------


def test_a_jobs_parts_are_told_by_submission() -> None:
    job = eventful().job()
    assert [one.a for one in job.attempts_of(1)] == [1]
    assert [one.ref for one in job.objects_of(2)] == ["o2"]
    assert job.is_canonical(job.objects["o1"])
    assert not job.is_canonical(job.objects["x"])
    assert job.canonical is job.objects["o2"]
    assert (job.plan, job.declarations) == (job.header.plan, job.header.declarations)


def test_nothing_asks_for_the_end_of_what_runs_as_it_should() -> None:
    job = History().running().job()
    assert stop_due_since(job, job.objects["o1"]) is None


def test_an_object_of_an_open_attempt_is_not_retired_before_one_is_canonical() -> None:
    older = History().authorized().attempt().shows("o1", "running").retired().later(30)
    older.shows("o1", "failed", cause="stopped").shows("o2", "running")
    assert rows(quiet(older)) == ["4"]
    old = History().authorized().attempt().shows("o1").wants("resubmit")
    assert rows(quiet(old)) == ["4"]


def test_a_submission_without_a_canonical_object_closes_with_its_objects() -> None:
    history = History().authorized().attempt().shows("o1").shows("o2").later(5)
    job = history.job()
    assert rules.submission_open_because(job, 1, t(99)) == "object o1 isn't verified stopped"
    history.wants("abandon", "v", target="o1").shows("o2", "failed")
    job = history.job()
    assert rules.submission_open_because(job, 1, t(5 + 19)) == "object o2 isn't verified stopped"
    assert rules.submission_closed(job, 1, t(5 + 20))
    again = history.later(20).wants("resubmit").authorized(2).job()
    assert len(again.submissions) == 2


def test_a_submission_closes_with_its_canonical_object_whatever_the_retired_ones_do() -> None:
    two = History().authorized().attempt().shows("o1", "failed").shows("o2", "running")
    history = two.canonical("o1").retired("o2").later(20).wants("resubmit").authorized(2)
    assert len(history.job().submissions) == 2


def test_a_lineage_is_part_of_an_objects_tag() -> None:
    history = History(lineage=Lineage(supersedes="jolderjob", generation=2)).authorized().attempt()
    job = history.shows("o1").shows("x", generation=1).job()
    assert not job.objects["o1"].foreign
    assert job.objects["x"].foreign


# --- cost -----------------------------------------------------------------------------------


def cost(work: Callable[[], Any]) -> int:
    """The bytecode instructions of Dispatch's own code that some work takes; no clock."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if not frame.f_globals.get("__name__", "").startswith("dispatch."):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        if event == "opcode":
            count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def observations(history: History, entries: int) -> None:
    while len(history.entries) < entries:
        history.later(5).shows("o1", "running", reason=f"step {len(history.entries)}")


def submissions(history: History, entries: int) -> None:
    n = 2
    history.shows("o1", "failed", cause="stopped")
    while len(history.entries) < entries:
        history.later(30).wants("resubmit", f"r{n}").authorized(n, f"ctl:r{n}").attempt(n)
        history.replied(n, ref=f"o{n}").canonical(f"o{n}", n).released(f"o{n}").later(10)
        history.shows(f"o{n}", "failed", n=n)
        n += 1


def attempts(history: History, entries: int) -> None:
    history.shows("o1", "failed").later(30).authorized(2)
    a = 1
    while len(history.entries) < entries:
        history.later(30).attempt(2, a).not_sent(2, a)
        a += 1


def calls(history: History, entries: int) -> None:
    r = 1
    history.shows("o1", "failed")
    while len(history.entries) < entries:
        history.requeue_call("o1", f"rec:1.{r}", run=r, restarts=r - 1).later(10)
        history.shows("o1", "failed", restarts=r).later(200)
        r += 1


def strangers(history: History, entries: int) -> None:
    while len(history.entries) < entries:
        ref = f"x{len(history.entries)}"
        history.later(5).shows(ref, "running", spec_digest=OTHER_DIGEST)
        history.shows(ref, "failed", spec_digest=OTHER_DIGEST).escalated(f"foreign/{ref}")


@pytest.mark.parametrize("grow", [observations, submissions, attempts, calls, strangers])
def test_the_fold_of_1000_entries_is_linear(grow: Callable[[History, int], None]) -> None:
    history = History(capabilities=FULL).running()
    grow(history, 1_000)
    view = history.view()
    half = cost(lambda: fold(view.at(500), t(0)))
    whole = cost(lambda: fold(view.at(1_000), t(0)))
    assert half > 10_000
    assert whole <= 2.1 * half


def test_the_cost_of_a_fold_is_really_counted() -> None:
    view = History().running().view()
    assert cost(lambda: fold(view, t(0))) > cost(lambda: fold(view.at(2), t(0))) > 0


def test_an_envelope_says_what_kind_of_entry_it_holds() -> None:
    history = History().authorized().wants("cancel")
    schemas = [envelope(entry).schema for entry in history.entries]
    assert schemas == ["dispatch.fact.v1", "dispatch.control.v1"]
