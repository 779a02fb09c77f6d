"""What is sent: complete, escaped, within the server's limits, and never able to delete itself."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dispatch.record.header import Adjust, EksSpec, Spec
from dispatch.schedulers.eks.lint import MAX_ARGUMENT_BYTES, lint
from dispatch.schedulers.eks.manifest import escape, job_manifest, service_manifest
from dispatch.schedulers.eks.marks import EVIDENCE, object_name
from dispatch.schedulers.eks.settings import EksSettings, Team, Toleration
from dispatch.schedulers.scheduler import StartOrder, Tag
from tests.fakes.kube.kubelet import expand
from tests.fakes.kube.validation import DNS_LABEL, decode, new_job
from tests.schedulers.eks.world import NAMESPACE, settings_of

LONGEST = Tag("j" + "0" * 40, 999_999, 999_999, "a" * 64, 7)


def spec(**changes: Any) -> Spec:
    return Spec(**{"name": "work", "image": "work:1", "command": ("train",), **changes})


def made(
    asked: Spec | None = None,
    *,
    tag: Tag = LONGEST,
    settings: EksSettings | None = None,
    adjust: Adjust | None = None,
    team: Team | None = None,
) -> dict[str, Any]:
    order = StartOrder(tag, asked or spec(), adjust, "iam:somebody", in_place=True)
    settings = settings or settings_of()
    return job_manifest(order, team or settings.teams[0], settings)


def container(manifest: dict[str, Any]) -> dict[str, Any]:
    (only,) = manifest["spec"]["template"]["spec"]["containers"]
    found: dict[str, Any] = only
    return found


def full() -> dict[str, Any]:
    """Return a manifest in which everything stands that can."""
    asked = spec(
        command=None,
        script="#!/bin/sh\necho $HOME\n",
        env={"A": "1"},
        secrets={"KEY": "kubernetes:keys/one"},
        nodes=10_000,
        memory_mb_per_node=1024,
        gpus_per_node=8,
        time_limit_s=60,
        workdir="/work",
        labels={"team": "red"},
        eks=EksSpec(priority_class="high", node_selector={"pool": "gpu"}, shared_memory_mb=64),
    )
    settings = settings_of(
        tolerations=(Toleration(key="nvidia.com/gpu", effect="NoSchedule"),),
        image_pull_secrets=("pull",),
        node_selector={"arch": "amd64"},
    )
    team = Team(owners=("*",), namespace=NAMESPACE, service_account="trainer")
    adjust = Adjust(memory_mb_per_node=2048, avoid_nodes=("n1", "n2"))
    return made(asked, settings=settings, adjust=adjust, team=team)


def test_dispatch_alone_starts_anything_again_and_nothing_deletes_itself() -> None:
    job = full()["spec"]
    assert job["backoffLimit"] == 0
    assert job["podReplacementPolicy"] == "Failed"
    assert job["template"]["spec"]["restartPolicy"] == "Never"
    assert {r["action"] for r in job["podFailurePolicy"]["rules"]} == {"FailJob"}
    assert "ttlSecondsAfterFinished" not in job
    assert job["suspend"] is True
    assert job["template"]["metadata"]["finalizers"] == [EVIDENCE]


def test_a_manifest_is_accepted_by_a_strict_server() -> None:
    for body in (made(), full()):
        decode("jobs", body)
        new_job(body)
    decode("services", service_manifest(LONGEST, NAMESPACE, "uid"))


def test_names_fit_with_the_longest_id_and_the_last_index() -> None:
    name = object_name(LONGEST)
    assert len(f"{name}-9999") <= 63
    assert DNS_LABEL.match(f"{name}-9999")


def test_labels_hold_the_tag_within_their_limits() -> None:
    for labels in (full()["metadata"]["labels"], full()["spec"]["template"]["metadata"]["labels"]):
        assert all(len(value) <= 63 for value in labels.values())
        assert labels["dispatch/job"] == LONGEST.job


@given(st.text())
def test_whatever_a_user_writes_comes_back_from_the_kubelets_expansion(written: str) -> None:
    known = {"HOME": "/root", "A": "b"}
    assert expand(escape(written), known) == written


def test_a_dollar_in_command_script_and_environment_is_escaped() -> None:
    asked = spec(command=("sh", "-c", "echo $HOME $(A) $$"), env={"A": "$(B) costs $5"})
    manifest = container(made(asked))
    assert manifest["command"] == ["sh", "-c", "echo $$HOME $$(A) $$$$"]
    given_env = {e["name"]: e.get("value") for e in manifest["env"]}
    assert given_env["A"] == "$$(B) costs $$5"
    script = container(made(spec(command=None, script="#!/bin/sh\necho $X\n")))
    given_env = {e["name"]: e.get("value") for e in script["env"]}
    assert given_env["DISPATCH_SCRIPT"] == "#!/bin/sh\necho $$X\n"
    assert '"$$DISPATCH_SCRIPT"' in script["command"][2]


def test_the_plan_adjusts_memory_and_nodes() -> None:
    adjust = Adjust(memory_mb_per_node=2048, avoid_nodes=("n1", "n2"))
    manifest = made(spec(memory_mb_per_node=1024), adjust=adjust)
    assert container(manifest)["resources"]["limits"]["memory"] == "2048Mi"
    affinity = manifest["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    # A field selector takes one value each.
    assert [f["values"] for f in term["matchFields"]] == [["n1"], ["n2"]]


def test_gpus_are_asked_for_as_their_limit() -> None:
    asked = spec(gpus_per_node=8, eks=EksSpec(gpu_resource="amd.com/gpu"))
    resources = container(made(asked))["resources"]
    assert resources["limits"]["amd.com/gpu"] == resources["requests"]["amd.com/gpu"] == "8"


def test_a_pod_speaks_to_the_cluster_only_as_its_team() -> None:
    assert made()["spec"]["template"]["spec"]["automountServiceAccountToken"] is False
    pod = full()["spec"]["template"]["spec"]
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == ("trainer", True)


def test_kueue_gets_the_queue_and_its_own_suspension() -> None:
    settings = settings_of(kueue_queue="team")
    manifest = made(settings=settings)
    assert manifest["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"
    assert "dispatch/suspended-for" not in manifest["metadata"]["annotations"]
    named = made(spec(eks=EksSpec(kueue_queue="other")), settings=settings)
    assert named["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "other"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"image": None}, "image"),
        ({"image": "two words"}, "image"),
        ({"tasks_per_node": 2}, "tasks_per_node"),
        ({"account": "a"}, "account"),
        ({"output": "/tmp/x"}, "output"),
        ({"priority": 1}, "priority"),
        ({"queue": "q"}, "queue"),
        ({"workdir": "here"}, "workdir"),
        ({"secrets": {"K": "ssm:/a/b"}}, "secrets.K"),
        ({"secrets": {"K": "kubernetes:Bad_Name/k"}}, "secrets.K"),
        ({"secrets": {"K": "kubernetes:name"}}, "secrets.K"),
        ({"command": ("",)}, "command"),
        ({"command": ("ü" * (MAX_ARGUMENT_BYTES // 2 + 1),)}, "command"),
        ({"command": ("x",) + ("y" * 100_000,) * 11}, "command"),
        ({"command": None, "script": "#!" + "x" * MAX_ARGUMENT_BYTES}, "script"),
        ({"eks": EksSpec(node_selector={"a b": "c"})}, "eks.node_selector"),
        ({"eks": EksSpec(node_selector={"a": "c d"})}, "eks.node_selector.a"),
        ({"eks": EksSpec(priority_class="Bad_Class")}, "eks.priority_class"),
        ({"eks": EksSpec(gpu_resource="gpu")}, "eks.gpu_resource"),
        ({"eks": EksSpec(kueue_queue="q")}, "eks.kueue_queue"),
    ],
)
def test_what_the_server_would_refuse_is_refused_by_its_field(
    changes: dict[str, Any], field: str
) -> None:
    (said,) = lint(spec(**changes), settings_of())
    assert f"field '{field}'" in said


def test_what_fits_is_let_through() -> None:
    assert lint(spec(), settings_of()) == []
    queued = spec(queue="team", eks=EksSpec(kueue_queue="team"))
    assert lint(queued, settings_of(kueue_queue="team")) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"teams": ()},
        {"teams": (Team(owners=("*",), namespace="ml"),), "unknown": 1},
        {"page_size": 0},
        {"connect_timeout_s": 20, "request_timeout_s": 10},
        {"call_bound_s": 100},
        {"kueue_queue": "Bad_Name"},
    ],
)
def test_settings_that_dont_fit_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        settings_of(**changes)
