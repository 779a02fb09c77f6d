"""Ends that slurmctld tells by half: who cancelled, and what was never launched."""

from __future__ import annotations

from typing import Any

import pytest

from dispatch.errors import SchedulerUnavailable
from dispatch.record.evidence import Sighting
from dispatch.record.names import Cause, ObjectState
from dispatch.schedulers.scheduler import Target
from dispatch.schedulers.slurm.cluster import SlurmScheduler
from dispatch.schedulers.slurm.ends import NAMED_WITHIN_S, QUICK_S
from dispatch.schedulers.slurm.tags import identified
from tests.schedulers.slurm.conftest import JOB, World, sent, settings, tag
from tests.schedulers.slurm.fake import Fault, error, exited, number

DOWN = (500, {"errors": [error(7000, "Unable to connect to database")]})
LAG_S = settings().bounds.lookup_lag_s + settings().bounds.clock_skew_s


def step(name: str, state: str) -> dict[str, Any]:
    """Return a step as accounting shows it."""
    return {"step": {"id": f"1.{name}", "name": name}, "state": [state]}


RAN = [step("batch", "FAILED"), step("extern", "COMPLETED")]
REFUSED = [step("batch", "CANCELLED")]


def seen(scheduler: SlurmScheduler) -> Sighting:
    (one,) = scheduler.find().by_job[JOB]
    return one


def running(world: World, scheduler: SlurmScheduler) -> tuple[Target, int]:
    target = world.started(scheduler)
    identity = identified(target.ref)
    assert identity is not None
    world.fake.runs_on(identity.job_id)
    return target, identity.job_id


def ended(world: World, *state: str, exit_code: Any, after_s: float = 1, **run: Any) -> Target:
    """Return a job that ended shortly after slurmctld began anew; `run` is what accounting has."""
    world.fake.began = world.clock.epoch()
    target, job_id = running(world, world.scheduler())
    world.clock.pass_s(after_s)
    world.fake.ends(job_id, *state, exit_code=exit_code)
    world.fake.runs[-1].update(run)
    return target


def questions(world: World) -> int:
    return sum(one.path.startswith("/slurmdb/") for one in world.fake.asked)


def test_what_a_node_refused_to_launch_never_ran_though_slurm_tells_an_exit(world: World) -> None:
    ended(world, "FAILED", exit_code=exited(1), steps=REFUSED)
    scheduler = world.scheduler()
    one = seen(scheduler)
    assert (one.state, one.cause, one.exit_code) == (
        ObjectState.FAILED,
        Cause.LAUNCH_FAILED,
        None,
    )
    assert "refused to launch" in (one.reason or "")
    asked = questions(world)
    assert seen(scheduler) == one
    assert questions(world) == asked, "what is known isn't asked again"


def test_what_ran_and_exited_with_1_keeps_its_exit(world: World) -> None:
    ended(world, "FAILED", exit_code=exited(1), steps=RAN)
    one = seen(world.scheduler())
    assert (one.state, one.cause, one.exit_code) == (ObjectState.FAILED, Cause.APP_ERROR, 1)


def test_an_exit_1_isnt_asked_about_where_slurmctld_has_been_running_for_long(
    world: World,
) -> None:
    target, job_id = running(world, world.scheduler())
    world.fake.ends(job_id, "FAILED", exit_code=exited(1))
    assert seen(world.scheduler()).exit_code == 1
    assert questions(world) == 0
    assert target.tag == tag()


@pytest.mark.parametrize(("code", "after_s"), [(3, 1), (1, QUICK_S + 1)])
def test_other_ends_arent_asked_about(world: World, code: int, after_s: float) -> None:
    ended(world, "FAILED", exit_code=exited(code), after_s=after_s)
    assert seen(world.scheduler()).exit_code == code
    assert questions(world) == 0


def test_it_isnt_over_before_accounting_has_told_or_its_lag_is_over(world: World) -> None:
    ended(world, "FAILED", exit_code=exited(1), steps=REFUSED)
    scheduler = world.scheduler()
    (late,) = world.fake.runs
    world.fake.runs.clear()
    assert seen(scheduler).state is ObjectState.ENDING
    world.fake.faults.append(Fault("GET", r"slurmdb/.*/job/\d+", reply=DOWN))
    assert seen(scheduler).state is ObjectState.ENDING
    world.fake.runs.append(late)
    assert seen(scheduler).cause is Cause.LAUNCH_FAILED


def test_after_the_lag_slurms_word_stands(world: World) -> None:
    ended(world, "FAILED", exit_code=exited(1))
    world.fake.runs.clear()
    scheduler = world.scheduler()
    world.clock.pass_s(LAG_S - 1)
    assert seen(scheduler).state is ObjectState.ENDING
    world.clock.pass_s(2)
    assert (seen(scheduler).cause, seen(scheduler).exit_code) == (Cause.APP_ERROR, 1)


def test_a_lookup_tells_what_never_ran_too(world: World) -> None:
    target = ended(world, "FAILED", exit_code=exited(1), steps=REFUSED)
    began = world.clock.at
    (job_id,) = world.fake.jobs
    world.fake.forget(job_id)
    for got in (
        world.scheduler().lookup([target], []),
        world.scheduler().lookup([], [sent(began)]),
    ):
        (one,) = got.sightings
        assert (one.cause, one.exit_code) == (Cause.LAUNCH_FAILED, None)
    world.fake.faults.append(Fault("GET", r"slurmdb/.*/job/\d+", reply=DOWN, times=2))
    with pytest.raises(SchedulerUnavailable):
        world.scheduler().lookup([target], [])


def test_a_cancel_outside_names_who_asked_for_it(world: World) -> None:
    ended(world, "CANCELLED", exit_code=exited(signal=15), kill_request_user="root")
    one = seen(world.scheduler())
    assert (one.state, one.cause) == (ObjectState.FAILED, Cause.STOPPED_OUTSIDE)
    assert "cancelled by root" in (one.reason or "")


def test_a_cancel_outside_is_over_without_a_name_where_accounting_has_none(world: World) -> None:
    ended(world, "CANCELLED", exit_code=exited(signal=15))
    world.fake.runs.clear()
    scheduler = world.scheduler()
    assert seen(scheduler).state is ObjectState.ENDING
    world.clock.pass_s(NAMED_WITHIN_S + settings().bounds.clock_skew_s + 1)
    assert seen(scheduler).cause is Cause.STOPPED_OUTSIDE


def test_the_end_of_another_life_of_the_id_tells_nothing_of_this_one(world: World) -> None:
    ended(world, "CANCELLED", exit_code=exited(signal=15), kill_request_user="root")
    world.fake.runs[-1]["time"]["submission"] -= 100
    assert seen(world.scheduler()).state is ObjectState.ENDING


def test_a_cancel_of_dispatchs_own_or_of_what_never_ran_waits_for_nobody(world: World) -> None:
    scheduler = world.scheduler()
    target, job_id = running(world, scheduler)
    scheduler.stop(target)
    assert seen(scheduler).cause is Cause.STOPPED
    world.fake.jobs[job_id].update(comment=world.fake.jobs[job_id]["extra"], nodes="")
    world.fake.jobs[job_id].update(start_time=number(0))
    assert seen(scheduler).cause is Cause.STOPPED_OUTSIDE
    assert questions(world) == 0


def test_without_accounting_slurms_word_stands(world: World) -> None:
    ended(world, "FAILED", exit_code=exited(1), steps=REFUSED)
    one = seen(world.scheduler(accounting="none"))
    assert (one.cause, one.exit_code) == (Cause.APP_ERROR, 1)
    assert questions(world) == 0


def test_a_dead_accounting_is_asked_once_a_look(world: World) -> None:
    for a in range(1, 4):
        target = world.started(world.scheduler(), a=a)
        identity = identified(target.ref)
        assert identity is not None
        world.fake.runs_on(identity.job_id)
        world.fake.ends(identity.job_id, "CANCELLED", exit_code=exited(signal=15))
    world.fake.faults.append(Fault("GET", r"slurmdb/.*/job/\d+", reply=DOWN, times=9))
    found = world.scheduler().find()
    assert [one.state for one in found.by_job[JOB]] == [ObjectState.ENDING] * 3
    assert questions(world) == 1
