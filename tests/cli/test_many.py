"""Intents for many jobs, chosen by what they are: shown before, told of one by one."""

from __future__ import annotations

import json

import httpx
import pytest

from dispatch.record.names import ObjectState
from tests.cli.conftest import Shell
from tests.cli.test_jobs import submitted
from tests.client.network import Handlers, Scripted


def three(shell: Shell) -> tuple[str, str, str]:
    """Two jobs of one team, and one of another."""
    return (
        submitted(shell, "-l", "team=a", "--name", "one"),
        submitted(shell, "-l", "team=a", "-l", "kind=long", "--name", "two"),
        submitted(shell, "-l", "team=b", "--name", "three"),
    )


def outcomes(shell: Shell, *jobs: str) -> list[str | None]:
    return [json.loads(shell("status", one, "--json").stdout).get("outcome") for one in jobs]


def test_a_preview_shows_exactly_the_jobs_that_are_meant_and_sends_nothing(shell: Shell) -> None:
    one, two, other = three(shell)
    done = shell("cancel", "--label", "team=a", "--preview")
    assert done.exit_code == 0
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == [one, two]
    assert "cancel is meant for these 2; nothing was sent" in done.stderr
    told = [
        json.loads(line)["job_id"]
        for line in shell("cancel", "-l", "team=b", "--preview", "--json").stdout.splitlines()
    ]
    assert told == [other]
    assert outcomes(shell, one, two, other) == [None] * 3


def test_yes_sends_it_to_all_that_were_shown_and_to_no_other(shell: Shell) -> None:
    one, two, other = three(shell)
    done = shell("cancel", "--label", "team=a", "--yes")
    assert done.exit_code == 0
    assert "2 of 2 were told" in done.stderr
    assert outcomes(shell, one, two, other) == ["cancelled", "cancelled", None]


def test_without_a_word_nothing_is_sent(shell: Shell) -> None:
    one, *_ = three(shell)
    done = shell("cancel", "--label", "team=a")
    assert done.exit_code == 2
    assert "--preview shows which jobs are meant" in done.stderr
    assert outcomes(shell, one) == [None]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["-l", "team=a", "-l", "kind=long"], {"two"}),
        (["--name", "three"], {"three"}),
        (["--cluster", "main"], {"one", "two", "three"}),
        (["--cluster", "wide"], set()),
        (["--state", "held"], {"one"}),
        (["--state", "held", "--state", "pending"], {"one", "two", "three"}),
        (["--owner", "iam:arn:aws:iam::111122223333:user/ada"], {"one", "two", "three"}),
        (["--owner", "somebody"], set()),
    ],
)
def test_jobs_are_chosen_by_label_cluster_state_owner_and_name(
    shell: Shell, words: list[str], names: set[str]
) -> None:
    one, *_ = three(shell)
    shell("hold", one)
    lines = shell("release", *words, "--preview", "--json").stdout.splitlines()
    assert {json.loads(line)["summary"]["name"] for line in lines} == names


def test_jobs_and_a_choice_or_neither_is_a_wrong_use(shell: Shell) -> None:
    one, *_ = three(shell)
    for words in (["cancel"], ["cancel", one, "-l", "team=a"], ["cancel", one, "--preview"]):
        assert shell(*words).exit_code == 2


def test_one_that_fails_stops_no_other_and_the_same_id_completes_it_without_a_second_effect(
    shell: Shell,
) -> None:
    shell.world.cluster().ends = ObjectState.RUNNING
    one, two, _ = three(shell)
    broken: list[httpx.Response | Exception | None] = [None]
    broken += [httpx.ConnectError("refused")] * 4
    shell.network = lambda: Scripted([*broken, *[None] * 9], Handlers(shell.world))
    done = shell("hold", "--label", "team=a", "--yes", "--id", "night")
    assert done.exit_code == 5
    assert f"error: {one}: no connection" in done.stderr
    assert (
        "1 of 2 were told; send the very same again with --id night: no effect twice" in done.stderr
    )
    shell.network = lambda: Handlers(shell.world)
    again = shell("hold", "--label", "team=a", "--yes", "--id", "night")
    assert again.exit_code == 0
    assert again.stdout.count("as it was before") == 1
    for job in (one, two):
        schemas = [stored.schema for stored in shell.world.store.read(job).entries]
        assert schemas.count("dispatch.control.v1") == 1


def test_where_nothing_is_like_that_it_is_said_and_nothing_sent(shell: Shell) -> None:
    three(shell)
    done = shell("cancel", "--label", "team=z", "--yes")
    assert done.exit_code == 0
    assert "no open job is like that" in done.stderr


# --- resubmit with changes --------------------------------------------------------------------


def test_a_settled_job_is_run_anew_with_changes_as_one_that_supersedes_it(shell: Shell) -> None:
    job = submitted(shell, "-l", "team=a", "--set", "plan.default.action=fail")
    shell("watch", job)
    done = shell("resubmit", job, "--set", "nodes=4", "--set", "env.RATE='0.1'", "--json")
    made = json.loads(done.stdout)
    assert (done.exit_code, made["generation"], made["created"]) == (0, 1, True)
    view = shell.world.store.read(made["job_id"])
    header = json.loads(view.header.body)
    assert header["spec"]["nodes"] == 4
    assert header["spec"]["env"] == {"RATE": "0.1"}
    assert header["spec"]["labels"] == {"team": "a"}
    assert header["plan"]["default"]["action"] == "fail"
    assert header["lineage"] == {"generation": 1, "supersedes": job}


def test_the_same_changes_twice_make_one_job_and_others_another(shell: Shell) -> None:
    job = submitted(shell)
    shell("watch", job)
    assert "submitted, generation 1" in shell("resubmit", job, "--set", "nodes=4").stdout
    assert "there already" in shell("resubmit", job, "--set", "nodes=4").stdout
    assert "submitted, generation 1" in shell("resubmit", job, "--set", "nodes=5").stdout


def test_a_job_that_isn_t_settled_can_t_be_changed_and_the_way_there_is_told(shell: Shell) -> None:
    job = submitted(shell)
    done = shell("resubmit", job, "--set", "nodes=4")
    assert done.exit_code == 4
    assert f"dispatch cancel {job}, dispatch watch {job}" in done.stderr


def test_a_settled_job_is_run_anew_as_it_was_once(shell: Shell) -> None:
    job = submitted(shell, "--nodes", "2")
    assert shell("resubmit", job, "--anew").exit_code == 4
    shell("watch", job)
    without = shell("resubmit", job)
    assert without.exit_code == 1
    assert f"dispatch resubmit {job} --anew runs it again, as a new job" in without.stderr
    made = json.loads(shell("resubmit", job, "--anew", "--json").stdout)
    header = json.loads(shell.world.store.read(made["job_id"]).header.body)
    assert header["spec"] == json.loads(shell.world.store.read(job).header.body)["spec"]
    assert header["lineage"]["supersedes"] == job
    assert "there already" in shell("resubmit", job, "--anew").stdout
    assert shell("resubmit", job, job, "--anew").exit_code == 2


def test_a_change_that_is_none_is_told_by_its_field(shell: Shell) -> None:
    job = submitted(shell)
    shell("watch", job)
    done = shell("resubmit", job, "--set", "nodez=4")
    assert done.exit_code == 1
    assert "field 'nodez': unknown field; did you mean 'nodes'?" in done.stderr
    asked = json.loads(shell("resubmit", job, "--set", "nodes=2", "--dry-run").stdout)
    assert (asked["supersedes"], asked["spec"]["nodes"]) == (job, 2)
    assert shell("resubmit", job, "--dry-run").exit_code == 2
    assert shell("resubmit", job, job, "--set", "nodes=2").exit_code == 2
