"""Spec, plan, declarations and lineage: what a header may say (protocol §2)."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from dispatch.record.codec import decode_header, encode, envelope, refusal, spec_digest
from dispatch.record.header import Adjust, Declarations, Lineage, Plan, Rule, Spec
from dispatch.record.names import Action, Capability, Cause
from dispatch.record.view import View
from tests.record.samples import AT, DECLARATIONS, HEADERS, SPEC, WHOLE_SPEC, header

RUNTIME = {"name": "torch", "kind": "ClusterTrainingRuntime", "jobs": ("node",)}


def spec_refused(**changes: Any) -> tuple[str, str | None]:
    fields: dict[str, Any] = {"name": "train", "command": ("true",), **changes}
    with pytest.raises(ValidationError) as caught:
        Spec(**fields)
    met = refusal(caught.value)
    return met.rule, met.field


@pytest.mark.parametrize("name", ["DISPATCH_JOB_ID", "DISPATCH_", "DISPATCH_MINE"])
@pytest.mark.parametrize("where", ["env", "secrets"])
def test_an_environment_name_that_dispatch_sets_is_refused(where: str, name: str) -> None:
    assert spec_refused(**{where: {name: "ssm:/x"}}) == ("environment_reserved", where)


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A B", "A=B", "GRÖSSE", "A\n", "A\x00"])
def test_what_is_no_environment_name_is_refused(name: str) -> None:
    assert spec_refused(env={name: "1"}) == ("environment_name", "env")


def test_a_name_of_ones_own_is_taken() -> None:
    assert Spec(name="x", command=("true",), env={"dispatch_x": "1", "_A9": "2"}).env


def test_a_variable_is_given_plainly_or_by_reference_not_both() -> None:
    both = {"env": {"A": "1"}, "secrets": {"A": "ssm:/a"}}
    assert spec_refused(**both) == ("environment_twice", "env")


@pytest.mark.parametrize("reference", ["hunter2", "ssm:", "ssm: x", "vault:/x", "ssm:/x y"])
def test_a_secret_is_a_reference(reference: str) -> None:
    assert spec_refused(secrets={"A": reference}) == ("malformed", "secrets.A")


def test_there_is_one_thing_to_run() -> None:
    assert spec_refused(script="#!/bin/sh\n") == ("command_or_script", "command")
    assert spec_refused(command=None) == ("command_or_script", "command")
    assert spec_refused(command=None, script="echo x") == ("script_start", "script")
    assert spec_refused(command=()) == ("too_short", "command")


@pytest.mark.parametrize("changes", [{"command": ("a\x00b",)}, {"env": {"A": "\x00"}}])
def test_what_no_process_can_be_given_is_refused(changes: dict[str, Any]) -> None:
    rule, field = spec_refused(**changes)
    assert rule == "malformed"
    assert field in ("command.0", "env.A")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"nodes": 0}, "nodes"),
        ({"nodes": 1.0}, "nodes"),
        ({"nodes": True}, "nodes"),
        ({"cpus_per_node": 0}, "cpus_per_node"),
        ({"memory_mb_per_node": 0}, "memory_mb_per_node"),
        ({"gpus_per_node": -1}, "gpus_per_node"),
        ({"time_limit_s": 0}, "time_limit_s"),
        ({"name": ""}, "name"),
        ({"slurm": {"nice": -1}}, "slurm.nice"),
        ({"labels": {str(i): "" for i in range(65)}}, "labels"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_specs_field_out_of_its_range_is_refused(changes: dict[str, Any], field: str) -> None:
    _, met = spec_refused(**changes)
    assert met == field


def test_the_digest_is_the_specs_alone_and_the_same_everywhere() -> None:
    assert spec_digest(SPEC) == HEADERS["header_least"].spec_digest
    again = Spec(name="train", command=("python", "train.py"), nodes=1, env={})
    assert spec_digest(again) == spec_digest(SPEC)
    assert spec_digest(WHOLE_SPEC) != spec_digest(SPEC)
    assert len(spec_digest(SPEC)) == 64


def test_the_order_of_keys_does_not_matter_to_the_digest() -> None:
    one = Spec(name="x", command=("true",), env={"A": "1", "B": "2"})
    other = Spec(name="x", command=("true",), env={"B": "2", "A": "1"})
    assert spec_digest(one) == spec_digest(other)


def test_a_plan_answers_every_cause() -> None:
    plan = Plan(default=Rule(action=Action.HOLD), causes={Cause.TIMEOUT: Rule(action=Action.FAIL)})
    assert plan.rule(Cause.TIMEOUT).action is Action.FAIL
    for cause in set(Cause) - {Cause.TIMEOUT}:
        assert plan.rule(cause).action is Action.HOLD


def test_a_plan_needs_a_default() -> None:
    with pytest.raises(ValidationError) as caught:
        Plan.model_validate({"causes": {}})
    assert refusal(caught.value).field == "default"


@pytest.mark.parametrize("action", [Action.REQUEUE, Action.RESUBMIT])
def test_a_limit_is_an_end(action: Action) -> None:
    with pytest.raises(ValidationError) as caught:
        Rule(action=Action.RESUBMIT, after_limit=action)
    assert (refusal(caught.value).rule, refusal(caught.value).field) == (
        "after_limit",
        "after_limit",
    )


def test_memory_grows_or_stays_and_is_a_number() -> None:
    for factor in (0.5, 17.0, float("nan"), float("inf")):
        with pytest.raises(ValidationError):
            Rule(action=Action.RESUBMIT, memory_factor=factor)


def declarations(**changes: Any) -> Declarations:
    return Declarations(**{**DECLARATIONS.model_dump(), **changes})


def test_a_call_must_fit_its_bound() -> None:
    assert declarations(call_bound_s=41).call_bound_s == 41
    with pytest.raises(ValidationError) as caught:
        declarations(call_bound_s=40)
    assert (refusal(caught.value).rule, refusal(caught.value).field) == (
        "call_bound",
        "call_bound_s",
    )


def test_capabilities_are_written_in_one_order_once() -> None:
    twice = declarations(capabilities=(Capability.OUTPUT, Capability.LOOKUP, Capability.OUTPUT))
    assert twice.capabilities == (Capability.LOOKUP, Capability.OUTPUT)
    assert twice.can(Capability.OUTPUT)
    assert not twice.can(Capability.HOLD_RUNNING)


@pytest.mark.parametrize(
    "lineage", [{"supersedes": "jolderjob", "generation": 0}, {"generation": 1}]
)
def test_a_generation_counts_from_a_first_job(lineage: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        Lineage(**lineage)
    assert (refusal(caught.value).rule, refusal(caught.value).field) == (
        "generation",
        "generation",
    )


@pytest.mark.parametrize("job_id", ["", "j", "Jabcdefgh", "1abcdefgh", "j-bcdefghi", "j" * 42])
def test_a_job_id_has_one_form(job_id: str) -> None:
    with pytest.raises(ValidationError) as caught:
        header(job_id=job_id)
    assert refusal(caught.value).field == "job_id"


def test_what_is_written_can_not_be_changed() -> None:
    written = header()
    with pytest.raises(ValidationError):
        written.created_by = "eve"  # type: ignore[misc]


def test_a_header_is_read_as_it_was_written() -> None:
    for sample in HEADERS.values():
        assert decode_header(envelope(sample)) == sample


@pytest.mark.parametrize(
    ("eks", "met"),
    [
        ({"kind": "trainjob"}, ("trainjob_runtime", "eks.runtime")),
        ({"runtime": RUNTIME}, ("trainjob_runtime", "eks.kind")),
        ({"trainer": {"processes_per_node": 2}}, ("trainjob_trainer", "eks.trainer")),
    ],
)
def test_a_trainjob_has_a_runtime_and_nothing_else_has_one(
    eks: dict[str, Any], met: tuple[str, str]
) -> None:
    assert spec_refused(eks=eks) == met


def test_a_submissions_adjustment_is_bounded() -> None:
    with pytest.raises(ValidationError):
        Adjust(memory_mb_per_node=0)
    assert Adjust() == Adjust(avoid_nodes=())


def test_a_view_counts_and_cuts_its_entries() -> None:
    stored = envelope(HEADERS["header_least"])
    view = View("jabcdefgh", stored).with_entries((stored, stored, stored))
    assert (view.revision, view.at(1).revision, view.at(0).entries) == (3, 1, ())
    assert view.job_id == "jabcdefgh"


def test_times_are_kept_to_the_microsecond() -> None:
    moment = AT.replace(microsecond=1)
    assert '"created_at":"2026-01-05T12:00:00.000001Z"' in encode(header(created_at=moment))
