"""Submitting, asking, waiting and wishing, with exit codes that scripts can use."""

from __future__ import annotations

import json

import httpx
import pytest

from dispatch.record.codec import envelope
from dispatch.record.fact import Settled
from dispatch.record.names import ObjectState
from dispatch.record.view import Envelope
from tests.cli.conftest import Shell
from tests.client.network import Handlers, LosesReplies, Scripted
from tests.functions.world import START

JOB_FILE = """\
name: train
cluster: main
command: [python, train.py]
nodes: 2
env:
  EPOCHS: "3"
plan:
  default: {action: hold}
  causes:
    preempted: {action: resubmit, limit: 4}
"""


def submitted(shell: Shell, *more: str) -> str:
    done = shell("submit", "--json", "-c", "main", *more, "--", "true")
    assert done.exit_code == 0, done.stderr
    job: str = json.loads(done.stdout)["job_id"]
    return job


# --- submit -----------------------------------------------------------------------------------


def test_a_command_after_two_dashes_is_submitted_with_its_own_options_untouched(
    shell: Shell,
) -> None:
    done = shell("submit", "-c", "main", "--dry-run", "-N", "2", "--", "/bin/echo", "--json", "-N")
    assert done.exit_code == 0
    asked = json.loads(done.stdout)
    assert asked["spec"]["command"] == ["/bin/echo", "--json", "-N"]
    assert asked["spec"]["name"] == "echo"
    assert asked["spec"]["nodes"] == 2


def test_a_job_file_is_submitted_and_its_key_is_printed(shell: Shell) -> None:
    done = shell("submit", shell.file("job.yaml", JOB_FILE), "--key", "mine")
    assert done.exit_code == 0
    assert "submitted on main (key mine)" in done.stdout
    assert "dispatch watch" in done.stderr
    again = shell("submit", shell.file("job.yaml", JOB_FILE), "--key", "mine")
    assert again.exit_code == 0
    assert "there already" in again.stdout


def test_a_job_file_may_come_from_standard_input(shell: Shell) -> None:
    assert shell("submit", "-", text=JOB_FILE).exit_code == 0


def test_options_change_what_a_job_file_says(shell: Shell) -> None:
    options = ["--set", "nodes=4", "-e", "EPOCHS=9", "-l", "team=a", "--memory", "2048"]
    options += ["--set", "plan.causes.timeout={action: fail}", "--gpus", "1", "--cpus", "8"]
    done = shell("submit", shell.file("job.yaml", JOB_FILE), "--dry-run", *options)
    asked = json.loads(done.stdout)
    spec = asked["spec"]
    assert (spec["nodes"], spec["env"], spec["labels"]) == (4, {"EPOCHS": "9"}, {"team": "a"})
    assert (spec["memory_mb_per_node"], spec["gpus_per_node"], spec["cpus_per_node"]) == (
        2048,
        1,
        8,
    )
    assert asked["plan"]["causes"]["timeout"]["action"] == "fail"
    assert "preempted" in asked["plan"]["causes"]


def test_a_mistake_in_a_job_file_is_told_with_its_line_and_nothing_is_sent(shell: Shell) -> None:
    text = JOB_FILE.replace("nodes: 2", "nods: 2").replace('"3"', "3")
    done = shell("submit", shell.file("job.yaml", text))
    assert done.exit_code == 1
    assert "job.yaml:4: field 'nods': unknown field; did you mean 'nodes'?" in done.stderr
    assert "job.yaml:6: field 'env.EPOCHS': text is wanted: write it in quotes, '3'" in done.stderr
    assert list(shell.world.store.list().items) == []


def test_what_a_cluster_refuses_of_a_spec_is_told(shell: Shell) -> None:
    shell.world.cluster().refuses = ["field 'image': no containers here"]
    done = shell("submit", "-c", "main", "--", "true")
    assert done.exit_code == 1
    assert "no containers here" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["submit"],
        ["submit", "job.yaml", "--", "true"],
        ["submit", "-e", "novalue", "--", "true"],
        ["submit", "--nodes", "many", "--", "true"],
        ["nonsense"],
        ["status"],
    ],
)
def test_a_wrong_use_ends_with_2(shell: Shell, words: list[str]) -> None:
    assert shell(*words).exit_code == 2


def test_a_cluster_must_be_named_where_there_are_several(shell: Shell) -> None:
    done = shell("submit", "--", "true")
    assert done.exit_code == 3
    assert "which cluster? say --cluster: main, wide" in done.stderr


def test_the_same_key_for_another_spec_ends_with_4(shell: Shell) -> None:
    """F07."""
    assert shell("submit", "-c", "main", "--key", "k", "--", "true").exit_code == 0
    done = shell("submit", "-c", "main", "--key", "k", "--", "false")
    assert done.exit_code == 4
    assert "next: leave --key away" in done.stderr


def test_a_submit_that_got_no_answer_ends_with_6_and_the_exact_way_to_repeat_it(
    shell: Shell,
) -> None:
    shell.network = lambda: LosesReplies(Handlers(shell.world), 9)
    done = shell("submit", "-c", "main", "--key", "mine", "--", "true")
    assert done.exit_code == 6
    assert "with --key mine" in done.stderr
    shell.network = lambda: Handlers(shell.world)
    again = shell("submit", "-c", "main", "--key", "mine", "--", "true")
    assert "there already" in again.stdout
    assert len(shell.world.store.list().items) == 1


def test_an_endpoint_that_doesn_t_answer_ends_with_5(shell: Shell) -> None:
    shell.network = lambda: Scripted([httpx.ConnectError("refused")] * 9)
    for words in (["list"], ["submit", "-c", "main", "--", "true"], ["cancel", "jx"]):
        done = shell(*words)
        assert done.exit_code == 5
        assert "next: " in done.stderr


def test_a_settled_job_can_be_superseded_and_an_open_one_can_t(shell: Shell) -> None:
    job = submitted(shell)
    assert shell("submit", "-c", "main", "--supersedes", job, "--", "true").exit_code == 4
    shell("watch", job)
    done = shell("submit", "-c", "main", "--supersedes", job, "--json", "--", "true")
    assert json.loads(done.stdout)["generation"] == 1


# --- list, status, watch, logs ----------------------------------------------------------------


def test_a_list_shows_what_each_job_does_and_leaves_out_the_settled(shell: Shell) -> None:
    over = submitted(shell)
    shell("watch", over)
    open_ = submitted(shell, "--name", "second")
    shown = shell("list").stdout
    assert open_ in shown
    assert over not in shown
    everything = shell("list", "--all").stdout
    assert "succeeded" in everything
    assert "pending" in everything
    assert over in shell("list", "--settled").stdout
    lines = [json.loads(line) for line in shell("list", "--all", "--json").stdout.splitlines()]
    assert [one["summary"]["name"] for one in lines] == ["true", "second"]


def test_a_list_says_when_there_is_more_or_nothing(shell: Shell) -> None:
    assert "no such jobs" in shell("list").stderr
    for number in range(3):
        submitted(shell, "--key", f"k{number}")
    assert "more than 2" in shell("list", "-n", "2").stderr


def test_a_status_tells_state_waits_and_times_in_the_zone_asked_for(shell: Shell) -> None:
    job = submitted(shell)
    shown = shell("status", job, "--utc", TZ="Asia/Tokyo").stdout
    assert "pending" in shown
    assert "2026-11-29 12:00:" in shown
    assert json.loads(shell("status", job, "--json").stdout)["job_id"] == job
    shell("hold", job)
    held = shell("status", job).stdout
    assert "held by iam:" in held
    assert "waiting for" in held


@pytest.mark.parametrize(("ends", "code"), [(ObjectState.SUCCEEDED, 0), (ObjectState.FAILED, 10)])
def test_a_watch_ends_with_the_job_s_outcome(shell: Shell, ends: ObjectState, code: int) -> None:
    shell.world.cluster().ends = ends
    job = submitted(shell)
    done = shell("watch", job, "--exit-status")
    assert done.exit_code == code
    assert done.stdout.splitlines()[-1].endswith("settled")
    assert shell("watch", job).exit_code == 0


def test_a_watch_waits_an_outage_out_once_it_was_answered_and_tells_of_it_once(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dispatch.cli.jobs.ASK_AGAIN_S", 0)
    job = submitted(shell)
    lost = [httpx.ConnectError("refused")] * 12
    shell.network = lambda: Scripted([None, *lost], Handlers(shell.world))
    done = shell("watch", job)
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1].endswith("settled")
    assert done.stderr.count("asking again") == 1
    shell.network = lambda: Handlers(shell.world)
    other = submitted(shell, "--name", "other")
    shell.network = lambda: Scripted([None, *lost], Handlers(shell.world))
    assert shell("watch", other, "--timeout", "600").exit_code == 5
    shell.network = lambda: Scripted(lost, Handlers(shell.world))
    assert shell("watch", job).exit_code == 5


def test_a_watch_of_a_cancelled_job_ends_with_11(shell: Shell) -> None:
    job = submitted(shell)
    shell("cancel", job)
    assert shell("watch", job, "--exit-status", "--until", "outcome").exit_code == 11


def test_a_watch_may_end_where_a_person_is_asked(shell: Shell) -> None:
    job = submitted(shell)
    shell("hold", job)
    done = shell("watch", job, "--until", "person", "--exit-status", "--json")
    assert done.exit_code == 12
    assert json.loads(done.stdout.splitlines()[-1])["state"] == "held"


def test_a_watch_with_a_limit_ends_with_5_or_12(shell: Shell) -> None:
    job = submitted(shell)
    shell("hold", job)
    done = shell("watch", job, "--timeout", "30")
    assert done.exit_code == 5
    assert f"dispatch why {job}" in done.stderr
    assert shell("watch", job, "--timeout", "30", "--exit-status").exit_code == 12


def test_what_a_job_wrote_is_printed_and_followed(shell: Shell) -> None:
    job = submitted(shell)
    followed = shell("logs", job, "--follow")
    assert followed.stdout == f"output of main/{job}.1.1\n"
    assert shell("logs", job).stdout == followed.stdout
    assert shell("logs", job, "--offset", "10").stdout == followed.stdout[10:]


def test_nothing_written_yet_ends_with_5(shell: Shell) -> None:
    shell.world.cluster().down = True
    done = shell("logs", submitted(shell))
    assert done.exit_code == 5
    assert "nothing has run yet" in done.stderr


# --- intents ----------------------------------------------------------------------------------


def test_each_intent_is_answered_by_its_receipt(shell: Shell) -> None:
    job = submitted(shell)
    assert "hold of" in shell("hold", job, "-m", "maintenance").stdout
    assert "so it was already; a user hold is in force" in shell("hold", job).stdout
    assert "done" in shell("release", job).stdout
    assert "done" in shell("requeue", job).stdout
    assert shell("resubmit", job).exit_code == 0
    done = shell("give-up", job, "--json", "--id", "once")
    assert json.loads(done.stdout)["outcome"] == "failed"
    repeat = shell("give-up", job, "--id", "once")
    assert "as it was before" in repeat.stdout
    assert repeat.exit_code == 0


def test_an_intent_without_effect_ends_with_1_and_says_which_outcome_it_met(shell: Shell) -> None:
    """F40: a cancel after a success."""
    job = submitted(shell)
    shell("watch", job, "--until", "outcome")
    done = shell("cancel", job)
    assert done.exit_code == 1
    assert "no effect; the outcome is succeeded already" in done.stdout


def test_an_abandon_of_what_isn_t_recorded_says_so(shell: Shell) -> None:
    job = submitted(shell)
    done = shell("abandon", job, "3.1", "-m", "looked myself")
    assert done.exit_code == 1
    assert "no attempt 3.1 is recorded" in done.stdout


def test_several_jobs_are_served_and_the_first_trouble_is_the_exit_code(shell: Shell) -> None:
    one, two = submitted(shell, "--key", "a"), submitted(shell, "--key", "b")
    done = shell("cancel", one, "jnothere0000000000001", two)
    assert done.exit_code == 3
    assert done.stdout.count("the outcome is cancelled") == 2
    assert "error: job jnothere0000000000001" in done.stderr


def test_an_intent_that_got_no_answer_ends_with_6_and_names_its_id(shell: Shell) -> None:
    job = submitted(shell)
    shell.network = lambda: LosesReplies(Handlers(shell.world), 9)
    done = shell("cancel", job, "--id", "mine")
    assert done.exit_code == 6
    assert "with --id mine" in done.stderr


def test_an_intent_on_a_record_that_can_t_be_folded_is_recorded_with_unknown_effect(
    shell: Shell,
) -> None:
    """F42."""
    job = submitted(shell)
    shell.world.store.commit(job, 0, [Envelope("dispatch.fact.v9", "{}")])
    done = shell("cancel", job)
    assert done.exit_code == 6
    assert "recorded" in done.stdout
    assert "entry 1" in done.stdout
    assert "unreadable: entry 1, unknown_schema" in shell("list").stdout
    assert shell("status", job).exit_code == 1


def test_a_tombstone_is_for_settled_jobs_and_keeps_the_key(shell: Shell) -> None:
    job = submitted(shell, "--key", "mine")
    assert shell("tombstone", job).exit_code == 4
    shell("watch", job)
    assert shell("tombstone", job).exit_code == 0
    assert shell("status", job).exit_code == 3
    assert "tombstoned" in shell("list", "--all").stdout
    again = shell("submit", "-c", "main", "--key", "mine", "--", "true")
    assert "there already" in again.stdout


def test_an_unknown_job_ends_with_3_in_words_and_as_json(shell: Shell) -> None:
    missing = "jnothere0000000000001"
    done = shell("status", missing)
    assert done.exit_code == 3
    assert "next: `dispatch list --all`" in done.stderr
    told = json.loads(shell("status", missing, "--json").stderr)
    assert told["error"] == "job_not_found"
    assert told["exit_code"] == 3
    assert told["job"] == missing


def test_what_a_broken_record_says_is_told_by_history_and_why(shell: Shell) -> None:
    job = submitted(shell)
    wrong = Settled(at=START, by="x", taken_at=START)
    shell.world.store.commit(job, 0, [envelope(wrong)._replace(token="t")])
    told = shell("why", job)
    assert told.exit_code == 1
    assert "Rule: not_settled." in told.stdout
    assert "What still works" in told.stdout
    table = shell("history", job)
    assert table.exit_code == 1
    assert "REFUSED" in table.stdout
