"""What is configured about one Slurm cluster; pure.

A caller never says who a job runs as, who is charged or at which quality of service: these rules
do, and a spec may only choose among what they allow.
"""

from __future__ import annotations

import base64
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from dispatch.errors import SchedulerUnavailable
from dispatch.record.header import SecretReference
from dispatch.record.model import Model, Name, Seconds, Text

ClusterName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
User = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_.-]{0,63}$")]
Api = Literal["v0.0.42", "v0.0.45"]

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class SiteToken(Model):
    """A token that the site hands out; when it stops working is the site's to say."""

    kind: Literal["token"] = "token"
    secret: SecretReference


class SigningKey(Model):
    """The cluster's HS256 key: a token is minted for each call, and its end bounds the call.

    Attributes:
        secret: Where the key is.
        encoding: How it is written there; the key itself is bytes.
        lifetime_s: How long a token of a call lives; slurmctld lets no call land later.
    """

    kind: Literal["hs256"] = "hs256"
    secret: SecretReference
    encoding: Literal["base64", "text"] = "base64"
    lifetime_s: Annotated[int, Field(ge=2, le=600)] = 30

    def key(self, written: str) -> bytes:
        """Return the key's bytes.

        Raises:
            SchedulerUnavailable: It isn't written as `encoding` says.
        """
        if self.encoding == "text":
            return written.strip().encode()
        try:
            return base64.b64decode("".join(written.split()), validate=True)
        except ValueError:
            raise SchedulerUnavailable(
                f"the signing key at {self.secret} isn't base64: say encoding 'text' if it is plain"
            ) from None


class Queue(Model):
    """What a spec's `queue` may stand for.

    Attributes:
        partition: Slurm's partition.
        accounts: Who may be charged, the first where the spec names none; empty means that
            Slurm decides and no spec may name one.
        qos: The qualities of service that may be asked for, as for accounts.
        max_nodes: More nodes are refused here.
        max_time_limit_s: A longer time limit is refused here.
    """

    partition: Name
    accounts: tuple[Name, ...] = ()
    qos: tuple[Name, ...] = ()
    max_nodes: Annotated[int, Field(ge=1)] | None = None
    max_time_limit_s: Annotated[int, Field(ge=60)] | None = None


class Bounds(Model):
    """The times that are declared; a site that differs from Slurm's defaults says so here.

    Attributes:
        request_timeout_s: Longer than the 20 s that slurmrestd takes to notice a dead slurmctld.
        landing_bound_s: From sending a call to its effect; with a signing key it follows from
            the token's lifetime where none is given.
        call_bound_s: From recording a call to its last effect; follows from the two.
        retention_s: MinJobAge.
        save_window_s: How long slurmctld may keep its newest state in memory alone.
        node_loss_window_s: How long a process may live on a node that Slurm has given up.
        clock_skew_s: Between this clock and slurmctld's.
        lookup_lag_s: How late slurmdbd may learn of an end.
    """

    request_timeout_s: Annotated[int, Field(ge=1, le=300)] = 25
    landing_bound_s: Seconds | None = None
    call_bound_s: Annotated[int, Field(ge=1)] | None = None
    retention_s: Seconds = 300
    save_window_s: Seconds = 15
    node_loss_window_s: Seconds = 900
    clock_skew_s: Seconds = 5
    lookup_lag_s: Seconds = 120


class SlurmCluster(Model):
    """One Slurm cluster.

    Attributes:
        name: What Dispatch calls it; it stands in every tag, so it never changes.
        url: Where slurmrestd answers. Plain http is for this machine alone.
        ca_file: The certificates to trust, where they aren't the system's.
        plain_http: Allow http to another machine, over a network that is safe by other means.
        api: The version to speak; none asks the server and takes the newest that both know.
        cluster_name: Slurm's own ClusterName; another one behind the URL is an alarm.
        user: The Unix user that asks, and that jobs run as unless `run_as` says otherwise.
        run_as: Unix users by principal; a principal that isn't here may not start anything.
            Empty: all jobs run as `user`. Needs a signing key.
        sees_all_jobs: Whether `user` is shown the jobs of all these users (PrivateData).
        sign_in: How tokens are had.
        queues: What a spec's queue may be.
        default_queue: Where a spec without a queue goes.
        account_of: The account of a principal; it must be among the queue's.
        accounting: What slurmdbd keeps: `comments` (AccountingStoreFlags has job_comment or
            job_extra), `names` alone, or nothing (`none`).
        singleton: Whether attempts of one job also carry Slurm's own fence: of their name only one
            runs at a time.
        tag_in_extra: Whether the tag stands in `extra` too. Off where SchedulerParameters has
            extra_constraints, which gives that field a meaning.
        in_place: Declare in-place requeue and hold of running jobs (needs `api` v0.0.45).
        workdir: Where jobs start that don't say.
        environment: What every job finds in its environment.
        pace_s: The least time between two submissions of one process.
        bounds: The declared times.
    """

    adapter: Literal["slurm"] = "slurm"
    name: ClusterName
    url: Annotated[str, Field(max_length=2048)]
    ca_file: Text | None = None
    plain_http: bool = False
    api: Api | None = None
    cluster_name: Name | None = None
    user: User
    run_as: dict[Name, User] = Field(default_factory=dict)
    sees_all_jobs: bool = True
    sign_in: Annotated[SiteToken | SigningKey, Field(discriminator="kind")]
    queues: Annotated[dict[Name, Queue], Field(min_length=1)]
    default_queue: Name
    account_of: dict[Name, Name] = Field(default_factory=dict)
    accounting: Literal["none", "names", "comments"] = "comments"
    singleton: bool = True
    tag_in_extra: bool = True
    in_place: bool = False
    workdir: Annotated[str, Field(pattern=r"^/", max_length=1024)] = "/tmp"  # noqa: S108
    environment: dict[str, str] = Field(
        default_factory=lambda: {"PATH": "/usr/local/bin:/usr/bin:/bin"}
    )
    pace_s: Annotated[float, Field(ge=0, le=10)] = 0.02
    bounds: Bounds = Bounds()

    @model_validator(mode="after")
    def _it_fits_together(self) -> Self:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
            raise PydanticCustomError("url", "url is http(s)://host[:port][/prefix]")
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK and not self.plain_http:
            raise PydanticCustomError(
                "url_plain", "http sends tokens readable: use https, or say plain_http"
            )
        if self.default_queue not in self.queues:
            raise PydanticCustomError("default_queue", "default_queue isn't one of queues")
        if self.in_place and self.api != "v0.0.45":
            raise PydanticCustomError("in_place", "in_place needs api v0.0.45: no other requeues")
        if self.run_as and self.sign_in.kind != "hs256":
            raise PydanticCustomError("run_as", "run_as needs the signing key")
        if not self.environment:
            raise PydanticCustomError("environment", "Slurm refuses a job without environment")
        return self

    @property
    def users(self) -> frozenset[str]:
        """Every Unix user whose jobs can be ours."""
        return frozenset({self.user, *self.run_as.values()})

    @property
    def landing_bound_s(self) -> int:
        """How long after sending a call can still take effect, seconds.

        With a signing key slurmctld enforces it: it refuses a token whose `exp` has passed.
        """
        if self.bounds.landing_bound_s is not None:
            return self.bounds.landing_bound_s
        if self.sign_in.kind == "hs256":
            return self.sign_in.lifetime_s + self.bounds.clock_skew_s
        return 120

    @property
    def call_bound_s(self) -> int:
        """How long after its record a call can still take effect, seconds."""
        if self.bounds.call_bound_s is not None:
            return self.bounds.call_bound_s
        return self.bounds.request_timeout_s + self.landing_bound_s + 15
