"""What pages that are written from the code have in common: heads, lists, commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

DOCS = Path(__file__).parent.parent / "docs"
NOTES = Path(__file__).parent / "notes"
WIDTH = 110

WRITTEN = "<!-- Written from the code by `make pages`. -->"


def notes(name: str) -> Mapping[str, Mapping[str, Any]]:
    """Return what people wrote beside the code, by the name of what it is about."""
    read = yaml.safe_load((NOTES / f"{name}.yaml").read_text(encoding="utf-8"))
    return {str(key): value for key, value in read.items()}


def head(title: str, words: str) -> list[str]:
    """Return the head of a page that is written from the code."""
    return [f"# {title}", "", WRITTEN, "", *wrapped(words), ""]


def wrapped(text: str, indent: str = "") -> list[str]:
    """Return a paragraph as lines; those after the first are indented."""
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > WIDTH:
            lines.append(line)
            line = indent + word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line]


def listed(items: Iterable[str], sign: str = "- ") -> list[str]:
    """Return a list, each item wrapped."""
    return [line for item in items for line in wrapped(sign + item, " " * len(sign))]


def numbered(items: Iterable[str]) -> list[str]:
    """Return a numbered list, most likely first."""
    return [line for i, item in enumerate(items, 1) for line in wrapped(f"{i}. {item}", "   ")]


def console(commands: Iterable[str]) -> list[str]:
    """Return a block of commands to type."""
    return ["```console", *(f"$ {one}" for one in commands), "```"]


def sentence(text: str) -> str:
    """Return a text on one line, with a full stop."""
    text = " ".join(text.split())
    return text if text.endswith((".", "…", ":", "?")) else f"{text}."
