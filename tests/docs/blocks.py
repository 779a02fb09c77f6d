"""The code blocks of the documentation, and the commands in them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[a-z]*)[^\n]*\n(?P<text>.*?)^ *```$", re.M | re.S
)


@dataclass(frozen=True, slots=True)
class Typed:
    """What a reader types, and what the page says that it answers.

    Attributes:
        command: As it stands, over as many lines as it has.
        answer: The lines below it; none where the page shows none.
    """

    command: str
    answer: tuple[str, ...]


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

    def typed(self) -> Iterator[Typed]:
        """Yield what a reader types; a block of shell without prompts is one command a line."""
        prompted = self.language == "console"
        command, answer = "", list[str]()
        for line in self.text.splitlines():
            if command and not answer and _goes_on(command):
                command += "\n" + line
                continue
            begins = line.startswith("$ ") if prompted else bool(line.strip())
            if not begins:
                answer.append(line)
                continue
            if command:
                yield Typed(command, tuple(answer))
            command, answer = (line.removeprefix("$ ") if prompted else line), []
        if command:
            yield Typed(command, tuple(answer))


@cache
def _goes_on(command: str) -> bool:
    """Return whether a shell would wait for another line."""
    if command.rstrip().endswith(("\\", "|")):
        return True
    asked = ["bash", "-n", "-c", command]
    said = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=20).stderr
    return "unexpected end of file" in said or "unexpected EOF" in said


def pages() -> list[Path]:
    """Return every page that people read."""
    found = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    return found + sorted((ROOT / "docs").rglob("*.md"))


@cache
def all_blocks() -> tuple[Block, ...]:
    """Return every block of every page."""
    found = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        for match in _FENCE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            where = str(page.relative_to(ROOT))
            body = re.sub(rf"^{match['indent']}", "", match["text"], flags=re.M)
            found.append(Block(where, line, match["language"], body))
    return tuple(found)


def blocks(*languages: str) -> list[Block]:
    """Return the blocks in these languages, all without any."""
    return [one for one in all_blocks() if not languages or one.language in languages]
