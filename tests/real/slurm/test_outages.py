"""Daemons that die, freeze, lose their newest state or are cut off, and tokens that end."""

from __future__ import annotations

import signal
from datetime import datetime, timedelta
from typing import Any

import pytest

from dispatch.errors import CallUnknown, SchedulerUnavailable
from dispatch.record.header import SlurmSpec
from dispatch.record.names import ENDED_STATES, Cause, ObjectState
from dispatch.schedulers.scheduler import Started, Target
from dispatch.schedulers.slurm.settings import Bounds, SigningKey
from tests.conformance.scheduler.world import Work
from tests.real.slurm.proxy import Trouble
from tests.real.slurm.real import RealSlurm, until
from tests.real.slurm.story import Story
from tests.real.slurm.world import SlurmWorld, id_of

ON_N1 = SlurmSpec(exclude=("n2", "n3", "n4"))


@pytest.fixture
def story(world: SlurmWorld) -> Story:
    return Story(world)


def answers(story: Story) -> None:
    """Wait until the cluster answers whole again."""

    def whole() -> bool:
        try:
            return story.world.another().find().complete
        except SchedulerUnavailable:
            return False

    until(whole, "the cluster answers again")


def test_a_node_that_is_cut_off_ends_its_jobs_for_slurm_while_they_run_on(story: Story) -> None:
    left = story.run(story.world.spec(Work.LAST, slurm=ON_N1))
    stopped = story.run(story.world.spec(Work.LAST, slurm=ON_N1))
    story.real.kill("n1")
    story.scheduler.stop(stopped)
    seen = story.end(left)
    assert seen.cause is Cause.NODE_LOST
    assert seen.lost_at is not None
    after = story.end(stopped)
    assert after.cause is Cause.STOPPED
    assert after.lost_at is not None, "cancelled, and nobody could tell the node"
    assert story.world.processes(left.ref) > 0
    assert story.world.processes(stopped.ref) > 0
    story.real.start("n1")
    for target in (left, stopped):
        until(lambda ref=target.ref: story.world.processes(ref) == 0, "its processes end")  # type: ignore[misc]


def test_a_submit_that_slurmctld_forgot_never_lends_its_identity(story: Story) -> None:
    first = story.start(story.world.spec(Work.LAST))
    story.real.restart_controller()
    answers(story)
    second = story.start(story.world.spec(Work.LAST))
    assert second.ref != first.ref
    kept = story.see(first) is not None
    assert kept == (id_of(first.ref) != id_of(second.ref))
    if not kept:
        # The id went to the next submission: nothing may happen to that one.
        from dispatch.errors import HitOther

        with pytest.raises(HitOther):
            story.scheduler.stop(first)
    seen = story.see(second)
    assert seen is not None
    assert seen.state is ObjectState.PENDING


def test_a_cancel_that_slurmctld_forgot_is_asked_for_again_until_it_holds(story: Story) -> None:
    target = story.run(story.world.spec(Work.LAST))
    story.world.advance(story.world.settings.bounds.save_window_s)
    story.scheduler.stop(target)
    story.real.restart_controller()
    answers(story)

    def ended() -> bool:
        seen = story.see(target)
        if seen is None or seen.state in ENDED_STATES:
            return True
        story.scheduler.stop(target)
        return False

    until(ended, "it has ended")
    until(lambda: story.world.processes(target.ref) == 0, "no process lives")


def frozen(real: RealSlurm, lifetime_s: int) -> SlurmWorld:
    """Return a world whose calls time out before a frozen slurmctld answers."""
    bounds = Bounds(request_timeout_s=6, landing_bound_s=lifetime_s + 1, retention_s=30)
    sign_in = SigningKey(secret="file:/key", lifetime_s=lifetime_s)
    return SlurmWorld(real, bounds=bounds, sign_in=sign_in)


@pytest.mark.parametrize(("lifetime_s", "lands"), [(2, False), (60, True)])
def test_a_call_never_lands_after_its_token_has_ended(
    real: RealSlurm, lifetime_s: int, lands: bool
) -> None:
    world = frozen(real, lifetime_s)
    story = Story(world)
    story.scheduler.find()
    order = story.order(world.spec(Work.LAST))
    real.signal("slurmctld", signal.SIGSTOP)
    try:
        with pytest.raises(CallUnknown):
            story.scheduler.start(order)
    finally:
        real.signal("slurmctld", signal.SIGCONT)
    answers(story)

    def refs() -> list[str]:
        return [one.ref for one in world.another().find().by_job.get(order.tag.job, ())]

    if lands:
        until(lambda: len(refs()) == 1, "the late submit lands")
    else:
        world.advance(lifetime_s + 5)
        assert refs() == []
    world.close()


def test_a_dead_slurmctld_is_noticed_at_once_and_nothing_is_sent(story: Story) -> None:
    target = story.start(story.world.spec(Work.LAST))
    story.real.kill("slurmctld")
    with pytest.raises(SchedulerUnavailable):
        story.world.another().find()
    story.world.proxy.requests.clear()
    with pytest.raises(SchedulerUnavailable):
        story.world.another().start(story.order(story.world.spec(Work.LAST)))
    assert not any(method == "POST" for method, _ in story.world.proxy.requests)
    with pytest.raises(CallUnknown):
        story.world.another().stop(target)
    story.real.start("slurmctld")
    until(story.real.controller_answers, "slurmctld answers again")
    answers(story)


def test_a_dead_slurmrestd_is_no_evidence(story: Story) -> None:
    target = story.start(story.world.spec(Work.LAST))
    story.real.kill("slurmrestd")
    other = story.world.another()
    with pytest.raises(SchedulerUnavailable):
        other.find()
    with pytest.raises(CallUnknown):
        other.stop(target)
    story.real.start("slurmrestd")
    answers(story)
    seen = story.see(target)
    assert seen is not None
    assert seen.state is ObjectState.PENDING


def test_a_dead_slurmdbd_hides_nothing_of_slurmctld_and_concludes_nothing(story: Story) -> None:
    target = story.run(story.world.spec(Work.LAST))
    job_id = str(id_of(target.ref))
    begun = ("sacct", "-n", "-X", "-j", job_id, "-o", "state")
    until(lambda: story.real.run(*begun) == "RUNNING", "accounting knows of its start")
    # An open row says nothing of an end. It has no tag yet, so it could be any attempt's.
    assert story.scheduler.lookup([target], []).unknown == {target.ref}
    nothing = story.scheduler.lookup([], [story.sent(target)])
    assert nothing.sightings == ()
    assert nothing.unknown == frozenset()
    story.real.kill("slurmdbd")
    try:
        story.scheduler.stop(target)
        assert story.end(target).cause is Cause.STOPPED
        with pytest.raises(SchedulerUnavailable):
            story.scheduler.lookup([target], [story.sent(target)])
    finally:
        story.real.start("slurmdbd")

    def caught_up() -> bool:
        try:
            known = story.world.another().lookup([target], [story.sent(target)])
        except SchedulerUnavailable:
            return False
        return [(one.ref, one.cause) for one in known.sightings] == [(target.ref, Cause.STOPPED)]

    until(caught_up, "accounting has caught up")


@pytest.mark.parametrize("seconds", [-3600, 3600])
def test_a_token_of_a_wrong_clock_or_key_is_no_evidence(
    real: RealSlurm, seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = SlurmWorld(real)
    story = Story(world)
    target = story.start(world.spec(Work.LAST))
    now = world.clock
    if seconds < 0:
        monkeypatch.setattr(world, "clock", lambda: now() + timedelta(seconds=seconds))
    else:
        monkeypatch.setattr(world.real, "key", lambda: b"another key")
    wrong = world.another()
    with pytest.raises(SchedulerUnavailable, match="token"):
        wrong.find()
    with pytest.raises(SchedulerUnavailable):
        wrong.start(story.order(world.spec(Work.LAST)))
    with pytest.raises(CallUnknown):
        wrong.stop(target)
    monkeypatch.undo()
    seen = story.see(target)
    assert seen is not None
    assert seen.state is ObjectState.PENDING
    world.close()


def test_a_lost_reply_is_one_object_that_a_find_adopts(story: Story) -> None:
    order = story.order(story.world.spec(Work.SUCCEED))
    with story.world.replies_lost(), pytest.raises(CallUnknown):
        story.scheduler.start(order)
    until(lambda: len(story.scheduler.find().by_job.get(order.tag.job, ())) == 1, "it landed")
    (one,) = story.scheduler.find().by_job[order.tag.job]
    target = Target(one.ref, order.tag)
    story.scheduler.release(target)
    assert story.end(target).state is ObjectState.SUCCEEDED


def test_every_call_with_its_reply_lost_leaves_one_object_and_one_run(story: Story) -> None:
    lost: list[Any] = []

    def every_first(method: str, path: str) -> Trouble:
        """Lose the reply to the first call of each kind."""
        if method == "GET" or (method, path) in lost:
            return Trouble.NONE
        lost.append((method, path))
        return Trouble.LOSE_REPLY

    order = story.order(story.world.spec(Work.LAST))
    story.world.proxy.choose = every_first
    with pytest.raises(CallUnknown):
        story.scheduler.start(order)
    until(lambda: bool(story.scheduler.find().by_job.get(order.tag.job)), "it landed")
    (one,) = story.scheduler.find().by_job[order.tag.job]
    target = Target(one.ref, order.tag)
    for call in (story.scheduler.release, story.scheduler.stop):
        for _ in range(4):
            try:
                call(target)
            except CallUnknown:
                continue
            break
    assert len(lost) >= 3
    assert story.end(target).cause is Cause.STOPPED
    assert len(story.scheduler.find().by_job[order.tag.job]) == 1


def test_check_finds_a_real_cluster_in_order(story: Story, real: RealSlurm) -> None:
    lines = {line.what: line for line in story.scheduler.check()}
    assert all(line.ok for line in lines.values()), lines
    assert real.release in lines["version"].detail
    real.signal("slurmctld", signal.SIGCONT)


def test_check_tells_a_clock_that_is_off(real: RealSlurm) -> None:
    world = SlurmWorld(real)

    def ahead() -> datetime:
        return datetime.now().astimezone() + timedelta(seconds=40)

    world.clock = ahead  # type: ignore[method-assign]
    lines = {line.what: line for line in world.another().check()}
    assert not lines["clock"].ok
    assert "behind" in lines["clock"].detail
    world.close()


def test_a_start_that_slurm_took_is_the_object_that_a_find_shows(story: Story) -> None:
    order = story.order(story.world.spec(Work.SUCCEED))
    started = story.scheduler.start(order)
    assert isinstance(started, Started)
    (one,) = story.scheduler.find().by_job[order.tag.job]
    assert one.ref == started.ref
