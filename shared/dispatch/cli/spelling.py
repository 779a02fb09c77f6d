"""Texts on a terminal that can't show every sign: what its encoding lacks is spelt in ASCII."""

from __future__ import annotations

import codecs
import io
import unicodedata
from typing import TextIO

_SPELT = {
    **dict.fromkeys("\u201c\u201d\u201e", '"'),
    **dict.fromkeys("\u2018\u2019", "'"),
    **dict.fromkeys("\u2013\u2014\u2212", "-"),
    "\u2026": "...",
    "\u2192": "->",
    "\u2190": "<-",
    "\u00d7": "x",
    "\u2264": "<=",
    "\u2265": ">=",
}
_ERRORS = "dispatch.spelt"


def writable(*streams: TextIO) -> None:
    """Let any text be written to streams, whatever the locale says of their encoding."""
    codecs.register_error(_ERRORS, _spell)
    for one in streams:
        if isinstance(one, io.TextIOWrapper) and codecs.lookup(one.encoding).name != "utf-8":
            one.reconfigure(errors=_ERRORS)


def _spell(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(spelt, error.object[error.start : error.end])), error.end


def spelt(sign: str) -> str:
    """Return a sign in ASCII: what stands for it, its letter without marks, or a question mark."""
    plain = unicodedata.normalize("NFKD", sign).encode("ascii", "ignore").decode()
    return _SPELT.get(sign) or plain or "?"
