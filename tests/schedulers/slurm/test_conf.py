"""What `dispatch clusters check` makes of a Slurm's own configuration."""

from __future__ import annotations

from typing import Any

import pytest

from dispatch.schedulers.slurm.conf import PATH, conf_lines, conf_of
from tests.schedulers.slurm.conftest import World, settings
from tests.schedulers.slurm.fake import Fault, recorded


def told(*, cluster: dict[str, Any] | None = None, **changed: Any) -> dict[str, tuple[bool, str]]:
    """Return the lines for the recorded configuration with some settings changed."""
    conf = conf_of(recorded("v0.0.45/conf")["body"])
    assert conf is not None
    lines = conf_lines(settings(**(cluster or {})), {**conf, **changed})
    return {line.what: (line.ok, line.detail) for line in lines}


def test_a_configuration_in_order_is_told_with_what_it_means() -> None:
    lines = told()
    assert all(ok for ok, _ in lines.values()), lines
    assert lines["MinJobAge"][1] == "300 s; 300 s are declared (bounds.retention_s)"
    assert "PREEMPTED" in lines["preemption"][1]
    assert "off in every job of ours" in lines["requeue settings"][1]
    assert "job_comment" in lines["accounting settings"][1]


def test_a_min_job_age_below_what_is_declared_is_wrong() -> None:
    assert not told(MinJobAge=60)["MinJobAge"][0]
    assert not told(MinJobAge=None)["MinJobAge"][0]


@pytest.mark.parametrize(
    ("mode", "word"), [("SUSPEND", "suspended"), ("REQUEUE", "cancelled"), ("OFF", "nothing")]
)
def test_each_preemption_mode_says_what_happens_to_ours(mode: str, word: str) -> None:
    ok, detail = told(PreemptMode=[mode])["preemption"]
    assert ok
    assert word in detail


def test_a_preemption_mode_that_nobody_knows_is_wrong() -> None:
    assert not told(PreemptMode=["SOMEHOW"])["preemption"][0]


def test_requeue_by_exit_code_and_the_wait_of_an_in_place_requeue_are_told() -> None:
    in_place = {"api": "v0.0.45", "in_place": True}
    detail = told(RequeueExit=["7"], cluster=in_place)["requeue settings"][1]
    assert "exit codes 7" in detail
    assert "waits 6 s" in detail
    assert "waits 121 s" in told(AuthInfo="", cluster=in_place)["requeue settings"][1]


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"AccountingStoreFlags": []}, "accounting settings"),
        ({"AccountingStorageType": ""}, "accounting settings"),
        ({"PrologFlags": []}, "prolog"),
        ({"SchedulerParameters": ["extra_constraints"]}, "extra"),
    ],
)
def test_what_the_settings_here_need_is_named_where_it_is_missing(
    changed: dict[str, Any], what: str
) -> None:
    wrong = {name for name, (ok, _) in told(**changed).items() if not ok}
    assert wrong == {what}


def test_settings_here_that_dont_need_it_are_content() -> None:
    names = {"accounting": "names", "tag_in_extra": False}
    lines = told(
        cluster=names,
        AccountingStoreFlags=[],
        Prolog=[],
        PrologFlags=[],
        SchedulerParameters=["extra_constraints"],
    )
    assert all(ok for ok, _ in lines.values()), lines
    assert "accounting settings" not in told(cluster={"accounting": "none"})


def test_hidden_jobs_are_told_where_jobs_run_as_others() -> None:
    run_as = {"run_as": {"ann": "other"}}
    assert "operator" in told(cluster=run_as, PrivateData=["jobs"])["private data"][1]
    assert "private data" not in told(PrivateData=["jobs"])


def test_the_check_reads_it_where_it_is_served_and_else_names_what_to_look_at(
    world: World,
) -> None:
    lines = {line.what: line.detail for line in world.scheduler().check()}
    assert "MinJobAge" in lines["settings"]
    assert "PreemptMode" in lines["settings"]
    body = recorded("v0.0.45/conf")["body"]
    body["slurm_conf"]["MinJobAge"] = 5
    served: tuple[int, Any] = (200, {"paths": {PATH: {}, "/slurm/v0.0.42/jobs/": {}}})
    world.fake.faults += [
        Fault("GET", "/openapi/v3", reply=served),
        Fault("GET", "v0.0.45/conf", reply=(200, body)),
    ]
    wrong = {line.what for line in world.scheduler().check() if not line.ok}
    assert wrong == {"MinJobAge"}
