"""Signing in to EKS: a token is a presigned STS request that proves who asks.

EKS hands the URL to STS, which says whose signature it is; the cluster's name is signed with it,
so that a token for one cluster opens no other. The server takes it for 15 minutes after its date,
whatever the URL says itself.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from dispatch.schedulers.eks.client import Endpoint, NotSent

MINT_AGAIN_AFTER = timedelta(minutes=14)
PREFIX = "k8s-aws-v1."
CLUSTER_HEADER = "x-k8s-aws-id"
_EXPIRES_S = 60


class EksSignIn:
    """One principal's way into one EKS cluster; tokens and the endpoint are kept in between."""

    def __init__(
        self,
        cluster_name: str,
        region: str,
        clock: Callable[[], datetime],
        session: Callable[[], Any] | None = None,
    ) -> None:
        self._cluster_name = cluster_name
        self._region = region
        self._clock = clock
        self._open = session or _default_session
        self._session: Any = None
        self._token: tuple[str, datetime] | None = None
        self._endpoint: Endpoint | None = None

    def token(self) -> str:
        """Return a token with at least a minute left."""
        now = self._clock()
        if self._token is None or now - self._token[1] >= MINT_AGAIN_AFTER:
            self._token = (mint(self._opened(), self._cluster_name, self._region), now)
        return self._token[0]

    def renew(self) -> bool:
        """Drop the token; return whether one that is surely another can be minted.

        A token is as old as its second: one that was minted in this very second and refused
        would be minted again the same, and be refused the same.
        """
        refused, self._token = self._token, None
        return refused is not None and self._clock() - refused[1] >= timedelta(seconds=1)

    def endpoint(self) -> Endpoint:
        """Return the cluster's endpoint and authority, asked for once.

        Raises:
            NotSent: EKS gave none, so that nothing can be sent.
        """
        if self._endpoint is None:
            client = self._opened().client("eks", region_name=self._region)
            described = client.describe_cluster(name=self._cluster_name)["cluster"]
            self._endpoint = read_endpoint(described)
        return self._endpoint

    def forget_endpoint(self) -> None:
        """Ask EKS again, the next time."""
        self._endpoint = None

    def _opened(self) -> Any:
        if self._session is None:
            self._session = self._open()
        return self._session


def _default_session() -> Any:
    import boto3

    return boto3.session.Session()


def read_endpoint(described: dict[str, Any]) -> Endpoint:
    """Return the endpoint that DescribeCluster shows.

    Raises:
        NotSent: The cluster is being created or deleted and has none.
    """
    host = described.get("endpoint")
    data = (described.get("certificateAuthority") or {}).get("data")
    if not host or not data:
        raise NotSent(f"EKS gives no endpoint: the cluster is {described.get('status')}")
    try:
        pem = base64.b64decode(data, validate=True).decode("ascii")
    except ValueError as error:
        raise NotSent("EKS gives a certificate authority that can't be read") from error
    return Endpoint(host=str(host).rstrip("/"), ca_pem=pem)


def mint(session: Any, cluster_name: str, region: str) -> str:
    """Return a token for one cluster, signed now; nothing is sent.

    Raises:
        NotSent: There are no credentials to sign with.
    """
    from botocore.model import ServiceId
    from botocore.signers import RequestSigner

    credentials = session.get_credentials()
    if credentials is None:
        raise NotSent("there are no AWS credentials to sign with")
    signer = RequestSigner(ServiceId("sts"), region, "sts", "v4", credentials, session.events)
    request = {
        "method": "GET",
        "url": f"{regional_sts(region)}/?Action=GetCallerIdentity&Version=2011-06-15",
        "body": {},
        "headers": {CLUSTER_HEADER: cluster_name},
        "context": {},
    }
    url = signer.generate_presigned_url(
        request, region_name=region, expires_in=_EXPIRES_S, operation_name=""
    )
    return PREFIX + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def regional_sts(region: str) -> str:
    """Return the region's own STS: a cluster may not reach the global one, nor trust it."""
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"https://sts.{region}.{suffix}"
