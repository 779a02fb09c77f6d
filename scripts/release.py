"""Gather a release, or say what stands against it.

``python -m scripts.release TARGET`` wants the wheel and the bills of materials in `build/`, copies
them to TARGET and writes their SHA-256 sums beside them. It publishes nothing.
"""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from scripts.requirements import PROJECT, ROOT

WHEELS = Path("build/dist")
BILLS = Path("build/sbom")
SUMS = "SHA256SUMS"


def version_of(root: Path) -> str:
    """Return the version; pyproject.toml is the only place that says it."""
    version: str = tomllib.loads((root / PROJECT).read_text())["project"]["version"]
    return version


def problems(version: str, changelog: str, tags: Iterable[str], changed: str) -> list[str]:
    """Return what stands against releasing this tree as a version.

    Args:
        version: As pyproject.toml says it.
        changelog: The text of CHANGELOG.md.
        tags: The tags of the commit that is checked out.
        changed: What `git status --porcelain` says.
    """
    found = []
    if not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", version):
        found.append(f"the version {version} isn't one of the form 1.2.3 or 1.2.3rc1")
    if not re.search(
        rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE
    ):
        found.append(f"CHANGELOG.md has no heading '## [{version}] - YYYY-MM-DD'")
    if f"v{version}" not in set(tags):
        found.append(f"this commit isn't tagged v{version}")
    if changed.strip():
        found.append("there are changes that aren't committed")
    return found


def gathered(root: Path, target: Path) -> list[Path]:
    """Copy everything that is released to a new folder, with a file of their sums.

    Raises:
        FileNotFoundError: Something wasn't built.
    """
    version = version_of(root)
    made = [
        *sorted((root / WHEELS).glob(f"dispatch_record-{version}*")),
        *sorted((root / BILLS).glob("*.cdx.json")),
    ]
    kinds = {".whl", ".gz", ".json"} - {one.suffix for one in made}
    if kinds:
        raise FileNotFoundError(f"nothing of version {version} ends with {sorted(kinds)}")
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    copies = [Path(shutil.copy2(one, target)) for one in made]
    lines = [f"{sha256(one.read_bytes()).hexdigest()}  {one.name}\n" for one in copies]
    (target / SUMS).write_text("".join(lines))
    return [*copies, target / SUMS]


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def main(arguments: list[str]) -> int:
    """Gather the release; end with 1 where something stands against it."""
    version = version_of(ROOT)
    against = problems(
        version,
        (ROOT / "CHANGELOG.md").read_text(),
        _git("tag", "--points-at", "HEAD").split(),
        _git("status", "--porcelain"),
    )
    for one in against:
        print(f"not releasable: {one}", file=sys.stderr)
    if against:
        return 1
    for path in gathered(ROOT, Path(arguments[0])):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
