"""The fake does what a real Kubernetes 1.36 was seen doing: a test for each recording it plays."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.fakes.kube.api import Reply, Request
from tests.fakes.kube.cluster import START, KubeCluster
from tests.fakes.kube.kubelet import Program
from tests.fakes.kube.recorded import comparable, conditions, recording, told
from tests.fakes.kube.store import Body, parse

JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
STRICT = "?fieldValidation=Strict"
HEADERS = {"authorization": "Bearer good", "content-type": "application/merge-patch+json"}
EVIDENCE = "dispatch.example/evidence"

Ask = Callable[..., Reply]


@pytest.fixture
def kube() -> KubeCluster:
    return KubeCluster()


def ask(kube: KubeCluster, method: str, path: str, body: Any = None) -> Reply:
    return kube.handle(Request(method, path, body, HEADERS))


def recorded_job(name: str, **spec: Any) -> Body:
    """Return a manifest like the one that the recorded Jobs were created from."""
    template: Body = {
        "metadata": {"labels": {"dispatch/job": name}},
        "spec": {
            "containers": [
                {
                    "command": ["true"],
                    "image": "busybox",
                    "name": "main",
                    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                }
            ],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
        },
    }
    made = {
        "backoffLimit": 0,
        "completionMode": "Indexed",
        "completions": 1,
        "parallelism": 1,
        "template": template,
        **spec,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {"dispatch/job": name}},
        "spec": made,
    }


def create(kube: KubeCluster, name: str, *, keep: bool = False, **spec: Any) -> Body:
    body = recorded_job(name, **spec)
    if keep:
        body["spec"]["template"]["metadata"]["finalizers"] = [EVIDENCE]
    reply = ask(kube, "POST", JOBS + STRICT, body)
    assert reply.status == 201, reply.body
    return dict(reply.body)


def get(kube: KubeCluster, name: str) -> Body:
    return dict(ask(kube, "GET", f"{JOBS}/{name}").body)


def events(kube: KubeCluster) -> list[Body]:
    return sorted(kube.store.of("events"), key=lambda e: int(e["metadata"]["resourceVersion"]))


def same(seen: Any, name: str) -> None:
    """Assert that a body is the recorded one, but for times, uids and chance."""
    assert comparable(seen) == comparable(recording(name))


def like_pod(seen: Body, recorded: Body) -> None:
    """Assert that a pod is the recorded one; a played kubelet wrote fewer conditions."""
    ours, theirs = comparable(seen), comparable(recorded)
    assert ours["metadata"] == theirs["metadata"]
    assert ours["status"]["phase"] == theirs["status"]["phase"]
    kinds = [c["type"] for c in theirs["status"]["conditions"]]
    by_kind = {c[0]: c[1:] for c in conditions(seen)}
    assert {k: by_kind[k] for k in kinds} == {c[0]: c[1:] for c in conditions(recorded)}
    states = [s["status"].get("containerStatuses", [{}])[0].get("state") for s in (ours, theirs)]
    assert states[0] == states[1]


# --- a Job's life ---


def test_job_01_created(kube: KubeCluster) -> None:
    kube.asleep = True
    same(create(kube, "ok1", completions=3, parallelism=3), "job-01-created")


def test_job_02_running_with_its_pods(kube: KubeCluster) -> None:
    create(kube, "ok1", completions=3, parallelism=3)
    same(get(kube, "ok1"), "job-02-running")
    for seen, recorded in zip(
        kube.pods("ok1"), recording("job-02-pods-running")["items"], strict=True
    ):
        like_pod(seen, recorded)


def test_job_03_one_of_three_succeeded(kube: KubeCluster) -> None:
    create(kube, "ok1", completions=3, parallelism=3)
    kube.end(kube.pods("ok1")[0], 0)
    same(get(kube, "ok1"), "job-03-one-succeeded")


def test_job_04_complete_with_its_pods_and_events(kube: KubeCluster) -> None:
    create(kube, "ok1", completions=3, parallelism=3)
    for pod in kube.pods("ok1"):
        kube.end(pod, 0)
    same(get(kube, "ok1"), "job-04-complete")
    for seen, recorded in zip(kube.pods("ok1"), recording("job-04-pods")["items"], strict=True):
        like_pod(seen, recorded)
    assert told(events(kube)) == told(recording("job-04-events")["items"])


def test_watch_job_events_conditions_come_in_their_order(kube: KubeCluster) -> None:
    create(kube, "w1")
    kube.end(kube.pod("w1"), 0)
    ask(kube, "DELETE", f"{JOBS}/w1", {"propagationPolicy": "Background"})
    stream = ask(kube, "GET", f"{JOBS}?watch=1&resourceVersion=1").encoded().splitlines()
    seen = [json.loads(line) for line in stream]
    ours = [(s["type"], [list(c) for c in conditions(s["object"])]) for s in seen]
    theirs = [
        (kind, [[t, s, r, m] for t, s, r, m in rows])
        for kind, _, _, rows in recording("watch-job-events")
    ]
    # A write without a new condition may come twice; what matters is the order of conditions.
    assert [o for i, o in enumerate(ours) if o not in ours[:i]] == [
        t for i, t in enumerate(theirs) if t not in theirs[:i]
    ]


def test_job_10_a_failed_pod_is_replaced_after_ten_seconds(kube: KubeCluster) -> None:
    create(kube, "fail1", backoffLimit=1, completions=2, parallelism=2)
    kube.end(kube.pods("fail1")[0], 1)
    kube.advance(9)
    assert len(kube.pods("fail1")) == 2
    kube.advance(1)
    same(get(kube, "fail1"), "job-10-one-failed")
    recorded = [
        (p["status"]["phase"], p["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"])
        for p in recording("job-10-pods")["items"]
    ]
    seen = [
        (p["status"]["phase"], p["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"])
        for p in kube.pods("fail1")
    ]
    assert sorted(seen) == sorted(recorded)


def test_job_11_the_back_off_limit_ends_its_siblings_too(kube: KubeCluster) -> None:
    create(kube, "fail1", backoffLimit=1, completions=2, parallelism=2)
    kube.end(kube.pods("fail1")[0], 1)
    kube.advance(10)
    again = kube.pods("fail1")[-1]
    kube.end(again, 137)
    kube.advance(1)
    seen = get(kube, "fail1")
    assert conditions(seen) == conditions(recording("job-11-backofflimit"))
    assert seen["status"]["failed"] == recording("job-11-backofflimit")["status"]["failed"]
    # The sibling that was deleted is gone, with its exit code.
    assert len(kube.pods("fail1")) == len(recording("job-11-pods")["items"]) == 2
    assert told(events(kube)) == told(recording("job-11-events")["items"])


def test_job_13_a_policy_that_fails_the_job_keeps_the_exit_code(kube: KubeCluster) -> None:
    rules = recording("job-13-podfailurepolicy")["spec"]["podFailurePolicy"]["rules"]
    create(kube, "pix", completions=3, parallelism=3, podFailurePolicy={"rules": rules})
    kube.end(kube.pods("pix")[2], 43)
    kube.advance(1)
    recorded = recording("job-13-podfailurepolicy")
    assert comparable(conditions(get(kube, "pix"))) == comparable(conditions(recorded))
    policy = [e for e in told(events(kube)) if e[1] == "PodFailurePolicy"]
    assert policy == [e for e in told(recording("job-13-events")["items"]) if e[0] == "Warning"]


# --- suspension ---


def test_job_20_suspending_replies_before_anything_has_happened(kube: KubeCluster) -> None:
    create(kube, "sus", completions=2, parallelism=2)
    reply = ask(kube, "PATCH", f"{JOBS}/sus", {"spec": {"suspend": True}})
    same(reply.body, "job-20-suspend-patch-reply")


def test_job_21_suspended_stands_before_the_pods_are_gone() -> None:
    kube = KubeCluster(lambda a, e: Program(on_term=9, term_s=1))
    create(kube, "sus", completions=2, parallelism=2)
    ask(kube, "PATCH", f"{JOBS}/sus", {"spec": {"suspend": True}})
    same(get(kube, "sus"), "job-21-suspended")
    kube.advance(2)
    assert get(kube, "sus")["status"]["terminating"] == 0
    assert kube.pods("sus") == []


def test_job_22_resumed_makes_new_pods(kube: KubeCluster) -> None:
    create(kube, "sus", completions=2, parallelism=2)
    ask(kube, "PATCH", f"{JOBS}/sus", {"spec": {"suspend": True}})
    ask(kube, "PATCH", f"{JOBS}/sus", {"spec": {"suspend": False}})
    same(get(kube, "sus"), "job-22-resumed")
    ours = [e[1] for e in told(events(kube))]
    theirs = [e[1] for e in told(recording("job-22-events")["items"])]
    assert sorted(ours) == sorted(theirs)


def test_job_24_created_suspended_has_no_pods(kube: KubeCluster) -> None:
    create(kube, "sus3", completions=2, parallelism=2, suspend=True)
    same(get(kube, "sus3"), "job-24-created-suspended")
    assert kube.pods("sus3") == []


def test_real_suspend_the_finalizer_keeps_the_pods_with_their_exit_codes() -> None:
    kube = KubeCluster(lambda a, e: Program(on_term=9, term_s=1))
    create(kube, "es", keep=True, completions=2, parallelism=2)
    ask(kube, "PATCH", f"{JOBS}/es", {"spec": {"suspend": True}})
    kube.advance(3)
    recorded = recording("real-suspend-evidence-finalizer")
    assert comparable(get(kube, "es")["status"]) == comparable(recorded["job"]["status"])
    for seen, there in zip(kube.pods("es"), recorded["pods"], strict=True):
        for field in ("finalizers", "deletionGracePeriodSeconds", "generation"):
            assert seen["metadata"][field] == there["metadata"][field]
        assert comparable(seen["status"]["containerStatuses"][0]["state"]) == comparable(
            there["status"]["containerStatuses"][0]["state"]
        )
        observed = {c["type"]: c["observedGeneration"] for c in seen["status"]["conditions"]}
        assert observed["Ready"] == 2
    ask(kube, "PATCH", f"{JOBS}/es", {"spec": {"suspend": False}})
    assert get(kube, "es")["status"]["active"] == 2


# --- deletion ---


@pytest.mark.parametrize("policy", ["Foreground", "Orphan", "Background"])
def test_delete_replies(kube: KubeCluster, policy: str) -> None:
    name = f"del-{policy.lower()}"
    create(kube, name, completions=2, parallelism=2)
    kube.asleep = True
    reply = ask(kube, "DELETE", f"{JOBS}/{name}", {"propagationPolicy": policy})
    same(reply.body, f"delete-reply-{policy.lower()}")
    there = {(e[1], e[0]) for e in told(recording(f"delete-events-{policy.lower()}")["items"])}
    assert {(e[1], e[0]) for e in told(events(kube))} == there


def test_deleting_a_job_without_a_policy_orphans_its_running_pods(kube: KubeCluster) -> None:
    create(kube, "del-orphan")
    ask(kube, "DELETE", f"{JOBS}/del-orphan")
    assert ask(kube, "GET", f"{JOBS}/del-orphan").status == 404
    pod = kube.pod("del-orphan")
    assert "deletionTimestamp" not in pod["metadata"]
    assert pod["metadata"]["uid"] in kube.kubelets.processes


def test_background_deletion_answers_404_while_the_process_lives() -> None:
    kube = KubeCluster(lambda a, e: Program(on_term=0, term_s=5))
    create(kube, "del-background")
    kube.pod("del-background")["spec"]["terminationGracePeriodSeconds"] = 30
    ask(kube, "DELETE", f"{JOBS}/del-background", {"propagationPolicy": "Background"})
    assert ask(kube, "GET", f"{JOBS}/del-background").status == 404
    assert len(kube.kubelets.processes) == 1
    kube.advance(5)
    assert kube.pods("del-background") == []


def test_foreground_deletion_answers_404_only_when_the_process_is_dead() -> None:
    kube = KubeCluster(lambda a, e: Program(on_term=0, term_s=1))
    create(kube, "del-foreground")
    ask(kube, "DELETE", f"{JOBS}/del-foreground", {"propagationPolicy": "Foreground"})
    assert ask(kube, "GET", f"{JOBS}/del-foreground").status == 200
    kube.advance(1)
    assert ask(kube, "GET", f"{JOBS}/del-foreground").status == 404
    assert kube.kubelets.processes == {}


def test_foreground_deletion_waits_for_the_evidence_finalizer(kube: KubeCluster) -> None:
    create(kube, "keep", keep=True)
    ask(kube, "DELETE", f"{JOBS}/keep", {"propagationPolicy": "Foreground"})
    kube.advance(60)
    assert ask(kube, "GET", f"{JOBS}/keep").status == 200
    like_pod(kube.pod("keep"), recording("pod-evidence-kept-by-finalizer"))
    name = kube.pod("keep")["metadata"]["name"]
    ask(kube, "PATCH", f"{PODS}/{name}", {"metadata": {"finalizers": None}})
    assert ask(kube, "GET", f"{JOBS}/keep").status == 404
    assert kube.pods("keep") == []


@pytest.mark.parametrize(("name", "on_term"), [("graceful", 0), ("stubborn", None)])
def test_real_watch_pod_delete(name: str, on_term: int | None) -> None:
    kube = KubeCluster(lambda a, e: Program(on_term=on_term, term_s=1))
    body = recorded_job(name)
    recorded = recording(f"real-watch-pod-delete-{name}")
    grace = recorded[0]["object"]["spec"]["terminationGracePeriodSeconds"]
    body["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = grace
    ask(kube, "POST", JOBS, body)
    since = kube.store.version
    kube.handle(Request("DELETE", f"{PODS}/{kube.pod(name)['metadata']['name']}", None, HEADERS))
    kube.advance(grace + 1)
    stream = ask(kube, "GET", f"{PODS}?watch=1&resourceVersion={since}").encoded()

    def steps(entries: list[Body]) -> list[tuple[str, str, bool, int | None, bool]]:
        found: list[tuple[str, str, bool, int | None, bool]] = []
        name = entries[0]["object"]["metadata"]["name"]
        for entry in entries:
            if entry["object"]["metadata"]["name"] != name:
                continue  # its replacement
            meta, status = entry["object"]["metadata"], entry["object"]["status"]
            state = status["containerStatuses"][0]["state"]
            step = (
                entry["type"],
                status["phase"],
                "finalizers" in meta,
                meta.get("deletionGracePeriodSeconds"),
                state.get("terminated", {}).get("exitCode") == (0 if on_term == 0 else 137),
            )
            if not found or found[-1] != step:
                found.append(step)
        return found

    ours = steps([json.loads(line) for line in stream.splitlines()])
    theirs = [s for s in steps(recorded) if s[3] is not None]
    # The Job controller may take its finalizer off before or after the process has ended.
    fixed = [(s[0], s[1], s[3], s[4]) for s in ours]
    wanted = [(s[0], s[1], s[3], s[4]) for s in theirs]
    assert list(dict.fromkeys(fixed)) == list(dict.fromkeys(wanted))


def test_real_deleted_graceful_a_deleted_pod_that_exits_0_makes_the_job_complete() -> None:
    kube = KubeCluster(lambda a, e: Program(on_term=0))
    create(kube, "graceful")
    kube.handle(
        Request("DELETE", f"{PODS}/{kube.pod('graceful')['metadata']['name']}", None, HEADERS)
    )
    recorded = recording("real-deleted-graceful")
    assert comparable(get(kube, "graceful")["status"]) == comparable(recorded["job"]["status"])
    assert kube.pods("graceful") == recorded["pods"] == []


# --- disruption ---

IGNORE = {
    "rules": [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    ]
}


def test_pod_evicted_by_the_api(kube: KubeCluster) -> None:
    kube.kubelets.interpret = lambda a, e: Program(on_term=None)
    create(kube, "pix", completions=3, parallelism=3, backoffLimitPerIndex=1)
    pod = kube.pods("pix")[1]
    kube.evict(pod)
    like_pod(pod, recording("pod-evicted-by-api"))


def test_real_evict_exit0_counts_as_success() -> None:
    kube = KubeCluster(lambda a, e: Program(on_term=0))
    create(kube, "eg", podFailurePolicy=IGNORE)
    kube.evict(kube.pod("eg"))
    recorded = recording("real-evict-exit0-counts-as-success")
    assert comparable(get(kube, "eg")["status"]) == comparable(recorded["status"])


def test_pod_preempted(kube: KubeCluster) -> None:
    kube.kubelets.interpret = lambda a, e: Program(on_term=None)
    create(kube, "victim", podFailurePolicy=IGNORE)
    pod = kube.pod("victim")
    kube.preempt(pod)
    seen, recorded = comparable(pod), comparable(recording("pod-preempted"))
    assert seen["metadata"]["finalizers"] == recorded["metadata"]["finalizers"]
    assert conditions(pod)[-1] == conditions(recording("pod-preempted"))[-1]
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 1


def test_job_preempted_with_a_policy_that_ignores_it_goes_on(kube: KubeCluster) -> None:
    create(kube, "victim", podFailurePolicy=IGNORE)
    kube.add_node("n2", cpu=0)
    node = kube.store.get("nodes", "", "n1")
    assert node is not None
    node["spec"]["unschedulable"] = True
    kube.preempt(kube.pod("victim"))
    status = get(kube, "victim")["status"]
    assert "conditions" not in status
    assert "failed" not in recording("job-preempted-ignored")["status"]
    assert "failed" not in status


def test_job_preempted_without_a_policy_has_failed(kube: KubeCluster) -> None:
    create(kube, "victim2")
    kube.preempt(kube.pod("victim2"))
    kube.advance(1)
    recorded = recording("job-preempted-nopolicy")
    assert comparable(get(kube, "victim2")["status"]) == comparable(recorded["status"])


def test_pod_unschedulable(kube: KubeCluster) -> None:
    node = kube.store.get("nodes", "", "n1")
    assert node is not None
    node["status"]["allocatable"]["cpu"] = "0"
    body = recorded_job("uns")
    body["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    ask(kube, "POST", JOBS, body)
    pod, recorded = kube.pod("uns"), recording("pod-unschedulable")
    assert conditions(pod)[0][:3] == conditions(recorded)[0][:3]
    assert "Insufficient cpu" in conditions(pod)[0][3]
    assert pod["status"]["phase"] == recorded["status"]["phase"]
    assert "nodeName" not in pod["spec"]
    kinds = {e[:2] for e in told(recording("pod-unschedulable-events")["items"])}
    assert {e[:2] for e in told(events(kube)) if e[0] == "Warning"} == kinds


def test_job_failedcreate_quota_events(kube: KubeCluster) -> None:
    kube.api.quota["default"] = 0
    create(kube, "quota")
    assert kube.pods("quota") == []
    recorded = told(recording("job-failedcreate-quota-events")["items"])
    assert told(events(kube))[0] == recorded[0]


def test_ttl_events_and_what_a_ttl_deletes(kube: KubeCluster) -> None:
    create(kube, "ttl", ttlSecondsAfterFinished=5)
    kube.end(kube.pod("ttl"), 1)
    kube.advance(4)
    assert told(events(kube)) == told(recording("ttl-events")["items"])
    assert ask(kube, "GET", f"{JOBS}/ttl").status == 200
    kube.advance(1)
    assert ask(kube, "GET", f"{JOBS}/ttl").status == 404
    assert kube.pods("ttl") == []


# --- node loss, with its times ---


def test_node_unreachable_after_48_seconds(kube: KubeCluster) -> None:
    create(kube, "lost")
    kube.lose_node("n1")
    kube.advance(47)
    node = kube.store.get("nodes", "", "n1")
    assert node is not None
    assert node["spec"] == {}
    kube.advance(1)
    recorded = recording("node-unreachable")
    assert comparable(node["spec"]) == comparable(recorded["spec"])
    ready = recorded["status"]["conditions"][0]
    assert comparable(node["status"]["conditions"][0]) == comparable(ready)
    assert kube.pod("lost")["status"]["phase"] == "Running"
    assert ("Warning", "NodeNotReady", "Node is not ready") in told(events(kube))
    assert "NodeNotReady" in [e[1] for e in told(recording("pod-node-lost-events")["items"])]


def test_pod_on_a_lost_node_is_deleted_after_its_toleration_and_stays(kube: KubeCluster) -> None:
    create(kube, "lost", podReplacementPolicy="Failed")
    kube.lose_node("n1")
    kube.advance(48 + 299)
    assert "deletionTimestamp" not in kube.pod("lost")["metadata"]
    kube.advance(1)
    pod, recorded = kube.pod("lost"), recording("pod-on-lost-node")
    assert pod["metadata"]["finalizers"] == recorded["metadata"]["finalizers"]
    assert conditions(pod)[-1] == conditions(recorded)[-1]
    assert {c[0]: c[1] for c in conditions(pod)}["Ready"] == "False"
    kube.advance(3600)
    assert kube.pod("lost")["status"]["phase"] == "Running"
    assert kube.kubelets.processes


def test_a_pod_is_collected_61_seconds_after_its_node_object(kube: KubeCluster) -> None:
    create(kube, "lost", keep=True, podReplacementPolicy="Failed")
    kube.lose_node("n1")
    kube.advance(400)
    kube.remove_node("n1")
    kube.advance(60)
    assert kube.pod("lost")["status"]["phase"] == "Running"
    kube.advance(1)
    pod = kube.pod("lost")
    assert pod["status"]["phase"] == "Failed"
    assert conditions(pod)[-1][:3] == ("DisruptionTarget", "True", "DeletionByPodGC")


# --- what a kubelet writes ---


@pytest.mark.parametrize(
    ("name", "program"),
    [
        ("ok", Program(runs_s=0)),
        ("exit3", Program(runs_s=0, exit_code=3)),
        ("exit137", Program(runs_s=0, exit_code=137)),
        ("oom", Program(runs_s=0, memory_mb=64)),
    ],
)
def test_real_ends(name: str, program: Program) -> None:
    kube = KubeCluster(lambda a, e: program)
    body = recorded_job(name)
    body["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"memory": "32Mi"}}
    ask(kube, "POST", JOBS, body)
    recorded = recording(f"real-{name}")
    assert conditions(get(kube, name)) == conditions(recorded["job"])
    seen, there = kube.pod(name)["status"], recorded["pods"][0]["status"]
    assert seen["phase"] == there["phase"]
    ours = seen["containerStatuses"][0]["state"]["terminated"]
    theirs = there["containerStatuses"][0]["state"]["terminated"]
    assert (ours["exitCode"], ours["reason"]) == (theirs["exitCode"], theirs["reason"])
    assert {c[:2] for c in conditions({"status": seen})} == {
        c[:2] for c in conditions({"status": there})
    }


def test_real_waits(kube: KubeCluster) -> None:
    pulled = recording("real-badimage")["pods"][0]["status"]["containerStatuses"][0]["state"]
    never = recording("real-nevpull")["pods"][0]["status"]["containerStatuses"][0]["state"]
    for name, state in (("badimage", pulled), ("nevpull", never)):
        kube.kubelets.missing_images["busybox"] = state["waiting"]["message"]
        create(kube, name)
        pod = kube.pod(name)
        assert pod["status"]["containerStatuses"][0]["state"] == state
        assert pod["status"]["phase"] == "Pending"


def test_real_badconfig_and_badvol(kube: KubeCluster) -> None:
    kube.kubelets.missing_secrets.add("nosuch")
    body = recorded_job("badconfig")
    pod_spec = body["spec"]["template"]["spec"]
    reference = {"secretKeyRef": {"name": "nosuch", "key": "k"}}
    pod_spec["containers"][0]["env"] = [{"name": "X", "valueFrom": reference}]
    ask(kube, "POST", JOBS, body)
    there = recording("real-badconfig")["pods"][0]["status"]["containerStatuses"][0]["state"]
    assert kube.pod("badconfig")["status"]["containerStatuses"][0]["state"] == there
    body = recorded_job("badvol")
    body["spec"]["template"]["spec"]["volumes"] = [
        {"name": "v", "secret": {"secretName": "nosuch"}}
    ]
    ask(kube, "POST", JOBS, body)
    recorded = recording("real-badvol")
    there = recorded["pods"][0]["status"]["containerStatuses"][0]["state"]
    assert kube.pod("badvol")["status"]["containerStatuses"][0]["state"] == there
    mounts = [e for e in told(events(kube)) if e[1] == "FailedMount"]
    assert mounts == [e for e in told(recorded["podEvents"]) if e[1] == "FailedMount"]


def test_real_evicted_ephem(kube: KubeCluster) -> None:
    create(kube, "ephem")
    kube.exceed_disk(kube.pod("ephem"), "e")
    there = recording("real-evicted-ephem")["pods"][0]["status"]
    seen = kube.pod("ephem")["status"]
    assert (seen["reason"], seen["message"]) == (there["reason"], there["message"])
    assert "DisruptionTarget" not in {c[0] for c in conditions({"status": seen})}


def test_real_ddl_a_deadline_ends_the_job_and_its_pods_go(kube: KubeCluster) -> None:
    create(kube, "ddl", activeDeadlineSeconds=6)
    kube.advance(6)
    kube.advance(1)
    recorded = recording("real-ddl")
    assert comparable(get(kube, "ddl")["status"]) == comparable(recorded["job"]["status"])
    assert kube.pods("ddl") == recorded["pods"] == []


def test_real_dollar_is_expanded_by_the_kubelet() -> None:
    seen: list[list[str]] = []

    def interpret(arguments: list[str], environment: dict[str, str]) -> Program:
        seen.append(arguments)
        return Program(runs_s=0, exit_code=3)

    recorded = recording("real-dollar")
    command = recorded["job"]["spec"]["template"]["spec"]["containers"][0]["command"]
    kube = KubeCluster(interpret)
    body = recorded_job("dollar")
    body["spec"]["template"]["spec"]["containers"][0]["command"] = command
    ask(kube, "POST", JOBS, body)
    # The shell then read $HOME as /, $(HOME) as a command, and $$ as its own id, 1.
    assert seen[0][2] == "echo a=$HOME b=$(HOME) c=$(HOME) d=0 e=$$; exit 3"
    message = recorded["pods"][0]["status"]["containerStatuses"][0]["state"]["terminated"]
    assert "a=/ b= c= d=0 e=1" in message["message"]


# --- refusals, word for word ---


def test_err_404(kube: KubeCluster) -> None:
    assert ask(kube, "GET", f"{JOBS}/nope").body == recording("err-404")


def test_err_409_already_exists(kube: KubeCluster) -> None:
    create(kube, "ok1")
    reply = ask(kube, "POST", JOBS, recorded_job("ok1"))
    assert reply.body == recording("err-409-already-exists")


def test_err_409_object_being_deleted(kube: KubeCluster) -> None:
    create(kube, "fin", keep=True)
    ask(kube, "DELETE", f"{JOBS}/fin", {"propagationPolicy": "Foreground"})
    reply = ask(kube, "POST", JOBS, recorded_job("fin"))
    assert reply.body == recording("err-409-object-being-deleted")


def test_err_409_conflict(kube: KubeCluster) -> None:
    create(kube, "ok1")
    patch = {"metadata": {"resourceVersion": "1"}, "spec": {"suspend": True}}
    assert ask(kube, "PATCH", f"{JOBS}/ok1", patch).body == recording("err-409-conflict-patch-rv")
    assert recording("err-409-conflict-put") == recording("err-409-conflict-patch-rv")


@pytest.mark.parametrize(
    ("name", "precondition", "uid"),
    [
        (
            "err-409-delete-uid-precondition",
            {"uid": "nope"},
            "86fda59e-3127-4b6d-884e-24d852a610fa",
        ),
        ("err-409-delete-rv-precondition", {"resourceVersion": "1"}, None),
    ],
)
def test_err_409_precondition(
    kube: KubeCluster, name: str, precondition: Body, uid: str | None
) -> None:
    create(kube, "ok1")
    if uid is not None:
        kube.job("ok1")["metadata"]["uid"] = uid
    kube.job("ok1")["metadata"]["resourceVersion"] = "305"
    kube.asleep = True
    reply = ask(kube, "DELETE", f"{JOBS}/ok1", {"preconditions": precondition})
    assert reply.body == recording(name)


def test_err_400_strict_unknown_field_and_silence_without_strict(kube: KubeCluster) -> None:
    body = recorded_job("ok1", bogus=1)
    reply = ask(kube, "POST", JOBS + STRICT, body)
    assert reply.body == recording("err-400-strict-unknown-field")
    assert ask(kube, "POST", JOBS, body).status == 201


def test_err_400_field_selector(kube: KubeCluster) -> None:
    reply = ask(kube, "GET", f"{JOBS}?fieldSelector=status.active%3D1")
    assert reply.body == recording("err-400-field-selector")


def test_err_422_name(kube: KubeCluster) -> None:
    reply = ask(kube, "POST", JOBS, recorded_job("Bad_Name", completions=2, parallelism=2))
    assert reply.body == recording("err-422-name")


def test_err_422_immutable(kube: KubeCluster) -> None:
    create(kube, "ok1")
    patch = {"spec": {"template": {"spec": {"priorityClassName": "x"}}}}
    reply, recorded = ask(kube, "PATCH", f"{JOBS}/ok1", patch), recording("err-422-immutable")
    # The recorded message holds a dump of the server's memory; field and reason decide.
    assert (reply.status, reply.body["reason"]) == (recorded["code"], recorded["reason"])
    causes = [(c["field"], c["reason"]) for c in reply.body["details"]["causes"]]
    assert causes == [(c["field"], c["reason"]) for c in recorded["details"]["causes"]]


def test_the_template_is_fixed_while_running_and_its_labels_free_while_suspended(
    kube: KubeCluster,
) -> None:
    create(kube, "ok1", suspend=True)
    patch = {"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}}
    assert ask(kube, "PATCH", f"{JOBS}/ok1", patch).status == 200
    ask(kube, "PATCH", f"{JOBS}/ok1", {"spec": {"suspend": False}})
    patch = {"spec": {"template": {"metadata": {"annotations": {"a": "c"}}}}}
    assert ask(kube, "PATCH", f"{JOBS}/ok1", patch).status == 422


def test_err_410_continue_expired(kube: KubeCluster) -> None:
    create(kube, "many", completions=3, parallelism=3)
    first = ask(kube, "GET", f"{PODS}?limit=1").body
    assert len(first["items"]) == 1
    kube.api.expire_pages()
    reply = ask(kube, "GET", f"{PODS}?limit=1&continue={first['metadata']['continue']}")
    recorded = recording("err-410-continue-expired")
    assert (reply.status, reply.body["reason"]) == (recorded["code"], recorded["reason"])
    assert reply.body["message"] == recorded["message"]
    assert reply.body["metadata"]["continue"]


def test_err_504_future_rv(kube: KubeCluster) -> None:
    kube.store.version = 311
    reply = ask(kube, "GET", f"{JOBS}?resourceVersion=99999999")
    assert reply.body == recording("err-504-future-rv")


def test_a_watch_from_too_old_a_version_is_200_with_an_error_event(kube: KubeCluster) -> None:
    kube.store.log_length = 5
    create(kube, "many", completions=5, parallelism=5)
    reply = ask(kube, "GET", f"{JOBS}?watch=1&resourceVersion=1")
    entry = json.loads(reply.encoded())
    assert (reply.status, entry["type"]) == (200, "ERROR")
    assert (entry["object"]["code"], entry["object"]["reason"]) == (410, "Expired")


def test_whole_pages_make_the_whole_list(kube: KubeCluster) -> None:
    create(kube, "many", completions=5, parallelism=5)
    seen, token = [], ""
    while True:
        page = ask(
            kube, "GET", f"{PODS}?limit=2&continue={token}" if token else f"{PODS}?limit=2"
        ).body
        seen += [p["metadata"]["name"] for p in page["items"]]
        token = page["metadata"].get("continue", "")
        if not token:
            break
    assert seen == sorted(p["metadata"]["name"] for p in kube.pods("many"))


def test_time_passes_on_the_tests_clock_alone(kube: KubeCluster) -> None:
    create(kube, "ok1")
    kube.advance(86_400)
    assert kube.now == START + timedelta(days=1)
    assert parse(get(kube, "ok1")["status"]["startTime"]) == START


def test_a_pod_that_a_suspension_ended_is_no_failure_even_after_the_resumption() -> None:
    kube = KubeCluster(lambda a, e: Program(term_s=1))
    create(kube, "es", keep=True, podReplacementPolicy="Failed")
    ask(kube, "PATCH", f"{JOBS}/es", {"spec": {"suspend": True}})
    # As recorded, only ours is left on it.
    assert kube.pod("es")["metadata"]["finalizers"] == [EVIDENCE]
    ask(kube, "PATCH", f"{JOBS}/es", {"spec": {"suspend": False}})
    assert get(kube, "es")["status"]["terminating"] == 1
    assert len(kube.pods("es")) == 1
    kube.advance(2)
    status = get(kube, "es")["status"]
    assert (status["active"], status.get("failed")) == (1, None)
