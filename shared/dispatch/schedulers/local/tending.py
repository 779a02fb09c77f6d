"""What keeps objects going when a runner is missing: done by whoever looks, since nobody else is.

A cluster has a daemon for this. Here each look at the spool starts runners that are due and
closes the runs whose runner is gone, so any supervisor, or the next one, brings the spool in order.
"""

from __future__ import annotations

import subprocess
from dataclasses import replace

from dispatch.schedulers.local import memory, processes
from dispatch.schedulers.local.life import Life, orphaned
from dispatch.schedulers.local.spool import Folder, detached

_KILL_WITHIN_S = 0.5
_REMOVE_WITHIN_S = 0.1


def tended(folder: Folder, now: str, within_s: float) -> Life:
    """Return where an object stands, after seeing to it that somebody watches what must be.

    Args:
        folder: The object's.
        now: The time, as the spool's files write it.
        within_s: How long to wait for the object's lock.

    Raises:
        Busy: The lock couldn't be had in time.
        Gone: There is no such object.
        Unreadable: Its files can't be read.
        OSError: They can't be written.
    """
    life = folder.life()
    if not (life.watched or life.due):
        return life
    starter = None
    with folder.locked(within_s):
        life = folder.life()
        if (life.watched or life.due) and not folder.runner_alive():
            if life.watched:
                life = _closed(folder, life, now)
            if life.due:
                starter = folder.spawn()
    started(folder, starter, within_s)
    return life


def roused(folder: Folder, life: Life) -> subprocess.Popen[bytes] | None:
    """Make an object's runner look at it, or start one where it is due; the lock is held."""
    if not (life.watched or life.due):
        return None
    if folder.runner_alive():
        folder.wake()
        return None
    return folder.spawn() if life.due else None


def started(folder: Folder, starter: subprocess.Popen[bytes] | None, within_s: float) -> None:
    """Wait until a runner has detached itself; the lock isn't held."""
    if starter is None or detached(starter):
        return
    with folder.locked(within_s):
        life = folder.life()
        if life.due:
            folder.save(replace(life, reason="its runner doesn't start: see its runner.log"))


def _closed(folder: Folder, life: Life, now: str) -> Life:
    """Kill what a lost runner left behind, and only then say how the run ended."""
    boot = processes.boot_id()
    if life.boot == boot:
        ref = folder.order().ref
        gone = processes.kill_until_none(
            lambda: [*memory.members(life.cgroups), *processes.marked(ref)], _KILL_WITHIN_S
        )
        if not gone:
            return life
        memory.remove(life.cgroups, _REMOVE_WITHIN_S)
    return folder.save(orphaned(life, boot, now))
