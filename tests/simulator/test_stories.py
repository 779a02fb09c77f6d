"""Named stories: each must break no rule, and read as its golden transcript does.

`pytest tests/simulator/test_stories.py --rewrite` writes the transcripts anew; read the
difference then.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from simulator.stories import STORIES, Story

TRANSCRIPTS = Path(__file__).parent / "transcripts"


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_the_story_breaks_no_rule_and_reads_as_it_did(story: Story, rewrite: bool) -> None:
    told = story.play().transcript
    path = TRANSCRIPTS / f"{story.name}.txt"
    if rewrite:
        path.parent.mkdir(exist_ok=True)
        path.write_text(told)
    assert told == path.read_text()


def test_every_transcript_belongs_to_a_story() -> None:
    names = [story.name for story in STORIES]
    assert len(set(names)) == len(names) >= 20
    assert sorted(path.stem for path in TRANSCRIPTS.glob("*.txt")) == sorted(names)
