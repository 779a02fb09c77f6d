"""What etcd keeps: objects by kind, namespace and name, with one counter of versions for all."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

Body = dict[str, Any]
Key = tuple[str, str, str]


def stamp(at: datetime) -> str:
    """Return a time as Kubernetes writes it, in whole seconds."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse(written: str) -> datetime:
    return datetime.fromisoformat(written)


class Store:
    def __init__(self, now: Callable[[], datetime]) -> None:
        self.now = now
        self.version = 250
        self.log_length = 500
        self.objects: dict[Key, Body] = {}
        self.log: list[tuple[int, str, str, Body]] = []
        self._made = 0

    # --- identity ---

    def uid(self) -> str:
        self._made += 1
        h = hashlib.sha256(f"uid {self._made}".encode()).hexdigest()
        return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-a{h[17:20]}-{h[20:32]}"

    def suffix(self) -> str:
        self._made += 1
        letters = "bcdfghjklmnpqrstvwxz2456789"
        h = hashlib.sha256(f"suffix {self._made}".encode()).digest()
        return "".join(letters[b % len(letters)] for b in h[:5])

    # --- reading ---

    def get(self, plural: str, namespace: str, name: str) -> Body | None:
        return self.objects.get((plural, namespace, name))

    def of(self, plural: str, namespace: str | None = None) -> Iterator[Body]:
        for (kind, where, _), body in list(self.objects.items()):
            if kind == plural and namespace in (None, where):
                yield body

    def owned(self, plural: str, uid: str) -> list[Body]:
        return [
            body
            for body in self.of(plural)
            if any(o["uid"] == uid for o in body["metadata"].get("ownerReferences", []))
        ]

    # --- writing ---

    def add(
        self, plural: str, body: Body, fill_in: Callable[[Body, str], None] | None = None
    ) -> Body:
        meta = body["metadata"]
        meta["uid"] = self.uid()
        meta["creationTimestamp"] = stamp(self.now())
        if fill_in is not None:
            fill_in(body, meta["uid"])
        self.objects[(plural, meta.get("namespace", ""), meta["name"])] = body
        self._written("ADDED", plural, body)
        return body

    def changed(self, plural: str, body: Body) -> None:
        """Give an object that was changed its new version; remove it if nothing keeps it."""
        meta = body["metadata"]
        self._written("MODIFIED", plural, body)
        if meta.get("deletionTimestamp") and not meta.get("finalizers"):
            if plural == "pods" and meta.get("deletionGracePeriodSeconds"):
                return
            self.drop(plural, body)

    def drop(self, plural: str, body: Body) -> None:
        meta = body["metadata"]
        key = (plural, meta.get("namespace", ""), meta["name"])
        if self.objects.get(key) is body:
            del self.objects[key]
            self._written("DELETED", plural, body)

    def _written(self, kind: str, plural: str, body: Body) -> None:
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.log.append((self.version, kind, plural, deepcopy(body)))
        del self.log[: -self.log_length]
