"""The recipes of notifications listen for events that exist, and read fields that these have."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dispatch.event_details import DETAILS
from dispatch.events import SOURCE
from tests.infra.template import ROOT, faults_of_parameter, load, of_type, statements

FOLDER = ROOT / "infra" / "events"
RECIPES = {path.stem: path for path in FOLDER.glob("*.yaml")}
ENVELOPE = {"$.detail-type", "$.time", "$.id"}


def rule_of(path: Path) -> dict[str, Any]:
    (rule,) = of_type(load(path), "AWS::Events::Rule").values()
    return rule


def templates(target: dict[str, Any]) -> list[str]:
    """Every text that a target's transformer may be given."""
    told = target.get("InputTransformer", {}).get("InputTemplate", [])
    return [told] if isinstance(told, str) else list(told.get("If", [])[1:]) if told else []


def test_there_is_a_recipe_for_each_way() -> None:
    assert set(RECIPES) == {"chat", "email", "webhook"}


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_listens_for_events_that_are_published(name: str) -> None:
    parameters = load(RECIPES[name])["Parameters"]
    asked = set(parameters["DetailTypes"]["Default"].split(","))
    assert asked <= set(DETAILS)
    pattern = rule_of(RECIPES[name])["EventPattern"]
    assert pattern == {"source": [SOURCE], "detail-type": {"Ref": "DetailTypes"}}
    assert {name: faults_of_parameter(one) for name, one in parameters.items()} == {
        name: [] for name in parameters
    }


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_reads_fields_that_some_event_has_and_uses_each(name: str) -> None:
    fields = {f"$.detail.{field}" for model in DETAILS.values() for field in model.model_fields}
    for target in rule_of(RECIPES[name])["Targets"]:
        paths = target.get("InputTransformer", {}).get("InputPathsMap", {})
        assert set(paths.values()) <= fields | ENVELOPE
        for text in templates(target):
            assert set(re.findall(r"<([a-z]+)>", text)) == set(paths)


@pytest.mark.parametrize("name", RECIPES)
def test_a_transformed_message_is_json(name: str) -> None:
    for target in rule_of(RECIPES[name])["Targets"]:
        for text in templates(target):
            json.loads(re.sub(r"<[a-z]+>", "x", text))


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_gives_the_rule_alone_what_it_needs(name: str) -> None:
    for _, statement in statements(load(RECIPES[name])):
        assert statement["Resource"] != "*"
        if "Principal" in statement:
            source = statement["Condition"]["ArnEquals"]["aws:SourceArn"]
            assert source == {"GetAtt": "Rule.Arn"}


@pytest.mark.parametrize("name", ["chat", "webhook"])
def test_what_holds_a_secret_shows_it_nowhere(name: str) -> None:
    told = load(RECIPES[name])
    secret = "Url" if name == "chat" else "Key"
    assert told["Parameters"][secret]["NoEcho"] is True
    assert json.dumps({"Ref": secret}) not in json.dumps(told["Outputs"])
