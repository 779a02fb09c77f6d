"""The contract of a scheduler's adapter, for one cluster.

Every promise in a docstring here has one test of its name in `tests/conformance/scheduler`,
which every adapter and every simulated world passes. An adapter keeps no state that safety rests
on; what it can't do it doesn't declare, and a call that isn't declared raises `Unsupported`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from dispatch.record.evidence import Found, Glance, Sighting
from dispatch.record.header import Adjust, Declarations, Spec
from dispatch.record.names import Cause


@dataclass(frozen=True, slots=True)
class Tag:
    """What every object of a job carries, so that nobody's object is mistaken for ours.

    Attributes:
        job: The job.
        n: The submission.
        a: The attempt.
        spec_digest: The spec's digest.
        generation: The lineage's generation.
    """

    job: str
    n: int
    a: int
    spec_digest: str
    generation: int

    @property
    def epoch(self) -> int:
        """The fencing token of a run without restarts; add the restarts (protocol §11)."""
        return self.n * 1_000_000

    def environment(self) -> dict[str, str]:
        """Return what the training process sees of it; the epoch is without restarts."""
        return {
            "DISPATCH_JOB_ID": self.job,
            "DISPATCH_SUBMISSION": str(self.n),
            "DISPATCH_ATTEMPT": str(self.a),
            "DISPATCH_EPOCH": str(self.epoch),
        }


@dataclass(frozen=True, slots=True)
class StartOrder:
    """All that a Start needs; pure adapters' requests are made from it alone.

    Attributes:
        tag: What the object will carry.
        spec: What to run.
        adjust: What the plan changes for this submission.
        owner: The principal who submitted the job.
        in_place: Whether the plan may ask for an in-place requeue of this object.
    """

    tag: Tag
    spec: Spec
    adjust: Adjust | None
    owner: str
    in_place: bool


@dataclass(frozen=True, slots=True)
class Started:
    """The object exists.

    Attributes:
        ref: Its identity.
        notes: What the scheduler said beside it, for people.
    """

    ref: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StartRefused:
    """A definite no; nothing exists and nothing will.

    Attributes:
        cause: `start_refused`, `invalid_spec`, `name_taken`, ….
        detail: The scheduler's words.
    """

    cause: Cause
    detail: str


@dataclass(frozen=True, slots=True)
class Target:
    """One object, with the tag that must be found on it before anything is done to it.

    Attributes:
        ref: Its identity.
        tag: What it must carry.
        restarts: The restarts last recorded (a requeue's guard).
        released_at: When its gate was first opened, where it is to be opened again.
    """

    ref: str
    tag: Tag
    restarts: int = 0
    released_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Sent:
    """One Start that was recorded and whose object isn't known, with the time it may be of.

    Attributes:
        tag: What its object carries.
        at: When it was recorded; nothing of it exists before.
        deadline: When it can't land any more, without skew.
    """

    tag: Tag
    at: datetime
    deadline: datetime


@dataclass(frozen=True, slots=True)
class LookedUp:
    """Accounting's answer.

    Attributes:
        sightings: What it knows.
        unknown: The refs and attempts (`2.1`) that it was asked about and doesn't know.
    """

    sightings: tuple[Sighting, ...]
    unknown: frozenset[str]


@dataclass(frozen=True, slots=True)
class Output:
    """A piece of an object's output.

    Attributes:
        text: Decoded, undecodable bytes replaced.
        next_offset: Where the next piece starts, bytes.
        ended: Whether no more will come.
    """

    text: str
    next_offset: int
    ended: bool


@dataclass(frozen=True, slots=True)
class CheckLine:
    """One thing that was tried about a cluster.

    Attributes:
        what: reach, identity, rights, clock, version, …
        ok: Whether it is as it should be.
        detail: What was seen, and what follows from it.
    """

    what: str
    ok: bool
    detail: str


class Scheduler(Protocol):
    """One cluster, spoken to through its own interface, with transport retries off."""

    def declare(self) -> Declarations:
        """Return the cluster's declarations, without asking the cluster."""
        ...

    def check(self) -> Sequence[CheckLine]:
        """Try what supervision will need and say what was seen. Changes nothing, never raises."""
        ...

    def lint(self, spec: Spec) -> Sequence[str]:
        """Return what the cluster would refuse of a spec, each a sentence naming the field.

        Asks nothing; an empty answer is no promise.
        """
        ...

    def glance(self) -> Glance:
        """Return a token for each live object, with one cheap request.

        Raises:
            SchedulerUnavailable: No answer, or one that isn't an answer.
        """
        ...

    def find(self) -> Found:
        """Return every object of Dispatch on this cluster that it still shows.

        One answer serves all jobs. What fails, times out or is cut makes it incomplete; it never
        makes an object absent. Objects without a readable tag of ours are left out.

        Raises:
            SchedulerUnavailable: There was no answer at all.
        """
        ...

    def start(self, order: StartOrder) -> Started | StartRefused:
        """Create the object, held where `gated_start` is declared. Sent once, never repeated.

        Where names are unique and the name is taken by this very tag's object, that object is
        the answer.

        Raises:
            CallUnknown: It may exist, now or within the call's bound.
            SchedulerUnavailable: It was certainly never sent.
        """
        ...

    def stop(self, target: Target) -> None:
        """Ask for the end of the object's whole process tree. Repeatable; not found is success.

        Raises:
            CallUnknown: Ask again later.
            CallRefused: The scheduler won't; ask again later, a person is told in time.
            HitOther: The ref leads to an object with another tag; nothing was done.
        """
        ...

    def hold(self, target: Target) -> None:
        """Ask that the object doesn't run. Sent once. Its effect is seen by a Find.

        Raises:
            Unsupported: Not declared for the state it is in.
            CallUnknown: It may land within the call's bound.
            CallRefused: It won't.
            HitOther: As for stop.
        """
        ...

    def release(self, target: Target) -> None:
        """Lift our hold or the gate. Repeatable.

        A scheduler that crashes may forget that a gate was opened, and the run that followed,
        which goes on for a while. So where the target says that it was opened before, and the
        scheduler began anew since, it isn't opened again before such a run is over.

        Raises:
            Unsupported: Neither a gate nor a hold is declared.
            CallUnknown, CallRefused: Ask again later.
            HitOther: As for stop.
        """
        ...

    def requeue(self, target: Target) -> None:
        """Ask that the same object runs again from the start. Sent once.

        Raises:
            Unsupported: Not declared.
            CallUnknown: It may land within the call's bound.
            CallRefused: It won't.
            HitOther: As for stop.
        """
        ...

    def lookup(self, targets: Sequence[Target], attempts: Sequence[Sent]) -> LookedUp:
        """Ask accounting about objects that a Find no longer shows, and Starts that none showed.

        What carries no tag there is an attempt's only if it began in the attempt's own time.

        Raises:
            Unsupported: `lookup` isn't declared.
            SchedulerUnavailable: No answer; nothing may be concluded.
        """
        ...

    def output(self, target: Target, *, offset: int, limit: int) -> Output:
        """Return a piece of the output, from `offset`, at most `limit` bytes.

        Raises:
            Unsupported: `output` isn't declared.
            SchedulerUnavailable: It can't be read now.
        """
        ...


@runtime_checkable
class KeepsEvidence(Protocol):
    """An adapter that keeps ended objects until their end is in the record."""

    def acknowledge(self, targets: Sequence[Target]) -> None:
        """Let go of evidence that was committed. Repeatable; never raises for what is gone.

        Of an object that hasn't ended, the record knows the run that it is in (`restarts`): what
        is kept of the runs before it may go, and nothing else.

        Raises:
            CallUnknown: Ask again later.
        """
        ...

    def free(self, keep: Callable[[str, datetime | None], bool]) -> int:
        """Let go of the evidence of every job that nobody keeps a record of any more.

        Args:
            keep: Whether the evidence of a job's object is still wanted, by the job's id and when
                the object ended, None while it goes on; what it raises is raised.

        Returns:
            How many objects were let go of.

        Raises:
            CallUnknown: Some are left; ask again later.
        """
        ...


@runtime_checkable
class TellsProgress(Protocol):
    """An adapter that can tell when an object last wrote anything; for display only."""

    def written_at(self, target: Target) -> datetime | None:
        """Return when the output of a run last grew; None where it never did, or can't be told.

        Raises:
            SchedulerUnavailable: It can't be read now.
        """
        ...
