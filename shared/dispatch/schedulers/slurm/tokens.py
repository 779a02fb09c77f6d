"""Tokens: the site's, read again before they expire, or minted for each call."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from dispatch.errors import SchedulerUnavailable

Clock = Callable[[], datetime]

_MARGIN_S = 60
"""A site's token is read again so long before its end, seconds."""


class Tokens(Protocol):
    """Where the token of a call comes from."""

    def token(self, user: str, lifetime_s: int) -> str:
        """Return a token for a user that lives about so long.

        Raises:
            SchedulerUnavailable: There is none to be had now.
        """
        ...

    def forget(self) -> None:
        """Drop what is kept: the server didn't take it."""
        ...


class SiteTokens:
    """The site's own token, kept until shortly before its end; its lifetime is what it is."""

    def __init__(self, secret: Callable[[], str], clock: Clock) -> None:
        self._secret = secret
        self._clock = clock
        self._kept: str | None = None
        self._ends: float | None = None

    def token(self, user: str, lifetime_s: int) -> str:
        """Return the site's token; as `Tokens.token`."""
        now = self._clock().timestamp()
        if self._kept is None or (self._ends is not None and now > self._ends - _MARGIN_S):
            self._kept = self._secret().strip()
            self._ends = expiry(self._kept)
        if self._ends is not None and now >= self._ends:
            raise SchedulerUnavailable("the Slurm token has expired: give a new one")
        return self._kept

    def forget(self) -> None:
        """Read the secret again at the next call."""
        self._kept = None


class MintedTokens:
    """Tokens signed with the cluster's HS256 key: slurmctld takes none after its `exp`."""

    def __init__(self, key: Callable[[], bytes], clock: Clock) -> None:
        self._key = key
        self._clock = clock
        self._kept: bytes | None = None

    def token(self, user: str, lifetime_s: int) -> str:
        """Return a fresh token; as `Tokens.token`."""
        if self._kept is None:
            self._kept = self._key()
        now = int(self._clock().timestamp())
        return minted(self._kept, user=user, issued=now, expires=now + lifetime_s)

    def forget(self) -> None:
        """Read the key again at the next call."""
        self._kept = None


def minted(key: bytes, *, user: str, issued: int, expires: int) -> str:
    """Return an HS256 token of `auth/jwt`: `sun` is the user, times are epoch seconds."""
    header = _part({"alg": "HS256", "typ": "JWT"})
    claims = _part({"iat": issued, "exp": expires, "sun": user})
    signed = f"{header}.{claims}"
    signature = hmac.new(key, signed.encode(), hashlib.sha256).digest()
    return f"{signed}.{_encoded(signature)}"


def expiry(token: str) -> float | None:
    """Return when a token ends, epoch seconds, where it says so; its signature isn't judged."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error):
        return None
    ends = claims.get("exp") if isinstance(claims, dict) else None
    return float(ends) if isinstance(ends, int | float) else None


def _part(claims: dict[str, object]) -> str:
    return _encoded(json.dumps(claims, separators=(",", ":")).encode())


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
