"""The page of states: pictures drawn from what the stories of the simulator really do.

Nothing here says which state may follow which. Every story is played, its record is folded entry
by entry, and each change of state is kept with the entries that made it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from dispatch.core.fold import fold
from dispatch.core.job import Job
from dispatch.core.parts import AttemptState
from dispatch.core.project import State, project
from dispatch.errors import RecordRefused
from dispatch.record.codec import decode_entry
from dispatch.record.control import Control
from dispatch.record.names import ObjectState
from dispatch.record.view import View
from simulator.stories import STORIES

Changes = Mapping[tuple[str, str], set[str]]
"""From which state to which, and by which entries."""

_BEGUN = "[*]"

_PAGE = """<!-- Written from the code by `make pages`. -->

# States

Three pictures, drawn from what happens in the [simulator's stories](simulator.md): each story's
record is folded entry by entry, and every change of state is an arrow, with the kinds of entry
that made it. A record holds no state: [`fold`](../../shared/dispatch/core/fold.py) and
[`project`](../../shared/dispatch/core/project.py) say what follows from its entries.

## A job

What `dispatch status` says in one word. *Ended* stands beside an outcome that is never changed; a
job can have its outcome and still be *stopping*, until nothing of it is left.

{job}

## An attempt

What is known of one Start. *Unknown* isn't a failure: it may have taken effect, now or until its
deadline.

{attempt}

## An object

What the scheduler showed of one object last. A lower state follows a higher one where a scheduler
runs the same object again; *gone* is what a complete look doesn't show any more.

{object}
"""


def states_page() -> str:
    """Return the page."""
    jobs: dict[tuple[str, str], set[str]] = defaultdict(set)
    attempts: dict[tuple[str, str], set[str]] = defaultdict(set)
    objects: dict[tuple[str, str], set[str]] = defaultdict(set)
    for view in _records():
        before: Job | None = None
        state_before: State | None = None
        for revision in range(len(view.entries) + 1):
            folded = _folded(view, revision)
            if folded is None:
                break
            job, state, by = folded
            _changed(jobs, state_before, state, by)
            for key, one in job.attempts.items():
                was = before.attempts.get(key) if before is not None else None
                _changed(attempts, was and was.state, one.state, by)
            for ref, known in job.objects.items():
                was_known = before.objects.get(ref) if before is not None else None
                _changed(objects, was_known and was_known.run.state, known.run.state, by)
            before, state_before = job, state
    return _PAGE.format(
        job=_diagram(jobs, State),
        attempt=_diagram(attempts, AttemptState),
        object=_diagram(objects, ObjectState),
    )


def _records() -> Iterator[View]:
    for story in STORIES:
        play = story.play()
        for job_id in play.jobs:
            yield play.records.read(job_id)


def _folded(view: View, revision: int) -> tuple[Job, State, str] | None:
    """Return the job at a revision, its state then, and of which kind its newest entry is."""
    part = View(view.job_id, view.header, view.entries[:revision])
    try:
        entry = decode_entry(view.entries[max(0, revision - 1)])
        job = fold(part, entry.at)
    except RecordRefused:
        return None
    kind = entry.kind.value if isinstance(entry, Control) else entry.fact
    return job, project(job, None, entry.at).state, kind if revision else "submit"


def _changed(
    changes: dict[tuple[str, str], set[str]], was: str | None, now: str | None, by: str
) -> None:
    if now is not None and was != now:
        changes[was or _BEGUN, now].add(by)


def _diagram(changes: Changes, states: Iterable[str]) -> str:
    """Return a state diagram, its arrows in the order of the states."""
    order = [_BEGUN, *(str(state) for state in states)]
    lines = ["```mermaid", "stateDiagram-v2", "    direction LR"]
    for (was, now), kinds in sorted(
        changes.items(), key=lambda item: (order.index(item[0][0]), order.index(item[0][1]))
    ):
        lines.append(f"    {was} --> {now}: {', '.join(sorted(kinds))}")
    return "\n".join([*lines, "```"])
