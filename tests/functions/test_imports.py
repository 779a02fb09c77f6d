"""What a function loads: every module costs a cold start."""

import json
import subprocess
import sys

import pytest

from tests.architecture.sources import ROOT

CLUSTERS = json.dumps(
    {
        "schema": "dispatch.clusters.v1",
        "clusters": [
            {
                "name": "hpc",
                "adapter": "slurm",
                "settings": {
                    "url": "https://slurm.example.com:6820",
                    "user": "dispatch",
                    "sign_in": {"kind": "hs256", "secret": "file:/nowhere"},
                    "queues": {"gpu": {"partition": "gpu"}},
                    "default_queue": "gpu",
                },
            },
            {
                "name": "cloud",
                "adapter": "eks",
                "settings": {
                    "access": {"kind": "eks", "cluster_name": "prod", "region": "eu-west-1"},
                    "teams": [{"owners": ["*"], "namespace": "ml"}],
                },
            },
        ],
    }
)


def loaded(code: str) -> set[str]:
    """The top-level modules of a fresh process once it ran some code."""
    told = "; import sys, json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code + told],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "AWS_DEFAULT_REGION": "eu-west-1"},
    )
    return {name.split(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}


@pytest.mark.parametrize("name", ["intents", "supervisor", "events", "retention"])
def test_no_function_loads_what_only_a_command_line_or_a_cluster_needs(name: str) -> None:
    modules = loaded(f"import functions.{name}.app")
    unwanted = {"kubernetes", "httpx", "typer", "rich", "yaml", "waitress", "psutil", "embedded"}
    assert not modules & unwanted
    assert "pydantic" in modules


@pytest.mark.parametrize("name", ["supervisor", "events", "retention"])
def test_no_function_but_the_api_loads_a_router(name: str) -> None:
    assert "aws_lambda_powertools" not in loaded(f"import functions.{name}.app")


WIRED = f"""
import json
from datetime import UTC, datetime
from dispatch.record.header import Spec
from dispatch.settings import Settings
from dispatch.store.memory import MemoryRecords
from dispatch.wiring import Wiring
wiring = Wiring(Settings(clusters={CLUSTERS!r}), store=MemoryRecords(lambda: "t"))
"""


def test_a_supervisor_of_slurm_alone_never_loads_kubernetes() -> None:
    modules = loaded(WIRED + "wiring.scheduler('hpc').declare()\npass")
    assert "kubernetes" not in modules
    assert "urllib3" in modules


def test_declaring_and_linting_for_eks_loads_no_kubernetes() -> None:
    code = WIRED + (
        "wiring.declarations('cloud')\n"
        "wiring.lint('cloud', Spec(name='x', command=('true',), image='img'))\npass"
    )
    assert not loaded(code) & {"kubernetes", "httpx"}


def test_the_functions_that_speak_to_clusters_alone_bring_kubernetes() -> None:
    functions = ROOT / "functions"
    for name in ("supervisor", "intents"):
        assert "kubernetes==" in (functions / name / "requirements.txt").read_text()
    for name in ("events", "retention"):
        assert "kubernetes==" not in (functions / name / "requirements.txt").read_text()
