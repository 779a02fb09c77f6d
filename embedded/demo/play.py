"""The demo from beginning to end: it starts a stack, plays the stories, and judges them."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from dispatch.client import Client, Patience
from dispatch.errors import DispatchError
from dispatch.record.names import IntentKind
from dispatch.record.view import View
from embedded.demo.process import StackProcess
from embedded.demo.stories import STORIES, Stage, Story, deviations


class Teller(Protocol):
    """Shows the demo to a person."""

    def title(self, text: str) -> None:
        """Show what comes now."""
        ...

    def say(self, text: str) -> None:
        """Show one sentence."""
        ...

    def record(self, view: View) -> None:
        """Show a job's history as a person reads it."""
        ...


def play(
    teller: Teller,
    *,
    root: Path | None = None,
    stories: Sequence[tuple[str, Story]] = STORIES,
    between: Callable[[StackProcess, str], None] = lambda stack, point: None,
) -> int:
    """Play all stories on a stack of their own; return 0 only if each ended exactly as told.

    Args:
        teller: Shows it.
        root: A folder for all that is made, which is then kept; None for a temporary one, which
            is kept only where something went otherwise.
        stories: Which stories, in order.
        between: Called at each point of a story; a test may kill the stack there.
    """
    folder = root or Path(tempfile.mkdtemp(prefix="dispatch-demo-"))
    marks = folder / "marks"
    marks.mkdir(parents=True)
    stack = StackProcess(folder / "state")
    wrong: list[str] = []
    clean = False
    try:
        began = time.monotonic()
        stack.start()
        teller.say(f"a stack of this demo's own listens on {stack.url}, its state in {folder}")
        with stack.client() as client:
            stage = Stage(
                client,
                stack.spool,
                marks,
                teller.say,
                lambda point: between(stack, point),
                time.sleep,
                uuid4().hex[:12],
            )
            wrong = _played(stage, teller, stories)
        took = time.monotonic() - began
        if not wrong:
            teller.title(f"Everything ended as told, and is settled ({took:.0f} s)")
            clean = True
    except DispatchError as error:
        wrong.append(str(error))
    finally:
        if not clean:
            _clear(stack)
        stack.stop()
    if not wrong:
        if root is None:
            shutil.rmtree(folder, ignore_errors=True)
        return 0
    teller.title("It didn't go as told")
    for one in wrong:
        teller.say(one)
    teller.say(f"the records, the log and what the jobs wrote are kept in {folder}")
    return 1


def _played(stage: Stage, teller: Teller, stories: Sequence[tuple[str, Story]]) -> list[str]:
    wrong = []
    for number, (title, story) in enumerate(stories, start=1):
        teller.title(f"{number}. {title}")
        told = story(stage)
        teller.record(told.view)
        found = deviations(told, stage.marks, datetime.now(UTC))
        wrong += [f"story {number}, job {told.job}: {one}" for one in found]
    return wrong


def _clear(stack: StackProcess) -> None:
    """Leave nothing running behind a demo that went otherwise."""
    try:
        with Client(stack.url, patience=Patience(tries=2)) as client:
            for one in client.jobs(settled=False):
                client.intend(one.job_id, IntentKind.CANCEL, reason="the demo went otherwise")
            for _ in range(100):
                if not any(True for _ in client.jobs(settled=False)):
                    return
                time.sleep(0.2)
    except DispatchError:
        # The stack itself is what went wrong; its jobs end by themselves in ten minutes.
        return
