"""A small OIDC issuer on the loopback interface, which holds a console to all that it must do."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

CLIENT = "console-client"
AUDIENCE = "dispatch"
PAGE = (
    "<!doctype html><html lang=en><title>Issuer</title><link rel=icon href=data:,>"
    "<h1>Who are you?</h1><form action=/yes><input type=hidden name=asked value={asked}>"
    "<button>I am Ada</button></form><form action=/no><input type=hidden name=asked value={asked}>"
    "<button>Nobody</button></form></html>"
)


def packed(raw: bytes) -> str:
    """Return bytes as tokens write them."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


class Server(ThreadingHTTPServer):
    """A server that a browser may ask for a whole page at once."""

    daemon_threads = True
    request_queue_size = 64


@dataclass
class Faults:
    """What this issuer does otherwise than it should; nothing unless it is told."""

    nonce: str | None = None
    state: str | None = None
    audience: str = CLIENT
    named: str | None = None
    token_host: str | None = None
    silent: bool = False
    renews: bool = True
    expires_in: int = 600


@dataclass
class Issuer:
    """What it was asked, what it gave, and what it refused and why."""

    redirect: str = ""
    """The only address that it leads back to."""
    faults: Faults = field(default_factory=Faults)
    refusals: list[str] = field(default_factory=list)
    asked: list[Mapping[str, str]] = field(default_factory=list)
    redeemed: list[str] = field(default_factory=list)
    revoked: list[str] = field(default_factory=list)
    left: list[Mapping[str, str]] = field(default_factory=list)
    _codes: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _refresh: set[str] = field(default_factory=set)
    _tokens: dict[str, float] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self._server = Server(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        # Some issuers give their tokens at an origin of its own.
        self._tokens_server = Server(("127.0.0.1", 0), _handler(self))
        self.tokens_url = f"http://127.0.0.1:{self._tokens_server.server_port}"
        for one in (self._server, self._tokens_server):
            Thread(target=one.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop answering."""
        for one in (self._server, self._tokens_server):
            one.shutdown()
            one.server_close()

    # --- what a gateway asks --------------------------------------------------------------------

    def claims(self, token: str) -> dict[str, str] | None:
        """Return what a token that is still good says; None for any other."""
        with self._lock:
            until = self._tokens.get(token)
        if until is None or time.time() > until:
            return None
        return {"iss": self.url, "sub": "ada", "aud": AUDIENCE}

    def expire(self) -> None:
        """End every token that was given."""
        with self._lock:
            self._tokens.clear()

    def forget(self) -> None:
        """End what renews them, too."""
        self.expire()
        self._refresh.clear()

    # --- what a browser asks --------------------------------------------------------------------

    def described(self) -> dict[str, Any]:
        """Return the discovery document."""
        tokens = self.faults.token_host or self.url
        return {
            "issuer": self.faults.named or self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{tokens}/token",
            "revocation_endpoint": f"{self.url}/revoke",
            "end_session_endpoint": f"{self.url}/logout",
            "code_challenge_methods_supported": ["S256"],
        }

    def authorize(self, asked: Mapping[str, str]) -> str | None:
        """Keep a question; return its name, or None where it is refused."""
        wanted = {
            "response_type": "code",
            "client_id": CLIENT,
            "redirect_uri": self.redirect,
            "code_challenge_method": "S256",
            "audience": AUDIENCE,
        }
        wrong = [
            f"{name} {asked.get(name)!r}" for name in wanted if asked.get(name) != wanted[name]
        ]
        for name, least in (("state", 32), ("nonce", 32), ("code_challenge", 43)):
            if len(asked.get(name, "")) < least:
                wrong.append(f"{name} is too short")
        if "openid" not in asked.get("scope", "").split():
            wrong.append("scope without openid")
        if wrong:
            self.refusals.append("; ".join(wrong))
            return None
        self.asked.append(asked)
        return str(len(self.asked) - 1)

    def answer(self, name: str, *, yes: bool) -> str:
        """Return the address that leads back."""
        asked = self.asked[int(name)]
        told = {"state": self.faults.state or asked["state"], "iss": self.url}
        if yes:
            code = secrets.token_urlsafe(24)
            self._codes[code] = asked
            told |= {"code": code, "session_state": "anything.else"}
        else:
            told |= {"error": "access_denied", "error_description": "Ada said no"}
        return f"{asked['redirect_uri']}?{urlencode(told)}"

    def token(self, form: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        """Redeem a code or what renews a token; each works once."""
        kind = form.get("grant_type", "")
        self.redeemed.append(kind)
        if form.get("client_id") != CLIENT:
            return self._refused("client_id")
        if kind == "refresh_token":
            with self._lock:
                if form.get("refresh_token") not in self._refresh:
                    return self._refused("refresh_token")
                self._refresh.discard(form["refresh_token"])
            return 200, self._given(nonce=None)
        with self._lock:
            asked = self._codes.pop(form.get("code", ""), None)
        if kind != "authorization_code" or asked is None:
            return self._refused("code")
        if form.get("redirect_uri") != asked["redirect_uri"]:
            return self._refused("redirect_uri")
        verifier = form.get("code_verifier", "")
        digest = hashlib.sha256(verifier.encode()).digest()
        if not 43 <= len(verifier) <= 128 or packed(digest) != asked["code_challenge"]:
            return self._refused("code_verifier")
        return 200, self._given(nonce=self.faults.nonce or asked["nonce"])

    def _given(self, nonce: str | None) -> dict[str, Any]:
        now = time.time()
        life = self.faults.expires_in
        says = {"iss": self.url, "sub": "ada", "exp": int(now) + life}
        access = self._signed({**says, "aud": AUDIENCE, "jti": secrets.token_hex(8)})
        self._tokens[access] = now + life
        told = {"access_token": access, "token_type": "Bearer", "expires_in": life}
        who = {**says, "aud": self.faults.audience, **({"nonce": nonce} if nonce else {})}
        told["id_token"] = self._signed(who)
        if self.faults.renews:
            told["refresh_token"] = secrets.token_urlsafe(24)
            self._refresh.add(str(told["refresh_token"]))
        return told

    def _signed(self, body: Mapping[str, Any]) -> str:
        """Return a token, not signed for real: here only the issuer itself judges its tokens."""
        head = packed(json.dumps({"alg": "RS256", "typ": "JWT"}).encode())
        return f"{head}.{packed(json.dumps(body).encode())}.{secrets.token_urlsafe(32)}"

    def _refused(self, what: str) -> tuple[int, dict[str, Any]]:
        self.refusals.append(what)
        return 400, {"error": "invalid_grant", "error_description": f"{what} isn't right"}


def _handler(issuer: Issuer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(asked.query).items()}
            match asked.path:
                case "/.well-known/openid-configuration":
                    status = 503 if issuer.faults.silent else 200
                    self.tell(status, json.dumps(issuer.described()), "application/json")
                case "/authorize":
                    name = issuer.authorize(query)
                    said = PAGE.format(asked=name) if name is not None else issuer.refusals[-1]
                    self.tell(200 if name is not None else 400, said, "text/html")
                case "/yes" | "/no":
                    self.lead(issuer.answer(query["asked"], yes=asked.path == "/yes"))
                case "/logout":
                    issuer.left.append(query)
                    self.lead(query["post_logout_redirect_uri"])
                case _:
                    self.tell(404, "", "text/html")

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            form = {n: v[0] for n, v in parse_qs(self.rfile.read(length).decode()).items()}
            if self.headers["Origin"] not in issuer.redirect:
                return self.tell(403, "{}", "application/json")
            if self.path == "/revoke":
                issuer.revoked.append(form["token"])
                return self.tell(200, "{}", "application/json")
            status, told = issuer.token(form)
            return self.tell(status, json.dumps(told), "application/json")

        def lead(self, where: str) -> None:
            self.send_response(302)
            self.send_header("Location", where)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def tell(self, status: int, text: str, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            origin = urlsplit(issuer.redirect)
            self.send_header("Access-Control-Allow-Origin", f"{origin.scheme}://{origin.netloc}")
            self.send_header("Cache-Control", "no-store")
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    return Handler
