"""The OpenAPI document: generated, checked in, and true of the handler."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from dispatch.api.openapi import document_text, openapi, page
from dispatch.api.routes import ROUTES, Route
from tests.architecture.sources import ROOT
from tests.functions.world import World


def test_the_document_in_the_repository_is_what_would_be_written() -> None:
    kept = (ROOT / "infra/openapi.json").read_text(encoding="utf-8")
    assert kept == document_text(), "run: python scripts/openapi.py"


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "$ref":
                yield inner
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_every_reference_leads_somewhere() -> None:
    document = openapi()
    schemas = document["components"]["schemas"]
    used = set(references(document))
    assert used
    assert {name.removeprefix("#/components/schemas/") for name in used} <= set(schemas)


def test_every_operation_has_a_name_of_its_own() -> None:
    names = [route.name for route in ROUTES]
    assert len(names) == len(set(names))
    places = [(route.method, route.path) for route in ROUTES]
    assert len(places) == len(set(places))


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_the_handler_has_every_route_of_the_document(world: World, route: Route) -> None:
    path = route.path.replace("{job_id}", "jaaaaaaaa").replace("{asset}", "app.js")
    answer = world.http(route.method, path, {} if route.body else None)
    assert answer.status != 405
    code = (
        json.loads(answer.text).get("code") if "problem" in answer.headers["content-type"] else ""
    )
    assert code != "route_not_found"
    documented = {str(status) for status in route.answers} | set(
        openapi()["paths"][route.path][route.method.lower()]["responses"]
    )
    assert str(answer.status) in documented


@pytest.fixture
def world() -> World:
    return World()


def test_requests_refuse_unknown_fields_in_the_document_too() -> None:
    schemas = openapi()["components"]["schemas"]
    for name in ("SubmitRequest", "IntentRequest", "Spec", "Plan"):
        assert schemas[name]["additionalProperties"] is False


def test_the_page_loads_nothing_from_anywhere() -> None:
    text = page()
    assert not re.search(r"(src|@import|url\()|<script|https?://", text)
    for route in ROUTES:
        assert route.path.replace("{", "{") in text
