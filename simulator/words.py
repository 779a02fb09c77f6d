"""Entries and sightings in a few words, for transcripts."""

from __future__ import annotations

from dispatch.record import fact as facts
from dispatch.record.codec import Entry
from dispatch.record.control import Control
from dispatch.record.evidence import Sighting


def describe(entry: Entry) -> str:
    """Return an entry in a few words."""
    if isinstance(entry, facts.Observed):
        return "observed " + "; ".join(describe_sighting(s) for s in entry.objects)
    data = entry.model_dump(mode="json", exclude_none=True)
    kind = data.pop("kind", "") if isinstance(entry, Control) else data.pop("fact")
    for key in ("at", "by", "taken_at", "seen_at"):
        data.pop(key, None)
    return f"{kind} " + " ".join(f"{k}={v}" for k, v in data.items())


def describe_sighting(s: Sighting) -> str:
    """Return a sighting in a few words."""
    parts = [s.ref, str(s.state.value)]
    if s.cause:
        parts.append(f"({s.cause})")
    if s.held:
        parts.append("held" + (f" by {s.holder}" if s.holder else ""))
    if s.restarts:
        parts.append(f"restarts {s.restarts}")
    return " ".join(parts)
