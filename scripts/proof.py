"""Run a part of the proof, and put what it printed in its place in docs/reference/proof.md.

    python scripts/proof.py corner|mutants|seeds [more arguments of `dispatch simulate`]

A part's command stands below its heading, and what it printed last in the block below that.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "proof.md"

PARTS = {
    "corner": ("Exhaustive corner", ["--exhaustive"]),
    "mutants": ("Rules, reverted", ["--mutant", "all", "--seeds", "80", "--start", "1"]),
    "seeds": ("Seeds", ["--seeds", "200000", "--census"]),
}


def put(page: str, heading: str, command: str, printed: str) -> str:
    """Return the page with a part's command and what it printed.

    Raises:
        ValueError: The page has no such part.
    """
    part = re.compile(
        rf"(## {re.escape(heading)}\n)`dispatch simulate [^`]*`(.*?```text\n).*?```\n", re.DOTALL
    )
    if part.search(page) is None:
        raise ValueError(f"{PAGE.name} has no part {heading!r} with a command and a block")
    return part.sub(
        lambda found: f"{found[1]}`{command}`{found[2]}{printed.strip()}\n```\n", page, count=1
    )


def main(argv: list[str]) -> int:
    """Run one part; the exit code is the command's."""
    if not argv or argv[0] not in PARTS:
        print(f"which part? {', '.join(PARTS)}", file=sys.stderr)
        return 2
    heading, arguments = PARTS[argv[0]]
    arguments = [*arguments, *argv[1:]]
    ran = subprocess.run(
        [sys.executable, "-m", "simulator", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    print(ran.stdout)
    command = " ".join(["dispatch simulate", *arguments])
    PAGE.write_text(put(PAGE.read_text(), heading, command, ran.stdout))
    return ran.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
