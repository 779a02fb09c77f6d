"""One engine and one deployment for all stories; printed, used, and torn down."""

import json
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from dispatch.client import Client
from dispatch.schedulers.local.admin import Administrator
from dispatch.wiring import utc_now
from tests.real.rehearsal import quick_engine
from tests.real.rehearsal.adapt import CHANGES
from tests.real.rehearsal.bus import Heard, subscribe
from tests.real.rehearsal.deployment import Deployment, deploy, resources
from tests.real.rehearsal.engine import Engine, running_engine


@pytest.fixture(scope="session", autouse=True)
def names_below_localhost() -> Iterator[None]:
    """`*.localhost` is this machine (RFC 6761), also where the resolver doesn't know."""
    resolve = socket.getaddrinfo

    def local(host: Any, *rest: Any, **more: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        here = isinstance(name, str) and name.endswith(".localhost")
        return resolve("127.0.0.1" if here else host, *rest, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", local)
        yield


@pytest.fixture(scope="session")
def engine(
    tmp_path_factory: pytest.TempPathFactory, no_account_of_a_person: None
) -> Iterator[Engine]:
    place = tmp_path_factory.mktemp("rehearsal")
    (place / "spool").mkdir()
    with running_engine(place) as started:
        yield started


@pytest.fixture(scope="session")
def deployed(engine: Engine, pytestconfig: pytest.Config) -> Iterator[Deployment]:
    """The stack, with this machine behind it as the cluster `here`.

    Its schedule is off unless a test asks for `ticking`: what happens is otherwise a test's own
    doing, or the stream's.
    """
    made = deploy(engine, "rehearsal")
    made.schedule("DISABLED")
    with pytestconfig.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        _tell(made)
    yield made
    end_jobs(made)


def _tell(made: Deployment) -> None:
    lines = ["", f"deployed to {made.engine.endpoint} with IAM enforced; changed for the engine:"]
    lines += [f"  - {change}" for change in CHANGES]
    lines += ["changed in the engine:", *(f"  - {change}" for change in quick_engine.CHANGES)]
    lines += [f"  {kind:40} {name}" for name, kind in sorted(resources(made.engine, made.name))]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def end_jobs(made: Deployment) -> None:
    """Let nothing run on that a story started."""
    admin = Administrator(made.spool, utc_now)
    for place in sorted((made.spool / "objects").glob("*")):
        ref = json.loads((place / "order.json").read_text())["ref"]
        with suppress(Exception):  # what has ended can't be ended again
            admin.cancel(ref)


@pytest.fixture(scope="session")
def ada_s_key(deployed: Deployment) -> tuple[str, str]:
    return deployed.person("ada", "execute-api:Invoke")


@pytest.fixture
def ada(deployed: Deployment, ada_s_key: tuple[str, str]) -> Iterator[Client]:
    """Somebody who may call the API, with the client of the command line."""
    with deployed.client(deployed.signing(ada_s_key)) as client:
        yield client


@pytest.fixture(scope="session")
def heard(deployed: Deployment) -> Heard:
    """What arrived for somebody who subscribed to the bus."""
    return subscribe(deployed)


@pytest.fixture
def ticking(deployed: Deployment) -> Iterator[None]:
    """The schedule, as it was deployed; what it set going is over before the next test."""
    deployed.schedule("ENABLED")
    yield
    deployed.schedule("DISABLED")
    deployed.until_idle()
