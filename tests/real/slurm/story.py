"""One world on a real Slurm, and what its tests say again and again."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from dispatch.record.codec import spec_digest
from dispatch.record.evidence import Sighting
from dispatch.record.header import Spec
from dispatch.record.names import ENDED_STATES, ObjectState
from dispatch.schedulers.scheduler import Sent, Started, StartOrder, Tag, Target
from dispatch.schedulers.slurm.tags import identified
from dispatch.schedulers.slurm.tokens import Tokens
from tests.real.slurm.real import until
from tests.real.slurm.world import SlurmWorld

_JOBS = itertools.count(1)


class Story:
    """One world and what its tests say again and again."""

    def __init__(self, world: SlurmWorld, tokens: Tokens | None = None) -> None:
        self.world = world
        self.real = world.real
        self.scheduler = world.scheduler if tokens is None else world.another(tokens)

    def order(self, spec: Spec, *, a: int = 1, job: str | None = None, **more: Any) -> StartOrder:
        job = job or f"jobstory{next(_JOBS):04d}"
        tag = Tag(job, 1, a, spec_digest(spec), 0)
        fields: dict[str, Any] = {"adjust": None, "owner": "ann", "in_place": False, **more}
        return StartOrder(tag=tag, spec=spec, **fields)

    def start(self, spec: Spec, **more: Any) -> Target:
        order = self.order(spec, **more)
        started = self.scheduler.start(order)
        assert isinstance(started, Started), started
        misread = [note for note in started.notes if note.startswith(("Ignoring", "Expected"))]
        assert misread == [], "every field is known and of its type"
        return Target(started.ref, order.tag)

    def begin(self, spec: Spec, **more: Any) -> Target:
        target = self.start(spec, **more)
        self.scheduler.release(target)
        return target

    def run(self, spec: Spec, **more: Any) -> Target:
        target = self.begin(spec, **more)
        self.wait(target, lambda seen: seen.state is ObjectState.RUNNING, "runs")
        until(lambda: self.world.processes(target.ref) > 0, "its processes live")
        return target

    def sent(self, target: Target) -> Sent:
        """Return the Start of an object, as the record would have it."""
        identity = identified(target.ref)
        assert identity is not None
        at = datetime.fromtimestamp(identity.at_ms / 1000, UTC)
        bound = timedelta(seconds=self.scheduler.declare().call_bound_s)
        return Sent(target.tag, at, at + bound)

    def see(self, target: Target) -> Sighting | None:
        found = self.scheduler.find()
        assert found.complete, found.error
        return next(
            (one for one in found.by_job.get(target.tag.job, ()) if one.ref == target.ref), None
        )

    def wait(self, target: Target, holds: Callable[[Sighting], bool], what: str) -> Sighting:
        last: list[Sighting] = []

        def seen_so() -> bool:
            one = self.see(target)
            if one is not None and holds(one):
                last.append(one)
            return bool(last)

        until(seen_so, f"{target.ref} {what}")
        return last[0]

    def end(self, target: Target) -> Sighting:
        return self.wait(target, lambda seen: seen.state in ENDED_STATES, "ends")
