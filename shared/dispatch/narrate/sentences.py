"""Every kind of entry as one sentence, and the reason for it."""

from __future__ import annotations

import re
from typing import assert_never

from dispatch.core.job import Job
from dispatch.core.parts import Call, CallKind, CallState, Effect, SchedulerObject, Wish
from dispatch.narrate.chronicle import Moment
from dispatch.narrate.words import (
    CAUSE_WORDS,
    Reader,
    command_of,
    counted,
    object_name,
    quoted,
    size_of,
    state_words,
)
from dispatch.record import fact as facts
from dispatch.record.control import Control
from dispatch.record.evidence import Sighting
from dispatch.record.header import Adjust, Header
from dispatch.record.names import Action, Cause, IntentKind, Outcome, ReplyResult

Said = tuple[str, str | None]
"""What happened, and why."""

INTENT_WORDS: dict[IntentKind, str] = {
    IntentKind.CANCEL: "cancel it",
    IntentKind.HOLD: "hold it",
    IntentKind.RELEASE: "release it",
    IntentKind.REQUEUE: "requeue it",
    IntentKind.RESUBMIT: "resubmit it",
    IntentKind.GIVE_UP: "give it up",
    IntentKind.ABANDON: "abandon",
}

ACTION_WORDS: dict[Action, str] = {
    Action.REQUEUE: "requeue",
    Action.RESUBMIT: "resubmit",
    Action.HOLD: "ask a person",
    Action.FAIL: "fail",
}

_RECOVERY = re.compile(r"^rec:(\d+)\.(\d+)(:f|:h)?$")


def created(header: Header) -> Said:
    """Return the header's sentence."""
    spec = header.spec
    what = (
        f"submitted {quoted(spec.name)} to {header.declarations.cluster}: "
        f"{command_of(spec)}, {size_of(spec)}"
    )
    if header.lineage.supersedes is None:
        return what, None
    return what, f"replaces {header.lineage.supersedes} (generation {header.lineage.generation})"


def sentence(moment: Moment, reader: Reader) -> Said:
    """Return what an entry says, in plain words, and the reason it was written.

    The entry must be one that folds: `moment.before` and `moment.after` are there.
    """
    before, after, entry = moment.before, moment.after, moment.entry
    assert before is not None
    assert after is not None
    assert entry is not None
    if isinstance(entry, Control):
        return wished(before, after, entry)
    return _fact(before, after, entry, reader)


def wished(before: Job, after: Job, entry: Control) -> Said:
    """Return what a person asked for and what that did."""
    target = "" if entry.target is None else f" {_target(after, entry.target)}"
    asked = f"asked to {INTENT_WORDS[entry.kind]}{target}"
    reason = quoted(entry.reason) if entry.reason else None
    if entry.id in before.wishes:
        return f"{asked}: a repeat of intent {entry.id}, no effect", reason
    return f"{asked}: {effect_words(after.wishes[entry.id])}", reason


def effect_words(wish: Wish) -> str:
    """Return what a control intent did where it stands."""
    match wish.effect:
        case Effect.APPLIED:
            note = wish.note
            if note is None and wish.kind in (IntentKind.CANCEL, IntentKind.GIVE_UP):
                note = f"the outcome is {wish.outcome}"
            return "done" + (f"; {note}" if note else "")
        case Effect.ALREADY:
            return f"so it was already; {wish.note}" if wish.note else "so it was already"
        case Effect.NO_EFFECT:
            return f"no effect; {wish.note}" if wish.note else "no effect"


def _target(job: Job, target: str) -> str:
    return object_name(job, target) if target in job.objects else f"attempt {target}"


def _fact(before: Job, after: Job, fact: facts.Fact, reader: Reader) -> Said:
    match fact:
        case facts.Observed():
            return _observed(before, after, fact)
        case facts.Authorized():
            return _authorized(before, after, fact)
        case facts.Attempt() | facts.Replied() | facts.Unmatched():
            return _starting(after, fact, reader)
        case facts.Canonical() | facts.Retired() | facts.Expired() | facts.Released():
            return _choosing(after, fact)
        case facts.HoldCall() | facts.RequeueCall():
            return _called(before, after, fact, reader)
        case facts.RecoveryHold() | facts.OutcomeFact():
            return _decided(before, fact)
        case facts.Escalated():
            return f"told people: {fact.detail}", fact.code
        case facts.Settled():
            return "settled: nothing of this job is left anywhere", None
        case _:
            assert_never(fact)


# --- starting -------------------------------------------------------------------------------


def _authorized(before: Job, after: Job, fact: facts.Authorized) -> Said:
    what = f"decided that submission {fact.n} may start"
    changed = adjust_words(before, fact.adjust)
    if changed:
        what += f", with {changed}"
    return what, trigger_words(after, fact.trigger, fact.cause)


def adjust_words(job: Job, adjust: Adjust | None) -> str:
    """Return what the plan changes for a submission; empty for nothing."""
    parts = []
    if adjust is not None and adjust.memory_mb_per_node is not None:
        parts.append(f"{adjust.memory_mb_per_node:,} MB on each node")
    if adjust is not None and adjust.avoid_nodes:
        parts.append(f"none of it on {', '.join(adjust.avoid_nodes)}")
    return " and ".join(parts)


def trigger_words(job: Job, trigger: str, cause: Cause | None, *, budget: bool = True) -> str:
    """Return the one reason that a decision answers.

    Args:
        job: As folded right after the decision; a later fold would tell a later budget.
        trigger: The reason's name.
        cause: What the decision answers.
        budget: Whether to tell what is spent of the plan's.
    """
    if trigger == "initial":
        return "it had never been started"
    if trigger.startswith("ctl:"):
        wish = job.wishes.get(trigger.removeprefix("ctl:"))
        if wish is None:
            return f"intent {trigger.removeprefix('ctl:')}"
        return f"{wish.by} asked to {INTENT_WORDS[wish.kind]}"
    if trigger.startswith("start/"):
        return f"the starts of submission {trigger.removeprefix('start/')} are used up"
    if trigger.startswith("pend:"):
        return "the plan's pending limit passed"
    met = _RECOVERY.match(trigger)
    run = "" if met is None else f"run {met[2]} of submission {met[1]}"
    if trigger.endswith(":f"):
        return f"the requeue in place of {run} never took effect"
    if cause is None:
        return f"{run} was lost before it was ever let run, so no budget is spent"
    return f"{run} {CAUSE_WORDS[cause]}; {plan_words(job, cause, budget=budget)}"


def plan_words(job: Job, cause: Cause, *, budget: bool = True) -> str:
    """Return the plan's rule for a cause and how much of its budget is spent."""
    rule = job.plan.rule(cause)
    said = f"the plan says to {ACTION_WORDS[rule.action]}"
    if budget and rule.action in (Action.REQUEUE, Action.RESUBMIT):
        said += f" ({job.spent.get(cause, 0)} of {rule.limit} used)"
    return said


def _starting(
    after: Job, fact: facts.Attempt | facts.Replied | facts.Unmatched, reader: Reader
) -> Said:
    name = f"start {fact.n}.{fact.a}"
    match fact:
        case facts.Attempt():
            return f"is about to send {name}", f"it may land until {reader.time(fact.deadline)}"
        case facts.Unmatched():
            return (
                f"closed {name}: it can't land any more",
                "a complete look begun after its deadline doesn't show it",
            )
        case facts.Replied():
            words = quoted(fact.detail) if fact.detail else None
            match fact.result:
                case ReplyResult.STARTED:
                    return f"heard that {name} was accepted as {fact.ref}", words
                case ReplyResult.REFUSED:
                    said = f" ({fact.cause})" if fact.cause else ""
                    return f"heard that {name} was refused{said}", words
                case ReplyResult.NOT_SENT:
                    return f"didn't send {name}", words


def _choosing(
    after: Job, fact: facts.Canonical | facts.Retired | facts.Expired | facts.Released
) -> Said:
    name = object_name(after, fact.ref)
    match fact:
        case facts.Canonical():
            return f"chose {name} as the run of submission {fact.n}", None
        case facts.Retired():
            return f"retired {name}: it is stopped for good", fact.reason
        case facts.Expired():
            return (
                f"gave up waiting for {name}: it is stopped and counts as {fact.cause}",
                "the plan's pending limit passed",
            )
        case facts.Released():
            return f"opened the gate of {name}: from here on it may run", None


def _called(
    before: Job, after: Job, fact: facts.HoldCall | facts.RequeueCall, reader: Reader
) -> Said:
    verb = "hold" if isinstance(fact, facts.HoldCall) else "requeue"
    what = (
        f"is about to ask the scheduler to {verb} {object_name(after, fact.ref)} "
        f"(may land until {reader.time(fact.deadline)})"
    )
    if isinstance(fact, facts.RequeueCall):
        return what, trigger_words(after, fact.trigger, fact.cause)
    if before.user_hold is not None:
        return what, f"{before.user_hold.by} asked to hold it"
    return what, "the plan asks a person"


# --- evidence -------------------------------------------------------------------------------


def _observed(before: Job, after: Job, fact: facts.Observed) -> Said:
    said: list[str] = []
    words: list[str] = []
    for sighting in fact.objects:
        known = after.objects[sighting.ref]
        said.append(_seen(before, after, sighting, known))
        if known.run.reason and known.run.reason == sighting.reason:
            words.append(quoted(known.run.reason))
    said += _landed(before, after)
    return "saw that " + "; ".join(said), "; ".join(dict.fromkeys(words)) or None


def _seen(before: Job, after: Job, sighting: Sighting, known: SchedulerObject) -> str:
    name = object_name(after, known.ref)
    was = before.objects.get(known.ref)
    if known.foreign:
        return f"{name} carries this job's tag and isn't of this record; it {state_words(known)}"
    if was is None:
        return f"{name} exists ({known.ref}) and {state_words(known)}"
    if known.run.r != was.run.r:
        return f"run {known.run.r} of {name} began: it {state_words(known)}"
    if (known.run.state, known.run.held) == (was.run.state, was.run.held):
        if known.run == was.run:
            return f"{name} is unchanged"
        return f"{name} still {state_words(known)}"
    if known.expired is not None and known.ended:
        return f"{name} has ended, having waited too long ({known.expired})"
    return f"{name} {state_words(known)}"


def _landed(before: Job, after: Job) -> list[str]:
    was = {(c.kind, c.ref, c.at): c.state for c in before.calls}
    told = []
    for call in (*after.calls, *after.done_calls):
        state = was.get((call.kind, call.ref, call.at))
        if state is not None and state is not call.state:
            told.append(call_words(after, call))
    return told


def call_words(job: Job, call: Call) -> str:
    """Return what became of a hold or requeue call."""
    verb = "hold" if call.kind is CallKind.HOLD else "requeue"
    name = object_name(job, call.ref)
    match call.state:
        case CallState.OPEN:
            return f"the {verb} of {name} may still land"
        case CallState.LANDED:
            return f"the {verb} of {name} took effect"
        case CallState.EXPIRED:
            return f"the {verb} of {name} never took effect"


# --- ending ---------------------------------------------------------------------------------


def _decided(before: Job, fact: facts.RecoveryHold | facts.OutcomeFact) -> Said:
    match fact:
        case facts.RecoveryHold():
            words = quoted(fact.detail) if fact.detail else None
            return (
                f"put the job on hold for a person: it {CAUSE_WORDS[fact.cause]}",
                "; ".join(filter(None, (_hold_reason(before, fact), words))),
            )
        case facts.OutcomeFact():
            if fact.state is Outcome.SUCCEEDED or fact.cause is None:
                return f"committed the outcome: {fact.state}", None
            words = quoted(fact.detail) if fact.detail else None
            rule = plan_words(before, fact.cause)
            return (
                f"committed the outcome: {fact.state} ({fact.cause})",
                "; ".join(filter(None, (rule, words))),
            )


def _hold_reason(before: Job, fact: facts.RecoveryHold) -> str:
    if fact.trigger.startswith("start/"):
        allowed = before.header.start_retries
        return f"{counted(allowed, 'start retry', 'start retries')} allowed and used"
    rule = before.plan.rule(fact.cause)
    if rule.action is Action.HOLD:
        return plan_words(before, fact.cause)
    return f"{plan_words(before, fact.cause)}, then to {ACTION_WORDS[rule.after_limit]}"
