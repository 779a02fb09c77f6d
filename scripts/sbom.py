"""Write the bills of materials (CycloneDX) of everything that a release ships, from the one lock.

``python -m scripts.sbom TOOL TARGET``: TOOL is `cyclonedx-py`, TARGET the folder. What is written
depends on the lock and on pyproject.toml alone, so it is the same wherever it is made. The tool
writes the components with their hashes; who needs whom is added from the lock, which says it.
"""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scripts.requirements import (
    LOCK,
    PROJECT,
    ROOT,
    Pin,
    closure,
    export,
    normal,
    parse_lock,
    wanted,
)

SHIPPED = {
    "command": ("dependencies",),
    "one-machine-stack": ("dependencies", "extra layer", "extra embedded"),
    "layer": ("extra layer",),
    "functions": ("extra layer", "extra eks"),
}
"""Each thing that a release ships, and the tables of pyproject.toml that it stands on."""


def share(root: Path, name: str) -> tuple[list[str], list[Pin]]:
    """Return what a thing asks for by name, and all the locked packages that it ships with."""
    project = tomllib.loads((root / PROJECT).read_text())
    asked = [one for table in SHIPPED[name] for one in wanted(project)[table]]
    own = project["project"]["name"]
    direct = sorted({normal(one) for one in asked} - {own})
    return direct, closure(parse_lock((root / LOCK).read_text()), direct)


def linked(bill: Mapping[str, Any], direct: list[str], pins: list[Pin]) -> dict[str, Any]:
    """Return a bill in which each package names what it needs, and the root what was asked for."""
    refs = {normal(one["name"]): one["bom-ref"] for one in bill["components"]}
    needs: dict[str, set[str]] = {name: set() for name in refs}
    for pin in pins:
        for parent in pin.wanted_by & needs.keys():
            needs[parent].add(pin.name)
    root = bill["metadata"]["component"]["bom-ref"]
    edges = [(root, direct), *((refs[name], sorted(needed)) for name, needed in needs.items())]
    components = [
        {key: value for key, value in one.items() if key != "description"}
        for one in bill["components"]
    ]
    dependencies = [
        {"ref": ref, "dependsOn": [refs[one] for one in needed]} if needed else {"ref": ref}
        for ref, needed in sorted(edges)
    ]
    return {**bill, "components": components, "dependencies": dependencies}


def written(tool: Path, pinned: Path) -> dict[str, Any]:
    """Return the bill that the tool writes of a requirements file."""
    done = subprocess.run(
        [tool, "requirements", pinned, "--pyproject", ROOT / PROJECT, "--output-reproducible"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        # It warns that the root needs nothing, which is mended below.
        env=os.environ | {"PYTHONWARNINGS": "ignore::UserWarning"},  # noqa: TID251
    )
    bill: dict[str, Any] = json.loads(done.stdout)
    return bill


def main(arguments: list[str]) -> int:
    """Write each bill; say which."""
    tool, target = Path(arguments[0]), Path(arguments[1])
    target.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as place:
        for name in SHIPPED:
            direct, pins = share(ROOT, name)
            pinned = Path(place) / f"{name}.txt"
            pinned.write_text(export(pins))
            bill = linked(written(tool, pinned), direct, pins)
            path = target / f"dispatch-{name}.cdx.json"
            path.write_text(json.dumps(bill, indent=2) + "\n")
            print(f"wrote {path} ({len(pins)} packages)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
