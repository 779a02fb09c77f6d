"""The handle by which the conformance suite holds a cluster, real or simulated.

A world owns one cluster and the adapter under test. It can make happen what the adapter's
docstrings speak of, and it knows the truth: which processes live, whatever the adapter says.
The suite waits only through `until` and lets time pass only through `advance`, so a world with a
virtual clock runs it as fast as it can count.

To put an adapter to the test, write a `World` for it and subclass
`tests.conformance.scheduler.contract.SchedulerContract` with a `world` fixture that yields a fresh
one: see `tests/schedulers/local/test_contract.py`. A world that can't bring a situation about
overrides that one test with what it can show, and says there why; it never skips.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Protocol

from dispatch.record.header import Spec
from dispatch.schedulers.scheduler import Scheduler


class Work(StrEnum):
    """What a spec's processes do once they run."""

    SUCCEED = "end well, at once"
    FAIL = "exit with 3, at once"
    CRASH = "end by signal 6, at once"
    LAST = "run until they are ended, with a child that has left their session"
    HOG = "take more memory than the spec gives them"
    OVERRUN = "run on past a time limit of one second"


class World(Protocol):
    """One cluster, and everything that may happen to it.

    Attributes:
        scheduler: The adapter under test.
    """

    @property
    def scheduler(self) -> Scheduler:
        """The adapter under test."""
        ...

    def another(self) -> Scheduler:
        """Return a second adapter for the same cluster, as another supervisor would have."""
        ...

    def spec(self, work: Work) -> Spec:
        """Return a spec that this cluster accepts and whose processes do that work."""
        ...

    def refused_spec(self) -> tuple[Spec, str]:
        """Return a spec that this cluster refuses, and the field that is at fault."""
        ...

    # --- time ---

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Let time pass until something holds, and fail the test, naming it, if it never does."""
        ...

    def advance(self, seconds: float) -> None:
        """Let time pass, by the cluster's and the adapter's clock."""
        ...

    # --- the truth ---

    def processes(self, ref: str) -> int:
        """Return how many processes of an object live, wherever they went."""
        ...

    def environment(self, ref: str) -> Mapping[str, str]:
        """Return what the first process of an object's present run was given as environment."""
        ...

    # --- what happens to objects ---

    def preempt(self, ref: str) -> None:
        """Let the cluster take a running object's place away."""
        ...

    def lose_node(self, ref: str) -> None:
        """Let the cluster lose the node that an object runs on."""
        ...

    def cancel(self, ref: str) -> None:
        """End an object as somebody who isn't Dispatch."""
        ...

    def hold(self, ref: str) -> None:
        """Hold a pending object as somebody who isn't Dispatch."""
        ...

    def forget(self, ref: str) -> None:
        """Let so much time pass that the cluster forgets an object that has ended."""
        ...

    def restart(self) -> None:
        """Kill the cluster's own memory (its daemon) and start it again, by surprise."""
        ...

    def alien(self) -> str:
        """Add an object that carries no tag of Dispatch and return its identity."""
        ...

    # --- trouble on the way ---

    def replies_lost(self) -> AbstractContextManager[None]:
        """Let calls take effect while no reply to them arrives."""
        ...

    def silent(self) -> AbstractContextManager[None]:
        """Let nothing get through to the cluster and back."""
        ...

    def cut(self) -> AbstractContextManager[None]:
        """Let the list of objects arrive in part, and not all of it."""
        ...
