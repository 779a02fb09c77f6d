"""The code blocks of the documentation, and the commands in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[a-z]*)[^\n]*\n(?P<text>.*?)^ *```$", re.M | re.S
)


@dataclass(frozen=True, slots=True)
class Block:
    """One block of code.

    Attributes:
        page: Where it stands, from the root of the repository.
        line: Its first line there.
        language: As its fence says.
        text: What it holds.
    """

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    def commands(self) -> Iterator[str]:
        """Yield what a reader types, each on one line and without what it is explained by."""
        told = self.text.replace("\\\n", " ")
        prompted = self.language == "console"
        for line in _joined(told).splitlines():
            typed = line.removeprefix("$ ") if prompted else line
            if prompted and typed == line:
                continue  # what the command answers
            typed = re.sub(r"\s+#\s.*$", "", typed).strip()
            if typed and not typed.startswith("#"):
                yield typed


def _joined(text: str) -> str:
    """Join what is piped into the next line."""
    return re.sub(r"\|\n\s*", "| ", text)


def pages() -> list[Path]:
    """Return every page that people read."""
    found = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    return found + sorted((ROOT / "docs").rglob("*.md"))


def blocks(*languages: str) -> list[Block]:
    """Return the blocks in these languages, all without any."""
    found = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        for match in _FENCE.finditer(text):
            language = match["language"]
            if not languages or language in languages:
                line = text.count("\n", 0, match.start()) + 1
                where = str(page.relative_to(ROOT))
                indent = match["indent"]
                body = re.sub(rf"^{indent}", "", match["text"], flags=re.M)
                found.append(Block(where, line, language, body))
    return found
