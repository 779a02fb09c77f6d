"""The project's own Python files, for the tests that read them."""

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("shared", "embedded", "simulator", "functions")


def python_files(*folders: str) -> Iterator[Path]:
    """Every Python file below these folders of the project."""
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def shown(path: Path) -> str:
    """The path as a person would name it."""
    return str(path.relative_to(ROOT))
