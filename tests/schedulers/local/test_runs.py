"""A run's processes: their ranks, their ends, and what decides between several."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import dispatch
from dispatch.record.header import Adjust, LocalSpec
from dispatch.record.names import Cause, ObjectState
from dispatch.schedulers.local import processes
from dispatch.schedulers.scheduler import Started, StartRefused, Target, TellsProgress
from tests.conformance.scheduler.world import Work
from tests.schedulers.local.play import Local

STUBBORN = "trap '' TERM; while :; do sleep 300; done"


def test_two_nodes_of_two_tasks_know_their_ranks(local: Local, tmp_path: Path) -> None:
    script = (
        "import json, os\n"
        "given = {k: v for k, v in os.environ.items() if k.startswith('DISPATCH_')}\n"
        "open('rank-' + given['DISPATCH_RANK'], 'w').write(json.dumps(given))"
    )
    target = local.begin_with(
        command=(sys.executable, "-S", "-c", script),
        nodes=2,
        tasks_per_node=2,
        workdir=str(tmp_path),
    )
    assert local.wait_for_end(target).state is ObjectState.SUCCEEDED
    ranks = [json.loads((tmp_path / f"rank-{rank}").read_text()) for rank in range(4)]
    assert [rank["DISPATCH_NODE_RANK"] for rank in ranks] == ["0", "0", "1", "1"]
    assert [rank["DISPATCH_LOCAL_RANK"] for rank in ranks] == ["0", "1", "0", "1"]
    for rank in ranks:
        assert rank["DISPATCH_NODES"] == "2"
        assert rank["DISPATCH_WORLD_SIZE"] == "4"
        assert rank["DISPATCH_MASTER_ADDR"] == "127.0.0.1"
        assert rank["DISPATCH_JOB_ID"] == target.tag.job
        assert rank["DISPATCH_OBJECT"] == target.ref


def test_each_node_has_a_name_and_a_file_of_its_own(local: Local) -> None:
    target = local.shell('echo "node $DISPATCH_NODE_RANK"', nodes=2)
    assert local.wait_for_end(target).nodes == ("here-0", "here-1")
    folder = local.world.folder(target.ref)
    assert (folder / "output-1.log").read_text() == "node 1\n"
    assert local.text(target) == "node 0\n"


def test_the_first_rank_that_fails_decides_and_the_others_are_ended(local: Local) -> None:
    seen = local.end_of(
        f'[ "$DISPATCH_RANK" = 2 ] && exit 7; {STUBBORN}', nodes=2, tasks_per_node=2
    )
    assert (seen.cause, seen.exit_code, seen.signal) == (Cause.APP_ERROR, 7, None)
    assert seen.reason == "rank 2 exited with 7"
    assert local.world.processes(seen.ref) == 0


def test_a_signal_that_ends_a_rank_is_told_from_an_exit_code(local: Local) -> None:
    seen = local.end_of("kill -SEGV $$")
    assert (seen.cause, seen.exit_code, seen.signal) == (Cause.APP_ERROR, None, signal.SIGSEGV)


def test_success_is_every_ranks_success(local: Local) -> None:
    seen = local.end_of('[ "$DISPATCH_RANK" = 1 ] && sleep 0.1; true', tasks_per_node=2)
    assert (seen.state, seen.exit_code) == (ObjectState.SUCCEEDED, 0)


def test_what_a_finished_task_leaves_in_the_background_is_ended(local: Local) -> None:
    seen = local.end_of(f'(setsid sh -c "{STUBBORN}" &); exit 0')
    assert seen.state is ObjectState.SUCCEEDED
    assert local.world.processes(seen.ref) == 0


def test_stop_reaches_a_grandchild_that_forked_twice_and_left_the_session(local: Local) -> None:
    daemon = "import os, time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n"
    daemon += "open('daemon', 'w').write(str(os.getpid()))\ntime.sleep(300)"
    target = local.begin_with(
        command=("sh", "-c", 'env -i "$0" -S -c "$1"; sleep 300', sys.executable, daemon)
    )
    pid_file = local.world.folder(target.ref) / "work" / "daemon"
    local.world.until(lambda: pid_file.exists() and pid_file.read_text() != "", "the daemon runs")
    daemon_pid = int(pid_file.read_text())
    # It carries no mark any more: only its descent tells whose it is.
    assert processes.MARK not in processes.environment(daemon_pid)
    assert os.getsid(daemon_pid) != os.getsid(0)
    local.scheduler.stop(target)
    assert local.wait_for_end(target).cause is Cause.STOPPED
    assert processes.read(daemon_pid) is None


OVERLOOKED = """
import os, signal, time
from dispatch.schedulers.local import processes
from dispatch.schedulers.local.life import End, Life
from dispatch.schedulers.local.memory import Unlimited
from dispatch.schedulers.local.run import Run
from types import SimpleNamespace

processes.descendants = lambda root: []
run = Run(SimpleNamespace(time_limit_s=None, grace_s=0), 0, Unlimited())
run.verdict = End(None)
child = os.fork()
if not child:
    time.sleep(300)
assert not run.over(Life(), False)
os.kill(child, signal.SIGKILL)
while not run.over(Life(), False):
    time.sleep(0.01)
"""


def test_a_run_isnt_over_while_a_process_lives_that_a_look_has_missed() -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-c", OVERLOOKED],
        env={"PYTHONPATH": str(Path(dispatch.__file__).parent.parent)},
        timeout=60,
        check=False,
    )
    assert done.returncode == 0


def test_a_stop_is_polite_first_and_waits_for_the_grace(local: Local) -> None:
    script = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    target = local.shell(script, local=LocalSpec(grace_s=60))
    local.wait_for_text(target, "ready")
    local.scheduler.stop(target)
    seen = local.wait_for_end(target)
    assert seen.cause is Cause.STOPPED
    assert "saved\n" in local.text(target)


def test_what_ignores_the_polite_signal_is_killed_after_the_grace(local: Local) -> None:
    target = local.shell(f"echo ready; {STUBBORN}", local=LocalSpec(grace_s=1))
    local.wait_for_text(target, "ready")
    local.scheduler.stop(target)
    assert local.see(target).state is ObjectState.ENDING
    seen = local.wait_for_end(target)
    assert (seen.cause, seen.signal) == (Cause.STOPPED, signal.SIGKILL)


def test_what_is_stopped_by_a_signal_can_still_be_ended(local: Local) -> None:
    target = local.shell(
        "trap 'exit 0' TERM; echo ready; kill -STOP $$", local=LocalSpec(grace_s=60)
    )
    local.wait_for_text(target, "ready")
    local.scheduler.stop(target)
    assert local.wait_for_end(target).cause is Cause.STOPPED


def test_a_job_that_outruns_its_time_limit_is_ended(local: Local) -> None:
    seen = local.end_of(STUBBORN, time_limit_s=1)
    assert (seen.state, seen.cause) == (ObjectState.FAILED, Cause.TIMEOUT)
    assert seen.reason == "it ran for 1 s, its time limit"


@pytest.mark.parametrize(
    ("command", "code"), [("no-such-command-anywhere", 127), ("/etc/passwd", 126)]
)
def test_a_command_that_cant_be_started_ends_as_a_shell_would_say_it(
    local: Local, command: str, code: int
) -> None:
    seen = local.wait_for_end(local.begin_with(command=(command,)))
    assert (seen.cause, seen.exit_code) == (Cause.APP_ERROR, code)
    assert command in (seen.reason or "")


def test_a_folder_that_has_gone_since_the_start_is_a_failed_launch(
    local: Local, tmp_path: Path
) -> None:
    (tmp_path / "work").mkdir()
    order = local.order_of(local.world.spec(Work.LAST, workdir=str(tmp_path / "work")))
    started = local.scheduler.start(order)
    assert isinstance(started, Started)
    (tmp_path / "work").rmdir()
    target = Target(started.ref, order.tag)
    local.scheduler.release(target)
    seen = local.wait_for_end(target)
    assert seen.cause is Cause.LAUNCH_FAILED
    assert str(tmp_path / "work") in (seen.reason or "")


def test_a_script_runs_by_its_first_line(local: Local) -> None:
    target = local.begin_with(command=None, script="#!/bin/sh\necho from a script\n")
    assert local.wait_for_end(target).state is ObjectState.SUCCEEDED
    assert local.text(target) == "from a script\n"


def test_a_secret_reaches_the_process_and_not_the_spool(local: Local, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hunter2\n")
    target = local.shell(
        'test "${#TOKEN}" = 7 && echo it is', secrets={"TOKEN": f"file:{tmp_path}/token"}
    )
    local.wait_for_end(target)
    assert local.text(target) == "it is\n"
    for file in local.world.folder(target.ref).iterdir():
        assert not file.is_file() or "hunter2" not in file.read_text()


def test_a_secret_that_isnt_there_is_a_failed_launch(local: Local) -> None:
    seen = local.end_of("true", secrets={"TOKEN": "file:/nowhere/token"})
    assert seen.cause is Cause.LAUNCH_FAILED
    assert "TOKEN" in (seen.reason or "")


def test_the_supervisors_credentials_dont_reach_the_job(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of the supervisor")
    target = local.shell("env", env={"MINE": "yes"})
    local.wait_for_end(target)
    assert "MINE=yes" in local.text(target)
    assert "AWS_" not in local.text(target)
    assert "PYTHONPATH" not in local.text(target)


def test_output_goes_where_the_spec_says_and_starts_with_this_object(
    local: Local, tmp_path: Path
) -> None:
    (tmp_path / "train.log").write_text("an earlier submission\n")
    spec = {"workdir": str(tmp_path), "output": "train.log", "nodes": 2}
    target = local.shell('echo "node $DISPATCH_NODE_RANK"', **spec)
    local.wait_for_end(target)
    assert local.text(target) == "node 0\n"
    assert (tmp_path / "train.log").read_text() == "an earlier submission\nnode 0\n"
    assert (tmp_path / "train.log.1").read_text() == "node 1\n"


def test_output_that_is_no_text_is_shown_all_the_same(local: Local) -> None:
    target = local.shell(r"printf 'a\377b\303'")
    local.wait_for_end(target)
    piece = local.scheduler.output(target, offset=0, limit=100)
    assert (piece.text, piece.next_offset, piece.ended) == ("a\ufffdb\ufffd", 4, True)


@pytest.mark.parametrize("offset", [3, 2**44, 2**53])
def test_past_its_end_output_is_empty_however_far(local: Local, offset: int) -> None:
    target = local.shell("printf ab")
    local.wait_for_end(target)
    piece = local.scheduler.output(target, offset=offset, limit=100)
    assert (piece.text, piece.next_offset, piece.ended) == ("", offset, True)


def test_output_of_every_run_of_an_object_is_kept(local: Local) -> None:
    target = local.shell('echo "epoch $DISPATCH_EPOCH"', n=2)
    local.wait_for_end(target)
    local.scheduler.requeue(target)
    local.wait_until(
        target, lambda s: s.state is ObjectState.SUCCEEDED and s.restarts == 1, "again"
    )
    assert local.text(target) == "epoch 2000000\nepoch 2000001\n"


def test_a_requeue_begins_only_when_the_earlier_run_is_gone(local: Local, tmp_path: Path) -> None:
    script = "[ -e alone ] && exit 9; touch alone; trap 'sleep 0.1; rm alone; exit 0' TERM; "
    script += "echo ready; while :; do sleep 0.05; done"
    target = local.shell(script, workdir=str(tmp_path), local=LocalSpec(grace_s=60))
    local.wait_for_text(target, "ready")
    local.scheduler.requeue(target)
    seen = local.see(target)
    assert (seen.state, seen.restarts) == (ObjectState.PENDING, 1)
    local.world.until(lambda: local.text(target).count("ready") == 2, "it is ready again")
    assert local.see(target).state is ObjectState.RUNNING


def test_a_stop_during_a_requeue_wins(local: Local) -> None:
    script = "trap 'sleep 0.1; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    target = local.shell(script, local=LocalSpec(grace_s=60))
    local.wait_for_text(target, "ready")
    local.scheduler.requeue(target)
    local.scheduler.stop(target)
    seen = local.wait_for_end(target)
    assert (seen.cause, seen.restarts) == (Cause.STOPPED, 1)
    assert local.text(target).count("ready") == 1


def test_more_memory_by_the_plan_is_what_is_enforced(local: Local) -> None:
    order = local.order_of(
        local.world.spec(Work.LAST, memory_mb_per_node=64), adjust=Adjust(memory_mb_per_node=128)
    )
    started = local.scheduler.start(order)
    assert isinstance(started, Started)
    kept = json.loads((local.world.folder(started.ref) / "order.json").read_text())
    assert kept["memory_mb"] == 128


def test_a_node_that_cant_be_avoided_is_said_so(local: Local) -> None:
    order = local.order_of(local.world.spec(Work.LAST), adjust=Adjust(avoid_nodes=("here-0",)))
    started = local.scheduler.start(order)
    assert isinstance(started, Started)
    assert started.notes == ("there is only this machine, so no node of it can be avoided",)


def test_a_folder_to_work_in_that_isnt_there_is_refused_at_once(local: Local) -> None:
    order = local.order_of(local.world.spec(Work.LAST, workdir="/nowhere/at/all"))
    refused = local.scheduler.start(order)
    assert isinstance(refused, StartRefused)
    assert refused.cause is Cause.INVALID_SPEC
    assert "workdir" in refused.detail


def test_a_runner_is_small_because_it_loads_only_the_standard_library() -> None:
    loaded = subprocess.run(
        [
            sys.executable,
            "-S",
            "-c",
            "import sys, dispatch.schedulers.local.runner\n"
            "print(*sorted({m.partition('.')[0] for m in sys.modules}), sep='\\n')",
        ],
        env={"PYTHONPATH": str(Path(dispatch.__file__).parent.parent)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    own = {"dispatch", "__main__"}
    assert set(loaded) - own <= set(sys.stdlib_module_names) | set(sys.builtin_module_names)


def test_when_a_run_last_wrote_can_be_told_of_any_of_its_nodes(local: Local) -> None:
    assert isinstance(local.scheduler, TellsProgress)
    silent = local.shell("exec sleep 60")
    assert local.scheduler.written_at(silent) is None
    target = local.shell('test "$DISPATCH_NODE_RANK" = 0 || echo now', n=2, nodes=2)
    seen = local.wait_for_end(target)
    written = local.scheduler.written_at(target)
    assert written is not None
    assert seen.started_at is not None
    assert seen.ended_at is not None
    # A file's time is of the kernel's tick, which lags a little.
    assert seen.started_at.timestamp() - 0.1 <= written.timestamp() <= seen.ended_at.timestamp()
    gone = replace(target, ref="here/jnothing000.1.1/00")
    assert local.scheduler.written_at(gone) is None
