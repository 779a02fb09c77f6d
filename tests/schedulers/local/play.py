"""What the tests of the local cluster do again and again, for commands of their own."""

from __future__ import annotations

from typing import Any

from dispatch.record.codec import spec_digest
from dispatch.record.evidence import Sighting
from dispatch.record.header import Adjust, Spec
from dispatch.schedulers.scheduler import Started, StartOrder, Tag, Target
from tests.conformance.scheduler.contract import Play
from tests.conformance.scheduler.world import Work
from tests.schedulers.local.world import LocalWorld


class Local(Play):
    """Starts what a test wants to run, on the local cluster."""

    world: LocalWorld

    def __init__(self, world: LocalWorld) -> None:
        super().__init__(world)
        self.world = world

    def order_of(
        self, spec: Spec, n: int = 1, a: int = 1, adjust: Adjust | None = None
    ) -> StartOrder:
        tag = Tag("jobofatest", n, a, spec_digest(spec), 0)
        return StartOrder(tag=tag, spec=spec, adjust=adjust, owner="somebody", in_place=True)

    def begin_with(self, n: int = 1, a: int = 1, **changes: Any) -> Target:
        order = self.order_of(self.world.spec(Work.LAST, **changes), n, a)
        started = self.scheduler.start(order)
        assert isinstance(started, Started), started
        target = Target(started.ref, order.tag)
        self.scheduler.release(target)
        return target

    def shell(self, script: str, **changes: Any) -> Target:
        return self.begin_with(command=("sh", "-c", script), **changes)

    def end_of(self, script: str, **changes: Any) -> Sighting:
        return self.wait_for_end(self.shell(script, **changes))

    def text(self, target: Target) -> str:
        return self.scheduler.output(target, offset=0, limit=100_000).text

    def wait_for_text(self, target: Target, text: str) -> None:
        self.world.until(lambda: text in self.text(target), f"it has written {text!r}")
