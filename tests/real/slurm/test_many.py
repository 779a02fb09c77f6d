"""What a tick costs beside thousands of other people's jobs."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor

import urllib3

from dispatch.record.names import ObjectState
from dispatch.schedulers.slurm.tokens import minted
from tests.conformance.scheduler.world import Work
from tests.real.slurm.story import Story
from tests.real.slurm.world import SlurmWorld, id_of

OTHERS = 1_000


def crowd(world: SlurmWorld) -> None:
    """Fill the queue with held jobs of another user, as fast as slurmctld takes them."""
    now = int(time.time())
    token = minted(world.real.key(), user="other", issued=now, expires=now + 600)
    job = {
        "name": "theirs",
        "account": "physics",
        "partition": "main",
        "hold": True,
        "environment": ["PATH=/bin"],
        "current_working_directory": "/tmp",
        "script": "#!/bin/sh\nsleep 1\n",
    }
    raw = json.dumps({"job": job}).encode()
    pool = urllib3.PoolManager(maxsize=4)
    headers = {
        "X-SLURM-USER-NAME": "other",
        "X-SLURM-USER-TOKEN": token,
        "Content-Type": "application/json",
    }

    def submit(_: int) -> None:
        url = f"{world.real.url}/slurm/{world.scheduler._session.api()}/job/submit"
        reply = pool.request("POST", url, body=raw, headers=headers, retries=False)
        assert reply.status == 200, reply.data

    with ThreadPoolExecutor(4) as workers:
        list(workers.map(submit, range(OTHERS)))


def test_an_idle_tick_is_one_glance_and_evidence_is_one_list(world: SlurmWorld) -> None:
    story = Story(world)
    target = story.start(world.spec(Work.LAST))
    crowd(world)
    story.see(target)
    world.proxy.requests.clear()
    costs = {}
    for name, look in (("glance", world.scheduler.glance), ("find", world.scheduler.find)):
        before, began = world.proxy.sent_bytes, time.monotonic()
        look()
        costs[name] = (world.proxy.sent_bytes - before, time.monotonic() - began)
    api = world.scheduler._session.api()
    assert [path for _, path in world.proxy.requests] == [
        f"/slurm/{api}/jobs/state/",
        f"/slurm/{api}/jobs/",
    ]
    print(f"\nbeside {OTHERS} jobs of others (Slurm {world.real.release}):")
    for name, (size, took) in costs.items():
        print(f"  {name:7} {size / 1e6:7.2f} MB  {took:5.2f} s")
    seen = story.see(target)
    assert seen is not None
    assert (seen.state, seen.held) == (ObjectState.PENDING, True)
    assert world.scheduler.glance().tokens == {target.ref: "PENDING"}
    assert story.real.state(id_of(target.ref)) == "PENDING"
    # What follows would pay for the crowd until slurmctld forgets it.
    story.real.cancel_everything()
    story.real.forget(id_of(target.ref))
