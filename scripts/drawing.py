"""Pictures as SVG, drawn from data: arrows between columns, and a ladder of rows.

Nothing is fetched to show them, here or on the site: no script, no font, no style from elsewhere.
They bring their own ground, light or dark as the reader's system is, and their own words for who
can't see them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

_LETTER = 6.6
"""About how wide a letter of 13 px is."""

_STYLE = """
svg { --ground: #ffffff; --ink: #1f2330; --faint: #6b7280; --line: #d5d9e2; --band: #f4f6fa;
      --a: #2f5fd0; --b: #b3540b; --c: #1f7a4d; }
@media (prefers-color-scheme: dark) { svg { --ground: #171a21; --ink: #e7e9ef; --faint: #9aa3b2;
      --line: #3a4150; --band: #1f242e; --a: #8fb0ff; --b: #ffb074; --c: #7fd6a8; } }
text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
       fill: var(--ink); }
.small { font-size: 12px; fill: var(--faint); } .head { font-weight: 600; }
.ground { fill: var(--ground); } .band { fill: var(--band); } .line { stroke: var(--line); }
.box { fill: var(--ground); stroke: var(--faint); }
.a { stroke: var(--a); } .b { stroke: var(--b); } .c { stroke: var(--c); }
.fa { fill: var(--a); } .fb { fill: var(--b); } .fc { fill: var(--c); }
"""


@dataclass(frozen=True, slots=True)
class Arrow:
    """One row of a picture of columns.

    Attributes:
        start: The column that it leaves, by its name.
        end: The column that it reaches; the same as `start` for something that happens there.
        label: What it is.
        kind: a, b or c: its colour.
        before: What stands at the left of the row, such as a time.
    """

    start: str
    end: str
    label: str
    kind: str = "a"
    before: str = ""


@dataclass(frozen=True, slots=True)
class Rung:
    """One row of a ladder.

    Attributes:
        name: What stands in its badge.
        title: What it is.
        chips: Words with their colours: a, b or c.
    """

    name: str
    title: str
    chips: tuple[tuple[str, str], ...]


def columns(
    title: str, told: str, names: Sequence[str], arrows: Sequence[Arrow], *, beside: bool = False
) -> str:
    """Return a picture of arrows between columns, each on a row of its own.

    Args:
        title: For who can't see it, and as its name.
        told: The same in a sentence or two.
        names: The columns, left to right.
        arrows: The rows, top to bottom.
        beside: Labels stand at the right of all columns, instead of over their arrows.
    """
    pitch = 84 if beside else 152
    left = 20 + (_wide(max((one.before for one in arrows), key=len)) if not beside else 0)
    first = left + (56 if beside else 70)
    at = {name: first + i * pitch for i, name in enumerate(names)}
    row, top = (24, 62) if beside else (38, 66)
    ends = at[names[-1]] + 60
    longest = max((_wide(one.label) for one in arrows), default=0)
    width = ends + (longest + 20 if beside else 40)
    height = top + row * len(arrows) + 22
    parts = [*_begin(title, told, width, height)]
    if beside:
        parts += _bands(arrows, top, row, width)
    for name, x in at.items():
        wide = max(64, _wide(name) + 18)
        parts.append(f'<path class="line" d="M{x} 44V{height - 12}"/>')
        parts.append(
            f'<rect class="box" x="{x - wide / 2:g}" y="16" width="{wide}" height="28" rx="6"/>'
        )
        parts.append(
            f'<text class="head" x="{x}" y="35" text-anchor="middle">{escape(name)}</text>'
        )
    for i, one in enumerate(arrows):
        y = top + row * i + row // 2 + (0 if beside else 8)
        parts += _row(one, at, y, ends if beside else None)
    return "\n".join([*parts, "</svg>"]) + "\n"


def ladder(title: str, told: str, rungs: Sequence[Rung], notes: Sequence[tuple[int, str]]) -> str:
    """Return a picture of rows that are tried from the top.

    Args:
        title: For who can't see it, and as its name.
        told: The same in a sentence or two.
        rungs: The rows, top to bottom.
        notes: What is said after which row, counted from 1.
    """
    after = dict(notes)
    wide = max(_wide(one.title) for one in rungs) + 30
    chips_at = 84 + wide
    width = chips_at + max(sum(_wide(word) + 34 for word, _ in one.chips) for one in rungs) + 24
    height = 24 + 32 * len(rungs) + 30 * len(after) + 16
    parts = [*_begin(title, told, width, height)]
    y = 24
    for i, one in enumerate(rungs, 1):
        parts.append(f'<rect class="band" x="20" y="{y}" width="{width - 40}" height="27" rx="5"/>')
        parts.append(
            f'<text class="head" x="42" y="{y + 18}" text-anchor="middle">{one.name}</text>'
        )
        parts.append(f'<text x="72" y="{y + 18}">{escape(one.title)}</text>')
        x = chips_at
        for word, kind in one.chips:
            parts.append(f'<circle class="f{kind}" cx="{x}" cy="{y + 13.5}" r="5"/>')
            parts.append(f'<text x="{x + 10}" y="{y + 18}">{escape(word)}</text>')
            x += _wide(word) + 34
        y += 32
        if i in after:
            parts.append(
                f'<path class="line" stroke-dasharray="4 4" d="M20 {y + 10}H{width - 20}"/>'
            )
            shown = _wide(after[i]) * 0.95 + 16
            parts.append(
                f'<rect class="ground" x="{(width - shown) / 2:g}" y="{y}" width="{shown:g}" '
                'height="20"/>'
                f'<text class="small" x="{width / 2:g}" y="{y + 14}" text-anchor="middle">'
                f"{escape(after[i])}</text>"
            )
            y += 30
    return "\n".join([*parts, "</svg>"]) + "\n"


def _begin(title: str, told: str, width: float, height: float) -> list[str]:
    heads = "".join(
        f'<marker id="{kind}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        f'orient="auto"><path class="f{kind}" d="M0 0L8 4L0 8Z"/></marker>'
        for kind in "abc"
    )
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" role="img" aria-labelledby="title told">',
        f'<title id="title">{escape(title)}</title>',
        f'<desc id="told">{escape(told)}</desc>',
        f"<style>{_STYLE}</style>",
        f"<defs>{heads}</defs>",
        f'<rect class="ground" width="{width:g}" height="{height:g}" rx="8"/>',
    ]


def _bands(arrows: Sequence[Arrow], top: int, row: int, width: float) -> list[str]:
    """Return a shade behind every other group of arrows that leave one column."""
    parts, shaded, begun = [], False, 0
    for i, one in enumerate([*arrows, None]):
        if one is None or (i and one.start != arrows[i - 1].start):
            if shaded:
                high = row * (i - begun)
                parts.append(
                    f'<rect class="band" x="8" y="{top + row * begun}" width="{width - 16:g}" '
                    f'height="{high}" rx="4"/>'
                )
            shaded, begun = not shaded, i
    return parts


def _row(one: Arrow, at: dict[str, int], y: int, beside: float | None) -> list[str]:
    start, end = at[one.start], at[one.end]
    parts = []
    if one.before:
        parts.append(f'<text class="small" x="12" y="{y + 4}">{escape(one.before)}</text>')
    if start == end:
        parts.append(f'<circle class="f{one.kind}" cx="{start}" cy="{y}" r="4.5"/>')
        if beside is None:
            parts.append(f'<text x="{start + 12}" y="{y + 4}">{escape(one.label)}</text>')
    else:
        parts.append(f'<circle class="f{one.kind}" cx="{start}" cy="{y}" r="3"/>')
        parts.append(
            f'<path class="{one.kind}" stroke-width="1.8" marker-end="url(#{one.kind})" '
            f'd="M{start} {y}H{end - 3 if end > start else end + 3}"/>'
        )
        if beside is None:
            middle = (start + end) / 2
            parts.append(
                f'<text x="{middle:g}" y="{y - 7}" text-anchor="middle">{escape(one.label)}</text>'
            )
    if beside is not None:
        parts.append(f'<text x="{beside:g}" y="{y + 4}">{escape(one.label)}</text>')
    return parts


def _wide(text: str) -> int:
    """Return about how many pixels a text is wide."""
    return round(len(text) * _LETTER)
