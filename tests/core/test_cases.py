"""Cases of other systems' losses that no single row of Next answers alone."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from dispatch.core.decide import decide, key
from dispatch.core.fold import extend, fold
from dispatch.core.steps import Start
from dispatch.errors import InvalidRecord, RecordRefused
from dispatch.record.fact import Fact
from dispatch.record.header import Rule
from dispatch.record.names import Action, Cause
from tests.core.histories import FULL, GATED, History, plan, t
from tests.core.test_next_calls import as_recorded, quiet, rows
from tests.core.world import World

# --- F03: killed at any point ---------------------------------------------------------------


class Killed(Exception):
    """The supervisor dies here."""


def supervise_until(world: World, left: int) -> int:
    """One pass that dies once `left` commits and calls are done; returns how many remain."""
    look = world.looks(True)
    made: frozenset[tuple[str, ...]] = frozenset()
    while True:
        decision = decide(world.job(), look, t(world.now), by="s1", made=made)
        if decision.idle:
            return left
        if left == 0:
            raise Killed
        if decision.facts:
            left -= 1
            world.history.add(*decision.facts)
        for step in decision.repeatable:
            if left == 0:
                raise Killed
            left -= 1
            look = world.repeatable(step, "answered", look)
        made |= {key(step) for step in decision.repeatable}
        if decision.once is not None:
            if left == 0:
                raise Killed
            left -= 1
            assert isinstance(decision.once, Start)
            sent = left > 0
            left -= 1 if sent else 0
            world.start(decision.once, "answered" if sent else "reply lost")
            if not sent:
                raise Killed


@pytest.mark.parametrize("steps", range(12))
@pytest.mark.parametrize("retire", [False, True])
def test_a_supervisor_killed_at_any_point_is_followed_by_one_that_ends_the_same_f03(
    steps: int, retire: bool
) -> None:
    world = World(History(capabilities=GATED))
    if retire:
        world.history.authorized().attempt()
        for _ in range(2):
            ref = world._create(1, 1)
            world.things[ref].held = True
    with suppress(Killed):
        supervise_until(world, steps)
    for _ in range(6):
        world.supervise(True, "answered")
        world.progress()
        world.wait(130)
    assert world.twice == []
    live = [x for x in world.things.values() if x.state in ("pending", "running")]
    assert len(live) == 1
    world.end("succeeded", None)
    for _ in range(2):
        world.supervise(True, "answered")
        world.wait(130)
    job = world.supervise(True, "answered")
    assert job.ending is not None
    assert (job.ending.state.value, job.settled_at is not None) == ("succeeded", True)


# --- F08, F15: what was forgotten after it was over -----------------------------------------


def test_a_record_keeps_the_outcome_of_what_the_scheduler_forgot_f08() -> None:
    history = History().ended("succeeded").outcome("succeeded").later(30).settled()
    history.later(86_400)
    assert history.next().steps == ()
    status = history.status()
    assert (status.outcome is not None and status.outcome.value, status.submission) == (
        "succeeded",
        1,
    )


def test_absence_after_the_end_is_recorded_adds_nothing_f15() -> None:
    history = History().ended("succeeded").outcome("succeeded").later(5)
    assert history.next().steps == ()


# --- F21, F22: whose recovery it is ---------------------------------------------------------


def test_a_preemption_seen_whole_is_one_object_and_two_runs_f21() -> None:
    rule = Rule(action=Action.REQUEUE, in_place=True)
    history = History(capabilities=FULL, plan=plan(preempted=rule), save_window_s=0).running()
    for state, fields in (
        ("ending", {}),
        ("failed", {"cause": "preempted"}),
        ("pending", {"restarts": 1}),
        ("running", {"restarts": 1}),
    ):
        history.later(10)
        history.add(*history.decide(history.sight("o1", state, **fields)).facts)
    job = history.job()
    assert list(job.objects) == ["o1"]
    assert (job.objects["o1"].run.r, job.spent) == (2, {Cause.PREEMPTED: 1})
    assert [one.state.value for one in (*job.calls, *job.done_calls)] == ["landed"]


def test_preempted_and_then_gone_stays_preempted_f21() -> None:
    history = History().ended("failed", cause="preempted").later(500)
    assert history.decide().rows == ("13",)
    (hold,) = history.decide().facts
    assert hold.cause is Cause.PREEMPTED  # type: ignore[union-attr]


def test_a_cancel_between_a_preemption_and_the_next_run_stops_that_run_f21() -> None:
    history = History().ended("failed", cause="preempted").wants("cancel").later(10)
    pending = history.sight("o1", "pending", restarts=1)
    decision = history.decide(pending)
    assert decision.rows == ("1", "6")
    assert len(history.job().submissions) == 1


def test_a_schedulers_own_requeue_gets_no_second_submission_beside_it_f22() -> None:
    history = History(plan=plan(Action.RESUBMIT), save_window_s=0).running().later(10)
    history.add(*history.decide(history.sight("o1", "pending", restarts=1)).facts).later(600)
    assert quiet(history).steps == ()
    assert len(history.job().submissions) == 1


# --- F36: many starts fail ------------------------------------------------------------------


def test_starts_that_keep_failing_are_spaced_and_end_with_a_person_f36() -> None:
    history = History(start_retries=3)
    attempts = []
    for _ in range(120):
        decision = history.decide()
        history.add(*decision.facts)
        if isinstance(decision.once, Start):
            attempts.append(history.now)
            history.refused(1, decision.once.fact.a)
        history.later(1)
    assert len(attempts) == 4
    assert all(later - before >= 15 for before, later in pairwise(attempts))
    assert history.job().recovery is not None


# --- F40, F43: two at once ------------------------------------------------------------------


def refused_on(history: History, added: tuple[Fact, ...]) -> str:
    with pytest.raises(InvalidRecord) as caught:
        extend(history.job(), added)
    return caught.value.rule


def test_what_was_decided_before_a_cancel_is_refused_after_it_f40() -> None:
    history = History().running().later(5).shows("o1", "succeeded")
    decided = history.decide(history.sight("o1", "succeeded")).facts
    assert refused_on(history.wants("cancel"), decided) == "second_outcome"


def test_a_stale_supervisors_facts_are_refused_on_a_newer_record_f43() -> None:
    """Both decide at one revision; the slower one's facts meet the other's."""
    fresh = History().decide().facts
    assert refused_on(History().add(*fresh), fresh) == "not_next_submission"
    running = History(capabilities=FULL).running().wants("hold")
    call = running.decide(*as_recorded(running)).facts
    assert refused_on(running.add(*call), call) == "call_open"
    ended = History().ended()
    asked = ended.decide(*as_recorded(ended)).facts
    assert refused_on(ended.add(*asked), asked) == "second_recovery_hold"


def test_the_same_tick_twice_does_nothing_the_second_time_f43() -> None:
    history = History()
    history.add(*history.decide().facts)
    assert history.decide().idle
    cancelled = History().over()
    assert cancelled.decide(*as_recorded(cancelled)).idle


def test_a_supervisor_that_froze_starts_nothing_that_was_started_meanwhile_f43() -> None:
    history = History().authorized()
    frozen = history.decide().facts
    history.attempt().replied().canonical().later(900)
    assert refused_on(history, frozen) == "not_next_attempt"


# --- F42: what a build can't read -----------------------------------------------------------


def test_a_cancel_stands_in_a_record_whose_facts_can_not_be_read_f42() -> None:
    view = History().running().wants("cancel").view()
    newer = view.entries[1]._replace(schema="dispatch.fact.v9")
    unread = replace(view, entries=(view.entries[0], newer, *view.entries[2:]))
    with pytest.raises(RecordRefused) as caught:
        fold(unread, t(0))
    assert caught.value.entry == 2
    assert view.entries[-1] == unread.entries[-1]


# --- a release in the wrong order -----------------------------------------------------------


@pytest.mark.parametrize("kind", ["hold", "cancel", "give_up", "resubmit", "requeue"])
def test_an_intent_between_the_choice_and_the_gate_keeps_it_shut(kind: str) -> None:
    history = History().started().wants(kind)
    assert "11" not in rows(quiet(history))


def test_every_way_a_start_can_go_ends_in_one_run() -> None:
    ways: tuple[Any, ...] = ("answered", "reply lost", "late", "never", "refused", "not sent")
    for way in ways:
        world = World(History())
        world.supervise(True, way)
        for _ in range(4):
            world.wait(130)
            world.supervise(True, "answered")
            world.progress()
        running = [x for x in world.things.values() if x.state == "running"]
        assert (way, len(running), world.twice) == (way, 1, [])
