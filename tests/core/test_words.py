"""What people read of core: why a step is taken, and why a history is refused.

`pytest tests/core/test_words.py --rewrite` writes the refusals anew; read the difference then.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dispatch.core.fold import fold
from dispatch.core.steps import Next
from dispatch.errors import InvalidRecord
from dispatch.record.header import Rule
from dispatch.record.names import Action
from tests.core.histories import FULL, History, plan, t
from tests.core.test_next_calls import quiet
from tests.core.test_refusals import table

REFUSALS = Path(__file__).parent / "refusals.txt"


def in_place() -> History:
    return History(capabilities=FULL, plan=plan(Action.REQUEUE, in_place=True))


def waiting_too_long() -> History:
    history = History(plan=plan(pending_limit_s=60)).started().released()
    history.later(5).shows("o1", "pending", cause="no_capacity")
    return history.later(30).shows("o1", "pending", cause="no_capacity").later(40)


def refused_thrice(detail: str | None) -> History:
    history = History().authorized()
    for a in (1, 2, 3):
        history.attempt(1, a).refused(1, a, detail=detail).later(30)
    return history


def its_name_is_taken() -> History:
    history = History().running().wants("abandon", target="o1").wants("resubmit")
    history.authorized(2, "ctl:resubmit").attempt(2)
    return history.refused(2, 1, "name_taken").later(60)


def vanished_behind_its_gate() -> History:
    history = History().started().shows("o1", "pending", held=True).later(10)
    return history.shows("o1", "gone").later(30)


WORDS: list[tuple[str, Callable[[], History], list[str]]] = [
    ("never started", History, ["15: the job has never been started"]),
    (
        "authorized",
        lambda: History().authorized(),
        ["16: submission 1 is authorized and nothing of it exists"],
    ),
    ("succeeded", lambda: History().ended("succeeded"), ["12: o1 succeeded"]),
    (
        "to fail",
        lambda: History(plan=plan(Action.FAIL)).ended(),
        ["13: the plan says to fail on app_error"],
    ),
    (
        "to ask",
        lambda: History(plan=plan(Action.HOLD)).ended(),
        ["13: the plan says to ask a person about app_error"],
    ),
    (
        "in place",
        lambda: in_place().ended().later(30),
        ["13: the plan says to requeue in place on app_error"],
    ),
    (
        "by a new submission",
        lambda: History(plan=plan(Action.RESUBMIT)).ended().later(30),
        ["13: submission 1 is over (app_error)"],
    ),
    ("vanished", vanished_behind_its_gate, ["13: submission 1 is over"]),
    (
        "a person's requeue",
        lambda: in_place().running().wants("requeue"),
        ["10: a person asked to run it again, in place"],
    ),
    (
        "waiting too long",
        waiting_too_long,
        ["12b: it has been pending (no_capacity) for too long"],
    ),
    (
        "refused with words",
        lambda: refused_thrice("no such queue"),
        ["17: 3 attempts failed; the last: no such queue"],
    ),
    ("refused without", lambda: refused_thrice(None), ["17: 3 attempts failed"]),
    (
        "refused once",
        lambda: History(start_retries=0).authorized().attempt().refused().later(30),
        ["17: 1 attempt failed"],
    ),
    ("name taken", its_name_is_taken, ["17: the name's holder was abandoned"]),
    (
        "to be resubmitted",
        lambda: History().running().wants("resubmit"),
        ["6: the job is to be resubmitted"],
    ),
    (
        "to be requeued",
        lambda: History().running().wants("requeue"),
        ["6: the job is to be requeued, by a new submission"],
    ),
    (
        "to be held",
        lambda: History().running().wants("hold"),
        ["6: the job is to be held, and the cluster can't hold it as it is"],
    ),
    (
        "cancelled",
        lambda: History().running().wants("cancel"),
        ["6: the job's outcome is cancelled"],
    ),
]


def said(upcoming: Next) -> list[str]:
    return [f"{step.row}: {step.why}" for step in upcoming.steps]


@pytest.mark.parametrize(
    ("write", "words"), [pytest.param(write, words, id=name) for name, write, words in WORDS]
)
def test_a_step_says_why_it_is_taken(write: Callable[[], History], words: list[str]) -> None:
    assert said(quiet(write())) == words


def test_every_escalation_says_the_same_to_the_record_and_to_the_log() -> None:
    history = History().shows("x", "running", n=5)
    (step,) = quiet(history).steps
    assert step.row == "3"
    assert step.why
    assert step.why == step.facts[0].detail  # type: ignore[union-attr]


def test_refusals_read_as_they_did(rewrite: bool) -> None:
    lines = []
    for name, _, _, write in table:
        view = write().view()
        with pytest.raises(InvalidRecord) as caught:
            fold(view, t(9_999))
        reason = str(caught.value).removeprefix(f"job jabcdefgh: entry {view.revision}: ")
        lines.append(f"{name}\n    {reason}\n")
    text = "".join(lines)
    if rewrite:
        REFUSALS.write_text(text)
    assert text == REFUSALS.read_text()


def test_a_plan_that_counts_says_how_often_it_was_answered() -> None:
    once = Rule(action=Action.RESUBMIT, limit=1, after_limit=Action.HOLD)
    history = History(plan=plan(app_error=once)).ended().later(30)
    history.authorized(2, "rec:1.1", cause="app_error").attempt(2).replied(2, ref="o2")
    history.canonical("o2", 2).released("o2").later(5).shows("o2", "failed", n=2).later(30)
    (step,) = quiet(history).steps
    assert step.facts[0].detail == "app_error: 1 of 1 recoveries used"  # type: ignore[union-attr]
