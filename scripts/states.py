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
from scripts.drawing import Arrow, columns
from simulator.stories import STORIES

Changes = Mapping[tuple[str, str], set[str]]
"""From which state to which, and by which entries."""

_BEGUN = "new"
"""Where a job, an attempt or an object comes from."""

_PAGE = """# States

<!-- Written from the code by `make pages`. -->

Three pictures, drawn from what happens in the [simulator's stories](simulator.md): each story's
record is folded entry by entry, and every change of state is an arrow from the state that was left
to the one that was reached, with the kinds of entry that made it at the right. Blue goes on, brown
goes back. A record holds no state: [`fold`](../../shared/dispatch/core/fold.py) and
[`project`](../../shared/dispatch/core/project.py) say what follows from its entries.

## A job

What `dispatch status` says in one word. *Ended* stands beside an outcome that is never changed; a
job can have its outcome and still be *stopping*, until nothing of it is left.

![Every change between the states of a job](../images/states-job.svg)

{job}

## An attempt

What is known of one Start. *Unknown* isn't a failure: it may have taken effect, now or until its
deadline.

![Every change between the states of an attempt](../images/states-attempt.svg)

{attempt}

## An object

What the scheduler showed of one object last. A lower state follows a higher one where a scheduler
runs the same object again; *gone* is what a complete look doesn't show any more.

![Every change between the states of an object](../images/states-object.svg)

{object}
"""


def states_pages() -> dict[str, str]:
    """Return the page and its pictures, by their path under docs."""
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
    drawn: dict[str, tuple[Changes, Iterable[str]]] = {
        "job": (jobs, State),
        "attempt": (attempts, AttemptState),
        "object": (objects, ObjectState),
    }
    pages = {
        f"images/states-{name}.svg": _picture(f"The states of a job's {name}", changes, states)
        if name != "job"
        else _picture("The states of a job", changes, states)
        for name, (changes, states) in drawn.items()
    }
    tables = {name: _table(changes, states) for name, (changes, states) in drawn.items()}
    return {"explanation/states.md": _PAGE.format(**tables), **pages}


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


def _sorted(changes: Changes, states: Iterable[str]) -> list[tuple[str, str, str]]:
    """Return from where, to where and by what, in the order of the states."""
    order = [_BEGUN, *(str(state) for state in states)]
    ways = sorted(changes, key=lambda way: (order.index(way[0]), order.index(way[1])))
    return [(was, now, ", ".join(sorted(changes[was, now]))) for was, now in ways]


def _picture(title: str, changes: Changes, states: Iterable[str]) -> str:
    """Return the picture of all changes."""
    states = [str(state) for state in states]
    told = _sorted(changes, states)
    met = {state for was, now, _ in told for state in (was, now)}
    names = [_BEGUN, *(state for state in states if state in met)]
    arrows = [
        Arrow(was, now, by, "a" if names.index(now) > names.index(was) else "b")
        for was, now, by in told
    ]
    words = (
        f"{len(arrows)} changes between {', '.join(names)}; the table on the page says the same."
    )
    return columns(title, words, names, arrows, beside=True)


def _table(changes: Changes, states: Iterable[str]) -> str:
    """Return all changes as a table."""
    rows = [f"| {was} | {now} | {by} |" for was, now, by in _sorted(changes, states)]
    return "\n".join(["| from | to | by |", "|---|---|---|", *rows])
