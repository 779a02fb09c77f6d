"""`make mutation`: change core one word at a time, and see that an example-based test notices.

mutmut makes the changes and runs, for each, the tests of `tests/core` that come by that function.
It works on a copy: there `@property` is written as a call below its method, because it leaves
decorated functions alone. Results are kept between runs; what was found in a function that hasn't
changed since isn't tried again unless nothing had noticed it.

    python scripts/mutation.py [--minutes 60] [--children 2] [--only next.py] [--report]
"""

from __future__ import annotations

import ast
import difflib
import json
import re
import signal
import subprocess
import sys
import tomllib
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
REPORT = ROOT / "docs" / "reference" / "mutation.md"
REASONS = ROOT / "tests" / "core" / "equivalent.toml"

CONFIGURATION = """\
[tool.mutmut]
source_paths = ["src/"]
only_mutate = ["src/dispatch/core/*"]
pytest_add_cli_args_test_selection = ["tests/core"]
pytest_add_cli_args = [{deselected}]
use_git_change_detection = false

[tool.pytest.ini_options]
addopts = ["--import-mode=importlib", "-q", "-p", "no:cacheprovider"]
pythonpath = ["src", "."]
"""

DESELECTED = (
    "--ignore=tests/core/test_properties.py",
    "--ignore=tests/core/test_explanation.py",
    "--deselect=tests/core/test_fold.py::test_the_fold_of_1000_entries_is_linear",
    "--deselect=tests/core/test_refusals.py"
    "::test_no_refusal_stands_in_the_source_without_a_history",
)
"""What isn't an example (chance), is slow, or reads core's source instead of running it."""

NOTICED, SURVIVED, UNTRIED, UNREACHED = "noticed", "survived", "not tried", "no test"
_STATES = {0: SURVIVED, 33: UNREACHED, None: UNTRIED}


@dataclass(frozen=True, slots=True)
class Change:
    """One change of core.

    Attributes:
        function: Module and function.
        state: What became of it.
        was: The lines that were changed.
        now: What stood there instead.
    """

    function: str
    state: str
    was: tuple[str, ...] = ()
    now: tuple[str, ...] = ()


# --- the copy -------------------------------------------------------------------------------------


def prepare(tree: Path) -> None:
    """Copy what is changed and what notices it; a file that is the same keeps its time."""
    for source, place in (("shared/dispatch", "src/dispatch"), ("tests/core", "tests/core")):
        kept = set()
        for path in sorted((ROOT / source).rglob("*")):
            if not path.is_file() or "__pycache__" in path.parts:
                continue
            target = tree / place / path.relative_to(ROOT / source)
            kept.add(target)
            content = path.read_bytes()
            if path.suffix == ".py" and "core" in path.parts and source.startswith("shared"):
                content = without_property(content.decode()).encode()
            if _write(target, content) and place == "tests/core":
                # Which tests come by which function is asked anew only if it isn't there.
                (tree / "mutants" / "mutmut-stats.json").unlink(missing_ok=True)
        for stale in (tree / place).rglob("*"):
            if stale.is_file() and stale not in kept and "__pycache__" not in stale.parts:
                stale.unlink()
    _write(tree / "tests" / "conftest.py", (ROOT / "tests" / "conftest.py").read_bytes())
    deselected = ", ".join(f'"{one}"' for one in DESELECTED)
    _write(tree / "pyproject.toml", CONFIGURATION.format(deselected=deselected).encode())


def _write(path: Path, content: bytes) -> bool:
    """Write a file unless it is the same; return whether it was written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.read_bytes() == content:
        return False
    path.write_bytes(content)
    return True


def without_property(source: str) -> str:
    """Return a module in which `name = property(name)` stands for each `@property`."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef) or node.end_lineno is None:
            continue
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Name) and decorator.id == "property":
                indent = " " * node.col_offset
                lines[decorator.lineno - 1] = ""
                lines[node.end_lineno - 1] += f"\n\n{indent}{node.name} = property({node.name})\n"
    return "\n".join(lines) + "\n"


# --- the run --------------------------------------------------------------------------------------


def again(tree: Path) -> None:
    """Let what nothing noticed be tried again: there may be a test for it now."""
    for path in _results(tree):
        result = json.loads(path.read_text())
        codes = result["exit_code_by_key"]
        for name, code in codes.items():
            codes[name] = None if _STATES.get(code) else code
        path.write_text(json.dumps(result, indent=4))


def run(tree: Path, arguments: Namespace) -> None:
    """Run mutmut for so many minutes at most."""
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", str(arguments.children)]
    if arguments.only:
        command.append(f"dispatch.core.{Path(arguments.only).stem}.*")
    log = (tree / "mutmut.log").open("w")
    with log, subprocess.Popen(command, cwd=tree, stdout=log, stderr=log) as child:
        try:
            child.wait(arguments.minutes * 60)
        except subprocess.TimeoutExpired:
            print(f"{arguments.minutes} minutes are over; what is left isn't tried")
            child.send_signal(signal.SIGINT)


def _results(tree: Path) -> list[Path]:
    return sorted((tree / "mutants" / "src" / "dispatch" / "core").glob("*.meta"))


def changes(tree: Path) -> Iterator[Change]:
    """Yield every change and what became of it."""
    for path in _results(tree):
        codes = json.loads(path.read_text())["exit_code_by_key"]
        source = path.with_suffix("").read_text()
        bodies = _bodies(source)
        for name, code in codes.items():
            module, mangled = name.removeprefix("dispatch.core.").rsplit(".", 1)
            function = mangled.rsplit("__mutmut_", 1)[0]
            shown = f"{module}.{re.sub('^xǁ|^x_', '', function).replace('ǁ', '.')}"
            state = _STATES.get(code, NOTICED)
            was, now = _difference(bodies[f"{function}__mutmut_orig"], bodies[mangled])
            yield Change(shown, state, was, now)


def _bodies(source: str) -> dict[str, list[str]]:
    lines = source.splitlines()
    return {
        node.name: [
            line.strip().replace(node.name, "...")
            for line in lines[node.lineno - 1 : node.end_lineno]
        ]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and "__mutmut_" in node.name
    }


def _difference(before: list[str], after: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    lines = list(difflib.ndiff(before, after))
    was = tuple(line[2:] for line in lines if line.startswith("- "))
    now = tuple(line[2:] for line in lines if line.startswith("+ "))
    return was, now


# --- the report -----------------------------------------------------------------------------------


def reason_for(change: Change, reasons: list[dict[str, Any]]) -> str | None:
    """Return why a change that nothing notices is no fault, if somebody has said so."""
    was, now = " ".join(change.was), " ".join(change.now)
    for reason in reasons:
        if not re.fullmatch(reason.get("function", ".*"), change.function):
            continue
        if re.search(reason.get("was", ""), was) and re.search(reason.get("now", ""), now):
            return str(reason["why"])
    return None


def report(tree: Path) -> int:
    """Write the report; return how many changes nothing notices and nobody explained."""
    found = list(changes(tree))
    reasons = tomllib.loads(REASONS.read_text())["equivalent"]
    by_module = Counter((one.function.split(".")[0], one.state) for one in found)
    explained: dict[str, list[Change]] = {}
    unexplained = []
    for one in found:
        if one.state not in (SURVIVED, UNREACHED):
            continue
        why = reason_for(one, reasons)
        if why is None:
            unexplained.append(one)
        else:
            explained.setdefault(why, []).append(one)
    lines = [*_HEAD, "| module | changes | noticed | not noticed | not tried |"]
    lines.append("|---|---:|---:|---:|---:|")
    for module in sorted({module for module, _ in by_module}):
        lines.append(_row(module, [by_module[module, state] for state in _COLUMNS]))
    every = Counter(one.state for one in found)
    lines.append(_row("**all**", [every[state] for state in _COLUMNS]))
    if every[UNTRIED]:
        lines += ["", f"{every[UNTRIED]:,} weren't reached in the time; the command goes on there."]
    lines += ["", "## Not noticed, and no fault", ""]
    for why in sorted(explained):
        lines += [f"{why}", "", "```text", *_told(explained[why]), "```", ""]
    if unexplained:
        lines += [
            "## Not noticed, and not explained",
            "",
            "```text",
            *_told(unexplained),
            "```",
            "",
        ]
    REPORT.write_text("\n".join(lines).rstrip() + "\n")
    print(f"{len(found):,} changes: {every[NOTICED]:,} noticed, {every[UNTRIED]:,} not tried, ")
    print(f"{sum(map(len, explained.values()))} explained, {len(unexplained)} not explained")
    print(f"written: {REPORT.relative_to(ROOT)}")
    return len(unexplained)


_COLUMNS = (NOTICED, SURVIVED, UNREACHED, UNTRIED)


def _row(name: str, counts: list[int]) -> str:
    noticed, survived, unreached, untried = counts
    return f"| {name} | {sum(counts):,} | {noticed:,} | {survived + unreached:,} | {untried:,} |"


def _told(found: list[Change]) -> Iterator[str]:
    for one in found:
        yield f"{one.function}"
        yield from (f"  - {line}" for line in one.was)
        yield from (f"  + {line}" for line in one.now)


_HEAD = (
    "# Mutation of core",
    "",
    "`make mutation` changes `shared/dispatch/core` one word at a time (a comparison, a number, an",
    "argument, a string, a condition's end, a case) and runs those example-based tests of",
    "`tests/core` that come by that function. What no test notices is listed here with the reason",
    "why it is no fault; without a reason the command fails. `scripts/mutation.py` writes this",
    "page from the tool's results and from `tests/core/equivalent.toml`.",
    "",
    "Not changed: constants of modules, the classes of values, `len` and `isinstance`.",
    "",
)


def main() -> int:
    """Run it, and report."""
    parser = ArgumentParser(prog="make mutation", description="Change core, and see who notices.")
    parser.add_argument("--minutes", type=float, default=60, help="at most (default 60)")
    parser.add_argument("--children", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--only", help="one module of core, such as next.py")
    parser.add_argument("--tree", type=Path, default=ROOT / "build" / "mutation", help="the copy")
    parser.add_argument("--report", action="store_true", help="only write the report")
    arguments = parser.parse_args()
    if not arguments.report:
        prepare(arguments.tree)
        again(arguments.tree)
        run(arguments.tree, arguments)
    return 1 if report(arguments.tree) else 0


if __name__ == "__main__":
    sys.exit(main())
