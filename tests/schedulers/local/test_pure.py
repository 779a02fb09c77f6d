"""The pure half: requests, lives, their text, and what a Find shows of them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatch.record.evidence import MAX_NODES
from dispatch.record.header import Adjust, LocalSpec, Spec
from dispatch.record.names import Cause, ObjectState
from dispatch.schedulers.local import codec, life, request, states
from dispatch.schedulers.local.codec import Unreadable
from dispatch.schedulers.local.life import US, Ask, End, Life, Order, Place, Refused
from dispatch.schedulers.local.request import Identity, Limits
from dispatch.schedulers.scheduler import StartOrder, Tag
from tests.conformance.scheduler.contract import UNKNOWN_DIGEST

NOW = "2026-03-01T12:00:00+00:00"
TAG = Tag("jobofatest", 2, 3, UNKNOWN_DIGEST, 1)
PLACE = Place("this boot", ("here-0",), "none", ("/group",))


def order(adjust: Adjust | None = None, **changes: object) -> Order:
    spec = Spec.model_validate({"name": "x", "command": ("true",), **changes})
    start = StartOrder(TAG, spec, adjust, "somebody", in_place=False)
    ref = request.ref_of("here", TAG, "0a")
    identity = Identity(ref, "here", states._time(NOW) or pytest.fail("no time"))
    return request.order_of(start, identity, Limits())


def waiting(**changes: object) -> Life:
    return replace(Life(held_by=()), **changes)  # type: ignore[arg-type]


def running(**changes: object) -> Life:
    return replace(life.running(waiting(), PLACE, NOW), **changes)  # type: ignore[arg-type]


# --- requests -----------------------------------------------------------------------------------


def test_an_order_keeps_the_tag_and_what_is_to_run() -> None:
    kept = order(env={"A": "1"}, local=LocalSpec(grace_s=9), nodes=2, time_limit_s=60)
    assert request.tag_of(kept) == TAG
    assert kept.ref == "here/jobofatest.2.3/0a"
    assert kept.folder_name == "jobofatest.2.3"
    assert kept.env == {"A": "1", **TAG.environment()}
    assert (kept.nodes, kept.grace_s, kept.time_limit_s, kept.owner) == (2, 9, 60, "somebody")


def test_what_the_plan_adjusts_comes_before_the_spec() -> None:
    assert order(memory_mb_per_node=64).memory_mb == 64
    assert order(Adjust(memory_mb_per_node=128), memory_mb_per_node=64).memory_mb == 128
    assert order(Adjust(avoid_nodes=("here-0",)), memory_mb_per_node=64).memory_mb == 64


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("image", {"image": "repository/image:1"}),
        ("gpus_per_node", {"gpus_per_node": 1}),
        ("secrets.TOKEN", {"secrets": {"TOKEN": "ssm:/name"}}),
        ("tasks_per_node", {"nodes": 20, "tasks_per_node": 20}),
    ],
)
def test_each_refusal_names_its_field(field: str, changes: dict[str, object]) -> None:
    spec = Spec.model_validate({"name": "x", "command": ("true",), **changes})
    refusals = request.refusals(spec, Limits())
    assert [field in sentence for sentence in refusals] == [True]


def test_gpus_are_lent_where_the_cluster_is_configured_so() -> None:
    spec = Spec(name="x", command=("true",), gpus_per_node=2)
    assert request.refusals(spec, Limits(gpus=True)) == []


# --- lives --------------------------------------------------------------------------------------


def test_the_first_to_end_a_run_decides_its_cause() -> None:
    preempted = life.disrupt(running(), Ask.PREEMPT, NOW, "alice")
    assert life.stop(preempted, Ask.STOP, NOW) == preempted


def test_a_stop_leaves_an_end_as_it_is() -> None:
    over = life.ended(running(), End(Cause.APP_ERROR, exit_code=1), NOW)
    assert life.stop(over, Ask.STOP, NOW) == over


@pytest.mark.parametrize("phase", [ObjectState.ENDING, ObjectState.SUCCEEDED, ObjectState.FAILED])
def test_what_is_ending_or_over_cant_be_held(phase: ObjectState) -> None:
    with pytest.raises(Refused):
        life.hold(running(phase=phase), US)


@pytest.mark.parametrize("phase", [ObjectState.PENDING, ObjectState.ENDING])
def test_what_waits_or_is_ending_cant_be_requeued(phase: ObjectState) -> None:
    with pytest.raises(Refused):
        life.requeue(running(phase=phase), 0)


def test_restarts_have_an_end() -> None:
    with pytest.raises(Refused):
        life.requeue(running(restarts=life.MAX_RESTARTS), None)


def test_a_requeue_of_an_end_leaves_nothing_of_it() -> None:
    over = life.ended(running(), End(Cause.APP_ERROR, "why", 1, None), NOW)
    again = life.requeue(over, 0)
    assert (again.phase, again.restarts, again.due) == (ObjectState.PENDING, 1, True)
    assert (again.cause, again.exit_code, again.ended_at, again.started_at) == (None,) * 4


def test_a_hold_of_a_run_counts_as_a_restart_and_keeps_its_processes_watched() -> None:
    held = life.hold(running(), US)
    assert (held.phase, held.restarts, held.held_by) == (ObjectState.PENDING, 1, (US,))
    assert held.watched
    assert not held.due


@pytest.mark.parametrize(
    ("before", "boot", "cause"),
    [
        (running(), "this boot", Cause.LOST),
        (running(), "another boot", Cause.NODE_LOST),
        (life.stop(running(), Ask.STOP, NOW), "this boot", Cause.STOPPED),
        (life.stop(running(), Ask.STOP, NOW), "another boot", Cause.STOPPED),
        (life.disrupt(running(), Ask.PREEMPT, NOW, None), "this boot", Cause.PREEMPTED),
        (life.disrupt(running(), Ask.LOSE_NODE, NOW, None), "this boot", Cause.NODE_LOST),
    ],
)
def test_a_run_without_a_runner_ends_by_what_was_asked_or_is_lost(
    before: Life, boot: str, cause: Cause
) -> None:
    after = life.orphaned(before, boot, NOW)
    assert (after.phase, after.cause, after.watched) == (ObjectState.FAILED, cause, False)
    assert after.lost_at == NOW


def test_a_restart_whose_runner_is_gone_is_due_again() -> None:
    after = life.orphaned(life.requeue(running(), 0), "this boot", NOW)
    assert (after.phase, after.due, after.cause) == (ObjectState.PENDING, True, None)


LIVES = st.builds(
    Life,
    serial=st.integers(0, 10**6),
    phase=st.sampled_from(ObjectState),
    held_by=st.lists(st.text(max_size=5), max_size=3).map(tuple),
    restarts=st.integers(0, life.MAX_RESTARTS),
    draining=st.booleans(),
    ask=st.none() | st.sampled_from(Ask),
    cause=st.none() | st.sampled_from(Cause),
    reason=st.none() | st.text(max_size=20),
    exit_code=st.none() | st.integers(-5, 300),
    nodes=st.lists(st.text(max_size=5), max_size=3).map(tuple),
    started_at=st.just(NOW),
)


@given(LIVES)
def test_what_is_written_reads_back_the_same(written: Life) -> None:
    assert codec.read_life(codec.life_text(written)) == written


def test_an_order_reads_back_the_same() -> None:
    for kept in (order(), order(command=None, script="#!/bin/sh\n", env={"A": "ü"})):
        assert codec.read_order(codec.order_text(kept)) == kept


@pytest.mark.parametrize(
    "text",
    ["nonsense", "3", "{}", '{"schema": "dispatch.local.order.v1"}'],
)
def test_what_isnt_written_so_isnt_read(text: str) -> None:
    for read in (codec.read_order, codec.read_life):
        with pytest.raises(Unreadable):
            read(text)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"n": 2', '"n": "2"'),
        ('"n": 2', '"n": true'),
        ('"command": ["true"]', '"command": []'),
        ('"env": {', '"env": {"A": 1, '),
        ('"cgroups": true', '"cgroups": 1'),
        ('"workdir": null', '"workdir": 7'),
    ],
)
def test_a_field_of_the_wrong_type_isnt_read(old: str, new: str) -> None:
    text = codec.order_text(order())
    assert old in text
    with pytest.raises(Unreadable):
        codec.read_order(text.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"phase": "running"', '"phase": "strolling"'),
        ('"cause": null', '"cause": "bad luck"'),
        ('"ask": null', '"ask": "please"'),
        ('"nodes": ["here-0"]', '"nodes": [0]'),
    ],
)
def test_a_word_that_isnt_known_isnt_read(old: str, new: str) -> None:
    text = codec.life_text(running())
    assert old in text
    with pytest.raises(Unreadable):
        codec.read_life(text.replace(old, new))


# --- sightings ----------------------------------------------------------------------------------


def test_a_sighting_carries_the_tag() -> None:
    seen = states.sighting(order(), Life())
    assert (seen.ref, seen.n, seen.a, seen.generation) == ("here/jobofatest.2.3/0a", 2, 3, 1)
    assert (seen.state, seen.held, seen.holder, seen.cause) == (
        ObjectState.PENDING,
        True,
        None,
        None,
    )


def test_a_long_list_of_nodes_is_cut_and_counted() -> None:
    nodes = tuple(f"here-{k}" for k in range(MAX_NODES + 6))
    seen = states.sighting(order(), running(nodes=nodes))
    assert len(seen.nodes) == MAX_NODES
    assert "70 nodes" in (seen.reason or "")


def test_a_life_that_no_evidence_can_have_isnt_shown() -> None:
    for impossible in (
        running(started_at="yesterday"),
        running(started_at="2026-03-01T12:00:00"),
        replace(Life(), phase=ObjectState.FAILED),
    ):
        with pytest.raises(Unreadable):
            states.sighting(order(), impossible)


def test_what_is_still_being_ended_has_not_ended() -> None:
    lost = life.disrupt(running(), Ask.LOSE_NODE, NOW, "alice")
    assert states.ended_at(lost) is None
    assert states.ended_at(life.drained(lost)) is not None
