"""What a cluster's brakes keep from happening, and how that is said."""

from __future__ import annotations

from typing import assert_never

from dispatch.clusters import Brakes
from dispatch.core.decide import Decision
from dispatch.core.steps import (
    Alert,
    Append,
    Hold,
    Lookup,
    Release,
    Requeue,
    Start,
    Step,
    Stop,
)

SHOWN = 10
"""What one pass, or one cluster's health, tells of at most."""


def kept_back(brakes: Brakes) -> frozenset[type[Step]]:
    """Return the kinds of steps that aren't taken: all by which something begins to run."""
    return frozenset({Start, Release, Requeue}) if brakes.paused is not None else frozenset()


def mark(brakes: Brakes) -> str:
    """Return what a quiet hint bears that was left under these brakes; without them it is void."""
    return "+paused" if brakes.paused is not None else ""


def sentences(brakes: Brakes, decision: Decision) -> list[str]:
    """Return what would have been done, for people."""
    if not decision.withheld and brakes.observed is None:
        return []
    said = [_said(step) for step in decision.withheld]
    if brakes.observed is not None:
        said += [f"write down {fact.fact}" for fact in decision.facts]
        said += [_said(step) for step in decision.repeatable]
        if decision.once is not None:
            said.append(_said(decision.once))
    return list(dict.fromkeys(said))[:SHOWN]


def _said(step: Step) -> str:
    match step:
        case Append():
            return f"row {step.row}: {step.why}"
        case Start() | Hold() | Requeue() | Stop() | Release() | Alert() | Lookup():
            return f"{type(step).__name__.lower()}: {step.why} (row {step.row})"
        case _:
            assert_never(step)
