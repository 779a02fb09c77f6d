"""The API behind an authorizer of tokens, as a deployment with `AuthMode` JWT has it."""

from __future__ import annotations

import logging
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from dispatch.settings import Settings
from dispatch.wiring import Edges, Wiring
from embedded.context import FunctionContext
from functions.intents.app import make_handler
from tests.real.browser.issuer import AUDIENCE, CLIENT, Issuer, Server


class Gateway:
    """Lets the console's files through to everybody, and questions with a good token.

    Args:
        state: The folder of the stack whose records it shows.
        issuer: Whose tokens are good.
    """

    def __init__(self, state: Path, issuer: Issuer) -> None:
        settings = Settings(
            sqlite=state / "records.sqlite", clusters=f"file:{state / 'clusters.json'}"
        )
        self._wiring = Wiring(settings, Edges())
        self._handler = make_handler(self._wiring, logging.getLogger("tests.gateway"))
        self._issuer = issuer
        self.variables = {
            "ConsoleClient": CLIENT,
            "ConsoleIssuer": issuer.url,
            "ConsoleAudience": AUDIENCE,
            "ConsoleScopes": "openid,offline_access",
        }
        self._one_at_a_time = Lock()
        self._server = Server(("127.0.0.1", 0), _of(self))
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        issuer.redirect = f"{self.url}/ui"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()

    def answer(self, target: str, headers: dict[str, str]) -> dict[str, Any]:
        """Answer as an HTTP API does, the authorizer first."""
        asked = urlsplit(target)
        event: dict[str, Any] = {
            "version": "2.0",
            "rawPath": asked.path,
            "rawQueryString": asked.query,
            "queryStringParameters": dict(parse_qsl(asked.query)),
            "headers": headers,
            "stageVariables": self.variables,
            "requestContext": {"stage": "$default", "http": {"method": "GET", "path": asked.path}},
        }
        if asked.path != "/ui" and not asked.path.startswith("/ui/"):
            brought = headers.get("authorization", "").removeprefix("Bearer ")
            claims = self._issuer.claims(brought)
            if claims is None:
                told = 'Bearer scope="" error="invalid_token" error_description="no good token"'
                told = told if brought else "Bearer"
                refused = {"WWW-Authenticate": told, "Content-Type": "application/json"}
                return {"statusCode": 401, "headers": refused, "body": '{"message":"Unauthorized"}'}
            event["requestContext"]["authorizer"] = {"jwt": {"claims": claims, "scopes": None}}
        with self._one_at_a_time:
            return self._handler(event, FunctionContext("intents", 29.0))


def _of(gateway: Gateway) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = gateway.answer(self.path, headers)
            self.send_response(answer["statusCode"])
            for name, value in answer.get("headers", {}).items():
                self.send_header(name, value)
            body = answer.get("body", "").encode()
            if answer["statusCode"] != 304:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    return Handler
