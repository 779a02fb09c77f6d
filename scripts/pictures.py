"""The pictures of the explanation pages: how a record grows, why a commit comes first, the rows.

The first two are the simulator's own stories; the third is read from the code of `next_steps` and
from the headings of the page that explains it.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from dispatch.core import next as rows
from scripts.drawing import Arrow, Rung, columns, ladder
from scripts.writing import DOCS
from simulator.stories import STORIES

CORE = Path(rows.__file__).parent

PEOPLE, RECORD, SUPERVISOR, CLUSTER, RUN = "people", "record", "supervisor", "cluster", "run"

_LINE = re.compile(r"^\s*(?P<at>[\d.]+) s  (?P<who>\S+)\s+(?P<what>.*)$")
_SIGHT = re.compile(r"^sees (?P<ref>\S+)(?P<state>.*)$")


def pictures() -> dict[str, str]:
    """Return the pictures by their path under docs."""
    return {
        "images/record.svg": _story(
            "a_job_succeeds",
            "How the record of a job grows",
            "Every entry that the supervisor writes for a job that succeeds, every call that it"
            " makes and every look that it takes, with the seconds since the submission.",
        ),
        "images/lost-reply.svg": _story(
            "the_reply_of_a_start_is_lost",
            "Why a commit comes before its call",
            "The reply to a start is lost. The attempt was recorded before, so nothing is sent"
            " again: a later look shows the object, and it becomes the run.",
        ),
        "images/steps.svg": _rows(),
    }


def _story(name: str, title: str, told: str) -> str:
    (story,) = (one for one in STORIES if one.name == name)
    transcript = story.play().transcript
    arrows = [Arrow(PEOPLE, RECORD, "submit: header", "c", "0.0 s"), *_arrows(transcript)]
    return columns(title, told, [PEOPLE, RECORD, SUPERVISOR, CLUSTER, RUN], arrows)


def _arrows(transcript: str) -> Iterator[Arrow]:
    """Yield what a story tells as arrows; a look that shows nothing new is left out."""
    seen = ""
    for line in transcript.splitlines():
        met = _LINE.match(line)
        if met is None or met["who"] == "(story)":
            continue
        at, what = f"{met['at']} s", met["what"]
        word, _, rest = what.partition(" ")
        if met["who"] == "(process)":
            begins = "begins" in what
            yield Arrow(RUN, RUN, "begins" if begins else "ends", "c", at)
        elif word == "sees":
            sight = _SIGHT.match(what)
            state = "nothing" if sight is None or not sight["state"] else sight["state"].strip()
            if state != seen:
                yield Arrow(CLUSTER, SUPERVISOR, f"shows: {state}", "a", at)
            seen = state
        elif word == "writes":
            kind, _, about = rest.partition(" ")
            state = about.rsplit(" ", 1)[-1] if kind == "observed" else _told(about)
            yield Arrow(SUPERVISOR, RECORD, f"{kind} {state}".strip(), "c", at)
        elif word == "calls":
            yield Arrow(SUPERVISOR, CLUSTER, rest.split(" hpc/")[0], "b", at)
        elif word == "trouble:":
            yield Arrow(SUPERVISOR, SUPERVISOR, rest, "b", at)
        elif word.endswith(":"):
            yield Arrow(CLUSTER, CLUSTER, rest.split(", and ")[-1], "b", at)


def _told(about: str) -> str:
    """Return what of an entry's fields a picture has room for."""
    fields = dict(one.split("=", 1) for one in about.split() if "=" in one)
    if "a" in fields:
        named = f"{fields['n']}.{fields['a']}"
        return f"{named} {fields['result']}" if "result" in fields else named
    return fields.get("state", "")


# --- the rows of Next -------------------------------------------------------------------------

_KINDS = {
    "Append": ("commit", "c"),
    "Start": ("commit, then one call", "b"),
    "Hold": ("commit, then one call", "b"),
    "Requeue": ("commit, then one call", "b"),
    "Release": ("call, recorded the first time", "a"),
    "Stop": ("call", "a"),
    "Lookup": ("call", "a"),
    "Alert": ("call", "a"),
}
_OF_THE_CALLER = ("13", "14")
"""Where a step's row is an argument, it is one of these (recover.py)."""


def _rows() -> str:
    titles = _titles()
    kinds = _kinds()
    rungs = [
        Rung(name, title, tuple(dict.fromkeys(kinds[name])))
        for name, title in titles.items()
        if name in kinds
    ]
    names = [one.name for one in rungs]
    return ladder(
        "The rows of next_steps",
        "Tried from the top. The first row that commits something ends the list.",
        rungs,
        (
            (1, "only once the job is settled; else from here on"),
            (names.index("7") + 1, "with an outcome, nothing below is tried"),
        ),
    )


def _titles() -> Mapping[str, str]:
    """Return the headings of the page of the steps, by row."""
    page = (DOCS / "explanation/steps.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^### (\d+b?)\. (.+)$", page, re.M))


def _kinds() -> Mapping[str, list[tuple[str, str]]]:
    """Return what each row of the code can ask for, by its number."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for path in sorted(CORE.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            if node.func.id not in _KINDS or not node.args:
                continue
            row = node.args[0]
            if isinstance(row, ast.Constant):
                found[str(row.value)].append(_KINDS[node.func.id])
            elif isinstance(row, ast.Name) and row.id == "row":
                for one in _OF_THE_CALLER:
                    if one == "13" or node.func.id == "Append":
                        found[one].append(_KINDS[node.func.id])
    return found
