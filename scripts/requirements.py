"""Export the layer's and the functions' requirements from the one lock.

Everything that is deployed is a subset of ``requirements.lock`` with the same versions and the
same hashes, so the layer and a function's own packages can't disagree. Needs nothing but Python.
"""

import hashlib
import json
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LOCK = Path("requirements.lock")
PROJECT = Path("pyproject.toml")
DIGEST_PREFIX = "# of the requirements in pyproject.toml: sha256:"
HEADING = "# Exported from requirements.lock by `make lock`: edit pyproject.toml instead.\n"


@dataclass(frozen=True, slots=True)
class Pin:
    """One locked package: its lines as they stand in the lock, and who asks for it."""

    name: str
    version: str
    lines: tuple[str, ...]
    wanted_by: frozenset[str]


def normal(name: str) -> str:
    """The name as package indexes compare it, without extras, version or marker."""
    found = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", name)
    if found is None:
        raise ValueError(f"not a requirement: {name!r}")
    return re.sub(r"[-_.]+", "-", found.group()).lower()


def parse_lock(text: str) -> dict[str, Pin]:
    """Every package of a lock, by name, in the lock's order."""
    pins: dict[str, Pin] = {}
    name, version = "", ""
    lines: list[str] = []
    wanted_by: set[str] = set()

    def close() -> None:
        if name:
            pins[name] = Pin(name, version, tuple(lines), frozenset(wanted_by))

    for line in text.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if not line.startswith(" "):
            close()
            pinned = re.match(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;]+)", line)
            if pinned is None:
                raise ValueError(f"{LOCK}: not a pinned requirement: {line!r}")
            name, version = normal(pinned["name"]), pinned["version"]
            lines, wanted_by = [line], set()
        elif line.lstrip().startswith("#"):
            wanted_by |= {word for word in line.lstrip(" #").split() if word != "via"}
        else:
            lines.append(line)
    close()
    return pins


def closure(pins: Mapping[str, Pin], roots: Iterable[str]) -> list[Pin]:
    """The roots and everything they ask for, in the lock's order.

    Raises:
        KeyError: A root isn't in the lock.
    """
    chosen = {pins[normal(root)].name for root in roots}
    while True:
        more = {p.name for p in pins.values() if p.wanted_by & chosen} - chosen
        if not more:
            return [pin for pin in pins.values() if pin.name in chosen]
        chosen |= more


def export(pins: Iterable[Pin]) -> str:
    """The text of a requirements file that pins these packages, hashes included."""
    return HEADING + "".join(line + "\n" for pin in pins for line in pin.lines)


def wanted(project: Mapping[str, Any]) -> dict[str, list[str]]:
    """What pyproject.toml asks for, by the table it stands in."""
    extras: dict[str, list[str]] = project["project"].get("optional-dependencies", {})
    groups: dict[str, list[str]] = project.get("dependency-groups", {})
    return {
        "dependencies": project["project"]["dependencies"],
        **{f"extra {name}": entries for name, entries in extras.items()},
        **{f"group {name}": entries for name, entries in groups.items()},
    }


def digest(project: Mapping[str, Any]) -> str:
    """A digest of everything the lock answers to, so that a stale lock can be told offline."""
    asked = {"python": project["project"]["requires-python"], "wanted": wanted(project)}
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def exports(root: Path) -> dict[Path, str]:
    """Every exported file, relative to the project's root, with the text it should have."""
    project = tomllib.loads((root / PROJECT).read_text())
    pins = parse_lock((root / LOCK).read_text())
    asked = wanted(project)
    return {
        Path("shared/requirements.txt"): export(closure(pins, asked["extra layer"])),
        Path("functions/supervisor/requirements.txt"): export(closure(pins, asked["extra eks"])),
        # The API reads the output of pods; it loads the client when that is asked for, not before.
        Path("functions/intents/requirements.txt"): export(closure(pins, asked["extra eks"])),
        Path("functions/events/requirements.txt"): "# The layer holds what this needs.\n",
        Path("functions/retention/requirements.txt"): "# The layer holds what this needs.\n",
    }


def stamped(lock: str, project: Mapping[str, Any]) -> str:
    """The lock's text with the digest of the requirements that it answers to as its first line."""
    body = "".join(
        line for line in lock.splitlines(keepends=True) if not line.startswith(DIGEST_PREFIX)
    )
    return f"{DIGEST_PREFIX}{digest(project)}\n{body}"


def main() -> int:
    """Stamp the lock and write every exported file; say which."""
    lock = ROOT / LOCK
    project = tomllib.loads((ROOT / PROJECT).read_text())
    lock.write_text(stamped(lock.read_text(), project))
    for path, text in exports(ROOT).items():
        target = ROOT / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        print(f"wrote {path} ({text.count('==')} packages)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
