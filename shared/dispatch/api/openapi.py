"""The OpenAPI document, made of the table of routes and the wire models; and its page. Pure."""

from __future__ import annotations

import json
import re
from html import escape
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from dispatch.api.models import API_VERSION, PROBLEM_TYPE, Problem
from dispatch.api.routes import ROUTES, Parameter, Route

_REF = "#/components/schemas/{model}"
_ANY_ROUTE = (400, 403, 500, 503, 504)
_SAID = {
    400: "The request is malformed; `field` and `detail` say where and why.",
    403: "The caller isn't known, or may not do this.",
    404: "There is no such job here.",
    409: "The job, its key or its record stands against it; `code` says which.",
    410: "The record was tombstoned; only its idempotency key is kept.",
    413: "Too large.",
    415: "The content type isn't application/json.",
    422: "The cluster isn't known, or can't do this.",
    500: "Something failed here.",
    503: "Nothing was learnt and nothing was changed; try later.",
    504: "It may have taken effect; send the same request again, with the same key or id.",
}


def document_text() -> str:
    """Return the document as it is served and kept in `infra/openapi.json`."""
    return json.dumps(openapi(), indent=1, sort_keys=True) + "\n"


def openapi() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of the API."""
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Dispatch",
            "version": API_VERSION,
            "description": "Jobs as event-sourced records that no scheduler can forget.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": _schemas()},
    }


def _schemas() -> dict[str, Any]:
    wanted: list[tuple[type[BaseModel], Any]] = [(Problem, "serialization")]
    for route in ROUTES:
        if route.body is not None:
            wanted.append((route.body, "validation"))
        wanted += [(model, "serialization") for model in route.answers.values() if model]
    _, document = models_json_schema(list(dict.fromkeys(wanted)), ref_template=_REF)
    schemas: dict[str, Any] = document["$defs"]
    return dict(sorted(schemas.items()))


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.about,
        "parameters": _parameters(route),
        "responses": _responses(route),
    }
    if route.body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _ref(route.body)}},
        }
    return {name: value for name, value in operation.items() if value}


def _parameters(route: Route) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = []
    for name in re.findall(r"\{(\w+)\}", route.path):
        parameters.append(
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        )
    for name, about in route.headers.items():
        parameters.append(
            {
                "name": name,
                "in": "header",
                "required": True,
                "description": about,
                "schema": {"type": "string", "pattern": r"^[\x21-\x7e]{1,200}$"},
            }
        )
    for name, one in route.query.items():
        parameters.append(_query(name, one))
    return parameters


def _query(name: str, one: Parameter) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": one.about, "schema": dict(one.schema)}


def _responses(route: Route) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, model in route.answers.items():
        said = "It hasn't changed since." if status == 304 else "As asked."
        responses[str(status)] = {"description": said} | _content(route, status, model)
    for status in sorted({*_ANY_ROUTE, *route.problems}) if not route.public else ():
        responses[str(status)] = {
            "description": _SAID[status],
            "content": {PROBLEM_TYPE: {"schema": _ref(Problem)}},
        }
    return responses


def _content(route: Route, status: int, model: type[BaseModel] | None) -> dict[str, Any]:
    if status in (204, 304):
        return {}
    schema: dict[str, Any] = {"type": "string"} if model is None else _ref(model)
    if route.name == "openapi":
        schema = {"type": "object"}
    return {"content": {route.content: {"schema": schema}}}


def _ref(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _REF.format(model=model.__name__)}


# --- the page ---------------------------------------------------------------------------------

PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "code{font-family:ui-monospace,monospace}h2{font-size:1.1rem;margin:1.6rem 0 .2rem}"
    "table{border-collapse:collapse}td{padding:.1rem .8rem .1rem 0;vertical-align:top}"
    "p{margin:.2rem 0}@media(prefers-color-scheme:dark){body{background:#111;color:#eee}"
    "a{color:#8cf}}"
)


def page() -> str:
    """Return the API as a page for people that loads nothing from anywhere."""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width'><title>Dispatch: the API</title>",
        f"<style>{_STYLE}</style><h1>Dispatch: the API, version {API_VERSION}</h1>",
        "<p>The whole of it, for machines: <a href=openapi.json>openapi.json</a>.</p>",
    ]
    parts += [_section(route) for route in ROUTES]
    return "".join(parts) + "</html>\n"


def _section(route: Route) -> str:
    rows = [
        (f"<code>{escape(name)}</code>", escape(one.about)) for name, one in route.query.items()
    ]
    rows += [
        (f"<code>{escape(name)}:</code>", escape(text)) for name, text in route.headers.items()
    ]
    if route.body is not None:
        rows.append(("body", f"<code>{route.body.__name__}</code>"))
    for status, model in route.answers.items():
        what = model.__name__ if model is not None else route.content
        shown = what if status not in (204, 304) else "nothing"
        rows.append((str(status), f"<code>{escape(shown)}</code>"))
    for status in route.problems:
        rows.append((str(status), escape(_SAID[status])))
    table = "".join(f"<tr><td>{left}<td>{right}" for left, right in rows)
    return (
        f"<h2><code>{route.method} {escape(route.path)}</code></h2>"
        f"<p>{escape(route.about)}</p><table>{table}</table>"
    )
