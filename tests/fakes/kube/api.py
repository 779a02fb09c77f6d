"""The API server: one request in, one reply out, no thread and no socket."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.fakes.kube import crds, defaults, statuses, validation
from tests.fakes.kube.statuses import Refused
from tests.fakes.kube.store import Body, Store, stamp

VERSION = {"major": "1", "minor": "36", "gitVersion": "v1.36.2", "platform": "linux/amd64"}
FIELDS = {
    "jobs": ("metadata.name", "metadata.namespace", "status.successful"),
    "pods": ("metadata.name", "metadata.namespace", "spec.nodeName", "status.phase"),
    "events": ("type", "reason", "involvedObject.uid", "involvedObject.kind", "metadata.name"),
}
PREFIXES = ("/api/v1/", "/apis/batch/v1/", "/apis/kueue.x-k8s.io/v1beta1/")
CRD_PREFIXES = tuple(f"/apis/{group}/{version}/" for group, version in crds.VERSIONS.items())
OWNERS = ("jobs", "jobsets", "trainjobs")
"""What something may be made of, and whose deletion says what becomes of that."""


@dataclass(frozen=True)
class Request:
    method: str
    target: str
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return {k: v[-1] for k, v in parse_qs(urlsplit(self.target).query).items()}


@dataclass(frozen=True)
class Reply:
    status: int
    body: Any
    raw: bytes | None = None

    def encoded(self) -> bytes:
        return self.raw if self.raw is not None else json.dumps(self.body).encode()


@dataclass
class Api:
    """Attributes that a test may change: who may do what, and what is short.

    Attributes:
        store: What is kept.
        logs: What a pod's main container has written, by the pod's uid.
        tokens: Who each bearer token is.
        denied: Rights that are missing, `verb plural`.
        quota: How many pods a namespace may hold.
        pages: The rest of each list that is being read in pages.
        trainer: The release whose CRDs are served, with JobSet's; None where none are.
        webhooks: Whether Trainer's webhooks answer beside its CRDs.
        created: Told of each object that is about to be stored, as webhooks of others are.
    """

    store: Store
    logs: dict[str, bytes] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=lambda: {"good": "dispatch"})
    denied: set[str] = field(default_factory=set)
    quota: dict[str, int] = field(default_factory=dict)
    pages: dict[str, list[Body]] = field(default_factory=dict)
    trainer: str | None = None
    webhooks: bool = True
    created: Callable[[str, Body], None] = lambda plural, body: None

    def handle(self, request: Request) -> Reply:
        """Answer one request, whatever it is."""
        try:
            return self._route(request)
        except Refused as refused:
            return Reply(refused.code, refused.body)

    def expire_pages(self) -> None:
        """Forget the lists that `continue` tokens speak of, as etcd's compaction does."""
        self.pages.clear()

    # --- routing ---

    def _route(self, request: Request) -> Reply:
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        if bearer not in self.tokens:
            raise statuses.unauthorized()
        if request.path == "/version":
            return Reply(200, VERSION)
        if request.path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
            return Reply(201, self._review(request.body))
        if self.trainer is not None:
            found = crds.discovery(request.path, self.trainer)
            if found is not None:
                return Reply(200, found)
        served = PREFIXES + (CRD_PREFIXES if self.trainer is not None else ())
        prefix = next((p for p in served if request.path.startswith(p)), None)
        if prefix is None:
            return Reply(404, None, b"404 page not found\n")
        parts = [unquote(p) for p in request.path.removeprefix(prefix).split("/")]
        namespace = ""
        if parts[0] == "namespaces" and len(parts) > 2:
            namespace, parts = parts[1], parts[2:]
        plural, name = parts[0], parts[1] if len(parts) > 1 else ""
        if plural not in statuses.GROUPS or len(parts) > 3:
            return Reply(404, None, b"404 page not found\n")
        self._must_be_allowed(_verb(request.method, name), plural, namespace, (bearer, parts))
        if len(parts) > 2 and parts[2] == "status":
            return Reply(200, self._patch_status(plural, namespace, name, request))
        if len(parts) > 2:
            return self._log(namespace, name, request.query)
        return self._act(plural, namespace, name, request)

    def _must_be_allowed(
        self, verb: str, plural: str, namespace: str, who: tuple[str, list[str]]
    ) -> None:
        bearer, parts = who
        asked = f"{plural}/{parts[2]}" if len(parts) > 2 else plural
        if f"{verb} {asked}" in self.denied:
            raise statuses.not_allowed(plural, verb, self.tokens[bearer], namespace)

    def _act(self, plural: str, namespace: str, name: str, request: Request) -> Reply:
        match _verb(request.method, name):
            case "get":
                return Reply(200, self._shown(plural, self._found(plural, namespace, name)))
            case "list":
                return self._list(plural, namespace, request)
            case "create":
                return Reply(201, self._create(plural, namespace, request))
            case "patch":
                return Reply(200, self._patch(plural, namespace, name, request))
            case _:
                return Reply(200, self._delete(plural, namespace, name, request.body or {}))

    def _found(self, plural: str, namespace: str, name: str) -> Body:
        body = self.store.get(plural, namespace, name)
        if body is None:
            raise statuses.not_found(plural, name)
        return body

    def _shown(self, plural: str, body: Body) -> Body:
        group, kind = statuses.GROUPS[plural]
        version = _version(group)
        return {"apiVersion": version, "kind": kind, **deepcopy(body)}

    def _review(self, body: Body) -> Body:
        asked = body["spec"]["resourceAttributes"]
        plural = asked["resource"] + (f"/{asked['subresource']}" if "subresource" in asked else "")
        allowed = f"{asked['verb']} {plural}" not in self.denied
        return {**body, "status": {"allowed": allowed, "reason": "" if allowed else "no RBAC rule"}}

    def _log(self, namespace: str, name: str, query: dict[str, str]) -> Reply:
        pod = self._found("pods", namespace, name)
        statuses_ = pod["status"].get("containerStatuses", [])
        if not statuses_ or "waiting" in statuses_[0]["state"]:
            said = f'container "main" in pod "{name}" is waiting to start'
            raise statuses.failure(400, "BadRequest", said)
        written = self.logs.get(pod["metadata"]["uid"], b"")
        if "tailLines" in query:
            written = b"".join(written.splitlines(keepends=True)[-int(query["tailLines"]) :])
        if written and query.get("timestamps") == "true":
            started = statuses_[0]["state"].get("running", {}).get("startedAt", "")
            written = f"{started.removesuffix('Z')}.123456789Z ".encode() + written
        return Reply(200, None, written[: int(query.get("limitBytes", len(written)))])

    # --- lists and watches ---

    def _list(self, plural: str, namespace: str, request: Request) -> Reply:
        query = request.query
        given = int(query.get("resourceVersion", "0") or "0")
        if given > self.store.version:
            raise statuses.version_too_large(given, self.store.version)
        if query.get("watch") in ("1", "true"):
            return self._watch(plural, namespace, given)
        if "continue" in query:
            return self._page(plural, query["continue"], query, request)
        wanted = selects(query.get("labelSelector", ""))
        field_wanted = self._by_field(plural, query.get("fieldSelector", ""))
        found = [
            deepcopy(b)
            for b in self.store.of(plural, namespace or None)
            if wanted(b["metadata"].get("labels", {})) and field_wanted(b)
        ]
        found.sort(key=lambda b: b["metadata"]["name"])
        return self._cut(plural, found, query, request)

    def _cut(
        self, plural: str, found: list[Body], query: dict[str, str], request: Request
    ) -> Reply:
        limit = int(query.get("limit", "0")) or len(found) or 1
        shown, rest = found[:limit], found[limit:]
        metadata: Body = {"resourceVersion": str(self.store.version)}
        if rest:
            start = f"{shown[-1]['metadata']['name']}\0"
            token = {"v": "meta.k8s.io/v1", "rv": self.store.version, "start": start}
            written = base64.b64encode(json.dumps(token).encode()).decode().rstrip("=")
            self.pages[written] = rest
            metadata |= {"continue": written, "remainingItemCount": len(rest)}
        kind = statuses.GROUPS[plural][1]
        group = statuses.GROUPS[plural][0]
        version = _version(group)
        if "PartialObjectMetadataList" in request.headers.get("accept", ""):
            kind, version = "PartialObjectMetadata", "meta.k8s.io/v1"
            shown = [{"metadata": b["metadata"]} for b in shown]
        return Reply(
            200,
            {"apiVersion": version, "kind": f"{kind}List", "metadata": metadata, "items": shown},
        )

    def _page(self, plural: str, token: str, query: dict[str, str], request: Request) -> Reply:
        rest = self.pages.pop(token, None)
        if rest is None:
            padded = token + "=" * (-len(token) % 4)
            start = json.loads(base64.b64decode(padded))["start"]
            fresh = json.dumps({"v": "meta.k8s.io/v1", "rv": -1, "start": start}).encode()
            raise statuses.expired(base64.b64encode(fresh).decode().rstrip("="))
        return self._cut(plural, rest, query, request)

    def _watch(self, plural: str, namespace: str, since: int) -> Reply:
        oldest = self.store.log[0][0] if self.store.log else 0
        if since < oldest - 1 and len(self.store.log) >= self.store.log_length:
            said = f"too old resource version: {since} ({oldest})"
            error = statuses.failure(410, "Expired", said).body
            return Reply(200, None, json.dumps({"type": "ERROR", "object": error}).encode() + b"\n")
        lines = [
            json.dumps({"type": kind, "object": self._shown(plural, body)})
            for version, kind, what, body in self.store.log
            if version > since
            and what == plural
            and namespace in ("", body["metadata"].get("namespace", ""))
        ]
        return Reply(200, None, "".join(f"{line}\n" for line in lines).encode())

    def _by_field(self, plural: str, selector: str) -> Callable[[Body], bool]:
        wanted = [part.partition("=") for part in selector.split(",") if part]
        for label, _, _ in wanted:
            if label not in FIELDS.get(plural, ("metadata.name", "metadata.namespace")):
                raise statuses.no_such_label(plural, label)

        def holds(body: Body) -> bool:
            return all(_dotted(body, label) == value.lstrip("=") for label, _, value in wanted)

        return holds

    # --- changes ---

    def _create(self, plural: str, namespace: str, request: Request) -> Body:
        body = deepcopy(request.body)
        name = body["metadata"].get("name", "")
        if not namespace:
            return self._create_for_all(plural, body)
        space = self.store.get("namespaces", "", namespace)
        if space is None:
            raise statuses.not_found("namespaces", namespace)
        if request.query.get("fieldValidation") == "Strict":
            self._decode(plural, body)
        if plural == "jobs":
            validation.new_job(body)
        if space["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {namespace} because it is being "
            why += "terminated"
            raise statuses.forbidden(plural, name, why)
        there = self.store.get(plural, namespace, name)
        if there is not None:
            going = "deletionTimestamp" in there["metadata"]
            raise statuses.already_exists(plural, name, going=going)
        for key in ("apiVersion", "kind"):
            body.pop(key, None)
        body["metadata"]["namespace"] = namespace
        self.created(plural, body)
        if plural == "trainjobs" and self.webhooks:
            crds.new_trainjob(self.store, body)
        elif plural == "trainjobs":
            crds.fill_in(body)
        elif plural == "jobsets":
            crds.new_jobset(body)
        self.store.add(plural, body, defaults.job if plural == "jobs" else None)
        return self._shown(plural, body)

    def _decode(self, plural: str, body: Body) -> None:
        if plural in ("trainjobs", "jobsets"):
            crds.decode(plural, body, self.trainer or "")
        else:
            validation.decode(plural, body)

    def _create_for_all(self, plural: str, body: Body) -> Body:
        """Create what lives in no namespace: a Node or a Namespace."""
        if self.store.get(plural, "", body["metadata"]["name"]) is not None:
            raise statuses.already_exists(plural, body["metadata"]["name"], going=False)
        for key in ("apiVersion", "kind"):
            body.pop(key, None)
        body.setdefault("spec", {})
        body["status"] = {"phase": "Active"} if plural == "namespaces" else {"conditions": []}
        return self._shown(plural, self.store.add(plural, body))

    def _patch_status(self, plural: str, namespace: str, name: str, request: Request) -> Body:
        """Change what a kubelet or a controller reports, and nothing else."""
        body = self._found(plural, namespace, name)
        body["status"] = merged(body["status"], request.body.get("status", {}))
        self.store.changed(plural, body)
        return self._shown(plural, body)

    def _patch(self, plural: str, namespace: str, name: str, request: Request) -> Body:
        body = self._found(plural, namespace, name)
        kind = request.headers.get("content-type", "")
        if kind != "application/merge-patch+json":
            said = "the body of the request was in an unknown format - accepted media types include"
            raise statuses.failure(415, "UnsupportedMediaType", said)
        meta = request.body.get("metadata", {})
        if request.query.get("fieldValidation") == "Strict":
            self._decode(plural, request.body)
        if meta.get("uid", body["metadata"]["uid"]) != body["metadata"]["uid"]:
            given, uid = meta["uid"], body["metadata"]["uid"]
            raise statuses.other_uid(plural, name, given, uid, deleting=False)
        version = body["metadata"]["resourceVersion"]
        if meta.get("resourceVersion", version) != version:
            raise statuses.modified(plural, name)
        changed = merged(body, request.body)
        if plural == "jobs":
            validation.changed_job(body, changed)
            if changed["spec"] != body["spec"]:
                changed["metadata"]["generation"] += 1
        elif plural in OWNERS:
            crds.changed(self.store, plural, body, changed)
            changed["metadata"]["generation"] += changed["spec"] != body["spec"]
        elif changed["spec"] != body["spec"]:
            raise statuses.invalid(plural, name, [("spec", "Forbidden: pod updates may not")])
        changed["metadata"]["resourceVersion"] = version
        if changed != body:
            body.clear()
            body.update(changed)
            self.store.changed(plural, body)
        return self._shown(plural, body)

    def _delete(self, plural: str, namespace: str, name: str, options: Body) -> Body:
        body = self._found(plural, namespace, name)
        meta = body["metadata"]
        wanted = options.get("preconditions", {})
        if wanted.get("uid", meta["uid"]) != meta["uid"]:
            raise statuses.other_uid(plural, name, wanted["uid"], meta["uid"])
        if wanted.get("resourceVersion", meta["resourceVersion"]) != meta["resourceVersion"]:
            given = wanted["resourceVersion"]
            raise statuses.other_version(plural, name, given, meta["resourceVersion"])
        if plural == "pods":
            self.delete_pod(body, options.get("gracePeriodSeconds"))
            return self._shown(plural, body)
        if plural == "namespaces":
            meta.setdefault("deletionTimestamp", stamp(self.store.now()))
            meta["finalizers"] = ["kubernetes"]
            body["status"]["phase"] = "Terminating"
            self.store.changed(plural, body)
            return self._shown(plural, body)
        policy = options.get("propagationPolicy", "Orphan" if plural == "jobs" else "Background")
        if plural in OWNERS and policy != "Background":
            finalizer = "orphan" if policy == "Orphan" else "foregroundDeletion"
            self._going(plural, body, finalizer)
            return self._shown(plural, body)
        if meta.get("finalizers"):
            self._going(plural, body, None)
            return self._shown(plural, body)
        self.store.drop(plural, body)
        return statuses.success(plural, name, meta["uid"])

    def _going(self, plural: str, body: Body, finalizer: str | None) -> None:
        meta = body["metadata"]
        if "deletionTimestamp" not in meta:
            meta["deletionTimestamp"] = stamp(self.store.now())
            meta["deletionGracePeriodSeconds"] = 0
            meta["generation"] = meta.get("generation", 1) + 1
        held = meta.setdefault("finalizers", [])
        if finalizer is not None and finalizer not in held:
            held.append(finalizer)
        self.store.changed(plural, body)

    def delete_pod(self, pod: Body, grace_s: int | None = None) -> None:
        """Ask a pod to end; what runs nowhere, or has ended, goes at once."""
        meta, spec = pod["metadata"], pod["spec"]
        if "deletionTimestamp" in meta and grace_s != 0:
            return
        grace = spec["terminationGracePeriodSeconds"] if grace_s is None else grace_s
        if "nodeName" not in spec or pod["status"]["phase"] in ("Succeeded", "Failed"):
            grace = 0
        if "deletionTimestamp" not in meta:
            meta["generation"] += 1
        meta["deletionTimestamp"] = stamp_after(self.store, grace)
        meta["deletionGracePeriodSeconds"] = grace
        self.store.changed("pods", pod)


def stamp_after(store: Store, seconds: float) -> str:
    return stamp(store.now() + timedelta(seconds=seconds))


def _version(group: str) -> str:
    known = {"batch": "batch/v1", "": "v1"}
    return known.get(group, f"{group}/{crds.VERSIONS.get(group, 'v1beta1')}")


def _verb(method: str, name: str) -> str:
    if method == "GET":
        return "get" if name else "list"
    return {"POST": "create", "PATCH": "patch", "DELETE": "delete"}[method]


def _dotted(body: Body, label: str) -> str:
    value: Any = body
    for part in label.split("."):
        value = value.get(part, "") if isinstance(value, dict) else ""
    return str(value)


def merged(body: Any, patch: Any) -> Any:
    """Return a body with a merge patch (RFC 7386) applied."""
    if not isinstance(patch, dict):
        return deepcopy(patch)
    result = dict(deepcopy(body)) if isinstance(body, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def selects(selector: str) -> Callable[[dict[str, str]], bool]:
    """Return what a label selector selects; sets with `in` aren't spoken here."""
    parts = [p.strip() for p in selector.split(",") if p.strip()]

    def holds(labels: dict[str, str]) -> bool:
        for part in parts:
            key, equals, value = part.partition("=")
            if part.startswith("!"):
                if part[1:] in labels:
                    return False
            elif equals:
                negated = key.endswith("!")
                same = labels.get(key.rstrip("!")) == value.lstrip("=")
                if same is negated:
                    return False
            elif part not in labels:
                return False
        return True

    return holds
