"""What is left when a supervisor, a runner or the machine dies, and who brings it in order."""

import fcntl
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dispatch.errors import CallUnknown
from dispatch.record.header import LocalSpec
from dispatch.record.names import Cause, ObjectState
from dispatch.schedulers.local import adapter, processes, spool
from dispatch.schedulers.scheduler import Started, Tag, Target
from tests.conformance.scheduler.world import Work
from tests.schedulers.local.play import Local
from tests.schedulers.local.world import CLUSTER

SUPERVISOR = """
    import os, signal, sys
    from datetime import UTC, datetime
    from pathlib import Path
    from dispatch.record.header import Spec
    from dispatch.schedulers.local.adapter import LocalScheduler
    from dispatch.schedulers.scheduler import StartOrder, Tag, Target

    scheduler = LocalScheduler(Path(sys.argv[1]), "here", lambda: datetime.now(UTC))
    spec = Spec(name="work", command=("sh", "-c", sys.argv[2]))
    tag = Tag("jobofatest", 1, 1, "a" * 64, 0)
    started = scheduler.start(StartOrder(tag, spec, None, "somebody", False))
    if sys.argv[3] == "release":
        scheduler.release(Target(started.ref, tag))
    print(started.ref, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
TAG = Tag("jobofatest", 1, 1, "a" * 64, 0)


def supervisor(spool_dir: Path, script: str, then: str = "release") -> subprocess.Popen[str]:
    """Start a process that starts an object and is then killed by a signal nobody can catch."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SUPERVISOR), str(spool_dir), script, then],
        stdout=subprocess.PIPE,
        text=True,
    )


def ref_from(process: subprocess.Popen[str]) -> str:
    with process:
        assert process.stdout is not None
        ref = process.stdout.readline().strip()
    assert process.returncode == -signal.SIGKILL
    return ref


def test_a_job_outlives_its_supervisor_and_the_next_one_sees_its_exit_code(local: Local) -> None:
    gate = local.world.spool_dir.parent / "gate"
    script = f"while [ ! -e {gate} ]; do sleep 0.02; done; exit 5"
    ref = ref_from(supervisor(local.world.spool_dir, script))
    target = Target(ref, TAG)
    local.wait(target, ObjectState.RUNNING)
    gate.touch()
    seen = local.wait_for_end(target)
    assert (seen.cause, seen.exit_code) == (Cause.APP_ERROR, 5)


def test_an_object_behind_its_gate_outlives_its_supervisor(local: Local) -> None:
    target = Target(ref_from(supervisor(local.world.spool_dir, "exit 5", "leave")), TAG)
    assert local.see(target).held
    local.scheduler.release(target)
    assert local.wait_for_end(target).exit_code == 5


def test_eight_supervisors_that_start_one_tag_at_once_make_one_object(local: Local) -> None:
    all_at_once = [supervisor(local.world.spool_dir, "echo began; sleep 300") for _ in range(8)]
    refs = {ref_from(process) for process in all_at_once}
    assert len(refs) == 1
    assert local.refs("jobofatest") == list(refs)
    target = Target(refs.pop(), TAG)
    local.wait_for_text(target, "began")
    local.scheduler.stop(target)
    assert local.wait_for_end(target).restarts == 0
    assert local.text(target).count("began") == 1


def test_a_killed_runner_leaves_a_lost_object_and_no_process(local: Local) -> None:
    target = local.run(Work.LAST)
    local.world.until(lambda: local.world.processes(target.ref) >= 3, "its daemon lives too")
    os.kill(local.world.runner_of(target.ref), signal.SIGKILL)
    seen = local.wait_for_end(target)
    assert (seen.state, seen.cause) == (ObjectState.FAILED, Cause.LOST)
    assert seen.lost_at is not None
    assert local.world.processes(target.ref) == 0


def test_an_object_isnt_said_to_have_ended_while_a_process_of_it_lives(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = local.run(Work.LAST)
    local.world.until(lambda: local.world.processes(target.ref) >= 3, "its daemon lives too")
    monkeypatch.setattr(processes, "send", lambda process, number: None)
    os.kill(local.world.runner_of(target.ref), signal.SIGKILL)
    local.world.until(lambda: _no_runner(local, target), "its runner is gone")
    for _ in range(2):
        assert local.see(target).state is ObjectState.RUNNING
        assert local.world.processes(target.ref) > 0
    monkeypatch.undo()
    assert local.wait_for_end(target).cause is Cause.LOST


def _no_runner(local: Local, target: Target) -> bool:
    try:
        local.world.runner_of(target.ref)
    except LookupError:
        return True
    return False


def test_a_stop_of_an_object_whose_runner_was_killed_is_a_stop(local: Local) -> None:
    target = local.run(Work.LAST)
    os.kill(local.world.runner_of(target.ref), signal.SIGKILL)
    local.scheduler.stop(target)
    seen = local.wait_for_end(target)
    assert seen.cause is Cause.STOPPED
    assert seen.lost_at is not None
    assert local.world.processes(target.ref) == 0


def test_a_requeue_of_an_object_whose_runner_was_killed_runs_it_again(local: Local) -> None:
    target = local.run(Work.LAST)
    os.kill(local.world.runner_of(target.ref), signal.SIGKILL)
    local.scheduler.requeue(target)
    seen = local.wait_until(
        target, lambda s: s.restarts == 1 and s.state is ObjectState.RUNNING, "running again"
    )
    assert seen.lost_at is None
    local.wait_for_processes(target)
    assert local.world.environment(target.ref)["DISPATCH_EPOCH"] == "1000001"


def test_a_runner_that_is_told_to_end_ends_its_run_in_order(local: Local) -> None:
    script = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    target = local.shell(script, local=LocalSpec(grace_s=60))
    local.wait_for_text(target, "ready")
    os.kill(local.world.runner_of(target.ref), signal.SIGTERM)
    assert local.wait_for_end(target).cause is Cause.NODE_SHUTDOWN
    assert "saved\n" in local.text(target)


@pytest.fixture
def reboot(monkeypatch: pytest.MonkeyPatch, local: Local) -> object:
    def after_killing(target: Target | None) -> None:
        """Kill what runs, as a reboot does, and come back as another boot of the machine."""
        if target is not None:
            os.kill(local.world.runner_of(target.ref), signal.SIGKILL)
            local.world.until(lambda: _no_runner(local, target), "its runner is gone")
            processes.kill_until_none(lambda: processes.marked(target.ref), 10.0)
        monkeypatch.setattr(processes, "boot_id", lambda: "another boot")

    return after_killing


def test_what_ran_before_a_reboot_lost_its_node(local: Local, reboot: object) -> None:
    target = local.run(Work.LAST)
    assert callable(reboot)
    reboot(target)
    seen = local.wait_for_end(target)
    assert (seen.cause, seen.reason) == (
        Cause.NODE_LOST,
        "the machine was started anew while it ran",
    )
    assert seen.lost_at is not None


def test_what_waited_before_a_reboot_waits_after_it(local: Local, reboot: object) -> None:
    target = local.start(Work.LAST)
    assert callable(reboot)
    reboot(None)
    assert local.see(target).held
    local.scheduler.release(target)
    local.wait(target, ObjectState.RUNNING)


def test_what_was_due_when_everything_stopped_is_started_by_whoever_looks_next(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = local.start(Work.LAST)
    # The release is written, and its supervisor dies before it has started a runner.
    monkeypatch.setattr(spool.Folder, "spawn", lambda self: None)
    local.scheduler.release(target)
    monkeypatch.undo()
    assert local.world.processes(target.ref) == 0
    local.wait(target, ObjectState.RUNNING)
    local.wait_for_processes(target)


def test_two_who_look_at_once_start_one_runner(local: Local) -> None:
    target = local.start(Work.LAST)
    folder = spool.Folder(local.world.folder(target.ref))
    with folder.locked(1.0):
        first = folder.spawn()
        assert folder.runner_alive()
        assert folder.spawn() is None
    assert first is not None
    assert spool.detached(first)


# --- a frozen supervisor ----------------------------------------------------------------------


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold a lock as a process does that was frozen while it had it."""
    handle = os.open(path, os.O_RDWR)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(handle)


@pytest.fixture
def hasty(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    assert local.declared.request_timeout_s == adapter.REQUEST_TIMEOUT_S
    monkeypatch.setattr(adapter, "REQUEST_TIMEOUT_S", 0.05)


@pytest.mark.usefixtures("hasty")
def test_a_frozen_supervisor_makes_calls_unknown_and_finds_incomplete(local: Local) -> None:
    target = local.run(Work.LAST)
    with held(local.world.folder(target.ref) / "lock"):
        with pytest.raises(CallUnknown):
            local.scheduler.stop(target)
        found = local.scheduler.find()
    assert not found.complete
    assert "lock" in (found.error or "")
    assert local.see(target).state is ObjectState.RUNNING


@pytest.mark.usefixtures("hasty")
def test_a_start_that_waits_too_long_starts_nothing(local: Local) -> None:
    with held(local.world.spool_dir / "lock"), pytest.raises(CallUnknown):
        local.start(Work.LAST)
    assert local.whole().by_job == {}
    assert list((local.world.spool_dir / "new").iterdir()) == []


def test_a_start_that_was_frozen_starts_nothing_when_it_goes_on(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    # F43: frozen for a quarter of an hour after it had begun.
    times = iter([100.0, 1000.0])
    monkeypatch.setattr(processes, "uptime_s", lambda: next(times))
    with pytest.raises(CallUnknown, match="too long"):
        local.start(Work.LAST)
    monkeypatch.undo()
    assert local.whole().by_job == {}


def test_a_requeue_that_was_frozen_does_nothing_when_it_goes_on(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = local.run(Work.LAST)
    times = iter([100.0, 1000.0])
    monkeypatch.setattr(processes, "uptime_s", lambda: next(times))
    with pytest.raises(CallUnknown, match="too long"):
        local.scheduler.requeue(target)
    monkeypatch.undo()
    assert local.see(target).restarts == 0


def test_a_start_that_is_answered_names_the_cluster_in_its_ref(local: Local) -> None:
    started = local.scheduler.start(local.order(Work.LAST))
    assert isinstance(started, Started)
    assert started.ref.startswith(f"{CLUSTER}/jobconformance1.1.1/")
