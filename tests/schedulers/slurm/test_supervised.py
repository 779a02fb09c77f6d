"""The real supervisor over the adapter and the fake: what can't be read is told of, once."""

from __future__ import annotations

from datetime import UTC, timedelta
from itertools import count
from typing import Any

import pytest

from dispatch.core.fold import fold
from dispatch.core.job import Job
from dispatch.core.project import Status, project
from dispatch.narrate.story import as_text, why
from dispatch.narrate.words import Reader
from dispatch.operator import Operator, Submit
from dispatch.record.header import Plan, Rule, Spec
from dispatch.record.names import Action, Cause, IntentKind, ObjectState, Outcome
from dispatch.schedulers.slurm.tags import job_name
from dispatch.store.memory import MemoryRecords
from dispatch.supervisor.sweep import Sweeper
from tests.schedulers.slurm.conftest import World
from tests.schedulers.slurm.fake import exited

PLAN = Plan(
    default=Rule(action=Action.RESUBMIT, limit=2), causes={Cause.LOST: Rule(action=Action.HOLD)}
)
STRANGE = [
    ["BOOT_FAIL"],
    ["PENDING", "REVOKED"],
    ["RUNNING", "RECONFIG_FAIL"],
    ["CANCELLED", "REQUEUE_FED"],
    ["HIBERNATED"],
    ["COMPLETED", "AND_A_NEW_FLAG"],
    ["COMPLETED", "FAILED"],
    [],
]
"""States that nobody knows, or that say nothing of an end."""


class Supervised:
    """One job on the fake cluster, with the supervisor that a deployment has."""

    def __init__(self, world: World) -> None:
        self.world = world
        numbers = count(1)
        self.records = MemoryRecords(lambda: f"token-{next(numbers)}")
        self.scheduler = world.scheduler()
        self.operator = Operator(self.records, world.clock, lambda tries: None)
        self.sweeper = Sweeper(
            self.records, self.scheduler, world.clock, "supervisor", lambda: 60.0
        )
        self.job_id = self.operator.submit(
            Submit(
                idempotency_key="one",
                spec=Spec(name="train", command=("true",)),
                plan=PLAN,
                declarations=self.scheduler.declare(),
            ),
            by="ann",
        ).job_id
        self.sweep()
        (self.slurm_id,) = world.fake.jobs
        world.fake.runs_on(self.slurm_id)
        self.sweep()

    def sweep(self, times: int = 1, *, every_s: float = 30) -> Job:
        """Sweep as a deployment does, all open jobs, and return the job."""
        for _ in range(times):
            self.sweeper.sweep("proving")
            self.world.clock.pass_s(every_s)
        return fold(self.records.read(self.job_id), self.world.clock.at)

    def slurm(self, **fields: Any) -> None:
        """Change what slurmctld shows of the job."""
        self.world.fake.jobs[self.slurm_id].update(fields)

    def told(self) -> list[str]:
        job = fold(self.records.read(self.job_id), self.world.clock.at)
        return [key for key in job.escalations if key.startswith("doubt/")]

    def why(self) -> str:
        """Return what `dispatch why` says."""
        return as_text(why(self.records.read(self.job_id), Reader(self.world.clock.at, UTC)))

    def status(self, job: Job) -> Status:
        return project(job, self.scheduler.find().discovery(self.job_id), self.world.clock.at)


@pytest.fixture
def supervised(world: World) -> Supervised:
    return Supervised(world)


@pytest.mark.parametrize("tokens", STRANGE, ids=lambda tokens: "+".join(tokens) or "nothing")
def test_f17_a_state_that_nobody_knows_is_told_of_once_and_nothing_is_concluded(
    supervised: Supervised, tokens: list[str]
) -> None:
    ref = next(iter(supervised.sweep().objects))
    supervised.slurm(job_state=tokens)
    job = supervised.sweep(40, every_s=60)
    assert supervised.told() == [f"doubt/strange_state/{ref}"]
    told = job.escalations[f"doubt/strange_state/{ref}"]
    assert told.code == "strange_state"
    assert all(token in told.detail for token in tokens[-1:])
    assert (job.ending, len(job.submissions), len(job.objects)) == (None, 1, 1)
    assert not job.objects[ref].ended
    status = supervised.status(job)
    assert status.complete is False
    assert [one.code for one in status.escalations] == ["strange_state"]
    assert told.detail in [one.detail for one in status.waiting_for]
    assert told.detail in supervised.why()
    # Once it is understood again, everything goes on by itself.
    supervised.world.fake.ends(supervised.slurm_id, "COMPLETED", exit_code=exited(0))
    job = supervised.sweep(40)
    assert job.ending is not None
    assert job.ending.state is Outcome.SUCCEEDED
    assert job.settled_at is not None
    assert len(supervised.told()) == 1


def test_f17_a_job_in_a_state_that_nobody_knows_can_be_cancelled_and_settles_when_it_is_gone(
    supervised: Supervised,
) -> None:
    supervised.slurm(job_state=["RUNNING", "HIBERNATED"])
    supervised.sweep()
    supervised.operator.intend(supervised.job_id, IntentKind.CANCEL, intent_id="c", by="ann")
    supervised.sweep()
    assert supervised.world.fake.calls("DELETE") != []
    supervised.slurm(job_state=["CANCELLED", "HIBERNATED"])
    assert supervised.sweep(20, every_s=60).settled_at is None
    supervised.world.fake.forget(supervised.slurm_id)
    supervised.world.fake.runs.clear()
    job = supervised.sweep(40, every_s=60)
    assert job.settled_at is not None
    assert job.ending is not None
    assert job.ending.state is Outcome.CANCELLED


def test_a_tag_that_is_wiped_is_told_of_once_and_the_object_isnt_called_gone(
    supervised: Supervised,
) -> None:
    ref = next(iter(supervised.sweep().objects))
    comment = supervised.world.fake.jobs[supervised.slurm_id]["comment"]
    supervised.slurm(comment="", extra="")
    job = supervised.sweep(40, every_s=60)
    assert supervised.told() == [f"doubt/tag_missing/proving:{supervised.slurm_id}"]
    assert job.objects[ref].run.state is ObjectState.RUNNING
    assert (len(job.objects), len(job.submissions)) == (1, 1)
    supervised.slurm(comment=comment)
    supervised.world.fake.ends(supervised.slurm_id, "COMPLETED", exit_code=exited(0))
    assert supervised.sweep(40).settled_at is not None


def test_an_entry_of_ours_that_cant_be_read_is_told_of_once(supervised: Supervised) -> None:
    supervised.slurm(name=job_name(supervised.job_id))
    del supervised.world.fake.jobs[supervised.slurm_id]["job_state"]
    job = supervised.sweep(40, every_s=60)
    assert supervised.told() == [f"doubt/unreadable/proving:{supervised.slurm_id}"]
    assert "job_state" in job.escalations[supervised.told()[0]].detail
    assert (job.ending, len(job.submissions)) == (None, 1)


def test_another_jobs_doubts_hold_nothing_up(supervised: Supervised) -> None:
    supervised.world.fake.job(name="dispatch-j00000009", job_state=["HIBERNATED"])
    supervised.world.fake.ends(supervised.slurm_id, "COMPLETED", exit_code=exited(0))
    job = supervised.sweep(20)
    assert job.settled_at is not None
    assert job.settled_at - job.header.created_at < timedelta(minutes=10)
    assert supervised.told() == []
