"""Whether a plain environment value looks like a secret. Pure; it never repeats a value.

A record is kept for ever and read by many, so a secret belongs into `spec.secrets`, by reference.
A look can't be certain in either direction: what it stops can be insisted on by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

LEAST_SECRET = 12
"""Characters below which a value is no key by its looks alone, whatever its name."""

# Each repetition is bounded: a large value is looked through once, not once for each character.
_ADDRESS = r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,31}://[^\s/:@]{0,256}:[^\s/@]{1,1024}@"
_SIGNED = r"eyJ[A-Za-z0-9_-]{8,4096}\.eyJ[A-Za-z0-9_-]{8,4096}\.[A-Za-z0-9_-]*"

_LOOKS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (what, re.compile(pattern))
    for what, pattern in (
        ("a private key", r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|PuTTY-User-Key-File"),
        ("an age key", r"AGE-SECRET-KEY-1[0-9A-Z]{20,}"),
        ("an AWS access key", r"(?<![A-Z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])"),
        ("a GitHub token", r"gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}"),
        ("a GitLab token", r"gl(?:pat|ptt|dt|rt|oas)-[A-Za-z0-9_-]{20,}"),
        ("a Slack token", r"xox[abeoprs]-[A-Za-z0-9-]{10,}|hooks\.slack\.com/services/\S+"),
        ("a Google API key", r"AIza[0-9A-Za-z_-]{35}"),
        ("a Hugging Face token", r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{30,}"),
        ("an API key", r"(?<![A-Za-z0-9])(?:sk|rk|pk)[-_][A-Za-z0-9][A-Za-z0-9_-]{22,}"),
        ("a registry token", r"npm_[A-Za-z0-9]{36}|pypi-AgE[A-Za-z0-9_-]{20,}|dckr_pat_\S{20,}"),
        ("a signed token", _SIGNED),
        ("an Azure key", r"(?i)(?:AccountKey|SharedAccessKey|SharedAccessSignature)=\S{16,}"),
        ("an address with a password", _ADDRESS),
    )
)

_PASSWORD = re.compile(r"(?i)(?:^|_)(?:PASSWORD|PASSWD|PASSPHRASE|PWD_SECRET)(?:_\d+)?$")
_KEY = re.compile(
    r"(?i)(?:^|_)(?:SECRET|SECRET_?KEY|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|AUTH_?KEY|TOKEN"
    r"|CREDENTIALS?|SECRET_ACCESS_KEY|SESSION_TOKEN|CLIENT_SECRET)(?:_\d+)?$"
)
_PATH = re.compile(r"(?:\.{0,2}|~)/[^\s]*\Z")
_PLAIN = re.compile(r"(?i)(?:true|false|yes|no|on|off|none|null|\d+(?:\.\d+)?|)\Z")
_REFERENCE = re.compile(r"\$\{?[A-Za-z_]\w*\}?\Z")


@dataclass(frozen=True, slots=True)
class Finding:
    """A variable whose value looks like a secret.

    Attributes:
        name: The variable's.
        looks_like: What it looks like, for people.
    """

    name: str
    looks_like: str


def findings(env: Mapping[str, str]) -> list[Finding]:
    """Return the variables whose values look like secrets, by name."""
    found = []
    for name, value in sorted(env.items()):
        what = _look(name, value)
        if what is not None:
            found.append(Finding(name, what))
    return found


def _look(name: str, value: str) -> str | None:
    for what, pattern in _LOOKS:
        if pattern.search(value):
            return what
    bare = value.strip()
    if _PATH.match(bare) or _PLAIN.match(bare) or _REFERENCE.match(bare):
        return None
    if _PASSWORD.search(name):
        return "a password, by its name"
    if _KEY.search(name) and len(bare) >= LEAST_SECRET and not any(c.isspace() for c in bare):
        return "a key, by its name"
    return None
