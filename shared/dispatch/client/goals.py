"""What a job can be waited for."""

from __future__ import annotations

from typing import Protocol

from dispatch.api import StatusAnswer


class Until(Protocol):
    """Says whether a status is what was waited for."""

    def __call__(self, status: StatusAnswer, /) -> bool:
        """Return whether it is."""
        ...


def settled(status: StatusAnswer) -> bool:
    """Return whether nothing of the job is left anywhere."""
    return status.settled_at is not None


def over(status: StatusAnswer) -> bool:
    """Return whether the job has an outcome."""
    return status.outcome is not None


def asks(status: StatusAnswer) -> bool:
    """Return whether the job waits for a person, or is over."""
    return over(status) or any(one.what == "person" for one in status.waiting_for)
