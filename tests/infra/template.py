"""The templates as data, with CloudFormation's short forms kept as what they stand for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = ROOT / "template.yaml"
MONITORING = ROOT / "infra" / "monitoring.yaml"

Node = dict[str, Any]


class _Loader(yaml.SafeLoader):
    """Reads `!Ref X` as {"Ref": "X"}, and so on."""


def _short(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> Node:
    match node:
        case yaml.ScalarNode():
            value: Any = loader.construct_scalar(node)
        case yaml.SequenceNode():
            value = loader.construct_sequence(node, deep=True)
        case _:
            assert isinstance(node, yaml.MappingNode)
            value = loader.construct_mapping(node, deep=True)
    return {suffix: value}


_Loader.add_multi_constructor("!", _short)


def load(path: Path) -> Node:
    """Return a template."""
    loaded: Node = yaml.load(path.read_text(), Loader=_Loader)
    return loaded


def of_type(template: Node, kind: str) -> dict[str, Node]:
    """Return the properties of each resource of a type."""
    return {
        name: one["Properties"]
        for name, one in template["Resources"].items()
        if one["Type"] == kind
    }


def statements(template: Node) -> Iterator[tuple[str, Node]]:
    """Yield every statement of every policy, with its resource's name."""
    for name, resource in template["Resources"].items():
        properties = resource["Properties"]
        documents = [one["PolicyDocument"] for one in properties.get("Policies", ())]
        documents += [properties[key] for key in ("PolicyDocument",) if key in properties]
        for document in documents:
            for statement in document["Statement"]:
                yield name, statement


def listed(value: Any) -> list[Any]:
    """Return a list where one or many may stand."""
    return value if isinstance(value, list) else [value]


def faults_of_parameter(told: Node) -> list[str]:
    """Return what a parameter lacks: a description, bounds, a default within them."""
    faults = [] if told.get("Description") else ["no description"]
    if not {"AllowedValues", "AllowedPattern", "MinValue"} & set(told):
        faults.append("no bounds")
    if "MinValue" in told and "MaxValue" not in told:
        faults.append("no upper bound")
    if "AllowedPattern" in told and "Default" in told:
        # Of a list, CloudFormation holds each value to the pattern.
        many = told["Type"] == "CommaDelimitedList"
        values = told["Default"].split(",") if many else [told["Default"]]
        faults += [one for one in values if not re.fullmatch(told["AllowedPattern"], one)]
    return faults
