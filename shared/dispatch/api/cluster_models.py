"""The wire models about clusters as a whole, and about callers."""

from __future__ import annotations

from pydantic import Field

from dispatch.access import Scope
from dispatch.api.models import Answer
from dispatch.record.header import Declarations, Plan
from dispatch.record.model import Instant, Model, Text
from dispatch.record.names import IntentKind, UnmatchedPolicy


class AcceptLossRequest(Model):
    """The body of `POST /clusters/{name}/accept-loss`.

    Attributes:
        reason: Why, in the person's words; it is logged.
    """

    reason: Text | None = None


class TroubleAnswer(Answer):
    """Something that is wrong with a cluster: `unreachable` or `mass_loss`, and since when."""

    kind: str
    since: Instant
    detail: str


class HealthAnswer(Answer):
    """The supervisor's word about a cluster; for display only."""

    supervisor: str
    last_tick: Instant
    last_complete_find: Instant | None = None
    last_error: str | None = None
    identity: str | None = None
    escalations: dict[str, str] = Field(default_factory=dict)
    loss_accepted_at: Instant | None = None
    failing_since: Instant | None = None
    retry_at: Instant | None = None
    troubles: tuple[TroubleAnswer, ...] = ()
    withheld: tuple[str, ...] = ()


class ClusterAnswer(Answer):
    """One configured cluster.

    Attributes:
        name: Its configured name.
        adapter: Which adapter speaks to it.
        declarations: What would be recorded in a job created now.
        plan: The plan of a job that brings none.
        start_retries: Of a job that says nothing.
        unmatched: Of a job that says nothing.
        brakes: What is kept from happening on it (paused, drained, observed), with the reasons.
        health: How its supervision goes; None before the first look.
    """

    name: str
    adapter: str
    declarations: Declarations
    plan: Plan
    start_retries: int
    unmatched: UnmatchedPolicy
    brakes: dict[str, str] = Field(default_factory=dict)
    health: HealthAnswer | None = None


class ClustersAnswer(Answer):
    """The answer of `GET /clusters`.

    Attributes:
        clusters: Those of the document that is in force.
        refused: Why the document, as it stands now, isn't the one in force.
    """

    clusters: tuple[ClusterAnswer, ...]
    refused: str | None = None


class LossAcceptedAnswer(Answer):
    """A person's word that a loss is real.

    Attributes:
        cluster: Which cluster's.
        by: Who gave it.
        at: When.
        until: Until when looks that lose much, or show another identity, are believed.
    """

    cluster: str
    by: str
    at: Instant
    until: Instant


class SubmitRightAnswer(Answer):
    """One way in which jobs may be submitted, in patterns; all four must fit."""

    clusters: tuple[str, ...]
    queues: tuple[str, ...]
    accounts: tuple[str, ...]
    run_as: tuple[str, ...]


class RightsAnswer(Answer):
    """What a caller may do.

    Attributes:
        ruled: Whether there are rules; without them everybody may do everything.
        admin: Whether the caller may do everything, what concerns whole clusters included.
        teams: The teams that the caller belongs to.
        submit: In which ways jobs may be submitted.
        intents: Whose jobs may be sent which intent: own, team or all.
        read: Whose jobs may be read; None for nobody's.
        tombstone: Whose settled jobs may be tombstoned; None for nobody's.
    """

    ruled: bool
    admin: bool
    teams: tuple[str, ...] = ()
    submit: tuple[SubmitRightAnswer, ...] = ()
    intents: dict[IntentKind, Scope] = Field(default_factory=dict)
    read: Scope | None = None
    tombstone: Scope | None = None


class WhoamiAnswer(Answer):
    """Who the authorizer says the caller is: `iam:{arn}`, `oidc:{iss}#{sub}` or `local:{user}`.

    Attributes:
        actor: Who.
        may: What they may do.
    """

    actor: str
    may: RightsAnswer | None = None
