"""What goes wrong on a real Slurm, as the record that somebody on call is given.

Each story ends where the question is asked. `DISPATCH_SLURM_INCIDENTS=FOLDER` keeps the records
there; those under docs/incidents were made so, and are read by `python -m scripts.incidents`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from dispatch.core.fold import fold
from dispatch.core.job import Job
from dispatch.operator import Operator, Submit
from dispatch.record.export import export_text, import_text
from dispatch.record.header import Plan, Rule, SlurmSpec, Spec
from dispatch.record.names import Action, Cause, ObjectState, Outcome
from dispatch.schedulers.slurm.settings import Bounds
from dispatch.store.memory import MemoryRecords
from dispatch.supervisor.sweep import Beat, Sweeper
from tests.real.slurm.proxy import Trouble
from tests.real.slurm.real import RealSlurm, until
from tests.real.slurm.world import SlurmWorld, id_of

KEPT = os.environ.get("DISPATCH_SLURM_INCIDENTS")
ON_N1 = SlurmSpec(exclude=("n2", "n3", "n4"))
ASKS = Plan(default=Rule(action=Action.HOLD), start_backoff_s=1)
GOES_ON = Plan(default=Rule(action=Action.RESUBMIT, limit=3), start_backoff_s=1)
BOUNDS = Bounds(request_timeout_s=25, landing_bound_s=4, call_bound_s=30, lookup_lag_s=2)


TAKES_MEMORY = "#!/usr/bin/perl\n$all = 'x' x (192 * 1024 * 1024);\nsleep 1;\nprint length $all;\n"


def train(**changes: Any) -> Spec:
    fields: dict[str, Any] = {"name": "train", "command": ("sleep", "3600"), "time_limit_s": 7200}
    return Spec(**{**fields, **changes})


class OnCall:
    """One job of one person, and the supervisor that looks after it."""

    def __init__(self, real: RealSlurm, name: str) -> None:
        self.real = real
        self.name = name
        # What a record shows of the cluster names nothing of the machine that it was made on.
        self.world = SlurmWorld(real, name="hpc", workdir="/tmp", bounds=BOUNDS)
        numbers = count(1)
        self.records = MemoryRecords(lambda: f"token-{next(numbers)}")
        self.sweeper = Sweeper(
            self.records,
            self.world.scheduler,
            self.world.clock,
            "supervisor",
            lambda: 60.0,
            Beat(evidence_every_s=1),
        )
        self.job_id = ""

    def submit(self, spec: Spec, plan: Plan = ASKS, *, also: str = "") -> str:
        """Submit a job, another for each word in `also`, and return its id."""
        operator = Operator(self.records, self.world.clock, lambda tries: None)
        wanted = Submit(
            idempotency_key=self.name + also,
            spec=spec,
            plan=plan,
            declarations=self.world.scheduler.declare(),
        )
        self.job_id = operator.submit(wanted, by="ann").job_id
        return self.job_id

    def job(self, job_id: str = "") -> Job:
        return fold(self.records.read(job_id or self.job_id), datetime.now(UTC))

    def sweep(self) -> Job:
        self.sweeper.sweep("hpc")
        return self.job()

    def sweep_until(self, holds: Callable[[Job], bool], what: str) -> Job:
        last: list[Job] = []

        def so() -> bool:
            last[:] = [self.sweep()]
            return holds(last[0])

        until(so, what)
        return last[0]

    def runs(self) -> int:
        """Sweep until it runs, and return Slurm's id of it."""
        job = self.sweep_until(
            lambda job: any(one.run.state is ObjectState.RUNNING for one in job.objects.values()),
            "it is seen to run",
        )
        time.sleep(2)
        return id_of(next(iter(job.objects)))

    def keep(self, name: str) -> None:
        """Check that the record can be given to anybody; write it down where that was asked for."""
        text = export_text(self.records.read(self.job_id))
        assert import_text(text).entries != ()
        for ours in (str(self.real.base), str(self.real.rootfs), str(Path.home()), "127.0.0.1"):
            assert ours not in text
        if KEPT:
            (Path(KEPT) / f"{name}.jsonl").write_text(text, encoding="utf-8")


@pytest.fixture
def call(real: RealSlurm, request: pytest.FixtureRequest) -> Iterator[OnCall]:
    made = OnCall(real, request.node.name)
    yield made
    made.world.close()


def test_held_by_an_administrator_at_the_shell(call: OnCall) -> None:
    call.real.run("scontrol", "update", "nodename=n1", "state=drain", "reason=maintenance")
    call.submit(train(slurm=ON_N1))
    job = call.sweep_until(
        lambda job: any(not one.run.held for one in job.objects.values()), "its gate is open"
    )
    call.real.run("scontrol", "hold", str(id_of(next(iter(job.objects)))))
    job = call.sweep_until(
        lambda job: any(one.run.holder == "admin" for one in job.objects.values()), "it is held"
    )
    assert [one.run.cause for one in job.objects.values()] == [Cause.HELD_OUTSIDE]
    call.keep("slurm-held-by-an-admin")


def test_a_node_goes_down_under_a_job(call: OnCall) -> None:
    call.submit(train(slurm=ON_N1), GOES_ON)
    call.runs()
    call.real.run("scontrol", "update", "nodename=n1", "state=down", "reason=power")
    job = call.sweep_until(
        lambda job: any(one.run.cause is Cause.NODE_LOST for one in job.objects.values()),
        "its loss is recorded",
    )
    job = call.sweep()
    assert (job.ending, len(job.submissions)) == (None, 1), "it may still run there"
    call.keep("slurm-node-down")


def test_cancelled_from_the_shell_by_root(call: OnCall) -> None:
    call.submit(train())
    call.real.run("scancel", str(call.runs()))
    job = call.sweep_until(lambda job: job.recovery is not None, "a person is asked")
    (one,) = job.objects.values()
    assert one.run.cause is Cause.STOPPED_OUTSIDE
    assert "cancelled by root" in (one.run.reason or "")
    call.keep("slurm-cancelled-by-root")


def test_slurmctld_dies_with_a_submit_whose_reply_was_cut(call: OnCall) -> None:
    def cut(method: str, path: str) -> Trouble:
        return Trouble.LOSE_REPLY if path.endswith("/job/submit") else Trouble.NONE

    call.submit(train(), GOES_ON)
    # slurmctld saves at most every five seconds: what comes just after a save is lost with it.
    call.world.alien()
    call.world.proxy.choose = cut
    call.sweep()
    call.real.kill("slurmctld")
    call.world.proxy.choose = lambda method, path: Trouble.NONE
    call.real.start("slurmctld")
    until(call.real.controller_answers, "slurmctld answers again")
    job = call.sweep_until(lambda job: len(job.attempts) == 2, "it is tried again")
    assert not any(one.a == 1 for one in job.objects.values()), "the first is nowhere"
    call.runs()
    call.keep("slurm-submit-lost-in-a-crash")


def test_out_of_memory_on_a_real_node(call: OnCall) -> None:
    call.submit(train(command=None, script=TAKES_MEMORY, memory_mb_per_node=64))
    job = call.sweep_until(lambda job: job.recovery is not None, "a person is asked")
    assert [one.run.cause for one in job.objects.values()] == [Cause.OUT_OF_MEMORY]
    call.keep("slurm-out-of-memory")


def test_purged_by_slurmctld_before_anybody_saw_its_end(call: OnCall) -> None:
    call.submit(train(command=("sleep", "1")))
    job = call.sweep_until(
        lambda job: (
            any(not one.run.held for one in job.objects.values())
            or any(one.run.state is not ObjectState.PENDING for one in job.objects.values())
        ),
        "its gate is open",
    )
    (ref,) = job.objects
    until(
        lambda: (
            call.real.run("sacct", "-n", "-X", "-j", str(id_of(ref)), "-o", "state") == "COMPLETED"
        ),
        "accounting knows its end",
    )
    call.real.forget(id_of(ref))
    job = call.sweep_until(lambda job: job.ending is not None, "its outcome is recorded")
    assert job.ending is not None
    assert job.ending.state is Outcome.SUCCEEDED
    assert job.objects[ref].run.source == "slurmdbd"
    call.keep("slurm-purged-before-it-was-seen")


def test_all_ended_and_were_purged_while_nobody_looked(call: OnCall) -> None:
    jobs = [call.submit(train(command=("sleep", "1")), also=str(k)) for k in range(6)]
    call.sweep()
    refs = [ref for job in jobs for ref, known in call.job(job).objects.items() if not known.ended]
    assert len(refs) >= 5, "so many are known to be live that their loss is a mass loss"
    ids = ",".join(str(id_of(ref)) for ref in refs)

    def all_over() -> bool:
        states = call.real.run("sacct", "-n", "-X", "-j", ids, "-o", "state").split()
        return states == ["COMPLETED"] * len(refs)

    until(all_over, "accounting knows all ends")
    for ref in refs:
        call.real.forget(id_of(ref))
    call.sweep()
    health = call.records.get_health("hpc")
    assert health is not None
    assert health.escalations == ()
    call.sweep_until(
        lambda _: all(call.job(job).ending is not None for job in jobs), "all outcomes are recorded"
    )
    endings = [call.job(job).ending for job in jobs]
    assert [one and one.state for one in endings] == [Outcome.SUCCEEDED] * len(jobs)
