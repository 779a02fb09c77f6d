"""What holds for every history that the rules themselves write, whatever happens to the cluster."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatch.core.decide import decide
from dispatch.core.fold import fold, refold, replay
from dispatch.core.next import next_steps
from dispatch.core.project import project
from dispatch.core.steps import Append
from dispatch.record import fact as facts
from dispatch.record.header import Plan, Rule
from dispatch.record.names import Action, Capability, Cause, UnmatchedPolicy
from tests.core.histories import FULL, GATED, SAVE_WINDOW_S, UNGATED, History, t
from tests.core.world import World

WAYS = ("answered", "reply lost", "late", "never", "refused", "not sent")
KINDS = ("hold", "release", "requeue", "resubmit", "abandon attempt")
STARTS = (facts.Attempt, facts.HoldCall, facts.RequeueCall, facts.Authorized)

EVENTS = st.one_of(
    st.tuples(st.just("pass"), st.booleans(), st.sampled_from(WAYS)),
    st.tuples(st.just("pass"), st.just(True), st.just("answered")),
    st.tuples(st.just("wait"), st.sampled_from((1, 7, 30, 130, 400))),
    st.tuples(st.just("progress")),
    st.tuples(st.just("end"), st.sampled_from(("succeeded", "failed"))),
    st.tuples(st.sampled_from(("lose_node", "requeue_outside", "undo_ends", "purge"))),
    st.tuples(st.sampled_from(("stranger", "end_strangers"))),
    st.tuples(st.just("want"), st.sampled_from(KINDS)),
    st.tuples(st.just("want"), st.sampled_from(("cancel", "give_up"))),
)

RULES = st.builds(
    Rule,
    action=st.sampled_from(Action),
    limit=st.integers(0, 2),
    backoff_s=st.sampled_from((0, 40)),
    in_place=st.booleans(),
    memory_factor=st.sampled_from((None, 1.5)),
    avoid_node=st.booleans(),
)

HEADERS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "capabilities": st.sampled_from((UNGATED, GATED, FULL, (*GATED, Capability.LOOKUP))),
        "plan": st.builds(
            Plan,
            default=RULES,
            causes=st.dictionaries(st.sampled_from((Cause.PREEMPTED, Cause.LOST)), RULES),
            pending_limit_s=st.sampled_from((None, 60)),
        ),
        "start_retries": st.integers(0, 2),
        "unmatched": st.sampled_from(UnmatchedPolicy),
        "lookup_lag_s": st.sampled_from((0, 60)),
    }
)

LIVES = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)


def happen(world: World, event: tuple[Any, ...]) -> None:
    match event:
        case ("pass", complete, way):
            world.supervise(complete, way)
        case ("wait", seconds):
            world.wait(seconds)
        case ("end", state):
            world.end(state, None if state == "succeeded" else "preempted")
        case ("want", "abandon attempt"):
            latest = world.job().latest
            target = "1.1" if latest is None else f"{latest.n}.{max(latest.last_a, 1)}"
            world.history.wants("abandon", world.fresh("i"), target=target)
        case ("want", kind):
            world.history.wants(kind, world.fresh("i"))
        case (name,):
            getattr(world, name)()
        case _:
            raise AssertionError(event)


def live(header: dict[str, Any], events: list[tuple[Any, ...]]) -> World:
    world = World(History(**header))
    for event in events:
        happen(world, event)
    return world


def calm(world: World) -> None:
    """Faults stop, and a person answers: everything must come to rest."""
    world.history.wants("cancel", "the-end")
    for _ in range(12):
        world.end_strangers()
        world.supervise(True, "answered")
        world.wait(130)
        job = world.job()
        for one in job.attempts.values():
            if one.state.value == "unmatched":
                tag = f"{one.n}.{one.a}"
                world.history.wants("abandon", f"v{tag}", target=tag)


@LIVES
@given(HEADERS, st.lists(EVENTS, max_size=40))
def test_every_history_that_is_written_folds_and_comes_to_rest(
    header: dict[str, Any], events: list[tuple[Any, ...]]
) -> None:
    world = live(header, events)
    calm(world)
    job = fold(world.history.view(), t(world.now))
    assert job.settled_at is not None
    assert job.ending is not None
    settled = next(i for i, e in enumerate(world.history.entries) if isinstance(e, facts.Settled))
    assert not any(x.executing(world.now) for x in world.things.values() if x.ours)
    assert settled > 0


@LIVES
@given(HEADERS, st.lists(EVENTS, max_size=40))
def test_at_most_one_run_executes(header: dict[str, Any], events: list[tuple[Any, ...]]) -> None:
    """Unless a person vouches for a start that lands after all, where no gate keeps it shut."""
    if Capability.GATED_START not in header["capabilities"]:
        events = [event for event in events if event != ("want", "abandon attempt")]
    assert live(header, events).twice == []


@LIVES
@given(HEADERS, st.lists(EVENTS, max_size=40))
def test_a_success_is_true(header: dict[str, Any], events: list[tuple[Any, ...]]) -> None:
    world = live(header, events)
    ending = world.job().ending
    if ending is not None and ending.state.value == "succeeded":
        assert world.truly_succeeded


@LIVES
@given(HEADERS, st.lists(EVENTS, max_size=40))
def test_an_outcome_never_changes_and_nothing_begins_after_it(
    header: dict[str, Any], events: list[tuple[Any, ...]]
) -> None:
    history = live(header, events).history
    ending = None
    for revision in range(len(history.entries) + 1):
        job = replay(history.header, history.entries[:revision])
        if ending is not None:
            assert job.ending == ending
            assert not isinstance(history.entries[revision - 1], STARTS)
        ending = job.ending


@LIVES
@given(HEADERS, st.lists(EVENTS, max_size=30))
def test_every_prefix_folds_alike_for_everyone(
    header: dict[str, Any], events: list[tuple[Any, ...]]
) -> None:
    history = live(header, events).history
    view = history.view()
    for revision in range(view.revision + 1):
        job = fold(view.at(revision), t(0))
        assert job == fold(view.at(revision), t(1e7))
        assert job == replay(history.header, history.entries[:revision])


@LIVES
@given(HEADERS, st.lists(EVENTS, max_size=25), st.data())
def test_folding_what_was_appended_onto_a_job_is_folding_it_all(
    header: dict[str, Any], events: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    world = live(header, events)
    view, now = world.history.view(), t(1e6)
    before = fold(view.at(data.draw(st.integers(0, view.revision))), t(0))
    untouched = deepcopy(before)
    assert refold(before, view, now) == fold(view, now)
    assert before == untouched


@LIVES
@given(HEADERS, st.lists(EVENTS, max_size=30), st.booleans())
def test_a_steps_own_facts_lead_to_a_fixed_point_and_nothing_handed_in_changes(
    header: dict[str, Any], events: list[tuple[Any, ...]], complete: bool
) -> None:
    world = live(header, events)
    job, look, now = world.job(), world.looks(complete), t(world.now)
    before = deepcopy(job)
    project(job, look, now)
    for _ in range(80):
        decision = decide(job, look, now)
        assert decision == decide(job, look, now)
        if decision.once is not None or not decision.facts:
            break
        job = decision.after
    else:
        raise AssertionError("no fixed point")
    assert before == world.job()
    if decision.once is None:
        assert not any(isinstance(one, Append) for one in next_steps(job, look, now).steps)


@pytest.mark.parametrize("capabilities", [UNGATED, GATED, FULL])
def test_an_undisturbed_job_succeeds_and_settles(capabilities: tuple[Capability, ...]) -> None:
    world = World(History(capabilities=capabilities))
    for _ in range(3):
        world.supervise(True, "answered")
        world.wait(10)
        world.progress()
    world.end("succeeded", None)
    world.supervise(True, "answered")
    world.wait(SAVE_WINDOW_S + 10)
    job = world.supervise(True, "answered")
    assert job.ending is not None
    assert (job.ending.state.value, job.settled_at) == ("succeeded", t(world.now))
