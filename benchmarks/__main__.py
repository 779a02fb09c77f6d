"""Measure, print one table, write JSON beside it.

`python -m benchmarks [--quick] [--only SUBJECT …] [--json PATH]`; the exit code is 1 where a part
couldn't be measured.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.figures import CannotMeasure, Effort, Figure, Told, Unmeasured

SUBJECTS = ("fold", "store", "tick", "job", "latency", "coldstart", "simulator")
APART = ("slurm",)
"""Measured when asked for by name: it needs a cluster that `make bench-slurm` starts."""

_COLOURS = {"ok": "green", "short": "bold red", "": ""}


def main() -> int:
    """Measure what is asked for."""
    asked = _arguments()
    console = Console(width=None if sys.stdout.isatty() else 160)
    told: dict[str, list[Told]] = {}
    took: dict[str, float] = {}
    for subject in asked.only or SUBJECTS:
        console.print(f"measuring: {subject} …", style="dim")
        began = perf_counter()
        told[subject] = _measured(subject, Effort(quick=asked.quick))
        took[subject] = perf_counter() - began
    console.print(_table(told))
    for line in _misses(told):
        console.print(line, highlight=False)
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    asked.json.write_text(json.dumps(_document(told, took, quick=asked.quick), indent=1) + "\n")
    console.print(f"the numbers behind them: {asked.json}")
    return 1 if any(isinstance(one, Unmeasured) for group in told.values() for one in group) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a rough look, in less time")
    parser.add_argument("--only", nargs="+", choices=SUBJECTS + APART, metavar="SUBJECT")
    parser.add_argument("--json", type=Path, default=Path("build/bench.json"))
    return parser.parse_args()


def _measured(subject: str, effort: Effort) -> list[Told]:
    """Return what one subject tells; whatever goes wrong is told too, in its place."""
    try:
        module = import_module(f"benchmarks.{subject}")
        return list(module.measure(effort))
    except CannotMeasure as error:
        return [Unmeasured(subject, str(error))]
    except Exception as error:  # noqa: BLE001 - a part that fails must not hide the others
        return [Unmeasured(subject, f"it failed: {type(error).__name__}: {error}"[:400])]


def _table(told: dict[str, list[Told]]) -> Table:
    table = Table(title="Dispatch, measured", title_justify="left")
    table.add_column("subject")
    table.add_column("what", max_width=58)
    table.add_column("beside", max_width=44)
    table.add_column("times", justify="right")
    table.add_column("aim", justify="right")
    table.add_column("")
    for subject, group in told.items():
        shown = subject
        for one in group:
            if isinstance(one, Figure):
                verdict = one.verdict
                colour = _COLOURS[verdict]
                row = (one.name, one.beside, _number(one.value), str(one.aim or ""), verdict)
                table.add_row(shown, *row, style=colour if verdict == "short" else None)
            else:
                table.add_row(shown, one.name, "", "", "", "unmeasured", style="bold red")
            shown = ""
        table.add_section()
    return table


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}" if value < 0.1 else f"{value:.2f}"


def _misses(told: dict[str, list[Told]]) -> list[str]:
    """Return a line for each figure that falls short, and for each part without one."""
    lines = []
    for group in told.values():
        for one in group:
            if isinstance(one, Unmeasured):
                lines.append(f"unmeasured: {one.name}: {one.because}")
            elif one.verdict == "short":
                lines.append(f"short: {one.name} ({_number(one.value)}, aim {one.aim}): {one.why}")
    return lines


def _document(told: dict[str, list[Told]], took: dict[str, float], *, quick: bool) -> Any:
    return {
        "machine": {
            "cores": os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
            "load": os.getloadavg(),
        },
        "quick": quick,
        "seconds": took,
        "figures": [_plain(subject, one) for subject, group in told.items() for one in group],
    }


def _plain(subject: str, one: Told) -> dict[str, Any]:
    if isinstance(one, Unmeasured):
        return {"subject": subject, "name": one.name, "unmeasured": one.because}
    return {
        "subject": subject,
        "name": one.name,
        "beside": one.beside,
        "times": one.value,
        "aim": None if one.aim is None else str(one.aim),
        "verdict": one.verdict,
        "why": one.why if one.verdict == "short" else "",
        "detail": dict(one.detail),
    }


if __name__ == "__main__":
    sys.exit(main())
