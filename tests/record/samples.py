"""One sample at least of everything that may be written; their bytes are the golden ones."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from dispatch.record import fact as facts
from dispatch.record.codec import Entry, spec_digest
from dispatch.record.control import Control
from dispatch.record.evidence import Sighting
from dispatch.record.header import (
    Adjust,
    Declarations,
    EksSpec,
    Header,
    Lineage,
    LocalSpec,
    Plan,
    Rule,
    SlurmSpec,
    Spec,
    Trainer,
    TrainingRuntime,
)
from dispatch.record.names import (
    Action,
    Capability,
    Cause,
    IntentKind,
    ObjectState,
    Outcome,
    ReplyResult,
    UnmatchedPolicy,
)

AT = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
LATER = datetime(2026, 1, 5, 12, 2, 0, 250_000, tzinfo=UTC)
SAID: dict[str, Any] = {"at": AT, "by": "supervisor-1"}
REF = "c1/4711/1767614400"

SPEC = Spec(name="train", command=("python", "train.py"))
WHOLE_SPEC = Spec(
    name="train-7.b",
    script='#!/bin/sh\nexec torchrun train.py "$@"\n',
    image="registry.example/train:7",
    env={"LR": "0.1", "EMPTY": ""},
    secrets={"TOKEN": "ssm:/train/token"},
    nodes=2,
    tasks_per_node=8,
    cpus_per_node=96,
    memory_mb_per_node=512_000,
    gpus_per_node=8,
    time_limit_s=86_400,
    queue="gpu",
    account="research",
    workdir="/work",
    output="/logs/%j",
    labels={"team": "Größe ✓"},
    priority=-5,
    slurm=SlurmSpec(
        qos="high", constraint="a100", reservation="r1", exclude=("n1",), gres="gpu:8", nice=3
    ),
    eks=EksSpec(
        kueue_queue="q",
        priority_class="p",
        node_selector={"zone": "a"},
        gpu_resource="nvidia.com/gpu",
        shared_memory_mb=64,
    ),
    local=LocalSpec(grace_s=9),
)
DECLARATIONS = Declarations(
    adapter="slurm",
    cluster="c1",
    capabilities=(Capability.LOOKUP, Capability.GATED_START, Capability.HOLD_PENDING),
    node_loss_window_s=300,
    call_bound_s=120,
    landing_bound_s=30,
    request_timeout_s=10,
    retention_s=300,
    save_window_s=20,
    clock_skew_s=5,
    lookup_lag_s=90,
)


def header(spec: Spec = SPEC, **changes: Any) -> Header:
    """A header of this spec."""
    fields: dict[str, Any] = {
        "job_id": "jabcdefgh",
        "idempotency_key": "key-1",
        "spec": spec,
        "spec_digest": spec_digest(spec),
        "plan": Plan(default=Rule(action=Action.HOLD)),
        "declarations": DECLARATIONS,
        "created_by": "ann",
        "created_at": AT,
    }
    return Header(**{**fields, **changes})


def sighting(state: ObjectState = ObjectState.RUNNING, **fields: Any) -> Sighting:
    """One object as a look showed it."""
    shown: dict[str, Any] = {
        "ref": REF,
        "n": 1,
        "a": 1,
        "spec_digest": spec_digest(SPEC),
        "generation": 0,
        "source": "jobs",
    }
    return Sighting(**{**shown, **fields}, state=state)


def control(kind: IntentKind, **fields: Any) -> Control:
    """A control intent."""
    return Control(kind=kind, id=f"{kind}-1", by="bob", at=AT, **fields)


TRAINJOB_SPEC = Spec(
    name="train",
    command=("torchrun", "train.py"),
    nodes=4,
    eks=EksSpec(
        kind="trainjob",
        runtime=TrainingRuntime(name="torch-distributed", kind="TrainingRuntime", jobs=("node",)),
        trainer=Trainer(processes_per_node=8),
    ),
)

HEADERS: dict[str, Header] = {
    "header_least": header(),
    "header_trainjob": header(TRAINJOB_SPEC),
    "header_whole": header(
        WHOLE_SPEC,
        plan=Plan(
            default=Rule(action=Action.FAIL),
            causes={
                Cause.OUT_OF_MEMORY: Rule(
                    action=Action.RESUBMIT, limit=2, memory_factor=1.5, after_limit=Action.FAIL
                ),
                Cause.PREEMPTED: Rule(
                    action=Action.REQUEUE, backoff_s=60, in_place=True, avoid_node=True
                ),
            },
            pending_limit_s=3600,
            start_backoff_s=30,
        ),
        start_retries=5,
        unmatched=UnmatchedPolicy.MANUAL,
        lineage=Lineage(supersedes="jolderjob", generation=3),
    ),
}

CONTROLS: dict[str, Control] = {
    "control_cancel": control(IntentKind.CANCEL, reason="wrong data"),
    "control_hold": control(IntentKind.HOLD),
    "control_release": control(IntentKind.RELEASE),
    "control_requeue": control(IntentKind.REQUEUE),
    "control_resubmit": control(IntentKind.RESUBMIT),
    "control_give_up": control(IntentKind.GIVE_UP, reason="✗"),
    "control_abandon": control(IntentKind.ABANDON, target="2.1"),
}

FACTS: dict[str, facts.Fact] = {
    "fact_authorized": facts.Authorized(**SAID, n=1, trigger="initial", taken_at=AT),
    "fact_authorized_adjusted": facts.Authorized(
        **SAID,
        n=2,
        trigger="rec:1.1:f",
        taken_at=LATER,
        cause=Cause.OUT_OF_MEMORY,
        adjust=Adjust(memory_mb_per_node=768_000, avoid_nodes=("n1", "n2")),
    ),
    "fact_attempt": facts.Attempt(**SAID, n=1, a=1, deadline=LATER),
    "fact_replied_started": facts.Replied(
        **SAID, n=1, a=1, result=ReplyResult.STARTED, ref=REF, detail="quota: 3 of 10"
    ),
    "fact_replied_refused": facts.Replied(
        **SAID,
        n=1,
        a=2,
        result=ReplyResult.REFUSED,
        cause=Cause.NAME_TAKEN,
        detail="AlreadyExists",
    ),
    "fact_replied_not_sent": facts.Replied(**SAID, n=1, a=3, result=ReplyResult.NOT_SENT),
    "fact_observed": facts.Observed(
        **SAID,
        taken_at=AT,
        seen_at=LATER,
        objects=(
            sighting(),
            sighting(
                ObjectState.FAILED,
                ref="ns/d-x/uid-2",
                a=2,
                cause=Cause.NODE_LOST,
                restarts=3,
                held=True,
                holder="admin",
                exit_code=137,
                signal=9,
                nodes=("n1", "n2"),
                started_at=AT,
                ended_at=LATER,
                lost_at=LATER,
                reason="node down",
                digest="0f" * 32,
            ),
            sighting(ObjectState.GONE, ref="c1/9/9", cause=Cause.LOST, source="absence"),
        ),
    ),
    "fact_unmatched": facts.Unmatched(**SAID, n=1, a=1, taken_at=LATER),
    "fact_canonical": facts.Canonical(**SAID, n=1, ref=REF),
    "fact_retired": facts.Retired(**SAID, ref=REF, reason="another object is the run"),
    "fact_expired": facts.Expired(**SAID, ref=REF, cause=Cause.UNSCHEDULABLE, trigger="pend:1.1"),
    "fact_released": facts.Released(**SAID, ref=REF),
    "fact_hold_call": facts.HoldCall(**SAID, ref=REF, run=1, restarts=0, deadline=LATER),
    "fact_requeue_call": facts.RequeueCall(
        **SAID,
        ref=REF,
        run=2,
        restarts=1,
        deadline=LATER,
        trigger="rec:1.2",
        cause=Cause.PREEMPTED,
    ),
    "fact_recovery_hold": facts.RecoveryHold(
        **SAID, cause=Cause.START_FAILED, trigger="start/1", detail="3 attempts failed"
    ),
    "fact_outcome_succeeded": facts.OutcomeFact(**SAID, state=Outcome.SUCCEEDED),
    "fact_outcome_failed": facts.OutcomeFact(
        **SAID, state=Outcome.FAILED, cause=Cause.TIMEOUT, detail="time limit"
    ),
    "fact_escalated": facts.Escalated(
        **SAID, key="foreign/x", code="foreign_object", detail="x isn't this record's"
    ),
    "fact_settled": facts.Settled(**SAID, taken_at=LATER),
}

ENTRIES: dict[str, Entry] = {**CONTROLS, **FACTS}
