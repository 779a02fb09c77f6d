"""What a cluster would refuse of a submission, or not do as asked, said before it is sent. Pure.

It judges by what the cluster declares and its adapter knows; nothing is asked. That nothing is
found is no promise: the scheduler has the last word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dispatch.api.models import FindingAnswer, Severity, SubmitRequest
from dispatch.clusters import Cluster
from dispatch.record.codec import encode
from dispatch.record.header import Declarations, Plan, Rule, Spec
from dispatch.record.names import Action, Capability, Cause
from dispatch.screening import findings
from dispatch.store.records import MAX_ENTRY_BYTES

_ROOM = 8192
"""Bytes that a header needs beside spec and plan, at most."""

_SENTENCE = re.compile(
    r"(?:field '(?P<quoted>[^']+)'|(?P<bare>[a-z_]+(?:\.[A-Za-z0-9_]+)*)): (?P<rest>.+)", re.S
)


def lint(
    request: SubmitRequest, cluster: Cluster, declared: Declarations, refused: Sequence[str]
) -> tuple[FindingAnswer, ...]:
    """Return everything that would be refused of a submission, or not done as it asks.

    Args:
        request: What would be submitted.
        cluster: Where.
        declared: The cluster's declarations.
        refused: What its adapter refuses of the spec, each a sentence that names the field.
    """
    plan = request.plan or cluster.plan
    return (
        *_brakes(cluster),
        *(_of_the_adapter(one, request.spec) for one in refused),
        *_blocks(request.spec, declared),
        *_secrets(request),
        *_size(request.spec, plan),
        *(_plan(request.plan, request.spec, declared) if request.plan is not None else ()),
    )


def lint_rights(refused: str | None) -> Iterator[FindingAnswer]:
    """Yield that the caller may not submit it, where that is so; `refused` says what they asked."""
    if refused is not None:
        yield FindingAnswer(
            code="forbidden",
            field="cluster",
            detail=f"you may not {refused}",
            next="`dispatch whoami` says what you may; ask an administrator of Dispatch for more",
        )


def _brakes(cluster: Cluster) -> Iterator[FindingAnswer]:
    brakes = cluster.brakes
    if brakes.drained is not None:
        yield FindingAnswer(
            code="cluster_drained",
            field="cluster",
            detail=f"{cluster.name} takes no new jobs: {brakes.drained}",
            next="choose another cluster, or wait until its operators lift that",
        )
    for word, why in (("paused", brakes.paused), ("only observed", brakes.observed)):
        if why is not None:
            yield FindingAnswer(
                severity=Severity.WARNING,
                code="cluster_braked",
                field="cluster",
                detail=f"{cluster.name} is {word}, nothing begins to run there now: {why}",
                next="submit all the same, and it starts once that is lifted; or choose another",
            )


def _of_the_adapter(sentence: str, spec: Spec) -> FindingAnswer:
    met = _SENTENCE.fullmatch(sentence)
    if met is None:
        return FindingAnswer(code="refused", detail=sentence, next="choose another cluster")
    name = met["quoted"] or met["bare"]
    if name == "secrets" and met["bare"]:
        variable, _, _ = met["rest"].partition(" ")
        name = f"secrets.{variable}" if variable in spec.secrets else name
    return FindingAnswer(code="refused", field=name, detail=met["rest"], next=_cure(name, spec))


_CURES = {
    "account": "remove it, or name one that this queue takes",
    "command": "make it shorter: put what is long into a file that the job can read",
    "gpus_per_node": "remove it, or choose a cluster that lends GPUs",
    "output": "remove it and read the output with `dispatch logs`",
    "priority": "remove it, or give what the cluster knows",
    "queue": "name one that the cluster has, or leave it away for its own default",
    "script": "put it into the image or a file that the job can read",
    "secrets": "give a reference that this cluster can follow",
    "tasks_per_node": "ask for fewer, or for other nodes",
    "time_limit_s": "ask for less, or for a queue that allows it",
    "nodes": "ask for fewer, or for a queue that allows it",
    "workdir": "give an absolute path without a colon",
}


def _cure(field: str, spec: Spec) -> str:
    top = field.partition(".")[0]
    if top == "image":
        if spec.image is None:
            return "add image: REGISTRY/NAME:TAG"
        return "remove it, or choose a cluster that runs containers"
    return _CURES.get(top, "change it, or choose another cluster")


def _blocks(spec: Spec, declared: Declarations) -> Iterator[FindingAnswer]:
    """Yield the blocks of a spec that are for another kind of cluster: nothing reads them here."""
    for name, kind in (("slurm", "Slurm"), ("eks", "Kubernetes"), ("local", "one machine")):
        if getattr(spec, name) is not None and declared.adapter != name:
            yield FindingAnswer(
                severity=Severity.WARNING,
                code="unread_block",
                field=name,
                detail=f"it is for {kind}: on this cluster nothing reads it",
                next="leave it where the file is for both, or remove it",
            )


def _secrets(request: SubmitRequest) -> Iterator[FindingAnswer]:
    insisted = request.allow_plain or ()
    for one in findings(request.spec.env):
        if one.name not in insisted:
            yield FindingAnswer(
                code="secret_in_plain",
                field=f"env.{one.name}",
                detail=f"its value looks like {one.looks_like}, and a record is kept for ever",
                next=f"give a reference under secrets, or insist with --allow-plain {one.name}",
            )


_BEAT = "DISPATCH_BEAT"
"""What a job runs to say that it goes on, where its output can't be read."""


def _size(spec: Spec, plan: Plan) -> Iterator[FindingAnswer]:
    size = len(encode(spec).encode()) + len(encode(plan).encode()) + _ROOM
    if size > MAX_ENTRY_BYTES:
        long = "script" if spec.script is not None else "command"
        yield FindingAnswer(
            code="entry_too_large",
            field=long,
            detail=f"the whole has {size:,} bytes, and a record takes {MAX_ENTRY_BYTES:,}",
            next=_CURES[long],
        )


# --- the plan against what the cluster can do -------------------------------------------------


def _plan(plan: Plan, spec: Spec, declared: Declarations) -> Iterator[FindingAnswer]:
    rules: list[tuple[str, Cause | None, Rule]] = [("plan.default", None, plan.default)]
    rules += [(f"plan.causes.{cause}", cause, rule) for cause, rule in plan.causes.items()]
    for place, cause, rule in rules:
        yield from _rule(place, cause, rule, (spec, declared))
    silent = plan.progress_limit_s is not None and not declared.can(Capability.OUTPUT)
    if silent and _BEAT not in (spec.script or " ".join(spec.command or ())):
        yield _warning(
            "plan.progress_limit_s",
            "this cluster's output can't be read, so a job shows progress only where it says so",
            f'have it run sh -c "${_BEAT}" once an epoch (on Slurm), or remove the limit',
        )


def _rule(
    place: str, cause: Cause | None, rule: Rule, where: tuple[Spec, Declarations]
) -> Iterator[FindingAnswer]:
    spec, declared = where
    again = rule.action in (Action.REQUEUE, Action.RESUBMIT)
    requeues = declared.can(Capability.REQUEUE_LIVE) or declared.can(Capability.REQUEUE_ENDED)
    if rule.in_place and rule.action is Action.REQUEUE and not requeues:
        yield _warning(
            f"{place}.in_place",
            "this cluster runs nothing again in place: it will be a new submission",
            "remove it, or write action: resubmit",
        )
    if rule.memory_factor is not None and spec.memory_mb_per_node is None:
        yield _warning(
            f"{place}.memory_factor",
            "there is no memory to multiply: memory_mb_per_node isn't given",
            "add memory_mb_per_node",
        )
    if rule.avoid_node and declared.adapter == "local":
        yield _warning(f"{place}.avoid_node", "there is only this machine to run on", "remove it")
    if again and rule.limit == 0:
        yield _warning(
            f"{place}.limit",
            f"0 times is never: {rule.after_limit} follows at once",
            f"give a limit, or write action: {rule.after_limit}",
        )
    if cause is Cause.APP_ERROR and again and rule.backoff_s == 0:
        yield _warning(
            f"{place}.backoff_s",
            "a program that fails by itself is run again at once, and may fail the same way",
            "give a backoff_s, or write action: fail",
        )


def _warning(field: str, detail: str, then: str) -> FindingAnswer:
    return FindingAnswer(
        severity=Severity.WARNING, code="plan", field=field, detail=detail, next=then
    )
