"""The adapter against a small slurmrestd: identity, evidence, calls and doubt."""

from __future__ import annotations

import subprocess
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from dispatch.errors import (
    CallRefused,
    CallUnknown,
    HitOther,
    SchedulerUnavailable,
    Unsupported,
)
from dispatch.record.evidence import Sighting
from dispatch.record.names import Capability, Cause, ObjectState
from dispatch.schedulers.scheduler import Scheduler, Started, StartRefused, Target, TellsProgress
from dispatch.schedulers.slurm.cluster import SlurmScheduler
from dispatch.schedulers.slurm.tags import identified, marked
from tests.schedulers.slurm.conftest import JOB, World, order, sent, settings, tag
from tests.schedulers.slurm.fake import Fault, error, exited, number


def seen(scheduler: SlurmScheduler, job: str = JOB) -> tuple[Sighting, ...]:
    found = scheduler.find()
    assert found.discovery(job).complete, found.error
    return found.by_job.get(job, ())


def id_of(target: Target) -> int:
    identity = identified(target.ref)
    assert identity is not None
    return identity.job_id


def test_it_is_a_scheduler(world: World) -> None:
    scheduler: Scheduler = world.scheduler()
    assert scheduler.declare().adapter == "slurm"


# --- F01, F02, F11: what was started -----------------------------------------------------------


@pytest.mark.parametrize(
    "reply",
    [
        None,
        (504, {"errors": [error(5004, "Socket timed out on send/recv operation")]}),
        (502, {"errors": [error(5005, "Zero Bytes were transmitted or received")]}),
        (408, "gateway"),
        (200, {"job_id": 0, "errors": []}),
    ],
)
def test_f01_a_lost_reply_to_a_submit_that_landed_is_adopted(
    world: World, reply: tuple[int, Any] | None
) -> None:
    scheduler = world.scheduler()
    world.fake.faults.append(Fault("POST", "job/submit", effect=True, reply=reply))
    with pytest.raises(CallUnknown):
        scheduler.start(order())
    assert len([one for one in world.fake.asked if one.path.endswith("submit")]) == 1
    (one,) = seen(scheduler)
    assert (one.n, one.a, one.state, one.held) == (1, 1, ObjectState.PENDING, True)


def test_f01_a_landing_that_shows_late_is_nothing_until_it_shows(world: World) -> None:
    scheduler = world.scheduler()
    world.fake.faults.append(Fault("POST", "job/submit"))
    with pytest.raises(CallUnknown):
        scheduler.start(order())
    assert seen(scheduler) == ()
    late = world.scheduler()
    world.started(late)
    assert len(seen(scheduler)) == 1


def test_f01_a_landing_that_only_accounting_knows_is_found_by_its_tag(world: World) -> None:
    scheduler = world.scheduler()
    target = world.started(scheduler)
    world.fake.runs_on(id_of(target))
    world.fake.ends(id_of(target), "COMPLETED")
    world.fake.forget(id_of(target))
    got = world.scheduler().lookup([], [sent(world.clock.at)])
    assert [one.ref for one in got.sightings] == [target.ref]
    assert got.sightings[0].state is ObjectState.SUCCEEDED
    assert got.unknown == frozenset()


def test_f02_two_objects_of_one_attempt_are_two_sightings(world: World) -> None:
    scheduler = world.scheduler()
    first, second = world.started(scheduler), world.started(scheduler)
    world.fake.runs_on(id_of(first))
    world.fake.ends(id_of(second), "FAILED", exit_code=exited(1), nodes="n2")
    states = {one.ref: (one.state, one.exit_code) for one in seen(scheduler)}
    assert states == {
        first.ref: (ObjectState.RUNNING, None),
        second.ref: (ObjectState.FAILED, 1),
    }


def test_f11_an_object_is_there_as_soon_as_start_has_answered(world: World) -> None:
    scheduler = world.scheduler()
    target = world.started(scheduler)
    assert [one.ref for one in seen(scheduler)] == [target.ref]


def test_a_start_is_sent_once_with_a_token_that_ends_with_the_call(world: World) -> None:
    scheduler = world.scheduler()
    world.started(scheduler)
    (call,) = world.fake.calls("POST")
    assert call.claims["exp"] == world.clock.epoch() + settings().landing_bound_s - 5
    assert call.claims["sun"] == call.user == "trainer"


def test_a_start_to_a_dead_slurmctld_is_never_sent(world: World) -> None:
    scheduler = world.scheduler()
    world.fake.alive = False
    with pytest.raises(SchedulerUnavailable):
        scheduler.start(order())
    assert world.fake.calls("POST") == []


def test_a_start_that_nobody_listens_to_is_never_sent(world: World) -> None:
    scheduler = world.scheduler()
    scheduler.find()
    world.fake.faults.append(Fault("POST", "job/submit"))
    with pytest.raises(CallUnknown):
        scheduler.start(order())
    unreachable = world.scheduler(cluster_name="proving")
    world.fake.versions = ()
    with pytest.raises(SchedulerUnavailable, match="configuration"):
        unreachable.start(order())
    assert world.fake.jobs == {}


def test_a_refused_start_is_typed_and_says_what_to_look_at(world: World) -> None:
    scheduler = world.scheduler()
    refusal = (500, {"errors": [error(2045, "Invalid account")]})
    world.fake.faults.append(Fault("POST", "job/submit", reply=refusal))
    got = scheduler.start(order())
    assert isinstance(got, StartRefused)
    assert got.cause is Cause.INVALID_SPEC
    assert got.detail.startswith("account: ")


def test_a_spec_against_the_rules_is_refused_without_asking(world: World) -> None:
    got = world.scheduler().start(order(queue="nope"))
    assert isinstance(got, StartRefused)
    assert got.cause is Cause.INVALID_SPEC
    assert world.fake.asked == []


def test_a_server_that_drops_the_gate_gets_no_second_job(world: World) -> None:
    scheduler = world.scheduler()
    world.fake.ignores = ("hold",)
    first = scheduler.start(order())
    assert isinstance(first, Started)
    assert "ignores hold" in first.notes[0]
    second = scheduler.start(order(a=2))
    assert isinstance(second, StartRefused)
    assert len(world.fake.jobs) == 1


def test_a_burst_of_starts_is_paced(world: World) -> None:
    scheduler = world.scheduler(pace_s=0.5)
    began = world.clock.at
    for a in range(1, 5):
        world.started(scheduler, a=a)
    assert (world.clock.at - began).total_seconds() == pytest.approx(1.5)


def test_each_owner_runs_as_their_own_user_and_nobody_else_may_start(world: World) -> None:
    scheduler = world.scheduler(run_as={"ann": "trainer", "bob": "other"})
    started = scheduler.start(order(owner="bob"))
    assert isinstance(started, Started)
    assert world.fake.calls("POST")[-1].user == "other"
    refused = scheduler.start(order(owner="eve"))
    assert isinstance(refused, StartRefused)
    assert "eve" in refused.detail
    scheduler.stop(Target(started.ref, tag()))
    assert world.fake.calls("DELETE")[-1].user == "other"


# --- F05, F06, F12, F16: absence and errors ----------------------------------------------------


def test_f05_what_is_gone_from_a_whole_list_has_no_end_until_accounting_tells_one(
    world: World,
) -> None:
    scheduler = world.scheduler()
    target = world.started(scheduler)
    world.fake.runs_on(id_of(target))
    world.fake.forget(id_of(target))
    assert seen(scheduler) == ()
    assert scheduler.lookup([target], []).unknown == {target.ref}
    job = world.fake.job(job_id=id_of(target), name="dispatch-" + JOB, nodes="n1")
    job.update(comment="", job_state=["COMPLETED"], start_time=number(1), end_time=number(2))
    world.fake.account(job)
    world.fake.forget(id_of(target))
    (late,) = scheduler.lookup([target], []).sightings
    assert (late.ref, late.state) == (target.ref, ObjectState.SUCCEEDED)


def test_f05_a_row_that_accounting_never_closed_says_nothing_of_an_end(world: World) -> None:
    scheduler = world.scheduler()
    target = world.started(scheduler)
    world.fake.runs_on(id_of(target))
    world.fake.account(world.fake.jobs[id_of(target)])
    world.fake.forget(id_of(target))
    got = scheduler.lookup([target], [])
    assert got.sightings == ()
    assert got.unknown == {target.ref}
    attempt = scheduler.lookup([], [sent(world.clock.at)])
    assert [one.state for one in attempt.sightings] == [ObjectState.RUNNING]


def test_f05_a_list_for_others_or_cut_short_is_no_absence(world: World) -> None:
    scheduler = world.scheduler()
    world.started(scheduler)
    world.fake.job(federation_origin="elsewhere")
    found = scheduler.find()
    assert not found.complete
    assert found.error is not None
    assert "federation" in found.error
    hidden = world.scheduler(run_as={"ann": "trainer"}, sees_all_jobs=False).find()
    assert not hidden.complete


@pytest.mark.parametrize(
    "reply",
    [
        None,
        (500, ""),
        (502, "<html></html>"),
        (200, ""),
        (200, "{"),
        (200, {"jobs": [], "errors": [{"error": "Unable to contact slurm controller"}]}),
        (200, {"jobs": []}),
        (200, {"errors": []}),
        (511, {"jobs": [], "errors": [error(1007, "auth")]}),
        (404, "Unable find requested URL."),
    ],
)
def test_f06_a_find_or_lookup_that_failed_is_unavailable_and_shows_nothing(
    world: World, reply: tuple[int, Any] | None
) -> None:
    scheduler = world.scheduler()
    target = world.started(scheduler)
    for path in (r"slurm/v0\.0\.42/jobs", "jobs/state"):
        world.fake.faults.append(Fault("GET", path, reply=reply))
    with pytest.raises(SchedulerUnavailable):
        scheduler.find()
    if reply != (200, {"jobs": []}):
        with pytest.raises(SchedulerUnavailable):
            scheduler.glance()
    world.fake.faults.clear()
    world.fake.faults.append(Fault("GET", r"slurmdb/v0\.0\.42/job/\d+", reply=reply))
    if reply != (200, {"jobs": []}):
        with pytest.raises(SchedulerUnavailable):
            scheduler.lookup([target], [])
    assert len(seen(scheduler)) == 1


def test_f06_a_cluster_that_doesnt_answer_is_left_alone_for_a_while(world: World) -> None:
    scheduler = world.scheduler()
    world.fake.alive = False
    for _ in range(3):
        with pytest.raises(SchedulerUnavailable):
            scheduler.find()
    asked = len(world.fake.asked)
    with pytest.raises(SchedulerUnavailable, match="asked again at"):
        scheduler.find()
    assert len(world.fake.asked) == asked
    world.clock.pass_s(2)
    world.fake.alive = True
    assert scheduler.find().complete


def test_f06_a_row_of_ours_that_cant_be_read_stops_conclusions_about_its_job_alone(
    world: World,
) -> None:
    scheduler = world.scheduler()
    target = world.started(scheduler)
    world.started(scheduler, n=1, a=1, job="j00000002")
    del world.fake.jobs[id_of(target)]["job_state"]
    found = scheduler.find()
    assert found.complete
    assert not found.discovery(JOB).complete
    assert "job_state" in (found.discovery(JOB).error or "")
    assert found.discovery("j00000002").complete


def test_f06_a_row_of_ours_that_no_record_can_hold_is_doubt_about_its_job_alone(
    world: World,
) -> None:
    scheduler = world.scheduler()
    target = world.started(scheduler)
    world.fake.jobs[id_of(target)]["restart_cnt"] = 2_000_000
    found = scheduler.find()
    assert not found.discovery(JOB).complete
    assert "restarts" in (found.discovery(JOB).error or "")


def test_f17_an_unknown_state_of_ours_is_shown_live_and_said_aloud(world: World) -> None:
    scheduler = world.scheduler()
    target = world.started(scheduler)
    world.fake.jobs[id_of(target)]["job_state"] = ["COMPLETED", "NEW_STATE_X"]
    found = scheduler.find()
    assert found.by_job[JOB][0].state is ObjectState.ENDING
    assert "NEW_STATE_X" in (found.discovery(JOB).error or "")
    assert not found.discovery(JOB).complete


@pytest.mark.parametrize(
    "reply",
    [
        (404, {"jobs": [], "errors": [error(2017, "Invalid job id specified")]}),
        (200, {"jobs": [], "errors": [error(2017, "Invalid job id specified")]}),
        (500, {"errors": [{"error": "_handle_job_get: unknown job 42"}]}),
    ],
)
def test_f12_a_job_that_slurmctld_doesnt_know_is_stopped_and_cant_be_held(
    world: World, reply: tuple[int, Any]
) -> None:
    scheduler = world.scheduler()
    target = world.started(scheduler)
    for _ in range(2):
        world.fake.faults.append(Fault("GET", r"job/\d+", reply=reply))
    scheduler.stop(target)
    assert world.fake.calls("DELETE") == []
    with pytest.raises(CallRefused):
        scheduler.hold(target)


def test_f16_another_cluster_behind_the_url_is_an_alarm_and_no_absence(world: World) -> None:
    scheduler = world.scheduler(cluster_name="proving")
    target = world.started(scheduler)
    world.fake.name = "elsewhere"
    world.fake.forget(id_of(target))
    for look in (scheduler.find, scheduler.glance):
        with pytest.raises(SchedulerUnavailable, match="elsewhere"):
            look()


def test_f16_a_ref_of_another_cluster_is_never_looked_up_here(world: World) -> None:
    scheduler = world.scheduler()
    target = world.started(scheduler)
    stranger = Target(target.ref.replace("proving:", "b:"), target.tag)
    for call in (scheduler.stop, scheduler.hold, scheduler.release):
        with pytest.raises(HitOther):
            call(stranger)
    assert scheduler.lookup([stranger], []).unknown == {stranger.ref}


def test_f18_a_job_that_runs_over_midnight_is_found_with_the_same_identity(world: World) -> None:
    world.clock.at = world.clock.at.replace(hour=23, minute=58)
    scheduler = world.scheduler()
    target = world.started(scheduler)
    began = world.clock.at
    world.fake.runs_on(id_of(target))
    world.clock.pass_s(300)
    world.fake.ends(id_of(target), "COMPLETED")
    assert [one.ref for one in seen(scheduler)] == [target.ref]
    world.fake.forget(id_of(target))
    later = world.scheduler()
    got = later.lookup([target], [sent(began)])
    assert {one.ref for one in got.sightings} == {target.ref}
    since = int(
        next(one.path for one in world.fake.asked if "start_time=" in one.path)
        .partition("start_time=")[2]
        .partition("&")[0]
    )
    assert since < began.timestamp()


# --- F19, F21, F22: ids, lives and tags --------------------------------------------------------


def test_f19_the_earlier_owner_of_an_id_is_never_taken_for_ours(world: World) -> None:
    scheduler = world.scheduler()
    world.fake.next_id = 12_728_301
    target = world.started(scheduler)
    world.fake.runs_on(id_of(target))
    old = world.fake.job(
        job_id=12_728_301,
        user_name="someone",
        name="old_5551",
        job_state=["COMPLETED"],
        submit_time=number(1_507_052_369),
        start_time=number(1_507_052_369),
        nodes="n9",
    )
    world.fake.account(old)
    world.fake.jobs[12_728_301] = {**old, "job_state": ["RUNNING"]}
    assert scheduler.lookup([target], []).unknown == {target.ref}


def test_f19_an_id_that_went_to_somebody_else_is_left_alone(world: World) -> None:
    scheduler = world.scheduler()
    target = world.started(scheduler)
    world.fake.forget(id_of(target))
    world.fake.job(job_id=id_of(target), user_name="someone", name="theirs")
    for call in (scheduler.stop, scheduler.hold, scheduler.release):
        with pytest.raises(HitOther):
            call(target)
    assert world.fake.calls("DELETE") == []
    assert len(world.fake.calls("POST")) == 1


def test_f19_an_id_that_went_to_our_own_next_attempt_is_another_object(world: World) -> None:
    scheduler = world.scheduler()
    target = world.started(scheduler)
    world.fake.forget(id_of(target))
    world.fake.next_id = id_of(target)
    world.clock.pass_s(1)
    again = world.started(scheduler)
    assert again.ref != target.ref
    scheduler.stop(target)
    assert world.fake.calls("DELETE") == []
    assert [one.ref for one in seen(scheduler)] == [again.ref]


def test_f19_without_comments_in_accounting_a_run_is_matched_by_name_user_and_time(
    world: World,
) -> None:
    scheduler = world.scheduler(accounting="names")
    target = world.started(scheduler)
    world.fake.runs_on(id_of(target))
    world.fake.ends(id_of(target), "FAILED", exit_code=exited(7))
    world.fake.runs[0].update(comment={"job": ""}, extra="")
    world.fake.forget(id_of(target))
    (one,) = scheduler.lookup([target], []).sightings
    assert (one.ref, one.exit_code) == (target.ref, 7)
    # The row of an object whose id is known is no other attempt's.
    got = scheduler.lookup([target], [sent(world.clock.at, a=2)])
    assert [one.ref for one in got.sightings] == [target.ref]
    assert got.unknown == {"1.2"}
    world.fake.runs[0]["time"]["submission"] -= 3600
    assert scheduler.lookup([target], []).unknown == {target.ref}


def tagless(world: World, **fields: Any) -> dict[str, Any]:
    """Add a run of the job's name without a tag, as accounting without comments keeps it."""
    job = world.fake.job(name="dispatch-" + JOB, nodes="n1", job_state=["FAILED"], hold=False)
    job.update(start_time=number(world.clock.epoch()), end_time=number(world.clock.epoch() + 1))
    job.update({"exit_code": exited(7), **fields})
    world.fake.forget(job["job_id"])
    return world.fake.account(job)


def test_f19_an_attempt_without_an_id_owns_what_began_in_its_window_and_nothing_else(
    world: World,
) -> None:
    scheduler = world.scheduler(accounting="names")
    began = world.clock.at
    bounds, call_bound_s = settings().bounds, settings().call_bound_s
    run = tagless(world)
    submitted = run["time"]["submission"]
    first, last = -bounds.clock_skew_s - 1, call_bound_s + bounds.clock_skew_s
    world.clock.pass_s(last + bounds.lookup_lag_s + 60)
    for offset, ours in [(first - 1, 0), (first, 1), (0, 1), (last, 1), (last + 1, 0)]:
        run["time"]["submission"] = submitted + offset
        run["time"]["end"] = submitted + offset + 1
        got = scheduler.lookup([], [sent(began, 2, 1)])
        assert [(one.n, one.a, one.exit_code) for one in got.sightings] == [(2, 1, 7)] * ours
        assert got.unknown == (frozenset() if ours else {"2.1"})
        # Asked again, it is the same object.
        assert scheduler.lookup([], [sent(began, 2, 1)]).sightings == got.sightings


@pytest.mark.parametrize(
    "change",
    [
        {"user": "mallory"},
        {"name": "dispatch-j00000002"},
        {"name": ""},
        {"restart_cnt": 1},
        {"array": {"job_id": 9}},
        {"comment": {"job": "dispatch/1 job=j00000002 n=1 a=1 gen=0 of=proving at=1 spec="}},
    ],
)
def test_f19_a_run_in_an_attempts_window_that_lacks_what_is_ours_is_not_ours(
    world: World, change: dict[str, Any]
) -> None:
    scheduler = world.scheduler(accounting="names")
    run = tagless(world)
    run.update(change)
    if "comment" in change:
        run["comment"]["job"] += "0" * 64
    got = scheduler.lookup([], [sent(world.clock.at)])
    assert got.sightings == ()
    assert got.unknown == {"1.1"}


def test_f19_an_id_that_was_used_again_gives_each_attempt_its_own_run(world: World) -> None:
    scheduler = world.scheduler(accounting="names")
    began = world.clock.at
    first = tagless(world)
    world.clock.pass_s(3_600)
    second = tagless(world, exit_code=exited(9))
    second["job_id"] = first["job_id"]
    third = tagless(world, exit_code=exited(11), restart_cnt=number(1)["number"])
    third["job_id"], third["time"]["submission"] = first["job_id"], world.clock.epoch() + 30
    got = scheduler.lookup([], [sent(began, 1, 1), sent(world.clock.at, 1, 2)])
    assert [(one.a, one.exit_code, one.restarts) for one in got.sightings] == [
        (1, 7, 0),
        (2, 11, 1),
    ]


def test_f05_a_run_that_accounting_never_closed_holds_an_attempt_open_for_the_lag_alone(
    world: World,
) -> None:
    scheduler = world.scheduler()
    began = world.clock.at
    run = tagless(world)
    run["state"]["current"], run["time"]["end"] = ["RUNNING"], 0
    got = scheduler.lookup([], [sent(began)])
    assert (got.sightings, got.unknown) == ((), frozenset())
    bounds, call_bound_s = settings().bounds, settings().call_bound_s
    world.clock.pass_s(call_bound_s + bounds.clock_skew_s + bounds.lookup_lag_s)
    assert scheduler.lookup([], [sent(began)]).unknown == frozenset()
    world.clock.pass_s(1)
    assert scheduler.lookup([], [sent(began)]).unknown == {"1.1"}


def test_f19_a_foreign_user_with_our_name_and_tag_is_not_ours(world: World) -> None:
    scheduler = world.scheduler()
    target = world.started(scheduler)
    job = world.fake.jobs[id_of(target)]
    world.fake.job(user_name="mallory", name=job["name"], comment=job["comment"])
    assert [one.ref for one in seen(scheduler)] == [target.ref]


def test_f32_an_array_that_carries_our_tag_is_not_ours(world: World) -> None:
    scheduler = world.scheduler()
    target = world.started(scheduler)
    job = world.fake.jobs[id_of(target)]
    world.fake.job(comment=job["comment"], array_job_id=number(9), array_task_id=number(1))
    assert [one.ref for one in seen(scheduler)] == [target.ref]


def test_a_tag_that_its_user_wiped_from_the_comment_is_read_from_extra(world: World) -> None:
    scheduler = world.scheduler()
    target = world.started(scheduler)
    world.fake.jobs[id_of(target)].update(comment="my favourite job", name="renamed")
    assert [one.ref for one in seen(scheduler)] == [target.ref]


def test_a_tag_that_is_wiped_everywhere_makes_no_object_absent(world: World) -> None:
    scheduler = world.scheduler()
    target = world.started(scheduler)
    world.fake.jobs[id_of(target)].update(comment="", extra="")
    found = scheduler.find()
    assert not found.discovery(JOB).complete
    assert "tag" in (found.discovery(JOB).error or "")


def test_f21_a_requeue_outside_keeps_the_ref_and_counts_the_restart(world: World) -> None:
    scheduler = world.scheduler()
    target = world.started(scheduler)
    job = world.fake.jobs[id_of(target)]
    world.fake.runs_on(id_of(target))
    world.clock.pass_s(60)
    job.update(job_state=["PENDING"], restart_cnt=1, submit_time=number(world.clock.epoch()))
    job.update(state_reason="BeginTime", nodes="")
    (one,) = seen(scheduler)
    assert (one.ref, one.state, one.restarts) == (target.ref, ObjectState.PENDING, 1)


def test_f21_accounting_tells_the_last_of_several_runs(world: World) -> None:
    scheduler = world.scheduler()
    target = world.started(scheduler)
    job = world.fake.jobs[id_of(target)]
    world.fake.runs_on(id_of(target))
    world.fake.account({**job, "job_state": ["PREEMPTED"], "end_time": number(world.clock.epoch())})
    world.clock.pass_s(200)
    job.update(restart_cnt=1, submit_time=number(world.clock.epoch()))
    world.fake.runs_on(id_of(target), "n2")
    world.fake.ends(id_of(target), "COMPLETED")
    world.fake.forget(id_of(target))
    (one,) = scheduler.lookup([target], []).sightings
    assert (one.state, one.restarts, one.nodes) == (ObjectState.SUCCEEDED, 1, ("n2",))


def test_f22_what_somebody_made_requeueable_is_set_back(world: World) -> None:
    scheduler = world.scheduler()
    target = world.started(scheduler)
    job = world.fake.jobs[id_of(target)]
    job["requeue"] = True
    scheduler.find()
    assert job["requeue"] is False
    asked = len(world.fake.calls("POST"))
    job["requeue"] = True
    scheduler.find()
    assert len(world.fake.calls("POST")) == asked, "once: nobody is fought over it"


def test_f22_a_lost_node_is_shown_with_the_time_of_its_loss(world: World) -> None:
    scheduler = world.scheduler()
    target = world.started(scheduler)
    world.fake.runs_on(id_of(target))
    world.clock.pass_s(30)
    world.fake.ends(id_of(target), "NODE_FAIL", exit_code=exited(signal=1))
    (one,) = seen(scheduler)
    assert (one.cause, one.lost_at) == (Cause.NODE_LOST, world.clock.at)


# --- F25, F37: calls ---------------------------------------------------------------------------


def test_f25_the_gate_is_opened_and_others_holds_are_shown_and_never_fought(world: World) -> None:
    scheduler = world.scheduler()
    target = world.started(scheduler)
    scheduler.release(target)
    scheduler.release(target)
    job = world.fake.jobs[id_of(target)]
    assert job["hold"] is False
    assert len(world.fake.calls("POST")) == 2
    job.update(hold=True, state_reason="JobHeldAdmin")
    (one,) = seen(scheduler)
    assert (one.held, one.holder, one.cause) == (True, "admin", Cause.HELD_OUTSIDE)
    with pytest.raises(CallRefused, match="admin"):
        scheduler.release(target)
    assert len(world.fake.calls("POST")) == 2


def test_f25_a_hold_of_what_runs_is_unsupported_and_not_sent(world: World) -> None:
    scheduler = world.scheduler()
    target = world.started(scheduler)
    world.fake.runs_on(id_of(target))
    with pytest.raises(Unsupported):
        scheduler.hold(target)
    with pytest.raises(Unsupported):
        scheduler.requeue(target)
    assert len(world.fake.calls("POST")) == 1


def test_f37_a_stop_is_marked_cancels_once_and_is_repeatable(world: World) -> None:
    scheduler = world.scheduler()
    target = world.started(scheduler)
    world.fake.runs_on(id_of(target))
    scheduler.stop(target)
    scheduler.stop(target)
    assert len(world.fake.calls("DELETE")) == 1
    (one,) = seen(scheduler)
    assert (one.state, one.cause, one.signal) == (ObjectState.FAILED, Cause.STOPPED, 15)
    mark = marked(world.fake.jobs[id_of(target)]["comment"])
    assert mark is not None
    assert mark.stopping


def test_f37_a_cancel_that_wasnt_ours_is_somebody_elses(world: World) -> None:
    scheduler = world.scheduler()
    target = world.started(scheduler)
    world.fake.runs_on(id_of(target))
    world.fake.ends(id_of(target), "CANCELLED", exit_code=exited(signal=15))
    assert seen(scheduler)[0].cause is Cause.STOPPED_OUTSIDE
    world.fake.forget(id_of(target))
    (later,) = scheduler.lookup([target], []).sightings
    assert later.cause is Cause.STOPPED_OUTSIDE


@pytest.mark.parametrize(
    "reply",
    [
        (200, {"status": [{"error": {"code": 2017, "string": "Invalid job id specified"}}]}),
        (200, {"status": [{"error": {"code": 2021, "string": "already"}}]}),
        (200, {"status": []}),
        (404, {"errors": [error(2017, "Invalid job id specified")]}),
    ],
)
def test_f37_a_cancel_of_what_ends_or_isnt_there_is_success(
    world: World, reply: tuple[int, Any]
) -> None:
    scheduler = world.scheduler()
    target = world.started(scheduler)
    world.fake.faults.append(Fault("DELETE", r"job/\d+", reply=reply))
    scheduler.stop(target)


@pytest.mark.parametrize(
    ("reply", "raised"),
    [
        (None, CallUnknown),
        ((500, {"errors": [error(1, "Operation not permitted")]}), CallUnknown),
        ((403, {"errors": [error(1, "Operation not permitted")]}), CallUnknown),
        ((504, ""), CallUnknown),
        ((200, {"status": [{"error": {"code": 2002, "string": "denied"}}]}), CallRefused),
    ],
)
def test_f37_a_cancel_in_doubt_or_refused_is_never_success(
    world: World, reply: tuple[int, Any] | None, raised: type[Exception]
) -> None:
    scheduler = world.scheduler()
    target = world.started(scheduler)
    world.fake.faults.append(Fault("DELETE", r"job/\d+", reply=reply))
    with pytest.raises(raised):
        scheduler.stop(target)
    scheduler.stop(target)
    assert seen(scheduler)[0].cause is Cause.STOPPED


@pytest.mark.parametrize("call", ["stop", "hold", "release", "requeue"])
def test_no_call_by_id_is_made_on_another_tag(world: World, call: str) -> None:
    scheduler = world.scheduler(api="v0.0.45", in_place=True)
    world.fake.versions = ("v0.0.45",)
    target = world.started(scheduler)
    posts = len(world.fake.calls("POST", "DELETE"))
    for other in (tag(2, 1), tag(1, 2), tag(job="j00000002"), tag(digest="f" * 64)):
        with pytest.raises(HitOther):
            getattr(scheduler, call)(Target(target.ref, other))
    assert len(world.fake.calls("POST", "DELETE")) == posts
    assert not any("requeue" in one.path for one in world.fake.asked)


def test_a_call_after_which_another_tag_is_there_is_told(world: World) -> None:
    scheduler = world.scheduler()
    target = world.started(scheduler)
    job = world.fake.jobs[id_of(target)]
    other = {**job, "comment": "", "extra": "", "name": "theirs"}
    world.fake.faults.append(Fault("GET", r"job/\d+", reply=(200, {"jobs": [job], "errors": []})))
    world.fake.faults.append(Fault("GET", r"job/\d+", reply=(200, {"jobs": [other], "errors": []})))
    with pytest.raises(HitOther):
        scheduler.release(target)


# --- versions, in-place requeue ----------------------------------------------------------------


def in_place(world: World) -> SlurmScheduler:
    world.fake.versions = ("v0.0.42", "v0.0.45")
    return world.scheduler(api="v0.0.45", in_place=True)


def test_what_a_version_cant_do_isnt_declared(world: World) -> None:
    old, new = world.scheduler().declare(), in_place(world).declare()
    for capability in (Capability.HOLD_RUNNING, Capability.REQUEUE_LIVE):
        assert not old.can(capability)
        assert new.can(capability)
    assert not new.can(Capability.REQUEUE_ENDED)
    assert old.can(Capability.GATED_START)
    assert not world.scheduler(accounting="none").declare().can(Capability.LOOKUP)


def test_a_requeue_opens_and_closes_slurms_own_and_is_sent_once(world: World) -> None:
    scheduler = in_place(world)
    target = world.started(scheduler)
    job = world.fake.jobs[id_of(target)]
    job["hold"] = False
    world.fake.runs_on(id_of(target))
    scheduler.requeue(target)
    assert (job["restart_cnt"], job["requeue"]) == (1, False)
    sent = [one for one in world.fake.asked if "requeue" in one.path]
    assert [one.path.partition("?")[2] for one in sent] == ["Incomplete=true"]
    with pytest.raises(CallRefused, match="started again"):
        scheduler.requeue(target)


def test_a_requeue_in_doubt_is_closed_again_and_unknown(world: World) -> None:
    scheduler = in_place(world)
    target = world.started(scheduler)
    world.fake.runs_on(id_of(target))
    world.fake.faults.append(Fault("GET", r"job/\d+/requeue", effect=True))
    with pytest.raises(CallUnknown):
        scheduler.requeue(target)
    job = world.fake.jobs[id_of(target)]
    assert (job["restart_cnt"], job["requeue"]) == (1, False)
    assert len([one for one in world.fake.asked if "requeue" in one.path]) == 1


def test_a_crash_between_the_steps_of_a_requeue_is_mended_by_the_next_find(world: World) -> None:
    scheduler = in_place(world)
    target = world.started(scheduler)
    job = world.fake.jobs[id_of(target)]
    world.fake.runs_on(id_of(target))
    job["requeue"] = True
    world.scheduler().find()
    assert job["requeue"] is False


def test_a_running_job_is_held_by_requeueing_it_held(world: World) -> None:
    scheduler = in_place(world)
    target = world.started(scheduler)
    world.fake.jobs[id_of(target)]["hold"] = False
    world.fake.runs_on(id_of(target))
    scheduler.hold(target)
    (one,) = seen(scheduler)
    assert (one.state, one.held, one.holder, one.restarts) == (ObjectState.PENDING, True, None, 1)


def test_the_newest_version_that_both_know_is_spoken(world: World) -> None:
    world.fake.versions = ("v0.0.41", "v0.0.42", "v0.0.43")
    world.scheduler(api=None).find()
    assert world.fake.asked[-1].path == "/slurm/v0.0.42/jobs/"
    world.fake.versions = ("v0.0.42", "v0.0.45", "v0.0.46")
    world.scheduler(api=None).find()
    assert world.fake.asked[-1].path == "/slurm/v0.0.45/jobs/"


def test_a_version_that_is_no_longer_served_is_a_configuration_alarm(world: World) -> None:
    scheduler = world.scheduler(api=None)
    target = world.started(scheduler)
    world.fake.versions = ("v0.0.46",)
    with pytest.raises(SchedulerUnavailable, match="configuration"):
        scheduler.find()
    with pytest.raises(CallUnknown, match="configuration"):
        scheduler.stop(target)
    world.fake.versions = ("v0.0.45",)
    assert [one.ref for one in seen(scheduler)] == [target.ref]


def test_an_expired_token_is_no_evidence(world: World) -> None:
    scheduler = world.scheduler()
    target = world.started(scheduler)
    real = world.fake.now
    world.fake.now = lambda: real() + 10_000
    with pytest.raises(SchedulerUnavailable, match="token"):
        scheduler.find()
    with pytest.raises(CallUnknown):
        scheduler.stop(target)
    with pytest.raises(SchedulerUnavailable):
        scheduler.start(order(a=2))
    world.fake.now = real
    assert len(seen(scheduler)) == 1


# --- looking -----------------------------------------------------------------------------------


def test_an_idle_glance_asks_once_for_ids_and_states_alone(world: World) -> None:
    scheduler = world.scheduler()
    target = world.started(scheduler)
    for _ in range(50):
        world.fake.job(user_name="someone")
    asked = len(world.fake.asked)
    glance = scheduler.glance()
    assert glance.tokens == {target.ref: "PENDING"}
    assert [one.path for one in world.fake.asked[asked:]] == ["/slurm/v0.0.42/jobs/state/"]
    scheduler.find()
    assert [one.path for one in world.fake.asked[asked + 1 :]] == ["/slurm/v0.0.42/jobs/"]


def test_a_glance_before_any_find_knows_no_object(world: World) -> None:
    world.started(world.scheduler())
    assert world.scheduler().glance().tokens == {}


def test_output_and_lookup_without_accounting_are_unsupported(world: World) -> None:
    scheduler = world.scheduler(accounting="none")
    target = world.started(scheduler)
    with pytest.raises(Unsupported):
        scheduler.output(target, offset=0, limit=1)
    with pytest.raises(Unsupported):
        scheduler.lookup([target], [])


def test_check_tells_what_was_seen_and_what_follows(world: World) -> None:
    lines = world.scheduler().check()
    assert all(line.ok for line in lines), [line for line in lines if not line.ok]
    assert {"version", "reach", "clock", "user", "queue main", "accounting", "declared"} <= {
        line.what for line in lines
    }
    assert world.fake.calls("POST", "DELETE") == []


def test_check_names_everything_that_isnt_as_it_should_be(world: World) -> None:
    from dispatch.schedulers.slurm.settings import Queue

    queues = {
        "main": Queue(partition="main", accounts=("chemistry",), qos=("rare",)),
        "shut": Queue(partition="closed"),
        "gone": Queue(partition="nowhere"),
    }
    scheduler = world.scheduler(queues=queues)
    real = world.fake.now
    world.fake.now = lambda: real() - 30
    wrong = {line.what: line.detail for line in scheduler.check() if not line.ok}
    assert {"clock", "user", "queue shut", "queue gone", "qos"} == wrong.keys()
    assert "30 s behind" in wrong["clock"] or "29 s behind" in wrong["clock"]
    assert "chemistry" in wrong["user"]
    assert "rare" in wrong["qos"]


def test_check_refuses_an_old_slurm_with_its_reasons(world: World) -> None:
    world.fake.versions = ("v0.0.38",)
    world.fake.faults.append(
        Fault("GET", "/openapi/v3", reply=(200, {"paths": {"/slurm/v0.0.38/jobs": {}}}))
    )
    (line,) = world.scheduler(api=None).check()
    assert not line.ok
    assert "v0.0.38" in line.detail
    assert "requeue" in line.detail


def test_check_never_raises_where_nothing_answers(world: World) -> None:
    world.fake.faults.append(Fault("GET", "", times=100))
    lines = world.scheduler().check()
    assert [line.ok for line in lines] == [False]


# --- signs of life -----------------------------------------------------------------------------


def test_a_job_says_beside_its_tag_that_it_goes_on_and_stays_what_it_is(world: World) -> None:
    scheduler = world.scheduler()
    target = world.started(scheduler)
    job = world.fake.jobs[id_of(target)]
    world.fake.runs_on(id_of(target))
    assert isinstance(scheduler, TellsProgress)
    assert scheduler.written_at(target) is None
    (sent_env,) = [one.body["job"]["environment"] for one in world.fake.calls("POST")]
    (command,) = [one.partition("=")[2] for one in sent_env if one.startswith("DISPATCH_BEAT=")]
    said = subprocess.run(
        ["sh", "-c", f"scontrol() {{ printf '%s' \"$3\"; }}; {command}"],
        env={"SLURM_JOB_ID": str(id_of(target)), "PATH": "/bin:/usr/bin"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    job["extra"] = said.removeprefix("extra=")
    beaten = scheduler.written_at(target)
    assert beaten is not None
    assert abs(beaten.timestamp() - time.time()) < 60
    assert [one.ref for one in seen(scheduler)] == [target.ref]
    job["comment"] = "mine"
    assert [one.ref for one in seen(world.scheduler())] == [target.ref]
    world.fake.forget(id_of(target))
    assert scheduler.written_at(target) is None


def test_without_its_tag_in_extra_a_job_has_no_place_to_say_so(world: World) -> None:
    scheduler = world.scheduler(tag_in_extra=False)
    target = world.started(scheduler)
    (call,) = world.fake.calls("POST")
    assert not any(one.startswith("DISPATCH_BEAT=") for one in call.body["job"]["environment"])
    assert scheduler.written_at(target) is None


# --- a gate that is opened again (ADR 31) -------------------------------------------------------


def test_a_release_that_is_repeated_asks_since_when_slurmctld_runs_and_a_first_one_doesnt(
    world: World,
) -> None:
    scheduler = world.scheduler()
    target = world.started(scheduler)
    scheduler.release(target)
    assert [one.path for one in world.fake.asked if "diag" in one.path] == []
    world.fake.jobs[id_of(target)].update(hold=True, state_reason="JobHeldUser")
    scheduler.release(replace(target, released_at=world.clock.at))
    assert len([one.path for one in world.fake.asked if "diag" in one.path]) == 1
    (one,) = seen(scheduler)
    assert not one.held


@pytest.mark.parametrize(
    ("began_after_s", "waits"), [(-7, False), (-6, True), (0, True), (60, True)]
)
def test_a_gate_that_a_crash_closed_isnt_opened_before_a_forgotten_run_is_over(
    world: World, began_after_s: int, waits: bool
) -> None:
    scheduler = world.scheduler()
    target = replace(world.started(scheduler), released_at=world.clock.at)
    bounds = settings().bounds
    world.fake.began = world.clock.epoch() + began_after_s
    world.clock.pass_s(120)
    if waits:
        with pytest.raises(CallRefused, match="began anew"):
            scheduler.release(target)
        assert seen(scheduler)[0].held
    world.clock.at = datetime.fromtimestamp(world.fake.began, UTC)
    world.clock.pass_s(bounds.node_loss_window_s + bounds.clock_skew_s)
    scheduler.release(target)
    assert not seen(scheduler)[0].held


@pytest.mark.parametrize(
    "reply",
    [None, (500, ""), (200, {"statistics": {}}), (200, {"statistics": None}), (200, "[]")],
)
def test_a_gate_isnt_opened_again_where_nothing_tells_since_when_slurmctld_runs(
    world: World, reply: tuple[int, Any] | None
) -> None:
    scheduler = world.scheduler()
    target = replace(world.started(scheduler), released_at=world.clock.at)
    world.fake.faults.append(Fault("GET", "diag", reply=reply))
    with pytest.raises(CallUnknown, match="since when"):
        scheduler.release(target)
    assert seen(scheduler)[0].held
