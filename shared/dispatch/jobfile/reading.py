"""A job file's text: YAML or JSON with the values that JSON has, and the line of each field."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import yaml

from dispatch.errors import InvalidRequest, RecordRefused
from dispatch.record.codec import parse_strict

MAX_BYTES = 500_000
"""A job file longer than this is refused unread; a record's header has no room for it either."""

_MAX_NODES = 50_000

Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a job file.

    Attributes:
        message: What is wrong, and what would be right.
        field: The field at fault, dotted, where there is one.
        line: The line it stands on, 1 first, where that can be told.
    """

    message: str
    field: str | None = None
    line: int | None = None


class JobFileRefused(InvalidRequest):
    """A job file can't be read as one.

    Attributes:
        problems: Everything that is wrong with it, in the order of its lines.
    """

    code: ClassVar[str] = "invalid_request"

    def __init__(self, name: str, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(_told(name, one) for one in problems))
        self.problems = tuple(problems)
        self.field = problems[0].field


def line_of(place: Place, lines: Mapping[Place, int]) -> int | None:
    """Return the line of a field, or of the nearest thing around it that has one."""
    for end in range(len(place), 0, -1):
        if place[:end] in lines:
            return lines[place[:end]] or None
    return None


def _told(name: str, problem: Problem) -> str:
    where = name if problem.line is None else f"{name}:{problem.line}"
    at = f"field '{problem.field}': " if problem.field else ""
    return f"{where}: {at}{problem.message}"


def read(text: str, name: str) -> tuple[dict[str, Any], dict[Place, int]]:
    """Return a text's fields, and the line on which each stands.

    Raises:
        JobFileRefused: It can't be read, or isn't a mapping of fields.
    """
    if len(text.encode()) > MAX_BYTES:
        raise JobFileRefused(name, [Problem(f"it is longer than {MAX_BYTES:,} bytes")])
    reading = _Reading(name)
    if text.lstrip().startswith("{"):
        try:
            data = parse_strict(text)
        except RecordRefused as refused:
            problem = Problem(f"as JSON: {refused.reason}", refused.field)
            raise JobFileRefused(name, [problem]) from None
        try:
            reading.whole(text)
        except JobFileRefused:
            # JSON that YAML can't read, tabs say: its lines can't be told.
            reading.lines.clear()
    else:
        data = reading.whole(text)
    if not isinstance(data, dict):
        raise JobFileRefused(name, [Problem("it isn't a mapping of fields to values")])
    return data, reading.lines


def change(data: dict[str, Any], dotted: str, value: str) -> None:
    """Put a value in place of a dotted field; the value is written as YAML.

    Raises:
        JobFileRefused: What stands before the last dot holds no fields.
    """
    *outer, last = dotted.split(".")
    here = data
    for part in outer:
        inner = here.setdefault(part, {})
        if not isinstance(inner, dict):
            raise JobFileRefused("--set", [Problem(f"{part!r} holds no fields", dotted)])
        here = inner
    here[last] = _Reading(f"--set {dotted}").whole(value)


# --- YAML with the values that JSON has -----------------------------------------------------


_CORE = "tag:yaml.org,2002:"
_TAGS = frozenset({"str", "null", "bool", "int", "float", "seq", "map"})


class _Loader(yaml.SafeLoader):
    """YAML whose plain words are text, unless they are JSON's numbers, true, false or null."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("null", r"^(?:~|null|)$", ["~", "n", ""]),
    ("bool", r"^(?:true|false)$", list("tf")),
    ("int", r"^-?(?:0|[1-9][0-9]*)$", list("-0123456789")),
    (
        "float",
        r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)$",
        list("-0123456789"),
    ),
):
    _Loader.add_implicit_resolver(f"{_CORE}{_tag}", re.compile(_pattern), _first)


@dataclass(slots=True)
class _Reading:
    """Reads one text and remembers on which line each field stands."""

    name: str
    lines: dict[Place, int] = field(default_factory=dict)
    nodes: int = 0

    def whole(self, text: str) -> Any:
        try:
            root = yaml.compose(text, Loader=_Loader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = None if mark is None else mark.line + 1
            problem = error.problem or "it can't be read"
            tab = "'\\t'" in problem
            said = "a tab stands there, and YAML is indented by spaces" if tab else problem
            raise self._refused(said, line) from None
        except (yaml.YAMLError, ValueError) as error:
            raise self._refused(str(error).splitlines()[0], None) from None
        except RecursionError:
            raise self._refused("nested too deeply", None) from None
        if root is None:
            raise self._refused("it is empty", None)
        return self._value(root, (), ())

    def _value(self, node: yaml.Node, place: Place, above: tuple[int, ...]) -> Any:
        self.nodes += 1
        if id(node) in above or self.nodes > _MAX_NODES:
            raise self._refused("it repeats itself without end", node.start_mark.line + 1)
        self.lines.setdefault(place, node.start_mark.line + 1)
        inside = (*above, id(node))
        if node.tag.removeprefix(_CORE) not in _TAGS:
            tag = node.tag.removeprefix(_CORE)
            raise self._refused(f"the tag {tag} isn't known", node.start_mark.line + 1)
        match node:
            case yaml.MappingNode():
                return self._mapping(node, place, inside)
            case yaml.SequenceNode():
                return [
                    self._value(one, (*place, index), inside)
                    for index, one in enumerate(node.value)
                ]
            case yaml.ScalarNode():
                return self._scalar(node)
            case _:
                raise self._refused("it can't be read", node.start_mark.line + 1)

    def _mapping(
        self, node: yaml.MappingNode, place: Place, inside: tuple[int, ...]
    ) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode) or not isinstance(self._scalar(key), str):
                raise self._refused("a field's name is text: put it in quotes", line)
            if key.value in found:
                dotted = ".".join(str(part) for part in (*place, key.value))
                raise JobFileRefused(self.name, [Problem("it stands twice", dotted, line)])
            self.lines[(*place, key.value)] = line
            found[key.value] = self._value(value, (*place, key.value), inside)
        return found

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        text = str(node.value)
        match node.tag.removeprefix(_CORE):
            case "null":
                return None
            case "bool" if text in ("true", "false"):
                return text == "true"
            case "int" | "float" if (number := _number(text)) is not None:
                return number
            case "bool" | "int" | "float" as tag:
                why = f"{text!r} isn't a value of the tag {tag}"
                raise self._refused(why, node.start_mark.line + 1)
            case _:
                return text

    def _refused(self, message: str, line: int | None) -> JobFileRefused:
        return JobFileRefused(self.name, [Problem(message, None, line)])


def _number(text: str) -> int | float | None:
    try:
        number = json.loads(text)
    except ValueError:
        return None
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    return number if math.isfinite(number) else None
