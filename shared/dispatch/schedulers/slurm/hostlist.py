"""Slurm's short form of node names, `n[1-3,7],m01`, read out; pure."""

from __future__ import annotations

import re

from dispatch.record.evidence import MAX_NODES

_RANGES = re.compile(r"^(?P<before>[^\[]*)\[(?P<ranges>[^\]]*)\](?P<after>.*)\Z")
_RANGE = re.compile(r"^(?P<low>[0-9]+)(?:-(?P<high>[0-9]+))?\Z")
_NO_NODES = frozenset({"", "None assigned", "(null)"})


def expanded(text: str, limit: int = MAX_NODES) -> tuple[str, ...]:
    """Return the node names, at most `limit`; what can't be read is kept as it stands."""
    if text.strip() in _NO_NODES:
        return ()
    names: list[str] = []
    for part in _parts(text):
        _expand(part, names, limit)
    return tuple(names[:limit])


def _parts(text: str) -> list[str]:
    """Split at the commas that stand outside brackets."""
    parts, depth = [""], 0
    for sign in text:
        if sign == "," and depth <= 0:
            parts.append("")
            continue
        depth += (sign == "[") - (sign == "]")
        parts[-1] += sign
    return [part.strip() for part in parts if part.strip()]


def _expand(part: str, names: list[str], limit: int) -> None:
    if len(names) >= limit:
        return
    found = _RANGES.match(part)
    if found is None:
        names.append(part[:256])
        return
    for piece in found["ranges"].split(","):
        numbers = _RANGE.match(piece.strip())
        if numbers is None:
            names.append(part[:256])
            return
        low, high = numbers["low"], numbers["high"] or numbers["low"]
        for number in range(int(low), int(high) + 1):
            if len(names) >= limit:
                return
            _expand(
                f"{found['before']}{number:0{len(low)}d}{found['after']}",
                names,
                limit,
            )
