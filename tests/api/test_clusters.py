"""The clusters' document, and the settings: strict, refused as a whole."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dispatch.access import Wanted
from dispatch.clusters import DEFAULT_PLAN, Cluster, Overrides, parse_clusters
from dispatch.documents import secret_of
from dispatch.errors import BadConfiguration, UnknownCluster
from dispatch.record.header import Spec
from dispatch.record.names import Action, Capability, Cause
from dispatch.settings import Settings, from_environment, state_directory
from dispatch.store.memory import MemoryRecords
from dispatch.wiring import Edges, Wiring
from tests.functions.world import CLUSTERS, HandSetClock, MadeUpCluster


def document(*clusters: dict[str, Any]) -> str:
    return json.dumps({"schema": "dispatch.clusters.v1", "clusters": clusters})


LOCAL = {"name": "here", "adapter": "local", "settings": {"spool": "/nowhere"}}


def test_a_document_is_read_with_its_defaults() -> None:
    (one,) = parse_clusters(document(LOCAL)).clusters
    assert (one.start_retries, one.shards, one.plan) == (2, 1, DEFAULT_PLAN)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("{", "character"),
        ("{}", "schema"),
        ('{"schema":"dispatch.clusters.v2","clusters":[]}', "schema"),
        ('{"schema":"dispatch.clusters.v1","clusters":[],"clusters":[]}', "twice"),
        (document({**LOCAL, "colour": "blue"}), "colour"),
        (document({**LOCAL, "adapter": "pbs"}), "adapter"),
        (document({**LOCAL, "name": "has space"}), "name"),
        (document({**LOCAL, "shards": 3}), "shards"),
        (document(LOCAL, LOCAL), "twice"),
        (document({**LOCAL, "settings": {"name": "other"}}), "beside"),
        (document({**LOCAL, "plan": {"default": {"action": "pray"}}}), "pray"),
        (document({**LOCAL, "lease_s": 5}), "lease_s"),
        (document({**LOCAL, "brakes": {"paused": True}}), "paused"),
        (document(LOCAL)[:-1] + ',"access":{"rules":[{"who":["x"]}]}}', "team 'x'"),
        (document(LOCAL)[:-1] + ',"access":{}}', "access.rules"),
    ],
)
def test_a_document_is_refused_as_a_whole_with_its_reason(text: str, word: str) -> None:
    with pytest.raises(BadConfiguration, match=word):
        parse_clusters(text)


def test_a_block_that_its_adapter_does_not_understand_refuses_the_document() -> None:
    bad = {**LOCAL, "name": "bad", "settings": {"spool": "/nowhere", "sploo": 1}}
    wiring = Wiring(Settings(clusters=document(LOCAL, bad)))
    with pytest.raises(BadConfiguration, match=r"bad.*settings\.sploo"):
        _ = wiring.clusters


def test_an_unknown_cluster_is_answered_with_those_that_are() -> None:
    with pytest.raises(UnknownCluster, match="here"):
        parse_clusters(document(LOCAL)).named("there")


def test_the_default_plan_asks_a_person_about_what_it_does_not_know() -> None:
    assert DEFAULT_PLAN.rule(Cause.OUT_OF_MEMORY).action is Action.HOLD
    assert DEFAULT_PLAN.rule(Cause.LOST).action is Action.HOLD
    assert DEFAULT_PLAN.rule(Cause.PREEMPTED).action is Action.RESUBMIT
    assert DEFAULT_PLAN.rule(Cause.APP_ERROR).action is Action.FAIL


def test_overrides_take_the_place_of_what_the_adapter_declares() -> None:
    declared = MadeUpCluster("main", HandSetClock()).declare()
    overrides = Overrides(node_loss_window_s=900, without=(Capability.GATED_START,))
    applied = overrides.applied(declared)
    assert applied.node_loss_window_s == 900
    assert not applied.can(Capability.GATED_START)
    assert applied.can(Capability.HOLD_PENDING)
    assert Overrides().applied(declared) == declared


def test_overrides_that_do_not_fit_are_refused() -> None:
    declared = MadeUpCluster("main", HandSetClock()).declare()
    with pytest.raises(BadConfiguration, match="call_bound"):
        Overrides(call_bound_s=1).applied(declared)


# --- hot reload -------------------------------------------------------------------------------


class Reloaded:
    """A wiring on a document in a file, with a clock that is set by hand."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = HandSetClock()
        self.opened: list[Cluster] = []
        self.write(document(LOCAL))
        self.wiring = Wiring(
            Settings(clusters=f"file:{path}", clusters_every_s=60),
            Edges(self.clock),
            store=MemoryRecords(lambda: "t"),
            opened=self._open,
        )

    def write(self, text: str) -> None:
        self.path.write_text(text)

    def _open(self, cluster: Cluster, edges: Edges) -> MadeUpCluster:
        self.opened.append(cluster)
        return MadeUpCluster(cluster.name, edges.clock)

    def names(self) -> list[str]:
        return [one.name for one in self.wiring.clusters.clusters]


@pytest.fixture
def reloaded(tmp_path: Path) -> Reloaded:
    return Reloaded(tmp_path / "clusters.json")


def test_a_changed_document_is_in_force_after_a_while(reloaded: Reloaded) -> None:
    assert reloaded.names() == ["here"]
    reloaded.write(document(LOCAL, {**LOCAL, "name": "new"}))
    assert reloaded.names() == ["here"]
    reloaded.clock.now += timedelta(seconds=61)
    assert reloaded.names() == ["here", "new"]


@pytest.mark.parametrize("text", ["{", document({**LOCAL, "settings": {}}), None])
def test_a_bad_document_leaves_the_last_good_one_in_force(
    reloaded: Reloaded, text: str | None
) -> None:
    assert reloaded.names() == ["here"]
    if text is None:
        reloaded.path.unlink()
    else:
        reloaded.write(text)
    reloaded.clock.now += timedelta(seconds=61)
    assert reloaded.names() == ["here"]
    assert isinstance(reloaded.wiring.clusters_refused, BadConfiguration)
    reloaded.write(document(LOCAL))
    reloaded.clock.now += timedelta(seconds=61)
    assert reloaded.names() == ["here"]
    assert reloaded.wiring.clusters_refused is None


def test_an_adapter_is_kept_until_its_configuration_changes(reloaded: Reloaded) -> None:
    first = reloaded.wiring.scheduler("here")
    assert reloaded.wiring.scheduler("here") is first
    reloaded.write(document({**LOCAL, "settings": {"spool": "/elsewhere"}}))
    reloaded.clock.now += timedelta(seconds=61)
    assert reloaded.wiring.scheduler("here") is not first
    assert len(reloaded.opened) == 2


# --- what a submission means on a cluster ------------------------------------------------------

SLURM: dict[str, Any] = {
    "name": "hpc",
    "adapter": "slurm",
    "settings": {
        "url": "https://slurm.example.com:6820",
        "user": "dispatch",
        "sign_in": {"kind": "hs256", "secret": "file:/nowhere"},
        "queues": {"gpu": {"partition": "gpu"}, "cpu": {"partition": "cpu"}},
        "default_queue": "cpu",
    },
}
EKS: dict[str, Any] = {
    "name": "cloud",
    "adapter": "eks",
    "settings": {
        "access": {"kind": "eks", "cluster_name": "prod", "region": "eu-west-1"},
        "teams": [{"owners": ["oidc:*#ada"], "namespace": "vision"}],
        "kueue_queue": "shared",
    },
}


@pytest.mark.parametrize(
    ("cluster", "spec", "owner", "wanted"),
    [
        (LOCAL, {}, "a", Wanted("here")),
        (LOCAL, {"queue": "q", "account": "x"}, "a", Wanted("here", ("q",), "x")),
        (SLURM, {}, "a", Wanted("hpc", ("cpu",), None, "dispatch")),
        (SLURM, {"queue": "gpu"}, "a", Wanted("hpc", ("gpu",), None, "dispatch")),
        (EKS, {}, "oidc:x#ada", Wanted("cloud", ("shared",), None, "vision")),
        (EKS, {"queue": "q"}, "oidc:x#bo", Wanted("cloud", ("q",), None, None)),
        (EKS, {"eks": {"kueue_queue": "k"}}, "oidc:x#ada", Wanted("cloud", ("k",), None, "vision")),
    ],
)
def test_queue_and_identity_are_those_that_the_cluster_would_use(
    cluster: dict[str, Any], spec: dict[str, Any], owner: str, wanted: Wanted
) -> None:
    wiring = Wiring(Settings(clusters=document(cluster)))
    asked = Spec.model_validate({"name": "x", "command": ("true",), **spec}, strict=False)
    assert wiring.wanted(cluster["name"], asked, owner) == wanted


def test_a_principal_with_a_user_of_its_own_runs_as_that_user() -> None:
    settings = {**SLURM["settings"], "run_as": {"iam:ada": "ada"}}
    wiring = Wiring(Settings(clusters=document({**SLURM, "settings": settings})))
    spec = Spec(name="x", command=("true",))
    assert wiring.wanted("hpc", spec, "iam:ada").run_as == "ada"
    assert wiring.wanted("hpc", spec, "iam:bo").run_as is None


# --- settings ---------------------------------------------------------------------------------


def test_settings_come_from_the_environment() -> None:
    settings = from_environment(
        {
            "DISPATCH_TABLE": "records",
            "DISPATCH_CLUSTERS": CLUSTERS,
            "DISPATCH_QUEUE_URL": "https://sqs.example.com/q",
            "DISPATCH_EVENT_BUS": "bus",
            "AWS_LAMBDA_FUNCTION_NAME": "dispatch-supervisor",
            "DISPATCH_CLUSTERS_EVERY_S": "5",
        }
    )
    assert (settings.table, settings.supervisor) == ("records", "dispatch-supervisor")
    assert settings.clusters_every_s == 5


@pytest.mark.parametrize(
    ("environ", "word"),
    [
        ({}, "DISPATCH_TABLE"),
        ({"DISPATCH_TABLE": "t", "DISPATCH_SQLITE": "f"}, "either"),
        ({"DISPATCH_TABLE": "t", "DISPATCH_CLUSTERS_EVERY_S": "soon"}, "soon"),
    ],
)
def test_settings_that_do_not_say_where_records_are_are_refused(
    environ: dict[str, str], word: str
) -> None:
    with pytest.raises(BadConfiguration, match=word):
        from_environment(environ)


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"HOME": "/home/ada"}, "/home/ada/.local/state/dispatch"),
        ({"HOME": "/home/ada", "XDG_STATE_HOME": "/state"}, "/state/dispatch"),
        ({"HOME": "/home/ada", "XDG_STATE_HOME": "relative"}, "/home/ada/.local/state/dispatch"),
        ({"HOME": "/home/ada", "DISPATCH_STATE": "/elsewhere"}, "/elsewhere"),
    ],
)
def test_the_state_folder_follows_xdg_unless_it_is_told(environ: dict[str, str], path: str) -> None:
    assert state_directory(environ) == Path(path)


def test_what_is_not_configured_is_said_by_name() -> None:
    wiring = Wiring(Settings(table="t"))
    for name, word in [("queue", "DISPATCH_QUEUE_URL"), ("bus", "DISPATCH_EVENT_BUS")]:
        with pytest.raises(BadConfiguration, match=word):
            getattr(wiring, name)
    with pytest.raises(BadConfiguration, match="DISPATCH_CLUSTERS"):
        _ = wiring.clusters


def test_a_secret_is_read_from_where_its_reference_says(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("s3cret")
    assert secret_of(f"file:{tmp_path}/key") == "s3cret"
    with pytest.raises(BadConfiguration):
        secret_of(f"file:{tmp_path}/nothing")
    with pytest.raises(BadConfiguration, match="kubernetes"):
        secret_of("kubernetes:ns/name/key")
