"""The environment as typed settings; the only place that reads it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dispatch.errors import BadConfiguration

STACK_FILE = "stack.json"
"""In a state folder: where its one-machine stack listens, `{"pid": …, "url": …}`."""

STACK_PORT = 8750
"""Where the one-machine stack listens unless it is told."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a process is told about where it runs.

    Attributes:
        table: The DynamoDB table that keeps the records.
        endpoint: Another DynamoDB endpoint than AWS's own.
        sqlite: The file that keeps the records, instead of a table.
        clusters: The clusters' document: JSON itself, `file:PATH` or `ssm:PARAMETER`.
        queue_url: The SQS queue of the work.
        event_bus: The EventBridge bus of the events.
        metrics: The namespace of the metrics.
        supervisor: Who the facts of this process are written by.
        clusters_every_s: Seconds after which a clusters' document is read again.
        archive_bucket: The S3 bucket that what is removed is archived in first; None for nowhere.
        archive_after_days: Days after which a settled record is archived and tombstoned; 0: never.
    """

    table: str | None = None
    endpoint: str | None = None
    sqlite: Path | None = None
    clusters: str = ""
    queue_url: str | None = None
    event_bus: str | None = None
    metrics: str = "Dispatch"
    supervisor: str = "supervisor"
    clusters_every_s: int = 60
    archive_bucket: str | None = None
    archive_after_days: int = 0


def from_environment(environ: Mapping[str, str] | None = None) -> Settings:
    """Return the settings of this process.

    Args:
        environ: Instead of the process's own environment.

    Raises:
        BadConfiguration: names the variable and the reason.
    """
    env = os.environ if environ is None else environ
    table, sqlite = env.get("DISPATCH_TABLE"), env.get("DISPATCH_SQLITE")
    if bool(table) == bool(sqlite):
        raise BadConfiguration("set either DISPATCH_TABLE or DISPATCH_SQLITE: where records are")
    return Settings(
        table=table or None,
        endpoint=env.get("DISPATCH_DYNAMODB_ENDPOINT") or None,
        sqlite=Path(sqlite) if sqlite else None,
        clusters=env.get("DISPATCH_CLUSTERS", ""),
        queue_url=env.get("DISPATCH_QUEUE_URL") or None,
        event_bus=env.get("DISPATCH_EVENT_BUS") or None,
        metrics=env.get("DISPATCH_METRICS") or "Dispatch",
        supervisor=env.get("DISPATCH_SUPERVISOR")
        or env.get("AWS_LAMBDA_FUNCTION_NAME")
        or "supervisor",
        clusters_every_s=_number(env, "DISPATCH_CLUSTERS_EVERY_S", 60, "seconds"),
        archive_bucket=env.get("DISPATCH_ARCHIVE_BUCKET") or None,
        archive_after_days=_number(env, "DISPATCH_ARCHIVE_AFTER_DAYS", 0, "days"),
    )


def state_directory(environ: Mapping[str, str] | None = None) -> Path:
    """Return where the one-machine stack keeps its state unless it is told: XDG's state folder."""
    env = os.environ if environ is None else environ
    told = env.get("DISPATCH_STATE")
    if told:
        return Path(told)
    home = env.get("XDG_STATE_HOME", "")
    # XDG: a relative path is to be ignored.
    root = Path(home) if home.startswith("/") else Path(env.get("HOME") or "~").expanduser()
    return root / "dispatch" if home.startswith("/") else root / ".local" / "state" / "dispatch"


def stack_url(state: Path) -> str | None:
    """Return where the stack that was last started on a state folder listens, or None."""
    try:
        told = json.loads((state / STACK_FILE).read_text(encoding="utf-8"))
        url = told["url"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return url if isinstance(url, str) else None


def _number(env: Mapping[str, str], name: str, default: int, unit: str) -> int:
    text = env.get(name)
    if text is None or text == "":
        return default
    if not text.isascii() or not text.isdigit():
        raise BadConfiguration(f"{name}: {text!r} isn't a number of {unit}")
    return int(text)
