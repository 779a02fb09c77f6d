"""From a job file and a command's options to the request that is sent."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from dispatch.api import SubmitRequest
from dispatch.jobfile import JobFile


def pairs_of(option: str, given: Sequence[str] | None) -> list[tuple[str, str]]:
    """Return what an option says that is given as NAME=VALUE, any number of times."""
    pairs = []
    for one in given or ():
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{option} {one}: NAME=VALUE is wanted")
        pairs.append((name, value))
    return pairs


def changes_of(set_: Sequence[str] | None) -> dict[str, str]:
    """Return what `--set` changes, by dotted field."""
    return dict(pairs_of("--set", set_))


def request_of(wanted: JobFile, cluster: str, allow_plain: Sequence[str]) -> SubmitRequest:
    """Return the request for one job of a file."""
    return SubmitRequest(
        spec=wanted.spec,
        cluster=cluster,
        plan=wanted.plan,
        start_retries=wanted.start_retries,
        unmatched=wanted.unmatched,
        supersedes=wanted.supersedes,
        allow_plain=tuple(allow_plain) or None,
    )
