"""Networks that are none: the API's own handlers, or a script of what happens to each request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import httpx

from dispatch.client import Client, Patience
from tests.functions.world import World, http_event

URL = "http://127.0.0.1:9"
Reaction = httpx.Response | Exception


class Handlers(httpx.BaseTransport):
    """Hands each request to a world's handlers, as the listener does."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.seen: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(request)
        event = http_event(
            request.method,
            request.url.path,
            request.content.decode() or None,
            headers=dict(request.headers),
            query=request.url.query.decode(),
        )
        reply = self.world.request(event)
        return httpx.Response(reply.status, headers=reply.headers, text=reply.text)


class Scripted(httpx.BaseTransport):
    """Answers from a script, or passes on what has none."""

    def __init__(
        self, script: Sequence[Reaction | None], then: httpx.BaseTransport | None = None
    ) -> None:
        self._script: Iterator[Reaction | None] = iter(script)
        self._then = then
        self.seen: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.seen.append(request)
        reaction = next(self._script, None)
        if isinstance(reaction, Exception):
            raise reaction
        if reaction is not None:
            return reaction
        assert self._then is not None, "the script is over"
        return self._then.handle_request(request)


class LosesReplies(httpx.BaseTransport):
    """Carries out requests and loses the first replies."""

    def __init__(self, then: httpx.BaseTransport, losses: int) -> None:
        self._then = then
        self._losses = losses

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        reply = self._then.handle_request(request)
        if self._losses > 0:
            self._losses -= 1
            raise httpx.ReadTimeout("the reply was lost", request=request)
        return reply


def client(
    network: httpx.BaseTransport,
    *,
    tries: int = 4,
    slept: list[float] | None = None,
    after_sleep: Callable[[], object] = lambda: None,
    auth: httpx.Auth | None = None,
    url: str = URL,
    chance: Callable[[], float] = lambda: 1.0,
) -> Client:
    """A client that never waits; what it would have slept is kept."""
    naps = [] if slept is None else slept

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        after_sleep()

    keys = iter(f"key-{number}" for number in range(1000))
    return Client(
        url,
        patience=Patience(tries=tries),
        transport=network,
        sleep=sleep,
        monotonic=lambda: sum(naps),
        chance=chance,
        key=lambda: next(keys),
        auth=auth,
    )
