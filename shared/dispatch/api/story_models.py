"""The wire models of a record told to people: its story, and its picture along time."""

from __future__ import annotations

from dispatch.api.models import Answer
from dispatch.narrate.timeline import LaneKind
from dispatch.record.model import Instant


class SectionAnswer(Answer):
    """One question and its answer.

    Attributes:
        title: The question, short.
        lines: The answer; a line that starts with spaces belongs to the one before it.
    """

    title: str
    lines: tuple[str, ...]


class AdviceAnswer(Answer):
    """One thing that a person can do.

    Attributes:
        command: To be typed as it stands, but for words in capitals.
        purpose: What it does, and what to know before.
    """

    command: str
    purpose: str


class StoryAnswer(Answer):
    """The answer of `GET /jobs/{job}/why`, the same words as `dispatch why` says.

    Attributes:
        job_id: Whose.
        name: Its name for people, where the header can be decoded.
        revision: The number of entries it was told from.
        headline: All of it in one line.
        sections: The questions a person asks, in order.
        advice: What can be done next, most pressing first.
        foldable: Whether the record can be folded; where it can't, the story says where it stops.
    """

    job_id: str
    name: str | None = None
    revision: int
    headline: str
    sections: tuple[SectionAnswer, ...]
    advice: tuple[AdviceAnswer, ...]
    foldable: bool


class LaneAnswer(Answer):
    """One row of the picture: its id, what it shows, and its title."""

    id: str
    kind: LaneKind
    title: str


class SpanAnswer(Answer):
    """Something that lasted.

    Attributes:
        lane: The id of its lane.
        start: When it began.
        end: When it ended; None where it goes on.
        state: One word for what it was.
        label: A few words.
        detail: The sentence.
    """

    lane: str
    start: Instant
    end: Instant | None = None
    state: str
    label: str
    detail: str


class MarkAnswer(Answer):
    """An entry where it belongs in the picture; its words are those of the line of that number."""

    lane: str
    at: Instant
    kind: str
    entry: int


class LineAnswer(Answer):
    """One entry in words; 0 is the header.

    Attributes:
        entry: Its number.
        at: When it was written, where that can be read.
        by: Who wrote it, where that can be read.
        kind: control, fact or header; refused for the entry that can't be accepted; unread for
            those behind it.
        what: What happened.
        why: The reason for it, or the words of those who gave one.
    """

    entry: int
    at: Instant | None = None
    by: str | None = None
    kind: str
    what: str
    why: str | None = None


class TimelineAnswer(Answer):
    """The answer of `GET /jobs/{job}/timeline`: the record along time.

    Attributes:
        job_id: Whose.
        revision: The number of its entries.
        settled: Whether nothing more will come.
        now: The time of the answer; what goes on goes on until then.
        lanes: From top to bottom.
        spans: What lasted.
        marks: What happened, entry by entry.
        lines: The same entries, and the header, in words.
        left_out: How many of the first entries aren't told, because there are too many.
    """

    job_id: str
    revision: int
    settled: bool
    now: Instant
    lanes: tuple[LaneAnswer, ...]
    spans: tuple[SpanAnswer, ...]
    marks: tuple[MarkAnswer, ...]
    lines: tuple[LineAnswer, ...]
    left_out: int = 0
