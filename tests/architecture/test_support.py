"""The support matrix names the versions that the code and the tests name."""

import re
import tomllib

from dispatch.schedulers.slurm.response import SUPPORTED
from tests.architecture.sources import ROOT
from tests.infra.template import TEMPLATE, load
from tests.schedulers.eks.test_validity import VERSIONS

PAGE = (ROOT / "docs" / "reference" / "support.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def row(first: str) -> str:
    (found,) = re.findall(rf"^\| {re.escape(first)}.*$", PAGE, re.MULTILINE)
    return str(found)


def test_the_versions_of_python_are_those_that_are_declared() -> None:
    declared = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert f">={declared[0]}" == PROJECT["requires-python"]
    assert ", ".join(declared) in row("command and client")
    assert load(TEMPLATE)["Globals"]["Function"]["Runtime"] in row("functions and layer")


def test_the_versions_of_slurm_s_api_are_those_that_are_spoken() -> None:
    for version in SUPPORTED:
        assert row(f"REST {version}")


def test_the_versions_of_kubernetes_are_those_that_manifests_are_checked_for() -> None:
    assert f"{VERSIONS[0]} to {VERSIONS[-1]}" in row("API server")
