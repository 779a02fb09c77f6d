"""Which endpoint a command speaks to, and as whom."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from dispatch.cli.exits import NoEndpoint
from dispatch.client import Bearer, Client, Patience, SigV4
from dispatch.errors import InvalidRequest
from dispatch.settings import stack_url, state_directory

AUTH_WAYS = ("none", "iam", "bearer")


def client(url: str | None, patience: Patience | None = None) -> Client:
    """Return a client of the endpoint that is asked for, or of the stack that runs here.

    DISPATCH_AUTH says how to sign in: none, iam (AWS signatures) or bearer (DISPATCH_TOKEN). Where
    it isn't set, a token is used if there is one, and addresses of AWS are signed for.

    Raises:
        NoEndpoint: None is named, and no stack has left word here.
        InvalidRequest: DISPATCH_AUTH is none of the three.
        Forbidden: There is nothing to sign with.
    """
    where = url or _url_here()
    token = os.environ.get("DISPATCH_TOKEN", "")
    host = urlsplit(where).hostname or ""
    way = os.environ.get("DISPATCH_AUTH") or (
        "bearer" if token else "iam" if host.endswith(".amazonaws.com") else "none"
    )
    match way:
        case "none":
            return Client(where, patience=patience)
        case "bearer":
            if not token:
                raise InvalidRequest(
                    "it is empty, and DISPATCH_AUTH asks for it", field="DISPATCH_TOKEN"
                )
            return Client(where, auth=Bearer(lambda: token), patience=patience)
        case "iam":
            region = host.split(".")[2] if host.endswith(".amazonaws.com") else None
            signs = SigV4(region, profile=os.environ.get("AWS_PROFILE"))
            return Client(where, auth=signs, patience=patience)
        case _:
            raise InvalidRequest(
                f"{way!r} is none of {', '.join(AUTH_WAYS)}", field="DISPATCH_AUTH"
            )


def _url_here() -> str:
    state = state_directory()
    url = stack_url(state)
    if url is None:
        raise NoEndpoint(f"no stack has left word in {state}, and no endpoint is named")
    return url
