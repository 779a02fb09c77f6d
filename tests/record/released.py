"""Records as released builds left them in a table, item by item. Files are only added."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from dispatch.record.view import View
from dispatch.store.items import envelope_of

FOLDER = Path(__file__).parent / "released"

Item = dict[str, Any]

DIGESTS = {
    "0.1.0": "e0e8e56f63795062634fa41915627f91303b323cf438c1a52095ea52a3e0fdd4",
}
"""The SHA-256 of each file, by the build that wrote the records in it."""


@dataclass(frozen=True)
class Released:
    """One record, and what the build that wrote it took it for.

    Attributes:
        build: The build.
        name: What its story is.
        job_id: The job.
        items: Its items and its key's, in DynamoDB's own JSON.
        means: What that build's fold and projection said of it.
    """

    build: str
    name: str
    job_id: str
    items: tuple[Item, ...]
    means: dict[str, Any]

    @property
    def view(self) -> View:
        """The record as a store reads it."""
        own = {item["sk"]["S"]: item for item in self.items if item["pk"]["S"].startswith("JOB#")}
        entries = sorted(sk for sk in own if sk.startswith("E#"))
        return View(
            self.job_id,
            envelope_of(own["HEADER"]),
            tuple(envelope_of(own[sk]) for sk in entries),
        )


def read(build: str) -> dict[str, Any]:
    """The file of one build, as it was frozen."""
    raw = (FOLDER / f"{build}.json").read_bytes()
    assert sha256(raw).hexdigest() == DIGESTS[build], f"{build}: what was released is frozen"
    told: dict[str, Any] = json.loads(raw)
    return told


def records(build: str) -> Iterator[Released]:
    """Every record of one build."""
    for name, one in read(build)["records"].items():
        yield Released(build, name, one["job_id"], tuple(one["items"]), one["means"])


def table_items(build: str) -> list[Item]:
    """Everything that one build had in its table about these records."""
    told = read(build)
    found: list[Item] = [item for one in told["records"].values() for item in one["items"]]
    return found + list(told["others"])


ALL = [one for build in DIGESTS for one in records(build)]
