"""A Start and every other call as Slurm's JSON; pure, so that it can be shown before it is sent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from dispatch.record.header import Spec
from dispatch.schedulers.scheduler import StartOrder
from dispatch.schedulers.slurm.script import batch_script
from dispatch.schedulers.slurm.settings import Queue, SlurmCluster
from dispatch.schedulers.slurm.tags import Mark, beat, job_name, written

GATE_FIELDS: Final = frozenset({"hold", "requeue", "dependency", "comment"})
"""Fields that safety rests on: a server that drops one of them breaks the contract."""

MAX_NICE: Final = 2_147_483_645


@dataclass(frozen=True, slots=True)
class Question:
    """One HTTP request, without its address and its sign-in.

    Attributes:
        method: The HTTP method.
        book: `slurm` (slurmctld) or `slurmdb` (accounting).
        path: What follows the version.
        body: The JSON to send.
    """

    method: str
    book: str
    path: str
    body: Any = None


def problems(cluster: SlurmCluster, spec: Spec, owner: str | None = None) -> tuple[str, ...]:
    """Return what the cluster's rules refuse of a spec, each a sentence naming the field.

    The owner's own account is judged where the owner is given.
    """
    name = spec.queue or cluster.default_queue
    queue = cluster.queues.get(name)
    if queue is None:
        known = ", ".join(sorted(cluster.queues))
        return (f"queue: {name!r} isn't a queue of cluster {cluster.name} ({known})",)
    found: list[str] = []
    if spec.account is not None and spec.account not in queue.accounts:
        found.append(f"account: {spec.account!r} isn't allowed on queue {name!r}")
    if owner is not None and owner in cluster.account_of:
        account = cluster.account_of[owner]
        if account not in queue.accounts:
            found.append(f"account: {owner}'s account {account!r} isn't allowed on queue {name!r}")
        elif spec.account not in (None, account):
            found.append(f"account: {owner} may only use {account!r}")
    qos = spec.slurm.qos if spec.slurm is not None else None
    if qos is not None and qos not in queue.qos:
        found.append(f"slurm.qos: {qos!r} isn't allowed on queue {name!r}")
    if queue.max_nodes is not None and spec.nodes > queue.max_nodes:
        found.append(f"nodes: {spec.nodes} are more than queue {name!r} allows ({queue.max_nodes})")
    limit = queue.max_time_limit_s
    if limit is not None and (spec.time_limit_s or 0) > limit:
        found.append(f"time_limit_s: {spec.time_limit_s} is more than {limit} on queue {name!r}")
    return (*found, *_unsupported(spec))


def _unsupported(spec: Spec) -> tuple[str, ...]:
    found: list[str] = []
    if spec.eks is not None and spec.eks.kind is not None:
        found.append(f"eks.kind: a {spec.eks.kind} runs on a Kubernetes cluster only")
    if spec.image is not None:
        found.append("image: containers aren't started on Slurm; name the runtime in the command")
    if spec.priority is not None and spec.priority > 0:
        found.append("priority: a Slurm user can only lower it; give 0 or less")
    if "SLURM_JWT" in spec.env or "SLURM_JWT" in spec.secrets:
        found.append("env: SLURM_JWT would sign in Slurm's own commands of the job")
    for name, reference in spec.secrets.items():
        if not reference.startswith("file:/"):
            found.append(f"secrets: {name} must be file:/… on the nodes; Slurm keeps no secrets")
    if spec.script is not None and "\r\n" in spec.script:
        found.append("script: Slurm refuses DOS line ends")
    if spec.gpus_per_node and spec.slurm is not None and spec.slurm.gres is not None:
        found.append("gpus_per_node: slurm.gres names the GPUs too; give one of them")
    return tuple(found)


def submission(cluster: SlurmCluster, order: StartOrder, carried: Mark) -> Question:
    """Return the submit of a Start: held, never requeued by Slurm, one of its name at a time.

    The order must have passed `problems`. v0.0.42 and v0.0.45 take the same fields.
    """
    spec, adjust = order.spec, order.adjust
    queue = cluster.queues[spec.queue or cluster.default_queue]
    comment = written(carried)
    tasks_per_node = spec.tasks_per_node
    job: dict[str, Any] = {
        "name": job_name(order.tag.job),
        "comment": comment,
        "hold": True,
        "requeue": False,
        "partition": queue.partition,
        "minimum_nodes": spec.nodes,
        "maximum_nodes": spec.nodes,
        "tasks": spec.nodes * tasks_per_node,
        "tasks_per_node": tasks_per_node,
        "cpus_per_task": math.ceil(spec.cpus_per_node / tasks_per_node),
        "current_working_directory": spec.workdir or cluster.workdir,
        "standard_input": "/dev/null",
        "standard_output": spec.output or _default_output(cluster, order),
        "environment": _environment(cluster, order, carried),
        "script": batch_script(spec, order.tag.epoch),
    }
    if cluster.singleton:
        job["dependency"] = "singleton"
    if cluster.tag_in_extra:
        job["extra"] = comment
    if account := _account(cluster, order, queue):
        job["account"] = account
    if qos := _qos(spec, queue):
        job["qos"] = qos
    memory = spec.memory_mb_per_node
    if adjust is not None and adjust.memory_mb_per_node is not None:
        memory = adjust.memory_mb_per_node
    if memory is not None:
        job["memory_per_node"] = _set(memory)
    if spec.time_limit_s is not None:
        job["time_limit"] = _set(math.ceil(spec.time_limit_s / 60))
    if spec.gpus_per_node:
        job["tres_per_node"] = f"gres/gpu:{spec.gpus_per_node}"
    _only_slurm(job, order)
    return Question("POST", "slurm", "job/submit", {"job": job})


def _only_slurm(job: dict[str, Any], order: StartOrder) -> None:
    spec, slurm = order.spec, order.spec.slurm
    avoided = list(order.adjust.avoid_nodes) if order.adjust is not None else []
    if slurm is not None:
        avoided = [*slurm.exclude, *avoided]
        if slurm.constraint is not None:
            job["constraints"] = slurm.constraint
        if slurm.reservation is not None:
            job["reservation"] = slurm.reservation
        if slurm.gres is not None:
            job["tres_per_node"] = ",".join(_gres(one) for one in slurm.gres.split(","))
        if slurm.nice is not None:
            job["nice"] = slurm.nice
    if avoided:
        job["excluded_nodes"] = list(dict.fromkeys(avoided))
    if spec.priority is not None and spec.priority < 0 and "nice" not in job:
        job["nice"] = min(-spec.priority, MAX_NICE)


def _gres(one: str) -> str:
    return one if one.startswith(("gres/", "gres:")) else f"gres/{one}"


def _account(cluster: SlurmCluster, order: StartOrder, queue: Queue) -> str | None:
    ruled = cluster.account_of.get(order.owner)
    first = queue.accounts[0] if queue.accounts else None
    return order.spec.account or ruled or first


def _qos(spec: Spec, queue: Queue) -> str | None:
    asked = spec.slurm.qos if spec.slurm is not None else None
    return asked or (queue.qos[0] if queue.qos else None)


def _environment(cluster: SlurmCluster, order: StartOrder, carried: Mark) -> list[str]:
    merged = {**cluster.environment, **order.spec.env, **order.tag.environment()}
    if cluster.tag_in_extra:
        merged["DISPATCH_BEAT"] = beat(carried)
    return [f"{name}={value}" for name, value in merged.items()]


def _default_output(cluster: SlurmCluster, order: StartOrder) -> str:
    tag = order.tag
    folder = (order.spec.workdir or cluster.workdir).rstrip("/")
    return f"{folder}/{job_name(tag.job)}.{tag.n}.{tag.a}.out"


def _set(number: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": number}


# --- everything else that is asked ----------------------------------------------------------


def jobs() -> Question:
    """Return the whole list: the evidence of a Find."""
    # update_time would answer "nothing changed" with an empty list; filters are ignored.
    return Question("GET", "slurm", "jobs/")


def states() -> Question:
    """Return ids and states alone: a glance."""
    return Question("GET", "slurm", "jobs/state/")


def job(job_id: int) -> Question:
    """Return one job."""
    return Question("GET", "slurm", f"job/{job_id}")


def ping() -> Question:
    """Return whether slurmrestd reaches slurmctld; answered at once even where it doesn't."""
    return Question("GET", "slurm", "ping/")


def mark(job_id: int, comment: str) -> Question:
    """Return a new comment for a live job."""
    return Question("POST", "slurm", f"job/{job_id}", {"comment": comment})


def cancel(job_id: int) -> Question:
    """Return the end of a job's whole tree. Without `signal`, which would make it FAILED."""
    return Question("DELETE", "slurm", f"job/{job_id}")


def hold(job_id: int) -> Question:
    """Return a hold; on a running job it does nothing until that is requeued."""
    return Question("POST", "slurm", f"job/{job_id}", {"hold": True})


def release(job_id: int) -> Question:
    """Return the end of the user's hold."""
    return Question("POST", "slurm", f"job/{job_id}", {"hold": False})


def may_requeue(job_id: int, allowed: bool) -> Question:
    """Return whether anybody may requeue the job. Repeatable."""
    return Question("POST", "slurm", f"job/{job_id}", {"requeue": allowed})


def requeue(job_id: int) -> Question:
    """Return a requeue, which is a GET with an effect: never to be repeated.

    `Incomplete` keeps a late one from raising a job that has ended.
    """
    return Question("GET", "slurm", f"job/{job_id}/requeue?Incomplete=true")


def runs_by_id(job_id: int) -> Question:
    """Return all runs that accounting has of an id, other owners' included."""
    return Question("GET", "slurmdb", f"job/{job_id}?show_duplicates=true&skip_steps=true")


def run_with_steps(job_id: int) -> Question:
    """Return the runs of an id with their steps, of which the batch step tells who was launched."""
    return Question("GET", "slurmdb", f"job/{job_id}?show_duplicates=true")


def runs_by_name(job_: str, since: int) -> Question:
    """Return the runs of a job's name since a time, seconds since the epoch in any zone."""
    # No filter by user: slurmrestd's host needn't know the users, and the name is the job's own.
    query = urlencode(
        {
            "job_name": job_name(job_),
            "start_time": since,
            "show_duplicates": "true",
            "skip_steps": "true",
        },
        quote_via=quote,
    )
    return Question("GET", "slurmdb", f"jobs/?{query}")
