"""What a Start and the other calls send."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatch.record.header import Adjust, SlurmSpec, Spec
from dispatch.schedulers.slurm import request
from dispatch.schedulers.slurm.script import batch_script
from dispatch.schedulers.slurm.settings import Queue, SlurmCluster
from dispatch.schedulers.slurm.tags import Mark, marked
from tests.schedulers.slurm.conftest import order, settings, tag


def sent(cluster: SlurmCluster | None = None, **changed: Any) -> dict[str, Any]:
    question = request.submission(
        cluster or settings(), order(**changed), Mark(tag(), "proving", 1_795_958_259)
    )
    assert (question.method, question.book, question.path) == ("POST", "slurm", "job/submit")
    json.dumps(question.body)
    job: dict[str, Any] = question.body["job"]
    return job


def number(value: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


def test_a_job_is_submitted_held_never_requeued_and_alone_of_its_name() -> None:
    job = sent()
    assert job["hold"] is True
    assert job["requeue"] is False
    assert job["dependency"] == "singleton"
    assert job["name"] == "dispatch-j00000001"
    assert "array" not in job
    assert marked(job["comment"]) == marked(job["extra"]) == Mark(tag(), "proving", 1_795_958_259)


def test_the_name_is_shared_by_all_attempts_of_a_job() -> None:
    assert sent(n=1, a=1)["name"] == sent(n=7, a=3)["name"]


def test_a_multi_node_spec_becomes_nodes_tasks_cpus_memory_gpus_and_time() -> None:
    job = sent(
        nodes=3,
        tasks_per_node=4,
        cpus_per_node=10,
        memory_mb_per_node=2048,
        gpus_per_node=2,
        time_limit_s=61,
    )
    assert (job["minimum_nodes"], job["maximum_nodes"]) == (3, 3)
    assert (job["tasks"], job["tasks_per_node"], job["cpus_per_task"]) == (12, 4, 3)
    assert job["memory_per_node"] == number(2048)
    assert job["tres_per_node"] == "gres/gpu:2"
    assert job["time_limit"] == number(2)


def test_what_only_slurm_has_is_sent_too() -> None:
    job = sent(
        slurm=SlurmSpec(
            constraint="a100&nvlink",
            reservation="friday",
            exclude=("n1",),
            gres="gpu:a100:4,nvme:1",
            nice=50,
            qos="normal",
        ),
        adjust=Adjust(memory_mb_per_node=4096, avoid_nodes=("n2", "n1")),
        memory_mb_per_node=1024,
    )
    assert job["constraints"] == "a100&nvlink"
    assert job["reservation"] == "friday"
    assert job["excluded_nodes"] == ["n1", "n2"]
    assert job["tres_per_node"] == "gres/gpu:a100:4,gres/nvme:1"
    assert job["nice"] == 50
    assert job["qos"] == "normal"
    assert job["memory_per_node"] == number(4096)


def test_a_lower_priority_is_a_nicer_job() -> None:
    assert sent(priority=-7)["nice"] == 7
    assert "nice" not in sent(priority=0)


def test_account_qos_and_partition_follow_the_clusters_rules() -> None:
    queues = {
        "gpu": Queue(partition="gpu_a100", accounts=("physics", "maths"), qos=("long", "short")),
        "open": Queue(partition="scavenge"),
    }
    cluster = settings(queues=queues, default_queue="gpu", account_of={"bob": "maths"})
    job = sent(cluster)
    assert (job["partition"], job["account"], job["qos"]) == ("gpu_a100", "physics", "long")
    assert sent(cluster, owner="bob")["account"] == "maths"
    assert sent(cluster, account="maths", slurm=SlurmSpec(qos="short"))["account"] == "maths"
    opened = sent(cluster, queue="open")
    assert opened["partition"] == "scavenge"
    assert not {"account", "qos"} & opened.keys()


@pytest.mark.parametrize(
    ("spec", "owner", "field"),
    [
        ({"queue": "nope"}, None, "queue"),
        ({"account": "mine"}, None, "account"),
        ({"account": "physics"}, "bob", "account"),
        ({}, "eve", "account"),
        ({"slurm": SlurmSpec(qos="urgent")}, None, "slurm.qos"),
        ({"nodes": 5}, None, "nodes"),
        ({"time_limit_s": 7200}, None, "time_limit_s"),
        ({"image": "repository/image:1"}, None, "image"),
        ({"priority": 3}, None, "priority"),
        ({"env": {"SLURM_JWT": "x"}}, None, "env"),
        ({"secrets": {"KEY": "ssm:/key"}}, None, "secrets"),
        ({"gpus_per_node": 1, "slurm": SlurmSpec(gres="gpu:1")}, None, "gpus_per_node"),
    ],
)
def test_a_spec_against_the_rules_is_refused_by_its_field(
    spec: dict[str, Any], owner: str | None, field: str
) -> None:
    queue = Queue(
        partition="main",
        accounts=("physics", "maths"),
        qos=("normal",),
        max_nodes=4,
        max_time_limit_s=3600,
    )
    cluster = settings(queues={"main": queue}, account_of={"bob": "maths", "eve": "chemistry"})
    made = Spec(**{"name": "train", "command": ("true",), **spec})
    found = request.problems(cluster, made, owner)
    assert len(found) == 1
    assert found[0].startswith(field + ":")


def test_a_script_with_dos_line_ends_is_refused() -> None:
    made = Spec(name="train", script="#!/bin/sh\r\ntrue\r\n")
    assert request.problems(settings(), made)[0].startswith("script:")


def test_the_environment_is_complete_and_the_tag_wins() -> None:
    job = sent(env={"A": "b'c\"d\ne", "PATH": "/mine"})
    assert "PATH=/mine" in job["environment"]
    assert "A=b'c\"d\ne" in job["environment"]
    assert {
        "DISPATCH_JOB_ID=j00000001",
        "DISPATCH_SUBMISSION=1",
        "DISPATCH_ATTEMPT=1",
        "DISPATCH_EPOCH=1000000",
    } <= set(job["environment"])


def test_output_goes_where_the_spec_says_or_to_a_name_of_its_own() -> None:
    assert sent(output="/logs/%j.out")["standard_output"] == "/logs/%j.out"
    assert sent(workdir="/home/ann/")["standard_output"] == ("/home/ann/dispatch-j00000001.1.1.out")


@given(st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8")), min_size=1))
def test_a_command_reaches_its_process_word_for_word(words: list[str]) -> None:
    made = Spec(name="train", command=("python3", "-c", "", *words))
    script = batch_script(made, 1_000_000)
    shown = script.replace("exec python3 -c ''", "printf '%s\\0'")
    done = subprocess.run(["sh", "-c", shown], capture_output=True, check=True)
    assert done.stdout == b"".join(word.encode() + b"\0" for word in words)


def test_several_tasks_run_under_srun_one_alone_does_not() -> None:
    assert "srun" not in batch_script(Spec(name="t", command=("true",)), 1)
    many = batch_script(Spec(name="t", command=("true",), nodes=2, cpus_per_node=3), 1)
    assert "exec srun --kill-on-bad-exit=1 --export=ALL --cpus-per-task=3 -- true" in many


@pytest.mark.parametrize("restarts", ["", "2"])
def test_every_run_of_a_shell_sees_its_own_epoch(restarts: str) -> None:
    for made in (
        Spec(name="t", command=("printenv", "DISPATCH_EPOCH")),
        Spec(name="t", script="#!/bin/bash -e\nprintenv DISPATCH_EPOCH\n"),
        Spec(name="t", script="#!/usr/bin/env bash\nprintenv DISPATCH_EPOCH\n"),
    ):
        environment = {"PATH": "/usr/bin:/bin"}
        if restarts:
            environment["SLURM_RESTART_COUNT"] = restarts
        done = subprocess.run(
            ["sh", "-c", batch_script(made, 3_000_000)],
            env=environment,
            capture_output=True,
            check=True,
            text=True,
        )
        assert done.stdout.strip() == str(3_000_000 + int(restarts or 0))


def test_a_script_of_another_interpreter_is_left_as_it_is() -> None:
    text = "#!/usr/bin/env python3\nprint('hello')\n"
    assert batch_script(Spec(name="t", script=text), 1) == text
    assert batch_script(Spec(name="t", script="#!/usr/bin/fish\ntrue\n"), 1).startswith(
        "#!/usr/bin/fish\ntrue"
    )


def test_a_secret_is_read_on_the_node_and_never_sent() -> None:
    made = Spec(name="t", command=("true",), secrets={"KEY": "file:/etc/it's/key"})
    script = batch_script(made, 1)
    assert """KEY=$(cat '/etc/it'"'"'s/key') || exit 78; export KEY""" in script


def test_f18_times_are_asked_for_in_seconds_of_no_zone() -> None:
    question = request.runs_by_name("j00000001", 1_795_958_259)
    assert "start_time=1795958259" in question.path
    assert "job_name=dispatch-j00000001" in question.path


def test_a_requeue_never_raises_what_has_ended() -> None:
    assert request.requeue(7).path == "job/7/requeue?Incomplete=true"


def test_a_cancel_carries_no_signal_and_names_one_job() -> None:
    question = request.cancel(7)
    assert (question.method, question.path, question.body) == ("DELETE", "job/7", None)
