"""Job files: what to run and where, as YAML or JSON that people write; strict, and pure.

The fields are those of the spec (protocol §2) beside `cluster`, `plan`, `start_retries`,
`unmatched`, `supersedes`, `idempotency_key` and `array`. docs/reference/job-file.md lists them.
"""

from __future__ import annotations

from collections.abc import Mapping

from dispatch.jobfile.array import Member, Members, Parameters, members_of
from dispatch.jobfile.model import MAX_MEMBERS, SCHEMA_TITLE, Array, JobFile, schema
from dispatch.jobfile.reading import (
    MAX_BYTES,
    JobFileRefused,
    Place,
    Problem,
    change,
    read,
)

__all__ = [
    "MAX_BYTES",
    "MAX_MEMBERS",
    "SCHEMA_TITLE",
    "Array",
    "JobFile",
    "JobFileRefused",
    "Member",
    "Members",
    "Parameters",
    "Place",
    "Problem",
    "parse",
    "parse_all",
    "schema",
]


def parse(
    text: str, *, name: str = "job file", changes: Mapping[str, str] | None = None
) -> JobFile:
    """Return what a job file says that asks for one job.

    Args:
        text: YAML, or JSON.
        name: What to call it in errors.
        changes: Values to put in place, by dotted field, each written as YAML: `{"nodes": "4"}`.

    Raises:
        JobFileRefused: names every field at fault, and its line where it has one.
    """
    found = parse_all(text, name=name, changes=changes)
    if found.is_array:
        problem = Problem("it makes several jobs, and one is wanted here", "array")
        raise JobFileRefused(name, [problem])
    return found.jobs[0].file


def parse_all(
    text: str, *, name: str = "job file", changes: Mapping[str, str] | None = None
) -> Members:
    """Return every job that a file asks for: one, or one for each element of its array.

    Args:
        text: YAML, or JSON.
        name: What to call it in errors.
        changes: As for `parse`.

    Raises:
        JobFileRefused: names every field at fault, and its line where it has one.
    """
    data, lines = read(text, name)
    for dotted, value in (changes or {}).items():
        change(data, dotted, value)
        lines[tuple(dotted.split("."))] = 0
    return members_of(data, lines, name)
