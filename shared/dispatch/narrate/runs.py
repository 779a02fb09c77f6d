"""What of a job ran, where and for how long, and how each run ended."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dispatch.core.job import Job
from dispatch.core.parts import Attempt, AttemptState, Run, SchedulerObject, Submission
from dispatch.narrate.sentences import adjust_words, trigger_words
from dispatch.narrate.words import Reader, duration, on_nodes, quoted, state_words
from dispatch.record.names import Cause, ObjectState

_SLURM_REF = re.compile(r"^[^:@]+:([0-9]+)@[0-9]+\Z")
_ACCOUNTS = frozenset({"accounting", "slurmdbd"})
"""What a sighting's source is called where it comes from a scheduler's books."""


def runs_of(job: Job, reader: Reader) -> Iterator[str]:
    """Yield a line for each submission, start and run, in order."""
    if not job.submissions:
        yield "Nothing was ever started."
    for submission in job.submissions:
        yield _submission(job, submission, reader)
        for attempt in job.attempts_of(submission.n):
            yield from _attempt(job, attempt, reader)
    for known in job.objects.values():
        if known.foreign:
            yield _foreign(known)


def _submission(job: Job, submission: Submission, reader: Reader) -> str:
    said = f"Submission {submission.n}, decided at {reader.time(submission.at)}: "
    said += trigger_words(job, submission.trigger, submission.cause, budget=False)
    changed = adjust_words(job, submission.adjust)
    return said + (f"; it runs with {changed}." if changed else ".")


def _attempt(job: Job, attempt: Attempt, reader: Reader) -> Iterator[str]:
    objects = [one for one in job.objects_of(attempt.n) if one.a == attempt.a]
    name = f"  Start {attempt.n}.{attempt.a}, {reader.time(attempt.at)}"
    words = f": {quoted(attempt.detail)}" if attempt.detail else ""
    match attempt.state:
        case AttemptState.UNKNOWN:
            yield f"{name}: no answer is recorded; it may land {reader.until(attempt.deadline)}."
        case AttemptState.REFUSED:
            cause = f" ({attempt.cause})" if attempt.cause else ""
            verb = "was refused" if attempt.cause else "was not sent"
            yield f"{name}: {verb}{cause}{words}."
        case AttemptState.UNMATCHED:
            yield f"{name}: never seen, and can't land any more."
        case AttemptState.ABANDONED:
            yield f"{name}: a person vouched that it won't run."
        case AttemptState.STARTED:
            pass
    became = "  It showed all the same, as"
    if attempt.state is AttemptState.STARTED:
        became = f"{name}: became"
    for nth, known in enumerate(objects):
        if nth:
            became = f"  Start {attempt.n}.{attempt.a} has another object,"
        yield f"{became} {known.ref}{_marks(job, known)}."
        if nth:
            yield "    Dispatch sent that start once: who made another isn't in its record."
        for run in (*job.past.get(known.ref, ()), known.run):
            yield f"    {run_words(known, run, reader)}"
            if run.r > 1 and not _asked_for(job, known, run):
                yield "      Dispatch hadn't asked for it: the scheduler, or somebody there, did."


def _asked_for(job: Job, known: SchedulerObject, run: Run) -> bool:
    """Return whether a call of Dispatch's may have brought a run about."""
    calls = (*job.calls, *job.done_calls)
    return any(one.ref == known.ref and one.run < run.r for one in calls)


def _marks(job: Job, known: SchedulerObject) -> str:
    marks = []
    slurm = _SLURM_REF.match(known.ref) if job.declarations.adapter == "slurm" else None
    if slurm is not None:
        marks.append(f"job {slurm[1]} in Slurm")
    if known.retired is not None:
        marks.append(f"retired: {known.retired}")
    if known.expired is not None:
        marks.append(f"given up after waiting too long: {known.expired}")
    if known.abandoned:
        marks.append("abandoned: a person vouched for it")
    return f" ({'; '.join(marks)})" if marks else ""


def run_words(known: SchedulerObject, run: Run, reader: Reader) -> str:
    """Return where and how long a run ran, how it ended, and the scheduler's words beside it."""
    cause = f" [{run.cause}]" if run.cause is not None else ""
    words = f" The scheduler's words: {quoted(run.reason)}." if run.reason else ""
    if run.cause is Cause.STOPPED_OUTSIDE and not run.reason:
        words = " The scheduler named nobody."
    if run.ended and run.source in _ACCOUNTS:
        words += " The scheduler's list had forgotten it; its accounting knew."
    said = f"Run {run.r}"
    if not run.executed:
        verb = state_words(known, run)
        if run.ended:
            return f"{said} never ran; it {verb}{cause}.{words}"
        return f"{said} hasn't run yet: it {verb}{cause}.{words}"
    started = run.started_at
    since = (
        f"from {reader.time(started)}"
        if started
        else (f"from {reader.time(run.first_seen_at)} at the latest")
    )
    if run.state in (ObjectState.PENDING, ObjectState.RUNNING, ObjectState.ENDING):
        verb = "runs" if run.state is ObjectState.RUNNING else state_words(known, run)
        length = duration(reader.now - (started or run.first_seen_at))
        return f"{said} {verb}{on_nodes(run)} {since}, so far for {length}{cause}.{words}"
    if run.ended_at is not None:
        span = f" ({duration(run.ended_at - started)})" if started else ""
        till = f"to {reader.time(run.ended_at)}{span}"
    elif run.ended_seen_at is not None:
        till = f"to {reader.time(run.ended_seen_at)} at the latest (when that was seen)"
    else:
        till = "to an unknown time"
    return f"{said} ran{on_nodes(run)} {since} {till} and {state_words(known, run)}{cause}.{words}"


def _foreign(known: SchedulerObject) -> str:
    vouched = ", and a person vouched for it" if known.abandoned else ""
    return (
        f"A foreign object carries this job's tag without being of this record: {known.ref}; "
        f"it {state_words(known)}{vouched}."
    )
