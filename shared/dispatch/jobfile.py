"""Job files: what to run and where, as YAML or JSON that people write; strict, and pure.

The fields are those of the spec (protocol §2) beside `cluster`, `plan`, `start_retries`,
`unmatched`, `supersedes` and `idempotency_key`. docs/reference/job-file.md lists them.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import yaml
from pydantic import Field, ValidationError

from dispatch.errors import InvalidRequest, RecordRefused
from dispatch.record.codec import parse_strict
from dispatch.record.header import Plan, Spec
from dispatch.record.model import JobId, Name
from dispatch.record.names import UnmatchedPolicy

MAX_BYTES = 500_000
"""A job file longer than this is refused unread; a record's header has no room for it either."""

_MAX_NODES = 50_000

Place = tuple[str | int, ...]


class JobFile(Spec):
    """A job file: the fields of a spec, and how to submit it.

    Attributes:
        cluster: The configured name of the cluster; None where there is only one.
        plan: What to do about each cause; None for the cluster's own.
        start_retries: Starts allowed beyond the first; None for the cluster's own.
        unmatched: What follows an attempt that was never seen; None for the cluster's own.
        supersedes: A settled job that this one replaces.
        idempotency_key: The same key and spec is the same job; None for a fresh key.
    """

    cluster: Name | None = None
    plan: Plan | None = None
    start_retries: Annotated[int, Field(ge=0, le=100)] | None = None
    unmatched: UnmatchedPolicy | None = None
    supersedes: JobId | None = None
    idempotency_key: Annotated[str, Field(pattern=r"^[\x21-\x7e]{1,200}$")] | None = None

    @property
    def spec(self) -> Spec:
        """The spec alone, as it will stand in the header."""
        return Spec.model_validate({name: getattr(self, name) for name in Spec.model_fields})


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


def _told(name: str, problem: Problem) -> str:
    where = name if problem.line is None else f"{name}:{problem.line}"
    at = f"field '{problem.field}': " if problem.field else ""
    return f"{where}: {at}{problem.message}"


def parse(
    text: str, *, name: str = "job file", changes: Mapping[str, str] | None = None
) -> JobFile:
    """Return what a job file says.

    Args:
        text: YAML, or JSON.
        name: What to call it in errors.
        changes: Values to put in place, by dotted field, each written as YAML: `{"nodes": "4"}`.

    Raises:
        JobFileRefused: names every field at fault, and its line where it has one.
    """
    if len(text.encode()) > MAX_BYTES:
        raise JobFileRefused(name, [Problem(f"it is longer than {MAX_BYTES:,} bytes")])
    data, lines = _read(text, name)
    for dotted, value in (changes or {}).items():
        _change(data, dotted, value)
        lines[tuple(dotted.split("."))] = 0
    try:
        return JobFile.model_validate_json(json.dumps(data, allow_nan=False))
    except ValidationError as error:
        problems = [_problem(dict(one), lines) for one in error.errors(include_url=False)]
        problems.sort(key=lambda one: one.line or 0)
        raise JobFileRefused(name, problems) from None


def schema() -> dict[str, Any]:
    """Return the JSON schema of a job file, for editors."""
    return JobFile.model_json_schema()


def _read(text: str, name: str) -> tuple[dict[str, Any], dict[Place, int]]:
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


def _change(data: dict[str, Any], dotted: str, value: str) -> None:
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
            raise self._refused(error.problem or "it can't be read", line) from None
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


# --- what pydantic says, in words -----------------------------------------------------------


def _problem(error: dict[str, Any], lines: Mapping[Place, int]) -> Problem:
    place = tuple(part for part in error["loc"] if part != "[key]")
    line = next(
        (lines[place[:end]] for end in range(len(place), -1, -1) if place[:end] in lines), None
    )
    dotted = ".".join(str(part) for part in place) or None
    return Problem(_message(error, place), dotted, line or None)


def _message(error: dict[str, Any], place: Place) -> str:
    given = error["input"]
    match error["type"]:
        case "extra_forbidden":
            near = difflib.get_close_matches(str(place[-1]), _FIELDS, n=1)
            return "unknown field" + (f"; did you mean {near[0]!r}?" if near else "")
        case "missing":
            return "it must be given"
        case "string_type" if isinstance(given, int | float) and not isinstance(given, bool):
            return f"text is wanted: write it in quotes, '{given}'"
        case "string_type" if isinstance(given, bool):
            return f"text is wanted: write it in quotes, '{str(given).lower()}'"
        case "tuple_type":
            return "a list is wanted, as [python, train.py]"
        case "int_type" | "int_from_float":
            return f"a whole number is wanted, not {json.dumps(given)}"
        case "enum":
            return f"unknown name {given!r}; one of {error['ctx']['expected']}"
        case _:
            said = str(error["msg"])
            return said[:1].lower() + said[1:]


_FIELDS = sorted({*JobFile.model_fields, *Plan.model_fields})
