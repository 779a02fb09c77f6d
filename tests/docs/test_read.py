"""Every other block of code is taken in earnest, too: documents, programs, and what was printed.

A document is read by what reads it where it belongs, as far as that is here. A program runs, here
or in the test that is named. What long runs printed is recorded by name, with what can be held
against the code. Which block is which kind follows from what it says; one that says nothing known
fails (`test_every_block_of_code_is_tried`).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import boto3
import httpx
import kubernetes_validate
import pytest
import yaml
from moto import mock_aws
from moto.events.models import EventPattern
from typer.testing import CliRunner

from dispatch.api.models import Problem
from dispatch.api.problems import CODES
from dispatch.cli.app import app
from dispatch.clusters import Brakes, Clusters, parse_clusters
from dispatch.event_details import DETAILS
from dispatch.jobfile import parse_all
from dispatch.record.header import Plan
from dispatch.wiring import _checked
from simulator.mutants import MUTANTS
from tests.docs.blocks import ROOT, Block, blocks
from tests.docs.person import Person
from tests.docs.test_typed import PAGES as TYPED
from tests.docs.test_typed import TUTORIAL
from tests.embedded.running import Running

Test = Callable[[Block, Running, Path], None]

# --- which block is tried how -----------------------------------------------------------------

ELSEWHERE: Mapping[str, str] = {
    "docs/how-to/airflow.md python 0": (
        "tests/docs/test_examples.py test_a_task_that_airflow_tries_again_is_one_job"
    ),
    "docs/how-to/github-actions.md yaml 0": (
        "tests/docs/test_examples.py test_the_workflow_s_steps_submit_wait_and_explain_one_job"
    ),
    "docs/how-to/notebooks.md python": (
        "tests/docs/test_examples.py test_the_notebook_runs_from_its_first_cell_to_its_last"
    ),
    "docs/how-to/open-a-record-store.md python": "tests/store/test_how_to.py ",
    "docs/tutorials/first-job.md yaml": (
        "tests/docs/test_tutorial.py test_the_tutorial_can_be_typed_as_it_stands"
    ),
}
"""Blocks that a test of their own runs: page, language, and which of them; the file, the test."""

RECORDED: Mapping[str, str] = {
    "SECURITY.md text 0": "a drawing",
    "docs/reference/chaos.md text": "printed by runs on a real Slurm: make test-slurm",
    "docs/reference/mutation.md text": "printed by a run of an hour: make mutation",
    "docs/reference/proof.md text 0": "printed by a run of ten minutes: python -m scripts.proof",
    "docs/reference/proof.md text 2": "printed by a run of half an hour: python -m scripts.proof",
}
"""What nothing here can print again in a test's time, and why."""


def tried_how(block: Block) -> str | None:
    """Return how a block is tried; None where nothing is known of it."""
    if block.language in ("console", "sh"):
        return "typed" if block.page in TYPED or block.page == TUTORIAL else None
    same = [one for one in blocks(block.language) if one.page == block.page]
    name = f"{block.page} {block.language}"
    number = len([one for one in same if one.line < block.line])
    for known, how in ((ELSEWHERE, "elsewhere"), (RECORDED, "recorded")):
        if name in known or f"{name} {number}" in known:
            return how
    return next((kind for kind, (holds, _) in KINDS.items() if holds(block)), None)


def test_every_block_of_code_is_tried() -> None:
    untried = [f"{one}: {one.language!r}" for one in blocks() if tried_how(one) is None]
    assert untried == []


def test_what_is_said_to_be_tried_elsewhere_is() -> None:
    for name, where in ELSEWHERE.items():
        file, _, test = where.partition(" ")
        text = (ROOT / file).read_text(encoding="utf-8")
        assert f"def {test}" in text
        page = name.split(" ")[0]
        assert page in text or Path(page).name in text, (name, where)


def test_nothing_stands_in_the_lists_that_no_page_has() -> None:
    names = set()
    for block in blocks():
        same = [one for one in blocks(block.language) if one.page == block.page]
        names |= {f"{block.page} {block.language}"}
        names |= {f"{block.page} {block.language} {same.index(block)}"}
    assert (ELSEWHERE.keys() | RECORDED.keys()) - names == set()


# --- documents --------------------------------------------------------------------------------


class _Loose(yaml.SafeLoader):
    """Reads CloudFormation's own tags as plain values."""


_Loose.add_multi_constructor("!", lambda loader, suffix, node: f"!{suffix}")


def read(block: Block) -> dict[str, Any]:
    loaded = (
        json.loads(block.text) if block.language == "json" else yaml.load(block.text, Loader=_Loose)
    )
    assert isinstance(loaded, dict), block
    return loaded


def a_job_file(block: Block, stack: Running, folder: Path) -> None:
    """The command line reads it, and the page's cluster, or one of its kind, would take it."""
    parse_all(block.text, name=str(block))
    kind = next((one for one in ("eks", "slurm", "local") if one in read(block)), "slurm")
    file = folder / "job.yaml"
    file.write_text(block.text, encoding="utf-8")
    judge = ["--scheduler", kind]
    for one in blocks("json"):
        if one.page == block.page and read(one).get("clusters"):
            judge = ["--clusters", one.text]
    done = CliRunner().invoke(app, ["lint", str(file), *judge])
    assert done.exit_code == 0, done.output


def a_plan(block: Block, stack: Running, folder: Path) -> None:
    Plan.model_validate_json(json.dumps(read(block)["plan"]))


def clusters(block: Block, stack: Running, folder: Path) -> None:
    """The supervisor takes the document, the adapters' own parts of it among them."""
    told = read(block)
    if "schema" not in told:
        told = {"schema": "dispatch.clusters.v1", "clusters": [told]}
    document: Clusters = parse_clusters(json.dumps(told))
    if all(one.settings for one in document.clusters):
        _checked(document)


def brakes(block: Block, stack: Running, folder: Path) -> None:
    Brakes.model_validate_json(block.text)


def a_submission(block: Block, stack: Running, folder: Path) -> None:
    """The API takes it as it stands."""
    answer = httpx.post(
        f"{stack.url}/jobs", json=read(block), headers={"Idempotency-Key": str(block)}, timeout=20
    )
    assert answer.status_code == 201, answer.text
    stack.intend(answer.json()["job_id"], "cancel")


def an_intent(block: Block, stack: Running, folder: Path) -> None:
    job = stack.submit(f"intent-{block.line}", command=["sleep", "60"]).json()["job_id"]
    answer = httpx.post(f"{stack.url}/jobs/{job}/intents", json=read(block), timeout=20)
    assert answer.status_code in (200, 201), answer.text
    assert answer.json()["effect"] == "applied"


def a_problem(block: Block, stack: Running, folder: Path) -> None:
    """It is what the API answers: a problem, of a code that there is."""
    told = Problem.model_validate_json(block.text)
    assert told.page == block.page
    assert (
        told.code in CODES
        or told.code in ("route_not_found", "method_not_allowed")
        or (told.status in (413, 415))
    )


def a_trust_policy(block: Block, stack: Running, folder: Path) -> None:
    """IAM, as moto plays it, takes it for a role."""
    with mock_aws():
        boto3.client("iam").create_role(RoleName="a", AssumeRolePolicyDocument=block.text)


def an_event_pattern(block: Block, stack: Running, folder: Path) -> None:
    """It lets through the event that it is for, and no other."""
    pattern = EventPattern.load(json.dumps(read(block)["EventPattern"]))
    (kind,) = read(block)["EventPattern"]["detail-type"]
    detail: dict[str, Any] = {
        "outcome": "failed",
        "labels": {"team": "vision"},
    }
    assert detail.keys() <= DETAILS[kind].model_fields.keys()
    event = {"source": "dispatch", "detail-type": kind, "detail": detail}
    assert pattern.matches_event(event)  # type: ignore[arg-type]
    other = {**event, "detail": {**detail, "labels": {"team": "speech"}}}
    assert not pattern.matches_event(other)  # type: ignore[arg-type]


def a_training_runtime(block: Block, stack: Running, folder: Path) -> None:
    """Kubernetes takes the jobs in it; that Trainer takes the rest is tried on a cluster."""
    for one in read(block)["spec"]["template"]["spec"]["replicatedJobs"]:
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": one["name"]}}
        kubernetes_validate.validate({**job, "spec": one["template"]["spec"]}, "1.33", strict=True)


def workflow_steps(block: Block, stack: Running, folder: Path) -> None:
    """The token that GitHub gives ends in the environment of the steps after."""
    (step,) = read(block)["steps"]
    person = Person(stack, folder, "#!/bin/sh\n")
    tools = folder / ".tools"
    (tools / "curl").write_text('#!/bin/sh\necho "{\\"value\\": \\"a-token\\"}"\n')
    (tools / "curl").chmod(0o755)
    person.environment |= {"GITHUB_ENV": str(folder / "env")}
    code, said = person.types(step["run"], {})
    assert code == 0, said
    assert (folder / "env").read_text() == "DISPATCH_TOKEN=a-token\n"


# --- programs ---------------------------------------------------------------------------------


class _Airflow:
    """What the page asks of Airflow; it isn't among what is installed for tests."""

    ran: ClassVar[list[object]] = []

    @staticmethod
    def dag(**_: object) -> Callable[[Callable[[], None]], Callable[[], None]]:
        return lambda function: function

    @classmethod
    def task(cls, **_: object) -> Callable[[Callable[[], str]], Callable[[], None]]:
        return lambda function: lambda: cls.ran.append(function())

    @staticmethod
    def get_current_context() -> dict[str, Any]:
        return {
            "dag": SimpleNamespace(dag_id="training"),
            "task": SimpleNamespace(task_id="train"),
            "ds": "2026-01-01",
        }


def an_airflow_dag(block: Block, stack: Running, folder: Path) -> None:
    """Its task submits one job and waits for it, with the page's own `run_job`."""
    names: dict[str, Any] = {}
    first = next(one for one in blocks("python") if one.page == block.page)
    exec(compile(first.text, str(first), "exec"), names)
    _Airflow.ran.clear()
    modules: dict[str, Any] = {
        "airflow": {},
        "airflow.sdk": {
            "dag": _Airflow.dag,
            "task": _Airflow.task,
            "get_current_context": _Airflow.get_current_context,
        },
        "my_company": {},
        "my_company.jobs": {"run_job": names["run_job"]},
    }
    text = re.sub(r"https://[a-z0-9.-]+\.amazonaws\.com", stack.url, block.text)
    text = text.replace('("python", "train.py", context["ds"])', '("echo", context["ds"])')
    text = text.replace("nodes=4", "nodes=1").replace('"main"', '"local"')
    with pytest.MonkeyPatch.context() as patch:
        for name, attributes in modules.items():
            module = ModuleType(name)
            vars(module).update(attributes)
            patch.setitem(sys.modules, name, module)
        exec(compile(text, str(block), "exec"), {})
    (job,) = _Airflow.ran
    assert stack.get(f"/jobs/{job}")["outcome"] == "succeeded"


# --- what was printed -------------------------------------------------------------------------


def the_mutants(block: Block, stack: Running, folder: Path) -> None:
    """What the table lists are rules that can be taken away, each once."""
    listed = [line.split()[0] for line in block.text.splitlines()[1:]]
    assert len(listed) == len(set(listed))
    assert set(listed) <= {one.name for one in MUTANTS}


KINDS: Mapping[str, tuple[Callable[[Block], bool], Test]] = {
    "a job file": (
        lambda one: one.language == "yaml" and bool({"command", "script"} & read(one).keys()),
        a_job_file,
    ),
    "a plan": (lambda one: one.language == "yaml" and set(read(one)) == {"plan"}, a_plan),
    "an event pattern": (
        lambda one: one.language == "yaml" and "EventPattern" in read(one),
        an_event_pattern,
    ),
    "a training runtime": (
        lambda one: one.language == "yaml" and read(one).get("kind") == "ClusterTrainingRuntime",
        a_training_runtime,
    ),
    "steps": (lambda one: one.language == "yaml" and set(read(one)) == {"steps"}, workflow_steps),
    "clusters": (
        lambda one: one.language == "json" and bool({"schema", "adapter"} & read(one).keys()),
        clusters,
    ),
    "brakes": (
        lambda one: one.language == "json" and read(one).keys() <= Brakes.model_fields.keys(),
        brakes,
    ),
    "a submission": (lambda one: one.language == "json" and "spec" in read(one), a_submission),
    "an intent": (lambda one: one.language == "json" and "kind" in read(one), an_intent),
    "a problem": (lambda one: one.language == "json" and "status" in read(one), a_problem),
    "a policy": (lambda one: one.language == "json" and "Statement" in read(one), a_trust_policy),
    "a DAG": (lambda one: one.language == "python" and "airflow" in one.text, an_airflow_dag),
    "mutants": (
        lambda one: one.language == "text" and one.text.startswith("mutant "),
        the_mutants,
    ),
}
"""How a block is known, and how it is tried."""


@pytest.mark.parametrize(
    "block",
    [one for one in blocks() if tried_how(one) in KINDS],
    ids=str,
)
def test_a_block_is_what_it_says(block: Block, stack: Running, tmp_path: Path) -> None:
    KINDS[str(tried_how(block))][1](block, stack, tmp_path)


# --- links ------------------------------------------------------------------------------------


def test_links_between_pages_lead_somewhere() -> None:
    """The site is built strictly too, but only where its environment is."""
    broken = []
    for page in sorted({ROOT / "README.md", *(ROOT / "docs").rglob("*.md")}):
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
        for target in re.findall(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)", text):
            elsewhere = "://" in target or target.startswith("mailto:")
            if not elsewhere and not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert broken == []
