"""Which world and which adapter belong to each kind of cluster."""

from __future__ import annotations

from simulator.scenario import Shape
from simulator.wire import Wire
from simulator.worlds.cluster import SimScheduler
from simulator.worlds.kubernetes import KubernetesWorld
from simulator.worlds.kubernetes_adapter import KubernetesKeepingScheduler, KubernetesScheduler
from simulator.worlds.slurm import SlurmWorld
from simulator.worlds.trainjob import TrainJobScheduler, TrainJobWorld

WORLDS: dict[Shape, type[SlurmWorld | KubernetesWorld]] = {
    Shape.SLURM: SlurmWorld,
    Shape.KUBERNETES: KubernetesWorld,
    Shape.TRAINJOB: TrainJobWorld,
}


def adapter(world: SlurmWorld | KubernetesWorld, wire: Wire) -> SimScheduler:
    """Return an actor's adapter for a world."""
    if isinstance(world, SlurmWorld):
        return SimScheduler(world, wire)
    if isinstance(world, TrainJobWorld):
        return TrainJobScheduler(world, wire)
    if world.traits.keeps_evidence:
        return KubernetesKeepingScheduler(world, wire)
    return KubernetesScheduler(world, wire)
