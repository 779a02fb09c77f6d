"""What stands against a release is said, and what is released is summed."""

from hashlib import sha256
from pathlib import Path

import pytest

from scripts.release import SUMS, gathered, problems, version_of
from tests.architecture.sources import ROOT

CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2027-01-31\n"


def test_a_tagged_clean_tree_with_a_heading_may_be_released() -> None:
    assert problems("1.2.3", CHANGELOG, ["v1.2.3"], "") == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": "1.2"}, "form"),
        ({"version": "1.2.4", "tags": ["v1.2.4"]}, "heading"),
        ({"changelog": CHANGELOG.replace(" - 2027-01-31", "")}, "heading"),
        ({"changelog": CHANGELOG.replace("1.2.3", "1x2x3")}, "heading"),
        ({"tags": ["1.2.3", "v1.2.30"]}, "tagged"),
        ({"changed": " M README.md\n"}, "committed"),
    ],
)
def test_each_thing_against_it_is_said(change: dict[str, object], said: str) -> None:
    asked: dict[str, object] = {
        "version": "1.2.3",
        "changelog": CHANGELOG,
        "tags": ["v1.2.3"],
        "changed": "",
    }
    found = problems(**(asked | change))  # type: ignore[arg-type]
    assert any(said in one for one in found), found


def test_the_version_is_said_in_one_place_only() -> None:
    version = version_of(ROOT)
    said = [
        path
        for folder in ("shared", "functions", "embedded", "simulator", "infra", "scripts")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".yaml", ".json") and f'"{version}"' in path.read_text()
    ]
    assert said == []


def tree(place: Path, *names: str) -> Path:
    (place / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    for name in names:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(name)
    return place


def test_everything_is_gathered_with_its_sum(tmp_path: Path) -> None:
    wheel = "build/dist/dispatch_record-1.2.3-py3-none-any.whl"
    sdist = "build/dist/dispatch_record-1.2.3.tar.gz"
    bill = "build/sbom/dispatch-layer.cdx.json"
    root = tree(tmp_path, wheel, sdist, bill, "build/dist/dispatch_record-1.2.2.tar.gz")
    gathered(root, root / "build" / "release")
    gathered(root, root / "build" / "release")
    names = sorted(one.name for one in (root / "build" / "release").iterdir())
    assert names == sorted([SUMS, *(Path(one).name for one in (wheel, sdist, bill))])
    sums = (root / "build" / "release" / SUMS).read_text().splitlines()
    assert f"{sha256(bill.encode()).hexdigest()}  dispatch-layer.cdx.json" in sums
    assert len(sums) == 3


def test_a_part_that_was_not_built_is_said(tmp_path: Path) -> None:
    root = tree(tmp_path, "build/dist/dispatch_record-1.2.3.tar.gz")
    with pytest.raises(FileNotFoundError, match="whl"):
        gathered(root, root / "out")
