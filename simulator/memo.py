"""Fold, decoded and replayed once for each history: pure, so remembering it changes nothing.

At the end of each run the real `fold` is run from nothing over every record and must agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import dispatch.operator
import dispatch.supervisor.loop
from dispatch.core.fold import extend, fold
from dispatch.core.job import Job
from dispatch.record.codec import Entry, decode_entry
from dispatch.record.view import View
from simulator.stage import EPOCH


class _Node:
    __slots__ = ("before", "entry", "following", "job")

    def __init__(self, job: Job, entry: Entry | None, before: _Node | None) -> None:
        self.job = job
        self.entry = entry
        self.before = before
        self.following: dict[tuple[str, str], _Node] = {}


class Memo:
    """The jobs that histories fold to, by history."""

    __slots__ = ("_latest", "_roots")

    def __init__(self) -> None:
        self._roots: dict[tuple[str, str], _Node] = {}
        self._latest: dict[str, tuple[View, _Node]] = {}

    def fold(self, view: View, now: datetime) -> Job:
        """Return what `dispatch.core.fold.fold` returns, or raise what it raises."""
        job = self._node(view).job
        job.as_of = now
        return job

    def backwards(self, view: View) -> Iterator[Entry]:
        """Yield the decoded entries of a history that folds, newest first."""
        node: _Node | None = self._node(view)
        while node is not None and node.entry is not None:
            yield node.entry
            node = node.before

    def _root(self, view: View) -> _Node:
        place = (view.job_id, view.header.body)
        node = self._roots.get(place)
        if node is None:
            empty = View(view.job_id, view.header)
            node = self._roots[place] = _Node(fold(empty, EPOCH), None, None)
        return node

    def _node(self, view: View) -> _Node:
        node, known = self._start(view)
        for number, stored in enumerate(view.entries[known:], start=known + 1):
            following = node.following.get((stored.schema, stored.body))
            if following is None:
                entry = decode_entry(stored, job=view.job_id, entry=number)
                following = _Node(extend(node.job, (entry,)), entry, node)
                node.following[stored.schema, stored.body] = following
            node = following
        self._latest[view.job_id] = (view, node)
        return node

    def _start(self, view: View) -> tuple[_Node, int]:
        """Return from where to go on: the history asked for last, if this one is longer."""
        latest, node = self._latest.get(view.job_id, (None, None))
        if latest is not None and node is not None and latest.header is view.header:
            known = latest.revision
            if latest.entries is view.entries or latest.entries == view.entries[:known]:
                return node, known
        return self._root(view), 0


@contextmanager
def remembered(memo: Memo) -> Iterator[None]:
    """Let the supervisor and the operator fold through a memo."""
    loop, operator = vars(dispatch.supervisor.loop), vars(dispatch.operator)
    before = (loop["fold"], loop["refold"], operator["fold"])
    loop["fold"] = operator["fold"] = memo.fold
    loop["refold"] = lambda job, view, now: memo.fold(view, now)
    try:
        yield
    finally:
        loop["fold"], loop["refold"], operator["fold"] = before
