"""Why a job stands as it does: a short, exact story told from the record alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dispatch.core.job import Job
from dispatch.core.project import Staleness, State, Status, project
from dispatch.core.settled import open_because
from dispatch.core.steps import Waiting
from dispatch.narrate.advice import Advice, advice, advice_on_refused
from dispatch.narrate.around import NOT_SAFE, Around, advice_around, again, around_words
from dispatch.narrate.chronicle import Chronicle, Moment, chronicle
from dispatch.narrate.cures import CURES
from dispatch.narrate.pages import cause_page
from dispatch.narrate.runs import runs_of
from dispatch.narrate.sentences import created, sentence
from dispatch.narrate.standing import own_run, since_of
from dispatch.narrate.words import CAUSE_WORDS, Reader, counted, hold_words, on_nodes, quoted
from dispatch.record import fact as facts
from dispatch.record.control import Control
from dispatch.record.evidence import Discovery
from dispatch.record.header import Header
from dispatch.record.names import ObjectState, Outcome
from dispatch.record.view import View

_DECISIONS = (
    facts.Authorized,
    facts.RequeueCall,
    facts.RecoveryHold,
    facts.OutcomeFact,
    facts.Expired,
    facts.Retired,
    facts.Unmatched,
    facts.Settled,
)


@dataclass(frozen=True, slots=True)
class Section:
    """One question and its answer.

    Attributes:
        title: The question, short.
        lines: The answer; a line that starts with spaces belongs to the one before it.
    """

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Story:
    """A record told to a person.

    Attributes:
        job_id: Whose.
        headline: All of it in one line.
        sections: The questions a person asks, in order.
        advice: What can be done next.
        foldable: Whether the record can be folded.
    """

    job_id: str
    headline: str
    sections: tuple[Section, ...]
    advice: tuple[Advice, ...]
    foldable: bool


def why(
    view: View,
    reader: Reader,
    *,
    discovery: Discovery | None = None,
    staleness: Staleness | None = None,
    around: Around | None = None,
) -> Story:
    """Return what was wanted, what ran, what was decided, what is waited for, and what to do.

    Args:
        view: The record as read.
        reader: Whom it is told to; its `now` is the one time all is judged at.
        discovery: A live look at the cluster, if one was taken.
        staleness: The cluster's health, for display.
        around: What bears on it from outside of its record, where that is known.
    """
    told = chronicle(view)
    if told.header is not None:
        reader = reader.on_the_day_of(told.header.created_at)
    if told.refused is not None or told.job is None:
        return _refused(told, reader)
    around = around or Around()
    status = project(told.job, discovery, reader.now, staleness=staleness)
    return Story(
        job_id=view.job_id,
        headline=headline(status, beside=_beside(told.job, status)),
        sections=(
            Section("What was wanted", tuple(_wanted(told, told.job.header, reader))),
            Section("What ran", tuple(runs_of(told.job, reader))),
            Section("What was decided", tuple(_decided(told, reader))),
            Section("Now", tuple(_now(told.job, status, around, reader))),
            Section("May anything still run?", tuple(_still(told.job, status, around, reader))),
            Section("Is it safe to run it again?", tuple(again(told.job))),
            *_helps(status),
        ),
        advice=(*advice(told.job), *advice_around(status, around)),
        foldable=True,
    )


def _helps(status: Status) -> Iterator[Section]:
    """Yield what most likely helps, where something went wrong and nothing answers it yet."""
    well = status.outcome in (Outcome.SUCCEEDED, Outcome.CANCELLED)
    if status.cause is None or well or status.state in (State.STARTING, State.RUNNING):
        return
    cure = CURES[status.cause]
    likely = cure.likely.replace(" JOB", f" {status.job_id}").replace("`", "")
    more = f"More: {cause_page(status.cause)}."
    yield Section(f"What most likely helps against {status.cause}", (cure.meaning, likely, more))


def _beside(job: Job, status: Status) -> bool:
    """Return whether what is being stopped isn't a job's run, which goes on."""
    return status.state is State.STOPPING and own_run(job) is not None


def headline(status: Status, *, beside: bool = False) -> str:
    """Return a job's status in one line.

    Args:
        status: What it is doing.
        beside: Whether what is being stopped isn't its run.
    """
    said = f"{status.job_id} {quoted(status.name)} on {status.cluster}: "
    if status.outcome is None:
        held = " and ".join(hold_words(one) for one in status.holds)
        if held and status.state is not State.HELD:
            held = f", held {held}"
        doing = "running, while an object beside its run is stopped" if beside else status.state
        return f"{said}{doing} {held}".rstrip().replace(" ,", ",")
    cause = f" ({status.cause})" if status.cause and status.outcome is Outcome.FAILED else ""
    end = "settled" if status.settled_at else "not settled yet"
    return f"{said}{status.outcome}{cause}, {end}"


def _wanted(told: Chronicle, header: Header, reader: Reader) -> Iterator[str]:
    what, why_ = created(header)
    day = f"{reader.date(header.created_at)}, times in {reader.zone_name}"
    yield (
        f"{header.created_by} {what}, at {reader.time(header.created_at)} ({day})"
        + (f"; it {why_}." if why_ else ".")
    )
    for moment in told.moments:
        if isinstance(moment.entry, Control):
            yield _line(moment, reader)


def _decided(told: Chronicle, reader: Reader) -> Iterator[str]:
    nothing = True
    for moment in told.moments:
        if isinstance(moment.entry, _DECISIONS) or _made_the_outcome(moment):
            nothing = False
            yield _line(moment, reader)
    if nothing:
        yield "Nothing yet."


def _made_the_outcome(moment: Moment) -> bool:
    before, after = moment.before, moment.after
    if before is None or after is None:
        return False
    return before.ending is None and after.ending is not None


def _line(moment: Moment, reader: Reader) -> str:
    what, why_ = sentence(moment, reader)
    assert moment.entry is not None
    reason = f" ({why_})" if why_ else ""
    return (
        f"Entry {moment.number}, {reader.time(moment.entry.at)}: {moment.entry.by} {what}{reason}."
    )


_STATES: dict[State, str] = {
    State.PENDING: "It is to run and doesn't yet.",
    State.HELD: "It is held.",
    State.STARTING: "It is being started.",
    State.RUNNING: "It runs.",
    State.STOPPING: "It is being stopped.",
    State.ENDED: "It has ended.",
}


def _now(job: Job, status: Status, around: Around, reader: Reader) -> Iterator[str]:
    beside = _beside(job, status)
    said = _STATES[State.RUNNING if beside else status.state]
    if _ends_by_itself(job, status):
        yield "Its run is ending at the scheduler, which hasn't said yet that it has ended."
        yield from around_words(status, around, reader)
        yield from _evidence(status, reader)
        return
    held = " and ".join(hold_words(one) for one in status.holds)
    if status.outcome is None:
        since = since_of(job)
        runs = job.canonical if beside or status.state is State.RUNNING else None
        where = "" if runs is None else on_nodes(runs.run)
        by = f" {held}" if held and status.state is State.HELD else ""
        said = f"{said.removesuffix('.')}{where}{by}, since {reader.time(since)} "
        said += f"({reader.ago(since)})."
    if held and status.state is not State.HELD:
        said += f" Held {held}."
    yield said
    if status.waiting_for:
        yield from (f"Waiting: {_wait(job, one, reader)}." for one in status.waiting_for)
    elif status.outcome is None and status.state is not State.RUNNING and not around.holds_back:
        yield "Waiting: for the supervisor's next look at the cluster."
    for told in status.escalations:
        yield f"People were told at {reader.time(told.at)} [{told.code}]: {told.detail}."
    yield from around_words(status, around, reader)
    yield from _evidence(status, reader)


def _ends_by_itself(job: Job, status: Status) -> bool:
    """Return whether a run is ending that Dispatch neither stops nor waits to do anything about."""
    canonical = job.canonical
    quiet = not (status.waiting_for or status.holds or status.escalations)
    ending = canonical is not None and canonical.run.state is ObjectState.ENDING
    return ending and quiet and status.outcome is None


def _wait(job: Job, waiting: Waiting, reader: Reader) -> str:
    """Return one thing that a job waits for, with what its record knows beside it."""
    said = waiting_words(waiting, reader)
    if waiting.what != "capacity" or job.canonical is None:
        return said
    run = job.canonical.run
    if run.holder is not None:
        return f"{run.holder} holds it at the scheduler; Dispatch leaves that hold alone"
    if run.reason is None and run.cause is not None:
        said += f"; it {CAUSE_WORDS[run.cause]}"
    if run.cause is not None and job.plan.pending_limit_s is None:
        said += "; its plan sets no limit to that wait"
    return said


def waiting_words(waiting: Waiting, reader: Reader) -> str:
    """Return one thing that a job waits for, and until when."""
    if waiting.until is None:
        return waiting.detail
    until = reader.until(waiting.until)
    if waiting.what == "capacity":
        return f"{waiting.detail}; by its plan it waits {until} at most"
    return f"{waiting.detail}, {until}"


def _evidence(status: Status, reader: Reader) -> Iterator[str]:
    if status.discovery_at is not None:
        whole = "complete" if status.complete else "incomplete"
        yield f"This rests on a {whole} look begun {reader.ago(status.discovery_at)}."
    elif status.settled_at is not None:
        pass
    elif status.evidence_at is None:
        yield "The cluster has shown nothing of it yet."
    else:
        seen = reader.ago(status.evidence_at)
        yield f"This rests on the record; its newest evidence was seen {seen}."
    health = status.stale_since
    if health is None or status.settled_at is not None:
        return
    if health.last_tick is None:
        yield "The cluster has never been looked after."
    else:
        yield f"The cluster was last looked after {reader.ago(health.last_tick)}."
    if health.last_error:
        yield f"The last look failed: {quoted(health.last_error)}."


def _still(job: Job, status: Status, around: Around, reader: Reader) -> Iterator[str]:
    if job.settled_at is not None:
        at = reader.time(job.settled_at)
        yield f"No. It was settled at {at}, on a complete look that showed nothing left."
        return
    reasons = status.unsettled or tuple(
        reason
        for reason in open_because(job, reader.now, reader.now)
        if job.ending is not None or not reason.startswith("there is no outcome")
    )
    if reasons:
        yield "Yes:" if _executes(job) else "It isn't ruled out:"
        yield from (f"  {reason}{_which(job, reason)}" for reason in reasons)
    elif job.ending is not None:
        yield "Nothing is known of that could; the next complete look will settle it."
    elif job.held:
        yield "No. Nothing of it runs, and nothing is started before a person answers."
    else:
        brake = " once its cluster's brake is off" if around.holds_back else ""
        yield f"Nothing of it runs now; Dispatch will start it{brake}."


def _which(job: Job, reason: str) -> str:
    """Return whether an object that a reason names is the job's run, where there are several."""
    live = [one for one in job.objects.values() if not one.ended]
    if len(live) < 2:
        return ""
    for one in live:
        if reason.startswith(f"object {one.ref} "):
            return ": its run" if one is job.canonical else ": not its run" if one.retired else ""
    return ""


def _executes(job: Job) -> bool:
    executing = (ObjectState.RUNNING, ObjectState.ENDING)
    return any(one.run.state in executing and not one.abandoned for one in job.objects.values())


def _refused(told: Chronicle, reader: Reader) -> Story:
    refused = told.refused
    assert refused is not None
    entry = refused.entry or 0
    where = "the header" if entry == 0 else f"entry {entry} of {told.view.revision}"
    name = told.view.job_id
    lines = [
        f"{where[0].upper()}{where[1:]} can't be accepted: {refused.reason}.",
        f"  Rule: {refused.rule or refused.code}.",
    ]
    if refused.field:
        lines.append(f"  Field: {refused.field}.")
    moment = told.moments[entry - 1] if entry else None
    if moment is not None:
        lines.append(f"  Schema: {moment.stored.schema}.")
        if moment.entry is not None:
            lines.append(f"  Written by {moment.entry.by} at {reader.time(moment.entry.at)}.")
    behind = told.view.revision - entry
    if behind:
        lines.append(f"  {counted(behind, 'entry', 'entries')} behind it can't be judged either.")
    sections = [Section("Where reading stops", tuple(lines))]
    if told.header is not None:
        sections.insert(0, Section("What was wanted", _wanted_before(told, reader)))
    if told.job is not None:
        status = project(told.job, None, reader.now)
        sections.append(
            Section(
                "What it said before",
                (
                    f"Up to entry {told.job.revision}: {headline(status)}.",
                    *runs_of(told.job, reader),
                ),
            )
        )
    sections.append(Section("What still works", _STILL_WORKS))
    sections.append(Section("Is it safe to run it again?", NOT_SAFE))
    return Story(
        job_id=name,
        headline=f"{name}: the record can't be read beyond {where}; nothing is guessed",
        sections=tuple(sections),
        advice=tuple(advice_on_refused(name)),
        foldable=False,
    )


_STILL_WORKS = (
    "Dispatch makes no call for this job, neither to start nor to stop: what runs, runs on.",
    "Cancel and the other intents are recorded; a build that can read the record carries them out.",
    "Look at the scheduler itself for what runs now.",
)


def _wanted_before(told: Chronicle, reader: Reader) -> tuple[str, ...]:
    assert told.header is not None
    readable = Chronicle(
        told.view,
        told.header,
        tuple(one for one in told.moments if one.after is not None),
        told.job,
        None,
    )
    lines = list(_wanted(readable, told.header, reader))
    for moment in told.moments:
        if moment.after is None and isinstance(moment.entry, Control):
            kind = moment.entry.kind
            when = reader.time(moment.entry.at)
            lines.append(
                f"Entry {moment.number}, {when}: {moment.entry.by} asked to {kind}; "
                "its effect can't be told."
            )
    return tuple(lines)


def as_text(story: Story) -> str:
    """Return a story as plain text."""
    parts = [story.headline]
    for section in story.sections:
        parts.append("\n".join((section.title, *(f"  {line}" for line in section.lines))))
    commands = "\n".join(f"  {one.command}\n      {one.purpose}" for one in story.advice)
    parts.append(f"What you can do\n{commands}")
    return "\n\n".join(parts) + "\n"
