"""What a record folds to. The parts are frozen; `fold` alone writes the `Job` that holds them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from dispatch.core.parts import (
    Attempt,
    Call,
    Ending,
    Escalation,
    Pending,
    RecoveryWait,
    Run,
    SchedulerObject,
    Submission,
    UserHold,
    Wish,
)
from dispatch.record.header import Declarations, Header, Plan
from dispatch.record.names import Cause, Desired


@dataclass(slots=True)
class Job:
    """Everything a record says; equal for everyone who folds the same revision.

    Attributes:
        header: The header.
        revision: The number of entries folded.
        as_of: The `now` handed to fold; not part of what the record says.
        desired: What a person wants.
        ending: The outcome, once there is one.
        submissions: In order, number n at index n - 1.
        attempts: By (n, a).
        objects: Every object ever recorded, by ref.
        strangers: The refs of the foreign ones, as first recorded.
        past: Earlier runs by ref.
        calls: Hold and requeue calls whose state may still change.
        done_calls: The others.
        user_hold: A person's hold.
        recovery: The recovery hold.
        requeue: A pending requeue.
        resubmit: A pending resubmit.
        triggers: Every reason used.
        spent: Runs begun for a cause, by cause.
        escalations: By key.
        wishes: Control intents by id.
        settled_at: When it was settled.
        evidence_at: The seen_at of the newest evidence recorded.
    """

    header: Header
    revision: int = 0
    as_of: datetime | None = field(default=None, compare=False)
    desired: Desired = Desired.RUN
    ending: Ending | None = None
    submissions: list[Submission] = field(default_factory=list)
    attempts: dict[tuple[int, int], Attempt] = field(default_factory=dict)
    objects: dict[str, SchedulerObject] = field(default_factory=dict)
    strangers: list[str] = field(default_factory=list)
    past: dict[str, list[Run]] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    done_calls: list[Call] = field(default_factory=list)
    user_hold: UserHold | None = None
    recovery: RecoveryWait | None = None
    requeue: Pending | None = None
    resubmit: Pending | None = None
    triggers: set[str] = field(default_factory=set)
    spent: dict[Cause, int] = field(default_factory=dict)
    escalations: dict[str, Escalation] = field(default_factory=dict)
    wishes: dict[str, Wish] = field(default_factory=dict)
    settled_at: datetime | None = None
    evidence_at: datetime | None = None

    def copy(self) -> Job:
        """Return a job that can be folded onto without changing this one."""
        return Job(
            header=self.header,
            revision=self.revision,
            as_of=self.as_of,
            desired=self.desired,
            ending=self.ending,
            submissions=list(self.submissions),
            attempts=dict(self.attempts),
            objects=dict(self.objects),
            strangers=list(self.strangers),
            past={ref: list(runs) for ref, runs in self.past.items()},
            calls=list(self.calls),
            done_calls=list(self.done_calls),
            user_hold=self.user_hold,
            recovery=self.recovery,
            requeue=self.requeue,
            resubmit=self.resubmit,
            triggers=set(self.triggers),
            spent=dict(self.spent),
            escalations=dict(self.escalations),
            wishes=dict(self.wishes),
            settled_at=self.settled_at,
            evidence_at=self.evidence_at,
        )

    @property
    def job_id(self) -> str:
        """Whose record it is."""
        return self.header.job_id

    @property
    def plan(self) -> Plan:
        """The recorded plan."""
        return self.header.plan

    @property
    def declarations(self) -> Declarations:
        """The recorded declarations."""
        return self.header.declarations

    @property
    def latest(self) -> Submission | None:
        """The latest submission."""
        return self.submissions[-1] if self.submissions else None

    @property
    def canonical(self) -> SchedulerObject | None:
        """The canonical object of the latest submission."""
        ref = self.submissions[-1].canonical if self.submissions else None
        return None if ref is None else self.objects[ref]

    @property
    def held(self) -> bool:
        """Whether a person's or a recovery hold is in force."""
        return self.user_hold is not None or self.recovery is not None

    def attempts_of(self, n: int) -> Iterator[Attempt]:
        """Yield the attempts of one submission, in order."""
        for a in range(1, self.submissions[n - 1].last_a + 1):
            yield self.attempts[n, a]

    def objects_of(self, n: int) -> Iterator[SchedulerObject]:
        """Yield the objects of one submission that aren't foreign, as first recorded."""
        return (o for o in self.objects.values() if o.n == n and not o.foreign)

    def is_canonical(self, known: SchedulerObject) -> bool:
        """Return whether an object is the canonical one of its submission."""
        return not known.foreign and self.submissions[known.n - 1].canonical == known.ref
