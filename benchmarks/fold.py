"""Decode and fold, beside a bare parse of the same bytes and beside the `eventsourcing` package."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from time import process_time

from benchmarks.figures import Effort, Figure, Told, at_least, at_most
from benchmarks.replay import Replayed
from benchmarks.rounds import in_turns
from benchmarks.written import T0, view_of
from dispatch.core.fold import extend, fold
from dispatch.record.codec import decode_entry
from dispatch.record.view import View

SIZES = (10, 100, 1_000, 10_000)
PARSE_AIM = 5.0
REPLAY_AIM = 10.0
LINEAR_AIM = 1.3
TAIL = 10


def measure(effort: Effort) -> list[Told]:
    """Return the figures of histories of 10 to 10,000 entries."""
    told: list[Told] = []
    for size in SIZES[: effort.of(4, 3)]:
        view = view_of(size)
        repeat = max(1, 2_000 // size)
        replayed = Replayed(view)
        timed = in_turns(
            {
                "fold": _times(repeat, partial(fold, view, T0)),
                "parse": _times(repeat, partial(_parsed, view)),
                "replay": _times(max(1, repeat // 4), replayed.replay),
            },
            effort.of(7 if size < 10_000 else 3, 3),
            clock=process_time,
        )
        replay_s = timed.median("replay") / max(1, repeat // 4)
        fold_s = timed.median("fold") / repeat
        detail = {
            "entry_bytes": sum(len(one.body) for one in view.entries) / size,
            "fold_us_an_entry": fold_s / size * 1e6,
            "parse_us_an_entry": timed.median("parse") / repeat / size * 1e6,
            "replay_us_an_entry": replay_s / size * 1e6,
        }
        told += [
            Figure(
                f"decode and fold {size:,} entries",
                "json.loads of the same bytes",
                timed.ratio("fold", "parse"),
                at_most(PARSE_AIM),
                _WHY_PARSE,
                detail,
            ),
            Figure(
                f"eventsourcing's replay of the same {size:,}",
                "decode and fold",
                timed.ratio("replay", "fold") * repeat / max(1, repeat // 4),
                at_least(REPLAY_AIM),
                _WHY_REPLAY,
                detail,
            ),
        ]
    told.append(_linear(effort))
    told.append(_tail(effort))
    return told


def _linear(effort: Effort) -> Figure:
    """Return what an entry costs in a long history, beside what it costs in a short one."""
    long, short = effort.of(10_000, 1_000), 100
    views = {"long": view_of(long), "short": view_of(short)}
    timed = in_turns(
        {
            "long": partial(fold, views["long"], T0),
            "short": _times(long // short, partial(fold, views["short"], T0)),
        },
        effort.of(3, 3),
        clock=process_time,
    )
    return Figure(
        f"cost of an entry among {long:,}",
        "among 100",
        timed.ratio("long", "short"),
        at_most(LINEAR_AIM),
        "the collector of cycles runs over what a long history builds; nothing in fold grows",
    )


def _tail(effort: Effort) -> Figure:
    """Return what folding ten new entries costs where the view before them is folded."""
    view = view_of(1_000)
    before = fold(view.at(view.revision - TAIL), T0)
    fresh = view.entries[-TAIL:]

    def tail() -> object:
        return extend(before, [decode_entry(one, job=view.job_id) for one in fresh])

    timed = in_turns(
        {"tail": _times(50, tail), "whole": lambda: fold(view, T0)},
        effort.of(7, 3),
        clock=process_time,
    )
    return Figure(
        "folding 10 new entries onto a folded 990",
        "folding all 1,000",
        timed.ratio("tail", "whole") / 50,
        at_most(0.1),
        "the job is copied before it is extended, so that a refusal leaves the first one whole",
    )


def _parsed(view: View) -> object:
    return [json.loads(view.header.body), *(json.loads(one.body) for one in view.entries)]


def _times(number: int, work: Callable[[], object]) -> Callable[[], object]:
    def repeated() -> None:
        for _ in range(number):
            work()

    return repeated


_WHY_PARSE = (
    "every field is checked and every entry judged against the job so far; of a short history the"
    " header is a large part: its maps are checked, and its spec is written once more for its"
    " digest. A digest taken of the header's own bytes would mend that"
)
_WHY_REPLAY = (
    "that package's replay costs six to ten bare parses of the same bytes, so a program that only"
    " parsed them and checked nothing would miss the aim too; ours checks schema, fields and rules"
)
