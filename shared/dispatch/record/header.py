"""The header, `dispatch.header.v1`: written once, when the job is created (protocol §2).

The plan and the declarations are recorded with it, so that every actor decides by them whatever
its own configuration says.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from dispatch.record.model import Count, Digest, Instant, JobId, Model, Name, Ordinal, Seconds, Text
from dispatch.record.names import Action, Capability, Cause, UnmatchedPolicy

HEADER_SCHEMA = "dispatch.header.v1"

_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_NO_NUL = r"^[^\x00]*$"
EnvironmentValue = Annotated[str, Field(max_length=32_768, pattern=_NO_NUL)]
SecretReference = Annotated[
    str, Field(max_length=2048, pattern=r"^(secretsmanager|ssm|kubernetes|file):\S+$")
]
Label = Annotated[str, Field(max_length=256)]
Argument = Annotated[str, Field(max_length=131_072, pattern=_NO_NUL)]


class SlurmSpec(Model):
    """What only Slurm has."""

    qos: Name | None = None
    constraint: Name | None = None
    reservation: Name | None = None
    exclude: tuple[Name, ...] = ()
    gres: Name | None = None
    nice: Annotated[int, Field(ge=0, le=2_147_483_645)] | None = None


class TrainingRuntime(Model):
    """Which runtime of Kubeflow's Trainer a TrainJob is made from.

    Attributes:
        name: The runtime's name.
        kind: Whether it is of the whole cluster, or of the job's namespace.
        jobs: The names of *all* its replicated jobs: what isn't named keeps no evidence.
    """

    name: Annotated[str, Field(max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
    kind: Literal["ClusterTrainingRuntime", "TrainingRuntime"] = "ClusterTrainingRuntime"
    jobs: Annotated[
        tuple[Annotated[str, Field(max_length=63, pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$")], ...],
        Field(min_length=1, max_length=16),
    ] = ("node",)


class Trainer(Model):
    """What a TrainJob says differently from its runtime, beside what the whole spec says.

    Attributes:
        processes_per_node: Processes, or MPI slots, on each node; none means the runtime's own.
    """

    processes_per_node: Annotated[int, Field(ge=1, le=1024)] | None = None


class EksSpec(Model):
    """What only Kubernetes has.

    Attributes:
        kueue_queue: The LocalQueue that admits it.
        priority_class: The class of its pods.
        node_selector: Labels that its nodes must have.
        gpu_resource: How a GPU is called there.
        shared_memory_mb: The size of /dev/shm, MB.
        kind: `trainjob` makes it a TrainJob of Kubeflow's; none means a Job.
        runtime: What a TrainJob is made from; it must have one, and nothing else may.
        trainer: What a TrainJob says differently from its runtime.
    """

    kueue_queue: Name | None = None
    priority_class: Name | None = None
    node_selector: dict[Name, Label] = Field(default_factory=dict)
    gpu_resource: Name = "nvidia.com/gpu"
    shared_memory_mb: Annotated[int, Field(ge=1)] | None = None
    kind: Literal["trainjob"] | None = None
    runtime: TrainingRuntime | None = None
    trainer: Trainer | None = None

    @model_validator(mode="after")
    def _a_trainjob_has_a_runtime(self) -> Self:
        if (self.kind is None) != (self.runtime is None):
            raise PydanticCustomError(
                "trainjob_runtime",
                "kind trainjob and a runtime go together",
                {"field": "runtime" if self.runtime is None else "kind"},
            )
        if self.trainer is not None and self.kind is None:
            raise PydanticCustomError(
                "trainjob_trainer", "only kind trainjob has a trainer", {"field": "trainer"}
            )
        return self


class LocalSpec(Model):
    """What only the one-machine adapter has."""

    grace_s: Annotated[int, Field(ge=0, le=600)] = 5


class Spec(Model):
    """What to run, in terms that all schedulers share, plus a strict block for each adapter.

    Attributes:
        name: A short name for people.
        command: The argument vector of each task; or
        script: a whole script with its `#!` line. Exactly one of the two.
        image: The container image, where the cluster runs containers.
        env: Plain environment variables; names that start with `DISPATCH_` are refused.
        secrets: Environment variables by reference; the value never enters the record.
        nodes: How many nodes.
        tasks_per_node: Processes on each node.
        cpus_per_node: CPUs on each node.
        memory_mb_per_node: Memory on each node, MB.
        gpus_per_node: GPUs on each node.
        time_limit_s: Seconds after which the scheduler ends it; none means the queue's own.
        queue: The partition or queue.
        account: Who is charged.
        workdir: The working directory.
        output: Where the output goes, where the scheduler writes files.
        labels: For people, for selection, and for access rules by team; the core never reads them.
        priority: Larger is sooner, where the cluster allows it.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
    command: Annotated[tuple[Argument, ...], Field(min_length=1, max_length=1024)] | None = None
    script: Annotated[str, Field(min_length=3, max_length=131_072, pattern=_NO_NUL)] | None = None
    image: Name | None = None
    env: dict[str, EnvironmentValue] = Field(default_factory=dict)
    secrets: dict[str, SecretReference] = Field(default_factory=dict)
    nodes: Annotated[int, Field(ge=1, le=10_000)] = 1
    tasks_per_node: Annotated[int, Field(ge=1, le=1024)] = 1
    cpus_per_node: Annotated[int, Field(ge=1, le=4096)] = 1
    memory_mb_per_node: Annotated[int, Field(ge=1, le=64 * 1024 * 1024)] | None = None
    gpus_per_node: Annotated[int, Field(ge=0, le=64)] = 0
    time_limit_s: Annotated[int, Field(ge=1, le=366 * 86_400)] | None = None
    queue: Name | None = None
    account: Name | None = None
    workdir: Text | None = None
    output: Text | None = None
    labels: Annotated[dict[Name, Label], Field(max_length=64)] = Field(default_factory=dict)
    priority: Annotated[int, Field(ge=-1_000_000, le=1_000_000)] | None = None
    slurm: SlurmSpec | None = None
    eks: EksSpec | None = None
    local: LocalSpec | None = None

    @field_validator("env", "secrets")
    @classmethod
    def _names_are_free(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if not _ENVIRONMENT_NAME.match(name):
                raise PydanticCustomError(
                    "environment_name", "{name} is no environment name", {"name": repr(name)}
                )
            if name.startswith("DISPATCH_"):
                raise PydanticCustomError(
                    "environment_reserved", "{name}: DISPATCH_ is reserved", {"name": repr(name)}
                )
        return value

    @model_validator(mode="after")
    def _one_thing_to_run(self) -> Self:
        if (self.command is None) == (self.script is None):
            raise PydanticCustomError(
                "command_or_script", "give command or script, not both", {"field": "command"}
            )
        if self.script is not None and not self.script.startswith("#!"):
            raise PydanticCustomError(
                "script_start", "a script starts with #!", {"field": "script"}
            )
        both = sorted(self.env.keys() & self.secrets.keys())
        if both:
            raise PydanticCustomError(
                "environment_twice",
                "{name} stands in env and in secrets",
                {"name": both[0], "field": "env"},
            )
        return self


class Rule(Model):
    """What to do about one cause.

    Attributes:
        action: requeue, resubmit, hold (ask a person) or fail.
        limit: How often requeue or resubmit may answer this cause over the job's life.
        after_limit: What follows when the limit is reached: hold or fail.
        backoff_s: Seconds to wait after the end was seen.
        in_place: Ask for the same object to run again where the cluster can (opt-in, §1.9).
        memory_factor: Multiply the memory of the next submission.
        avoid_node: Ask the next submission to stay off the nodes of this run.
    """

    action: Action
    limit: Annotated[int, Field(ge=0, le=10_000)] = 3
    after_limit: Action = Action.HOLD
    backoff_s: Seconds = 0
    in_place: bool = False
    memory_factor: Annotated[float, Field(ge=1.0, le=16.0)] | None = None
    avoid_node: bool = False

    @model_validator(mode="after")
    def _limit_ends_it(self) -> Self:
        if self.after_limit not in (Action.HOLD, Action.FAIL):
            raise PydanticCustomError(
                "after_limit", "after_limit is hold or fail", {"field": "after_limit"}
            )
        return self


class Plan(Model):
    """Recovery as data.

    Attributes:
        default: The rule for every cause that has none of its own.
        causes: Rules by cause.
        pending_limit_s: How long an object may wait for a reason that doesn't go away by itself.
        start_backoff_s: Seconds between a refused Start and the next attempt.
        progress_limit_s: How long a run may write nothing before it is shown as without progress;
            None: nobody looks. It is for display: nothing is decided by it.
    """

    default: Rule
    causes: dict[Cause, Rule] = Field(default_factory=dict)
    pending_limit_s: Seconds | None = None
    start_backoff_s: Seconds = 10
    progress_limit_s: Annotated[int, Field(ge=1, le=366 * 86_400)] | None = None

    def rule(self, cause: Cause) -> Rule:
        """Return the rule that answers a cause."""
        return self.causes.get(cause, self.default)


class Declarations(Model):
    """An adapter's word about one cluster, at the time the job was created.

    Attributes:
        adapter: Which adapter speaks to it.
        cluster: The cluster's configured name.
        capabilities: What it can do; what isn't listed is never attempted.
        node_loss_window_s: How long a process may outlive the word that its node is lost.
        call_bound_s: From recording a call to the last moment at which it can take effect.
        landing_bound_s: From sending a call to its effect.
        request_timeout_s: The HTTP time-out of one call.
        retention_s: How long an ended object stays visible.
        save_window_s: How much of its newest state a crashing scheduler may forget.
        clock_skew_s: How far two clocks of those that act may differ.
        lookup_lag_s: How late accounting may learn of an end.
    """

    adapter: Name
    cluster: Name
    capabilities: tuple[Capability, ...] = ()
    node_loss_window_s: Seconds
    call_bound_s: Annotated[int, Field(ge=1)]
    landing_bound_s: Seconds
    request_timeout_s: Annotated[int, Field(ge=1)]
    retention_s: Seconds
    save_window_s: Seconds = 0
    clock_skew_s: Seconds = 0
    lookup_lag_s: Seconds = 0

    @field_validator("capabilities")
    @classmethod
    def _written_in_one_order(cls, value: tuple[Capability, ...]) -> tuple[Capability, ...]:
        return tuple(sorted(set(value)))

    @model_validator(mode="after")
    def _a_call_fits_its_bound(self) -> Self:
        if self.call_bound_s <= self.request_timeout_s + self.landing_bound_s:
            raise PydanticCustomError(
                "call_bound",
                "call_bound_s must exceed request_timeout_s + landing_bound_s",
                {"field": "call_bound_s"},
            )
        return self

    def can(self, capability: Capability) -> bool:
        """Return whether the cluster declared this capability."""
        return capability in self.capabilities


class Lineage(Model):
    """Where a job comes from.

    Attributes:
        supersedes: The settled job that this one replaces.
        generation: 0 for a first job, else one more than that job's.
    """

    supersedes: JobId | None = None
    generation: Count = 0

    @model_validator(mode="after")
    def _generations_count(self) -> Self:
        if (self.supersedes is None) != (self.generation == 0):
            raise PydanticCustomError(
                "generation", "generation is 0 exactly for a first job", {"field": "generation"}
            )
        return self


class Header(Model):
    """The part of a record that never changes.

    Attributes:
        job_id: Derived from the idempotency key.
        idempotency_key: Made by the client; the same key and digest is the same job.
        spec: What to run.
        spec_digest: SHA-256 of the spec's canonical JSON.
        plan: What to do about each cause.
        declarations: The cluster's, at this time.
        start_retries: Starts allowed beyond the first, for each submission.
        unmatched: Whether an unmatched attempt is tried again or waits for a person.
        created_by: Who submitted it.
        created_at: When, UTC.
        lineage: What it supersedes.
    """

    job_id: JobId
    idempotency_key: Name
    spec: Spec
    spec_digest: Digest
    plan: Plan
    declarations: Declarations
    start_retries: Annotated[int, Field(ge=0, le=100)] = 2
    unmatched: UnmatchedPolicy = UnmatchedPolicy.RETRY
    created_by: Name
    created_at: Instant
    lineage: Lineage = Lineage()


class Adjust(Model):
    """What the plan changes for one submission.

    Attributes:
        memory_mb_per_node: Memory on each node, MB, instead of the spec's.
        avoid_nodes: Nodes to stay off.
    """

    memory_mb_per_node: Annotated[int, Field(ge=1)] | None = None
    avoid_nodes: Annotated[tuple[Name, ...], Field(max_length=64)] = ()


__all__ = [
    "HEADER_SCHEMA",
    "Adjust",
    "Declarations",
    "EksSpec",
    "Header",
    "Lineage",
    "LocalSpec",
    "Ordinal",
    "Plan",
    "Rule",
    "SlurmSpec",
    "Spec",
    "Trainer",
    "TrainingRuntime",
]
