"""Exit codes that scripts can use, and what to do next after each error."""

from __future__ import annotations

from enum import IntEnum

from dispatch.cli.files import FileRefused, NoExport
from dispatch.client import BadAnswer, ServerFailed, Unreachable, WaitedTooLong
from dispatch.errors import (
    BadConfiguration,
    CallerError,
    CallRefused,
    ClusterDrained,
    DispatchError,
    EntryTooLarge,
    Forbidden,
    HitOther,
    IdempotencyConflict,
    InvalidRequest,
    JobNotFound,
    JobTombstoned,
    NothingRan,
    NotSettled,
    RecordRefused,
    RevisionConflict,
    TryLater,
    Unknown,
    UnknownCluster,
    Unsupported,
)
from dispatch.jobfile import JobFileRefused
from dispatch.record.names import Outcome


class Code(IntEnum):
    """The exit codes of `dispatch` (docs/reference/cli.md)."""

    OK = 0
    REFUSED = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    LATER = 5
    UNKNOWN = 6
    JOB_FAILED = 10
    JOB_CANCELLED = 11
    JOB_OPEN = 12
    INTERRUPTED = 130


class NoEndpoint(TryLater):
    """Nothing says where the API listens, and no stack runs here."""

    code = "no_endpoint"


class NotHere(DispatchError):
    """This installation doesn't hold the part that was asked for."""

    code = "not_here"


def code_of(error: DispatchError) -> Code:
    """Return the exit code that an error stands for."""
    match error:
        case JobNotFound() | JobTombstoned() | UnknownCluster():
            return Code.NOT_FOUND
        case IdempotencyConflict() | NotSettled() | RevisionConflict():
            return Code.CONFLICT
        case TryLater() | NothingRan() | WaitedTooLong():
            return Code.LATER
        case Unknown():
            return Code.UNKNOWN
        case _:
            return Code.REFUSED


def outcome_code(outcome: Outcome | None) -> Code:
    """Return the exit code that a job's outcome stands for."""
    match outcome:
        case Outcome.SUCCEEDED:
            return Code.OK
        case Outcome.FAILED:
            return Code.JOB_FAILED
        case Outcome.CANCELLED:
            return Code.JOB_CANCELLED
        case None:
            return Code.JOB_OPEN


_NEXT: tuple[tuple[type[DispatchError], str], ...] = (
    (NoEndpoint, "start a stack here with `dispatch up`, or name one with --url or DISPATCH_URL"),
    (Unreachable, "see that it runs (`dispatch up` starts one here) and that the address is right"),
    (NotHere, "install that part too: pip install 'dispatch-record[embedded,simulate]'"),
    (JobNotFound, "`dispatch list --all` shows the jobs there are"),
    (JobTombstoned, "the record was removed; submit a new job under another key"),
    (
        NoExport,
        "`dispatch export JOB -o FILE` writes one; a job file is for `dispatch lint` and `submit`",
    ),
    (FileRefused, "see that the path is right, and that you may read or write there"),
    (JobFileRefused, "correct it; `dispatch lint FILE` judges it again and sends nothing"),
    (
        ClusterDrained,
        "choose another of `dispatch clusters list`, or wait for its operators",
    ),
    (IdempotencyConflict, "leave --key away for a new job, or submit exactly what it stands for"),
    (NotSettled, "`dispatch why JOB` says what is left; `dispatch watch JOB` waits for it"),
    (UnknownCluster, "`dispatch clusters list` shows the clusters there are"),
    (Unsupported, "`dispatch clusters list --json` shows what each cluster can do"),
    (EntryTooLarge, "make it shorter: put large scripts or data where the job can read them"),
    (
        Forbidden,
        "`dispatch whoami` says who you are taken for and what you may; DISPATCH_AUTH, "
        "DISPATCH_TOKEN or AWS_PROFILE sign you in",
    ),
    (RecordRefused, "`dispatch why JOB` says where reading stops and what still works"),
    (InvalidRequest, "correct it and try again; nothing was changed"),
    (WaitedTooLong, "the job goes on; watch it again, or ask `dispatch why JOB`"),
    (BadAnswer, "see that the address is that of a Dispatch API, stage included"),
    (ServerFailed, "look into the log of the API; questions may be asked again"),
    (BadConfiguration, "correct what it names and try again"),
    (CallRefused, "the scheduler's words say why; `dispatch why JOB` says what follows"),
    (HitOther, "look at the scheduler yourself: the id leads to somebody else's object"),
    (RevisionConflict, "somebody wrote first: try again"),
    (CallerError, "correct it and try again; nothing was changed"),
    (Unknown, "it may have taken effect: send the very same again, it has no effect twice"),
    (TryLater, "nothing was changed: try again in a moment"),
)


def next_of(error: DispatchError) -> str | None:
    """Return what a person can do about an error."""
    for kind, said in _NEXT:
        if isinstance(error, kind):
            return said.replace("JOB", error.job) if error.job else said
    return None
