"""What the API server refuses of a body: unknown fields, bad names, changes of what is fixed."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from tests.fakes.kube import statuses
from tests.fakes.kube.store import Body

MODELS = {"jobs": "V1Job", "services": "V1Service", "pods": "V1Pod", "nodes": "V1Node"}

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?\Z")
_LIST = re.compile(r"[Ll]ist\[(.+)\]\Z")
_DICT = re.compile(r"[Dd]ict[\[(]str, ?(.+)[\])]\Z")

BAD_NAME = (
    'Invalid value: "{name}": a lowercase RFC 1123 subdomain must consist of lower case '
    "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


@cache
def _model(name: str) -> Any:
    import kubernetes.client

    return getattr(kubernetes.client, name, None)


def unknown_fields(model: str, value: object, at: str = "") -> list[str]:
    """Return the fields that a type of the API doesn't have, dotted, by the client's own types."""
    if listed := _LIST.match(model):
        rows = value if isinstance(value, list) else []
        return [f for n, v in enumerate(rows) for f in unknown_fields(listed[1], v, f"{at}[{n}]")]
    if mapped := _DICT.match(model):
        pairs = value.items() if isinstance(value, dict) else ()
        return [f for k, v in pairs for f in unknown_fields(mapped[1], v, f"{at}.{k}")]
    kind = _model(model)
    if kind is None or not hasattr(kind, "attribute_map") or not isinstance(value, dict):
        return []
    types = {kind.attribute_map[k]: t for k, t in kind.openapi_types.items()}
    found = []
    for key, item in value.items():
        here = f"{at}.{key}".lstrip(".")
        if key not in types:
            found.append(here)
        else:
            found += unknown_fields(types[key], item, here)
    return found


def decode(plural: str, body: Body) -> None:
    """Refuse an unknown field, as fieldValidation=Strict does."""
    found = unknown_fields(MODELS[plural], body)
    if found:
        raise statuses.unknown_field(plural, "v1", found[0])


def new_job(body: Body) -> None:
    name = body["metadata"].get("name", "")
    spec = body["spec"]
    causes = []
    if not SUBDOMAIN.match(name):
        causes.append(("metadata.name", BAD_NAME.format(name=name)))
    last = f"{name}-{spec.get('completions', 1) - 1}"
    if not DNS_LABEL.match(last) or len(last) > 63:
        said = (
            f'Invalid value: "{name}": will not able to create pod with invalid DNS label: {last}'
        )
        causes.append(("metadata.name", said))
    labels = {
        **body["metadata"].get("labels", {}),
        **spec["template"]["metadata"].get("labels", {}),
    }
    for value in labels.values():
        if len(value) > 63 or not LABEL_VALUE.match(value):
            causes.append(("metadata.labels", f'Invalid value: "{value}": a valid label must be'))
    if "podFailurePolicy" in spec:
        if spec["template"]["spec"].get("restartPolicy") != "Never":
            causes.append(("spec.template.spec.restartPolicy", "Invalid value: only Never"))
        if spec.get("podReplacementPolicy", "Failed") != "Failed":
            causes.append(("spec.podReplacementPolicy", "Unsupported value: only Failed"))
    for container in spec["template"]["spec"]["containers"]:
        if not container.get("image"):
            causes.append(("spec.template.spec.containers[0].image", "Required value"))
    if causes:
        raise statuses.invalid("jobs", name, causes)


def changed_job(old: Body, new: Body) -> None:
    """Refuse a change of what is fixed; scheduling directives are free before the first start."""
    name = old["metadata"]["name"]
    before, after = dict(old["spec"]), dict(new["spec"])
    free = {"suspend", "parallelism", "activeDeadlineSeconds", "ttlSecondsAfterFinished"}
    free |= {"backoffLimit"}
    template_free = old["spec"].get("suspend") is True and "startTime" not in old["status"]
    causes = []
    if before.pop("template") != after.get("template"):
        fixed_before, fixed_after = _fixed(old["spec"]["template"]), _fixed(new["spec"]["template"])
        if not template_free or fixed_before != fixed_after:
            causes.append(("spec.template", "Invalid value: field is immutable"))
    after.pop("template")
    for field in sorted(before.keys() | after.keys()):
        if field not in free and before.get(field) != after.get(field):
            causes.append((f"spec.{field}", "Invalid value: field is immutable"))
    if causes:
        raise statuses.invalid("jobs", name, causes)


def _fixed(template: Body) -> Body:
    """Return a pod template without what may be changed before the first start."""
    metadata = {k: v for k, v in template["metadata"].items() if k not in ("labels", "annotations")}
    spec = {
        k: v
        for k, v in template["spec"].items()
        if k not in ("nodeSelector", "affinity", "tolerations", "schedulingGates")
    }
    return {"metadata": metadata, "spec": spec}
