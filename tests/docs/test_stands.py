"""What judges the documentation's commands does refuse what is wrong."""

from __future__ import annotations

import shlex

import pytest

from tests.docs.blocks import Block
from tests.docs.stands import PLACES, REASONS, judge
from tests.docs.test_read import tried_how


@pytest.mark.parametrize(
    "command",
    [
        "aws dynamodb describe-tables --table-name OLD",
        "aws dynamodb describe-table --tabel-name OLD",
        "aws dynamodb describe-table --query Table",
        "aws ssm put-parameter --name A --value B --type Text",
        "aws dynamodb wait table-exist --table-name NEW",
        "aws dynamodb update-table --table-name NEW --stream-specification Enabled=true",
        "aws cloudformation deploy --stack-name a --template-file infra/events/email.yaml"
        " --parameter-overrides Bus=dispatch-events Emial=oncall@example.com",
        "aws cloudformation deploy --stack-name a --template-file infra/events/email.yaml"
        " --parameter-overrides Bus=dispatch-events",
        "sam deploy --parameter-overrides TickStat=DISABLED",
        "sam logs --stack-name dispatch --name Supervisor",
        "kubectl get job NAME --namespaces ml",
        "kubectl describe jobs.v2 NAME",
        "sacct --jobs 1 --format=JobID,Cause",
        "scontrol show jobs 1",
        "make tests",
        "make simulate SEED=1",
        "git push --force",
        "run.sh trixie tests/real/slurm/test_chaoss.py",
    ],
)
def test_a_call_that_the_real_program_would_not_take_is_refused(command: str) -> None:
    name, *words = shlex.split(command)
    with pytest.raises((AssertionError, KeyError, ValueError)):
        judge(name, words)


def test_every_stand_in_has_its_reason() -> None:
    assert all(len(reason) > 10 for reason in REASONS.values())
    assert PLACES.keys() <= REASONS.keys()


@pytest.mark.parametrize("language", ["", "rust", "mermaid", "text", "yaml", "json", "python"])
def test_a_block_of_which_nothing_is_known_is_not_tried_and_so_fails(language: str) -> None:
    text = '{"what": "is this"}\n' if language in ("yaml", "json") else "print(1)\n"
    assert tried_how(Block("docs/index.md", 1, language, text)) is None
