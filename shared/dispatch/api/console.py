"""The console's files as answers: a fixed list, under a policy that lets them do little.

The page is the same for everybody and says nothing of any job; what it shows it asks the API for,
as whoever looks at it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from html import escape
from importlib.resources import files
from types import MappingProxyType

from dispatch.api.sign_in import SignIn

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
        "signin.js": _SCRIPT,
        "timeline.js": _SCRIPT,
        "walk.js": _SCRIPT,
        "words.js": _SCRIPT,
    }
)
"""Every file of the console, with its content type; a test holds it to the folder."""

_ASKED = "connect-src 'self'"
POLICY = (
    f"default-src 'none'; script-src 'self'; style-src 'self'; {_ASKED}; img-src 'self'; "
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


_TOLD = '<meta name="sign-in" content="">'
"""Where the page is told how to sign a person in; empty where it can't."""


@dataclass(frozen=True, slots=True)
class Asset:
    """One file of the console.

    Attributes:
        content_type: What it is.
        text: All of it.
        etag: Changes when the text does, or whom it may ask.
        policy: What the browser lets it do.
    """

    content_type: str
    text: str
    etag: str
    policy: str

    @property
    def headers(self) -> Mapping[str, str]:
        """What goes with the file."""
        return {**HEADERS, "Content-Security-Policy": self.policy, "ETag": self.etag}

    def unchanged(self, if_none_match: str | None) -> bool:
        """Return whether whoever asks has this very text already."""
        known = (one.strip().removeprefix("W/") for one in (if_none_match or "").split(","))
        return self.etag in known


@cache
def asset(name: str, sign_in: SignIn | None = None) -> Asset | None:
    """Return a file of the console by its name; None where there is none of that name.

    Args:
        name: One of `ASSETS`.
        sign_in: How the page signs people in. It is told so, and may ask the issuer beside the API.
    """
    content_type = ASSETS.get(name)
    if content_type is None:
        return None
    text, policy = (files("dispatch") / "ui" / name).read_text(encoding="utf-8"), POLICY
    if sign_in is not None:
        policy = POLICY.replace(_ASKED, " ".join((_ASKED, *sign_in.origins)))
        if name == PAGE:
            told = escape(json.dumps(asdict(sign_in), sort_keys=True), quote=True)
            text = text.replace(_TOLD, _TOLD.replace('""', f'"{told}"'))
    digest = hashlib.sha256(f"{policy}\n{text}".encode()).hexdigest()[:32]
    return Asset(content_type, text, f'"{digest}"', policy)
