"""Named stories: situations in which jobs were lost or run twice elsewhere, one script each."""

from simulator.stories import endings, kubernetes, looks, people, starting
from simulator.stories.story import Story

STORIES: tuple[Story, ...] = (
    *starting.STORIES,
    *endings.STORIES,
    *people.STORIES,
    *looks.STORIES,
    *kubernetes.STORIES,
)
"""Every story, by name."""

__all__ = ["STORIES", "Story"]
