"""The record as people read it: exact, in plain words, and nothing left out."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone
from typing import get_args

import pytest

from dispatch.core.project import Staleness
from dispatch.narrate.around import Around
from dispatch.narrate.history import history
from dispatch.narrate.sentences import ACTION_WORDS, INTENT_WORDS
from dispatch.narrate.story import as_text, why
from dispatch.narrate.words import CAUSE_WORDS, Reader, duration
from dispatch.record import fact as facts
from dispatch.record.codec import decode_entry
from dispatch.record.names import Action, Cause, IntentKind
from dispatch.record.view import View
from tests.cli.test_terminal import commands
from tests.narrate.golden import FOLDER, told
from tests.narrate.stories import STORIES, impossible, new, newer_fact
from tests.narrate.written import (
    Written,
    at,
    cancelled_while_running,
    held_for_a_person,
    preempted_and_recovered,
)


def reader(seconds: float = 100) -> Reader:
    return Reader(at(seconds), UTC)


@pytest.mark.parametrize("name", STORIES)
def test_a_story_is_told_as_it_was_checked_in(name: str) -> None:
    view, seconds = STORIES[name]
    golden = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    assert told(view(), seconds) == golden, "python -m tests.narrate.golden rewrites the texts"


def test_no_checked_in_text_is_left_without_its_story() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(STORIES)


def test_every_cause_intent_and_action_has_words_of_its_own() -> None:
    assert set(CAUSE_WORDS) == set(Cause)
    assert len(set(CAUSE_WORDS.values())) == len(Cause)
    assert set(INTENT_WORDS) == set(IntentKind)
    assert set(ACTION_WORDS) == set(Action)


def test_the_checked_in_stories_tell_every_kind_of_fact() -> None:
    seen = set()
    for view, _ in STORIES.values():
        record = view()
        for stored in record.entries:
            if stored.schema == facts.FACT_SCHEMA:
                seen.add(type(decode_entry(stored)))
    assert set(get_args(facts.Fact)) - seen == {facts.HoldCall}


def test_a_hold_call_is_told_with_whose_wish_it_answers() -> None:
    w = Written().authorized(1).attempt(2).started(3)
    w.fact(3, facts.Canonical, n=1, ref=w.ref())
    w.intent(4, IntentKind.HOLD)
    w.fact(5, facts.HoldCall, ref=w.ref(), run=1, restarts=0, deadline=at(25))
    last = history(w.view, reader()).lines[-1]
    assert last.what == "is about to ask the scheduler to hold object 1.1 (may land until 09:00:25)"
    assert last.why == "local:grace asked to hold it"


def test_a_history_has_a_line_for_every_entry_and_the_header() -> None:
    for view, _ in STORIES.values():
        record = view()
        lines = history(record, reader()).lines
        assert [line.entry for line in lines] == list(range(record.revision + 1))


def test_times_are_told_in_the_reader_s_zone_and_day() -> None:
    east = timezone(timedelta(hours=9), "JST")
    view = cancelled_while_running().view
    text = as_text(why(view, Reader(at(100), east)))
    assert "at 18:00:00 (2026-03-05, times in JST)" in text
    late = Reader(at(100), timezone(timedelta(hours=15), "X"))
    assert "at 00:00:00 (2026-03-06, times in X)" in as_text(why(view, late))


def test_a_refused_record_names_the_entry_the_rule_and_what_still_works() -> None:
    story = why(impossible(), reader())
    text = as_text(story)
    assert not story.foldable
    assert "entry 7 of 8" in story.headline
    assert "Rule: second_canonical." in text
    assert "Field: n." in text
    assert "Dispatch makes no call for this job" in text
    assert [one.command.split()[1] for one in story.advice] == ["history", "export", "cancel"]


def test_an_intent_behind_an_entry_of_a_newer_build_is_told_and_its_effect_isn_t_guessed() -> None:
    """F42: a newer fact is refused, and a cancel can still be appended."""
    text = as_text(why(newer_fact(), reader()))
    assert "local:grace asked to cancel; its effect can't be told." in text
    assert "Up to entry 6" in text


def test_what_stands_behind_a_refusal_is_never_told_as_if_it_held() -> None:
    lines = history(impossible(), reader()).lines
    assert [line.kind for line in lines[-2:]] == ["refused", "unread"]
    assert lines[-1].what == "not read: OutcomeFact"


def test_every_prefix_of_a_history_can_be_told() -> None:
    view = preempted_and_recovered().view
    for revision in range(view.revision + 1):
        story = why(view.at(revision), reader())
        assert story.foldable
        assert story.advice
        assert history(view.at(revision), reader()).refused is None


def test_the_settled_are_advised_to_supersede_and_the_held_to_answer() -> None:
    held = [one.command for one in why(held_for_a_person().view, reader()).advice]
    assert held[:3] == [
        "dispatch resubmit jtrainingjob0000001",
        "dispatch give-up jtrainingjob0000001 --reason WHY",
        "dispatch cancel jtrainingjob0000001",
    ]
    over = [one.command for one in why(cancelled_while_running().view, reader()).advice]
    assert over[0] == "dispatch resubmit jtrainingjob0000001 --anew"
    assert over[1] == "dispatch submit FILE --supersedes jtrainingjob0000001"


def test_how_stale_the_supervision_is_stands_in_the_story() -> None:
    health = Staleness("worker", at(40), at(30), "connection refused")
    text = as_text(why(held_for_a_person().view, reader(100), staleness=health))
    assert "The cluster was last looked after 1 min ago." in text
    assert "The last look failed: “connection refused”." in text


def test_a_text_that_isn_t_an_entry_at_all_is_shown_and_not_skipped() -> None:
    view = cancelled_while_running().view
    torn = view.entries[2]._replace(body=view.entries[2].body[:-9])
    record = View(view.job_id, view.header, (*view.entries[:2], torn, *view.entries[3:]))
    told_ = history(record, reader())
    assert told_.refused is not None
    assert told_.refused.entry == 3
    assert told_.lines[3].why == "malformed_json"
    assert len(told_.lines) == view.revision + 1


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (-5, "0 s"),
        (0.44, "0.4 s"),
        (7.5, "7.5 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (3600, "1 h"),
        (3725, "1 h 2 min"),
        (86_400, "1 d"),
        (100_000, "1 d 3 h"),
    ],
)
def test_a_length_of_time_is_told_in_its_two_largest_units(seconds: float, words: str) -> None:
    assert duration(timedelta(seconds=seconds)) == words


# --- beyond the record ------------------------------------------------------------------------


def now_of(text: str) -> str:
    return text.partition("\nNow\n")[2].partition("\n\n")[0]


@pytest.mark.parametrize(
    ("brake", "words"),
    [
        ("paused", "The cluster is paused (“maintenance”): nothing begins to run there; this job"),
        ("observed", "The cluster is only observed (“maintenance”): Dispatch makes no call"),
        ("drained", "The cluster is drained (“maintenance”): it takes no new job"),
    ],
)
def test_a_brake_that_is_on_is_told_with_its_reason_and_what_ends_it(
    brake: str, words: str
) -> None:
    story = why(new().view, reader(), around=Around({brake: "maintenance"}))
    text = as_text(story)
    assert words in now_of(text)
    assert "until an operator takes that brake off" in now_of(text)
    assert story.advice[-1].command == "dispatch clusters list"
    settled = as_text(why(cancelled_while_running().view, reader(), around=Around({brake: "x"})))
    assert "takes that brake off" not in settled


def test_a_run_on_a_paused_cluster_is_told_to_go_on() -> None:
    w = Written().authorized(1).runs(2)
    text = as_text(why(w.view, reader(10), around=Around({"paused": "maintenance"})))
    assert "this run goes on, a next one waits until" in now_of(text)


def test_a_run_without_progress_is_told_with_since_when() -> None:
    w = Written().authorized(1).runs(2)
    text = as_text(why(w.view, reader(100), around=Around(quiet_since=at(10))))
    assert "No progress since 09:00:10 (1 min 30 s ago)" in now_of(text)


def test_whether_it_is_safe_to_run_it_again_is_answered_for_every_story() -> None:
    for view, seconds in STORIES.values():
        story = why(view(), reader(seconds))
        (section,) = (one for one in story.sections if "safe" in one.title)
        first = section.lines[0]
        assert first.split(" ")[0] in ("Yes,", "Not", "Nobody"), first
        assert story.foldable is not first.startswith("Nobody")


def test_every_story_ends_with_commands_that_exist() -> None:
    known = {name.split()[0] for name in commands()}
    for view, seconds in STORIES.values():
        for one in why(view(), reader(seconds)).advice:
            assert one.command.split()[0] == "dispatch"
            assert one.command.split()[1] in known
