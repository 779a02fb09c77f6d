"""The text of the spool's two files; what this build doesn't write, it doesn't read. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import Any

from dispatch.record.names import Cause, ObjectState
from dispatch.schedulers.local.life import Ask, Life, Order

ORDER_SCHEMA = "dispatch.local.order.v1"
LIFE_SCHEMA = "dispatch.local.life.v1"


class Unreadable(Exception):
    """A file of the spool isn't what this build writes; nothing may be concluded from it."""


def order_text(order: Order) -> str:
    """Return the text of `order.json`."""
    return _text(ORDER_SCHEMA, order)


def life_text(life: Life) -> str:
    """Return the text of `life.json`."""
    return _text(LIFE_SCHEMA, life)


def _text(schema: str, value: Order | Life) -> str:
    return json.dumps({"schema": schema, **asdict(value)}, sort_keys=True, ensure_ascii=False)


def read_order(text: str) -> Order:
    """Return the order that a text holds.

    Raises:
        Unreadable: It isn't one, names a field that this build doesn't know, or lacks one.
    """
    body = _body(text, ORDER_SCHEMA, Order)
    command = body["command"]
    _all(body, str, "ref job spec_digest owner cluster created_at")
    _all(body, int, "n a generation nodes tasks_per_node grace_s")
    _all(body, str | None, "workdir output")
    _all(body, int | None, "memory_mb time_limit_s")
    _all(body, bool, "cgroups")
    for name in ("env", "secrets"):
        if not isinstance(body[name], dict) or not _strings(body[name].values()):
            raise Unreadable(f"field {name!r}: no table of texts")
    if command is not None and not (isinstance(command, list) and command and _strings(command)):
        raise Unreadable("field 'command': no list of texts")
    return Order(**{**body, "command": None if command is None else tuple(command)})


def read_life(text: str) -> Life:
    """Return the life that a text holds.

    Raises:
        Unreadable: As for `read_order`.
    """
    body = _body(text, LIFE_SCHEMA, Life)
    _all(body, int, "serial restarts output_from")
    _all(body, bool, "draining")
    _all(body, int | None, "exit_code signal")
    _all(body, str | None, "asked_by boot limit started_at ended_at lost_at reason ask cause")
    _all(body, str, "phase")
    for name in ("held_by", "cgroups", "nodes"):
        if not isinstance(body[name], list) or not _strings(body[name]):
            raise Unreadable(f"field {name!r}: no list of texts")
        body[name] = tuple(body[name])
    try:
        body["phase"] = ObjectState(body["phase"])
        body["ask"] = None if body["ask"] is None else Ask(body["ask"])
        body["cause"] = None if body["cause"] is None else Cause(body["cause"])
    except ValueError as problem:
        raise Unreadable(str(problem)) from problem
    return Life(**body)


def _body(text: str, schema: str, kind: type[Order | Life]) -> dict[str, Any]:
    try:
        body = json.loads(text)
    except ValueError as problem:
        raise Unreadable(f"no JSON: {problem}") from problem
    if not isinstance(body, dict) or body.pop("schema", None) != schema:
        raise Unreadable(f"not of the schema {schema}")
    wrong = sorted(body.keys() ^ {f.name for f in fields(kind)})
    if wrong:
        raise Unreadable(f"field {wrong[0]!r}: missing or unknown")
    return body


def _all(body: dict[str, Any], kind: Any, names: str) -> None:
    for name in names.split():
        value = body[name]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise Unreadable(f"field {name!r}: of the wrong type")


def _strings(values: Any) -> bool:
    return all(isinstance(value, str) for value in values)
