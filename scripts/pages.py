"""Write the pages of the reference that follow from the code: causes, errors, states.

python -m scripts.pages      # writes them anew; a test compares
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from dispatch.api.problems import STATUS
from dispatch.cli.exits import Code, code_of, next_of
from dispatch.clusters import DEFAULT_PLAN
from dispatch.errors import DispatchError
from dispatch.narrate.cures import CURES
from dispatch.narrate.words import CAUSE_WORDS
from dispatch.record.names import Cause
from scripts.states import states_page

DOCS = Path(__file__).parent.parent / "docs"
WIDTH = 110


def causes_page() -> str:
    """Return the page of causes."""
    lines = _head(
        "Causes",
        """Why a run ended, or waits. Two causes that a person would treat differently are two
        names. `dispatch why JOB` shows the cause in brackets, with the scheduler's
        own words beside it; a plan says what follows for each (see [job
        files](job-file.md)). The last column of each table is what the plan of a
        cluster without one of its own does.""",
    )
    lines += ["| cause | a run that | without a plan |", "|---|---|---|"]
    for cause in Cause:
        rule = DEFAULT_PLAN.causes.get(cause, DEFAULT_PLAN.default)
        lines.append(f"| [`{cause}`](#{cause}) | {CAUSE_WORDS[cause]} | {rule.action} |")
    for cause in Cause:
        cure = CURES[cause]
        lines += ["", f"## {cause}", "", *_wrapped(cure.meaning)]
        seen = [("Slurm", cure.slurm), ("Kubernetes", cure.kubernetes)]
        shown = [f"- **{name}** shows {words}." for name, words in seen if words is not None]
        lines += ["", *(part for line in shown for part in _wrapped(line, "  "))]
        lines += ["", *_wrapped(f"**What helps**: {cure.likely}")]
    return "\n".join(lines) + "\n"


def errors_page() -> str:
    """Return the page of errors."""
    lines = _head(
        "Errors",
        """Every error has a code that machines may compare: `code` in the problem that the API
        answers with (RFC 9457, `urn:dispatch:problem:CODE`), `code` in what the
        command prints with `--json`, and `code` of the Python exception. The message
        names the job, the field and the reason.""",
    )
    lines += ["| code | HTTP | exit code | |", "|---|---|---|---|"]
    kinds = list(_errors())
    for kind in kinds:
        exit_code = int(code_of(_instance(kind)))
        first = _first_sentence(kind)
        lines.append(f"| [`{kind.code}`](#{kind.code}) | {STATUS[kind]} | {exit_code} | {first} |")
    for kind in kinds:
        exit_code = code_of(_instance(kind))
        lines += ["", f"## {kind.code}", "", *_wrapped(_doc(kind)), ""]
        then = next_of(_instance(kind))
        words = f" **What to do**: {then}." if then else ""
        about = (
            f"HTTP {STATUS[kind]}, exit code {int(exit_code)}, `dispatch.errors.{kind.__name__}`."
        )
        lines += _wrapped(about + words)
    lines += ["", "## Exit codes", "", "| code | name |", "|---|---|"]
    lines += [f"| {int(code)} | {code.name.lower().replace('_', ' ')} |" for code in Code]
    return "\n".join(lines) + "\n"


def _errors() -> Iterator[type[DispatchError]]:
    return (kind for kind in STATUS if kind is not DispatchError)


def _instance(kind: type[DispatchError]) -> DispatchError:
    return kind("…")


def _doc(kind: type[DispatchError]) -> str:
    words = " ".join((kind.__doc__ or "").split("Attributes:")[0].split())
    return re.sub(r" \((the seed's|protocol) [^)]*\)", "", words)


def _first_sentence(kind: type[DispatchError]) -> str:
    return re.split(r"[.;:]", _doc(kind))[0]


def _head(title: str, words: str) -> list[str]:
    """Return the head of a page that is written from the code."""
    return [
        "<!-- Written from the code by `make pages`. -->",
        "",
        f"# {title}",
        "",
        *_wrapped(" ".join(words.split())),
        "",
    ]


def _wrapped(text: str, indent: str = "") -> list[str]:
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > WIDTH:
            lines.append(line)
            line = indent + word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line]


def wanted() -> dict[str, str]:
    """Return the pages, by their path under docs."""
    return {
        "reference/causes.md": causes_page(),
        "reference/errors.md": errors_page(),
        "explanation/states.md": states_page(),
    }


def main(pages: Iterable[tuple[str, str]] | None = None) -> None:
    """Write the pages."""
    for name, text in pages or wanted().items():
        (DOCS / name).write_text(text, encoding="utf-8")
        print(f"docs/{name}")


if __name__ == "__main__":
    main()
