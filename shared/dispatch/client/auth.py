"""Who the caller is: a bearer token, or an AWS signature."""

from __future__ import annotations

from collections.abc import Callable, Generator

import httpx

from dispatch.api import IDEMPOTENCY_HEADER
from dispatch.errors import BadConfiguration, Forbidden

_SERVICE = "execute-api"


class Bearer(httpx.Auth):
    """Puts a bearer token on each request.

    Args:
        token: Returns the token to use now, so that a short-lived one can be renewed.
    """

    def __init__(self, token: Callable[[], str]) -> None:
        self._token = token

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the header."""
        request.headers["Authorization"] = f"Bearer {self._token()}"
        yield request


class SigV4(httpx.Auth):
    """Signs each request for API Gateway (service `execute-api`).

    Args:
        region: The API's region; None for the one configured.
        profile: The profile of the AWS configuration to use; None for the default.

    Raises:
        Forbidden: No credentials, or no region, are configured here.
        BadConfiguration: What signs isn't installed here.
    """

    requires_request_body = True

    def __init__(self, region: str | None = None, *, profile: str | None = None) -> None:
        try:
            # A second of start for those who sign.
            from botocore.session import Session  # noqa: PLC0415
        except ImportError:
            needed = "pip install 'dispatch-record[aws]'"
            raise BadConfiguration(f"signing with AWS credentials needs boto3: {needed}") from None

        session = Session(profile=profile)
        self._credentials = session.get_credentials()
        self._region = region or session.get_config_variable("region")
        if self._credentials is None:
            raise Forbidden("no AWS credentials are configured here, so nothing can be signed")
        if not self._region:
            raise Forbidden("no AWS region is configured here: set AWS_REGION")

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the signature's headers."""
        from botocore.auth import SigV4Auth  # noqa: PLC0415
        from botocore.awsrequest import AWSRequest  # noqa: PLC0415
        from botocore.exceptions import BotoCoreError  # noqa: PLC0415

        assert self._credentials is not None
        kept = {
            name: request.headers[name]
            for name in ("content-type", IDEMPOTENCY_HEADER)
            if name in request.headers
        }
        asked = AWSRequest(
            method=request.method, url=str(request.url), data=request.content, headers=kept
        )
        try:
            frozen = self._credentials.get_frozen_credentials()
        except BotoCoreError as error:
            raise Forbidden(f"the AWS credentials can't be used any more: {error}") from None
        SigV4Auth(frozen, _SERVICE, self._region).add_auth(asked)
        for name, value in asked.headers.items():
            request.headers[name] = value
        yield request
