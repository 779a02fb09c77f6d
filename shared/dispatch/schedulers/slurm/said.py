"""The words of a reply: errors, warnings and what slurmrestd says of itself; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dispatch.schedulers.slurm import verdicts
from dispatch.schedulers.slurm.numbers import instant, integer
from dispatch.schedulers.slurm.verdicts import Judged

_VERSION = re.compile(r"v0\.0\.([0-9]+)")
_PATH_VERSION = re.compile(r"^/slurm(?:db)?/(v0\.0\.[0-9]+)(?:/|\Z)")
_IGNORED = re.compile(r'[Ii]gnoring unknown field "([^"]+)"')


@dataclass(frozen=True, slots=True)
class Said:
    """One entry of `errors`, or of a cancel's `status`.

    Attributes:
        number: Slurm's number for it, where known.
        words: Its words, for people.
        judged: What it says about the call.
    """

    number: int | None
    words: str
    judged: Judged


def version(path: str, body: Mapping[str, Any] | None) -> int | None:
    """Return the n of the API version v0.0.n that a reply is of, where it can be told."""
    found = _PATH_VERSION.match(path)
    if found is not None:
        return int(found[1].rpartition(".")[2])
    if body is None:
        return None
    plugin = mapping(mapping(body.get("meta")).get("plugin"))
    for key in ("data_parser", "type", "name"):
        in_meta = _VERSION.search(str(plugin.get(key, "")))
        if in_meta is not None:
            return int(in_meta[1])
    return None


def meta(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cluster's name, Slurm's release and when its jobs last changed."""
    slurm = mapping(mapping(body.get("meta")).get("slurm"))
    return {
        "identity": str(slurm.get("cluster") or ""),
        "release": str(slurm.get("release") or ""),
        "last_update": instant(body.get("last_update")),
    }


def errors(body: Mapping[str, Any]) -> Iterable[Said]:
    """Yield the errors of a reply, in every shape."""
    entries = body.get("errors")
    if entries is None:
        return
    if not isinstance(entries, list):
        yield _said(None, "errors isn't a list")
        return
    for entry in entries:
        if not isinstance(entry, Mapping):
            yield _said(None, str(entry))
            continue
        number = entry.get("error_number", entry.get("error_code"))
        words = (entry.get("description"), entry.get("error"), entry.get("source"))
        yield _said(integer(number), ": ".join(str(word) for word in words if word))


def cancel_status(body: Mapping[str, Any]) -> Iterable[Said]:
    """Yield the errors that a cancel's reply tells for each job."""
    entries = body.get("status")
    for entry in entries if isinstance(entries, list) else ():
        error = mapping(mapping(entry).get("error"))
        number = integer(error.get("code"))
        if number:
            yield _said(number, f"{error.get('string') or error.get('message') or ''}".strip())


def results(body: Mapping[str, Any]) -> Iterable[Said]:
    """Yield the errors that an update's reply tells for each part of a job."""
    entries = body.get("results")
    for entry in entries if isinstance(entries, list) else ():
        result = mapping(entry)
        number = integer(result.get("error_code"))
        if number:
            yield _said(number, f"{result.get('error') or ''} {result.get('why') or ''}".strip())


def _said(number: int | None, words: str) -> Said:
    shown = f"{words} ({number})" if number is not None else words
    known = number if number not in (None, 0, -1) else verdicts.number_of(words)
    return Said(known, shown, verdicts.judged(number, words))


def warnings(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the warnings, each once."""
    entries = body.get("warnings")
    texts = [
        str(entry.get("description", "")) if isinstance(entry, Mapping) else str(entry)
        for entry in (entries if isinstance(entries, list) else ())
    ]
    return tuple(dict.fromkeys(text for text in texts if text))


def dropped(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the request fields that the server says it ignored."""
    names = []
    for text in warnings(body):
        found = _IGNORED.search(text)
        if found is not None:
            names.append(found[1])
    entries = body.get("warnings")
    for entry in entries if isinstance(entries, list) else ():
        source = str(mapping(entry).get("source") or "")
        # A value of the wrong type is dropped too; only its place names the field.
        if source.startswith("#/"):
            place = source.removeprefix("#/").removeprefix("job/").split("/")
            names.append(place[0])
    return tuple(dict.fromkeys(names))


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a JSON object, or an empty one in the place of anything else."""
    return value if isinstance(value, Mapping) else {}
