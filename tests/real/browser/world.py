"""A stack of the tests' own with jobs in every state that a person meets, all of them real."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dispatch.api import StatusAnswer, SubmitRequest
from dispatch.client import Client
from dispatch.clusters import CLUSTERS_SCHEMA
from dispatch.record.names import IntentKind
from dispatch.record.view import Envelope
from dispatch.schedulers.local.admin import Administrator
from dispatch.store.sqlite import SqliteRecords
from embedded.demo.process import StackProcess

PAYLOAD = '"><img src=x onerror="window.hit=1"><script>window.hit=1</script>'
"""What would run if any of the texts that people give were ever taken for markup."""

PARKED = 60
"""Jobs on the paused cluster: more than a page of the list."""

PAUSED = {"brakes": {"paused": "it is being rebuilt"}}

TRAIN = """#!/bin/sh
echo "epoch $DISPATCH_EPOCH on $(hostname)"
if [ "$DISPATCH_SUBMISSION" = 1 ]; then sleep 600; fi
echo "resumed from the checkpoint"
sleep 1
"""


@dataclass
class World:
    """A running stack and its jobs by name."""

    stack: StackProcess
    client: Client
    jobs: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.stack.url

    def submit(self, name: str, *command: str, cluster: str = "local", **asked: Any) -> str:
        plan, retries = asked.pop("plan", None), asked.pop("retries", None)
        spec = {"name": name, **asked}
        if command:
            spec["command"] = command
        told = {"cluster": cluster, "spec": spec, "plan": plan, "start_retries": retries}
        request = SubmitRequest.model_validate_json(json.dumps(told))
        self.jobs[name] = self.client.submit(request, key=f"browser-{name}").job_id
        return self.jobs[name]

    def until(self, name: str, holds: Callable[[StatusAnswer], bool]) -> StatusAnswer:
        """The first status of a job for which something holds; the test's time limit bounds it."""
        while not holds(status := self.client.get(self.jobs[name])):
            time.sleep(0.05)
        return status

    def intend(self, name: str, kind: IntentKind, reason: str) -> None:
        self.client.intend(self.jobs[name], kind, intent_id=f"{kind}-{name}", reason=reason)

    def end(self) -> None:
        """Cancel what runs, so that nothing outlives the tests, and stop."""
        for name in self.jobs:
            if not name.startswith("parked"):
                self.intend(name, IntentKind.CANCEL, "the tests are over")
        for name in ("train-resnet", "nightly-export"):
            self.until(name, lambda status: status.settled_at is not None)
        self.client.close()
        self.stack.stop()


def made(folder: Path) -> World:
    """Start a stack and bring its jobs to where they should stand."""
    state = folder / "state"
    state.mkdir(parents=True)
    (state / "clusters.json").write_text(clusters(folder, west=PAUSED))
    stack = StackProcess(state, tick_s=0.3)
    stack.start()
    world = World(stack, stack.client())
    ask = {"default": {"action": "hold"}}
    world.submit("wide", "true", cluster="west", nodes=4, labels={"team": "vision"}, retries=0)
    shrunk = state / "clusters.json.new"
    shrunk.write_text(clusters(folder, west={"processes": 2}))
    shrunk.replace(state / "clusters.json")
    world.submit("evaluate", "sh", "-c", "echo accuracy 0.93; sleep 1", labels={"team": "vision"})
    world.submit(
        "tokenise", "sh", "-c", "echo no such file: corpus.txt >&2; exit 3",
        plan={"default": {"action": "fail"}}, labels={"team": "language"},
    )  # fmt: skip
    world.submit("train-large", "sh", "-c", "exit 9", plan=ask, labels={"team": "language"})
    world.submit("nightly-export", "sleep", "600", labels={"team": "data"})
    world.intend("nightly-export", IntentKind.HOLD, "the source is being migrated")
    world.submit(
        "train-resnet", "sh", "-c", "echo step 1; sleep 600", nodes=2, labels={"team": "vision"}
    )
    world.submit(
        "finetune", script=TRAIN, labels={"team": "language", "run": "17"},
        plan={"default": {"action": "hold"},
              "causes": {"preempted": {"action": "resubmit", "limit": 3}}},
    )  # fmt: skip
    world.submit("sweep-17", "sleep", "600", labels={"team": "vision"})
    world.submit(
        "hostile", "sh", "-c", f"echo '{PAYLOAD}'; exit 1", plan=ask,
        labels={"note": PAYLOAD, PAYLOAD[:60]: "x"},
    )  # fmt: skip
    world.submit("broken-record", "true", cluster="east")
    for number in range(PARKED):
        labels = {"team": "vision"} if number == 7 else {}
        world.submit(f"parked-{number:02d}", "true", cluster="east", labels=labels)
    go_on(world, state)
    return world


def go_on(world: World, state: Path) -> None:
    """Do to the jobs what makes their stories."""
    ran = world.until("finetune", lambda status: status.state == "running")
    assert ran.ref is not None
    Administrator(state / "local", lambda: datetime.now(UTC), "the administrator").preempt(ran.ref)
    world.until("sweep-17", lambda status: status.state == "running")
    world.intend("sweep-17", IntentKind.CANCEL, "the data was wrong")
    world.until("hostile", lambda status: bool(status.holds))
    world.intend("hostile", IntentKind.HOLD, PAYLOAD)
    write_what_this_build_cant_read(state, world.jobs["broken-record"])
    for name in ("evaluate", "tokenise", "finetune", "sweep-17"):
        world.until(name, lambda status: status.settled_at is not None)
    world.until("train-large", lambda status: bool(status.holds))
    world.until("nightly-export", lambda status: status.state == "held")
    world.until("train-resnet", lambda status: status.state == "running")
    world.until("wide", lambda status: bool(status.escalations))


def write_what_this_build_cant_read(state: Path, job: str) -> None:
    """Append a fact of a later build, as such a build would."""
    records = SqliteRecords(state / "records.sqlite", lambda: "later-build")
    body = json.dumps({"fact": "moved", "to": "west"})
    records.commit(job, records.read(job).revision, [Envelope("dispatch.fact.v9", body)])
    records.close_file()


def clusters(folder: Path, *, west: dict[str, Any]) -> str:
    """This machine three times, and a Slurm that nobody answers for.

    `east` is paused. `west` is paused too, or too small for what was sent to it before.
    """
    brakes, limits = west.get("brakes", {}), {k: v for k, v in west.items() if k != "brakes"}
    slurm = {
        "url": "http://127.0.0.1:9",
        "user": "dispatch",
        "sign_in": {"kind": "hs256", "secret": f"file:{folder / 'secret'}"},
        "queues": {"gpu": {"partition": "gpu"}},
        "default_queue": "gpu",
    }
    (folder / "secret").write_text(base64.b64encode(bytes(32)).decode())
    document = {
        "schema": CLUSTERS_SCHEMA,
        "clusters": [
            {"name": "local", "adapter": "local", "settings": {"spool": f"{folder}/state/local"}},
            {
                "name": "east",
                "adapter": "local",
                "settings": {"spool": f"{folder}/state/east"},
                "brakes": {"paused": "maintenance until Monday"},
            },
            {
                "name": "west",
                "adapter": "local",
                "settings": {"spool": f"{folder}/state/west", **limits},
                "brakes": brakes,
            },
            {"name": "hpc", "adapter": "slurm", "settings": slurm},
        ],
    }
    return json.dumps(document)
