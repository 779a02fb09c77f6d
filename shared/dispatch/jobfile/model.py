"""What a job file may say, and its schema for editors."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    model_validator,
)
from pydantic_core import PydanticCustomError

from dispatch.record.header import EksSpec, LocalSpec, Plan, Rule, SlurmSpec, Spec
from dispatch.record.model import JobId, Model, Name
from dispatch.record.names import UnmatchedPolicy

MAX_MEMBERS = 1000
"""The most jobs that one array makes."""

SCHEMA_ID = "urn:dispatch:job-file"
SCHEMA_TITLE = "Dispatch job file"
SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"

PARAMETER = r"[A-Za-z_][A-Za-z0-9_]{0,62}"
Scalar = StrictStr | StrictInt | StrictFloat | StrictBool
ParameterName = Annotated[str, Field(pattern=f"^{PARAMETER}$")]
Values = Annotated[tuple[Scalar, ...], Field(min_length=1, max_length=MAX_MEMBERS)]
Element = Annotated[dict[ParameterName, Scalar], Field(min_length=1, max_length=64)]


class Array(Model):
    """One job for each element, the same but for its parameters: `{{name}}` in the file's texts.

    Attributes:
        parameters: Each with its values; every combination is an element. This, or `elements`.
        elements: Each with the values of its parameters. This, or `parameters`.
    """

    parameters: (
        Annotated[dict[ParameterName, Values], Field(min_length=1, max_length=64)] | None
    ) = None
    elements: Annotated[tuple[Element, ...], Field(min_length=1, max_length=MAX_MEMBERS)] | None = (
        None
    )

    @model_validator(mode="after")
    def _one_of_the_two(self) -> Self:
        if (self.parameters is None) == (self.elements is None):
            raise PydanticCustomError("array_form", "give parameters or elements, not both")
        return self


class JobFile(Spec):
    """A job file: the fields of a spec, and how to submit it.

    Attributes:
        cluster: The configured name of the cluster; None where there is only one.
        plan: What to do about each cause; None for the cluster's own.
        start_retries: Starts allowed beyond the first; None for the cluster's own.
        unmatched: What follows an attempt that was never seen; None for the cluster's own.
        supersedes: A settled job that this one replaces.
        idempotency_key: The same key and spec is the same job; None for a fresh key.
        array: Makes one job for each of its elements; None for one job.
    """

    cluster: Name | None = None
    plan: Plan | None = None
    start_retries: Annotated[int, Field(ge=0, le=100)] | None = None
    unmatched: UnmatchedPolicy | None = None
    supersedes: JobId | None = None
    idempotency_key: Annotated[str, Field(pattern=r"^[\x21-\x7e]{1,200}$")] | None = None
    array: Array | None = None

    @property
    def spec(self) -> Spec:
        """The spec alone, as it will stand in the header."""
        return Spec.model_validate({name: getattr(self, name) for name in Spec.model_fields})


def _is_number(shape: dict[str, Any]) -> bool:
    return "integer" in {one.get("type") for one in shape.get("anyOf", (shape,))}


NUMBERS = frozenset(
    name for name, shape in JobFile.model_json_schema()["properties"].items() if _is_number(shape)
)
"""The fields whose value is a number, also where a parameter stands for it."""


# --- the schema -------------------------------------------------------------------------------


def schema() -> dict[str, Any]:
    """Return the JSON schema of a job file, for editors: every field with what it is for."""
    found = JobFile.model_json_schema()
    models: tuple[type[BaseModel], ...] = (Array, Plan, Rule, SlurmSpec, EksSpec, LocalSpec)
    for body in found["$defs"].values():
        body["description"] = body.get("description", "").partition("\n")[0]
    for model in models:
        _describe(found["$defs"][model.__name__]["properties"], _attributes(model))
    _describe(found["properties"], {**_attributes(Spec), **_attributes(JobFile)})
    _describe(found["properties"], {name: _first(m) for name, m in _BLOCKS.items()})
    for name in sorted(NUMBERS):
        found["properties"][name] = _or_parameter(found["properties"][name])
    return {
        "$schema": SCHEMA_DIALECT,
        "$id": SCHEMA_ID,
        **found,
        "title": SCHEMA_TITLE,
        "description": "What to run and where; docs/reference/job-file.md explains each field.",
    }


_BLOCKS: dict[str, type[BaseModel]] = {"slurm": SlurmSpec, "eks": EksSpec, "local": LocalSpec}
_ATTRIBUTE = re.compile(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)


def _describe(properties: dict[str, Any], told: Mapping[str, str]) -> None:
    for name, text in told.items():
        if name in properties:
            properties[name]["description"] = text


def _attributes(model: type[BaseModel]) -> dict[str, str]:
    """Return what a model's docstring says of each field."""
    _, _, listed = (inspect.getdoc(model) or "").partition("Attributes:\n")
    return {name: " ".join(text.split()) for name, text in _ATTRIBUTE.findall(listed)}


def _first(model: type[BaseModel]) -> str:
    return (inspect.getdoc(model) or "").partition("\n")[0]


def _or_parameter(field: dict[str, Any]) -> dict[str, Any]:
    """Return a number's schema that takes `{{name}}` too."""
    kept: dict[str, Any] = {
        name: field.pop(name) for name in ("title", "description", "default") if name in field
    }
    ways = field.pop("anyOf", None) or [field]
    parameter = {"type": "string", "pattern": rf"^\{{\{{ *{PARAMETER} *\}}\}}$"}
    return {**kept, "anyOf": [*ways, parameter]}


FIELDS = tuple(sorted({*JobFile.model_fields, *Plan.model_fields, *Array.model_fields}))
"""Every name that a field may have at the top of a file, of its plan or of its array."""
