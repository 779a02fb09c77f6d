"""What the detail of each published event holds, one model a version. Pure.

`infra/events/` has the JSON schema of each. Fields are added within a version, so whoever reads
one ignores what it doesn't know.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from dispatch.record.model import Instant
from dispatch.record.names import Cause, Outcome


class Detail(BaseModel):
    """What every detail has.

    Attributes:
        version: Of the detail; the detail type ends with it.
        id: The same whenever this is published again.
        at: When it came to be, UTC.
    """

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    version: Literal[1]
    id: Annotated[str, Field(min_length=1)]
    at: Instant


class JobDetail(Detail):
    """What every detail about a job has.

    Attributes:
        job_id: Which job.
        name: Its name for people.
        labels: Its spec's.
        cluster: Where.
        created_by: Who submitted it.
        revision: The entry that decided, counted from 1.
    """

    job_id: str
    name: str
    labels: dict[str, str]
    cluster: str
    created_by: str
    revision: Annotated[int, Field(ge=0)]


class OutcomeDetail(JobDetail):
    """A job got its outcome, which never changes; something of it may still be running."""

    outcome: Outcome
    cause: Cause | None = None
    by: str
    detail: str | None = None


class RecoveryHoldDetail(JobDetail):
    """The plan asks a person what to do."""

    cause: Cause
    trigger: str
    detail: str | None = None


class EscalationDetail(Detail):
    """A person is told something about a job.

    Of a record that can't be folded only the fields without a default are known.
    """

    job_id: str
    name: str | None = None
    labels: dict[str, str] | None = None
    cluster: str | None = None
    created_by: str | None = None
    revision: Annotated[int, Field(ge=0)]
    key: str
    code: str
    detail: str | None = None


class SettledDetail(JobDetail):
    """Nothing of a job is left anywhere."""

    outcome: Outcome


class ClusterTroubleDetail(Detail):
    """Something is wrong with a cluster, or that is over.

    Attributes:
        cluster: Which.
        kind: What is wrong: it doesn't answer, or what it shows isn't believed.
        state: Whether it began or is over.
        since: When it began, UTC.
        detail: For people, when it begins.
    """

    cluster: str
    kind: Literal["unreachable", "mass_loss"]
    state: Literal["begun", "over"]
    since: Instant
    detail: str | None = None


DETAILS: Mapping[str, type[Detail]] = MappingProxyType(
    {
        "dispatch.outcome.v1": OutcomeDetail,
        "dispatch.recovery_hold.v1": RecoveryHoldDetail,
        "dispatch.escalation.v1": EscalationDetail,
        "dispatch.settled.v1": SettledDetail,
        "dispatch.cluster_trouble.v1": ClusterTroubleDetail,
    }
)
"""The model of every detail type."""


def schema_text(detail_type: str) -> str:
    """Return the JSON schema of a detail, as it is kept in `infra/events/`."""
    schema = DETAILS[detail_type].model_json_schema()
    told = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    told["title"] = detail_type
    return json.dumps(told, indent=1, sort_keys=True) + "\n"
