"""The wire models: requests, answers, the problem. Requests are strict, answers may gain fields."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from dispatch.core.parts import Effect
from dispatch.core.project import State
from dispatch.record.control import IntentId
from dispatch.record.header import Plan, Spec
from dispatch.record.model import Instant, JobId, Model, Name, Ref, Text
from dispatch.record.names import Cause, Desired, IntentKind, Outcome, UnmatchedPolicy

API_VERSION = "1.1.0"
PROBLEM_TYPE = "application/problem+json"
JSON_TYPE = "application/json"
EXPORT_TYPE = "application/jsonl"
IDEMPOTENCY_HEADER = "Idempotency-Key"
NEXT_HEADER = "Dispatch-Next"
"""On an export that was cut: the number of the last entry in it; hand it in as `after`."""

MAX_BODY_BYTES = 524_288
"""A request's body larger than this is refused unread."""

MAX_ANSWER_BYTES = 4_000_000
"""Where an answer with many entries is cut; Lambda's own limit is 6 MB."""

MAX_LOG_BYTES = 262_144
"""The longest piece of output in one answer."""


class Answer(BaseModel):
    """The base of every answer: frozen, strict, open to fields that a later build adds."""

    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="ignore",
        from_attributes=True,
        serialize_by_alias=True,
        validate_by_name=True,
        validate_by_alias=True,
        allow_inf_nan=False,
        defer_build=True,  # a process builds the few that it gives, when it first gives them
    )


# --- requests ---------------------------------------------------------------------------------


class SubmitRequest(Model):
    """The body of `POST /jobs`; the idempotency key is a header.

    Attributes:
        spec: What to run.
        cluster: The configured name of the cluster to run it on.
        plan: What to do about each cause; None for the cluster's default.
        start_retries: Starts allowed beyond the first; None for the cluster's default.
        unmatched: What follows an attempt that was never seen; None for the cluster's default.
        supersedes: A settled job that this one replaces.
        allow_plain: Names of environment variables that may stand in the record though their
            values look like secrets.
    """

    spec: Spec
    cluster: Name
    plan: Plan | None = None
    start_retries: Annotated[int, Field(ge=0, le=100)] | None = None
    unmatched: UnmatchedPolicy | None = None
    supersedes: JobId | None = None
    allow_plain: Annotated[tuple[Name, ...], Field(max_length=100)] | None = None


class IntentRequest(Model):
    """The body of `POST /jobs/{job}/intents`.

    Attributes:
        kind: One of the seven control intents.
        id: Made by the client; sent again, it has no further effect and gets the same receipt.
        reason: Why, in the person's words.
        target: Only for abandon: an attempt (`2.1`) or an object's ref.
    """

    kind: IntentKind
    id: IntentId
    reason: Text | None = None
    target: Ref | None = None


# --- answers ----------------------------------------------------------------------------------


class SubmittedAnswer(Answer):
    """A job that exists; 201 where this request made it, 200 where its key stood already.

    Attributes:
        job_id: Which job.
        created: Whether this request made it.
        generation: Its place in its lineage, 0 for a first job.
    """

    job_id: str
    created: bool
    generation: int


class ReceiptAnswer(Answer):
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
    effect: Effect | None = None
    note: str | None = None
    outcome: Outcome | None = None
    refusal: str | None = None


class Severity(StrEnum):
    """Whether a finding stops a submission."""

    REFUSED = "refused"
    WARNING = "warning"


class FindingAnswer(Answer):
    """One thing that a cluster would refuse of a submission, or wouldn't do as asked.

    Attributes:
        severity: refused, or a warning.
        code: What machines compare.
        field: The field of the job file, dotted, where there is one.
        detail: What is wrong.
        next: What to do about it.
    """

    severity: Severity = Severity.REFUSED
    code: str
    field: str | None = None
    detail: str
    next: str


class LintAnswer(Answer):
    """The answer of `POST /lint`: nothing was submitted, and no scheduler was asked.

    Attributes:
        cluster: Which cluster judged.
        findings: What it found; none is no promise.
    """

    cluster: str
    findings: tuple[FindingAnswer, ...] = ()


class ProgressAnswer(Answer):
    """Whether a run that its plan asks about goes on; for display only.

    Attributes:
        limit_s: How long it may write nothing, by its plan.
        since: When it last wrote anything, or began; None where that can't be told.
        quiet: Whether that is longer ago than the limit.
        error: Why it can't be told.
    """

    limit_s: int
    since: Instant | None = None
    quiet: bool = False
    error: str | None = None


class WaitingAnswer(Answer):
    """One thing that a job waits for.

    Attributes:
        what: deadline, window, back-off, person, capacity, ….
        until: When at the latest; None where no clock ends it.
        detail: A sentence for people.
    """

    what: str
    until: Instant | None = None
    detail: str = ""


class EscalationAnswer(Answer):
    """Something a person was told."""

    key: str
    code: str
    detail: str
    at: Instant


class StalenessAnswer(Answer):
    """How the cluster's supervision goes; for display only."""

    supervisor: str | None = None
    last_tick: Instant | None = None
    last_complete_find: Instant | None = None
    last_error: str | None = None


class StatusAnswer(Answer):
    """The answer of `GET /jobs/{job}`: protocol §10, field by field (see `core.project.Status`)."""

    job_id: str
    name: str
    cluster: str
    revision: int
    state: State
    desired: Desired
    outcome: Outcome | None = None
    cause: Cause | None = None
    exit_code: int | None = None
    signal: int | None = None
    submission: int
    attempt: int
    run: int
    ref: str | None = None
    epoch: int
    nodes: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()
    pending_reason: str | None = None
    cleanup_pending: bool
    waiting_for: tuple[WaitingAnswer, ...] = ()
    escalations: tuple[EscalationAnswer, ...] = ()
    evidence_at: Instant | None = None
    discovery_at: Instant | None = None
    complete: bool | None = None
    stale_since: StalenessAnswer | None = None
    settled_at: Instant | None = None
    unsettled: tuple[str, ...] = ()
    evidence_age_s: float | None = None
    """Seconds since the newest recorded evidence was seen, by the answering side's clock."""
    created_at: Instant | None = None
    created_by: str | None = None
    supersedes: str | None = None
    generation: int = 0
    progress: ProgressAnswer | None = None
    """Where the plan asks for it and the job runs."""


class RefusalAnswer(Answer):
    """Why an entry, or the record, can't be accepted.

    Attributes:
        code: `schema_refused`, `unknown_name` or `invalid_record`.
        rule: The short stable name of the rule that was broken.
        entry: The entry's number, 0 for the header.
        field: The field at fault.
        detail: The sentence.
    """

    code: str
    rule: str
    entry: int | None = None
    field: str | None = None
    detail: str


class EntryAnswer(Answer):
    """One entry of a history, or its header (number 0).

    Attributes:
        number: Its place; 1 is the first after the header.
        schema_: The schema it claims (`schema` on the wire).
        body: Its body as JSON; None where the stored text isn't JSON.
        raw: The stored text, only where it isn't JSON.
        token: The commit that wrote it; entries of one commit share it.
        at: Its time, where it can be told.
        by: Who wrote it, where it can be told.
        decoded: Whether this build can decode it.
        refusal: Why not.
    """

    number: int
    schema_: Annotated[str, Field(alias="schema")]
    body: Any = None
    raw: str | None = None
    token: str = ""
    at: Instant | None = None
    by: str | None = None
    decoded: bool
    refusal: RefusalAnswer | None = None


class HistoryAnswer(Answer):
    """The answer of `GET /jobs/{job}/history`: entries `after` … , oldest first.

    Attributes:
        job_id: Whose record.
        revision: The number of entries in the record.
        header: The header as entry 0, on every page.
        entries: From `after` + 1 on.
        next_after: Hand it in as `after` for the next page; None on the last.
        folds: Whether the whole record folds.
        refusal: Which entry it is refused at, and why, where it doesn't.
    """

    job_id: str
    revision: int
    header: EntryAnswer
    entries: tuple[EntryAnswer, ...]
    next_after: int | None = None
    folds: bool
    refusal: RefusalAnswer | None = None


class SummaryAnswer(Answer):
    """What a listing says of a job when asked for summaries.

    Attributes:
        name: The job's name for people; None where the header can't be decoded.
        state: What it is doing; None where the record doesn't fold.
        since: Since when it has been doing that.
        waiting_for: What it waits for.
        labels: Its labels.
        nodes: Where it runs or last ran.
        progress: Where its plan asks for it and it runs.
        refusal: Why it doesn't.
    """

    name: str | None = None
    state: State | None = None
    desired: Desired | None = None
    outcome: Outcome | None = None
    cause: Cause | None = None
    holds: tuple[str, ...] = ()
    waiting_for: tuple[WaitingAnswer, ...] = ()
    escalations: tuple[EscalationAnswer, ...] = ()
    evidence_at: Instant | None = None
    created_by: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    since: Instant | None = None
    nodes: tuple[str, ...] = ()
    progress: ProgressAnswer | None = None
    refusal: RefusalAnswer | None = None


class ListedAnswer(Answer):
    """One line of `GET /jobs`; it comes from an index that may lag behind the record."""

    job_id: str
    cluster: str
    created_at: Instant
    revision: int
    settled_at: Instant | None = None
    tombstoned: bool = False
    summary: SummaryAnswer | None = None


class ListingAnswer(Answer):
    """A page of `GET /jobs`, in the stable order (created_at, job_id).

    Attributes:
        jobs: The lines.
        cursor: Hand it in for the next page; None after the last.
    """

    jobs: tuple[ListedAnswer, ...]
    cursor: str | None = None


class LogsAnswer(Answer):
    """A piece of a job's output.

    Attributes:
        job_id: Whose.
        ref: The object that wrote it.
        text: Decoded, undecodable bytes replaced.
        next_offset: Where the next piece starts, bytes.
        ended: Whether no more will come from this object.
    """

    job_id: str
    ref: str
    text: str
    next_offset: int
    ended: bool


# --- problems ---------------------------------------------------------------------------------


class Problem(Answer):
    """An RFC 9457 problem; `code` is stable and stands for a class of `dispatch.errors`.

    Attributes:
        type: A URI reference made of the code.
        title: The kind of problem, in words.
        status: The HTTP status.
        code: What machines compare.
        detail: What happened here; names the job, the field and the reason.
        job: The job, where there is one.
        field: The field of the request, or of the entry, at fault.
        entry: The entry at fault, 0 for the header.
        rule: The short name of the rule that was broken.
        page: Where the documentation explains the code, from the root of the repository.
    """

    type: str
    title: str
    status: int
    code: str
    detail: str
    job: str | None = None
    field: str | None = None
    entry: int | None = None
    rule: str | None = None
    page: str | None = None
