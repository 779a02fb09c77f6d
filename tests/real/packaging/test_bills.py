"""The bills of materials: valid, of exactly what is shipped, the same wherever they are written."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts.requirements import parse_lock
from scripts.sbom import SHIPPED

ROOT = Path(__file__).resolve().parents[3]
TOOLS = ROOT / ".venv-sbom" / "bin"
VALIDATE = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
for name in sys.argv[1:]:
    found = JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(name).read())
    if found:
        sys.exit(f"{name}: {found}")
"""


def written(target: Path) -> dict[str, Path]:
    if not (TOOLS / "cyclonedx-py").is_file():
        pytest.fail(f"there is no {TOOLS}/cyclonedx-py: run `make env-sbom`")
    command = [sys.executable, "-m", "scripts.sbom", str(TOOLS / "cyclonedx-py"), str(target)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {name: target / f"dispatch-{name}.cdx.json" for name in SHIPPED}


@pytest.fixture(scope="module")
def bills(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return written(tmp_path_factory.mktemp("bills"))


def bill(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(path.read_text())
    return loaded


def packages(path: Path) -> dict[str, str]:
    return {one["name"]: one["version"] for one in bill(path)["components"]}


def pinned(*paths: str) -> dict[str, str]:
    return {
        pin.name: pin.version
        for path in paths
        for pin in parse_lock((ROOT / path).read_text()).values()
    }


def test_every_bill_is_valid(bills: dict[str, Path]) -> None:
    names = [str(path) for path in bills.values()]
    done = subprocess.run(
        [TOOLS / "python", "-c", VALIDATE, *names], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_bill_names_exactly_what_is_shipped(bills: dict[str, Path]) -> None:
    layer, worker = "shared/requirements.txt", "functions/supervisor/requirements.txt"
    assert packages(bills["layer"]) == pinned(layer)
    assert packages(bills["functions"]) == pinned(layer, worker)
    command = packages(bills["command"])
    assert {"httpx", "pydantic", "typer"} <= command.keys()
    assert not {"boto3", "kubernetes"} & command.keys()
    assert command.items() <= pinned("requirements.lock").items()


def test_every_package_has_its_hashes_and_says_what_it_needs(bills: dict[str, Path]) -> None:
    for path in bills.values():
        told = bill(path)
        assert told["metadata"]["component"]["name"] == "dispatch-record"
        for one in told["components"]:
            assert one["purl"].startswith("pkg:pypi/")
            (distribution,) = one["externalReferences"]
            assert {each["alg"] for each in distribution["hashes"]} == {"SHA-256"}
        needs = {one["ref"]: one.get("dependsOn", []) for one in told["dependencies"]}
        reached, new = set(), {told["metadata"]["component"]["bom-ref"]}
        while new:
            reached |= new
            new = {ref for one in new for ref in needs[one]} - reached
        assert {one["bom-ref"] for one in told["components"]} <= reached


def test_they_are_the_same_wherever_they_are_written(
    bills: dict[str, Path], tmp_path: Path
) -> None:
    for name, path in written(tmp_path).items():
        assert path.read_bytes() == bills[name].read_bytes()
