"""The limits on size and the names that the architecture sets, read from the syntax trees."""

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.sources import PRODUCT, ROOT, python_files, shown

MODULE_LINES = 450
FUNCTION_LINES = 70
NAMES_THAT_SAY_NOTHING = {"utils", "util", "helpers", "helper", "common", "base", "misc", "shared"}
PURE = (
    *("errors", "record", "core", "narrate", "events", "messages", "clusters", "jobfile"),
    *("access", "screening", "signals", "event_details"),
)
WAYS_TO_SKIP = {"skip", "skipif", "skipIf", "skipUnless", "SkipTest", "skipTest", "importorskip"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


def functions(path: Path) -> Iterator[Function]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def ways_to_skip(module: ast.Module) -> list[int]:
    """The lines on which a test could leave itself out."""
    return [
        node.lineno
        for node in ast.walk(module)
        if (isinstance(node, ast.Attribute) and node.attr in WAYS_TO_SKIP)
        or (isinstance(node, ast.ImportFrom) and {a.name for a in node.names} & WAYS_TO_SKIP)
    ]


def test_no_module_of_the_product_is_longer_than_its_limit() -> None:
    lengths = {shown(p): len(p.read_text().splitlines()) for p in python_files(*PRODUCT)}
    assert lengths, "no source was found"
    assert {p: n for p, n in lengths.items() if n > MODULE_LINES} == {}


def test_no_function_of_the_product_is_longer_than_its_limit() -> None:
    lengths = {
        f"{shown(path)}:{function.lineno} {function.name}": function.end_lineno
        - function.lineno
        + 1
        for path in python_files(*PRODUCT, "scripts")
        for function in functions(path)
        if function.end_lineno is not None
    }
    assert lengths, "no function was found"
    assert {where: n for where, n in lengths.items() if n > FUNCTION_LINES} == {}


def test_no_module_has_a_name_that_says_nothing() -> None:
    named = {
        shown(path)
        for path in python_files("shared/dispatch", "embedded", "simulator", "functions")
        if NAMES_THAT_SAY_NOTHING & {path.stem, *path.relative_to(ROOT).parts[1:-1]}
    }
    assert named == set()


def test_no_test_can_leave_itself_out() -> None:
    found = {
        f"{shown(path)}:{line}"
        for path in python_files("tests")
        for line in ways_to_skip(tree(path))
    }
    assert found == set()


@pytest.mark.parametrize(
    "source",
    [
        "@pytest.mark.skip\ndef test(): ...",
        "@pytest.mark.skipif(True, reason='')\ndef test(): ...",
        "pytest.importorskip('x')",
        "from pytest import skip",
        "raise unittest.SkipTest",
    ],
)
def test_the_look_for_skips_sees_every_way_to_skip(source: str) -> None:
    assert ways_to_skip(ast.parse(source))


def imported(path: Path) -> set[str]:
    """What a file imports, in full: ``dispatch.record.fact``, ``typing``."""
    names: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
            if node.module == "dispatch":
                names |= {f"dispatch.{alias.name}" for alias in node.names}
    return names


def test_errors_stand_on_the_standard_library_alone() -> None:
    names = {name.split(".")[0] for name in imported(ROOT / "shared/dispatch/errors.py")}
    assert names <= sys.stdlib_module_names


def test_core_stands_on_the_record_alone() -> None:
    names = set[str]().union(*(imported(p) for p in python_files("shared/dispatch/core")))
    ours = {".".join(name.split(".")[:2]) for name in names if name.startswith("dispatch.")}
    assert "dispatch.record" in ours
    assert ours <= {"dispatch.core", "dispatch.errors", "dispatch.record"}


def test_every_pure_part_that_exists_stands_in_the_pure_contract() -> None:
    package = ROOT / "shared/dispatch"
    here = {
        f"dispatch.{n}" for n in PURE if (package / n).is_dir() or (package / f"{n}.py").exists()
    }
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = (c for c in settings["contracts"] if c["id"] == "pure")
    assert here == set(contract["source_modules"])


def test_the_layer_holds_no_tests_fakes_or_simulator() -> None:
    assert {p.name for p in (ROOT / "shared").iterdir() if p.name != "__pycache__"} == {
        "dispatch",
        "requirements.txt",
    }
    strays = {p for p in python_files("shared") if p.stem.startswith(("test_", "fake", "conftest"))}
    assert strays == set()
