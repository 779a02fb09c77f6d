"""One lock for all requirements, in step with pyproject.toml and with what is exported from it."""

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts.requirements import closure, digest, exports, parse_lock, stamped, wanted
from tests.architecture.sources import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCK = (ROOT / "requirements.lock").read_text()
LOCKED = parse_lock(LOCK)
EXPORTS = exports(ROOT)


def asked_for() -> Iterator[Requirement]:
    for entries in wanted(PROJECT).values():
        for entry in entries:
            if canonicalize_name(Requirement(entry).name) != PROJECT["project"]["name"]:
                yield Requirement(entry)


def installed_needs(requirement: Requirement, seen: set[tuple[str, str]]) -> set[str]:
    """What an installed package needs here, extras included, by the packages' own word."""
    names: set[str] = set()
    for extra in ("", *sorted(requirement.extras)):
        name = canonicalize_name(requirement.name)
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        names.add(name)
        for entry in distribution(name).requires or ():
            needed = Requirement(entry)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                names |= installed_needs(needed, seen)
    return names


def test_the_lock_answers_to_what_pyproject_asks_for() -> None:
    assert LOCK.splitlines()[0].endswith(digest(PROJECT)), "run `make lock`"


def test_the_lock_pins_every_requirement_within_its_range() -> None:
    broken = {
        str(requirement)
        for requirement in asked_for()
        if (pin := LOCKED.get(canonicalize_name(requirement.name))) is None
        or not requirement.specifier.contains(pin.version)
    }
    assert broken == set()


def test_the_lock_pins_nothing_that_nobody_asks_for() -> None:
    roots = {canonicalize_name(requirement.name) for requirement in asked_for()}
    assert {pin.name for pin in closure(LOCKED, roots)} == set(LOCKED)


@pytest.mark.parametrize(
    "name",
    [
        "requirements.lock",
        "requirements-bench.lock",
        "requirements-browser.lock",
        "requirements-fuzz.lock",
        "requirements-ministack.lock",
        "requirements-mutation.lock",
        "requirements-runtime.lock",
        "requirements-sam.lock",
        "requirements-sbom.lock",
    ],
)
def test_every_locked_package_has_a_hash_and_no_address(name: str) -> None:
    text = (ROOT / name).read_text()
    pins = parse_lock(text)
    assert pins
    assert [p.name for p in pins.values() if "--hash=sha256:" not in "".join(p.lines)] == []
    assert re.findall(r"(?:https?|file)://|--(?:extra-)?index-url|--find-links", text) == []


@pytest.mark.parametrize("path", EXPORTS, ids=str)
def test_every_exported_file_equals_its_share_of_the_lock(path: Path) -> None:
    assert (ROOT / path).read_text() == EXPORTS[path], "run `make lock`"


def test_every_function_has_requirements_of_its_own() -> None:
    handlers = {p.parent.relative_to(ROOT) for p in ROOT.glob("functions/*/app.py")}
    assert {p / "requirements.txt" for p in handlers} <= set(EXPORTS)


@pytest.mark.parametrize(
    ("path", "table"),
    [
        ("shared/requirements.txt", "extra layer"),
        ("functions/supervisor/requirements.txt", "extra eks"),
    ],
)
def test_an_exported_file_holds_all_that_its_packages_need(path: str, table: str) -> None:
    exported = set(parse_lock((ROOT / path).read_text()))
    needed: set[str] = set()
    for entry in wanted(PROJECT)[table]:
        needed |= installed_needs(Requirement(entry), set())
    assert needed
    assert needed <= exported


def test_the_layer_and_the_worker_agree_on_every_version() -> None:
    layer = parse_lock((ROOT / "shared/requirements.txt").read_text())
    worker = parse_lock((ROOT / "functions/supervisor/requirements.txt").read_text())
    both = layer.keys() & worker.keys()
    assert "pydantic" in both
    assert {n: layer[n].version for n in both} == {n: worker[n].version for n in both}


def test_what_is_installed_here_is_what_is_locked() -> None:
    differs = {}
    for name, pin in LOCKED.items():
        try:
            installed = distribution(name).version
        except PackageNotFoundError:
            marked = ";" in pin.lines[0]
            if not marked:
                differs[name] = "missing"
            continue
        if installed != pin.version:
            differs[name] = installed
    assert differs == {}, "run `make setup`"


def test_a_change_of_any_requirement_makes_the_lock_stale() -> None:
    changed = {
        **PROJECT,
        "project": {**PROJECT["project"], "dependencies": ["pydantic>=99"]},
    }
    assert digest(changed) != digest(PROJECT)


def test_stamping_the_lock_twice_changes_nothing() -> None:
    assert stamped(stamped(LOCK, PROJECT), PROJECT) == stamped(LOCK, PROJECT) == LOCK


def test_a_line_that_is_not_pinned_is_refused() -> None:
    with pytest.raises(ValueError, match="not a pinned requirement: 'boto3>=1'"):
        parse_lock("boto3>=1\n")
