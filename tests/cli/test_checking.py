"""A job file to begin with, and what a cluster would refuse of one, told before it is sent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dispatch import jobfile
from dispatch.cli.checking import schema_text
from dispatch.jobfile.templates import KINDS, SCHEMA_FILE, Kind, template
from tests.architecture.sources import ROOT
from tests.cli.conftest import Shell

WRONG = """\
name: train
image: registry.example/train:1
command: [python, train.py]
env:
  DB_PASSWORD: hunter2hunter2
tasks_per_node: 900
plan:
  default: {action: hold}
  causes:
    out_of_memory: {action: resubmit, memory_factor: 2.0}
local: {grace_s: 1}
"""
NOWHERE = {"DISPATCH_URL": ""}


@pytest.mark.parametrize("array", [False, True], ids=["one", "array"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_init_writes_is_a_job_file_that_its_scheduler_takes(
    shell: Shell, kind: Kind, array: bool
) -> None:
    file = str(shell.folder / "job.yaml")
    done = shell("init", file, "--scheduler", kind, *(["--array"] if array else []))
    assert done.exit_code == 0, done.stderr
    assert f"next: dispatch lint {file}" in done.stderr or f"dispatch lint {file}" in done.stderr
    found = jobfile.parse_all(Path(file).read_text(encoding="utf-8"))
    assert (len(found.jobs), found.is_array) == ((4, True) if array else (1, False))
    for words in (["--scheduler", kind], []):
        linted = shell("lint", file, *words, **NOWHERE)
        assert linted.exit_code == 0
        assert f"{kind}: nothing to find fault with" in linted.stdout


def test_init_writes_over_nothing_unless_it_is_forced(shell: Shell) -> None:
    file = shell.file("job.yaml", "mine")
    done = shell("init", file)
    assert done.exit_code == 1
    assert "next: name another file, or say --force" in done.stderr
    assert Path(file).read_text(encoding="utf-8") == "mine"
    assert shell("init", file, "--force").exit_code == 0
    assert Path(file).read_text(encoding="utf-8") == template("local", file=file)


def test_init_puts_the_schema_beside_the_file_and_leaves_a_stranger_s_alone(shell: Shell) -> None:
    beside = Path(shell.file(SCHEMA_FILE, '{"title": "another"}'))
    done = shell("init", str(shell.folder / "a.yaml"))
    assert "was left alone" in done.stderr
    assert beside.read_text(encoding="utf-8") == '{"title": "another"}'
    beside.unlink()
    shell("init", str(shell.folder / "b.yaml"))
    assert beside.read_text(encoding="utf-8") == schema_text()
    first = (shell.folder / "b.yaml").read_text(encoding="utf-8").splitlines()[0]
    assert first == f"# yaml-language-server: $schema={SCHEMA_FILE}"


def test_the_published_schema_is_the_one_that_this_build_makes() -> None:
    kept = (ROOT / "docs/reference/job.schema.json").read_text(encoding="utf-8")
    assert kept == schema_text(), "dispatch schema job-file > docs/reference/job.schema.json"


def test_the_schema_says_of_every_field_what_it_is_for() -> None:
    found = jobfile.schema()
    assert [name for name, one in found["properties"].items() if "description" not in one] == []
    for name in ("Plan", "Rule", "Array"):
        fields = found["$defs"][name]["properties"]
        assert [one for one in fields if "description" not in fields[one]] == []


# --- lint -------------------------------------------------------------------------------------


def test_everything_that_would_be_refused_is_told_with_its_line_and_what_to_do(
    shell: Shell,
) -> None:
    done = shell("lint", shell.file("job.yaml", WRONG), **NOWHERE)
    assert done.exit_code == 1
    file = str(shell.folder / "job.yaml")
    assert f"local: refused: {file}:2: field 'image': this cluster runs processes" in done.stdout
    assert "    next: remove it, or choose a cluster that runs containers" in done.stdout
    assert f"{file}:6: field 'tasks_per_node': 900 tasks in all" in done.stdout
    assert f"{file}:5: field 'env.DB_PASSWORD': its value looks like a password" in done.stdout
    assert "insist with --allow-plain DB_PASSWORD" in done.stdout
    assert (
        f"local: warning: {file}:10: field 'plan.causes.out_of_memory.memory_factor'" in done.stdout
    )
    assert done.stdout.count("next: ") == done.stdout.count("refused:") + done.stdout.count(
        "warning:"
    )


def test_what_is_warned_about_is_not_refused(shell: Shell) -> None:
    text = (
        "name: a\ncommand: [x]\nplan: {default: {action: resubmit, limit: 0}}\nslurm: {nice: 0}\n"
    )
    done = shell("lint", shell.file("job.yaml", text), **NOWHERE)
    assert done.exit_code == 0
    assert "0 times is never: hold follows at once" in done.stdout


def test_a_scheduler_s_own_limits_come_from_the_clusters_document(shell: Shell) -> None:
    queue = {"partition": "p", "max_nodes": 2, "max_time_limit_s": 3600}
    slurm = {
        "url": "http://127.0.0.1:1",
        "user": "u",
        "sign_in": {"kind": "hs256", "secret": "file:/nowhere"},
        "queues": {"gpu": queue},
        "default_queue": "gpu",
    }
    spool = {"spool": str(shell.folder / "spool"), "processes": 4}
    clusters = [
        {"name": "hpc", "adapter": "slurm", "settings": slurm},
        {"name": "desk", "adapter": "local", "settings": spool},
    ]
    document = json.dumps({"schema": "dispatch.clusters.v1", "clusters": clusters})
    text = "name: a\ncommand: [x]\nnodes: 3\ntime_limit_s: 7200\nqueue: gpu\n"
    file = shell.file("job.yaml", text)
    done = shell("lint", file, "--clusters", document)
    assert "hpc: refused" in done.stdout
    assert f"{file}:3: field 'nodes': 3 are more than queue 'gpu' allows (2)" in done.stdout
    assert f"{file}:4: field 'time_limit_s': 7200 is more than 3600" in done.stdout
    assert "desk: nothing to find fault with" in done.stdout
    assert done.exit_code == 0, "one of them takes it"
    assert shell("lint", file, "--clusters", document, "-c", "hpc").exit_code == 1
    assert not (shell.folder / "spool").exists(), "judging opens nothing"


def test_an_endpoint_is_asked_where_there_is_one_and_nothing_is_submitted(shell: Shell) -> None:
    shell.world.cluster("main").refuses = ["field 'image': no containers here"]
    text = "name: a\ncommand: [x]\nimage: i\n"
    file = shell.file("job.yaml", text)
    done = shell("lint", file)
    assert f"main: refused: {file}:3: field 'image': no containers here" in done.stdout
    assert "wide: nothing to find fault with" in done.stdout
    assert done.exit_code == 0
    assert shell("lint", file, "--cluster", "main").exit_code == 1
    named = shell.file("named.yaml", text + "cluster: main\n")
    assert shell("lint", named).exit_code == 1
    assert "wide" in shell("lint", named, "--all").stdout
    assert list(shell.world.store.list().items) == []


def test_a_cluster_that_isn_t_there_ends_with_3(shell: Shell) -> None:
    done = shell("lint", shell.file("job.yaml", "name: a\ncommand: [x]\n"), "-c", "nowhere")
    assert done.exit_code == 3
    assert "there are: main, wide" in done.stderr


def test_without_any_cluster_the_form_alone_is_judged_and_that_is_said(shell: Shell) -> None:
    done = shell("lint", shell.file("job.yaml", "name: a\ncommand: [x]\n"), **NOWHERE)
    assert done.exit_code == 0
    assert "its form is right" in done.stdout
    assert "only the file's own form was judged" in done.stderr
    assert "--scheduler slurm, eks or local" in done.stderr


def test_a_finding_of_some_elements_names_them(shell: Shell) -> None:
    text = (
        "name: a\ncommand: [x, '{{n}}']\ntasks_per_node: '{{n}}'\nlocal: {grace_s: 1}\n"
        "array: {parameters: {n: [1, 300]}}\n"
    )
    done = shell("lint", shell.file("job.yaml", text), **NOWHERE)
    assert done.exit_code == 1
    assert "field 'tasks_per_node': 300 tasks in all" in done.stdout
    assert "    for a-300\n" in done.stdout


def test_machines_are_told_field_line_and_cure(shell: Shell) -> None:
    done = shell("lint", shell.file("job.yaml", WRONG), "--json", **NOWHERE)
    told = json.loads(done.stdout)
    assert (told["cluster"], told["refuses"]) == ("local", True)
    image = told["findings"][0]
    assert (image["field"], image["line"], image["severity"]) == ("image", 2, "refused")
    assert image["next"]


def test_a_refused_submit_of_a_file_points_to_lint(shell: Shell) -> None:
    shell.world.cluster().refuses = ["field 'image': no containers here"]
    file = shell.file("job.yaml", "name: a\ncluster: main\ncommand: [x]\n")
    assert f"next: dispatch lint {file} names each field" in shell("submit", file).stderr


def test_a_scheduler_s_name_isn_t_taken_for_that_of_a_file(shell: Shell) -> None:
    done = shell("init", "slurm")
    assert done.exit_code == 2
    assert "dispatch init --scheduler slurm" in done.stderr


def test_a_block_that_nothing_reads_there_is_told_and_refuses_nothing(shell: Shell) -> None:
    told = "name: a\ncommand: [x]\nslurm: {nice: 5}\n"
    done = shell("lint", "--scheduler", "local", shell.file("a.yaml", told))
    assert done.exit_code == 0
    assert "a.yaml:3: field 'slurm': it is for Slurm: on this cluster nothing" in done.stdout
    done = shell("lint", "--scheduler", "slurm", shell.file("a.yaml", told))
    assert "nothing reads it" not in done.stdout
