"""Who I am, what a brake says, what looks like a secret, and what a cluster lost."""

from __future__ import annotations

import json

from tests.cli.conftest import Shell
from tests.client.network import Handlers
from tests.functions.world import ADA, CLUSTERS, World


def ruled(shell: Shell, access: object) -> None:
    world = World(clusters=json.dumps({**json.loads(CLUSTERS), "access": access}))
    shell.world, shell.network = world, lambda: Handlers(world)


def test_whoami_without_rules_says_that_everything_may_be_done(shell: Shell) -> None:
    done = shell("whoami")
    assert (done.exit_code, done.stdout.strip()) == (0, ADA)
    assert "no rules" in done.stderr


def test_whoami_says_what_the_rules_grant(shell: Shell) -> None:
    rule = {"who": ["*"], "submit": [{"clusters": ["main"]}], "intents": {"cancel": "own"}}
    ruled(shell, {"rules": [rule]})
    done = shell("whoami")
    assert done.exit_code == 0, done.stderr
    assert ADA in done.stdout
    assert "clusters main" in done.stdout
    assert "own jobs" in done.stdout
    assert json.loads(shell("whoami", "--json").stdout)["may"]["intents"] == {"cancel": "own"}


def test_what_may_not_be_done_is_refused_with_what_to_do_next(shell: Shell) -> None:
    ruled(shell, {"rules": []})
    done = shell("submit", "-c", "main", "--", "true")
    assert done.exit_code == 1
    assert "may not submit to cluster main" in done.stderr


def test_a_loss_is_accepted_with_a_reason(shell: Shell) -> None:
    done = shell("clusters", "accept-loss", "main", "--reason", "rebuilt")
    assert done.exit_code == 0, done.stderr
    assert ADA in done.stdout
    assert (
        "2026-11-29"
        in json.loads(shell("clusters", "accept-loss", "main", "--json").stdout)["until"]
    )
    assert shell("clusters", "accept-loss", "moon").exit_code == 3


def test_the_brakes_of_a_cluster_stand_in_the_list(shell: Shell) -> None:
    document = json.loads(CLUSTERS)
    document["clusters"][0]["brakes"] = {"paused": "until Monday"}
    world = World(clusters=json.dumps(document))
    shell.world, shell.network = world, lambda: Handlers(world)
    assert "paused: until Monday" in shell("clusters", "list").stdout


def test_a_plain_secret_is_refused_and_can_be_insisted_on(shell: Shell) -> None:
    key = "AKIA" + "IOSFODNN7EXAMPLE"
    words = ("submit", "-c", "main", "-e", f"MINE={key}")
    refused = shell(*words, "--", "true")
    assert refused.exit_code == 1
    assert "spec.env.MINE" in refused.stderr
    assert key not in refused.stderr
    assert shell(*words, "--allow-plain", "MINE", "--", "true").exit_code == 0
