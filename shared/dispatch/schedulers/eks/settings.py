"""How one Kubernetes cluster is configured: strict, so that a typing mistake is refused."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from dispatch.record.header import Declarations
from dispatch.record.model import Model, Name, Seconds
from dispatch.record.names import Capability

DnsLabel = Annotated[str, Field(max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
DnsName = Annotated[str, Field(max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
Wait = Annotated[int, Field(ge=1, le=600)]


class EksAccess(Model):
    """An EKS cluster, reached with a token that STS vouches for.

    Attributes:
        cluster_name: The cluster's name in EKS.
        region: Its region.
    """

    kind: Literal["eks"] = "eks"
    cluster_name: Name
    region: Name


class KubeconfigAccess(Model):
    """Any cluster that a kubeconfig leads to.

    Attributes:
        path: The file.
        context: The context in it; none means its current one.
    """

    kind: Literal["kubeconfig"] = "kubeconfig"
    path: Name
    context: Name | None = None


class InClusterAccess(Model):
    """The cluster that this process runs in, with its pod's service account."""

    kind: Literal["in_cluster"] = "in_cluster"


Access = Annotated[EksAccess | KubeconfigAccess | InClusterAccess, Field(discriminator="kind")]


class Team(Model):
    """Where the jobs of some principals run, whatever they ask for.

    Attributes:
        owners: Patterns of principals, `*` for any run of characters.
        namespace: Where their jobs live.
        service_account: As whom their pods speak to the cluster; none means as nobody.
    """

    owners: Annotated[tuple[Name, ...], Field(min_length=1)]
    namespace: DnsLabel
    service_account: DnsName | None = None

    def is_of(self, owner: str) -> bool:
        """Return whether a principal belongs to it."""
        return any(fnmatchcase(owner, pattern) for pattern in self.owners)


class Toleration(Model):
    """A taint that every pod of Dispatch bears with."""

    key: Name
    value: Annotated[str, Field(max_length=63)] | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None


class TrainerSettings(Model):
    """Kubeflow's Trainer on a cluster: what its release lets a TrainJob say of its pods.

    Attributes:
        release: 2.0, 2.1, or 2.2 for that one and later ones.
        evidence: Who puts the finalizer on the pods that keeps them until their end is in the
            record: each `trainjob` (from 2.2 on), the `runtime`s, whose pod templates must bear
            it, or nobody (`none`): then a pod that goes between two looks is lost, and
            holding what runs ends it.
    """

    release: Literal["2.0", "2.1", "2.2"]
    evidence: Literal["trainjob", "runtime", "none"]

    @model_validator(mode="after")
    def _a_release_can_do_it(self) -> Self:
        if self.evidence == "trainjob" and self.release != "2.2":
            raise PydanticCustomError(
                "trainer_evidence",
                "Trainer {release} drops a TrainJob's finalizers: say runtime, or none",
                {"release": self.release, "field": "evidence"},
            )
        return self


class EksSettings(Model):
    """One cluster.

    Attributes:
        name: Its configured name.
        access: How it is reached.
        teams: Where whose jobs run; the first that matches counts, nobody else may start any.
        kueue_queue: The LocalQueue of jobs that name none; set, Kueue admits every job here, its
            suspension isn't ours to lift, and no gate, hold or requeue is declared.
        trainer: Kubeflow's Trainer, where jobs may be TrainJobs; none means that none may.
        node_selector: Labels that every pod's node must have.
        tolerations: Taints that every pod bears with.
        image_pull_secrets: Secrets for pulling images.
        grace_s: Seconds between SIGTERM and SIGKILL.
        page_size: Objects in one page of a list.
        connect_timeout_s: For reaching the server.
        request_timeout_s: For one call, connecting included.
        requeue_wait_s: How long a requeue waits for its suspension to be seen.
        landing_bound_s: How long a server may go on with a call after its caller gave up.
        call_bound_s: From recording a call to the last moment at which it can take effect.
        node_loss_window_s: How long a process may outlive the word that its node is lost.
        retention_s: How long an ended object stays after its end is in the record.
        save_window_s: How much of its newest state a restored etcd may have forgotten.
        clock_skew_s: How far two clocks of those that act may differ.
    """

    name: Name
    access: Access
    teams: Annotated[tuple[Team, ...], Field(min_length=1)]
    kueue_queue: DnsName | None = None
    trainer: TrainerSettings | None = None
    node_selector: dict[Name, Annotated[str, Field(max_length=63)]] = Field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    image_pull_secrets: tuple[DnsName, ...] = ()
    grace_s: Annotated[int, Field(ge=0, le=86_400)] = 30
    page_size: Annotated[int, Field(ge=1, le=5000)] = 500
    connect_timeout_s: Wait = 3
    request_timeout_s: Wait = 15
    requeue_wait_s: Wait = 10
    landing_bound_s: Seconds = 75
    call_bound_s: Annotated[int, Field(ge=1, le=86_400)] = 180
    node_loss_window_s: Seconds = 600
    retention_s: Seconds = 7 * 86_400
    save_window_s: Seconds = 0
    clock_skew_s: Seconds = 5

    @model_validator(mode="after")
    def _times_fit(self) -> Self:
        if self.connect_timeout_s > self.request_timeout_s:
            raise PydanticCustomError("timeout", "connect_timeout_s can't exceed request_timeout_s")
        self.declarations()
        return self

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces that hold jobs, each once."""
        return tuple(dict.fromkeys(team.namespace for team in self.teams))

    def team_of(self, owner: str) -> Team | None:
        """Return the first team that a principal belongs to."""
        return next((team for team in self.teams if team.is_of(owner)), None)

    def declarations(self) -> Declarations:
        """Return the cluster's declarations.

        A requeue is three requests with a wait between them, and it must be over before its
        bound; so its request time-out is that of the whole. Where nobody keeps the pods,
        what is suspended doesn't tell that a node was lost meanwhile, so what runs isn't
        suspended: a hold ends it, and a release submits it anew (ADR 19).
        """
        capabilities = [Capability.EXIT_CODES, Capability.OUTPUT, Capability.UNIQUE_NAMES]
        if self.kueue_queue is None:
            capabilities += [Capability.GATED_START, Capability.HOLD_PENDING]
            if self.trainer is None or self.trainer.evidence != "none":
                capabilities.append(Capability.HOLD_RUNNING)
            capabilities.append(Capability.REQUEUE_LIVE)
        return Declarations(
            adapter="eks",
            cluster=self.name,
            capabilities=tuple(capabilities),
            node_loss_window_s=self.node_loss_window_s,
            call_bound_s=self.call_bound_s,
            landing_bound_s=self.landing_bound_s,
            request_timeout_s=3 * self.request_timeout_s + self.requeue_wait_s,
            retention_s=self.retention_s,
            save_window_s=self.save_window_s,
            clock_skew_s=self.clock_skew_s,
        )
