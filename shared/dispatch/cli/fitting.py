"""Tables of jobs that fit a narrow terminal: what tells one job from another is never cut. Pure."""

from __future__ import annotations

from collections.abc import Sequence

Row = tuple[str, ...]

_ELIDED = ("NAME", "STATE", "BY")
"""Columns whose values may be cut short, in the order in which they are."""
_LEAST = 12
_LEFT_AWAY = ("BY", "CREATED", "CLUSTER", "FOR", "WAITS FOR", "NAME")
"""Columns that a very narrow terminal does without, the least missed first."""
_WORDS = "WAITS FOR"
_LAST = 16
"""Signs that a column of words, which are folded, needs before it is left away rather."""
_BETWEEN = 2


def fitted(
    titles: Sequence[str], rows: Sequence[Sequence[str]], width: int
) -> tuple[Row, list[Row]]:
    """Return the titles and rows that fit a width: names cut short first, then columns left away.

    A table without a column JOB is returned as it is: its cells are folded.
    """
    names = list(titles)
    if "JOB" not in names:
        return tuple(names), [tuple(row) for row in rows]
    whole = {
        name: max([len(name), *(len(row[at]) for row in rows)]) for at, name in enumerate(titles)
    }
    lengths = dict(whole)
    while (over := _needed(names, lengths) - width) > 0:
        for name in _ELIDED:
            if name in names:
                spare = max(0, lengths[name] - _LEAST)
                lengths[name] -= min(spare, over)
                over -= min(spare, over)
        if over <= 0:
            break
        left = [name for name in _LEFT_AWAY if name in names]
        if not left:
            break
        names.remove(left[0])
        lengths = dict(whole)
    at = [list(titles).index(name) for name in names]
    kept = [tuple(_cut(row[n], lengths[titles[n]], titles[n]) for n in at) for row in rows]
    return tuple(names), kept


def _needed(names: Sequence[str], lengths: dict[str, int]) -> int:
    *first, last = names
    words = min(_LAST, lengths[last]) if last == _WORDS else lengths[last]
    return sum(lengths[one] for one in first) + words + _BETWEEN * len(first)


def _cut(text: str, most: int, title: str) -> str:
    return f"{text[: most - 1]}…" if title in _ELIDED and len(text) > most else text
