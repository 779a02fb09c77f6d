"""The three stories: what is done, and what must be true in the end."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dispatch.api import StatusAnswer, SubmitRequest
from dispatch.client import Client, Until, asks, settled
from dispatch.core.fold import fold
from dispatch.core.job import Job
from dispatch.errors import DispatchError
from dispatch.record.header import LocalSpec, Plan, Rule, Spec
from dispatch.record.names import Action, Cause, IntentKind, ObjectState, Outcome
from dispatch.record.view import View
from dispatch.schedulers.local.admin import Administrator
from dispatch.schedulers.local.codec import Unreadable
from dispatch.schedulers.local.life import Refused
from dispatch.schedulers.local.spool import Busy, Gone
from embedded.demo import work

CLUSTER = "local"
PATIENCE = timedelta(seconds=90)
PLAN = Plan(
    default=Rule(action=Action.HOLD),
    causes={Cause.PREEMPTED: Rule(action=Action.RESUBMIT, limit=3)},
)


class Deviation(DispatchError):
    """A story didn't go as told."""

    code = "deviation"


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a story plays.

    Attributes:
        client: Speaks to the stack.
        spool: Where the local cluster keeps its objects, for the administrator.
        marks: The folder into which the jobs write what they do.
        say: Tells a person what happens.
        between: Called with the name of each point of a story; a test may kill the stack there.
        sleep: Waits that many seconds.
        run_id: Makes the keys of this run its own.
    """

    client: Client
    spool: Path
    marks: Path
    say: Callable[[str], None]
    between: Callable[[str], None]
    sleep: Callable[[float], None]
    run_id: str

    def submit(self, name: str, what: str, **asked: object) -> str:
        """Submit one of the demo's jobs."""
        spec = Spec.model_validate(
            {
                "name": name,
                "command": (sys.executable, str(Path(work.__file__).resolve()), what),
                "env": {"MARKS": str(self.marks / name), "PYTHONUNBUFFERED": "1"},
                "local": LocalSpec(grace_s=10),
                **asked,
            }
        )
        request = SubmitRequest(spec=spec, cluster=CLUSTER, plan=PLAN)
        made = self.client.submit(request, key=f"demo-{self.run_id}-{name}")
        return made.job_id

    def wait(self, job: str, until: Until, what: str) -> StatusAnswer:
        """Wait until a job is as wanted.

        Raises:
            Deviation: It isn't in time, or is over without having been.
        """
        for status in self.client.watch(job, timeout=PATIENCE):
            if until(status):
                return status
            if settled(status):
                raise Deviation(f"it is {status.outcome} and was never {what}", job=job)
        raise Deviation(f"it was never {what}", job=job)

    def wait_for_marks(self, name: str, wanted: Counter[str], job: str) -> None:
        """Wait until a story's tasks have written that they started."""
        for _ in range(600):
            if marks(self.marks / name) >= wanted:
                return
            self.sleep(0.1)
        raise Deviation(f"its tasks wrote {dict(marks(self.marks / name))}", job=job)

    def preempt(self, ref: str) -> None:
        """Take the machine from an object, as the cluster's administrator."""
        who = Administrator(self.spool, lambda: datetime.now(UTC), "the administrator")
        try:
            who.preempt(ref)
        except (Busy, Gone, Refused, Unreadable, OSError) as problem:
            raise Deviation(f"{ref} can't be preempted: {problem}") from problem


def marks(path: Path) -> Counter[str]:
    """Return what a story's tasks wrote, without their pids, and how often."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return Counter()
    return Counter(line.rpartition(" pid=")[0] for line in lines)


def runs(status: StatusAnswer) -> bool:
    """Return whether a job was seen to run."""
    return status.state == "running"


@dataclass(frozen=True, slots=True)
class Told:
    """A story that was played.

    Attributes:
        name: Its name.
        job: The job.
        view: Its record in the end.
    """

    name: str
    job: str
    view: View


def preempted(stage: Stage) -> Told:
    """A job on two nodes loses its place once, and goes on from its checkpoint."""
    name = "train"
    job = stage.submit(name, "train", nodes=2)
    stage.say(f"submitted {job}: two nodes, and a plan that resubmits what is preempted")
    stage.between("preempted/submitted")
    status = stage.wait(job, runs, "running")
    both = Counter({f"start submission=1 rank={rank}": 1 for rank in (0, 1)})
    stage.wait_for_marks(name, both, job)
    stage.say(f"it runs on {' and '.join(status.nodes)}; the administrator takes its place away")
    stage.between("preempted/running")
    assert status.ref is not None
    stage.preempt(status.ref)
    stage.between("preempted/taken")
    stage.wait(job, settled, "settled")
    stage.say("it ran again from its checkpoint, to the end")
    return Told(name, job, stage.client.record(job))


def cancelled(stage: Stage) -> Told:
    """A running job is cancelled."""
    name = "wait"
    job = stage.submit(name, "wait")
    stage.say(f"submitted {job}: it would run for ten minutes")
    stage.between("cancelled/submitted")
    stage.wait(job, runs, "running")
    stage.wait_for_marks(name, Counter({"start submission=1 rank=0": 1}), job)
    stage.between("cancelled/running")
    receipt = stage.client.intend(
        job, IntentKind.CANCEL, intent_id=f"cancel-{stage.run_id}", reason="not needed any more"
    )
    stage.say(f"it runs; cancelled it: the outcome is {receipt.outcome} at once")
    stage.between("cancelled/asked")
    stage.wait(job, settled, "settled")
    stage.say("its processes were stopped, and that was verified")
    return Told(name, job, stage.client.record(job))


def given_up(stage: Stage) -> Told:
    """A job runs out of memory; the plan asks a person, who gives it up."""
    name = "grow"
    job = stage.submit(name, "grow", memory_mb_per_node=64)
    stage.say(f"submitted {job}: it wants more than the 64 MB it asked for")
    stage.between("given-up/submitted")
    status = stage.wait(job, asks, "held for a person")
    stage.say(f"it is {status.state} ({status.cause}): a person has to say what to do")
    stage.between("given-up/held")
    stage.client.intend(
        job, IntentKind.GIVE_UP, intent_id=f"give-up-{stage.run_id}", reason="it needs more memory"
    )
    stage.say("a person gave it up")
    stage.between("given-up/asked")
    stage.wait(job, settled, "settled")
    return Told(name, job, stage.client.record(job))


Story = Callable[[Stage], Told]

STORIES: tuple[tuple[str, Story], ...] = (
    ("A job on two nodes is preempted and recovers", preempted),
    ("A job is cancelled while it runs", cancelled),
    ("A job runs out of memory, is held, and is given up", given_up),
)


# --- what must be true in the end -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ending:
    """How a story has to end.

    Attributes:
        outcome: The job's.
        cause: Why it failed.
        causes: Why the latest run of each submission ended; None for a success.
        marks: What its tasks wrote, and how often.
    """

    outcome: Outcome
    cause: Cause | None
    causes: tuple[Cause | None, ...]
    marks: Counter[str]


ENDINGS: dict[str, Ending] = {
    "train": Ending(
        Outcome.SUCCEEDED,
        None,
        (Cause.PREEMPTED, None),
        Counter(
            f"{what} rank={rank}"
            for rank in (0, 1)
            for what in (
                "start submission=1",
                "told-to-end submission=1",
                "start submission=2",
                "end submission=2",
            )
        ),
    ),
    "wait": Ending(
        Outcome.CANCELLED,
        None,
        (Cause.STOPPED,),
        Counter({"start submission=1 rank=0": 1, "told-to-end submission=1 rank=0": 1}),
    ),
    "grow": Ending(
        Outcome.FAILED,
        Cause.OUT_OF_MEMORY,
        (Cause.OUT_OF_MEMORY,),
        Counter({"start submission=1 rank=0": 1}),
    ),
}


def deviations(told: Told, folder: Path, now: datetime) -> list[str]:
    """Return in what a story ended otherwise than told; empty if it didn't."""
    job = fold(told.view, now)
    wanted, wrote = ENDINGS[told.name], marks(folder / told.name)
    found = []
    outcome = None if job.ending is None else job.ending.state
    cause = None if job.ending is None else job.ending.cause
    if outcome is not wanted.outcome or cause is not wanted.cause:
        found.append(f"the outcome is {outcome} ({cause})")
    if job.settled_at is None:
        found.append("it isn't settled")
    if _causes(job) != wanted.causes:
        found.append(f"its runs ended with {_causes(job)}")
    if any(job.past.values()):
        found.append("an object of it ran more than once")
    if wrote != wanted.marks:
        found.append(f"its tasks wrote {dict(wrote)}")
    return found


def _causes(job: Job) -> tuple[Cause | None, ...]:
    causes = []
    for submission in job.submissions:
        known = None if submission.canonical is None else job.objects[submission.canonical]
        ended = known is not None and known.run.state is not ObjectState.GONE
        causes.append(known.cause if known is not None and ended else Cause.LOST)
    return tuple(causes)
