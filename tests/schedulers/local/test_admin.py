"""What an operator may do to objects behind Dispatch's back, in Python and on the command line."""

import subprocess
import sys

import pytest

from dispatch.errors import CallRefused
from dispatch.record.names import Cause, ObjectState
from dispatch.schedulers.local import admin
from dispatch.schedulers.local.admin import Administrator
from dispatch.schedulers.local.life import Refused
from tests.conformance.scheduler.world import Work
from tests.schedulers.local.play import Local


@pytest.fixture
def alice(local: Local) -> Administrator:
    return Administrator(local.world.spool_dir, local.world.clock, by="alice")


def test_the_command_line_preempts(local: Local) -> None:
    target = local.run(Work.LAST)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "dispatch.schedulers.local.admin",
            str(local.world.spool_dir),
            "preempt",
            target.ref,
        ],
        check=False,
    )
    assert done.returncode == 0
    seen = local.wait_for_end(target)
    assert (seen.cause, seen.reason) == (Cause.PREEMPTED, "preempted by administrator")


def test_every_action_of_the_command_line_is_one_of_the_administrators() -> None:
    for action in admin.ACTIONS:
        assert callable(getattr(Administrator, action.replace("-", "_")))


def test_the_command_line_lists_and_says_what_it_cant_do(
    local: Local, capsys: pytest.CaptureFixture[str]
) -> None:
    target = local.start(Work.LAST)
    spool = str(local.world.spool_dir)
    assert admin.main([spool, "list"]) == 0
    assert capsys.readouterr().out == f"{target.ref}  pending held by dispatch\n"
    assert admin.main([spool, "preempt", target.ref]) == 1
    assert "not running" in capsys.readouterr().err
    assert admin.main([spool, "cancel", "here/none"]) == 1
    assert "no object" in capsys.readouterr().err


def test_somebody_elses_cancel_names_them(local: Local, alice: Administrator) -> None:
    target = local.run(Work.LAST)
    alice.cancel(target.ref)
    seen = local.wait_for_end(target)
    assert (seen.cause, seen.reason) == (Cause.STOPPED_OUTSIDE, "stopped by alice")


def test_somebody_elses_hold_stays_when_ours_is_lifted(local: Local, alice: Administrator) -> None:
    # F25
    target = local.start(Work.LAST)
    alice.hold(target.ref)
    local.scheduler.release(target)
    seen = local.see(target)
    assert (seen.held, seen.holder, seen.cause) == (True, "alice", Cause.HELD_OUTSIDE)
    with pytest.raises(CallRefused, match="alice"):
        local.scheduler.release(target)
    alice.release(target.ref)
    local.wait(target, ObjectState.RUNNING)


def test_somebody_else_may_release_what_we_hold(local: Local, alice: Administrator) -> None:
    target = local.start(Work.LAST)
    alice.release(target.ref)
    local.wait(target, ObjectState.RUNNING)


def test_somebody_elses_requeue_is_seen_as_one_restart(local: Local, alice: Administrator) -> None:
    target, _ = local.end(Work.SUCCEED)
    alice.requeue(target.ref)
    local.wait_until(
        target, lambda s: s.restarts == 1 and s.state is ObjectState.SUCCEEDED, "run again"
    )


def test_only_what_runs_can_be_preempted_or_lose_its_node(
    local: Local, alice: Administrator
) -> None:
    target = local.start(Work.LAST)
    for disrupt in (alice.preempt, alice.lose_node):
        with pytest.raises(Refused):
            disrupt(target.ref)


def test_an_object_that_lost_its_node_may_be_requeued_and_runs_alone(
    local: Local, alice: Administrator
) -> None:
    target = local.run(Work.LAST)
    local.wait_for_processes(target)
    alice.lose_node(target.ref)
    alice.requeue(target.ref)
    local.wait_until(
        target, lambda s: s.restarts == 1 and s.state is ObjectState.RUNNING, "running again"
    )
    local.world.until(
        lambda: local.world.environment(target.ref).get("DISPATCH_EPOCH") == "1000001",
        "only the new run's processes live",
    )
