"""Stories that need a real pod to run: without a node that is ready they are named as left out."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from dispatch.record.codec import spec_digest
from dispatch.record.evidence import Sighting
from dispatch.record.header import Spec
from dispatch.record.names import ENDED_STATES, Cause, ObjectState
from dispatch.schedulers.eks.client import KubeClient, Timeouts, path
from dispatch.schedulers.eks.cluster import EksCluster
from dispatch.schedulers.eks.settings import EksSettings, KubeconfigAccess, Team
from dispatch.schedulers.scheduler import Started, StartOrder, Tag, Target

IMAGE = os.environ.get("DISPATCH_TEST_IMAGE", "docker.io/library/busybox:1.36")
PATIENCE_S = 180.0


class Machines:
    """A namespace on a cluster with machines."""

    def __init__(self, kubeconfig: str, namespace: str) -> None:
        access = KubeconfigAccess(path=kubeconfig)
        self.admin = KubeClient(access, Timeouts(5, 30))
        self.namespace = namespace
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        assert self.admin.post(path("api", "v1", "namespaces"), body).ok
        settings = EksSettings(
            name="real",
            access=access,
            teams=(Team(owners=("*",), namespace=namespace),),
            grace_s=5,
        )
        self.client = KubeClient(access, Timeouts(5, 30))
        self.scheduler = EksCluster(settings, lambda: datetime.now(UTC), client=self.client)

    def close(self) -> None:
        self.scheduler.free(lambda job, ended_at: False)
        self.admin.delete(path("api", "v1", "namespaces", self.namespace), {})
        self.admin.close()
        self.client.close()

    def begin(self, **changes: Any) -> Target:
        spec = Spec(**{"name": "work", "image": IMAGE, **changes})
        tag = Tag("jobwithpods0001", 1, 1, spec_digest(spec), 0)
        started = self.scheduler.start(StartOrder(tag, spec, None, "somebody", in_place=True))
        assert isinstance(started, Started)
        target = Target(started.ref, tag)
        self.scheduler.release(target)
        return target

    def wait(self, target: Target, *states: ObjectState) -> Sighting:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            for seen in self.scheduler.find().by_job.get(target.tag.job, ()):
                if seen.ref == target.ref and seen.state in states:
                    return seen
            assert time.monotonic() < deadline, f"never {states}"
            time.sleep(0.5)


@pytest.fixture
def machines(kubeconfig: str, names: Iterator[str]) -> Iterator[Machines]:
    machines = Machines(kubeconfig, next(names))
    yield machines
    machines.close()


def test_an_exit_code_and_the_last_words_are_kept(machines: Machines) -> None:
    target = machines.begin(command=("sh", "-c", "echo last words; exit 3"))
    seen = machines.wait(target, *ENDED_STATES)
    assert (seen.cause, seen.exit_code) == (Cause.APP_ERROR, 3)
    assert "last words" in (seen.reason or "")
    assert machines.scheduler.output(target, offset=0, limit=100).text == "last words\n"


def test_what_a_user_writes_reaches_the_process_as_it_is(machines: Machines) -> None:
    script = '#!/bin/sh\nX=\'$(HOME) $$ $5\'\n[ "$X" = "$WANTED" ] || exit 9\n'
    target = machines.begin(script=script, env={"WANTED": "$(HOME) $$ $5"})
    assert machines.wait(target, *ENDED_STATES).state is ObjectState.SUCCEEDED


def test_out_of_memory_is_told(machines: Machines) -> None:
    hog = "x=a; while :; do x=$x$x; done"
    target = machines.begin(command=("sh", "-c", hog), memory_mb_per_node=32)
    assert machines.wait(target, *ENDED_STATES).cause is Cause.OUT_OF_MEMORY


def test_a_stopped_job_leaves_no_process(machines: Machines) -> None:
    target = machines.begin(command=("sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1; done"))
    machines.wait(target, ObjectState.RUNNING)
    machines.scheduler.stop(target)
    assert machines.wait(target, *ENDED_STATES).cause is Cause.STOPPED
    machines.scheduler.acknowledge([target])


def test_an_image_that_isnt_there_is_a_wait_with_its_reason(machines: Machines) -> None:
    target = machines.begin(image="127.0.0.1:1/none:1", command=("true",))
    deadline = time.monotonic() + PATIENCE_S
    while machines.wait(target, ObjectState.PENDING).cause is not Cause.IMAGE_PULL_FAILED:
        assert time.monotonic() < deadline, "never told"
        time.sleep(0.5)
