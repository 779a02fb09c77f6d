"""Events: told once, counted when they come again, forgotten after an hour."""

from __future__ import annotations

from datetime import timedelta

from tests.fakes.kube.store import Body, Store, parse, stamp

KEPT_FOR = timedelta(hours=1)


def tell(store: Store, about: Body, kind: str, reason: str, message: str, component: str) -> None:
    """Record an event about an object."""
    meta, at = about["metadata"], stamp(store.now())
    for old in store.of("events", meta["namespace"]):
        same = (old["involvedObject"]["uid"], old["reason"], old["message"])
        if same == (meta["uid"], reason, message):
            old["count"] += 1
            old["lastTimestamp"] = at
            store.changed("events", old)
            return
    warning = reason in WARNINGS
    store.add(
        "events",
        {
            "count": 1,
            "eventTime": None,
            "firstTimestamp": at,
            "involvedObject": {
                "apiVersion": "batch/v1" if kind == "Job" else "v1",
                "kind": kind,
                "name": meta["name"],
                "namespace": meta["namespace"],
                "resourceVersion": meta["resourceVersion"],
                "uid": meta["uid"],
            },
            "lastTimestamp": at,
            "message": message,
            "metadata": {
                "name": f"{meta['name']}.{store.version:016x}",
                "namespace": meta["namespace"],
            },
            "reason": reason,
            "reportingComponent": component,
            "reportingInstance": "",
            "source": {"component": component},
            "type": "Warning" if warning else "Normal",
        },
    )


WARNINGS = {
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "Evicted",
    "Failed",
    "FailedCreate",
    "FailedMount",
    "FailedScheduling",
    "NodeNotReady",
    "PodFailurePolicy",
    "TrainJobResourcesCreationFailed",
}


def forget(store: Store) -> None:
    for event in list(store.of("events")):
        if store.now() - parse(event["lastTimestamp"]) >= KEPT_FOR:
            store.drop("events", event)
