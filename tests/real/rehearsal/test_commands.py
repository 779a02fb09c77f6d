"""The command line, told nothing but the stack's outputs; and rules of who may do what."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import boto3
import pytest
from typer.testing import CliRunner, Result

from dispatch.cli.app import app
from dispatch.cli.exits import Code
from tests.real.rehearsal.deployment import CLUSTER, Deployment
from tests.real.rehearsal.engine import REGION, until

Command = Callable[..., Result]

RULES = {
    "teams": {
        "platform": [{"principal": "iam:arn:aws:iam::*:user/ada"}],
        "vision": [{"principal": "iam:arn:aws:iam::*:user/vera"}],
    },
    "rules": [
        {"who": ["platform"], "admin": True},
        {"who": ["vision"], "read": "all", "intents": {"cancel": "own"}},
    ],
}


def command(deployed: Deployment, key: tuple[str, str], folder: Path) -> Command:
    """The command line of somebody who followed docs/how-to/deploy.md."""
    settings = {
        "DISPATCH_URL": deployed.outputs["Url"],
        "DISPATCH_AUTH": deployed.outputs["Auth"],
        "DISPATCH_CLUSTERS": f"ssm:{deployed.outputs['Clusters']}",
        "DISPATCH_STATE": str(folder / "state"),
        "AWS_REGION": deployed.outputs["Region"],
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ENDPOINT_URL": deployed.engine.endpoint,
        "AWS_ACCESS_KEY_ID": key[0],
        "AWS_SECRET_ACCESS_KEY": key[1],
        "COLUMNS": None,
    }

    def run(*words: str) -> Result:
        with pytest.MonkeyPatch.context() as patch:
            # As in a process of its own: nobody else's credentials are kept.
            patch.setattr(boto3, "DEFAULT_SESSION", None)
            return CliRunner().invoke(app, list(words), env=settings)

    return run


def job_file(shell: str) -> str:
    return f"name: by-command\ncluster: {CLUSTER}\ncommand: [sh, -c, {shell}]\n"


@pytest.fixture
def as_ada(deployed: Deployment, ada_s_key: tuple[str, str], tmp_path: Path) -> Command:
    return command(deployed, ada_s_key, tmp_path)


@pytest.fixture(scope="module")
def operator_s_key(deployed: Deployment) -> tuple[str, str]:
    """Of somebody who may read the clusters' document, and call the API."""
    return deployed.person("olga", "execute-api:Invoke", "ssm:GetParameter")


def test_whoami_says_whom_the_gateway_let_in(as_ada: Command) -> None:
    said = as_ada("whoami")
    assert said.exit_code == 0, said.output
    assert "iam:arn:aws:iam::000000000000:user/ada" in said.output
    assert "there are no rules" in said.output


def test_clusters_list_says_what_the_document_configures(as_ada: Command) -> None:
    said = as_ada("clusters", "list", "--json")
    assert said.exit_code == 0, said.output
    (one,) = [json.loads(line) for line in said.stdout.splitlines()]
    assert (one["name"], one["adapter"]) == (CLUSTER, "local")


def test_clusters_check_tries_a_cluster_of_the_deployed_document(
    deployed: Deployment, operator_s_key: tuple[str, str], tmp_path: Path
) -> None:
    check = command(deployed, operator_s_key, tmp_path)
    said = check("clusters", "check", CLUSTER, "--json")
    assert said.exit_code == 0, said.output
    seen = {one["what"]: one["ok"] for one in map(json.loads, said.stdout.splitlines())}
    assert {"reach", "identity", "rights"} <= set(seen)
    assert all(seen.values()), said.output
    unknown = check("clusters", "check", "nowhere")
    assert unknown.exit_code != 0
    assert CLUSTER in unknown.output, "it names those that there are"


def test_clusters_check_is_refused_to_whom_the_document_is(
    as_ada: Command, deployed: Deployment
) -> None:
    said = as_ada("clusters", "check", CLUSTER)
    assert said.exit_code != 0
    assert deployed.outputs["Clusters"] in said.output, "it names what couldn't be read"


def test_a_job_is_submitted_waited_for_and_read_by_commands_alone(
    as_ada: Command, tmp_path: Path, deployed: Deployment
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(job_file("echo so far"))
    said = as_ada("submit", str(file), "--json")
    assert said.exit_code == 0, said.output
    job = json.loads(said.stdout)["job_id"]

    def over() -> bool:
        deployed.look()
        status = json.loads(as_ada("status", job, "--json").stdout)
        return bool(status.get("outcome") == "succeeded")

    until(f"job {job} succeeds", over)
    assert "so far" in as_ada("logs", job).stdout


# --- rules ----------------------------------------------------------------------------------------


@pytest.fixture
def ruled(
    deployed: Deployment, as_ada: Command, tmp_path: Path
) -> Iterator[tuple[Command, Command]]:
    """Two people under rules: who administers, and who only reads."""
    key = deployed.person("vera", "execute-api:Invoke")
    deployed.configure({CLUSTER: str(deployed.spool)}, access=RULES, cold=("Intents",))
    as_vera = command(deployed, key, tmp_path)
    until("the rules are in force", lambda: "vision" in as_vera("whoami").output)
    yield as_ada, as_vera
    deployed.configure({CLUSTER: str(deployed.spool)}, cold=("Intents",))
    until("there are no rules", lambda: "no rules" in as_vera("whoami").output)


def test_rules_hold_for_who_signed_and_every_refusal_is_logged_with_its_actor(
    deployed: Deployment, ruled: tuple[Command, Command], tmp_path: Path
) -> None:
    as_ada, as_vera = ruled
    may = json.loads(as_vera("whoami", "--json").stdout)["may"]
    assert (may["teams"], may["submit"], may["read"]) == (["vision"], [], "all")
    file = tmp_path / "job.yaml"
    file.write_text(job_file("sleep 600"))
    refused = as_vera("submit", str(file))
    assert refused.exit_code == Code.REFUSED, refused.output
    job = json.loads(as_ada("submit", str(file), "--json").stdout)["job_id"]
    assert as_vera("status", job).exit_code == 0
    assert as_vera("cancel", job).exit_code == Code.REFUSED
    assert as_ada("cancel", job).exit_code == 0

    def refusals() -> list[str]:
        lines = deployed.logged("Intents")
        return [one["actor"] for one in lines if one.get("signal") == "access_refused"]

    until("both refusals are logged", lambda: len(refusals()) >= 2)
    assert set(refusals()) == {"iam:arn:aws:iam::000000000000:user/vera"}
