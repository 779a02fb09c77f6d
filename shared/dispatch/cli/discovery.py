"""A Find as a file: what one look at a cluster showed of every job, to be judged later."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationError

from dispatch.errors import InvalidRequest, RecordRefused
from dispatch.record.codec import canonical, parse_strict, refusal
from dispatch.record.evidence import Found, Sighting
from dispatch.record.model import Instant, Model, Name, Text, instant_text

DISCOVERY_SCHEMA = "dispatch.discovery.v1"


class DiscoveryFile(Model):
    """One look at one cluster.

    Attributes:
        schema_: Which schema this is (`schema` in the file).
        cluster: The cluster's configured name.
        identity: What the cluster says it is.
        taken_at: The clock read before the first request.
        seen_at: The clock read after the last reply.
        complete: Whether the answer is whole, so that what isn't in it wasn't there.
        by_job: What was seen, by the job in its tag.
        error: Why it isn't complete.
    """

    schema_: Annotated[Literal["dispatch.discovery.v1"], Field(alias="schema")]
    cluster: Name
    identity: Text
    taken_at: Instant
    seen_at: Instant
    complete: bool
    by_job: dict[str, tuple[Sighting, ...]]
    error: Text | None = None

    def found(self) -> Found:
        """Return the look."""
        return Found(
            cluster=self.cluster,
            identity=self.identity,
            taken_at=self.taken_at,
            seen_at=self.seen_at,
            complete=self.complete,
            by_job=self.by_job,
            error=self.error,
        )


def text_of_found(found: Found) -> str:
    """Return a look as a file's text, one line of canonical JSON."""
    body = {
        "schema": DISCOVERY_SCHEMA,
        "cluster": found.cluster,
        "identity": found.identity,
        "taken_at": instant_text(found.taken_at),
        "seen_at": instant_text(found.seen_at),
        "complete": found.complete,
        "by_job": {
            job: [one.model_dump(mode="json", exclude_none=True) for one in seen]
            for job, seen in found.by_job.items()
        },
    }
    if found.error is not None:
        body["error"] = found.error[:4096]
    return canonical(body) + "\n"


def parse_found(text: str, *, name: str) -> Found:
    """Return the look that a file holds.

    Raises:
        InvalidRequest: It isn't such a file; names the field and the reason.
    """
    try:
        parse_strict(text)
        return DiscoveryFile.model_validate_json(text).found()
    except ValidationError as error:
        refused = refusal(error)
    except RecordRefused as error:
        refused = error
    raise InvalidRequest(f"{name}: {refused.reason}", field=refused.field)
