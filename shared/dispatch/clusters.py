"""The document that says which clusters there are. Pure: text in, models out.

It is refused as a whole: an unknown field, a name that stands twice or a block that its adapter
doesn't understand makes all of it invalid, so that half of a change is never in force.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError

from dispatch.access import Access
from dispatch.errors import BadConfiguration, RecordRefused, UnknownCluster
from dispatch.record.codec import parse_strict, refusal
from dispatch.record.header import Declarations, Plan, Rule
from dispatch.record.model import Model, Seconds
from dispatch.record.names import Action, Capability, Cause, UnmatchedPolicy

CLUSTERS_SCHEMA = "dispatch.clusters.v1"

ClusterName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
Shards = Literal[1, 2, 4, 8, 16]
"""Into how many parts a tick divides a cluster's open jobs."""

_TRY_AGAIN = Rule(action=Action.RESUBMIT, limit=5, backoff_s=10)
_NOT_THE_JOB_S_FAULT = (
    Cause.PREEMPTED,
    Cause.EVICTED,
    Cause.INTERRUPTED,
    Cause.NODE_LOST,
    Cause.NODE_PRESSURE,
    Cause.NODE_REJECTED,
    Cause.NODE_SHUTDOWN,
    Cause.DEVICE_FAILED,
)

DEFAULT_PLAN = Plan(
    default=Rule(action=Action.HOLD),
    causes={
        **dict.fromkeys(_NOT_THE_JOB_S_FAULT, _TRY_AGAIN),
        Cause.APP_ERROR: Rule(action=Action.FAIL),
        Cause.TIMEOUT: Rule(action=Action.FAIL),
    },
)
"""What follows where neither the job nor its cluster says otherwise: run again after what isn't
the job's fault, end with its own errors, and ask a person about all the rest."""


class Overrides(Model):
    """What a site knows better than the adapter; recorded in each job's declarations.

    Attributes:
        node_loss_window_s, call_bound_s, retention_s, save_window_s, clock_skew_s, lookup_lag_s:
            As in `Declarations`, in seconds.
        without: Capabilities that aren't to be used here.
    """

    node_loss_window_s: Seconds | None = None
    call_bound_s: Annotated[int, Field(ge=1)] | None = None
    retention_s: Seconds | None = None
    save_window_s: Seconds | None = None
    clock_skew_s: Seconds | None = None
    lookup_lag_s: Seconds | None = None
    without: tuple[Capability, ...] = ()

    def applied(self, declared: Declarations) -> Declarations:
        """Return an adapter's declarations with these in their place.

        Raises:
            BadConfiguration: They don't fit together.
        """
        fields = declared.model_dump()
        fields.update(self.model_dump(exclude={"without"}, exclude_none=True))
        fields["capabilities"] = tuple(
            one for one in declared.capabilities if one not in self.without
        )
        try:
            return Declarations.model_validate(fields)
        except ValidationError as error:
            raise BadConfiguration(
                f"cluster {declared.cluster}: declarations: {refusal(error).reason}"
            ) from None


Why = Annotated[str, Field(min_length=1, max_length=256)]
"""Why a brake is on, in words that everybody whom it stops is shown."""


class Brakes(Model):
    """What is kept from happening on a cluster, each with its reason; None is off.

    Attributes:
        paused: Nothing begins to run: no Start, Release or Requeue. Stops and holds go on.
        drained: No new job is taken; those that are there go on, and may be submitted again.
        observed: The supervisor says what it would do, and does none of it: no call that changes
            anything, and no fact.
    """

    paused: Why | None = None
    drained: Why | None = None
    observed: Why | None = None

    @property
    def on(self) -> bool:
        """Whether a brake is on."""
        return any(one is not None for one in (self.paused, self.drained, self.observed))

    @property
    def told(self) -> dict[str, str]:
        """The brakes that are on, with their reasons."""
        return dict(self.model_dump(exclude_none=True))


NO_BRAKES = Brakes()


class Cluster(Model):
    """One cluster.

    Attributes:
        name: What Dispatch calls it; it stands in every record, so it never changes.
        adapter: Which adapter speaks to it.
        settings: The adapter's own block; the adapter's model refuses what it doesn't know.
        declarations: What the site knows better.
        plan: For jobs that bring none.
        start_retries: For jobs that don't say.
        unmatched: For jobs that don't say.
        shards: Into how many parts a tick divides its open jobs.
        brakes: What is kept from happening on it.
        lease_s: Seconds for which a tick's worker has a shard for itself, which saves work that is
            done twice; None for no such leases. Safety never rests on them (protocol §7).
    """

    name: ClusterName
    adapter: Literal["local", "slurm", "eks"]
    settings: dict[str, Any] = Field(default_factory=dict)
    declarations: Overrides = Overrides()
    plan: Plan = DEFAULT_PLAN
    start_retries: Annotated[int, Field(ge=0, le=100)] = 2
    unmatched: UnmatchedPolicy = UnmatchedPolicy.RETRY
    shards: Shards = 1
    brakes: Brakes = NO_BRAKES
    lease_s: Annotated[int, Field(ge=10, le=900)] | None = None

    @field_validator("settings")
    @classmethod
    def _identity_stands_once(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name in ("name", "adapter"):
            if name in value:
                raise PydanticCustomError(
                    "settings_identity", "{name} stands beside settings", {"name": name}
                )
        return value


class Clusters(Model):
    """The whole document.

    Attributes:
        schema_: `dispatch.clusters.v1` (`schema` in the document).
        clusters: The clusters there are.
        access: Who may do what; without it, whoever the authorizer lets in may do everything.
    """

    schema_: Annotated[Literal["dispatch.clusters.v1"], Field(alias="schema")]
    clusters: Annotated[tuple[Cluster, ...], Field(max_length=100)]
    access: Access | None = None

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        names = [one.name for one in self.clusters]
        for name in names:
            if names.count(name) > 1:
                raise PydanticCustomError(
                    "cluster_twice", "cluster {name} stands twice", {"name": name}
                )
        return self

    def named(self, name: str) -> Cluster:
        """Return one cluster.

        Raises:
            UnknownCluster: There is none of that name; the message names those that are.
        """
        for one in self.clusters:
            if one.name == name:
                return one
        known = ", ".join(one.name for one in self.clusters) or "none"
        raise UnknownCluster(f"no cluster {name!r} is configured here (there are: {known})")


def parse_clusters(text: str) -> Clusters:
    """Return the clusters of a document.

    Raises:
        BadConfiguration: names the field and the reason; nothing of the document holds.
    """
    try:
        parse_strict(text)
        return Clusters.model_validate_json(text)
    except ValidationError as error:
        refused = refusal(error)
    except RecordRefused as error:
        refused = error
    where = f"field {refused.field!r}: " if refused.field else ""
    raise BadConfiguration(f"clusters: {where}{refused.reason}") from None
