"""The operator: submit and the seven intents, each answered by a truthful receipt.

It writes headers and control intents, never facts, and appends without folding: a record that
this build can't fold can still take a cancel (seed, "Schemas that refuse what they don't know").
"""

from __future__ import annotations

import re
from base64 import b32encode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256

from pydantic import ValidationError

from dispatch.core.fold import fold
from dispatch.core.job import Job
from dispatch.core.parts import Effect
from dispatch.errors import (
    IdempotencyConflict,
    InvalidRequest,
    JobNotFound,
    JobTombstoned,
    NotSettled,
    RecordRefused,
)
from dispatch.record.codec import decode_header, envelope, refusal, spec_digest
from dispatch.record.control import Control
from dispatch.record.header import Declarations, Header, Lineage, Plan, Spec
from dispatch.record.names import IntentKind, Outcome, UnmatchedPolicy
from dispatch.record.view import View
from dispatch.store.commit import commit_control
from dispatch.store.records import NewRecord, Records

MAX_KEY = 200
_KEY = re.compile(r"[\x21-\x7e]{1,200}\Z")


@dataclass(frozen=True, slots=True)
class Submit:
    """What a client asks for when it submits a job.

    Attributes:
        idempotency_key: The same key and spec is the same job, for ever.
        spec: What to run.
        plan: What to do about each cause.
        declarations: The cluster's, now.
        start_retries: Starts allowed beyond the first.
        unmatched: What follows an attempt that was never seen.
        supersedes: A settled job that this one replaces.
    """

    idempotency_key: str
    spec: Spec
    plan: Plan
    declarations: Declarations
    start_retries: int = 2
    unmatched: UnmatchedPolicy = UnmatchedPolicy.RETRY
    supersedes: str | None = None


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job that exists.

    Attributes:
        job_id: Which.
        created: False when the key stood for it already.
        generation: Its place in its lineage.
    """

    job_id: str
    created: bool
    generation: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a control intent.

    Attributes:
        job_id: Which job.
        intent_id: Which intent.
        kind: What was wanted.
        entry: The number of its entry in the record.
        repeated: Whether it stood there already.
        effect: applied, already or no_effect; None where the record can't be folded by this
            build: the intent is recorded, its effect unknown.
        note: What to know about it.
        outcome: The outcome it met or made.
        refusal: Why the record can't be folded, where it can't.
    """

    job_id: str
    intent_id: str
    kind: IntentKind
    entry: int
    repeated: bool
    effect: Effect | None
    note: str | None
    outcome: Outcome | None
    refusal: str | None


def job_id_of(idempotency_key: str) -> str:
    """Return the job id that a key stands for: a repeated submit maps to the same job."""
    return "j" + b32encode(sha256(idempotency_key.encode()).digest()).decode().lower()[:20]


@dataclass(frozen=True, slots=True)
class Operator:
    """Writes what people want.

    Attributes:
        records: The store.
        clock: Reads the time, UTC.
        pause: Waits a little before try `k` of a commit.
        patience_s: How long an intent is offered to a busy record.
    """

    records: Records
    clock: Callable[[], datetime]
    pause: Callable[[int], None]
    patience_s: int = 10

    def submit(self, wanted: Submit, *, by: str) -> Submitted:
        """Create the job, or return the one its key stands for.

        Raises:
            InvalidRequest: The key, or a superseding field, is malformed.
            IdempotencyConflict: The key stands for another spec.
            JobNotFound, JobTombstoned: The job to supersede isn't there.
            NotSettled: The job to supersede isn't settled.
            EntryTooLarge: The spec would not fit.
            StoreUnavailable: Nothing was written.
            CommitUnknown: It may exist; submit again with the same key.
        """
        if not _KEY.match(wanted.idempotency_key):
            raise InvalidRequest(
                f"1 to {MAX_KEY} printable ASCII characters without spaces",
                field="idempotency_key",
            )
        now = self.clock()
        job_id = job_id_of(wanted.idempotency_key)
        lineage = self._lineage(wanted.supersedes, job_id, now)
        header = _header(wanted, job_id, lineage, (by, now))
        created = self.records.create(
            NewRecord(
                job_id=job_id,
                idempotency_key=wanted.idempotency_key,
                spec_digest=header.spec_digest,
                cluster=wanted.declarations.cluster,
                header=envelope(header),
                created_at=now,
            )
        )
        if not created.created:
            lineage = self._standing(created.job_id, lineage) or lineage
        return Submitted(created.job_id, created.created, lineage.generation)

    def standing(self, idempotency_key: str, spec: Spec) -> Submitted | None:
        """Return the job that a key stands for already; None if there is none to be read.

        Raises:
            IdempotencyConflict: It has another spec.
        """
        job_id = job_id_of(idempotency_key)
        try:
            header = decode_header(self.records.read(job_id).header, job=job_id)
        except (JobNotFound, JobTombstoned, RecordRefused):
            return None
        if header.spec_digest != spec_digest(spec):
            raise IdempotencyConflict(
                f"the key {idempotency_key!r} stands for another spec", job=job_id
            )
        return Submitted(job_id, created=False, generation=header.lineage.generation)

    def _standing(self, job_id: str, unreadable: Lineage) -> Lineage | None:
        """Return the lineage of a job that exists, None where it doesn't."""
        try:
            return decode_header(self.records.read(job_id).header, job=job_id).lineage
        except JobNotFound:
            return None
        except (JobTombstoned, RecordRefused):
            return unreadable

    def _lineage(self, supersedes: str | None, job_id: str, now: datetime) -> Lineage:
        if supersedes is None:
            return Lineage()
        if supersedes == job_id:
            raise InvalidRequest("a job can't supersede itself", job=job_id, field="supersedes")
        try:
            repeated = self._standing(job_id, Lineage(supersedes=supersedes, generation=1))
        except ValidationError as error:
            refused = refusal(error)
            raise InvalidRequest(refused.reason, job=job_id, field="supersedes") from None
        if repeated is not None:
            return repeated  # whatever has become of the job it superseded
        before = fold(self.records.read(supersedes), now)
        if before.settled_at is None:
            raise NotSettled("only a settled job can be superseded", job=supersedes)
        return Lineage(supersedes=supersedes, generation=before.header.lineage.generation + 1)

    def intend(
        self,
        job_id: str,
        kind: IntentKind,
        *,
        intent_id: str,
        by: str,
        reason: str | None = None,
        target: str | None = None,
    ) -> Receipt:
        """Record what a person wants, whatever any supervisor is doing.

        Args:
            job_id: Which job.
            kind: One of the seven.
            intent_id: Made by the client; a repeat has no effect and gets the same answer.
            by: Who, from the authorizer.
            reason: In their words.
            target: Only for abandon.

        Raises:
            InvalidRequest: A field is malformed.
            JobNotFound, JobTombstoned: There is no such record.
            EntryTooLarge: It would not fit.
            StoreUnavailable: Nothing was written.
            CommitUnknown: It may be there; send it again with the same id.
        """
        now = self.clock()
        try:
            control = Control(kind=kind, id=intent_id, by=by, at=now, reason=reason, target=target)
        except ValidationError as error:
            refused = refusal(error)
            raise InvalidRequest(refused.reason, job=job_id, field=refused.field) from None
        committed = commit_control(
            self.records,
            job_id,
            control,
            deadline=now + timedelta(seconds=self.patience_s),
            clock=self.clock,
            pause=self.pause,
        )
        return self._receipt(committed.view, control, committed.entry, committed.repeated)

    def _receipt(self, view: View, control: Control, entry: int, repeated: bool) -> Receipt:
        try:
            job = fold(view, self.clock())
        except RecordRefused as refused:
            return Receipt(
                view.job_id,
                control.id,
                control.kind,
                entry,
                repeated,
                effect=None,
                note="recorded; its effect can't be told by this build",
                outcome=None,
                refusal=str(refused),
            )
        return _answer(job, control, entry, repeated)

    def tombstone(self, job_id: str) -> None:
        """Mark a settled record for removal; its key is kept.

        Raises:
            JobNotFound: No such record.
            NotSettled: It isn't settled.
            StoreUnavailable: Try later.
        """
        self.records.tombstone(job_id)


def _answer(job: Job, control: Control, entry: int, repeated: bool) -> Receipt:
    met = job.wishes[control.id]
    return Receipt(
        job.job_id,
        control.id,
        met.kind,
        entry,
        repeated,
        effect=met.effect,
        note=met.note,
        outcome=met.outcome,
        refusal=None,
    )


def _header(wanted: Submit, job_id: str, lineage: Lineage, said: tuple[str, datetime]) -> Header:
    by, now = said
    try:
        return Header(
            job_id=job_id,
            idempotency_key=wanted.idempotency_key,
            spec=wanted.spec,
            spec_digest=spec_digest(wanted.spec),
            plan=wanted.plan,
            declarations=wanted.declarations,
            start_retries=wanted.start_retries,
            unmatched=wanted.unmatched,
            created_by=by,
            created_at=now,
            lineage=lineage,
        )
    except ValidationError as error:
        refused = refusal(error)
        raise InvalidRequest(refused.reason, job=job_id, field=refused.field) from None
