"""`dispatch submit --dry-run --clusters FILE`: the very manifests, without asking anybody."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dispatch.operator import job_id_of
from dispatch.record.codec import spec_digest
from dispatch.record.header import Spec
from dispatch.schedulers.eks.settings import EksSettings
from dispatch.schedulers.eks.shapes import JOB, TRAINJOB
from dispatch.schedulers.scheduler import StartOrder, Tag
from tests.cli.conftest import Shell

SETTINGS: dict[str, Any] = {
    "access": {"kind": "in_cluster"},
    "teams": [{"owners": ["*"], "namespace": "ml"}],
    "trainer": {"release": "2.2", "evidence": "trainjob"},
}
PLAIN: dict[str, Any] = {"name": "train", "command": ("torchrun", "train.py"), "nodes": 2}
TRAIN = """
name: train
command: [torchrun, train.py]
nodes: 2
idempotency_key: mine
eks:
  kind: trainjob
  runtime: {name: torch-distributed}
"""


@pytest.fixture
def document(tmp_path: Path) -> str:
    blocks = [
        {"name": "prod", "adapter": "eks", "settings": SETTINGS},
        {"name": "here", "adapter": "local", "settings": {"spool": str(tmp_path)}},
    ]
    file = tmp_path / "clusters.json"
    file.write_text(json.dumps({"schema": "dispatch.clusters.v1", "clusters": blocks}))
    return str(file)


def documents(text: str) -> list[Any]:
    found, decoder, rest = [], json.JSONDecoder(), text.strip()
    while rest:
        one, end = decoder.raw_decode(rest)
        found.append(one)
        rest = rest[end:].strip()
    return found


def order_of(spec: Spec) -> StartOrder:
    tag = Tag(job_id_of("mine"), 1, 1, spec_digest(spec), 0)
    return StartOrder(tag=tag, spec=spec, adjust=None, owner="nobody", in_place=False)


def test_a_trainjob_is_printed_as_it_would_be_sent(shell: Shell, document: str) -> None:
    done = shell(
        "submit", shell.file("t.yaml", TRAIN), "-c", "prod", "--dry-run", "--clusters", document
    )
    assert done.exit_code == 0, done.stderr
    (body,) = documents(done.stdout)
    settings = EksSettings.model_validate_json(json.dumps({"name": "prod", **SETTINGS}))
    eks = {"kind": "trainjob", "runtime": {"name": "torch-distributed"}}
    spec = Spec.model_validate({**PLAIN, "eks": eks})
    assert body == TRAINJOB.manifest(order_of(spec), settings.teams[0], settings)
    assert body["spec"]["suspend"] is True


def test_a_jobs_service_is_printed_with_it(shell: Shell, document: str) -> None:
    text = TRAIN.partition("eks:")[0] + "image: i:1\n"
    done = shell(
        "submit", shell.file("j.yaml", text), "-c", "prod", "--dry-run", "--clusters", document
    )
    job, service = documents(done.stdout)
    settings = EksSettings.model_validate_json(json.dumps({"name": "prod", **SETTINGS}))
    spec = Spec(name="train", command=("torchrun", "train.py"), nodes=2, image="i:1")
    assert job == JOB.manifest(order_of(spec), settings.teams[0], settings)
    assert service["kind"] == "Service"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("-c", "here", "--dry-run"), "no manifests"),
        (("--dry-run",), "which cluster?"),
        (("-c", "prod"), "--clusters goes with --dry-run"),
        (("-c", "prod", "--dry-run", "--set", "workdir=/x"), "field 'workdir'"),
    ],
)
def test_what_cant_be_shown_is_said(
    shell: Shell, document: str, options: tuple[str, ...], said: str
) -> None:
    done = shell("submit", shell.file("t.yaml", TRAIN), "--clusters", document, *options)
    assert done.exit_code != 0
    assert said in done.stderr
    assert documents(done.stdout) == []
