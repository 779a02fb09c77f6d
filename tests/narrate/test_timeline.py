"""The picture of a record: every entry stands on it once, and nothing that fold doesn't say."""

from __future__ import annotations

from datetime import UTC
from itertools import pairwise

import pytest

from dispatch.core.fold import fold
from dispatch.errors import RecordRefused
from dispatch.narrate import timeline as module
from dispatch.narrate.history import history
from dispatch.narrate.timeline import Timeline, timeline
from dispatch.narrate.words import Reader
from dispatch.record import fact as facts
from dispatch.record.names import IntentKind
from dispatch.record.view import View
from tests.narrate.stories import STORIES
from tests.narrate.written import Written, at, held_for_a_person, preempted_and_recovered


def drawn(view: View, seconds: float = 100) -> Timeline:
    return timeline(view, Reader(at(seconds), UTC))


def spans(told: Timeline, lane: str) -> list[tuple[str, float, float | None]]:
    """The spans of a lane: what, from when to when, in seconds of the story."""
    return [
        (
            one.state,
            (one.start - at(0)).total_seconds(),
            None if one.end is None else (one.end - at(0)).total_seconds(),
        )
        for one in told.spans
        if one.lane == lane
    ]


@pytest.mark.parametrize("name", STORIES)
def test_every_entry_that_can_be_read_stands_on_the_picture_once(name: str) -> None:
    view, seconds = STORIES[name]
    record = view()
    readable = record.revision
    try:
        fold(record, at(seconds))
    except RecordRefused as refused:
        readable = max(0, (refused.entry or 0) - 1)
    told = drawn(record, seconds)
    assert [one.entry for one in told.marks] == list(range(1, readable + 1))


@pytest.mark.parametrize("name", STORIES)
def test_the_lines_are_those_of_the_history(name: str) -> None:
    view, seconds = STORIES[name]
    assert drawn(view(), seconds).lines == history(view(), Reader(at(seconds), UTC)).lines


@pytest.mark.parametrize("name", STORIES)
def test_every_span_lies_in_a_lane_and_ends_no_earlier_than_it_begins(name: str) -> None:
    view, seconds = STORIES[name]
    told = drawn(view(), seconds)
    lanes = [one.id for one in told.lanes]
    assert len(lanes) == len(set(lanes))
    assert {one.lane for one in told.spans} <= set(lanes)
    assert {one.lane for one in told.marks} <= set(lanes)
    for span in told.spans:
        assert span.end is None or span.start <= span.end, span
        assert span.detail.endswith("."), span


def test_a_lane_with_nothing_in_it_is_left_out() -> None:
    told = drawn(Written().view)
    assert [one.id for one in told.lanes] == ["job"]
    assert spans(told, "job") == [("pending", 0.0, None)]


def test_the_states_of_a_job_follow_each_other_without_a_gap() -> None:
    told = drawn(preempted_and_recovered().view)
    states = spans(told, "job")
    assert states[0][1] == 0.0
    assert all(one[2] == following[1] for one, following in pairwise(states))
    assert states[-1][0] == "succeeded"
    assert told.settled


def test_each_submission_lasts_until_the_next_is_decided() -> None:
    told = drawn(preempted_and_recovered().view)
    (first,), (second,) = spans(told, "s1"), spans(told, "s2")
    assert first[2] == second[1]
    assert second[2] is not None


def test_a_run_is_drawn_with_how_it_ended_and_its_words() -> None:
    told = drawn(preempted_and_recovered().view)
    runs = [one for one in told.spans if one.lane == "a1.1" and one.label.startswith("object 1.1:")]
    assert [one.state for one in runs] == ["failed"]
    assert "was preempted" in runs[0].detail


def test_a_hold_for_a_person_goes_on_until_somebody_answers() -> None:
    told = drawn(held_for_a_person().view)
    ((state, _, end),) = spans(told, "asks")
    assert (state, end) == ("recovery", None)


def test_a_person_s_hold_lasts_from_the_wish_to_the_release() -> None:
    w = Written().authorized(1)
    w.intent(4, IntentKind.HOLD, reason="not now")
    w.intent(9, IntentKind.RELEASE)
    told = drawn(w.view)
    assert spans(told, "holds") == [("user", 4.0, 9.0)]
    assert [one.lane for one in told.marks] == ["s1", "people", "people"]
    assert any("not now" in one.detail for one in told.spans)


def test_a_start_without_an_answer_is_drawn_as_open() -> None:
    told = drawn(STORIES["reply-lost"][0](), 10)
    (doubt,) = [one for one in spans(told, "a1.1") if one[0] == "unknown"]
    assert doubt[2] is None


def test_a_call_lasts_until_it_landed_or_expired() -> None:
    told = drawn(STORIES["requeued-in-place"][0](), 20)
    ((state, start, end),) = spans(told, "calls")
    assert state == "landed"
    assert end is not None
    assert start < end


def test_a_foreign_object_has_a_lane_of_its_own() -> None:
    told = drawn(STORIES["foreign-object"][0](), 60)
    assert [one.kind for one in told.lanes].count(module.LaneKind.FOREIGN) == 1


def test_of_a_long_record_the_last_entries_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_LINES", 3)
    view = preempted_and_recovered().view
    told = drawn(view)
    kept = list(range(view.revision - 2, view.revision + 1))
    assert told.left_out == view.revision - 3
    assert [one.entry for one in told.lines] == [0, *kept]
    assert [one.entry for one in told.marks] == kept
    assert spans(told, "job")[0][1] == 0.0


def test_an_escalation_stands_where_people_were_told() -> None:
    w = Written().authorized(1)
    w.fact(3, facts.Escalated, key="k", code="foreign_object", detail="look")
    told = drawn(w.view)
    assert [(one.lane, one.kind) for one in told.marks] == [
        ("s1", "authorized"),
        ("told", "escalated"),
    ]
