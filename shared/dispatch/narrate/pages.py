"""Where the documentation explains a cause or an error: paths from the root of the repository.

The pages are written by `scripts/pages.py`, one for each cause and each code; tests hold them
complete.
"""

from __future__ import annotations

from dispatch.record.names import Cause


def cause_page(cause: Cause) -> str:
    """Return the page of a cause: what it means, what follows, what helps."""
    return f"docs/reference/causes/{cause}.md"


def error_page(code: str) -> str:
    """Return the page of an error code."""
    return f"docs/reference/errors/{code}.md"
