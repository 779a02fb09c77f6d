"""A request leaves once: never again in silence, whatever the server does."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dispatch.errors import CallUnknown, SchedulerUnavailable
from dispatch.schedulers.eks.client import Endpoint, KubeClient, NoAnswer, NotSent, Timeouts
from dispatch.schedulers.eks.settings import KubeconfigAccess
from tests.conformance.scheduler.contract import Play
from tests.conformance.scheduler.world import Work
from tests.fakes.kube.server import Fault
from tests.fakes.kube.tls import Authority, make_authority
from tests.schedulers.eks.world import Bearer, EksWorld

NODES = "/api/v1/nodes/n1"
SHORT = Timeouts(1, 0.2)


@pytest.fixture
def client(world: EksWorld) -> Iterator[KubeClient]:
    client = KubeClient(Bearer(world.server), SHORT)
    yield client
    client.close()


CALLS: dict[str, Callable[[KubeClient], Any]] = {
    "GET": lambda c: c.get(NODES),
    "POST": lambda c: c.post("/api/v1/namespaces/ml/services", {"metadata": {"name": "s"}}),
    "PATCH": lambda c: c.patch("/api/v1/namespaces/ml/pods/p", {"metadata": {}}),
    "DELETE": lambda c: c.delete("/api/v1/namespaces/ml/pods/p", {}),
}


@pytest.mark.parametrize("method", sorted(CALLS))
@pytest.mark.parametrize("fault", [Fault.HANG, Fault.CLOSE_BEFORE, Fault.CLOSE_AFTER, Fault.CUT])
def test_a_request_without_an_answer_is_never_sent_again(
    world: EksWorld, client: KubeClient, method: str, fault: Fault
) -> None:
    with world.server.faults(lambda request: fault), pytest.raises(NoAnswer):
        CALLS[method](client)
    assert [s.method for s in world.server.seen] == [method]


@pytest.mark.parametrize("method", sorted(CALLS))
@pytest.mark.parametrize("fault", [Fault.BUSY, Fault.BROKEN, Fault.LATE, Fault.HTML, Fault.EMPTY])
def test_an_error_is_an_answer_and_never_asked_again(
    world: EksWorld, client: KubeClient, method: str, fault: Fault
) -> None:
    with world.server.faults(lambda request: fault):
        answer = CALLS[method](client)
    assert answer.status in (200, 429, 500, 502, 504)
    assert [s.method for s in world.server.seen] == [method]


def test_a_scheduler_on_a_server_that_hangs_sends_one_request_a_call(world: EksWorld) -> None:
    play = Play(world)
    target = play.run()
    scheduler = world.another(total_s=0.2)
    calls: list[tuple[Callable[[], object], type[Exception]]] = [
        (scheduler.find, SchedulerUnavailable),
        (scheduler.glance, SchedulerUnavailable),
        (lambda: scheduler.start(play.order(Work.LAST, a=2)), CallUnknown),
        (lambda: scheduler.stop(target), CallUnknown),
        (lambda: scheduler.hold(target), CallUnknown),
        (lambda: scheduler.release(target), CallUnknown),
        (lambda: scheduler.requeue(target), CallUnknown),
        (lambda: scheduler.acknowledge([target]), CallUnknown),
        (lambda: scheduler.output(target, offset=0, limit=1), SchedulerUnavailable),
    ]
    with world.server.faults(lambda request: Fault.HANG):
        for number, (call, error) in enumerate(calls, 1):
            world.server.seen.clear()
            with pytest.raises(error):
                call()
            assert len(world.server.seen) == 1, f"call {number}"


def test_a_server_that_isnt_there_was_never_sent_anything(authority: Authority) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    class Nowhere(Bearer):
        def endpoint(self) -> Endpoint:
            return Endpoint(f"https://127.0.0.1:{port}", authority.ca_pem)

    client = KubeClient(Nowhere(None), SHORT)  # type: ignore[arg-type]
    with pytest.raises(NotSent):
        client.get(NODES)
    client.close()


def test_a_server_of_another_authority_is_told_nothing_and_asked_for_again(
    world: EksWorld, tmp_path: Path
) -> None:
    stranger = make_authority(tmp_path)
    forgotten: list[str] = []

    class Mistaken(Bearer):
        def endpoint(self) -> Endpoint:
            ca = world.server.ca_pem if forgotten else stranger.ca_pem
            return Endpoint(world.server.host, ca)

        def forget_endpoint(self) -> None:
            forgotten.append("yes")

    client = KubeClient(Mistaken(world.server), Timeouts(1, 2))
    with pytest.raises(NotSent, match="CERTIFICATE_VERIFY_FAILED"):
        client.get(NODES)
    assert world.server.seen == []
    assert client.get(NODES).ok
    client.close()


def test_a_401_is_answered_once_by_another_token(world: EksWorld) -> None:
    client = KubeClient(Bearer(world.server, ["old", "good"]), SHORT)
    assert client.get(NODES).ok
    assert len(world.server.seen) == 2
    client.close()
    world.server.seen.clear()
    client = KubeClient(Bearer(world.server, ["old", "older", "good"]), SHORT)
    assert client.get(NODES).status == 401
    assert len(world.server.seen) == 2
    client.close()


def test_a_failing_sign_in_sends_nothing(world: EksWorld) -> None:
    class Locked(Bearer):
        def token(self) -> str:
            raise RuntimeError("the key store is closed")

    client = KubeClient(Locked(world.server), SHORT)
    with pytest.raises(NotSent, match="the key store is closed"):
        client.get(NODES)
    assert world.server.seen == []
    client.close()


def test_a_kubeconfig_leads_to_its_cluster(world: EksWorld, tmp_path: Path) -> None:
    client = KubeClient(KubeconfigAccess(path=world.kubeconfig(tmp_path)), SHORT)
    assert client.get(NODES).ok
    with world.server.faults(lambda request: Fault.HANG), pytest.raises(NoAnswer):
        client.get(NODES)
    assert len(world.server.seen) == 2
    client.close()


def test_nothing_of_kubernetes_is_loaded_before_the_first_request() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from dispatch.schedulers.eks import cluster, explain; "
        "sys.exit(any(m in sys.modules for m in ('kubernetes', 'boto3', 'botocore', 'urllib3')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
