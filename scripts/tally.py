"""Sum the JUnit reports of several test runs into one closing line.

``python scripts/tally.py REPORT...`` prints ``N passed, N failed`` (errors count as failed) and
exits with 1 when anything failed, a report is missing, or nothing ran at all.
"""

import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Tally:
    """How many tests passed, failed and were skipped."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
        )

    def __str__(self) -> str:
        line = f"{self.passed} passed, {self.failed} failed"
        return f"{line}, {self.skipped} skipped" if self.skipped else line


def read(report: Path) -> Tally:
    """The tally of one JUnit report."""
    total = Tally()
    for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314 -- as above
        outcome = {child.tag for child in case}
        if outcome & {"failure", "error"}:
            total += Tally(failed=1)
        elif "skipped" in outcome:
            total += Tally(skipped=1)
        else:
            total += Tally(passed=1)
    return total


def main(arguments: list[str]) -> int:
    """Print the closing line of these reports; 0 only where all ran and all passed."""
    total = Tally()
    complete = True
    for report in map(Path, arguments):
        if report.is_file():
            total += read(report)
        else:
            complete = False
            print(f"no report of a test run: {report}", file=sys.stderr)
    print(total)
    return 0 if complete and total.passed and not total.failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
