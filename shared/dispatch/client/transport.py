"""Sends what may be repeated without harm, until it is answered or the tries are spent."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

import httpx
from pydantic import ValidationError

from dispatch.api import EXPORT_TYPE, JSON_TYPE, PROBLEM_TYPE, Answer
from dispatch.client.failures import BadAnswer, Unanswered, Unreachable, error_of
from dispatch.errors import DispatchError, InvalidRequest, TryLater, Unknown

_HERE = frozenset({"127.0.0.1", "::1", "localhost"})
_Answer = TypeVar("_Answer", bound=Answer)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a client bears with an endpoint.

    Attributes:
        connect_s: For a connection.
        answer_s: For the next bytes of an answer.
        tries: How often a request is sent at most.
        first_pause_s: Before the second try; it doubles each time.
        longest_pause_s: Between two tries, or two looks of a wait.
    """

    connect_s: float = 5.0
    answer_s: float = 30.0
    tries: int = 4
    first_pause_s: float = 0.3
    longest_pause_s: float = 10.0


class Transport:
    """One endpoint's connections.

    Args:
        url: Where the API listens.
        auth: Who the caller is.
        patience: Time-outs and tries.
        network: In place of the network, for tests.
        sleep: Waits that many seconds.
        chance: Draws from 0 up to 1, so that many who wait don't come back at once.
    """

    def __init__(
        self,
        url: str,
        *,
        auth: httpx.Auth | None = None,
        patience: Patience | None = None,
        network: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.url = url.rstrip("/")
        self.patience = patience or Patience()
        self.sleep = sleep
        self._chance = chance
        self._http = httpx.Client(
            auth=auth,
            transport=network,
            timeout=httpx.Timeout(self.patience.answer_s, connect=self.patience.connect_s),
            headers={"Accept": f"{JSON_TYPE}, {PROBLEM_TYPE}, {EXPORT_TYPE}"},
            follow_redirects=False,
            # A proxy of the environment never stands before this machine itself.
            trust_env=not _is_here(self.url),
        )

    def spread(self, pause_s: float) -> float:
        """Return a pause of half to all of that many seconds."""
        return pause_s * (0.5 + self._chance() / 2)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def answer(
        self,
        kind: type[_Answer],
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> _Answer:
        """Send a request and return its answer as a model.

        Raises:
            BadAnswer: It isn't that model.
        """
        reply = self.send(method, path, query=query, body=body, headers=headers)
        try:
            return kind.model_validate_json(reply.content)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "the whole"
            raise BadAnswer(f"{method} {self.url}{path}: {where}: {first['msg']}") from None

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Send a request that may be repeated, until it is answered or the tries are spent.

        Raises:
            DispatchError: What the answer stands for.
            Unreachable: No answer to a question, or no connection at all.
            Unanswered: A try may have taken effect, and no answer says whether.
        """
        request = self._request(method, path, query, body, headers or {})
        pause = self.patience.first_pause_s
        doubt = False
        for left in range(self.patience.tries - 1, -1, -1):
            reply, failed = self._once(request)
            if failed is None:
                return reply
            doubt = doubt or isinstance(failed, Unknown)
            if not isinstance(failed, TryLater | Unknown):
                raise failed
            if left:
                longest = self.patience.longest_pause_s
                self.sleep(max(self.spread(pause), _asked_to_wait(reply, longest)))
                pause = min(pause * 2, self.patience.longest_pause_s)
            elif isinstance(failed, Unknown) == (doubt and method != "GET"):
                raise failed
        if method == "GET":
            raise Unreachable(f"no answer from {self.url}")
        raise Unanswered(f"{method} {self.url}{path} was sent and not answered")

    def relay(self, target: str) -> httpx.Response:
        """Ask one question as it stands, once, and return whatever is answered.

        Args:
            target: The path, with the query.

        Raises:
            Unreachable, Unanswered: Nothing was.
            Forbidden: There is nothing to sign with any more.
        """
        try:
            return self._http.get(self.url + target)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise Unreachable(f"no connection to {self.url}: {_named(error)}") from None
        except httpx.TransportError as error:
            raise Unanswered(f"no answer from {self.url}: {_named(error)}") from None

    def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: str | None,
        headers: Mapping[str, str],
    ) -> httpx.Request:
        sent = {"Content-Type": JSON_TYPE, **headers} if body is not None else dict(headers)
        try:
            return self._http.build_request(
                method, self.url + path, params=query, content=body, headers=sent
            )
        except httpx.InvalidURL as error:
            raise InvalidRequest(f"{self.url}: {error}", field="url") from None

    def _once(self, request: httpx.Request) -> tuple[httpx.Response, DispatchError | None]:
        nothing = httpx.Response(599, request=request)
        try:
            reply = self._http.send(request)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            return nothing, Unreachable(f"no connection to {self.url}: {_named(error)}")
        except httpx.UnsupportedProtocol as error:
            raise InvalidRequest(f"{self.url}: {error}", field="url") from None
        except httpx.TransportError as error:
            return nothing, Unanswered(f"no answer from {self.url}: {_named(error)}")
        return reply, None if reply.is_success else error_of(reply)


def _is_here(url: str) -> bool:
    try:
        return urlsplit(url).hostname in _HERE
    except ValueError as error:
        raise InvalidRequest(f"{url}: {error}", field="url") from None


def _named(error: Exception) -> str:
    return str(error) or type(error).__name__


def _asked_to_wait(reply: httpx.Response, longest_s: float) -> float:
    said = reply.headers.get("Retry-After", "")
    return min(float(said), longest_s) if said.isdecimal() else 0.0
