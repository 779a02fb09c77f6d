"""Every route of the API, as a table: the handler and the OpenAPI document are held to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel

from dispatch.api.cluster_models import (
    AcceptLossRequest,
    ClustersAnswer,
    LossAcceptedAnswer,
    WhoamiAnswer,
)
from dispatch.api.models import (
    EXPORT_TYPE,
    IDEMPOTENCY_HEADER,
    JSON_TYPE,
    HistoryAnswer,
    IntentRequest,
    LintAnswer,
    ListingAnswer,
    LogsAnswer,
    ReceiptAnswer,
    StatusAnswer,
    SubmitRequest,
    SubmittedAnswer,
)
from dispatch.api.story_models import StoryAnswer, TimelineAnswer

HTML_TYPE = "text/html; charset=utf-8"

_BOOLEAN = {"type": "boolean"}
_TEXT = {"type": "string"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter.

    Attributes:
        about: A sentence for people.
        schema: Its JSON schema.
    """

    about: str
    schema: Mapping[str, object] = field(default_factory=lambda: _TEXT)


@dataclass(frozen=True, slots=True)
class Route:
    """One route.

    Attributes:
        name: The operation, for OpenAPI and the log.
        method: GET, POST or DELETE.
        path: With `{job_id}` where a job stands.
        about: A sentence for people.
        answers: The model of each success status; None for an answer without JSON.
        body: The model of the request's body.
        query: The query parameters.
        headers: Request headers that must be there.
        content: The content type of a success.
        problems: The statuses of problems beside those that any route may answer.
        public: Whether it is answered to nobody in particular.
        console: Whether it is a file of the console, which a browser can ask for without a token:
            public where callers send tokens, signed for like the rest where they sign.
    """

    name: str
    method: str
    path: str
    about: str
    answers: Mapping[int, type[BaseModel] | None]
    body: type[BaseModel] | None = None
    query: Mapping[str, Parameter] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: str = JSON_TYPE
    problems: tuple[int, ...] = ()
    public: bool = False
    console: bool = False


def _number(about: str, least: int, most: int, default: int) -> Parameter:
    return Parameter(
        about, {"type": "integer", "minimum": least, "maximum": most, "default": default}
    )


_OF_A_JOB = (404, 410)
_OFFSET = _number("Minutes that the reader's clock is ahead of UTC.", -1439, 1439, 0)

ROUTES: tuple[Route, ...] = (
    Route(
        "submit",
        "POST",
        "/jobs",
        "Create a job; the same key and spec give the same job back, for ever.",
        {201: SubmittedAnswer, 200: SubmittedAnswer},
        body=SubmitRequest,
        headers={IDEMPOTENCY_HEADER: "1 to 200 printable ASCII characters without spaces."},
        problems=(404, 409, 410, 413, 415, 422),
    ),
    Route(
        "lint",
        "POST",
        "/lint",
        "Say what a cluster would refuse of a submission; nothing is submitted, no cluster asked.",
        {200: LintAnswer},
        body=SubmitRequest,
        problems=(413, 415, 422),
    ),
    Route(
        "list",
        "GET",
        "/jobs",
        "List jobs in the order of their creation, from an index that may lag.",
        {200: ListingAnswer},
        query={
            "settled": Parameter("Only jobs that are settled, or aren't.", _BOOLEAN),
            "cluster": Parameter("Only jobs of this cluster."),
            "limit": _number(
                "At most how many lines; 100 where each record is read.",
                1,
                1000,
                100,
            ),
            "cursor": Parameter("The `cursor` of the page before, in the same order."),
            "order": Parameter(
                "By creation, oldest or newest first.",
                {"type": "string", "enum": ["oldest", "newest"], "default": "oldest"},
            ),
            "summary": Parameter("Read and fold each record for its name and state.", _BOOLEAN),
        },
    ),
    Route(
        "status",
        "GET",
        "/jobs/{job_id}",
        "Fold the record and say what the job is doing, and how old its evidence is.",
        {200: StatusAnswer},
        problems=(*_OF_A_JOB, 409),
    ),
    Route(
        "history",
        "GET",
        "/jobs/{job_id}/history",
        "Show the entries of the record, those too that this build can't decode.",
        {200: HistoryAnswer},
        query={
            "after": _number("The number of the last entry that isn't wanted.", 0, 10**9, 0),
            "limit": _number("At most how many entries.", 1, 1000, 1000),
        },
        problems=_OF_A_JOB,
    ),
    Route(
        "why",
        "GET",
        "/jobs/{job_id}/why",
        "Tell why a job stands as it does and what can be done, also where it doesn't fold.",
        {200: StoryAnswer},
        query={"utc_offset_min": _OFFSET},
        problems=_OF_A_JOB,
    ),
    Route(
        "timeline",
        "GET",
        "/jobs/{job_id}/timeline",
        "Show a record along time, as lanes with spans and marks, and its entries in words.",
        {200: TimelineAnswer},
        query={"utc_offset_min": _OFFSET},
        problems=_OF_A_JOB,
    ),
    Route(
        "export",
        "GET",
        "/jobs/{job_id}/export",
        "Give the record as JSON lines that fold to the same job on any machine.",
        {200: None},
        query={
            "after": _number(
                "The number of the last entry that isn't wanted; the header comes with 0.",
                0,
                10**9,
                0,
            )
        },
        content=EXPORT_TYPE,
        problems=_OF_A_JOB,
    ),
    Route(
        "intend",
        "POST",
        "/jobs/{job_id}/intents",
        "Record what a person wants; the receipt says what it did.",
        {200: ReceiptAnswer},
        body=IntentRequest,
        problems=(*_OF_A_JOB, 413, 415),
    ),
    Route(
        "tombstone",
        "DELETE",
        "/jobs/{job_id}",
        "Mark a settled record for removal; its idempotency key is kept for ever.",
        {204: None},
        problems=(404, 409),
    ),
    Route(
        "logs",
        "GET",
        "/jobs/{job_id}/logs",
        "Read a piece of a job's output, where its cluster can.",
        {200: LogsAnswer},
        query={
            "offset": _number("Where the piece starts, bytes.", 0, 2**53, 0),
            "limit": _number("At most how many bytes.", 1, 262_144, 65_536),
            "ref": Parameter("Which object's; the latest run's where it isn't given."),
        },
        problems=(*_OF_A_JOB, 409, 422),
    ),
    Route(
        "clusters",
        "GET",
        "/clusters",
        "Name the clusters, what they can do, and how their supervision goes.",
        {200: ClustersAnswer},
    ),
    Route(
        "accept_loss",
        "POST",
        "/clusters/{name}/accept-loss",
        "Say that what a cluster lost at once, or its new identity, is real; admins only.",
        {200: LossAcceptedAnswer},
        body=AcceptLossRequest,
        problems=(413, 415, 422),
    ),
    Route(
        "whoami",
        "GET",
        "/whoami",
        "Say who the authorizer takes you for, and what you may do.",
        {200: WhoamiAnswer},
    ),
    Route(
        "openapi",
        "GET",
        "/openapi.json",
        "This document.",
        {200: None},
        public=True,
    ),
    Route(
        "page",
        "GET",
        "/",
        "This document as a page.",
        {200: None},
        content=HTML_TYPE,
        public=True,
    ),
    Route(
        "console",
        "GET",
        "/ui",
        "The console for people, read only; it asks this API for what it shows.",
        {200: None, 304: None},
        content=HTML_TYPE,
        console=True,
    ),
    Route(
        "console_asset",
        "GET",
        "/ui/{asset}",
        "A file of the console.",
        {200: None, 304: None},
        content="*/*",
        problems=(404,),
        console=True,
    ),
)


def allowed(path: str) -> list[str]:
    """Return the methods that a path answers; none where no route has it."""
    asked = path.split("/")
    return [
        route.method
        for route in ROUTES
        for parts in [route.path.split("/")]
        if len(parts) == len(asked)
        and all(a if p[:1] == "{" else p == a for p, a in zip(parts, asked, strict=True))
    ]
