"""The adapter of the simulated Kubernetes: a requeue is two calls, and evidence is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial

from dispatch.errors import CallRefused, CallUnknown
from dispatch.record.names import ENDED_STATES, Capability
from dispatch.schedulers.scheduler import Target
from simulator.wire import Wire
from simulator.worlds.cluster import SimScheduler
from simulator.worlds.kubernetes_control import KubernetesControl

REQUEUE_WAIT_S = 5
"""How long a requeue waits, at most, until it has seen its suspension."""


class KubernetesScheduler(SimScheduler):
    """What differs from other clusters' adapters."""

    def __init__(self, cluster: KubernetesControl, wire: Wire) -> None:
        super().__init__(cluster, wire)
        self._world = cluster

    def requeue(self, target: Target) -> None:
        """Suspend, and resume with one more restart counted (see `Scheduler`).

        What is cut short in between stays suspended, and the call lapses by its deadline.
        """
        self._declared(Capability.REQUEUE_LIVE)
        self.watch("requeue", target)
        wire, world = self._wire, self._world
        ref, restarts, decided = target.ref, target.restarts, wire.actor.find_began
        self._on("requeue", target, lambda: world.suspend_for_requeue(ref, restarts))
        seen_by = wire.clock() + timedelta(seconds=REQUEUE_WAIT_S)
        wire.actor.park(wire.chance.span(0.1, REQUEUE_WAIT_S - 1))
        if wire.clock() >= seen_by:
            raise CallUnknown("its suspension wasn't seen in time to resume it")
        self._on("requeue", target, lambda: world.requeue(ref, restarts, decided))


class KubernetesKeepingScheduler(KubernetesScheduler):
    """The same where our finalizer keeps pods until their end is in the record."""

    def acknowledge(self, targets: Sequence[Target]) -> None:
        """Let go of evidence that was committed (see `KeepsEvidence`)."""
        for target in targets:
            self._let_go_of(target)

    def _let_go_of(self, target: Target) -> None:
        if self._world.goes_on(target.ref):
            return  # nothing is kept of the runs before
        # A patch that may be sent again, so it fails as a Stop does.
        self._on("stop", target, lambda: self._world.acknowledge(target.ref))

    def free(self, keep: Callable[[str, datetime | None], bool]) -> int:
        """Let go of what nobody records any more (see `KeepsEvidence`)."""
        freed = 0
        for job, shown in self._world.show().items():
            for one in shown:
                ended = one.ended_at if one.state in ENDED_STATES else None
                if not keep(job, ended):
                    try:
                        self._wire.call("stop", one.ref, partial(self._world.acknowledge, one.ref))
                    except CallRefused as error:
                        raise CallUnknown(str(error)) from error
                    freed += 1
        return freed
