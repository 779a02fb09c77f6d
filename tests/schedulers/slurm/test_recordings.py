"""Every recorded reply of a real slurmrestd is read for what it is worth."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from dispatch.errors import InvalidRequest
from dispatch.schedulers.slurm.explain import Explanation, explain
from tests.schedulers.slurm.fake import RECORDINGS

HERE = Path(__file__).parent


def expected() -> list[dict[str, str]]:
    with (HERE / "expectations.tsv").open() as file:
        return list(csv.DictReader(file, delimiter="\t"))


def shown(one: Explanation) -> dict[str, str]:
    """Return an explanation as the table writes it."""

    def text(value: Any) -> str:
        return "-" if value is None or value == "" else str(value)

    return {
        "kind": one.kind.value,
        "state": text(one.state and one.state.value),
        "cause": text(one.cause and one.cause.value),
        "held": "-" if one.held is None else ("yes" if one.held else "no"),
        "holder": text(one.holder),
        "runs": text(one.runs),
        "exit_code": text(one.exit_code),
        "signal": text(one.signal),
        "lost": "yes" if one.lost else "-",
        "about": text(one.about),
    }


@pytest.mark.parametrize("row", expected(), ids=lambda row: row["file"])
def test_a_recorded_reply_is_worth_what_the_table_says(row: dict[str, str]) -> None:
    document = json.loads((RECORDINGS / row["file"]).read_text())
    assert {"file": row["file"], **shown(explain(document))} == row


def test_every_recording_stands_in_the_table() -> None:
    files = {str(path.relative_to(RECORDINGS)) for path in RECORDINGS.glob("*/*.json")}
    assert files == {row["file"] for row in expected()}


@pytest.mark.parametrize("row", expected(), ids=lambda row: row["file"])
def test_a_reply_that_lost_its_body_is_never_an_answer(row: dict[str, str]) -> None:
    """F06: the same status with an empty body, a page of HTML or half the JSON says nothing."""
    document = json.loads((RECORDINGS / row["file"]).read_text())
    half = json.dumps(document["body"])[: len(json.dumps(document["body"])) // 2]
    bodies: list[Any] = ["", "<html><body>Bad gateway</body></html>", half, None, [], 7]
    for body in bodies:
        got = explain({**document, "body": body})
        assert got.kind.value in ("unknown", "credentials", "wrong_version")
        assert got.state is None


def test_a_document_that_is_no_recording_is_refused_by_its_field() -> None:
    with pytest.raises(InvalidRequest, match="request"):
        explain({"status": 200, "body": {}})
    with pytest.raises(InvalidRequest, match="status"):
        explain({"request": {"method": "GET", "path": "/slurm/v0.0.42/jobs/"}, "body": {}})


def test_a_body_kept_as_text_is_read_like_one_kept_as_json() -> None:
    document = json.loads((RECORDINGS / "v0.0.42/timeout.json").read_text())
    as_text = {**document, "body": json.dumps(document["body"])}
    assert explain(as_text) == explain(document)


def test_a_version_that_is_not_read_is_told_from_the_body_too() -> None:
    document = json.loads((RECORDINGS / "v0.0.38/list-jobs.json").read_text())
    document["request"]["path"] = "/somewhere/else"
    assert explain(document).kind.value == "wrong_version"
