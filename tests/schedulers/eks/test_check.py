"""`dispatch clusters check`: each right by its name, and nothing is changed by asking."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from dispatch.schedulers.eks.check import RIGHTS, TRAINER_RIGHTS
from tests.fakes.kube import api
from tests.schedulers.eks.world import NAMESPACE, EksWorld

RBAC = Path(__file__).parents[3] / "infra" / "eks" / "rbac.yaml"


def bad(world: EksWorld) -> list[str]:
    return [f"{line.what}: {line.detail}" for line in world.scheduler.check() if not line.ok]


def test_a_cluster_as_it_should_be_passes_and_nothing_is_changed(world: EksWorld) -> None:
    version = world.kube.store.version
    assert bad(world) == []
    assert world.kube.store.version == version
    assert {line.what for line in world.scheduler.check()} == {
        "reach",
        "version",
        "clock",
        "identity",
        f"namespace {NAMESPACE}",
        f"rights in {NAMESPACE}",
        "rights on nodes",
    }


@pytest.mark.parametrize(("group", "resource", "verb"), RIGHTS)
def test_each_missing_right_is_named(world: EksWorld, group: str, resource: str, verb: str) -> None:
    world.kube.api.denied.add(f"{verb} {resource}")
    assert bad(world) == [f"rights in {NAMESPACE}: may not {verb} {resource}.{group}".rstrip(".")]


def test_nodes_are_a_right_of_their_own(world: EksWorld) -> None:
    world.kube.api.denied.add("get nodes")
    assert [line.partition(":")[0] for line in bad(world)] == ["rights on nodes"]


def test_what_else_is_wrong_is_said(world: EksWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    space = world.kube.store.get("namespaces", "", NAMESPACE)
    assert space is not None
    space["status"]["phase"] = "Terminating"
    monkeypatch.setattr(api, "VERSION", {"major": "1", "minor": "29+"})
    ahead = world.kube.now + timedelta(minutes=2)
    monkeypatch.setattr(world.scheduler._check, "_clock", lambda: ahead)
    assert [line.partition(":")[0] for line in bad(world)] == [
        "version",
        "clock",
        f"namespace {NAMESPACE}",
    ]


def test_a_token_that_is_refused_is_all_that_can_be_said(world: EksWorld) -> None:
    world.kube.api.tokens.clear()
    assert bad(world) == ["reach: 401 Unauthorized"]


def granted() -> dict[str, set[tuple[str, str, str]]]:
    """Return what each role of the RBAC file grants: group, resource, verb."""
    found: dict[str, set[tuple[str, str, str]]] = {}
    for document in yaml.safe_load_all(RBAC.read_text()):
        rules: list[dict[str, Any]] = document.get("rules", [])
        grants = {
            (g, r, v)
            for rule in rules
            for g in rule["apiGroups"]
            for r in rule["resources"]
            for v in rule["verbs"]
        }
        if rules:
            found[document["metadata"]["name"]] = grants
    return found


def test_the_roles_grant_what_is_checked_and_nothing_else() -> None:
    roles = granted()
    assert roles["dispatch-supervisor"] == set(RIGHTS)
    assert roles["dispatch-supervisor-trainer"] == set(TRAINER_RIGHTS)
    assert roles["dispatch-supervisor-cluster"] == {
        ("", "nodes", "get"),
        ("", "namespaces", "get"),
    }
    assert not any("*" in grant for grants in roles.values() for grant in grants)
