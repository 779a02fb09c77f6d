"""From a Start's order to what the spool keeps of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dispatch.record.header import LocalSpec, Spec
from dispatch.schedulers.local.life import Order
from dispatch.schedulers.scheduler import StartOrder, Tag

_FILE = "file:"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a machine lends to one object.

    Attributes:
        processes: The most tasks that one object may have.
        gpus: Whether a spec may ask for GPUs, which are then neither counted nor kept apart.
        cgroups: Whether control groups may be made.
    """

    processes: int = 256
    gpus: bool = False
    cgroups: bool = True


def refusals(spec: Spec, limits: Limits) -> list[str]:
    """Return what the local cluster can't do of a spec, each a sentence that names the field."""
    found = []
    if spec.eks is not None and spec.eks.kind is not None:
        found.append(f"field 'eks.kind': a {spec.eks.kind} runs on a Kubernetes cluster only")
    if spec.image is not None:
        found.append("field 'image': this cluster runs processes of the machine, no containers")
    if spec.gpus_per_node > 0 and not limits.gpus:
        found.append("field 'gpus_per_node': this cluster isn't configured to lend GPUs")
    for name, source in sorted(spec.secrets.items()):
        if not source.startswith(_FILE):
            kind = source.partition(":")[0]
            found.append(f"field 'secrets.{name}': only file: can be read here, not {kind}:")
    tasks = spec.nodes * spec.tasks_per_node
    if tasks > limits.processes:
        most = limits.processes
        found.append(f"field 'tasks_per_node': {tasks} tasks in all, this cluster runs {most}")
    return found


def ref_of(cluster: str, tag: Tag, key: str) -> str:
    """Return an object's identity; the key is drawn once and makes it unique for ever."""
    return f"{cluster}/{tag.job}.{tag.n}.{tag.a}/{key}"


@dataclass(frozen=True, slots=True)
class Identity:
    """What the cluster adds to an order: which object, on which cluster, since when."""

    ref: str
    cluster: str
    created_at: datetime


def order_of(start: StartOrder, identity: Identity, limits: Limits) -> Order:
    """Return what the spool keeps: the spec as the plan adjusted it, and the tag."""
    spec, tag = start.spec, start.tag
    memory = spec.memory_mb_per_node
    if start.adjust is not None and start.adjust.memory_mb_per_node is not None:
        memory = start.adjust.memory_mb_per_node
    return Order(
        ref=identity.ref,
        job=tag.job,
        n=tag.n,
        a=tag.a,
        spec_digest=tag.spec_digest,
        generation=tag.generation,
        command=spec.command,
        env={**spec.env, **tag.environment()},
        secrets={name: source.removeprefix(_FILE) for name, source in spec.secrets.items()},
        nodes=spec.nodes,
        tasks_per_node=spec.tasks_per_node,
        memory_mb=memory,
        time_limit_s=spec.time_limit_s,
        workdir=spec.workdir,
        output=spec.output,
        grace_s=(spec.local or LocalSpec()).grace_s,
        cgroups=limits.cgroups,
        owner=start.owner,
        cluster=identity.cluster,
        created_at=identity.created_at.isoformat(),
    )


def notes_of(start: StartOrder) -> tuple[str, ...]:
    """Return what can't be done as asked and is no reason to refuse."""
    if start.adjust is not None and start.adjust.avoid_nodes:
        return ("there is only this machine, so no node of it can be avoided",)
    return ()


def tag_of(order: Order) -> Tag:
    """Return the tag that an object carries."""
    return Tag(order.job, order.n, order.a, order.spec_digest, order.generation)
