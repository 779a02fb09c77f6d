"""What a story is, and what several of them share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dispatch.record.header import Plan, Rule
from dispatch.record.names import Action, Capability, Cause, IntentKind
from simulator.faults import Fault
from simulator.play import Play, setting
from simulator.scenario import Shape
from simulator.worlds.ground import Fate

A, B = "supervisor-a", "supervisor-b"

FAILS = Fate(5.0, Cause.APP_ERROR, 1)
LONG = Fate(5_000.0)


@dataclass(frozen=True, slots=True)
class Story:
    """A script and where it plays.

    Attributes:
        name: Of the story and its transcript.
        script: What happens.
        shape: On which kind of cluster.
        changes: What differs from the plain setting.
    """

    name: str
    script: Callable[[Play], None]
    shape: Shape = Shape.SLURM
    changes: dict[str, Any] = field(default_factory=dict)

    def play(self) -> Play:
        """Play it, and return what was played.

        Raises:
            Violation: A rule was broken.
        """
        play = Play(setting(self.shape, **self.changes))
        play.direct(self.script)
        return play


def begin(play: Play) -> None:
    """Bring the first submission to run, and let it be seen running."""
    play.tick()
    play.wait(10)
    play.tick()


def second_waits(play: Play) -> None:
    """Let the first submission fail, and the second be seen held behind its gate by a person."""
    begin(play)
    play.tick()
    play.wait(20)
    play.goes_wrong("commit", None, Fault.CRASH_BEFORE)
    play.tick()
    play.intend(IntentKind.HOLD)
    play.tick()


RESUBMITS_LOST = Plan(
    default=Rule(action=Action.RESUBMIT, limit=2),
    causes={Cause.STOPPED: Rule(action=Action.RESUBMIT, limit=5)},
    start_backoff_s=0,
)
IN_PLACE = Plan(default=Rule(action=Action.REQUEUE, limit=3, in_place=True), start_backoff_s=0)
ONCE = Plan(
    default=Rule(action=Action.RESUBMIT, limit=1, after_limit=Action.FAIL), start_backoff_s=0
)
NEVER = Plan(default=Rule(action=Action.FAIL), start_backoff_s=0)
HOLDS_RUNNING = (
    Capability.GATED_START,
    Capability.HOLD_PENDING,
    Capability.HOLD_RUNNING,
    Capability.REQUEUE_LIVE,
    Capability.REQUEUE_ENDED,
)
ASKS = Plan(default=Rule(action=Action.HOLD), start_backoff_s=0)
ACCOUNTED = (Capability.GATED_START, Capability.HOLD_PENDING, Capability.LOOKUP)
