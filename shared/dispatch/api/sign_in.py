"""How the console's page signs a person in: what a deployment says of the issuer, checked. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from dispatch.errors import BadConfiguration

LOOPBACK = frozenset({"127.0.0.1", "localhost"})
"""Names of this machine, the only ones at which a person signs in without TLS."""

_CLIENT = "ConsoleClient"
_ISSUER = "ConsoleIssuer"
_AUDIENCE = "ConsoleAudience"
_SCOPES = "ConsoleScopes"
_TOKENS_FROM = "ConsoleTokenOrigin"


@dataclass(frozen=True, slots=True)
class SignIn:
    """The client that the console is at an OIDC issuer.

    Attributes:
        issuer: As it stands in the issuer's tokens.
        client_id: A public client of the issuer, for the authorization code with PKCE.
        audience: What the access token is asked for; nothing where the scopes say it.
        scopes: With spaces between them; `openid` is one.
        token_origin: Where the issuer's token endpoint has another origin than the issuer: that.
    """

    issuer: str
    client_id: str
    audience: str = ""
    scopes: str = "openid"
    token_origin: str = ""

    @property
    def origins(self) -> tuple[str, ...]:
        """Whom the page may ask beside the API: the issuer, and where its tokens come from."""
        asked = (_origin(_ISSUER, self.issuer), self.token_origin)
        return tuple(dict.fromkeys(one for one in asked if one))


def sign_in_of(event: Mapping[str, Any]) -> SignIn | None:
    """Return how a deployment's page signs people in, by the variables of its API's stage.

    None where no client is named there: people then bring a token of their own.

    Raises:
        BadConfiguration: names the variable and the reason.
    """
    told = event.get("stageVariables") or {}
    if not told.get(_CLIENT):
        return None
    issuer, elsewhere = told.get(_ISSUER) or "", told.get(_TOKENS_FROM) or ""
    _origin(_ISSUER, issuer)
    # A stage's variable can't hold a space.
    scopes = (told.get(_SCOPES) or "openid").replace(",", " ").split()
    if "openid" not in scopes:
        raise BadConfiguration(f"{_SCOPES}: openid isn't among {' '.join(scopes)!r}")
    return SignIn(
        issuer=issuer,
        client_id=told[_CLIENT],
        audience=told.get(_AUDIENCE) or "",
        scopes=" ".join(scopes),
        token_origin=_origin(_TOKENS_FROM, elsewhere) if elsewhere else "",
    )


def _origin(name: str, address: str) -> str:
    """Return scheme, host and port of an address, as a browser's policy names them."""
    try:
        parts = urlsplit(address)
        host, bare = parts.hostname or "", parts.netloc.replace(":", "").replace("-", "")
        plain = parts.scheme == "http" and host in LOOPBACK
        _ = parts.port  # refuses what is no number
    except ValueError as error:
        raise BadConfiguration(f"{name}: {address!r}: {error}") from None
    if not (parts.scheme == "https" or plain) or not host:
        raise BadConfiguration(f"{name}: {address!r}: an https address was expected")
    if not bare.replace(".", "").isalnum() or not bare.isascii():
        raise BadConfiguration(f"{name}: {address!r}: its host has signs that no host has")
    return f"{parts.scheme}://{parts.netloc}".lower()
