"""The console's files as answers: a fixed list, under a policy that lets them do little.

The page is the same for everybody and says nothing of any job; what it shows it asks the API for,
as whoever looks at it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

_HTML = "text/html; charset=utf-8"
_SCRIPT = "text/javascript; charset=utf-8"
_STYLE = "text/css; charset=utf-8"
_PICTURE = "image/svg+xml"

PAGE = "index.html"
"""What is answered under `/ui` itself."""

ASSETS: Mapping[str, str] = MappingProxyType(
    {
        PAGE: _HTML,
        "app.css": _STYLE,
        "app.js": _SCRIPT,
        "access.js": _SCRIPT,
        "clusters.js": _SCRIPT,
        "dom.js": _SCRIPT,
        "icon.svg": _PICTURE,
        "job.js": _SCRIPT,
        "jobs.js": _SCRIPT,
        "people.js": _SCRIPT,
        "scale.js": _SCRIPT,
        "timeline.js": _SCRIPT,
        "walk.js": _SCRIPT,
        "words.js": _SCRIPT,
    }
)
"""Every file of the console, with its content type; a test holds it to the folder."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Nothing from anywhere else, nothing inline, and no text ever parsed as markup."""

HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "Content-Security-Policy": POLICY,
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        # Kept, and asked after each time: a new version of the page is never mixed with an old one.
        "Cache-Control": "no-cache",
    }
)


@dataclass(frozen=True, slots=True)
class Asset:
    """One file of the console.

    Attributes:
        content_type: What it is.
        text: All of it.
        etag: Changes when the text does.
    """

    content_type: str
    text: str
    etag: str

    @property
    def headers(self) -> Mapping[str, str]:
        """What goes with the file."""
        return {**HEADERS, "ETag": self.etag}

    def unchanged(self, if_none_match: str | None) -> bool:
        """Return whether whoever asks has this very text already."""
        known = (one.strip().removeprefix("W/") for one in (if_none_match or "").split(","))
        return self.etag in known


@cache
def asset(name: str) -> Asset | None:
    """Return a file of the console by its name; None where there is none of that name."""
    content_type = ASSETS.get(name)
    if content_type is None:
        return None
    text = (files("dispatch") / "ui" / name).read_text(encoding="utf-8")
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    return Asset(content_type, text, f'"{digest}"')
