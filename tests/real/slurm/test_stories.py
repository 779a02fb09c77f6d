"""What happens to jobs on a real Slurm, seen through the adapter and in the processes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from dispatch.errors import CallRefused, CallUnknown, HitOther
from dispatch.record.header import Adjust, SlurmSpec, Spec
from dispatch.record.names import Cause, ObjectState
from dispatch.schedulers.scheduler import (
    LookedUp,
    Sent,
    StartRefused,
    Target,
)
from dispatch.schedulers.slurm.settings import Queue
from dispatch.schedulers.slurm.tags import job_name
from tests.conformance.scheduler.world import Work
from tests.real.slurm.real import RealSlurm, until
from tests.real.slurm.story import Story
from tests.real.slurm.world import SlurmWorld, id_of


@pytest.fixture
def story(world: SlurmWorld) -> Story:
    return Story(world)


@pytest.fixture
def many_queues(real: RealSlurm) -> Iterator[Story]:
    made = SlurmWorld(real, all_queues=True)
    yield Story(made)
    made.close()


def test_every_task_of_a_multi_node_job_gets_its_share_and_its_tag(story: Story) -> None:
    command = ("sh", "-c", "env; sleep 60")
    spec = Spec(
        name="wide",
        command=command,
        nodes=2,
        tasks_per_node=2,
        cpus_per_node=4,
        gpus_per_node=1,
        memory_mb_per_node=200,
        time_limit_s=120,
        env={"ODD": "a 'b' \"c\" $d"},
        slurm=SlurmSpec(exclude=("n1",), nice=3),
    )
    target = story.run(spec, adjust=Adjust(avoid_nodes=("n2",)))
    job_id = id_of(target.ref)

    def tasks() -> list[dict[str, str]]:
        given = [env for _, env in story.real.processes(job_id)]
        return [env for env in given if "SLURM_PROCID" in env and "DISPATCH_EPOCH" in env]

    until(lambda: len({env["SLURM_PROCID"] for env in tasks()}) == 4, "four tasks run")
    seen = story.see(target)
    assert seen is not None
    assert seen.nodes == ("n3", "n4")
    for env in tasks():
        assert target.tag.environment().items() <= env.items()
        assert env["ODD"] == "a 'b' \"c\" $d"
        assert env["DISPATCH_RESTARTS"] == "0"
    assert story.real.field(job_id, "CPUs/Task") == "2"
    assert story.real.field(job_id, "Nice") == "3"
    assert "gpu:1" in (story.real.field(job_id, "TresPerNode") or "")


def test_a_whole_script_runs_with_the_environment_and_the_output_it_names(story: Story) -> None:
    path = story.real.base / "work" / "named.out"
    script = '#!/bin/bash\nset -eu\necho "$DISPATCH_JOB_ID $DISPATCH_EPOCH $DISPATCH_RESTARTS"\n'
    target = story.begin(Spec(name="script", script=script, output=str(path)))
    assert story.end(target).state is ObjectState.SUCCEEDED
    until(lambda: path.read_text() == f"{target.tag.job} 1000000 0\n", "its output is written")


def test_an_output_that_cant_be_opened_is_a_launch_failure(story: Story) -> None:
    target = story.begin(story.world.spec(Work.SUCCEED, output="/nowhere/at/all"))
    assert story.end(target).cause is Cause.LAUNCH_FAILED


def test_a_prolog_that_fails_is_a_launch_failure_and_nobody_cancelled(story: Story) -> None:
    (story.real.base / "work" / "failing-prologs").write_text("n1\n")
    target = story.begin(story.world.spec(Work.LAST, slurm=SlurmSpec(exclude=("n2", "n3", "n4"))))
    seen = story.end(target)
    assert seen.cause is Cause.LAUNCH_FAILED
    assert story.world.processes(target.ref) == 0


@pytest.mark.parametrize(
    ("changed", "cause", "about"),
    [
        ({"queues": {"main": Queue(partition="nowhere")}}, Cause.INVALID_SPEC, "partition"),
        (
            {"queues": {"main": Queue(partition="main", accounts=("chemistry",))}},
            Cause.INVALID_SPEC,
            "account",
        ),
        (
            {"queues": {"main": Queue(partition="main", qos=("nonesuch",))}},
            Cause.INVALID_SPEC,
            "qos",
        ),
    ],
)
def test_a_refusal_names_what_to_look_at(
    real: RealSlurm, changed: dict[str, Any], cause: Cause, about: str
) -> None:
    world = SlurmWorld(real, **changed)
    story = Story(world)
    got = story.scheduler.start(story.order(world.spec(Work.SUCCEED)))
    assert isinstance(got, StartRefused)
    assert got.cause is cause
    assert got.detail.startswith(about + ":")
    world.close()


@pytest.mark.parametrize(
    ("spec", "cause", "about"),
    [
        ({"nodes": 9}, Cause.UNSCHEDULABLE, "nodes"),
        ({"memory_mb_per_node": 10_000_000}, Cause.UNSCHEDULABLE, "nodes"),
        ({"slurm": SlurmSpec(constraint="nonesuch")}, Cause.INVALID_SPEC, "features"),
        ({"slurm": SlurmSpec(reservation="nonesuch")}, Cause.INVALID_SPEC, "reservation"),
        ({"slurm": SlurmSpec(gres="tpu:1")}, Cause.INVALID_SPEC, "gres"),
    ],
)
def test_a_spec_that_this_cluster_cant_run_is_refused_or_waits_for_ever(
    story: Story, spec: dict[str, Any], cause: Cause, about: str
) -> None:
    order = story.order(story.world.spec(Work.SUCCEED, **spec))
    got = story.scheduler.start(order)
    if isinstance(got, StartRefused):
        assert got.cause is cause
        assert got.detail.startswith(about + ":")
    else:
        # A newer Slurm takes what no node can run and says so while it waits.
        target = Target(got.ref, order.tag)
        story.scheduler.release(target)
        story.wait(target, lambda seen: seen.cause is Cause.UNSCHEDULABLE, "never runs")


def test_a_job_that_its_partition_never_runs_waits_with_that_cause(many_queues: Story) -> None:
    target = many_queues.begin(many_queues.world.spec(Work.SUCCEED, queue="small", nodes=2))
    seen = many_queues.wait(target, lambda seen: seen.cause is not None, "has a cause")
    assert (seen.state, seen.cause) == (ObjectState.PENDING, Cause.UNSCHEDULABLE)


def test_a_job_on_a_closed_partition_only_waits(many_queues: Story) -> None:
    target = many_queues.begin(many_queues.world.spec(Work.SUCCEED, queue="closed"))
    seen = many_queues.wait(target, lambda seen: "Partition" in (seen.reason or ""), "waits")
    assert (seen.state, seen.cause, seen.held) == (ObjectState.PENDING, None, False)


def test_of_two_objects_of_a_job_only_one_ever_runs(story: Story) -> None:
    """The second fence: even a duplicate that was released waits for the first."""
    spec = story.world.spec(Work.LAST)
    first = story.run(spec, job="jobsingleton")
    second = story.begin(spec, job="jobsingleton", a=2)
    seen = story.wait(second, lambda seen: "Dependency" in (seen.reason or ""), "waits")
    assert seen.state is ObjectState.PENDING
    assert story.world.processes(second.ref) == 0
    story.scheduler.stop(first)
    story.wait(second, lambda seen: seen.state is ObjectState.RUNNING, "runs at last")
    assert story.world.processes(first.ref) == 0


def test_a_hold_from_the_users_own_shell_looks_like_ours_and_can_be_lifted(story: Story) -> None:
    target = story.start(story.world.spec(Work.SUCCEED))
    story.real.run("scontrol", "hold", str(id_of(target.ref)), user="trainer")
    seen = story.see(target)
    assert seen is not None
    assert (seen.held, seen.holder) == (True, None)
    story.scheduler.release(target)
    assert story.end(target).state is ObjectState.SUCCEEDED


def test_an_administrators_hold_is_shown_and_not_lifted(story: Story) -> None:
    target = story.start(story.world.spec(Work.SUCCEED))
    story.real.run("scontrol", "hold", str(id_of(target.ref)))
    seen = story.see(target)
    assert seen is not None
    assert (seen.held, seen.holder, seen.cause) == (True, "admin", Cause.HELD_OUTSIDE)
    with pytest.raises(CallRefused, match="admin"):
        story.scheduler.release(target)
    story.real.run("scontrol", "release", str(id_of(target.ref)))
    assert story.end(target).state is ObjectState.SUCCEEDED


def test_what_is_suspended_is_live_and_held_by_somebody(story: Story) -> None:
    target = story.run(story.world.spec(Work.LAST))
    story.real.run("scontrol", "suspend", str(id_of(target.ref)))
    seen = story.wait(target, lambda seen: seen.held, "is suspended")
    assert (seen.state, seen.holder) == (ObjectState.RUNNING, "slurm")
    story.real.run("scontrol", "resume", str(id_of(target.ref)))
    story.wait(target, lambda seen: not seen.held, "goes on")


def test_a_user_who_rewrites_the_comment_and_the_name_hides_nothing(story: Story) -> None:
    target = story.run(story.world.spec(Work.LAST))
    change = ("update", f"jobid={id_of(target.ref)}", "comment=mine", "name=mine")
    story.real.run("scontrol", *change, user="trainer")
    assert story.real.field(id_of(target.ref), "JobName") == "mine"
    assert story.see(target) is not None
    story.scheduler.stop(target)
    assert story.end(target).cause is Cause.STOPPED


def test_a_job_says_beside_its_tag_that_it_goes_on(story: Story) -> None:
    script = '#!/bin/sh\nwhile sh -c "$DISPATCH_BEAT"; do sleep 1; done\nexit 9\n'
    conf = {"SLURM_CONF": f"{story.real.base}/slurm.conf"}
    target = story.run(Spec(name="beats", script=script, env=conf, output="/dev/null"))
    first: list[datetime] = []

    def told() -> bool:
        said = story.scheduler.written_at(target)
        first.extend([said] if said is not None and not first else [])
        return said is not None and said > first[0]

    until(told, "it says so again and again")
    seen = story.see(target)
    assert seen is not None
    assert (seen.ref, seen.state) == (target.ref, ObjectState.RUNNING)
    story.scheduler.stop(target)
    assert story.end(target).cause is Cause.STOPPED


def test_slurm_starts_nothing_of_ours_again_by_itself(story: Story) -> None:
    target = story.run(story.world.spec(Work.LAST))
    job_id = id_of(target.ref)
    refused = story.real.run("scontrol", "requeue", str(job_id), check=False)
    assert refused == ""
    assert story.real.field(job_id, "Restarts") == "0"
    story.real.update(job_id, requeue="1")
    assert story.real.field(job_id, "Requeue") == "1"
    story.see(target)
    assert story.real.field(job_id, "Requeue") == "0"


def test_a_requeue_outside_is_the_same_object_with_one_restart_more(story: Story) -> None:
    target = story.run(story.world.spec(Work.LAST))
    job_id = id_of(target.ref)
    story.real.update(job_id, requeue="1")
    story.real.run("scontrol", "requeue", str(job_id))
    seen = story.wait(target, lambda seen: seen.restarts == 1, "was started again")
    assert seen.ref == target.ref
    assert story.wait(target, lambda s: s.state is ObjectState.RUNNING, "runs").restarts == 1
    until(lambda: story.world.environment(target.ref).get("DISPATCH_EPOCH") == "1000001", "epoch")


def test_a_cancel_by_another_user_is_told_with_the_name_by_accounting(story: Story) -> None:
    target = story.run(story.world.spec(Work.LAST))
    story.world.cancel(target.ref)
    assert story.end(target).cause is Cause.STOPPED_OUTSIDE

    def named() -> bool:
        known = story.scheduler.lookup([target], []).sightings
        return bool(known) and "root" in (known[0].reason or "")

    until(named, "accounting names who cancelled")
    (one,) = story.scheduler.lookup([target], []).sightings
    assert one.cause is Cause.STOPPED_OUTSIDE


def test_what_slurmctld_forgot_is_found_in_accounting_by_id_and_by_attempt(story: Story) -> None:
    target = story.begin(story.world.spec(Work.FAIL))
    seen = story.end(target)
    until(lambda: bool(story.scheduler.lookup([target], []).sightings), "accounting knows it")
    story.world.forget(target.ref)
    assert story.see(target) is None
    for known in (
        story.scheduler.lookup([target], []),
        story.world.another().lookup([], [story.sent(target)]),
    ):
        (one,) = known.sightings
        assert (one.ref, one.state, one.cause) == (seen.ref, seen.state, seen.cause)
        assert (one.exit_code, one.started_at, one.ended_at) == (
            seen.exit_code,
            seen.started_at,
            seen.ended_at,
        )
        assert known.unknown == frozenset()


def test_a_run_without_a_tag_is_an_attempts_only_if_it_began_in_its_window(story: Story) -> None:
    order = story.order(story.world.spec(Work.FAIL))
    bound = timedelta(seconds=story.scheduler.declare().call_bound_s)
    began = story.world.clock()
    named = ("-o", "/dev/null", "-A", "physics", "-J", job_name(order.tag.job))
    ours = story.real.batch(*named, "--wrap", "exit 7")
    theirs = story.real.batch(*named, "--wrap", "exit 8", user="other")
    until(lambda: story.real.state(theirs) == "FAILED", "theirs has ended")

    def told(at: datetime) -> LookedUp:
        return story.scheduler.lookup([], [Sent(order.tag, at, at + bound)])

    until(lambda: bool(told(began).sightings), "accounting knows it")
    (one,) = told(began).sightings
    assert (id_of(one.ref), one.exit_code, one.cause) == (ours, 7, Cause.APP_ERROR)
    for elsewhere in (began - timedelta(hours=1), began + timedelta(hours=1)):
        assert told(elsewhere).sightings == ()
    assert told(began - timedelta(hours=1)).unknown == {"1.1"}


def test_a_tag_that_its_user_wiped_stops_every_conclusion_about_that_job(story: Story) -> None:
    target = story.run(story.world.spec(Work.LAST))
    beside = story.run(story.world.spec(Work.LAST))
    change = ("update", f"jobid={id_of(target.ref)}", "comment=mine", "extra=mine")
    story.real.run("scontrol", *change, user="trainer")
    found = story.scheduler.find()
    assert not found.discovery(target.tag.job).complete
    assert [one.code for one in found.doubts[target.tag.job]] == ["tag_missing"]
    assert found.discovery(beside.tag.job).complete
    with pytest.raises(HitOther):
        story.scheduler.stop(target)
    assert story.world.processes(target.ref) > 0


def test_a_gate_that_a_killed_slurmctld_closed_again_isnt_opened_beside_a_forgotten_run(
    story: Story,
) -> None:
    target = story.start(story.world.spec(Work.LAST))
    began = story.world.clock()
    story.scheduler.release(target)
    again = replace(target, released_at=began)
    # Merely lost, or repeated: slurmctld has been running all the time.
    story.scheduler.release(again)
    story.wait(target, lambda seen: seen.state is ObjectState.RUNNING, "runs")
    held = story.start(story.world.spec(Work.LAST))
    story.world.advance(story.world.settings.bounds.save_window_s)
    story.real.restart_controller()
    late = replace(held, released_at=began)
    # In its first second its diagnostics don't tell yet since when it runs.
    with pytest.raises((CallRefused, CallUnknown), match=r"began anew|since when"):
        story.scheduler.release(late)
    until(lambda: _releases(story, late), "it is opened once that run must be over")


def _releases(story: Story, target: Target) -> bool:
    try:
        story.scheduler.release(target)
    except (CallRefused, CallUnknown):
        return False
    seen = story.see(target)
    return seen is not None and not seen.held
