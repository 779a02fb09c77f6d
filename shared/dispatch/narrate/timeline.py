"""A record along time: lanes with spans and marks, for a picture and for the table beside it.

Nothing is computed that fold doesn't say: a span lies between the entries, or the scheduler's own
times, at which the folded job changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from dispatch.core.job import Job
from dispatch.core.parts import (
    Attempt,
    AttemptState,
    Call,
    CallState,
    Run,
    SchedulerObject,
)
from dispatch.core.project import State, state_of
from dispatch.narrate.chronicle import Chronicle, Moment, chronicle
from dispatch.narrate.history import Line, lines_of
from dispatch.narrate.runs import run_words
from dispatch.narrate.sentences import call_words, trigger_words
from dispatch.narrate.words import Reader, object_name, quoted
from dispatch.record import fact as facts
from dispatch.record.control import Control
from dispatch.record.view import View

MOST_LINES = 2_000
"""Entries that are told one by one; of a longer record, its last."""


class LaneKind(StrEnum):
    """What a lane of the picture shows."""

    JOB = "job"
    SUBMISSION = "submission"
    START = "start"
    FOREIGN = "foreign"
    HOLDS = "holds"
    ASKS = "asks"
    CALLS = "calls"
    EVIDENCE = "evidence"
    PEOPLE = "people"
    TOLD = "told"


@dataclass(frozen=True, slots=True)
class Lane:
    """One row of the picture.

    Attributes:
        id: What spans and marks name it by.
        kind: What it shows.
        title: For people.
    """

    id: str
    kind: LaneKind
    title: str


@dataclass(frozen=True, slots=True)
class Span:
    """Something that lasted.

    Attributes:
        lane: In which lane.
        start: When it began.
        end: When it ended; None where it goes on, or where nobody knows.
        state: One word for what it was: running, pending, unknown, user, ….
        label: A few words.
        detail: The sentence.
    """

    lane: str
    start: datetime
    end: datetime | None
    state: str
    label: str
    detail: str


@dataclass(frozen=True, slots=True)
class Mark:
    """An entry where it belongs in the picture; its words are those of its line.

    Attributes:
        lane: In which lane.
        at: When it was written.
        kind: The kind of fact or intent.
        entry: Its number.
    """

    lane: str
    at: datetime
    kind: str
    entry: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """A record along time.

    Attributes:
        job_id: Whose.
        revision: The number of its entries.
        settled: Whether nothing more will come.
        lanes: From top to bottom.
        spans: What lasted.
        marks: What happened, entry by entry.
        lines: The same entries, and the header, in words.
        left_out: How many of the first entries aren't told, because there are too many.
    """

    job_id: str
    revision: int
    settled: bool
    lanes: tuple[Lane, ...]
    spans: tuple[Span, ...]
    marks: tuple[Mark, ...]
    lines: tuple[Line, ...]
    left_out: int


def timeline(view: View, reader: Reader) -> Timeline:
    """Return a record along time; one that can't be read to its end is shown as far as it goes."""
    told = chronicle(view)
    if told.header is not None:
        reader = reader.on_the_day_of(told.header.created_at)
    left_out = max(0, view.revision - MOST_LINES)
    lines = tuple(one for one in lines_of(told, reader) if one.entry == 0 or one.entry > left_out)
    job = told.job
    lanes = () if job is None else tuple(_lanes(job, told))
    ids = {one.id for one in lanes}
    spans = () if job is None else tuple(_spans(job, told, reader))
    marks = tuple(_marks(told, left_out))
    used = {one.lane for one in spans} | {one.lane for one in marks}
    return Timeline(
        job_id=view.job_id,
        revision=view.revision,
        settled=job is not None and job.settled_at is not None,
        lanes=tuple(one for one in lanes if one.id in used),
        spans=tuple(one for one in spans if one.lane in ids),
        marks=tuple(one for one in marks if one.lane in ids),
        lines=lines,
        left_out=left_out,
    )


def _lanes(job: Job, told: Chronicle) -> Iterator[Lane]:
    yield Lane("job", LaneKind.JOB, "The job")
    yield Lane("people", LaneKind.PEOPLE, "Asked by people")
    yield Lane("told", LaneKind.TOLD, "People were told")
    yield Lane("holds", LaneKind.HOLDS, "Held by people")
    yield Lane("asks", LaneKind.ASKS, "The plan asks")
    for submission in job.submissions:
        yield Lane(f"s{submission.n}", LaneKind.SUBMISSION, f"Submission {submission.n}")
        for attempt in job.attempts_of(submission.n):
            lane, title = _start_lane(attempt.n, attempt.a), _start_title(job, attempt)
            yield Lane(lane, LaneKind.START, title)
    for known in job.objects.values():
        if known.foreign:
            yield Lane(_foreign_lane(known), LaneKind.FOREIGN, f"Foreign {known.ref}")
    yield Lane("calls", LaneKind.CALLS, "Calls")
    yield Lane("evidence", LaneKind.EVIDENCE, "Evidence")


def _start_title(job: Job, attempt: Attempt) -> str:
    refs = [one.ref for one in job.objects_of(attempt.n) if one.a == attempt.a]
    return f"Start {attempt.n}.{attempt.a}" + (f": {', '.join(refs)}" if refs else "")


def _start_lane(n: int, a: int) -> str:
    return f"a{n}.{a}"


def _foreign_lane(known: SchedulerObject) -> str:
    return f"f:{known.ref}"


# --- what lasted ------------------------------------------------------------------------------


def _spans(job: Job, told: Chronicle, reader: Reader) -> Iterator[Span]:
    yield from _states(job, told)
    yield from _submissions(job)
    known_at = _known_at(told)
    for attempt in job.attempts.values():
        yield _doubt(attempt, known_at.get((attempt.n, attempt.a)), reader)
    for known in job.objects.values():
        for run in (*job.past.get(known.ref, ()), known.run):
            yield from _run(job, known, run, reader)
    yield from _holds(told)
    closed_at = _closed_at(told)
    for call in (*job.done_calls, *job.calls):
        words, over = call_words(job, call), closed_at.get(_name_of(call))
        yield Span("calls", call.at, over, call.state.value, f"{call.kind} call", f"{words}.")


def _states(job: Job, told: Chronicle) -> Iterator[Span]:
    """Yield what the record said of the job as a whole, from each change to the next."""
    assert told.header is not None
    since, state = told.header.created_at, State.PENDING
    for moment, after in _folded(told):
        now = state_of(after)
        if now is not state:
            at = _at(moment)
            yield Span("job", since, at, state.value, state.value, f"The record says: {state}.")
            since, state = at, now
    end = job.settled_at
    outcome = job.ending.state.value if job.ending is not None else state.value
    shown = outcome if state is State.ENDED else state.value
    yield Span("job", since, end, shown, shown, f"The record says: {shown}.")


def _folded(told: Chronicle) -> Iterator[tuple[Moment, Job]]:
    return ((one, one.after) for one in told.moments if one.after is not None)


def _at(moment: Moment) -> datetime:
    assert moment.entry is not None
    return moment.entry.at


def _submissions(job: Job) -> Iterator[Span]:
    """Yield each submission until the next is decided, or until all is settled."""
    ends = [*(one.at for one in job.submissions[1:]), job.settled_at]
    for submission, end in zip(job.submissions, ends, strict=False):
        why = trigger_words(job, submission.trigger, submission.cause, budget=False)
        yield Span(
            f"s{submission.n}",
            submission.at,
            end,
            "submission",
            f"submission {submission.n}",
            f"Submission {submission.n} was decided: {why}.",
        )


def _known_at(told: Chronicle) -> dict[tuple[int, int], datetime]:
    """Return when the fate of each start was first known."""
    found: dict[tuple[int, int], datetime] = {}
    doubtful: set[tuple[int, int]] = set()
    for moment, after in _folded(told):
        if isinstance(moment.entry, facts.Attempt):
            doubtful.add((moment.entry.n, moment.entry.a))
        for place in tuple(doubtful):
            if after.attempts[place].state is not AttemptState.UNKNOWN:
                found[place] = _at(moment)
                doubtful.discard(place)
    return found


def _doubt(attempt: Attempt, over: datetime | None, reader: Reader) -> Span:
    """Return how long nobody knew whether a start would land."""
    name = f"start {attempt.n}.{attempt.a}"
    words = f": {quoted(attempt.detail)}" if attempt.detail else ""
    ends = {
        AttemptState.UNKNOWN: f"no answer yet; it may land {reader.until(attempt.deadline)}",
        AttemptState.STARTED: "it was accepted",
        AttemptState.REFUSED: f"it was refused or not sent{words}",
        AttemptState.UNMATCHED: "it was never seen, and can't land any more",
        AttemptState.ABANDONED: "a person vouched that it won't run",
    }
    return Span(
        _start_lane(attempt.n, attempt.a),
        attempt.at,
        over,
        attempt.state.value if attempt.state is not AttemptState.STARTED else "sent",
        f"{name} sent",
        f"From the moment {name} was recorded until its fate was known: {ends[attempt.state]}.",
    )


def _run(job: Job, known: SchedulerObject, run: Run, reader: Reader) -> Iterator[Span]:
    """Yield how long a run waited, and how long it executed."""
    lane = _foreign_lane(known) if known.foreign else _start_lane(known.n, known.a)
    name, detail = object_name(job, known.ref), run_words(known, run, reader)
    ended = run.ended_at or run.ended_seen_at
    began = (run.started_at or run.first_seen_at) if run.executed else None
    first = run.first_seen_at if began is None else min(run.first_seen_at, began)
    waited = ended if began is None else began
    if began is None or first < began:
        state = "waiting" if began is not None or not run.ended else run.state.value
        yield Span(lane, first, waited, state, f"{name} waits", detail)
    if began is not None:
        yield Span(lane, began, ended, run.state.value, f"{name}: {run.state}", detail)


def _holds(told: Chronicle) -> Iterator[Span]:
    """Yield each hold from where it came into force to where it was lifted."""
    user: Span | None = None
    recovery: Span | None = None
    for moment, after in _folded(told):
        at = _at(moment)
        if user is not None and after.user_hold is None:
            yield replace(user, end=at)
            user = None
        elif user is None and after.user_hold is not None:
            one = after.user_hold
            reason = f": {quoted(one.reason)}" if one.reason else ""
            user = Span("holds", at, None, "user", "held by a person", f"Held by {one.by}{reason}.")
        if recovery is not None and after.recovery is None:
            yield replace(recovery, end=at)
            recovery = None
        elif recovery is None and after.recovery is not None:
            cause = after.recovery.cause
            words = f"The plan asks a person what to do about {cause}."
            recovery = Span("asks", at, None, "recovery", f"asks about {cause}", words)
    yield from (one for one in (user, recovery) if one is not None)


_CallName = tuple[str, str, datetime]


def _name_of(call: Call) -> _CallName:
    return call.kind.value, call.ref, call.at


def _closed_at(told: Chronicle) -> dict[_CallName, datetime]:
    """Return when each call landed or expired, as the record says now."""
    found: dict[_CallName, datetime] = {}
    for moment, after in _folded(told):
        before = moment.before
        waiting = () if before is None else before.calls
        names = {_name_of(one) for one in waiting if one.state is CallState.OPEN}
        for one in (*after.calls, *after.done_calls) if names else ():
            if one.state is not CallState.OPEN and _name_of(one) in names:
                found[_name_of(one)] = _at(moment)
    return found


# --- what happened ----------------------------------------------------------------------------


def _marks(told: Chronicle, left_out: int) -> Iterator[Mark]:
    for moment, after in _folded(told):
        entry = moment.entry
        if entry is None or moment.number <= left_out:
            continue
        kind = entry.kind.value if isinstance(entry, Control) else entry.fact
        yield Mark(_lane_of(entry, after), entry.at, kind, moment.number)


def _lane_of(entry: Control | facts.Fact, job: Job) -> str:
    match entry:
        case Control():
            return "people"
        case facts.Authorized():
            return f"s{entry.n}"
        case facts.Attempt() | facts.Replied() | facts.Unmatched():
            return _start_lane(entry.n, entry.a)
        case facts.Canonical() | facts.Retired() | facts.Expired() | facts.Released():
            known = job.objects[entry.ref]
            return _start_lane(known.n, known.a)
        case facts.HoldCall() | facts.RequeueCall():
            return "calls"
        case facts.Observed():
            return "evidence"
        case facts.RecoveryHold():
            return "asks"
        case facts.Escalated():
            return "told"
        case facts.OutcomeFact() | facts.Settled():
            return "job"
