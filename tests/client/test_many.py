"""The client for many jobs, for following, and for running a settled job anew."""

from __future__ import annotations

from datetime import timedelta

import httpx
import pytest

from dispatch.api import SubmitRequest
from dispatch.client import (
    Choice,
    WaitedTooLong,
    intend_each,
    records_between,
    resubmit,
    select,
)
from dispatch.core.project import State
from dispatch.errors import InvalidRequest, NotSettled
from dispatch.record.header import Spec
from dispatch.record.names import IntentKind
from tests.client.network import Handlers, Scripted, client
from tests.functions.world import SPEC, START, World


@pytest.fixture
def world() -> World:
    return World()


def labelled(world: World, key: str, **labels: str) -> str:
    return world.job(key, spec={**SPEC, "labels": labels})


# --- many -------------------------------------------------------------------------------------


def test_jobs_are_chosen_by_all_that_is_given(world: World) -> None:
    one = labelled(world, "k1", team="a", kind="long")
    two = labelled(world, "k2", team="a")
    world.intend(two, "hold")
    asked = client(Handlers(world))
    by_team = select(asked, Choice(labels={"team": "a"}))
    assert [line.job_id for line in by_team] == [one, two]
    held = select(asked, Choice(labels={"team": "a"}, states=frozenset({State.HELD})))
    assert [line.job_id for line in held] == [two]
    assert select(asked, Choice(labels={"team": "b"})) == []
    assert Choice().empty


def test_each_job_is_told_of_and_the_same_id_has_no_second_effect(world: World) -> None:
    jobs = [labelled(world, f"k{n}") for n in range(3)]
    network = Scripted([None, *[httpx.ConnectError("no")] * 4, None], Handlers(world))
    told = list(intend_each(client(network), jobs, IntentKind.HOLD, id_="bulk"))
    assert [one.receipt is not None for one in told] == [True, False, True]
    assert told[1].error is not None
    assert [one.intent_id for one in told] == [f"bulk.{job}" for job in jobs]
    again = list(intend_each(client(Handlers(world)), jobs, IntentKind.HOLD, id_="bulk"))
    assert [one.receipt.repeated for one in again if one.receipt] == [True, False, True]


def test_an_id_that_is_too_long_and_an_abandon_of_many_are_refused_before_anything_is_sent(
    world: World,
) -> None:
    asked = client(Handlers(world))
    with pytest.raises(InvalidRequest, match="at most 80"):
        list(intend_each(asked, ["j"], IntentKind.HOLD, id_="x" * 81))
    with pytest.raises(InvalidRequest, match="one object"):
        list(intend_each(asked, ["j"], IntentKind.ABANDON, id_="x"))


def test_the_records_of_a_span_are_those_of_jobs_that_were_open_in_it(world: World) -> None:
    over = world.job("k1")
    world.settle(over)
    world.clock.forward(3600)
    later = world.job("k2")
    asked = client(Handlers(world))
    hour = timedelta(hours=1)
    early = [one.job for one in records_between(asked, START - hour, START + hour / 2)]
    late = [one.job for one in records_between(asked, START + hour / 2, START + 2 * hour)]
    assert (early, late) == ([over], [later])
    world.http("DELETE", f"/jobs/{over}")
    (gone,) = records_between(asked, START - hour, START + hour / 2)
    assert (gone.view, gone.why) == (None, "its record was removed")


# --- waiting ----------------------------------------------------------------------------------


def test_pauses_grow_and_are_spread_by_chance_between_half_and_all_of_them(world: World) -> None:
    job = world.job()
    for chance, share in ((0.0, 0.5), (1.0, 1.0)):
        slept: list[float] = []
        waiting = client(Handlers(world), slept=slept, chance=lambda drawn=chance: drawn)  # type: ignore[misc]
        with pytest.raises(WaitedTooLong):
            waiting.wait(job, timeout=timedelta(seconds=60))
        assert slept[0] == pytest.approx(0.3 * share)
        assert slept[1] == pytest.approx(0.45 * share)
        assert max(slept) <= 10.0 * share


def test_a_history_is_followed_until_the_job_is_settled_each_entry_once(world: World) -> None:
    job = world.job()

    def tick() -> None:
        world.work('{"cluster":"main"}')
        world.clock.forward(2)

    following = client(Handlers(world), after_sleep=tick)
    numbers = [entry.number for entry in following.follow_history(job)]
    assert numbers == list(range(1, len(world.store.read(job).entries) + 1))
    assert len(numbers) > 5
    assert [one.number for one in following.follow_history(job, after=5)] == numbers[5:]


def test_lint_answers_what_would_be_refused_and_creates_nothing(world: World) -> None:
    world.cluster().refuses = ["field 'image': no containers here"]
    request = SubmitRequest(spec=Spec(name="a", command=("x",)), cluster="main")
    (found,) = client(Handlers(world)).lint(request).findings
    assert (found.field, found.detail) == ("image", "no containers here")
    assert world.store.list().items == ()


# --- again ------------------------------------------------------------------------------------


def test_a_settled_job_is_run_anew_changed_and_once_however_often_it_is_said(
    world: World,
) -> None:
    job = world.job()
    asked = client(Handlers(world))
    with pytest.raises(NotSettled):
        resubmit(asked, job, {"nodes": "3"})
    world.settle(job)
    made = resubmit(asked, job, {"nodes": "3"})
    again = resubmit(asked, job, {"nodes": "3"})
    assert (made.created, again.created, made.job_id) == (True, False, again.job_id)
    assert made.generation == 1
    with pytest.raises(InvalidRequest, match="unknown field"):
        resubmit(asked, job, {"nodez": "3"})
