"""What one pass commits and calls: Next, applied to its own facts until a call is in the way.

Facts that follow each other without a call between them go into one commit (protocol §6).
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple, assert_never

from dispatch.core.fold import extend
from dispatch.core.job import Job
from dispatch.core.next import steps_due
from dispatch.core.steps import (
    Alert,
    Append,
    Hold,
    Lookup,
    Next,
    Once,
    Release,
    Repeatable,
    Requeue,
    Start,
    Step,
    Stop,
)
from dispatch.core.waiting import waits
from dispatch.record.evidence import Discovery
from dispatch.record.fact import Fact

MAX_FACTS = 40
"""Facts one decision may hold; more wait for the next."""

_ONCE = (Start, Hold, Requeue)
_REPEATABLE = (Stop, Release, Alert, Lookup)


class Decision(NamedTuple):
    """What to do now: commit `facts` together, then make the calls.

    Attributes:
        facts: Committed in one step at the revision the job was folded at.
        repeatable: Calls that may be made whatever becomes of them.
        once: The call that `facts` ends with, made only if that commit was ours.
        after: The job once the facts are committed.
        next: What Next said last, for its waiting.
        rows: The rows that led here, for the log.
        withheld: The steps that Next named and that were left out, as the caller asked.
        complete: Whether nothing else is due once this is carried out, unless a call shows more.
    """

    facts: tuple[Fact, ...]
    repeatable: tuple[Repeatable, ...]
    once: Once | None
    after: Job
    next: Next
    rows: tuple[str, ...]
    withheld: tuple[Step, ...] = ()
    complete: bool = True

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do but wait."""
        return not self.facts and not self.repeatable and self.once is None


def key(step: Repeatable) -> tuple[str, ...]:
    """Return what tells one repeatable call from another within a pass."""
    match step:
        case Lookup():
            return ("lookup", *step.refs, *(f"{n}.{a}" for n, a in step.attempts))
        case Stop():
            return ("stop", step.ref)
        case Release():
            return ("release", step.ref)
        case Alert():
            return ("alert", step.ref)
        case _:
            assert_never(step)


def decide(
    job: Job,
    discovery: Discovery,
    now: datetime,
    *,
    by: str = "supervisor",
    made: frozenset[tuple[str, ...]] = frozenset(),
    without: frozenset[type[Step]] = frozenset(),
) -> Decision:
    """Return what one pass should commit and call.

    Args:
        job: The folded record; not changed.
        discovery: What a look at the cluster says about it.
        now: The pass's one time.
        by: Who writes the facts.
        made: The repeatable calls made in this pass already, by `key`.
        without: Kinds of steps that aren't taken, nor is what they would commit.
    """
    facts: list[Fact] = []
    calls: list[Repeatable] = []
    rows: list[str] = []
    once: Once | None = None
    while True:
        upcoming = steps_due(job, discovery, now, by=by)
        skip = made | {key(one) for one in calls}
        step = _first(upcoming, skip, without)
        if step is None or len(facts) >= MAX_FACTS:
            break
        if isinstance(step, _ONCE):
            if calls:
                break
            once = step
            facts.append(step.fact)
            rows.append(step.row)
            break
        rows.append(step.row)
        if isinstance(step, Append):
            facts += step.facts
            job = extend(job, step.facts)
            continue
        calls.append(step)
        if isinstance(step, Release) and step.fact is not None:
            facts.append(step.fact)
            job = extend(job, (step.fact,))
    withheld = tuple(step for step in upcoming if type(step) in without)
    then = Next(upcoming, tuple(waits(job, discovery, now)))
    after = job if once is None else extend(job, (once.fact,))
    complete = step is None and not any(isinstance(one, Lookup) for one in calls)
    return Decision(tuple(facts), tuple(calls), once, after, then, tuple(rows), withheld, complete)


def _first(
    upcoming: tuple[Step, ...],
    skip: frozenset[tuple[str, ...]] | set[tuple[str, ...]],
    without: frozenset[type[Step]],
) -> Step | None:
    for step in upcoming:
        if type(step) in without:
            continue
        if isinstance(step, _REPEATABLE) and key(step) in skip:
            continue
        return step
    return None
