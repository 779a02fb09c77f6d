"""What bears on a job beyond its record, and whether it may be run again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from dispatch.core import rules
from dispatch.core.job import Job
from dispatch.core.project import State, Status, state_of
from dispatch.narrate.advice import Advice
from dispatch.narrate.standing import own_run
from dispatch.narrate.words import Reader, quoted

NOT_SAFE = (
    "Nobody can tell from here: what the record says behind that entry isn't known.",
    "Look at the scheduler for what runs before you start anything; a new job would run beside it.",
)
"""What is said of a record that can't be folded."""


@dataclass(frozen=True, slots=True)
class Around:
    """What bears on a job and doesn't stand in its record.

    Attributes:
        brakes: Those that are on at its cluster (paused, drained, observed), with their reasons.
        quiet_since: Since when its run has written nothing, for longer than its plan allows.
    """

    brakes: Mapping[str, str] = field(default_factory=dict)
    quiet_since: datetime | None = None

    @property
    def holds_back(self) -> bool:
        """Whether a brake keeps jobs there from beginning to run."""
        return not self.brakes.keys().isdisjoint(("paused", "observed"))


def around_words(status: Status, around: Around, reader: Reader) -> Iterator[str]:
    """Yield what holds a job back, or is odd about it, beyond what its record says."""
    if around.quiet_since is not None and status.outcome is None:
        since, ago = reader.time(around.quiet_since), reader.ago(around.quiet_since)
        yield f"No progress since {since} ({ago}): it has written nothing since then."
    if status.settled_at is not None:
        return
    ends = "until an operator takes that brake off"
    for brake, reason in sorted(around.brakes.items()):
        match brake:
            case "paused" if status.outcome is None:
                runs = status.state is State.RUNNING
                bears = "this run goes on, a next one waits" if runs else "this job waits"
                said = f"The cluster is paused ({quoted(reason)}): nothing begins to run there"
                yield f"{said}; {bears} {ends}."
            case "observed":
                yield (
                    f"The cluster is only observed ({quoted(reason)}): Dispatch makes no call and "
                    f"writes nothing down there, for this job neither, {ends}."
                )
            case "drained":
                yield (
                    f"The cluster is drained ({quoted(reason)}): it takes no new job, {ends}; this "
                    "one goes on."
                )
            case _:
                pass


def advice_around(status: Status, around: Around) -> Iterator[Advice]:
    """Yield what can be looked at beside the job."""
    if around.brakes and status.settled_at is None:
        yield Advice("dispatch clusters list", "the brakes that are on, and how supervision goes")


def again(job: Job) -> Iterator[str]:
    """Yield whether the job may be run again, how, and what to know before."""
    name = job.job_id
    vouched = [one.ref for one in job.objects.values() if one.abandoned and not one.ended]
    if job.settled_at is not None:
        yield f"Yes, as a new job: dispatch resubmit {name} --anew."
    elif job.ending is not None:
        yield (
            "Not yet: it has its outcome, and something of it may be left. Once it is settled, "
            f"dispatch resubmit {name} --anew; before, that is refused."
        )
    else:
        runs = state_of(job) is State.RUNNING or own_run(job) is not None
        stops = "it stops what runs, and " if runs else "it "
        yield (
            f"Yes, by dispatch resubmit {name} alone: {stops}starts again only once everything of "
            "it is verified stopped. A new job under another key would run beside it."
        )
        for known in rules.undisposed_foreign(job):
            yield f"It starts only once {known.ref}, which isn't of this record, is accounted for."
    for ref in vouched:
        yield f"A person vouched for {ref}; Dispatch took their word, and didn't see it end."
