"""Tells a history as text: what was wanted, what a look showed, what was written and called."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Self

from dispatch.core.decide import Decision, decide, key
from dispatch.core.fold import fold
from dispatch.core.project import project
from dispatch.core.steps import (
    Alert,
    Hold,
    Lookup,
    Release,
    Requeue,
    Start,
    Step,
    Stop,
)
from dispatch.record.codec import Entry
from dispatch.record.control import Control
from dispatch.record.evidence import Discovery, Sighting
from dispatch.record.fact import Observed
from tests.core.histories import T0, History, t


def seconds(time: datetime) -> str:
    """A time as seconds after the job's creation."""
    return f"{(time - T0).total_seconds():g}"


def shown(sighting: Sighting) -> str:
    """A sighting in a few words."""
    words = [sighting.ref, sighting.state.value]
    words += [sighting.cause.value] if sighting.cause else []
    words += ["held"] if sighting.held else []
    words += [f"restarts={sighting.restarts}"] if sighting.restarts else []
    words += [f"{sighting.n}.{sighting.a}"] if (sighting.n, sighting.a) != (1, 1) else []
    words += [f"lost_at={seconds(sighting.lost_at)}"] if sighting.lost_at else []
    return " ".join(words)


def entry_text(entry: Entry) -> str:
    """An entry on one line, without who and when."""
    if isinstance(entry, Control):
        return f"{entry.kind} {entry.id}"
    if isinstance(entry, Observed):
        return "observed " + "; ".join(shown(one) for one in entry.objects)
    words: list[str] = [entry.fact]
    for name in type(entry).model_fields:
        value = getattr(entry, name)
        if name in ("at", "by", "fact") or value is None:
            continue
        if isinstance(value, datetime):
            value = seconds(value)
        elif name == "adjust":
            value = value.model_dump(exclude_defaults=True)
        words.append(f"{name}={value}")
    return " ".join(words)


def step_text(step: Step) -> str:
    """A call on one line."""
    match step:
        case Start():
            return f"start {step.fact.n}.{step.fact.a}"
        case Stop() | Release() | Alert():
            return f"{type(step).__name__.lower()} {step.ref}"
        case Hold() | Requeue():
            return f"{type(step).__name__.lower()} {step.fact.ref}"
        case Lookup():
            return "lookup " + " ".join([*step.refs, *(f"{n}.{a}" for n, a in step.attempts)])
        case _:
            raise AssertionError(step)


class Teller:
    """A history that writes down how it came about."""

    def __init__(self, title: str, history: History) -> None:
        self.history = history
        self.lines = [title, ""]
        self.made: frozenset[tuple[str, ...]] = frozenset()

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def _at(self, words: str) -> None:
        self.lines.append(f"{self.history.now:>6g}  {words}")

    def later(self, by: float) -> Self:
        self.history.later(by)
        return self

    def person(self, kind: str, **fields: Any) -> Self:
        """A person appends an intent; the receipt is told."""
        id_ = f"{kind}-{len(self.history.entries)}"
        self.history.wants(kind, id_, **fields)
        wish = self.history.job().wishes[id_]
        note = f" ({wish.note})" if wish.note else ""
        self._at(f"person: {kind} {fields.get('target', '')}".rstrip() + f" -> {wish.effect}{note}")
        return self

    def reply(self, ref: str = "o1", n: int = 1, a: int = 1) -> Self:
        """The Start's reply comes, and is recorded."""
        self.history.replied(n, a, ref)
        self._at(f"reply: {n}.{a} started as {ref}")
        return self

    def refusal(self, n: int, a: int, cause: str, detail: str) -> Self:
        self.history.refused(n, a, cause, detail)
        self._at(f"reply: {n}.{a} refused, {cause}: {detail}")
        return self

    def note(self, words: str) -> Self:
        self._at(f"-- {words}")
        return self

    def sight(self, *args: Any, **fields: Any) -> Sighting:
        return self.history.sight(*args, **fields)

    def look(
        self,
        *sightings: Sighting,
        complete: bool = True,
        answer: tuple[Sighting, ...] | None = None,
    ) -> Self:
        """A look, and the pass it leads to; `answer` is what accounting says if it is asked."""
        words = "; ".join(shown(one) for one in sightings) or "nothing"
        self._at(f"look{'' if complete else ' (incomplete)'}: {words}")
        discovery = self.history.sees(*sightings, complete=complete)
        self.made = frozenset()
        while True:
            now = t(self.history.now)
            job = fold(self.history.view(), now)
            decision = decide(job, discovery, now, by="s1", made=self.made)
            if decision.idle:
                break
            discovery = self._carry_out(decision, discovery, answer or ())
            if isinstance(decision.once, Start):
                return self
        waiting = [
            f"{one.what}{'' if one.until is None else ' until ' + seconds(one.until)}"
            for one in decision.next.waiting
        ]
        if waiting:
            self.lines.append(f"        waits: {', '.join(waiting)}")
        return self

    def _carry_out(
        self, decision: Decision, discovery: Discovery, answer: tuple[Sighting, ...]
    ) -> Discovery:
        if decision.facts:
            self.lines.append(f"        commit (rows {' '.join(decision.rows)})")
            self.lines += [f"          {entry_text(fact)}" for fact in decision.facts]
            self.history.add(*decision.facts)
        for step in decision.repeatable:
            self.lines.append(f"        {step_text(step)}: {step.why}")
            if isinstance(step, Lookup):
                named = {*step.refs, *(f"{n}.{a}" for n, a in step.attempts)}
                known = {one.ref for one in answer} | {f"{one.n}.{one.a}" for one in answer}
                words = "; ".join(shown(one) for one in answer) or "it doesn't know"
                self.lines.append(f"        accounting: {words}")
                discovery = discovery.with_lookup(answer, frozenset(named - known))
        self.made |= {key(step) for step in decision.repeatable}
        if decision.once is not None:
            self.lines.append(f"        {step_text(decision.once)}")
        return discovery

    def status(self) -> Self:
        """The status that a reader would get without a look of its own."""
        status = project(self.history.job(), None, t(self.history.now))
        words = [status.state.value]
        words += [f"outcome {status.outcome.value}"] if status.outcome else []
        words += [f"cause {status.cause.value}"] if status.cause else []
        words += [f"holds {', '.join(status.holds)}"] if status.holds else []
        words += [f"unsettled: {'; '.join(status.unsettled)}"] if status.unsettled else []
        words += ["settled"] if status.settled_at else []
        self._at("status: " + ", ".join(words))
        return self
