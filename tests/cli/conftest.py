"""A command line in a world of its own: no stack of the person's, no endpoint of the person's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

from dispatch.cli.app import app
from dispatch.client import Client
from tests.client.network import URL, Handlers
from tests.functions.world import World

Network = Callable[[], httpx.BaseTransport]


@dataclass
class Shell:
    """Runs commands against a world; `network` may be replaced."""

    world: World
    network: Network
    folder: Path

    def __call__(self, *words: str, text: str | None = None, **env: str) -> Result:
        # pytest-xdist sets COLUMNS in its workers; a pipe of a person's has none.
        settings: dict[str, str | None] = {
            "COLUMNS": None,
            "DISPATCH_URL": URL,
            "DISPATCH_STATE": str(self.folder / "state"),
            **env,
        }
        return CliRunner().invoke(app, list(words), input=text, env=settings)

    def file(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def tick(self) -> None:
        self.world.work('{"cluster":"main"}')
        self.world.clock.forward(2)


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shell:
    """A shell whose client's pauses let the world's supervisor work."""
    world = World()
    made = Shell(world, lambda: Handlers(world), tmp_path)

    def client(url: str, **more: Any) -> Client:
        naps: list[float] = []

        def sleep(seconds: float) -> None:
            naps.append(seconds)
            made.tick()

        return Client(
            url, transport=made.network(), sleep=sleep, monotonic=lambda: sum(naps), **more
        )

    monkeypatch.setattr("dispatch.cli.connect.Client", client)
    return made
