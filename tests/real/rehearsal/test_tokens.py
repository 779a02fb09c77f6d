"""The other way in: tokens of an OIDC issuer, in a deployment of its own."""

import base64
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from dispatch.client import Bearer
from dispatch.record.names import Outcome
from tests.real.rehearsal.conftest import end_jobs
from tests.real.rehearsal.deployment import FUNCTIONS, Deployment, deploy
from tests.real.rehearsal.engine import Engine

AUDIENCE = "dispatch"


def _packed(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _number(value: int) -> str:
    return _packed(value.to_bytes((value.bit_length() + 7) // 8, "big"))


@dataclass(frozen=True)
class Issuer:
    """An OIDC provider on the loopback interface."""

    url: str
    key: rsa.RSAPrivateKey

    def token(self, *, key: rsa.RSAPrivateKey | None = None, **claims: Any) -> str:
        now = int(time.time())
        body = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "grace",
            "iat": now,
            "exp": now + 600,
            **claims,
        }
        head = {"alg": "RS256", "kid": "one", "typ": "JWT"}
        signed = ".".join(_packed(json.dumps(part).encode()) for part in (head, body))
        signature = (key or self.key).sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_packed(signature)}"


def _new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    key = _new_key()
    public = key.public_key().public_numbers()
    keys = {
        "keys": [
            {
                "kty": "RSA",
                "kid": "one",
                "use": "sig",
                "alg": "RS256",
                "n": _number(public.n),
                "e": _number(public.e),
            }
        ]
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            where = f"http://127.0.0.1:{server.server_port}"
            documents = {
                "/.well-known/openid-configuration": {
                    "issuer": where,
                    "jwks_uri": f"{where}/keys",
                },
                "/keys": keys,
            }
            document = documents.get(self.path)
            self.send_response(200 if document else 404)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield Issuer(f"http://127.0.0.1:{server.server_port}", key)
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def second(engine: Engine, issuer: Issuer) -> Iterator[Deployment]:
    """A second stack beside the first, that takes tokens and may be deleted."""
    made = deploy(
        engine,
        "tokens",
        AuthMode="JWT",
        JwtIssuer=issuer.url,
        JwtAudience=AUDIENCE,
        ConsoleClientId="console",
        ConsoleScopes="openid,offline_access",
        TickState="DISABLED",
        ClustersParameter="/tokens/clusters",
        DeletionProtection="false",
    )
    yield made
    end_jobs(made)


def test_a_token_is_answered_and_names_its_caller(second: Deployment, issuer: Issuer) -> None:
    with second.client(Bearer(issuer.token)) as client:
        assert client.whoami() == f"oidc:{issuer.url}#grace"
        job = second.submit(client, "true", "by-token")
        status = second.looked_until(client, job, "ends", lambda status: status.outcome is not None)
        assert status.outcome is Outcome.SUCCEEDED
        assert status.created_by == f"oidc:{issuer.url}#grace"


@pytest.mark.parametrize(
    ("fault", "claims"),
    [
        ("of another audience", {"aud": "somebody-else"}),
        ("that has expired", {"exp": 1}),
        ("of another issuer", {"iss": "https://issuer.example"}),
        ("that isn't valid yet", {"nbf": 4_000_000_000}),
    ],
)
def test_a_token_with_a_fault_is_refused(
    second: Deployment, issuer: Issuer, fault: str, claims: dict[str, Any]
) -> None:
    headers = {"Authorization": f"Bearer {issuer.token(**claims)}"}
    assert second.get("/whoami", headers=headers).status_code in (401, 403), fault


def test_a_token_signed_with_another_key_is_refused(second: Deployment, issuer: Issuer) -> None:
    headers = {"Authorization": f"Bearer {issuer.token(key=_new_key())}"}
    assert second.get("/whoami", headers=headers).status_code == 401


def test_a_call_without_a_token_is_refused(second: Deployment) -> None:
    assert second.get("/whoami").status_code == 401


def test_the_console_s_files_are_there_without_a_token_and_nothing_that_it_asks(
    second: Deployment, issuer: Issuer
) -> None:
    page = second.get("/ui")
    assert page.status_code == 200
    assert "default-src 'none'" in page.headers["content-security-policy"]
    script = second.get("/ui/app.js")
    assert script.headers["content-type"].startswith("text/javascript")
    again = second.get("/ui/app.js", headers={"If-None-Match": script.headers["etag"]})
    assert again.status_code == 304
    assert second.get("/jobs/jaaaaaaaa/why").status_code == 401
    headers = {"Authorization": f"Bearer {issuer.token()}"}
    assert second.get("/jobs/jaaaaaaaa/why", headers=headers).status_code == 404


def test_the_stage_tells_the_page_how_people_sign_in(second: Deployment, issuer: Issuer) -> None:
    """The engine keeps a stage's variables, and doesn't tell them; AWS does with each request."""
    gateway = second.engine.client("apigatewayv2")
    (api,) = [one["ApiId"] for one in gateway.get_apis()["Items"] if one["Name"] == second.name]
    variables = gateway.get_stage(ApiId=api, StageName="$default")["StageVariables"]
    event = {
        "version": "2.0",
        "rawPath": "/ui",
        "rawQueryString": "",
        "headers": {},
        "stageVariables": variables,
        "requestContext": {"stage": "$default", "http": {"method": "GET", "path": "/ui"}},
    }
    answer = second.engine.client("lambda").invoke(
        FunctionName=second.outputs["IntentsFunctionName"], Payload=json.dumps(event)
    )
    page = json.loads(answer["Payload"].read())
    assert page["statusCode"] == 200
    headers = {name.lower(): value for name, value in page["headers"].items()}
    assert f"connect-src 'self' {issuer.url};" in headers["content-security-policy"]
    told = re.search(r'<meta name="sign-in" content="([^"]+)">', page["body"])
    assert told is not None
    assert json.loads(unescape(told[1])) == {
        "issuer": issuer.url,
        "client_id": "console",
        "audience": AUDIENCE,
        "scopes": "openid offline_access",
        "token_origin": "",
    }


def test_the_two_deployments_share_no_record(
    second: Deployment, deployed: Deployment, issuer: Issuer
) -> None:
    assert second.outputs["Table"] != deployed.outputs["Table"]
    for name in FUNCTIONS:
        assert second.role_of(name) != deployed.role_of(name)


def test_a_deleted_stack_leaves_its_records(second: Deployment) -> None:
    formation = second.engine.client("cloudformation")
    formation.delete_stack(StackName=second.name)
    formation.get_waiter("stack_delete_complete").wait(
        StackName=second.name, WaiterConfig={"Delay": 1, "MaxAttempts": 60}
    )
    table = second.engine.client("dynamodb").describe_table(TableName=second.outputs["Table"])
    assert table["Table"]["TableStatus"] == "ACTIVE"
