"""The closing line of a run tells the truth about it."""

from pathlib import Path

import pytest

from scripts.tally import main


def report(*cases: str) -> str:
    return f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>"


PASSED = report('<testcase name="a"/>', '<testcase name="b"/>')
FAILED = report('<testcase name="c"><failure/></testcase>')
ERROR = report('<testcase name="d"><error/></testcase>')
TORN = report('<testcase name="e"><failure/><error/></testcase>')
LEFT_OUT = report('<testcase name="f"><skipped/></testcase>')
NOTHING = report()


@pytest.mark.parametrize(
    ("reports", "line", "code"),
    [
        ([PASSED], "2 passed, 0 failed", 0),
        ([PASSED, PASSED], "4 passed, 0 failed", 0),
        ([PASSED, FAILED], "2 passed, 1 failed", 1),
        ([ERROR, PASSED], "2 passed, 1 failed", 1),
        ([TORN, PASSED], "2 passed, 1 failed", 1),
        ([PASSED, LEFT_OUT], "2 passed, 0 failed, 1 skipped", 0),
        ([NOTHING], "0 passed, 0 failed", 1),
        ([], "0 passed, 0 failed", 1),
    ],
)
def test_the_closing_line_sums_the_reports_and_the_exit_code_is_honest(
    reports: list[str],
    line: str,
    code: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    paths = [tmp_path / f"{n}.xml" for n in range(len(reports))]
    for path, text in zip(paths, reports, strict=True):
        path.write_text(text)
    assert main([str(path) for path in paths]) == code
    assert capsys.readouterr().out == line + "\n"


def test_a_report_that_was_never_written_is_named_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written, missing = tmp_path / "written.xml", tmp_path / "missing.xml"
    written.write_text(PASSED)
    assert main([str(written), str(missing)]) == 1
    told = capsys.readouterr()
    assert told.out == "2 passed, 0 failed\n"
    assert str(missing) in told.err
