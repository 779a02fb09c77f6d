"""A page for each error code: where it comes from, what it stands for, what to do."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dispatch import client
from dispatch.api.problems import _HTTP_CODES, STATUS, http_problem, problem_of
from dispatch.cli.exits import Code, NoEndpoint, NotHere, code_of, next_of
from dispatch.errors import DispatchError
from embedded.demo.process import DidNotStart
from embedded.demo.stories import Deviation
from scripts.writing import head, listed, notes, numbered, wrapped

_INTRODUCTION = """Every error has a code that machines may compare: `code` in the problem that
the API answers with (RFC 9457; its `type` is `urn:dispatch:problem:CODE`, its `page` is that
page here), `error` in what the command prints with `--json`, and `code` of the Python
exception. The page of a code has its name. The message names the job, the field and the reason."""

_OF_THE_CLIENT: tuple[type[DispatchError], ...] = (
    client.Unreachable,
    client.Unanswered,
    client.BadAnswer,
    client.ServerFailed,
    client.WaitedTooLong,
    NoEndpoint,
    NotHere,
    DidNotStart,
    Deviation,
)
"""Errors that no API answers with: the command and the Python client find them by themselves."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One code.

    Attributes:
        code: What machines compare.
        says: What it stands for.
        status: The HTTP status that the API answers with; None if it never does.
        raised: The Python exception; None where only the API knows the code.
    """

    code: str
    says: str
    status: int | None
    raised: type[DispatchError] | None

    @property
    def instance(self) -> DispatchError | None:
        """One of its exceptions, without words of its own."""
        return None if self.raised is None else self.raised("…")

    @property
    def exit_code(self) -> int | None:
        """What the command ends with."""
        return None if self.instance is None else int(code_of(self.instance))


def kinds() -> list[Kind]:
    """Return every code that somebody can meet."""
    found = [Kind(one.code, _doc(one), status, one) for one, status in STATUS.items()]
    found += [Kind(one.code, _doc(one), None, one) for one in _OF_THE_CLIENT]
    known = {one.code for one in found}
    for status, (code, title) in _HTTP_CODES.items():
        if code not in known:
            found.append(Kind(code, f"{title}.", status, None))
    return found


def pages() -> dict[str, str]:
    """Return the pages of the errors by their path under docs, the index among them."""
    told = notes("errors")
    found = {"reference/errors/index.md": _index()}
    for kind in kinds():
        found[f"reference/errors/{kind.code}.md"] = _page(kind, told[kind.code])
    return found


def _index() -> str:
    lines = head("Errors", _INTRODUCTION)
    lines += ["| code | HTTP | exit code | |", "|---|---|---|---|"]
    for kind in kinds():
        exit_code = "" if kind.exit_code is None else kind.exit_code
        first = re.split(r"[.;:]", kind.says)[0]
        lines.append(
            f"| [`{kind.code}`]({kind.code}.md) | {kind.status or ''} | {exit_code} | {first} |"
        )
    lines += ["", "## Exit codes", "", "| code | name |", "|---|---|"]
    lines += [f"| {int(code)} | {code.name.lower().replace('_', ' ')} |" for code in Code]
    return "\n".join(lines) + "\n"


def _page(kind: Kind, told: Mapping[str, Any]) -> str:
    lines = head(kind.code, kind.says)
    lines += ["| | |", "|---|---|"]
    if kind.status is not None:
        lines.append(f"| HTTP status | {kind.status} |")
    if kind.exit_code is not None:
        lines.append(f"| exit code of `dispatch` | {kind.exit_code} |")
    if kind.raised is not None:
        lines.append(f"| Python | `{kind.raised.__module__}.{kind.raised.__name__}` |")
    lines += ["", "## When", "", *listed(told["when"]), ""]
    if "show" in told:
        lines += ["## How it looks", "", "```console", told["show"].rstrip(), "```", ""]
    if kind.status is not None:
        lines += ["The API's answer, with what it knows in `detail`:", "", *_answer(kind), ""]
    lines += ["## What to do", ""]
    error = kind.instance
    hint = None if error is None else next_of(error)
    if hint is not None:
        lines += [*wrapped(f"The command says: *{hint}*."), ""]
    if "cure" in told:
        lines += [*numbered(told["cure"]), ""]
    others = ", ".join(f"[{one}]({one}.md)" for one in told["see"])
    lines += wrapped(f"Near to it: {others}. All are in [the list](index.md).")
    return "\n".join(lines) + "\n"


def _answer(kind: Kind) -> list[str]:
    """Return the problem that the API answers with."""
    if kind.raised is None:
        problem = http_problem(kind.status or 500, "…")
    else:
        problem = problem_of(kind.raised("…"))
    data = problem.model_dump(mode="json", exclude_none=True)
    return ["```json", json.dumps(data, ensure_ascii=False, indent=2), "```"]


def _doc(kind: type[DispatchError]) -> str:
    words = " ".join((kind.__doc__ or "").split("Attributes:")[0].split())
    if kind is DispatchError:
        return "Something failed that has no closer name: a fault of Dispatch's own."
    return re.sub(r" \((the seed's|protocol) [^)]*\)", "", words).strip()
