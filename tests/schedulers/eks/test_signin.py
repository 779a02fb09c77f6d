"""A token for EKS is a signature that AWS would verify: it is verified here by doing it again."""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import boto3
import pytest

from dispatch.schedulers.eks.client import NotSent
from dispatch.schedulers.eks.signin import (
    CLUSTER_HEADER,
    PREFIX,
    EksSignIn,
    mint,
    read_endpoint,
    regional_sts,
)
from tests.schedulers.eks.test_recordings import recording

SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
REGION = "eu-west-1"
NOW = datetime(2026, 11, 29, 14, 0, tzinfo=UTC)


def session(token: str | None = "a session's token") -> Any:
    return boto3.session.Session(
        aws_access_key_id="AKIDEXAMPLE",
        aws_secret_access_key=SECRET,
        aws_session_token=token,
        region_name=REGION,
    )


def url_of(token: str) -> str:
    assert token.startswith(PREFIX)
    written = token.removeprefix(PREFIX)
    assert "=" not in written
    return base64.urlsafe_b64decode(written + "=" * (-len(written) % 4)).decode()


def verified(token: str, cluster: str, secret: str = SECRET) -> bool:
    """Do what STS does with the URL that EKS hands it, the cluster's header added."""
    parts = urlsplit(url_of(token))
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    signature = query.pop("X-Amz-Signature")
    _, date, region, service, kind = query["X-Amz-Credential"].split("/")
    headers = {"host": parts.netloc, CLUSTER_HEADER: cluster}
    signed = query["X-Amz-SignedHeaders"].split(";")
    request = "\n".join(
        [
            "GET",
            parts.path,
            "&".join(
                f"{quote(k, safe='-_.~')}={quote(v, safe='-_.~')}" for k, v in sorted(query.items())
            ),
            "".join(f"{name}:{headers[name]}\n" for name in signed),
            ";".join(signed),
            hashlib.sha256(b"").hexdigest(),
        ]
    )
    scope = f"{date}/{region}/{service}/{kind}"
    digest = hashlib.sha256(request.encode()).hexdigest()
    to_sign = f"AWS4-HMAC-SHA256\n{query['X-Amz-Date']}\n{scope}\n{digest}"
    key = f"AWS4{secret}".encode()
    for part in (date, region, service, kind):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.compare_digest(hmac.digest(key, to_sign.encode(), "sha256").hex(), signature)


def test_the_signature_is_one_that_sts_would_verify() -> None:
    assert verified(mint(session(), "prod", REGION), "prod")
    assert verified(mint(session(None), "prod", REGION), "prod")


def test_the_signature_is_for_one_cluster_and_one_key() -> None:
    token = mint(session(), "prod", REGION)
    assert not verified(token, "staging")
    assert not verified(token, "prod", SECRET + "x")


def test_a_tampered_date_is_noticed() -> None:
    url = url_of(mint(session(), "prod", REGION))
    at = dict(parse_qsl(urlsplit(url).query))["X-Amz-Date"]
    later = f"{int(at[:8]) + 1}{at[8:]}"
    forged = base64.urlsafe_b64encode(url.replace(at, later).encode()).decode().rstrip("=")
    assert not verified(PREFIX + forged, "prod")


def test_the_url_asks_the_regions_own_sts_who_this_is() -> None:
    parts = urlsplit(url_of(mint(session(), "prod", REGION)))
    query = dict(parse_qsl(parts.query))
    assert parts.netloc == "sts.eu-west-1.amazonaws.com"
    assert (query["Action"], query["Version"]) == ("GetCallerIdentity", "2011-06-15")
    assert CLUSTER_HEADER in query["X-Amz-SignedHeaders"]
    assert 0 < int(query["X-Amz-Expires"]) <= 900
    assert regional_sts("cn-north-1") == "https://sts.cn-north-1.amazonaws.com.cn"


def test_a_token_is_kept_for_fourteen_minutes_and_then_minted_again() -> None:
    now = [NOW]
    minted: list[datetime] = []

    class Session:
        def get_credentials(self) -> Any:
            minted.append(now[0])
            return session().get_credentials()

        events = session().events

        def client(self, *args: Any, **kwargs: Any) -> Any:
            raise AssertionError("nothing is asked")

    sign_in = EksSignIn("prod", REGION, lambda: now[0], Session)
    sign_in.token()
    now[0] += timedelta(minutes=13, seconds=59)
    sign_in.token()
    assert len(minted) == 1
    now[0] += timedelta(seconds=1)
    sign_in.token()
    assert minted == [NOW, NOW + timedelta(minutes=14)]


def test_a_refused_token_is_renewed_only_where_another_would_come() -> None:
    now = [NOW]
    sign_in = EksSignIn("prod", REGION, lambda: now[0], session)
    assert not sign_in.renew()
    sign_in.token()
    assert not sign_in.renew()
    sign_in.token()
    now[0] += timedelta(minutes=5)
    assert sign_in.renew()


def test_without_credentials_nothing_is_sent() -> None:
    class Nobody:
        def get_credentials(self) -> None:
            return None

    with pytest.raises(NotSent, match="credentials"):
        mint(Nobody(), "prod", REGION)


class DescribedSession:
    """EKS as a test wants it to answer."""

    def __init__(self, *described: dict[str, Any]) -> None:
        self.described = list(described)
        self.asked: list[str] = []

    def client(self, service: str, region_name: str) -> DescribedSession:
        assert (service, region_name) == ("eks", REGION)
        return self

    def describe_cluster(self, name: str) -> dict[str, Any]:
        self.asked.append(name)
        return {"cluster": self.described[len(self.asked) - 1]}


def described(host: str, pem: str = "-----BEGIN CERTIFICATE-----") -> dict[str, Any]:
    data = base64.b64encode(pem.encode()).decode()
    return {"endpoint": host, "certificateAuthority": {"data": data}, "status": "ACTIVE"}


def test_the_endpoint_is_asked_for_once_and_again_when_it_is_forgotten() -> None:
    eks = DescribedSession(described("https://one/"), described("https://two/"))
    sign_in = EksSignIn("prod", REGION, lambda: NOW, lambda: eks)
    assert sign_in.endpoint().host == sign_in.endpoint().host == "https://one"
    sign_in.forget_endpoint()
    assert sign_in.endpoint().host == "https://two"
    assert eks.asked == ["prod", "prod"]


def test_an_endpoint_is_read_without_its_slash() -> None:
    recorded = recording("moto-eks-describe-cluster")
    assert recorded["endpoint"].endswith("/")
    known = {**recorded, "certificateAuthority": described("x")["certificateAuthority"]}
    assert read_endpoint(known).host == recorded["endpoint"].rstrip("/")


@pytest.mark.parametrize("missing", ["endpoint", "certificateAuthority"])
def test_a_cluster_that_is_being_created_has_no_endpoint_yet(missing: str) -> None:
    known = {**described("https://one"), "status": "CREATING"}
    del known[missing]
    with pytest.raises(NotSent, match="CREATING"):
        read_endpoint(known)


def test_an_authority_that_cant_be_read_is_refused() -> None:
    # moto's is random letters.
    with pytest.raises(NotSent, match="can't be read"):
        read_endpoint(recording("moto-eks-describe-cluster"))
