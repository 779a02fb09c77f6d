"""Bodies made comparable: what differs from one cluster and hour to the next is blanked out."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

RECORDINGS = Path(__file__).parents[2] / "schedulers" / "eks" / "recordings"

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_SUFFIX = re.compile(r"(?<=[a-z0-9]-\d-)[a-z0-9]{5}\b|(?<=kube-api-access-)[a-z0-9]{5}\b")
_CONTAINER = re.compile(r"containerd://\S+")
_EVENT = re.compile(r"\.[0-9a-f]{16}\b")

_BLANKS = (
    (_CONTAINER, "CONTAINER"),
    (_TIME, "TIME"),
    (_UID, "UID"),
    (_SUFFIX, "xxxxx"),
    (_EVENT, ".EVENT"),
)

# Of the network, the runtime and the machine; the fake has none of them.
_UNKNOWN_HERE = {
    "allocatedResources",
    "hostIP",
    "image",
    "imageID",
    "podIP",
    "podIPs",
    "qosClass",
    "resourceVersion",
    "resources",
    "user",
    "volumeMounts",
    "volumes",
    "observedGeneration",
}


def recording(name: str) -> Any:
    return json.loads((RECORDINGS / f"{name}.json").read_text())


def comparable(value: Any, *, names: dict[str, str] | None = None) -> Any:
    """Return a body without its times, uids, versions and chance; `names` renames what is ours."""
    if isinstance(value, dict):
        return {
            _text(k, names): comparable(v, names=names)
            for k, v in value.items()
            if k not in _UNKNOWN_HERE
        }
    if isinstance(value, list | tuple):
        return [comparable(v, names=names) for v in value]
    return _text(value, names) if isinstance(value, str) else value


def _text(value: str, names: dict[str, str] | None) -> str:
    for pattern, blank in _BLANKS:
        value = pattern.sub(blank, value)
    for name, blank in (names or {}).items():
        value = re.sub(rf"\b{re.escape(name)}\b", blank, value)
    return value


def conditions(body: Any) -> list[tuple[str, str, str, str]]:
    """Return the conditions of an object in their order: type, status, reason, message."""
    return [
        (c["type"], c["status"], c.get("reason", ""), c.get("message", ""))
        for c in body["status"].get("conditions", [])
    ]


def told(events: Any) -> list[tuple[str, str, str]]:
    """Return events in their order: type, reason, message without its chance."""
    return [(e["type"], e["reason"], _text(e.get("message", ""), None)) for e in events]
