"""What happens to a cluster's objects behind its users' backs: for operators, tests and demos.

`python -m dispatch.schedulers.local.admin SPOOL ACTION REF [--by NAME]`
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from dispatch.schedulers.local import life as lives
from dispatch.schedulers.local import tending
from dispatch.schedulers.local.codec import Unreadable
from dispatch.schedulers.local.life import US, Ask, Life, Order, Refused
from dispatch.schedulers.local.spool import Busy, Folder, Gone, Spool

_WITHIN_S = 5.0


class Administrator:
    """Somebody who may do to an object what no job's supervisor asked for.

    Args:
        spool_dir: The cluster's spool.
        clock: The time, aware and UTC.
        by: Under which name it is done.
    """

    def __init__(
        self, spool_dir: Path, clock: Callable[[], datetime], by: str = "administrator"
    ) -> None:
        self._spool = Spool(spool_dir.absolute())
        self._clock = clock
        self._by = by

    def preempt(self, ref: str) -> None:
        """Take the machine from a running object: polite signal, grace, hard signal."""
        self._change(ref, partial(lives.disrupt, ask=Ask.PREEMPT, now=self._now(), by=self._by))

    def lose_node(self, ref: str) -> None:
        """Declare a running object's node lost; its processes outlive the word for a moment."""
        self._change(ref, partial(lives.disrupt, ask=Ask.LOSE_NODE, now=self._now(), by=self._by))

    def cancel(self, ref: str) -> None:
        """End an object as somebody who isn't Dispatch."""
        now = self._now()
        self._change(ref, partial(lives.stop, ask=Ask.STOP_OUTSIDE, now=now, by=self._by))

    def hold(self, ref: str) -> None:
        """Hold an object as somebody who isn't Dispatch."""
        self._change(ref, partial(lives.hold, by=self._by))

    def release(self, ref: str) -> None:
        """Lift one's own hold, or Dispatch's where there is none."""
        self._change(ref, self._lift)

    def requeue(self, ref: str) -> None:
        """Make an object run again as somebody who isn't Dispatch."""
        self._change(ref, partial(lives.requeue, restarts=None))

    def objects(self) -> list[tuple[Order, Life]]:
        """Return what the spool holds, as far as it can be read."""
        found = []
        for name in self._spool.names():
            folder = self._spool.folder(name)
            try:
                found.append((folder.order(), folder.life()))
            except (Gone, Unreadable):
                continue
        return found

    def _lift(self, life: Life) -> Life:
        return lives.release(life, self._by if self._by in life.held_by else US)

    def _now(self) -> str:
        return self._clock().isoformat()

    def _change(self, ref: str, change: Callable[[Life], Life]) -> None:
        folder = self._folder(ref)
        with folder.locked(_WITHIN_S):
            life = folder.life()
            changed = change(life)
            if changed != life:
                life = folder.save(changed)
            starter = tending.roused(folder, life)
        tending.started(folder, starter, _WITHIN_S)

    def _folder(self, ref: str) -> Folder:
        for name in self._spool.names():
            folder = self._spool.folder(name)
            try:
                if folder.order().ref == ref:
                    return folder
            except (Gone, Unreadable):
                continue
        raise Gone(f"no object {ref}")


ACTIONS = ("preempt", "lose-node", "cancel", "hold", "release", "requeue")


def main(arguments: Sequence[str]) -> int:
    """Carry out one action, or list the objects; the exit code is 1 where it can't be done."""
    parser = argparse.ArgumentParser(prog="python -m dispatch.schedulers.local.admin")
    parser.add_argument("spool", type=Path)
    parser.add_argument("action", choices=("list", *ACTIONS))
    parser.add_argument("ref", nargs="?")
    parser.add_argument("--by", default="administrator", help="under which name it is done")
    asked = parser.parse_args(arguments)
    admin = Administrator(asked.spool, lambda: datetime.now(UTC), asked.by)
    try:
        if asked.action == "list":
            for order, life in admin.objects():
                held = f" held by {', '.join(life.held_by)}" if life.held_by else ""
                print(f"{order.ref}  {life.phase}{held}")  # noqa: T201
            return 0
        if asked.ref is None:
            parser.error("which object? `list` shows them")
        getattr(admin, asked.action.replace("-", "_"))(asked.ref)
    except (Gone, Busy, Refused, Unreadable, OSError) as problem:
        print(problem, file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
