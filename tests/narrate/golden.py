"""How the stories are told, as checked-in texts; `python -m tests.narrate.golden` rewrites them."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

from dispatch.narrate.history import history
from dispatch.narrate.story import as_text, why
from dispatch.narrate.words import Reader
from dispatch.record.view import View
from tests.narrate.stories import STORIES
from tests.narrate.written import at

FOLDER = Path(__file__).parent / "golden"


def told(view: View, seconds: float) -> str:
    """A record's story and its history."""
    reader = Reader(at(seconds), UTC)
    lines = [
        " | ".join(
            (
                str(line.entry),
                "" if line.at is None else reader.time(line.at),
                line.by or "",
                line.kind,
                line.what,
                line.why or "",
            )
        )
        for line in history(view, reader).lines
    ]
    return as_text(why(view, reader)) + "\nHistory\n" + "\n".join(lines) + "\n"


def main() -> None:
    """Write every text anew; read the difference before it is committed."""
    FOLDER.mkdir(exist_ok=True)
    for name, (view, seconds) in STORIES.items():
        (FOLDER / f"{name}.txt").write_text(told(view(), seconds), encoding="utf-8")


if __name__ == "__main__":
    main()
