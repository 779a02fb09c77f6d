"""Every error that crosses a module's edge, grouped by what the one who catches it must do.

* `RecordRefused`: the record can't be read as it is; make no calls, tell a person.
* `CallerError`: the request is at fault; tell the caller, change nothing.
* `RevisionConflict`: somebody else wrote first; read again and decide anew.
* `TryLater`: nothing was learnt; the same call may be made again later.
* `Unknown`: it may have taken effect; find out before acting.
* `CallRefused`: the scheduler gave a definite no; nothing took effect.
* `BadConfiguration`: this process can't do its work as it was set up; tell its operator.
"""

from __future__ import annotations

from typing import ClassVar


class DispatchError(Exception):
    """The root of all errors of Dispatch, with a stable `code` that machines may compare."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, job: str | None = None) -> None:
        super().__init__(message if job is None else f"job {job}: {message}")
        self.message = message
        self.job = job


# --- refuse: the record itself -------------------------------------------------------------


class RecordRefused(DispatchError):
    """A record, or one entry of it, can't be accepted; it is never skipped or guessed at.

    Attributes:
        job: The job whose record it is, where known.
        entry: The entry's number (1 is the first after the header, 0 the header), where known.
        field: The field at fault, dotted, where there is one.
        rule: A short stable name of the rule that was broken.
    """

    code = "record_refused"

    def __init__(
        self,
        message: str,
        *,
        job: str | None = None,
        entry: int | None = None,
        field: str | None = None,
        rule: str = "",
    ) -> None:
        where = "" if entry is None else ("header: " if entry == 0 else f"entry {entry}: ")
        at = "" if not field else f"field {field!r}: "
        super().__init__(f"{where}{at}{message}", job=job)
        self.reason = message
        self.entry = entry
        self.field = field
        self.rule = rule

    def located(self, *, job: str | None, entry: int | None) -> RecordRefused:
        """Return the same refusal, naming the job and the entry it was met in."""
        return type(self)(self.reason, job=job, entry=entry, field=self.field, rule=self.rule)


class InvalidRecord(RecordRefused):
    """The history is one that the protocol could not have written (the seed's ErrInvalid)."""

    code = "invalid_record"


class SchemaRefused(RecordRefused):
    """A body isn't of the schema it claims: unknown schema, field, shape, time or number."""

    code = "schema_refused"


class UnknownName(SchemaRefused):
    """A body uses an enum name this build doesn't know (the seed's ErrUnknownName)."""

    code = "unknown_name"


# --- tell the caller ------------------------------------------------------------------------


class CallerError(DispatchError):
    """The caller asked for something that can't be done as asked; nothing was changed."""

    code = "bad_request"


class InvalidRequest(CallerError):
    """The request is malformed; the message names the field and the reason."""

    code = "invalid_request"

    def __init__(self, message: str, *, job: str | None = None, field: str | None = None) -> None:
        super().__init__(message if not field else f"field {field!r}: {message}", job=job)
        self.field = field


class JobNotFound(CallerError):
    """No record of that job exists here."""

    code = "job_not_found"


class JobTombstoned(CallerError):
    """The job's record was tombstoned; only its idempotency key is kept."""

    code = "job_tombstoned"


class IdempotencyConflict(CallerError):
    """The idempotency key stands for a job with another spec; nothing was created."""

    code = "idempotency_conflict"


class NotSettled(CallerError):
    """Only a settled record can be tombstoned or superseded."""

    code = "not_settled"


class NothingRan(CallerError):
    """Nothing of the job has run yet, so there is no output to be read."""

    code = "nothing_ran"


class EntryTooLarge(CallerError):
    """The entry would not fit, or would leave no room for a later cancel; nothing was written."""

    code = "entry_too_large"


class UnknownCluster(CallerError):
    """No cluster of that name is configured."""

    code = "unknown_cluster"


class ClusterDrained(CallerError):
    """The cluster takes no new jobs for now."""

    code = "cluster_drained"


class Forbidden(CallerError):
    """The caller isn't known, or may not do this."""

    code = "forbidden"


class Unsupported(CallerError):
    """The cluster doesn't declare this capability, so it isn't attempted."""

    code = "unsupported"


# --- read again -----------------------------------------------------------------------------


class RevisionConflict(DispatchError):
    """The revision that was read is no longer current; nothing was written."""

    code = "revision_conflict"


# --- try later ------------------------------------------------------------------------------


class TryLater(DispatchError):
    """Nothing was learnt and nothing was changed; the same question may be asked again."""

    code = "try_later"


class StoreUnavailable(TryLater):
    """The store didn't answer; nothing was written by this call."""

    code = "store_unavailable"


class SchedulerUnavailable(TryLater):
    """The scheduler didn't answer a question; this is never evidence about any job."""

    code = "scheduler_unavailable"


# --- find out -------------------------------------------------------------------------------


class Unknown(DispatchError):
    """It may or may not have taken effect; only a later look can tell."""

    code = "unknown"


class CommitUnknown(Unknown):
    """The commit may be there and a re-read couldn't tell; treat it as somebody else's."""

    code = "commit_unknown"


class CallUnknown(Unknown):
    """A call to the scheduler may have taken effect, now or later within the call's bound."""

    code = "call_unknown"


# --- final ----------------------------------------------------------------------------------


class CallRefused(DispatchError):
    """The scheduler refused a call for good; nothing took effect."""

    code = "call_refused"


class HitOther(DispatchError):
    """An id led to an object with another tag: it isn't ours (protocol §7)."""

    code = "hit_other"


class BadConfiguration(DispatchError):
    """What this process was configured with can't be used; nothing was done."""

    code = "bad_configuration"
