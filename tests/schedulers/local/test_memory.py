"""The limit on each node's memory, by the kernel and without it."""

import sys
from pathlib import Path

import pytest

from dispatch.record.evidence import Sighting
from dispatch.record.names import Cause, ObjectState
from dispatch.schedulers.local import memory
from dispatch.schedulers.local.memory import Parent
from tests.schedulers.local.play import Local
from tests.schedulers.local.world import LocalWorld

# Takes twice what is allowed, and stays.
HOG = "import time; held = bytearray(128 * 1024 * 1024); time.sleep(300)"
MODEST = "import time; held = bytearray(16 * 1024 * 1024)"


def python(script: str) -> tuple[str, ...]:
    return (sys.executable, "-S", "-c", script)


def in_a_child(script: str) -> tuple[str, ...]:
    """Run a script in a child whose own end the task survives with success."""
    return ("sh", "-c", 'setsid "$0" -S -c "$1"; exit 0', sys.executable, script)


@pytest.fixture(params=["as the machine allows", "without control groups"])
def play(request: pytest.FixtureRequest, world: LocalWorld, unconfined: LocalWorld) -> Local:
    return Local(world if request.param == "as the machine allows" else unconfined)


def ran_out(seen: Sighting) -> bool:
    return (seen.state, seen.cause) == (ObjectState.FAILED, Cause.OUT_OF_MEMORY)


def test_a_task_that_takes_too_much_is_out_of_memory(play: Local) -> None:
    target = play.begin_with(command=python(HOG), memory_mb_per_node=64)
    seen = play.wait_for_end(target)
    assert ran_out(seen)
    assert "64 MB" in (seen.reason or "")
    play.wait_for_none(target)


def test_a_child_that_takes_too_much_is_out_of_memory_too(play: Local) -> None:
    # F23: the container's own exit code was 0.
    seen = play.wait_for_end(play.begin_with(command=in_a_child(HOG), memory_mb_per_node=64))
    assert ran_out(seen)


def test_the_limit_holds_for_all_tasks_of_a_node_together(play: Local) -> None:
    half = "import time; held = bytearray(48 * 1024 * 1024); time.sleep(300)"
    target = play.begin_with(command=python(half), tasks_per_node=2, memory_mb_per_node=72)
    assert ran_out(play.wait_for_end(target))


def test_each_node_has_the_whole_limit_to_itself(play: Local) -> None:
    target = play.begin_with(command=python(MODEST), nodes=3, memory_mb_per_node=40)
    assert play.wait_for_end(target).state is ObjectState.SUCCEEDED


def test_the_node_that_went_over_is_named(play: Local) -> None:
    script = f"import os\nif os.environ['DISPATCH_NODE_RANK'] == '1':\n    {HOG}\n"
    script += "import time; time.sleep(300)"
    target = play.begin_with(command=python(script), nodes=2, memory_mb_per_node=64)
    seen = play.wait_for_end(target)
    assert ran_out(seen)
    assert (seen.reason or "").startswith("node 1 ")


def test_no_control_group_is_left_behind(local: Local) -> None:
    target = local.begin_with(command=("true",), memory_mb_per_node=64)
    local.wait_for_end(target)
    groups = local.world.scheduler._spool.folder(target.ref.split("/")[1]).life().cgroups
    assert not [group for group in groups if Path(group).exists()]


def test_memory_that_forked_processes_share_counts_once(unconfined: LocalWorld) -> None:
    script = (
        "import os, time\nheld = bytearray(b'x') * (40 * 1024 * 1024)\n"
        "children = [os.fork() for _ in range(1)]\n"
        "if children[0]:\n    os.waitpid(children[0], 0)\nelse:\n    time.sleep(1)\n"
    )
    play = Local(unconfined)
    target = play.begin_with(command=python(script), memory_mb_per_node=72)
    assert play.wait_for_end(target).state is ObjectState.SUCCEEDED


# --- where control groups may be made -----------------------------------------------------------

V1_MOUNTS = """\
25 1 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
26 25 0:23 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
27 25 0:24 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
28 25 0:25 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""
V2_MOUNTS = "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


def test_version_1_is_used_below_the_own_group() -> None:
    own = "9:name=systemd:/\n4:memory:/box/a\n0::/\n"
    assert memory.parents(own, V1_MOUNTS)[0] == Parent(1, Path("/sys/fs/cgroup/memory/box/a"))


def test_version_1_with_several_controllers_is_recognised() -> None:
    mounts = "27 25 0:24 / /cg/mem rw - cgroup cgroup rw,cpu,memory\n"
    assert memory.parents("4:cpu,memory:/x\n", mounts) == [Parent(1, Path("/cg/mem/x"))]


def test_version_2_is_tried_in_the_own_group_and_beside_it() -> None:
    own = "0::/user.slice/user-7.slice/user@7.service/app.slice/shell.scope\n"
    app = Path("/sys/fs/cgroup/user.slice/user-7.slice/user@7.service/app.slice")
    assert memory.parents(own, V2_MOUNTS) == [Parent(2, app / "shell.scope"), Parent(2, app)]


def test_a_mount_of_a_part_of_the_tree_is_counted_from_there() -> None:
    mounts = "27 25 0:24 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
    found = memory.parents("4:memory:/docker/abc/inner\n", mounts)
    assert found == [Parent(1, Path("/sys/fs/cgroup/memory/inner"))]


def test_nothing_mounted_means_nowhere() -> None:
    assert memory.parents("0::/\n", "") == []


def test_where_no_group_can_be_made_a_watchdog_is_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "_here", lambda: [Parent(1, Path("/proc/nowhere"))])
    assert memory.limiter("x", 1, 64, cgroups=True).kind == "watchdog"
    assert memory.limiter("x", 1, None, cgroups=True).kind == "none"
    assert memory.usable() is None


def test_version_2_groups_are_limited_without_swap_and_killed_as_one(tmp_path: Path) -> None:
    # A folder that looks like a group: what would be written to the kernel is seen in files.
    for node in range(2):
        group = tmp_path / f"dispatch-x-{node}"
        group.mkdir()
        for name in ("memory.max", "memory.swap.max", "memory.oom.group", "memory.events"):
            (group / name).write_text("oom_kill 0\n" if name == "memory.events" else "")
        memory._limit(group, 2, 64)
        assert (group / "memory.max").read_text() == str(64 * 1024 * 1024)
        assert (group / "memory.swap.max").read_text() == "0"
        assert (group / "memory.oom.group").read_text() == "1"
    groups = memory.ControlGroups(
        2, tuple(str(tmp_path / f"dispatch-x-{node}") for node in range(2)), "cgroup v2", 0.25
    )
    assert groups.exceeded([]) is None
    (tmp_path / "dispatch-x-1" / "memory.events").write_text("low 0\noom 1\noom_kill 1\n")
    assert groups.exceeded([]) == 1
