"""Kubernetes' own words: read for what they tell, and made steady so that they are news once."""

from __future__ import annotations

import re

from dispatch.record.names import Cause

REASON_CHARS = 1024
_EXIT_IN_MESSAGE = re.compile(r"failed with exit code ([0-9]{1,9}) matching")
_DISRUPTION_IN_MESSAGE = re.compile(r"has condition DisruptionTarget matching")
_KILLED = 137
_NODE_COUNT = re.compile(r"\b\d+(/\d+)? ")


def read_message(message: str) -> tuple[Cause, int | None]:
    """Return what a Job's own message tells of the pod that failed it, where the pod is gone."""
    if _DISRUPTION_IN_MESSAGE.search(message):
        return Cause.INTERRUPTED, None
    found = _EXIT_IN_MESSAGE.search(message)
    if found is None:
        return Cause.LOST, None
    code = int(found.group(1))
    # 137 alone can't tell a program's exit from the kernel's or the kubelet's kill.
    return (Cause.LOST if code == _KILLED else Cause.APP_ERROR), code


_POD_NAME = re.compile(r'pods "[^"]*" is')
_USED = re.compile(r", used: [^,]*(,|$)")


def read_refusal(message: str) -> tuple[Cause, str]:
    """Return what it means that the Job's controller may not create pods, in steady words."""
    said = _POD_NAME.sub("pods are", message.removeprefix("Error creating: "))
    quota = "exceeded quota" in message or "limited:" in message
    said = _USED.sub(r"\1", said) if quota else said
    cause = Cause.NO_CAPACITY if quota else Cause.INVALID_SPEC
    return cause, f"FailedCreate: {said}"[:REASON_CHARS]


def steady(message: str) -> str:
    """Return a scheduler's message without its counts, which change while nothing changes."""
    first = message.split(" no new claims", maxsplit=1)[0].split(" preemption:", maxsplit=1)[0]
    head, _, tail = first.partition(": ")
    if not tail:
        return first
    parts = sorted({_NODE_COUNT.sub("", part).strip(" .") for part in tail.split(",")})
    head = _NODE_COUNT.sub("", head)
    head = "no node fits" if head == "nodes are available" else head
    return f"{head}: {', '.join(parts)}"
