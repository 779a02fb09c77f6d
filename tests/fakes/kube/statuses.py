"""The `Status` bodies of an API server, word for word."""

from __future__ import annotations

from typing import Any

from tests.fakes.kube.store import Body

GROUPS = {
    "jobs": ("batch", "Job"),
    "pods": ("", "Pod"),
    "services": ("", "Service"),
    "events": ("", "Event"),
    "nodes": ("", "Node"),
    "namespaces": ("", "Namespace"),
    "workloads": ("kueue.x-k8s.io", "Workload"),
    "trainjobs": ("trainer.kubeflow.org", "TrainJob"),
    "jobsets": ("jobset.x-k8s.io", "JobSet"),
}


class Refused(Exception):
    """A call that the server refuses, with the body that says so."""

    def __init__(self, code: int, body: Body) -> None:
        super().__init__(body.get("message", ""))
        self.code = code
        self.body = body


def failure(code: int, reason: str, message: str, details: Body | None = None) -> Refused:
    body: Body = {
        "apiVersion": "v1",
        "code": code,
        "kind": "Status",
        "message": message,
        "metadata": {},
        "reason": reason,
        "status": "Failure",
    }
    if details:
        body["details"] = details
    return Refused(code, body)


def resource(plural: str) -> str:
    group = GROUPS[plural][0]
    return f"{plural}.{group}" if group else plural


def details(plural: str, name: str) -> Body:
    group = GROUPS[plural][0]
    return {**({"group": group} if group else {}), "kind": plural, "name": name}


def kind_details(plural: str, name: str) -> Body:
    group, kind = GROUPS[plural]
    return {**({"group": group} if group else {}), "kind": kind, "name": name}


def kind(plural: str) -> str:
    group, name = GROUPS[plural]
    return f"{name}.{group}" if group else name


def not_found(plural: str, name: str) -> Refused:
    said = f'{resource(plural)} "{name}" not found'
    return failure(404, "NotFound", said, details(plural, name))


def already_exists(plural: str, name: str, *, going: bool) -> Refused:
    said = f'{resource(plural)} "{name}" already exists'
    if going:
        said = f"object is being deleted: {said}"
    return failure(409, "AlreadyExists", said, details(plural, name))


def modified(plural: str, name: str) -> Refused:
    said = (
        f'Operation cannot be fulfilled on {resource(plural)} "{name}": the object has been '
        "modified; please apply your changes to the latest version and try again"
    )
    return failure(409, "Conflict", said, details(plural, name))


def other_uid(plural: str, name: str, given: str, uid: str, *, deleting: bool = True) -> Refused:
    if deleting:
        said = (
            f'Operation cannot be fulfilled on {kind(plural)} "{name}": the UID in the '
            f"precondition ({given}) does not match the UID in record ({uid}). The object might "
            "have been deleted and then recreated"
        )
        return failure(409, "Conflict", said, kind_details(plural, name))
    said = (
        f'Operation cannot be fulfilled on {resource(plural)} "{name}": Precondition failed: UID '
        f"in precondition: {given}, UID in object meta: {uid}"
    )
    return failure(409, "Conflict", said, details(plural, name))


def other_version(plural: str, name: str, given: str, version: str) -> Refused:
    said = (
        f'Operation cannot be fulfilled on {kind(plural)} "{name}": the ResourceVersion in the '
        f"precondition ({given}) does not match the ResourceVersion in record ({version}). The "
        "object might have been modified"
    )
    return failure(409, "Conflict", said, kind_details(plural, name))


def unknown_field(plural: str, version: str, field: str) -> Refused:
    name = GROUPS[plural][1]
    said = (
        f'{name} in version "{version}" cannot be handled as a {name}: strict decoding error: '
        f'unknown field "{field}"'
    )
    return failure(400, "BadRequest", said)


def invalid(plural: str, name: str, causes: list[tuple[str, str]]) -> Refused:
    rows = [
        {"field": field, "message": said, "reason": "FieldValueInvalid"} for field, said in causes
    ]
    words = [f"{field}: {said}" for field, said in causes]
    told = words[0] if len(words) == 1 else f"[{', '.join(words)}]"
    said = f'{kind(plural)} "{name}" is invalid: {told}'
    return failure(422, "Invalid", said, {"causes": rows, **kind_details(plural, name)})


def expired(token: str) -> Refused:
    refused = failure(
        410,
        "Expired",
        "The provided continue parameter is too old to display a consistent list result. You can "
        "start a new list without the continue parameter, or use the continue token in this "
        "response to retrieve the remainder of the results. Continuing with the provided token "
        "results in an inconsistent list - objects that were created, modified, or deleted "
        "between the time the first chunk was returned and now may show up in the list.",
    )
    refused.body["metadata"] = {"continue": token}
    return refused


def version_too_large(given: int, current: int) -> Refused:
    said = f"Timeout: Too large resource version: {given}, current: {current}"
    cause = {"message": "Too large resource version", "reason": "ResourceVersionTooLarge"}
    return failure(504, "Timeout", said, {"causes": [cause]})


def no_such_label(plural: str, label: str) -> Refused:
    name = GROUPS[plural][1]
    said = f'field label "{label}" not supported for {name}'
    return failure(400, "BadRequest", said)


def unauthorized() -> Refused:
    return failure(401, "Unauthorized", "Unauthorized")


def forbidden(plural: str, name: str, why: str) -> Refused:
    said = f'{resource(plural)} "{name}" is forbidden: {why}'
    return failure(403, "Forbidden", said, details(plural, name))


def not_allowed(plural: str, verb: str, user: str, namespace: str) -> Refused:
    group = GROUPS[plural][0]
    where = f' in the namespace "{namespace}"' if namespace else " at the cluster scope"
    said = (
        f'{resource(plural)} is forbidden: User "{user}" cannot {verb} resource "{plural}" in '
        f'API group "{group}"{where}'
    )
    return failure(403, "Forbidden", said, {k: v for k, v in details(plural, "").items() if v})


def success(plural: str, name: str, uid: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "details": {**details(plural, name), "uid": uid},
        "kind": "Status",
        "metadata": {},
        "status": "Success",
    }
