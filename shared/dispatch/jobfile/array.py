"""Arrays: one job file, one job for each element, with keys that follow from what each is.

An array is a loop of the client's, no thing of the scheduler's: each element is a job with a
record, a plan and an outcome of its own.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import product
from typing import Any

from pydantic import ValidationError

from dispatch.jobfile.model import (
    MAX_MEMBERS,
    NUMBERS,
    PARAMETER,
    Array,
    JobFile,
    Scalar,
)
from dispatch.jobfile.reading import JobFileRefused, Place, Problem, line_of
from dispatch.jobfile.wording import problem_of
from dispatch.record.codec import canonical, encode

_PLACEHOLDER = re.compile(r"\{\{ *(" + PARAMETER + r") *\}\}")
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_NAME = 63
_MAX_KEY = 200

Parameters = Mapping[str, Scalar]


@dataclass(frozen=True, slots=True)
class Member:
    """One job that a file asks for.

    Attributes:
        file: What to run, with the parameters in their places and without the array.
        parameters: The element's; none where the file has no array.
        key: The idempotency key; None where the file has none and is no array.
    """

    file: JobFile
    parameters: Parameters
    key: str | None


@dataclass(frozen=True, slots=True)
class Members:
    """All that one file asks for.

    Attributes:
        name: What the file is called in errors.
        jobs: In the file's order; one where it has no array.
        is_array: Whether it has one.
        lines: The line of each field.
    """

    name: str
    jobs: tuple[Member, ...]
    is_array: bool
    lines: Mapping[Place, int] = field(default_factory=dict)

    def line(self, dotted: str) -> int | None:
        """Return the line of a dotted field, or of the nearest thing around it that has one."""
        place = tuple(int(p) if p.isdigit() else p for p in dotted.split("."))
        return line_of(place, self.lines)


def members_of(data: dict[str, Any], lines: Mapping[Place, int], name: str) -> Members:
    """Return the jobs that a file's fields ask for.

    Raises:
        JobFileRefused: Names every field at fault.
    """
    if "array" not in data:
        job = _judged(data, lines, name)
        return Members(name, (Member(job, {}, job.idempotency_key),), False, lines)
    elements = list(_elements(_array(data["array"], lines, name)))
    shape = {key: value for key, value in data.items() if key != "array"}
    problems = [*_array_problems(data, elements, lines), *_unknown(shape, elements, lines)]
    if not problems:
        problems = list(_idle(shape, elements, lines))
    if problems:
        raise JobFileRefused(name, problems)
    jobs: list[Member] = []
    for element in elements:
        try:
            jobs.append(_member(shape, element, lines, name))
        except JobFileRefused as refused:
            problems += [_told_of(one, shape, element) for one in refused.problems]
    keys = [one.key for one in jobs]
    if not problems and len(set(keys)) < len(keys):
        line = lines.get(("array",)) or None
        problems = [Problem("two elements make the very same job; leave one away", "array", line)]
    if problems:
        raise JobFileRefused(name, _each_once(problems))
    return Members(name, tuple(jobs), True, lines)


def _told_of(problem: Problem, shape: Any, element: Parameters) -> Problem:
    """Return an element's problem; with its parameters, where it comes from one."""
    for part in (problem.field or "").split("."):
        match shape:
            case dict():
                shape = shape.get(part)
            case list() if part.isdigit() and int(part) < len(shape):
                shape = shape[int(part)]
            case _:
                break
    if not isinstance(shape, str) or not _PLACEHOLDER.search(shape):
        return problem
    return Problem(f"{problem.message} (with {_words(element)})", problem.field, problem.line)


def _each_once(problems: Sequence[Problem]) -> list[Problem]:
    """Return the problems without those that differ in the element alone."""
    found: dict[tuple[str, str | None], Problem] = {}
    for one in problems:
        found.setdefault((one.message.partition(" (with ")[0], one.field), one)
    return sorted(found.values(), key=lambda one: one.line or 0)


def _judged(data: Mapping[str, Any], lines: Mapping[Place, int], name: str) -> JobFile:
    try:
        return JobFile.model_validate_json(json.dumps(data, allow_nan=False))
    except ValidationError as error:
        problems = [problem_of(dict(one), lines) for one in error.errors(include_url=False)]
        problems.sort(key=lambda one: one.line or 0)
        raise JobFileRefused(name, problems) from None


def _array(given: Any, lines: Mapping[Place, int], name: str) -> Array:
    try:
        return Array.model_validate_json(json.dumps(given, allow_nan=False))
    except ValidationError as error:
        problems = []
        found = error.errors(include_url=False)
        inner = {one["loc"][:2] for one in found if one["type"] != "too_short"}
        for one in found:
            if one["type"] == "too_short" and one["loc"][:2] in inner:
                continue  # it is short only because what is in it was refused
            # The four ways in which a value may be none of the four kinds say one thing.
            place = tuple(p for p in one["loc"] if p not in ("str", "int", "float", "bool"))
            problems.append(problem_of({**one, "loc": ("array", *place)}, lines))
        raise JobFileRefused(name, _each_once(problems)) from None


def _elements(array: Array) -> Iterator[dict[str, Scalar]]:
    if array.elements is not None:
        yield from (dict(one) for one in array.elements)
        return
    named = array.parameters or {}
    size = 1
    for values in named.values():
        size *= len(values)
    if size > MAX_MEMBERS:
        yield from ({} for _ in range(MAX_MEMBERS + 1))
        return
    for values in product(*named.values()):
        yield dict(zip(named, values, strict=True))


def _array_problems(
    data: Mapping[str, Any], elements: Sequence[Parameters], lines: Mapping[Place, int]
) -> Iterator[Problem]:
    line = lines.get(("array",)) or None
    if data.get("supersedes") is not None:
        at = lines.get(("supersedes",)) or None
        yield Problem("one job can't be replaced by many: leave it away", "supersedes", at)
    if len(elements) > MAX_MEMBERS:
        yield Problem(f"more than {MAX_MEMBERS:,} jobs: make several files of it", "array", line)
        return
    seen: dict[str, int] = {}
    for number, element in enumerate(elements, start=1):
        before = seen.setdefault(canonical(dict(element)), number)
        if before != number:
            told = f"elements {before} and {number} are the same: {_words(element)}"
            yield Problem(f"{told}; leave one away", "array", line)
            return
        if set(element) != set(elements[0]):
            told = f"element {number} has {', '.join(sorted(element))}"
            first = ", ".join(sorted(elements[0]))
            yield Problem(f"{told}, the first has {first}: give all the same ones", "array", line)
            return


def _unknown(
    shape: Any, elements: Sequence[Parameters], lines: Mapping[Place, int], place: Place = ()
) -> Iterator[Problem]:
    """Yield the placeholders that stand for no parameter."""
    match shape:
        case dict():
            for key, value in shape.items():
                yield from _unknown(value, elements, lines, (*place, key))
        case list():
            for number, value in enumerate(shape):
                yield from _unknown(value, elements, lines, (*place, number))
        case str():
            known = elements[0].keys() if elements else ()
            for named in _PLACEHOLDER.findall(shape):
                if named not in known:
                    near = difflib.get_close_matches(named, list(known), n=1)
                    meant = f"; did you mean {{{{{near[0]}}}}}?" if near else ""
                    dotted = ".".join(str(part) for part in place)
                    said = f"{{{{{named}}}}} is no parameter of the array{meant}"
                    yield Problem(said, dotted, line_of(place, lines))
        case _:
            return


def _idle(
    shape: dict[str, Any], elements: Sequence[Parameters], lines: Mapping[Place, int]
) -> Iterator[Problem]:
    """Yield the parameters that stand nowhere: the jobs would all do the same."""
    used = set(_PLACEHOLDER.findall(json.dumps(shape)))
    for name in elements[0]:
        if name not in used:
            place: Place = ("array", "parameters", name)
            said = f"nothing in the file uses it: write {{{{{name}}}}} where it belongs"
            dotted = f"array.parameters.{name}" if place in lines else "array"
            yield Problem(said, dotted, line_of(place, lines))


def _member(
    shape: dict[str, Any], element: Parameters, lines: Mapping[Place, int], name: str
) -> Member:
    data = {key: _filled(value, element, key in NUMBERS) for key, value in shape.items()}
    if data.get("name") == shape.get("name") and isinstance(data.get("name"), str):
        data["name"] = _named(data["name"], element)
    job = _judged(data, lines, name)
    digest = sha256(canonical(dict(element)).encode()).hexdigest()
    if job.idempotency_key is not None:
        key = f"{job.idempotency_key[: _MAX_KEY - 13]}.{digest[:12]}"
    else:
        said = canonical({"cluster": job.cluster, "spec": encode(job.spec)})
        key = "array." + sha256(said.encode()).hexdigest()[:32]
    return Member(job.model_copy(update={"idempotency_key": key}), dict(element), key)


def _filled(value: Any, element: Parameters, number: bool) -> Any:
    """Return a value with the parameters in their places; a number's keeps its kind."""
    match value:
        case dict():
            return {key: _filled(one, element, False) for key, one in value.items()}
        case list():
            return [_filled(one, element, False) for one in value]
        case str():
            whole = _PLACEHOLDER.fullmatch(value)
            if number and whole is not None:
                return element[whole[1]]
            return _PLACEHOLDER.sub(lambda met: _text(element[met[1]]), value)
        case _:
            return value


def _text(value: Scalar) -> str:
    return value if isinstance(value, str) else canonical(value)


def _named(name: str, element: Parameters) -> str:
    """Return an element's name: the file's and its values, so that people can tell them apart."""
    values = (_NOT_IN_A_NAME.sub("-", _text(one)).strip("-.") for one in element.values())
    full = "-".join(part for part in (name, *values) if part)
    if len(full) <= _MAX_NAME:
        return full
    digest = sha256(canonical(dict(element)).encode()).hexdigest()[:8]
    return f"{full[: _MAX_NAME - 9].rstrip('-.')}-{digest}"


def _words(element: Parameters) -> str:
    return ", ".join(f"{name}={_text(value)}" for name, value in element.items())
