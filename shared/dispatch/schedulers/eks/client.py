"""One HTTP request to an API server: sent once, within its time, told apart from silence.

The official client repeats GET and DELETE up to four times unless it is told not to. Here no
request is ever repeated in silence. The one repeat there is follows a 401, which proves that
nothing was done, and only with a token that is new.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote, urlencode

from dispatch.schedulers.eks.response import Answer
from dispatch.schedulers.eks.settings import InClusterAccess, KubeconfigAccess

MERGE_PATCH = "application/merge-patch+json"
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
Query = Mapping[str, str]


class NotSent(Exception):
    """The request never left; nothing was done."""


class NoAnswer(Exception):
    """The request left, and no whole answer came; it may take effect."""


class NoEvidence(Exception):
    """A question got no answer that it could be believed by; nothing follows."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where an API server is, and by which authority it is known.

    Attributes:
        host: Its URL, without a slash at the end.
        ca_pem: Certificates that it must be signed by; None means those of the system.
    """

    host: str
    ca_pem: str | None


class SignIn(Protocol):
    """Who this is to the API server."""

    def endpoint(self) -> Endpoint:
        """Return where the server is; may ask, and keeps the answer."""
        ...

    def token(self) -> str:
        """Return a bearer token that is still good."""
        ...

    def renew(self) -> bool:
        """Drop the token after it was refused; return whether another one can be had."""
        ...

    def forget_endpoint(self) -> None:
        """Ask again where the server is, the next time: its certificate wasn't the expected one."""
        ...


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a request may take, seconds."""

    connect_s: float
    total_s: float


def path(*parts: str) -> str:
    """Return a path of which each part is quoted."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


def jobs(namespace: str, *name: str) -> str:
    """Return the path of a namespace's Jobs, or of one."""
    return path("apis", "batch", "v1", "namespaces", namespace, "jobs", *name)


def core(namespace: str, plural: str, *name: str) -> str:
    """Return the path of a namespace's objects of the core API, or of one."""
    return path("api", "v1", "namespaces", namespace, plural, *name)


class KubeClient:
    """The official client, with raw JSON in and out; imported when the first request is made."""

    def __init__(
        self, access: SignIn | KubeconfigAccess | InClusterAccess, timeouts: Timeouts
    ) -> None:
        self._access = access
        self._timeouts = timeouts
        self._api: Any = None

    def get(self, where: str, query: Query | None = None, *, accept: str = "") -> Answer:
        """Ask. Raises as `call` does."""
        return self.call("GET", where, query, accept=accept)

    def post(self, where: str, body: Mapping[str, Any], query: Query | None = None) -> Answer:
        """Create. Raises as `call` does."""
        return self.call("POST", where, query, body=body)

    def patch(self, where: str, body: Mapping[str, Any]) -> Answer:
        """Change by a merge patch, which needs no knowledge of an object's schema."""
        query = {"fieldManager": "dispatch", "fieldValidation": "Strict"}
        return self.call("PATCH", where, query, body=body, content_type=MERGE_PATCH)

    def delete(self, where: str, body: Mapping[str, Any]) -> Answer:
        """Delete, with options. Raises as `call` does."""
        return self.call("DELETE", where, None, body=body)

    def call(
        self,
        method: str,
        where: str,
        query: Query | None = None,
        *,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        accept: str = "",
    ) -> Answer:
        """Send one request and return its answer, whatever its status.

        Raises:
            NotSent: It never left.
            NoAnswer: It may have taken effect.
        """
        answer = self._send(method, where, query, (body, content_type, accept))
        if answer.status != 401 or not self._renew():
            return answer
        return self._send(method, where, query, (body, content_type, accept))

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        if self._api is not None:
            self._api.close()
            self._api = None

    # --- one request ---

    def _send(
        self,
        method: str,
        where: str,
        query: Query | None,
        content: tuple[Mapping[str, Any] | None, str, str],
    ) -> Answer:
        from kubernetes.client.exceptions import ApiException
        from urllib3 import exceptions as urllib3

        body, content_type, accept = content
        headers = {"Accept": accept or "application/json", "User-Agent": "dispatch"}
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            api = self._connected()
            self._sign(api, headers)
        except NotSent:
            raise
        except Exception as error:
            raise NotSent(f"signing in: {type(error).__name__}: {error}") from error
        url = api.configuration.host.rstrip("/") + where
        url += f"?{urlencode(query)}" if query else ""
        limit = (self._timeouts.connect_s, self._timeouts.total_s)
        try:
            response = api.call_api(method, url, headers, body, None, limit)
            raw = response.read()
        except (urllib3.NewConnectionError, urllib3.ConnectTimeoutError) as error:
            raise NotSent(f"{type(error).__name__}: {error}") from error
        except urllib3.HTTPError as error:
            raise NoAnswer(f"{type(error).__name__}: {error}") from error
        except ApiException as error:
            raise self._tls_trouble(str(error.reason)) from error
        except OSError as error:
            raise NoAnswer(f"{type(error).__name__}: {error}") from error
        return Answer(response.status, _decoded(raw), raw, response.headers.get("Date") or "")

    def _tls_trouble(self, reason: str) -> NotSent | NoAnswer:
        if "CERTIFICATE_VERIFY_FAILED" not in reason:
            return NoAnswer(f"TLS: {reason}")
        if not isinstance(self._access, KubeconfigAccess | InClusterAccess):
            self._access.forget_endpoint()
        self.close()
        return NotSent(f"TLS: {reason}")

    def _renew(self) -> bool:
        if isinstance(self._access, KubeconfigAccess | InClusterAccess):
            self.close()
            return False
        return self._access.renew()

    def _sign(self, api: Any, headers: dict[str, str]) -> None:
        if isinstance(self._access, KubeconfigAccess | InClusterAccess):
            api.update_params_for_auth(headers, [], ["BearerToken"], "", "", None)
        else:
            headers["Authorization"] = f"Bearer {self._access.token()}"

    def _connected(self) -> Any:
        if self._api is None:
            self._api = self._connect()
        return self._api

    def _connect(self) -> Any:
        from kubernetes import client, config

        load: Any = config
        made = client.Configuration()
        access = self._access
        match access:
            case KubeconfigAccess():
                load.load_kube_config(
                    access.path, access.context, client_configuration=made, persist_config=False
                )
            case InClusterAccess():
                load.load_incluster_config(client_configuration=made)
            case _:
                endpoint = access.endpoint()
                made = client.Configuration(host=endpoint.host, ca_cert_data=endpoint.ca_pem)
        made.retries = False
        made.client_go_retries = False
        return client.ApiClient(made)


Connect = Callable[[], KubeClient]


def _decoded(raw: bytes) -> object:
    try:
        return json.loads(raw)
    except ValueError:
        return None
