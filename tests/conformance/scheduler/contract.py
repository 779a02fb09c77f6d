"""Every promise of `dispatch.schedulers.scheduler`, one test each.

What a cluster declares chooses the assertion: a capability that it has must do what is promised,
one that it hasn't must raise `Unsupported`. No test is skipped. `world.py` says how to run the
suite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from dispatch.errors import CallRefused, CallUnknown, HitOther, SchedulerUnavailable, Unsupported
from dispatch.record.codec import spec_digest
from dispatch.record.evidence import Found, Sighting
from dispatch.record.header import Adjust
from dispatch.record.names import ENDED_STATES, Capability, Cause, ObjectState
from dispatch.schedulers.scheduler import (
    KeepsEvidence,
    Sent,
    Started,
    StartOrder,
    StartRefused,
    Tag,
    Target,
)
from tests.conformance.scheduler.world import Work, World

JOB = "jobconformance1"
OTHER_JOB = "jobconformance2"
UNKNOWN_DIGEST = "f" * 64


class Play:
    """What the tests do again and again: start an object, look at it, wait for it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.scheduler = world.scheduler
        self.declared = self.scheduler.declare()

    def can(self, capability: Capability) -> bool:
        return self.declared.can(capability)

    def order(self, work: Work, job: str = JOB, n: int = 1, a: int = 1) -> StartOrder:
        spec = self.world.spec(work)
        tag = Tag(job, n, a, spec_digest(spec), 0)
        return StartOrder(tag=tag, spec=spec, adjust=None, owner="somebody", in_place=True)

    def start(self, work: Work, job: str = JOB, n: int = 1, a: int = 1) -> Target:
        order = self.order(work, job, n, a)
        started = self.scheduler.start(order)
        assert isinstance(started, Started)
        return Target(started.ref, order.tag)

    def begin(self, work: Work, job: str = JOB, n: int = 1, a: int = 1) -> Target:
        """Start an object and open its gate, if it has one."""
        target = self.start(work, job, n, a)
        if self.can(Capability.GATED_START):
            self.scheduler.release(target)
        return target

    def run(self, work: Work = Work.LAST, job: str = JOB, n: int = 1, a: int = 1) -> Target:
        """Bring an object to run."""
        target = self.begin(work, job, n, a)
        self.wait(target, ObjectState.RUNNING)
        return target

    def end(self, work: Work, job: str = JOB, n: int = 1, a: int = 1) -> tuple[Target, Sighting]:
        """Bring an object to its end."""
        target = self.begin(work, job, n, a)
        return target, self.wait_for_end(target)

    def whole(self) -> Found:
        found = self.scheduler.find()
        assert found.complete, found.error
        return found

    def look(self, target: Target) -> Sighting | None:
        """Return the object as a complete Find shows it."""
        for sighting in self.whole().by_job.get(target.tag.job, ()):
            if sighting.ref == target.ref:
                return sighting
        return None

    def see(self, target: Target) -> Sighting:
        sighting = self.look(target)
        assert sighting is not None, f"{target.ref} isn't shown"
        return sighting

    def refs(self, job: str = JOB) -> list[str]:
        return [sighting.ref for sighting in self.whole().by_job.get(job, ())]

    def wait(self, target: Target, state: ObjectState) -> Sighting:
        return self.wait_until(target, lambda seen: seen.state is state, state.value)

    def wait_for_end(self, target: Target) -> Sighting:
        return self.wait_until(target, lambda seen: seen.state in ENDED_STATES, "ended")

    def wait_until(self, target: Target, holds: Callable[[Sighting], bool], what: str) -> Sighting:
        def seen_so() -> bool:
            sighting = self.look(target)
            return sighting is not None and holds(sighting)

        self.world.until(seen_so, f"{target.ref} is {what}")
        return self.see(target)

    def wait_for_processes(self, target: Target) -> None:
        self.world.until(lambda: self.world.processes(target.ref) > 0, "its processes live")

    def wait_for_none(self, target: Target) -> None:
        self.world.until(lambda: self.world.processes(target.ref) == 0, "no process of it lives")

    def settle_calls(self) -> None:
        """Let everything land that may still land."""
        self.world.advance(self.declared.call_bound_s + self.declared.clock_skew_s)


def others_of(target: Target) -> Iterator[Target]:
    """Yield targets with the same ref and each part of the tag changed."""
    tag = target.tag
    for other in (
        replace(tag, job=OTHER_JOB),
        replace(tag, n=tag.n + 1),
        replace(tag, a=tag.a + 1),
        replace(tag, spec_digest=UNKNOWN_DIGEST),
        replace(tag, generation=tag.generation + 1),
    ):
        yield replace(target, tag=other)


def sent(play: Play, tag: Tag) -> Sent:
    """Return a Start with that tag which was recorded just now."""
    now = play.scheduler.glance().seen_at
    return Sent(tag, now, now + timedelta(seconds=play.declared.call_bound_s))


def nobody(target: Target) -> Target:
    """Return a target like that one whose object never existed."""
    return Target(f"{target.ref[:-4]}0000", target.tag)


class SchedulerContract:
    """Subclass it with a `world` fixture; every test gets a fresh world."""

    @pytest.fixture
    def world(self) -> World:
        raise NotImplementedError("a subclass yields its world")

    @pytest.fixture
    def play(self, world: World) -> Play:
        return Play(world)

    # --- declare, check, lint ---

    def test_declare_answers_without_asking_the_cluster(self, play: Play) -> None:
        with play.world.silent():
            assert play.scheduler.declare() == play.declared

    def test_declared_call_bound_exceeds_time_out_and_landing(self, play: Play) -> None:
        declared = play.declared
        assert declared.call_bound_s > declared.request_timeout_s + declared.landing_bound_s

    def test_check_says_what_was_seen_and_changes_nothing(self, play: Play) -> None:
        target = play.run()
        before = play.see(target)
        lines = play.scheduler.check()
        assert lines
        assert all(line.what and line.detail for line in lines)
        assert all(line.ok for line in lines)
        assert play.see(target) == before

    def test_check_never_raises(self, play: Play) -> None:
        with play.world.silent():
            lines = play.scheduler.check()
        assert any(not line.ok for line in lines)

    def test_lint_names_the_field_that_would_be_refused(self, play: Play) -> None:
        spec, field = play.world.refused_spec()
        assert any(field in sentence for sentence in play.scheduler.lint(spec))

    def test_lint_has_nothing_against_what_can_be_run(self, play: Play) -> None:
        for work in Work:
            assert list(play.scheduler.lint(play.world.spec(work))) == []

    def test_lint_asks_nothing(self, play: Play) -> None:
        spec, _ = play.world.refused_spec()
        answer = list(play.scheduler.lint(spec))
        with play.world.silent():
            assert list(play.scheduler.lint(spec)) == answer

    # --- glance ---

    def test_glance_has_a_token_for_each_live_object(self, play: Play) -> None:
        first, second = play.start(Work.LAST), play.start(Work.LAST, OTHER_JOB)
        glance = play.scheduler.glance()
        assert {first.ref, second.ref} <= glance.tokens.keys()
        assert glance.taken_at <= glance.seen_at

    def test_glance_has_no_token_for_what_has_ended(self, play: Play) -> None:
        target, _ = play.end(Work.SUCCEED)
        play.world.until(lambda: target.ref not in play.scheduler.glance().tokens, "no token left")

    def test_glance_token_changes_when_the_object_does(self, play: Play) -> None:
        target = play.start(Work.LAST)
        before = play.scheduler.glance().tokens[target.ref]
        if play.can(Capability.GATED_START):
            play.scheduler.release(target)
        play.wait(target, ObjectState.RUNNING)
        assert play.scheduler.glance().tokens[target.ref] != before

    def test_glance_token_stays_while_the_object_does(self, play: Play) -> None:
        target = play.run()
        tokens = {play.scheduler.glance().tokens[target.ref] for _ in range(3)}
        assert len(tokens) == 1

    def test_glance_and_find_name_the_same_cluster(self, play: Play) -> None:
        glance, found = play.scheduler.glance(), play.scheduler.find()
        assert (glance.cluster, glance.identity) == (found.cluster, found.identity)
        assert glance.cluster == play.declared.cluster
        assert glance.identity

    def test_glance_without_an_answer_is_unavailable(self, play: Play) -> None:
        play.run()
        with play.world.silent(), pytest.raises(SchedulerUnavailable):
            play.scheduler.glance()

    # --- find ---

    def test_find_returns_every_object_and_serves_all_jobs(self, play: Play) -> None:
        first, second = play.run(), play.start(Work.LAST, OTHER_JOB, 2, 3)
        third, _ = play.end(Work.SUCCEED, OTHER_JOB, 1, 1)
        found = play.whole()
        assert [s.ref for s in found.by_job[JOB]] == [first.ref]
        assert {s.ref for s in found.by_job[OTHER_JOB]} == {second.ref, third.ref}

    def test_find_shows_the_whole_tag(self, play: Play) -> None:
        order = play.order(Work.LAST, n=4, a=2)
        order = replace(order, tag=replace(order.tag, generation=3))
        started = play.scheduler.start(order)
        assert isinstance(started, Started)
        seen = play.see(Target(started.ref, order.tag))
        assert (seen.n, seen.a, seen.generation) == (4, 2, 3)
        assert seen.spec_digest == order.tag.spec_digest

    def test_find_shows_an_object_as_soon_as_start_has_answered(self, play: Play) -> None:
        # F11: a list that came too early must not look like an absence.
        for a in range(1, 4):
            target = play.start(Work.LAST, a=a)
            assert target.ref in play.refs()

    def test_find_of_an_empty_cluster_is_complete(self, play: Play) -> None:
        found = play.whole()
        assert dict(found.by_job) == {}

    def test_find_takes_its_time_before_the_first_request(self, play: Play) -> None:
        earlier = play.whole()
        play.world.advance(1)
        later = play.whole()
        assert earlier.taken_at <= earlier.seen_at < later.taken_at <= later.seen_at

    def test_find_that_is_cut_is_incomplete_and_says_why(self, play: Play) -> None:
        # F05, F06: absence is no end, and an error of the question is no answer.
        target = play.run()
        with play.world.cut():
            found = play.scheduler.find()
            assert not found.complete
            assert found.error
        assert play.see(target).state is ObjectState.RUNNING

    def test_find_without_an_answer_is_unavailable(self, play: Play) -> None:
        target = play.run()
        with play.world.silent(), pytest.raises(SchedulerUnavailable):
            play.scheduler.find()
        assert play.see(target).state is ObjectState.RUNNING

    def test_find_leaves_out_what_carries_no_tag_of_ours(self, play: Play) -> None:
        target = play.run()
        alien = play.world.alien()
        found = play.whole()
        assert [s.ref for seen in found.by_job.values() for s in seen] == [target.ref]
        assert alien not in play.refs()

    def test_find_by_another_supervisor_shows_the_same(self, play: Play) -> None:
        target, seen = play.end(Work.FAIL)
        other = play.world.another().find()
        assert other.complete
        assert other.identity == play.whole().identity
        assert [s.ref for s in other.by_job[JOB]] == [target.ref]
        assert other.by_job[JOB][0].cause is seen.cause

    # --- how things end ---

    def test_success_is_seen(self, play: Play) -> None:
        _, seen = play.end(Work.SUCCEED)
        assert seen.state is ObjectState.SUCCEEDED
        assert seen.cause is None
        assert seen.ended_at is not None

    def test_failure_is_seen_with_its_exit_code(self, play: Play) -> None:
        _, seen = play.end(Work.FAIL)
        assert (seen.state, seen.cause) == (ObjectState.FAILED, Cause.APP_ERROR)
        assert seen.exit_code == (3 if play.can(Capability.EXIT_CODES) else None)

    def test_a_crash_is_seen_with_its_signal(self, play: Play) -> None:
        _, seen = play.end(Work.CRASH)
        assert (seen.state, seen.cause) == (ObjectState.FAILED, Cause.APP_ERROR)
        if play.can(Capability.EXIT_CODES):
            # Containers tell a signal by the shell's convention.
            assert seen.signal == 6 or seen.exit_code == 134

    def test_out_of_memory_is_seen_as_that(self, play: Play) -> None:
        # F23
        target, seen = play.end(Work.HOG)
        assert (seen.state, seen.cause) == (ObjectState.FAILED, Cause.OUT_OF_MEMORY)
        play.wait_for_none(target)

    def test_a_time_limit_is_seen_as_that(self, play: Play) -> None:
        target = play.run(Work.OVERRUN)
        play.world.advance(1)
        seen = play.wait_for_end(target)
        assert (seen.state, seen.cause) == (ObjectState.FAILED, Cause.TIMEOUT)
        play.wait_for_none(target)

    def test_preemption_is_seen_as_that(self, play: Play) -> None:
        # F21
        target = play.run()
        play.world.preempt(target.ref)
        seen = play.wait_for_end(target)
        assert seen.cause is Cause.PREEMPTED
        play.wait_for_none(target)

    def test_a_lost_node_is_seen_with_the_time_of_its_loss(self, play: Play) -> None:
        # F22: the word that a node is lost is no proof that its processes have ended.
        target = play.run()
        play.world.lose_node(target.ref)
        seen = play.wait_for_end(target)
        assert seen.cause is Cause.NODE_LOST
        assert seen.lost_at is not None
        play.world.advance(play.declared.node_loss_window_s + play.declared.clock_skew_s)
        play.wait_for_none(target)

    def test_somebody_elses_cancel_is_not_ours(self, play: Play) -> None:
        target = play.run()
        play.world.cancel(target.ref)
        seen = play.wait_for_end(target)
        assert seen.cause is Cause.STOPPED_OUTSIDE
        play.wait_for_none(target)

    def test_somebody_elses_hold_is_seen(self, play: Play) -> None:
        # F25
        target = play.start(Work.LAST)
        play.world.hold(target.ref)
        seen = play.wait_until(target, lambda s: s.held and s.holder is not None, "held outside")
        assert seen.state is ObjectState.PENDING
        assert seen.cause is Cause.HELD_OUTSIDE

    def test_an_ended_object_stays_visible_for_the_declared_retention(self, play: Play) -> None:
        target, seen = play.end(Work.FAIL)
        play.world.advance(max(0, play.declared.retention_s - 30))
        again = play.see(target)
        assert (again.state, again.cause, again.exit_code) == (
            seen.state,
            seen.cause,
            seen.exit_code,
        )

    def test_what_is_forgotten_is_absent_from_a_complete_find(self, play: Play) -> None:
        target, _ = play.end(Work.SUCCEED)
        play.world.forget(target.ref)
        play.world.until(lambda: play.look(target) is None, "the ended object is forgotten")
        assert play.scheduler.find().complete

    def test_what_is_live_is_never_forgotten(self, play: Play) -> None:
        target = play.run()
        ended, _ = play.end(Work.SUCCEED, OTHER_JOB)
        play.world.forget(ended.ref)
        play.world.until(lambda: play.look(ended) is None, "the ended object is forgotten")
        assert play.see(target).state is ObjectState.RUNNING

    def test_what_was_saved_survives_a_restart_of_the_cluster(self, play: Play) -> None:
        target, seen = play.end(Work.FAIL)
        waiting = play.start(Work.LAST, OTHER_JOB)
        play.world.advance(play.declared.save_window_s + play.declared.clock_skew_s)
        play.world.restart()
        play.world.until(lambda: play.look(target) is not None, "the cluster answers again")
        assert play.see(target).cause is seen.cause
        assert play.see(waiting).ref == waiting.ref

    def test_identities_are_never_used_again(self, play: Play) -> None:
        # F19
        target, _ = play.end(Work.SUCCEED)
        play.world.forget(target.ref)
        play.world.restart()
        later = [play.start(Work.LAST, a=a).ref for a in range(2, 5)]
        assert len({target.ref, *later}) == 4

    # --- start ---

    def test_start_creates_the_object_held_where_a_gate_is_declared(self, play: Play) -> None:
        target = play.start(Work.LAST)
        if play.can(Capability.GATED_START):
            play.settle_calls()
            seen = play.see(target)
            assert (seen.state, seen.held, seen.holder) == (ObjectState.PENDING, True, None)
            assert play.world.processes(target.ref) == 0
        else:
            play.wait(target, ObjectState.RUNNING)

    def test_start_refuses_for_good_what_lint_refuses(self, play: Play) -> None:
        spec, _ = play.world.refused_spec()
        order = replace(play.order(Work.LAST), spec=spec)
        answer = play.scheduler.start(order)
        assert isinstance(answer, StartRefused)
        assert answer.detail
        play.settle_calls()
        assert play.refs() == []

    def test_start_gives_the_processes_their_tag_and_epoch(self, play: Play) -> None:
        target = play.run(n=3, a=2)
        play.wait_for_processes(target)
        given = play.world.environment(target.ref)
        assert target.tag.environment().items() <= given.items()
        assert given["DISPATCH_EPOCH"] == "3000000"

    def test_start_obeys_what_the_plan_adjusts(self, play: Play) -> None:
        order = play.order(Work.HOG)
        enough = Adjust(memory_mb_per_node=(order.spec.memory_mb_per_node or 1) * 64)
        started = play.scheduler.start(replace(order, adjust=enough))
        assert isinstance(started, Started)
        target = Target(started.ref, order.tag)
        if play.can(Capability.GATED_START):
            play.scheduler.release(target)
        seen = play.wait_for_end(target)
        assert seen.cause is not Cause.OUT_OF_MEMORY

    def test_start_of_a_name_that_is_taken_by_this_tag_answers_its_object(self, play: Play) -> None:
        # F09
        order = play.order(Work.LAST)
        first, second = play.scheduler.start(order), play.scheduler.start(order)
        assert isinstance(first, Started)
        assert isinstance(second, Started)
        if play.can(Capability.UNIQUE_NAMES):
            assert second.ref == first.ref
            assert play.refs() == [first.ref]
        else:
            assert sorted(play.refs()) == sorted({first.ref, second.ref})

    def test_start_of_a_name_that_is_taken_by_another_is_refused(self, play: Play) -> None:
        order = play.order(Work.LAST)
        other = replace(order, tag=replace(order.tag, spec_digest=UNKNOWN_DIGEST))
        first, second = play.scheduler.start(order), play.scheduler.start(other)
        assert isinstance(first, Started)
        if play.can(Capability.UNIQUE_NAMES):
            assert isinstance(second, StartRefused)
            assert second.cause is Cause.NAME_TAKEN
            assert play.refs() == [first.ref]
        else:
            assert isinstance(second, Started)
            assert second.ref != first.ref

    def test_start_whose_reply_is_lost_is_unknown_and_was_sent_once(self, play: Play) -> None:
        # F01
        order = play.order(Work.LAST)
        with play.world.replies_lost(), pytest.raises(CallUnknown):
            play.scheduler.start(order)
        play.world.until(lambda: len(play.refs()) == 1, "the object has landed")
        play.settle_calls()
        assert len(play.refs()) == 1

    def test_start_that_doesnt_get_through_is_unknown(self, play: Play) -> None:
        with play.world.silent(), pytest.raises(CallUnknown):
            play.scheduler.start(play.order(Work.LAST))

    def test_start_lands_within_the_call_bound_or_never(self, play: Play) -> None:
        with play.world.silent(), pytest.raises(CallUnknown):
            play.scheduler.start(play.order(Work.LAST))
        play.settle_calls()
        refs = play.refs()
        play.settle_calls()
        assert play.refs() == refs

    # --- stop ---

    def test_stop_ends_the_whole_process_tree(self, play: Play) -> None:
        target = play.run()
        play.wait_for_processes(target)
        play.scheduler.stop(target)
        seen = play.wait_for_end(target)
        assert seen.cause is Cause.STOPPED or seen.state is ObjectState.GONE
        play.wait_for_none(target)

    def test_stop_of_what_never_ran_ends_it_too(self, play: Play) -> None:
        target = play.start(Work.LAST)
        play.scheduler.stop(target)
        play.world.until(
            lambda: (s := play.look(target)) is None or s.state in ENDED_STATES, "it has ended"
        )
        play.wait_for_none(target)

    def test_stop_is_repeatable(self, play: Play) -> None:
        target = play.run()
        for _ in range(3):
            play.scheduler.stop(target)
        play.wait_for_none(target)
        play.scheduler.stop(target)

    def test_stop_leaves_the_end_of_what_has_ended(self, play: Play) -> None:
        # F37 (f): a job that failed by itself isn't one that was stopped.
        target, seen = play.end(Work.FAIL)
        play.scheduler.stop(target)
        play.settle_calls()
        again = play.look(target)
        assert again is None or again.cause is seen.cause

    def test_stop_of_what_isnt_there_is_success(self, play: Play) -> None:
        # F37 (e)
        target = play.start(Work.LAST)
        play.scheduler.stop(nobody(target))
        assert play.see(target).state is ObjectState.PENDING

    def test_stop_of_what_was_forgotten_is_success(self, play: Play) -> None:
        target, _ = play.end(Work.SUCCEED)
        play.world.forget(target.ref)
        play.world.until(lambda: play.look(target) is None, "the ended object is forgotten")
        play.scheduler.stop(target)

    def test_stop_that_hits_another_tag_does_nothing(self, play: Play) -> None:
        target = play.run()
        for other in others_of(target):
            with pytest.raises(HitOther):
                play.scheduler.stop(other)
        play.settle_calls()
        assert play.see(target).state is ObjectState.RUNNING

    def test_stop_whose_reply_is_lost_is_unknown(self, play: Play) -> None:
        target = play.run()
        with play.world.replies_lost(), pytest.raises(CallUnknown):
            play.scheduler.stop(target)
        play.scheduler.stop(target)
        play.wait_for_none(target)

    def test_stop_that_doesnt_get_through_is_unknown(self, play: Play) -> None:
        target = play.run()
        with play.world.silent(), pytest.raises(CallUnknown):
            play.scheduler.stop(target)

    # --- hold ---

    def test_hold_keeps_a_pending_object_from_running(self, play: Play) -> None:
        target = play.start(Work.LAST)
        if not play.can(Capability.HOLD_PENDING):
            with pytest.raises(Unsupported):
                play.scheduler.hold(target)
            return
        play.scheduler.hold(target)
        seen = play.wait_until(target, lambda s: s.held, "held")
        assert seen.state is ObjectState.PENDING
        play.settle_calls()
        assert play.world.processes(target.ref) == 0

    def test_hold_of_a_running_object_makes_it_wait_without_processes(self, play: Play) -> None:
        target = play.run()
        if not play.can(Capability.HOLD_RUNNING):
            with pytest.raises(Unsupported):
                play.scheduler.hold(target)
            assert play.see(target).state is ObjectState.RUNNING
            return
        play.scheduler.hold(target)
        seen = play.wait_until(
            target, lambda s: s.held and s.state is ObjectState.PENDING, "held and pending"
        )
        assert seen.holder is None
        play.wait_for_none(target)

    def test_hold_of_what_has_ended_is_refused(self, play: Play) -> None:
        target, _ = play.end(Work.SUCCEED)
        with pytest.raises((CallRefused, Unsupported)):
            play.scheduler.hold(target)

    def test_hold_of_what_isnt_there_is_refused(self, play: Play) -> None:
        target = play.start(Work.LAST)
        with pytest.raises((CallRefused, Unsupported)):
            play.scheduler.hold(nobody(target))

    def test_hold_that_hits_another_tag_does_nothing(self, play: Play) -> None:
        target = play.start(Work.LAST)
        for other in others_of(target):
            with pytest.raises(HitOther if self._holds(play) else Unsupported):
                play.scheduler.hold(other)

    def test_hold_whose_reply_is_lost_is_unknown(self, play: Play) -> None:
        target = play.run() if play.can(Capability.HOLD_RUNNING) else play.start(Work.LAST)
        expected = CallUnknown if self._holds(play) else Unsupported
        with play.world.replies_lost(), pytest.raises(expected):
            play.scheduler.hold(target)

    def test_hold_that_doesnt_get_through_is_unknown(self, play: Play) -> None:
        target = play.run() if play.can(Capability.HOLD_RUNNING) else play.start(Work.LAST)
        expected = CallUnknown if self._holds(play) else Unsupported
        with play.world.silent(), pytest.raises(expected):
            play.scheduler.hold(target)

    def _holds(self, play: Play) -> bool:
        return play.can(Capability.HOLD_PENDING) or play.can(Capability.HOLD_RUNNING)

    # --- release ---

    def test_release_opens_the_gate(self, play: Play) -> None:
        target = play.start(Work.LAST)
        if not self._releases(play):
            with pytest.raises(Unsupported):
                play.scheduler.release(target)
            return
        play.scheduler.release(target)
        seen = play.wait(target, ObjectState.RUNNING)
        assert not seen.held
        play.wait_for_processes(target)

    def test_release_lifts_our_hold(self, play: Play) -> None:
        target = play.start(Work.LAST)
        if not play.can(Capability.HOLD_PENDING):
            with pytest.raises(Unsupported):
                play.scheduler.hold(target)
            return
        play.scheduler.hold(target)
        play.wait_until(target, lambda s: s.held, "held")
        play.scheduler.release(target)
        play.wait(target, ObjectState.RUNNING)

    def test_release_lifts_our_hold_of_what_ran(self, play: Play) -> None:
        target = play.run()
        if not play.can(Capability.HOLD_RUNNING):
            with pytest.raises(Unsupported):
                play.scheduler.hold(target)
            return
        play.scheduler.hold(target)
        play.wait_until(target, lambda s: s.held, "held")
        play.wait_for_none(target)
        play.scheduler.release(target)
        play.wait(target, ObjectState.RUNNING)
        play.wait_for_processes(target)

    def test_release_is_repeatable(self, play: Play) -> None:
        target = play.start(Work.LAST)
        if not self._releases(play):
            with pytest.raises(Unsupported):
                play.scheduler.release(target)
            return
        for _ in range(3):
            play.scheduler.release(target)
        seen = play.wait(target, ObjectState.RUNNING)
        play.scheduler.release(target)
        play.settle_calls()
        assert play.see(target).restarts == seen.restarts == 0

    def test_release_never_runs_what_somebody_else_holds_without_saying_so(
        self, play: Play
    ) -> None:
        # F25: either it lifts the hold, or it is refused; it never looks as if it had worked.
        target = play.start(Work.LAST)
        play.world.hold(target.ref)
        play.wait_until(target, lambda s: s.holder is not None, "held outside")
        if not self._releases(play):
            with pytest.raises(Unsupported):
                play.scheduler.release(target)
            return
        try:
            play.scheduler.release(target)
            play.scheduler.release(target)
        except CallRefused:
            play.settle_calls()
            seen = play.see(target)
            assert (seen.state, seen.held) == (ObjectState.PENDING, True)
        else:
            play.wait(target, ObjectState.RUNNING)

    def test_release_that_hits_another_tag_does_nothing(self, play: Play) -> None:
        target = play.start(Work.LAST)
        for other in others_of(target):
            with pytest.raises(HitOther if self._releases(play) else Unsupported):
                play.scheduler.release(other)
        if play.can(Capability.GATED_START):
            play.settle_calls()
            assert play.see(target).held

    def test_release_whose_reply_is_lost_is_unknown(self, play: Play) -> None:
        target = play.start(Work.LAST)
        expected = CallUnknown if self._releases(play) else Unsupported
        with play.world.replies_lost(), pytest.raises(expected):
            play.scheduler.release(target)
        if self._releases(play):
            play.scheduler.release(target)
            play.wait(target, ObjectState.RUNNING)

    def test_release_that_doesnt_get_through_is_unknown(self, play: Play) -> None:
        target = play.start(Work.LAST)
        expected = CallUnknown if self._releases(play) else Unsupported
        with play.world.silent(), pytest.raises(expected):
            play.scheduler.release(target)

    def _releases(self, play: Play) -> bool:
        return play.can(Capability.GATED_START) or self._holds(play)

    # --- requeue ---

    def test_requeue_runs_the_same_live_object_again_from_the_start(self, play: Play) -> None:
        target = play.run(n=2)
        if not play.can(Capability.REQUEUE_LIVE):
            with pytest.raises(Unsupported):
                play.scheduler.requeue(target)
            assert play.see(target).restarts == 0
            return
        play.wait_for_processes(target)
        play.scheduler.requeue(target)
        play.wait_until(target, lambda s: s.restarts == 1, "restarted once")
        play.wait(target, ObjectState.RUNNING)
        play.world.until(lambda: self._epoch(play, target) == "2000001", "the new run's epoch")
        assert play.refs() == [target.ref]

    def test_requeue_runs_an_ended_object_again(self, play: Play) -> None:
        target, _ = play.end(Work.FAIL)
        if not play.can(Capability.REQUEUE_ENDED):
            with pytest.raises((Unsupported, CallRefused)):
                play.scheduler.requeue(target)
            return
        play.scheduler.requeue(target)
        play.wait_until(
            target, lambda s: s.restarts == 1 and s.state in ENDED_STATES, "ended once more"
        )

    def test_requeue_with_other_restarts_than_recorded_does_nothing(self, play: Play) -> None:
        target = play.run()
        if not play.can(Capability.REQUEUE_LIVE):
            with pytest.raises(Unsupported):
                play.scheduler.requeue(target)
            return
        play.scheduler.requeue(target)
        play.wait_until(target, lambda s: s.restarts == 1, "restarted once")
        play.wait(target, ObjectState.RUNNING)
        with pytest.raises(CallRefused):
            play.scheduler.requeue(target)
        play.settle_calls()
        assert play.see(target).restarts == 1

    def test_requeue_of_what_waits_is_refused(self, play: Play) -> None:
        target = play.start(Work.LAST)
        with pytest.raises(CallRefused if self._requeues(play) else Unsupported):
            play.scheduler.requeue(target)

    def test_requeue_of_what_isnt_there_is_refused(self, play: Play) -> None:
        target = play.start(Work.LAST)
        with pytest.raises(CallRefused if self._requeues(play) else Unsupported):
            play.scheduler.requeue(nobody(target))

    def test_requeue_that_hits_another_tag_does_nothing(self, play: Play) -> None:
        target = play.run()
        for other in others_of(target):
            with pytest.raises(HitOther if self._requeues(play) else Unsupported):
                play.scheduler.requeue(other)
        play.settle_calls()
        assert play.see(target).restarts == 0

    def test_requeue_whose_reply_is_lost_is_unknown_and_was_sent_once(self, play: Play) -> None:
        target = play.run()
        expected = CallUnknown if self._requeues(play) else Unsupported
        with play.world.replies_lost(), pytest.raises(expected):
            play.scheduler.requeue(target)
        play.settle_calls()
        assert play.see(target).restarts <= 1

    def test_requeue_that_doesnt_get_through_is_unknown(self, play: Play) -> None:
        target = play.run()
        expected = CallUnknown if self._requeues(play) else Unsupported
        with play.world.silent(), pytest.raises(expected):
            play.scheduler.requeue(target)

    def _requeues(self, play: Play) -> bool:
        return play.can(Capability.REQUEUE_LIVE)

    def _epoch(self, play: Play, target: Target) -> str | None:
        if play.world.processes(target.ref) == 0:
            return None
        return play.world.environment(target.ref).get("DISPATCH_EPOCH")

    # --- lookup, output, acknowledge ---

    def test_lookup_knows_what_a_find_has_forgotten(self, play: Play) -> None:
        target, seen = play.end(Work.FAIL)
        if not play.can(Capability.LOOKUP):
            with pytest.raises(Unsupported):
                play.scheduler.lookup([target], [sent(play, target.tag)])
            return
        play.world.advance(play.declared.lookup_lag_s)
        play.world.forget(target.ref)
        play.world.until(lambda: play.look(target) is None, "the ended object is forgotten")
        answer = play.scheduler.lookup([target], [])
        assert [s.ref for s in answer.sightings] == [target.ref]
        assert answer.sightings[0].cause is seen.cause
        assert answer.unknown == frozenset()

    def test_lookup_says_what_it_doesnt_know(self, play: Play) -> None:
        target = play.start(Work.LAST)
        never = replace(target.tag, n=7, a=5)
        if not play.can(Capability.LOOKUP):
            with pytest.raises(Unsupported):
                play.scheduler.lookup([], [sent(play, never)])
            return
        answer = play.scheduler.lookup([nobody(target)], [sent(play, never)])
        assert answer.unknown == {nobody(target).ref, "7.5"}

    def test_lookup_without_an_answer_concludes_nothing(self, play: Play) -> None:
        target = play.start(Work.LAST)
        expected = SchedulerUnavailable if play.can(Capability.LOOKUP) else Unsupported
        with play.world.silent(), pytest.raises(expected):
            play.scheduler.lookup([target], [])

    def test_output_comes_in_pieces_that_fit_together(self, play: Play) -> None:
        target, _ = play.end(Work.FAIL)
        if not play.can(Capability.OUTPUT):
            with pytest.raises(Unsupported):
                play.scheduler.output(target, offset=0, limit=100)
            return
        whole = play.scheduler.output(target, offset=0, limit=100_000)
        assert whole.text
        assert whole.ended
        text, offset, ended = "", 0, False
        while not ended:
            piece = play.scheduler.output(target, offset=offset, limit=5)
            assert len(piece.text.encode()) <= 5
            text, offset, ended = text + piece.text, piece.next_offset, piece.ended
        assert text == whole.text

    def test_output_of_what_runs_has_not_ended(self, play: Play) -> None:
        target = play.run()
        if not play.can(Capability.OUTPUT):
            with pytest.raises(Unsupported):
                play.scheduler.output(target, offset=0, limit=100)
            return
        assert not play.scheduler.output(target, offset=0, limit=100).ended

    def test_output_that_cant_be_read_now_is_unavailable(self, play: Play) -> None:
        target = play.run()
        expected = SchedulerUnavailable if play.can(Capability.OUTPUT) else Unsupported
        with play.world.silent(), pytest.raises(expected):
            play.scheduler.output(target, offset=0, limit=100)

    def test_acknowledge_lets_go_of_ended_objects_where_evidence_is_kept(self, play: Play) -> None:
        target, _ = play.end(Work.FAIL)
        scheduler = play.scheduler
        if isinstance(scheduler, KeepsEvidence):
            play.world.until(lambda: play.look(target) is not None, "its evidence is kept")
            scheduler.acknowledge([target])
            scheduler.acknowledge([target])
            play.world.until(lambda: play.look(target) is None, "its evidence is let go of")
        else:
            # Nothing is kept for us: time alone makes it forget.
            assert play.see(target).state in ENDED_STATES
            play.world.forget(target.ref)
            play.world.until(lambda: play.look(target) is None, "the ended object is forgotten")

    # --- two at once ---

    def test_two_supervisors_see_each_others_calls(self, play: Play) -> None:
        target = play.start(Work.LAST)
        other = play.world.another()
        if play.can(Capability.GATED_START):
            other.release(target)
        play.wait(target, ObjectState.RUNNING)
        other.stop(target)
        play.wait_for_none(target)
