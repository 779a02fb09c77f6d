"""What is said of files: verify, next, schema, explain, discover, history and why."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dispatch.cli.discovery import parse_found, text_of_found
from dispatch.errors import InvalidRequest
from dispatch.record.evidence import Found
from dispatch.record.export import export_text
from dispatch.record.names import ObjectState
from tests.cli.conftest import Shell
from tests.narrate.stories import STORIES
from tests.narrate.written import JOB, Written, at, given_up, preempted_and_recovered

Line = dict[str, Any]


def lines_of(text: str) -> list[Line]:
    return [json.loads(line) for line in text.splitlines()]


def text_from(lines: list[Line]) -> str:
    return "".join(json.dumps(line) + "\n" for line in lines)


GOOD = export_text(preempted_and_recovered().view)


def body(number: int, **fields: Any) -> Callable[[list[Line]], None]:
    """Change fields of an entry's body; None removes one."""

    def change(lines: list[Line]) -> None:
        for name, value in fields.items():
            if value is None:
                del lines[number]["body"][name]
            else:
                lines[number]["body"][name] = value

    return change


def swap(one: int, other: int) -> Callable[[list[Line]], None]:
    def change(lines: list[Line]) -> None:
        lines[one], lines[other] = lines[other], lines[one]

    return change


def drop(number: int) -> Callable[[list[Line]], None]:
    return lambda lines: lines.__delitem__(number)


def repeat(number: int, *, last: bool = False) -> Callable[[list[Line]], None]:
    def change(lines: list[Line]) -> None:
        lines.insert(len(lines) if last else number + 1, lines[number])

    return change


def add(**fields: Any) -> Callable[[list[Line]], None]:
    def change(lines: list[Line]) -> None:
        stated = {"at": "2026-03-05T09:02:00.000000Z", "by": "supervisor", **fields}
        lines.append({"schema": "dispatch.fact.v1", "token": "x", "body": stated})

    return change


def schema(number: int, name: str) -> Callable[[list[Line]], None]:
    return lambda lines: lines[number].__setitem__("schema", name)


def spec_name(lines: list[Line]) -> None:
    lines[0]["body"]["spec"]["name"] = "another"


def first(count: int, then: Callable[[list[Line]], None]) -> Callable[[list[Line]], None]:
    """Cut the history before it is changed."""

    def change(lines: list[Line]) -> None:
        del lines[count + 1 :]
        then(lines)

    return change


BROKEN: dict[str, tuple[Callable[[list[Line]], None], int, str]] = {
    "an unknown schema": (schema(3, "dispatch.fact.v2"), 3, "unknown_schema"),
    "a fact as an intent": (schema(3, "dispatch.control.v1"), 3, "missing_field"),
    "an unknown header": (schema(0, "dispatch.header.v2"), 0, "unknown_schema"),
    "another spec": (spec_name, 0, "digest_mismatch"),
    "an unknown field": (body(2, mood="good"), 2, "unknown_field"),
    "an unknown field of the header": (body(0, mood="good"), 0, "unknown_field"),
    "a missing field": (body(2, deadline=None), 2, "missing_field"),
    "an unknown fact": (body(4, fact="guessed"), 4, "unknown_name"),
    "an unknown cause": (body(8, cause="tired"), 8, "unknown_name"),
    "a naive time": (body(2, at="2026-03-05T09:00:02"), 2, "time_naive"),
    "another zone": (body(2, at="2026-03-05T09:00:02+01:00"), 2, "time_not_utc"),
    "no time": (body(2, at="yesterday"), 2, "time_malformed"),
    "a number as text": (body(2, n="1"), 2, "wrong_type"),
    "half a number": (body(2, n=1.5), 2, "wrong_type"),
    "two swapped entries": (swap(2, 3), 2, "unknown_attempt"),
    "a decision too early": (swap(7, 8), 7, "submission_open"),
    "a lost attempt": (drop(2), 2, "unknown_attempt"),
    "a lost authorization": (drop(1), 1, "not_latest_submission"),
    "an authorization twice": (repeat(1), 2, "not_next_submission"),
    "a skipped submission": (body(8, n=3), 8, "not_next_submission"),
    "a trigger twice": (body(8, trigger="initial"), 8, "initial_misplaced"),
    "an attempt twice": (repeat(2), 3, "not_next_attempt"),
    "a deadline before its call": (body(2, deadline="2026-03-05T09:00:01Z"), 2, "deadline_past"),
    "a second canonical": (repeat(4), 5, "second_canonical"),
    "a second release": (repeat(5), 6, "released_twice"),
    "an object nobody started": (body(4, ref="local/x/1"), 4, "unknown_object"),
    "a second outcome": (repeat(15), 16, "second_outcome"),
    "a cancelled outcome by fact": (body(15, state="cancelled"), 15, "cancelled_by_fact"),
    "a success that never was": (drop(14), 14, "not_succeeded"),
    "a settling too early": (body(16, taken_at="2026-03-05T09:00:39Z"), 16, "not_settled"),
    "a fact after settled": (repeat(15, last=True), 17, "after_settled"),
    "a retired canonical": (
        first(6, add(fact="retired", ref=Written().ref(), reason="x")),
        7,
        "object_canonical",
    ),
    "an unmatched that started": (
        first(6, add(fact="unmatched", n=1, a=1, taken_at="2026-03-05T09:01:00Z")),
        7,
        "attempt_not_unknown",
    ),
    "a line that isn't an entry": (lambda lines: lines[3].pop("token"), 3, "missing_field"),
    "a line with more": (lambda lines: lines[3].update(mood="good"), 3, "unknown_field"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_verify_names_the_entry_and_the_rule_of_a_hand_broken_export(
    name: str, shell: Shell
) -> None:
    change, entry, rule = BROKEN[name]
    lines = lines_of(GOOD)
    change(lines)
    file = shell.file("broken.jsonl", text_from(lines))
    done = shell("verify", file, "--json")
    assert done.exit_code == 1, done.stdout
    told = json.loads(done.stdout)
    assert told["folds"] is False
    assert (told["refusal"]["entry"], told["refusal"]["rule"]) == (entry, rule)
    said = shell("verify", file)
    assert said.exit_code == 1
    assert told["refusal"]["rule"] in said.stdout
    assert told["refusal"]["detail"] in said.stdout


@pytest.mark.parametrize(
    ("change", "entry", "rule"),
    [
        (lambda text: text.replace('"n":1,', '"n":1,"n":1,', 1), 1, "duplicate_key"),
        (lambda text: text.replace('"n":1,', '"n":NaN,', 1), 1, "not_finite"),
        (lambda text: text.replace("}\n", "} x\n", 2), 0, "trailing_data"),
        (lambda text: text[: len(text) // 2], None, None),
        (lambda text: text.replace("\n", "\n\n", 1), 1, "empty_line"),
        (lambda _: "", 0, "missing_header"),
        (lambda _: "no export\n", 0, "malformed_json"),
        (lambda _: "[]\n", 0, "wrong_type"),
    ],
)
def test_verify_refuses_what_isn_t_an_export_s_text(
    change: Callable[[str], str], entry: int | None, rule: str | None, shell: Shell
) -> None:
    done = shell("verify", shell.file("broken.jsonl", change(GOOD)), "--json")
    assert done.exit_code == 1
    refusal = json.loads(done.stdout)["refusal"]
    assert entry is None or (refusal["entry"], refusal["rule"]) == (entry, rule)


def test_verify_tells_the_job_of_a_good_export(shell: Shell) -> None:
    done = shell("verify", shell.file("good.jsonl", GOOD))
    assert done.exit_code == 0
    assert "folds: 16 entries" in done.stdout
    assert f"{JOB} “train” on local: succeeded, settled" in done.stdout
    assert shell("verify", "-", text=GOOD).exit_code == 0


@pytest.mark.parametrize(
    "env",
    [
        {"TZ": "Asia/Kathmandu", "LC_ALL": "C", "PYTHONHASHSEED": "1"},
        {"TZ": "America/New_York", "LANG": "tr_TR.UTF-8", "PYTHONHASHSEED": "2"},
    ],
)
def test_an_export_folds_to_the_same_job_on_any_machine(
    env: dict[str, str], tmp_path: Path, shell: Shell
) -> None:
    text = export_text(given_up().view)
    file = tmp_path / "export.jsonl"
    file.write_text(text, encoding="utf-8")
    here = json.loads(shell("verify", str(file), "--json").stdout)
    done = subprocess.run(
        [sys.executable, "-m", "dispatch.cli", "verify", str(file), "--json"],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        check=True,
    )
    there = json.loads(done.stdout)
    for told in (here, there):
        told["status"].pop("waiting_for")
    assert there == here


@pytest.mark.parametrize("name", STORIES)
def test_every_story_is_told_from_its_export_alone(name: str, shell: Shell) -> None:
    view, _ = STORIES[name]
    file = shell.file("export.jsonl", export_text(view()))
    folds = shell("verify", file).exit_code
    told = shell("why", file, "--utc")
    assert told.exit_code == folds
    assert JOB in told.stdout
    table = shell("history", file)
    assert table.exit_code == folds
    lines = shell("history", file, "--json").stdout.splitlines()
    assert len(lines) == view().revision + 1
    assert json.loads(shell("why", file, "--json").stdout)["foldable"] is (folds == 0)


def test_a_file_that_can_t_be_read_is_said_and_nothing_more(shell: Shell) -> None:
    done = shell("verify", str(shell.folder / "nothing.jsonl"))
    assert done.exit_code == 1
    assert "nothing.jsonl: no such file or directory" in done.stderr
    assert "next: see that the path is right" in done.stderr
    (shell.folder / "bytes.jsonl").write_bytes(b"\xff\xfe")
    assert "isn't UTF-8" in shell("verify", str(shell.folder / "bytes.jsonl")).stderr


# --- next -------------------------------------------------------------------------------------


def looked(seconds: float, *seen: Any, cluster: str = "local", complete: bool = True) -> str:
    found = Found(
        cluster=cluster,
        identity="local:1",
        taken_at=at(seconds),
        seen_at=at(seconds + 0.5),
        complete=complete,
        by_job={JOB: seen} if seen else {},
        error=None if complete else "page 2 didn't come",
    )
    return text_of_found(found)


def test_next_says_what_would_happen_and_why(shell: Shell) -> None:
    w = Written().authorized(1).runs(2)
    record = shell.file("job.jsonl", export_text(w.view))
    seen = w.sighting(ObjectState.SUCCEEDED, exit_code=0, ended_at=at(30))
    discovery = shell.file("found.json", looked(31, seen))
    done = shell("next", record, "-d", discovery, "--now", "2026-03-05T09:00:32Z", "--utc")
    assert done.exit_code == 0, done.stderr
    assert "commit observed" in done.stdout
    told = shell("next", record, "-d", discovery, "--now", "2026-03-05T09:00:32Z", "--json")
    (step,) = json.loads(told.stdout)["steps"]
    assert (step["row"], step["facts"][0]["fact"]) == ("1", "observed")


def test_next_starts_nothing_on_a_look_that_is_incomplete(shell: Shell) -> None:
    """F06."""
    record = shell.file("job.jsonl", export_text(Written().authorized(1).view))
    ask = ["--now", "2026-03-05T09:00:32Z", "--json"]
    whole = shell.file("whole.json", looked(31))
    done = json.loads(shell("next", record, "-d", whole, *ask).stdout)
    assert [one["kind"] for one in done["steps"]] == ["start"]
    part = shell.file("part.json", looked(31, complete=False))
    done = json.loads(shell("next", record, "-d", part, *ask).stdout)
    assert done["steps"] == []
    assert done["waiting"][0]["detail"] == "page 2 didn't come"


def test_next_refuses_what_it_can_t_judge(shell: Shell) -> None:
    record = shell.file("job.jsonl", GOOD)
    other = shell.file("other.json", looked(31, cluster="elsewhere"))
    now = ["--now", "2026-03-05T09:00:32Z"]
    assert "shows elsewhere" in shell("next", record, "-d", other, *now).stderr
    good = shell.file("good.json", looked(31))
    assert shell("next", record, "-d", good, "--now", "noon").exit_code == 1
    assert shell("next", record, "-d", good, "--now", "2026-03-05T09:00:32").exit_code == 1
    torn = shell.file("torn.json", looked(31)[:-20])
    assert shell("next", record, "-d", torn, *now).exit_code == 1
    assert shell("next", record, *now).exit_code == 2


def test_a_discovery_file_says_what_the_look_said() -> None:
    w = Written()
    seen = w.sighting(ObjectState.RUNNING, nodes=("n0",), started_at=at(3))
    text = looked(5, seen, complete=False)
    found = parse_found(text, name="x")
    assert found.by_job == {JOB: (seen,)}
    assert text_of_found(found) == text
    with pytest.raises(InvalidRequest, match="unknown"):
        parse_found(text.replace("discovery.v1", "discovery.v2"), name="x")


# --- clusters, discover -----------------------------------------------------------------------


def local_cluster(shell: Shell) -> str:
    spool = str(shell.folder / "spool")
    one = {"name": "here", "adapter": "local", "settings": {"spool": spool}}
    return json.dumps({"schema": "dispatch.clusters.v1", "clusters": [one]})


def test_discover_takes_one_look_as_a_file(shell: Shell) -> None:
    file = str(shell.folder / "found.json")
    done = shell("discover", "here", "--clusters", local_cluster(shell), "-o", file)
    assert done.exit_code == 0, done.stderr
    assert "objects of 0 jobs, complete" in done.stderr
    found = parse_found(Path(file).read_text(), name=file)
    assert found.cluster == "here"
    assert found.complete
    assert datetime.now(UTC) >= found.seen_at >= found.taken_at


def test_check_tries_a_cluster_and_says_what_was_seen(shell: Shell) -> None:
    done = shell("clusters", "check", "here", "--clusters", local_cluster(shell))
    assert done.exit_code == 0
    assert "ok" in done.stdout
    missing = shell("clusters", "check", "there", "--clusters", local_cluster(shell))
    assert missing.exit_code == 3
    assert "there are: here" in missing.stderr
    assert shell("discover", "here").exit_code == 5


def test_without_a_document_the_clusters_are_those_of_the_stack_here(shell: Shell) -> None:
    (shell.folder / "state" / "local").mkdir(parents=True)
    done = shell("discover", "local")
    assert done.exit_code == 0, done.stderr
    assert parse_found(done.stdout, name="x").cluster == "local"
    (shell.folder / "state" / "clusters.json").write_text(local_cluster(shell))
    assert shell("discover", "local").exit_code == 3
    assert shell("clusters", "check", "here").exit_code == 0


def test_the_clusters_are_listed_with_how_they_are_looked_after(shell: Shell) -> None:
    assert "never" in shell("clusters", "list").stdout
    shell.tick()
    assert "supervisor-test" in shell("clusters", "list").stdout
    names = [
        json.loads(line)["name"] for line in shell("clusters", "list", "--json").stdout.splitlines()
    ]
    assert names == ["main", "wide"]


# --- schema, explain --------------------------------------------------------------------------


def test_the_schemas_are_printed_alone_and_together(shell: Shell) -> None:
    together = json.loads(shell("schema").stdout)
    assert set(together) == {"job-file", "header", "control", "fact", "discovery"}
    for name, one in together.items():
        assert json.loads(shell("schema", name).stdout) == one
    assert {"name", "command", "cluster", "plan"} <= set(together["job-file"]["properties"])
    assert together["job-file"]["additionalProperties"] is False
    assert len(together["fact"]["anyOf"]) == 15


def test_explain_says_what_a_scheduler_s_answer_is_worth(shell: Shell) -> None:
    reply = {
        "request": {"method": "GET", "path": "/slurm/v0.0.43/job/42"},
        "status": 404,
        "body": {"errors": [{"error_number": 2017, "error": "Invalid job id specified"}]},
    }
    file = shell.file("reply.json", json.dumps(reply))
    done = shell("explain", "-a", "slurm", file)
    assert done.exit_code == 0, done.stderr
    assert "not_known" in done.stdout
    missing = {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}
    done = shell("explain", "-a", "eks", "-", "--json", text=json.dumps(missing))
    assert done.exit_code == 0
    assert isinstance(json.loads(done.stdout), dict)
    assert shell("explain", "-a", "slurm", shell.file("x.json", "[1, 2")).exit_code == 1
    assert shell("explain", file).exit_code == 2


@pytest.mark.parametrize("verb", ["why", "history"])
def test_a_job_file_isn_t_taken_for_a_record_that_is_broken(shell: Shell, verb: str) -> None:
    done = shell(verb, shell.file("job.yaml", "name: train\n"))
    assert done.exit_code == 1
    assert "job.yaml: it is no exported record" in done.stderr
    assert "next: `dispatch export JOB -o FILE` writes one" in done.stderr
