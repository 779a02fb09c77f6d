"""Job files: YAML or JSON, strict, and a mistake is named with its field and line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from dispatch import jobfile
from dispatch.jobfile import JobFile, JobFileRefused
from dispatch.record.codec import spec_digest
from dispatch.record.header import Spec
from dispatch.record.names import Action, Cause, UnmatchedPolicy
from tests.architecture.sources import ROOT

FULL = """\
# A job in full
name: train
cluster: main
command: [python, train.py]
image: registry.example/train:1
env:
  EPOCHS: "3"
  ANSWER: no
nodes: 2
time_limit_s: 3600
labels: {team: vision}
plan:
  default: {action: hold}
  causes:
    out_of_memory: {action: resubmit, limit: 2, memory_factor: 1.5}
start_retries: 5
unmatched: manual
supersedes: jearlierjob00000001
idempotency_key: train-2026-03
slurm: {qos: high, exclude: [n1]}
"""
SHORT = "name: a\ncommand: [x]\n"


def refused(text: str, **more: dict[str, str]) -> JobFileRefused:
    with pytest.raises(JobFileRefused) as caught:
        jobfile.parse(text, name="job.yaml", **more)
    return caught.value


def first(text: str) -> tuple[int | None, str | None, str]:
    problem = refused(text).problems[0]
    return problem.line, problem.field, problem.message


def test_a_job_file_says_spec_cluster_plan_and_the_rest() -> None:
    job = jobfile.parse(FULL)
    assert (job.cluster, job.start_retries) == ("main", 5)
    assert job.unmatched is UnmatchedPolicy.MANUAL
    assert job.supersedes == "jearlierjob00000001"
    assert job.idempotency_key == "train-2026-03"
    assert job.plan is not None
    assert job.plan.rule(Cause.OUT_OF_MEMORY).action is Action.RESUBMIT
    assert job.plan.rule(Cause.TIMEOUT).action is Action.HOLD
    assert job.spec.command == ("python", "train.py")
    assert job.spec.slurm is not None
    assert job.spec.slurm.exclude == ("n1",)


def test_the_spec_of_a_job_file_is_a_spec_and_nothing_more() -> None:
    spec = jobfile.parse(SHORT + "cluster: main\n").spec
    assert type(spec) is Spec
    assert spec_digest(spec) == spec_digest(Spec(name="a", command=("x",)))


def test_yaml_and_json_say_the_same() -> None:
    data = yaml.safe_load(FULL.replace("ANSWER: no", 'ANSWER: "no"'))
    assert jobfile.parse(json.dumps(data)) == jobfile.parse(FULL)
    assert jobfile.parse(json.dumps(data, indent="\t")) == jobfile.parse(FULL)


@pytest.mark.parametrize("word", ["no", "on", "Yes", "1:30", "0x1f", "2026-03-05", "1_000", "NULL"])
def test_words_that_other_readers_of_yaml_turn_into_something_else_stay_text(word: str) -> None:
    job = jobfile.parse(SHORT + f"env:\n  WORD: {word}\n")
    assert job.env == {"WORD": word}


@pytest.mark.parametrize(
    ("text", "line", "field", "words"),
    [
        (SHORT + "nods: 2\n", 3, "nods", "unknown field; did you mean 'nodes'?"),
        (SHORT + "nodes: two\n", 3, "nodes", "a whole number is wanted"),
        (SHORT + "nodes: 2.0\n", 3, "nodes", "a whole number is wanted"),
        (SHORT + "nodes: 0\n", 3, "nodes", "at least 1 is wanted, not 0"),
        (SHORT + "env:\n  A: 1\n", 4, "env.A", "text is wanted: write it in quotes, '1'"),
        (SHORT + "env:\n  A: true\n", 4, "env.A", "write it in quotes, 'true'"),
        (SHORT + "env: {DISPATCH_X: a}\n", 3, "env", "DISPATCH_ is reserved"),
        (SHORT + "plan: {}\n", 3, "plan.default", "it must be given"),
        (SHORT + "plan: {default: {action: hld}}\n", 3, "plan.default.action", "unknown name"),
        (
            SHORT + "time_limit_s: 1h\n",
            3,
            "time_limit_s",
            'seconds is wanted, not "1h": write 3600',
        ),
        (SHORT + "time_limit_s: 90min\n", 3, "time_limit_s", "write 5400"),
        (SHORT + "time_limit_s: 1-00:30:00\n", 3, "time_limit_s", "write 88200"),
        (SHORT + "time_limit_s: soon\n", 3, "time_limit_s", 'is wanted, not "soon"'),
        (SHORT + "plan: {default: hold}\n", 3, "plan.default", "as {action: hold}"),
        (
            SHORT + "plan: {default: {action: hold}, causes: {preemptd: {action: fail}}}\n",
            3,
            "plan.causes.preemptd",
            "unknown name 'preemptd'; did you mean 'preempted'?",
        ),
        ("\tname: a\n", 1, None, "a tab stands there, and YAML is indented by spaces"),
        (SHORT + "unmatched: maybe\n", 3, "unmatched", "one of 'retry' or 'manual'"),
        (SHORT + "slurm: {qoz: a}\n", 3, "slurm.qoz", "unknown field"),
        (
            SHORT + "idempotency_key: a b\n",
            3,
            "idempotency_key",
            'without spaces are wanted, not "a b"',
        ),
        (SHORT + "name: b\n", 3, "name", "it stands twice"),
        ("command: [x]\n", 1, "name", "it must be given"),
        ("name: a\ncommand: x y\n", 2, "command", "a list is wanted"),
        ("name: a\n", 1, None, "give command or script"),
        ("name: a\ncommand: [x\n", 3, None, "expected"),
        ("name: a\n\tcommand: x\n", 2, None, "a tab stands there"),
        ("- name\n", None, None, "isn't a mapping"),
        ("", None, None, "it is empty"),
        ("# nothing\n", None, None, "it is empty"),
        ("name: !!python/object/apply:os.system [x]\n", 1, None, "the tag python/"),
        ("name: a\nnodes: !!int x\n", 2, None, "isn't a value of the tag int"),
        ("name: a\nnodes: !!float .inf\n", 2, None, "isn't a value of the tag float"),
        ("name: a\nnodes: 1e999\n", 2, None, "isn't a value of the tag float"),
        ("name: !!bool maybe\n", 1, None, "isn't a value of the tag bool"),
        ("name: &a [*a]\n", 1, None, "repeats itself"),
        ("3: x\n", 1, None, "a field's name is text"),
        (SHORT + "---\nname: b\n", 3, None, "another document"),
    ],
)
def test_a_mistake_is_named_with_its_field_and_line(
    text: str, line: int | None, field: str | None, words: str
) -> None:
    got = first(text)
    assert (got[0], got[1]) == (line, field)
    assert words in got[2]


def test_all_mistakes_are_named_at_once_in_the_order_of_their_lines() -> None:
    text = "name: a\ncommand: [x, 1]\nnods: 2\nmemory_mb_per_node: big\n"
    assert str(refused(text)).splitlines() == [
        "job.yaml:2: field 'command.1': text is wanted: write it in quotes, '1'",
        "job.yaml:3: field 'nods': unknown field; did you mean 'nodes'?",
        "job.yaml:4: field 'memory_mb_per_node': a whole number is wanted, not \"big\"",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"name": "a", "name": "b"}', "the key stands twice"),
        ('{"name": "a"', "as JSON"),
        ('{"name": "a", "command": ["x"]} x', "extra data"),
        ('{"name": "a", "command": ["x"], "nodes": NaN}', "NaN"),
    ],
)
def test_json_is_read_as_strictly_as_a_record(text: str, words: str) -> None:
    assert words in str(refused(text))


def test_a_text_that_grows_without_end_is_refused_and_soon() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    assert "repeats itself" in str(refused("\n".join(lines)))
    assert "longer than" in str(refused("x" * 600_000))
    assert "nested" in str(refused("[" * 20_000)) or "expected" in str(refused("[" * 20_000))


def test_changes_are_put_in_place_before_it_is_judged() -> None:
    job = jobfile.parse(SHORT, changes={"nodes": "4", "plan": "{default: {action: fail}}"})
    assert job.nodes == 4
    assert job.plan is not None
    text = "name: a\nnodes: two\ncommand: [x]\n"
    assert jobfile.parse(text, changes={"nodes": "1"}).nodes == 1
    told = refused(SHORT, changes={"nodes": "two"})
    assert told.problems[0].line is None
    assert "'name' holds no fields" in str(refused(SHORT, changes={"name.x": "1"}))


def test_the_page_lists_every_field(tmp_path: Path) -> None:
    page = (ROOT / "docs/reference/job-file.md").read_text(encoding="utf-8")
    assert [name for name in JobFile.model_fields if f"| `{name}`" not in page] == []
    example = page.split("```yaml\n")[1].split("```")[0]
    assert jobfile.parse(example).name == "train"
