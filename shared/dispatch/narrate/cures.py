"""What each cause means, how it looks on each scheduler, and what most likely cures it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from dispatch.record.names import Cause


@dataclass(frozen=True, slots=True)
class Cure:
    """A cause, explained to whoever must do something about it.

    Attributes:
        meaning: What was seen, whoever the scheduler is.
        slurm: What Slurm shows then; None where it has no such thing.
        kubernetes: What Kubernetes shows then; None where it has no such thing.
        likely: What most likely helps.
    """

    meaning: str
    slurm: str | None
    kubernetes: str | None
    likely: str


CURES: Mapping[Cause, Cure] = MappingProxyType(
    {
        Cause.PREEMPTED: Cure(
            "The scheduler took the resources away for something more important.",
            "`PREEMPTED`, or a requeue with a preemption as its reason",
            "the condition `DisruptionTarget` with `PreemptionByScheduler`, or Kueue's eviction",
            "Let the plan resubmit it, with checkpoints to go on from. Preempted often: a queue"
            " or QOS that is preempted less, or a shorter time limit.",
        ),
        Cause.NODE_LOST: Cure(
            "The node doesn't answer. Its processes may go on: nothing is started elsewhere "
            "before the declared window is over or a look proves them dead.",
            "`NODE_FAIL`",
            "`NodeLost`, or `DeletionByPodGC` on a node that is gone",
            "Nothing, if it is rare: the plan starts it again. The same node twice: "
            "`avoid_node` in the plan, and a ticket for the node.",
        ),
        Cause.OUT_OF_MEMORY: Cure(
            "A process took more memory than the job asked for, and was killed.",
            "`OUT_OF_MEMORY`, or signal 125",
            "`OOMKilled`",
            "Ask for more (`memory_mb_per_node`), or let the plan do so (`memory_factor`). A "
            "leak grows with the steps: then look at the program first.",
        ),
        Cause.TIMEOUT: Cure(
            "It ran for as long as it was allowed to.",
            "`TIMEOUT`",
            "`DeadlineExceeded`",
            "Raise `time_limit_s`, or write checkpoints and let the plan resubmit.",
        ),
        Cause.NO_CAPACITY: Cure(
            "It waits, and no node has room for it at present.",
            None,
            "the event `FailedScheduling`, or a Kueue Workload without quota",
            "Wait, ask for less, or ask for another queue. With `pending_limit_s` the plan "
            "decides how long.",
        ),
        Cause.APP_ERROR: Cure(
            "The program ended by itself with an error.",
            "`FAILED` with an exit code or a signal",
            "a container that ended with a code other than 0",
            "Read `dispatch logs JOB`. Where the same code comes again, no plan helps but `fail`.",
        ),
        Cause.LAUNCH_FAILED: Cure(
            "It never got as far as the program: a prolog, a container or an output file failed.",
            "`launch failed requeued held`, `BOOT_FAIL`, or an output file that couldn't be opened",
            "`StartError`, `RunContainerError` or `FailedCreatePodSandBox`",
            "Check the working directory, the output path and the command's first word; on "
            "Slurm the node's slurmd log and the prolog.",
        ),
        Cause.IMAGE_PULL_FAILED: Cure(
            "The container's image can't be pulled.",
            None,
            "`ImagePullBackOff`, `ErrImagePull`, `InvalidImageName` and their like",
            "Check the image's name and tag, and that the node's role or the pull secret may "
            "read it.",
        ),
        Cause.EVICTED: Cure(
            "Somebody asked for the pod's eviction: a drain, or an autoscaler that clears a node.",
            None,
            "`EvictionByEvictionAPI`",
            "Let the plan resubmit it. Long runs want a node group that is drained and scaled "
            "down by agreement only.",
        ),
        Cause.DISK_PRESSURE: Cure(
            "It wrote more to its own disk than it may.",
            None,
            "`Evicted`, with the pod's own storage as the reason",
            "Write to a volume, or ask for more `ephemeral-storage`.",
        ),
        Cause.STOPPED: Cure(
            "Dispatch ended it, because somebody wanted so or because the object was no longer "
            "the one.",
            "`CANCELLED` by the user that Dispatch is",
            "a deletion that Dispatch asked for",
            "Nothing: `dispatch why JOB` says who wanted it.",
        ),
        Cause.STOPPED_OUTSIDE: Cure(
            "Somebody other than Dispatch ended it.",
            "`CANCELLED` by another user",
            "a Job that somebody deleted",
            "Ask whoever it was (the scheduler's words name them where it knows), and then "
            "`dispatch resubmit JOB`.",
        ),
        Cause.INTERRUPTED: Cure(
            "It was ended from outside, and what is left doesn't say by whom or why.",
            "a requeue whose reason accounting doesn't know",
            "a disruption of a kind that has no name here, or an exit with 0 after a deletion",
            "Let the plan resubmit it; look at what happened to the node at that time.",
        ),
        Cause.DEVICE_FAILED: Cure(
            "A GPU or another device of the node was declared broken.",
            None,
            "`DeletionByDeviceTaintManager`",
            "Let the plan resubmit it with `avoid_node`; have the device looked at.",
        ),
        Cause.NODE_PRESSURE: Cure(
            "The node ran short of memory, disk or process ids, and chose this pod to go.",
            None,
            "`Evicted`, with the node's pressure as the reason",
            "Ask for what it really needs (requests equal to limits are evicted last), or for "
            "another node.",
        ),
        Cause.NODE_SHUTDOWN: Cure(
            "The node was shut down in an orderly way.",
            None,
            "`NodeShutdown` or `Terminated`",
            "Let the plan resubmit it. Spot instances end so.",
        ),
        Cause.NODE_REJECTED: Cure(
            "The node refused the pod that the scheduler had given it.",
            None,
            "`NodeAffinity`, `TopologyAffinityError` or `UnexpectedAdmissionError`",
            "Let the plan resubmit it; where it comes again, the node's devices or topology are"
            " at fault.",
        ),
        Cause.START_REFUSED: Cure(
            "The scheduler refused the start for good; nothing exists.",
            "an error of the submit: partition, account, QOS or a limit",
            "403, or a denial by a webhook or a quota",
            "The scheduler's words name what it won't accept. Change that and submit a new job "
            "that supersedes this one.",
        ),
        Cause.NAME_TAKEN: Cure(
            "Another object has the one name that this attempt could have.",
            None,
            "409 `AlreadyExists` for an object with another tag",
            "Look whose it is. If it may stay, `dispatch abandon` it in the record; else end it.",
        ),
        Cause.START_FAILED: Cure(
            "None of the attempts of a submission came to anything.",
            "each attempt was refused, or never seen",
            "each attempt was refused, or never seen",
            "`dispatch history JOB` tells of each attempt. Mend that, then `dispatch resubmit "
            "JOB`.",
        ),
        Cause.LOST: Cure(
            "It is gone, and nobody can say any more how it ended.",
            "gone from slurmctld, and unknown to accounting",
            "a pod that went without its evidence, or `ContainerStatusUnknown`",
            "Look at what it wrote (checkpoints, logs). Then `dispatch resubmit JOB`, or "
            "`give-up`. Without accounting, a shorter tick than `MinJobAge` keeps it from "
            "happening.",
        ),
        Cause.GIVEN_UP: Cure(
            "A person decided that it has failed.",
            "nothing",
            "nothing",
            "Nothing: the record names the person and the reason.",
        ),
        Cause.UNSCHEDULABLE: Cure(
            "As it asks, it will never run on this cluster.",
            "a pending reason that doesn't go away: `PartitionNodeLimit`, `BadConstraints`, "
            "`QOSMax…PerJob`",
            None,
            "Ask for less, or for another queue, in a new job that supersedes this one. "
            "`dispatch lint` says what can be told before.",
        ),
        Cause.INVALID_SPEC: Cure(
            "What it asks for can't be: a field, a mount or a configuration is wrong.",
            "an error of the submit that names the field",
            "422, `CreateContainerConfigError`, or a volume or secret that isn't there",
            "Correct what the scheduler's words name and submit a new job that supersedes this "
            "one.",
        ),
        Cause.HELD_OUTSIDE: Cure(
            "Somebody other than Dispatch holds it. Dispatch shows that and doesn't fight it.",
            "a hold by an administrator, by the site, or by the user at the shell",
            "a Job or Workload that somebody suspended",
            "Ask whoever holds it to release it there (`scontrol release ID`, `kubectl patch "
            'job NAME -p \'{"spec":{"suspend":false}}\'`).',
        ),
        Cause.DEADLINE: Cure(
            "It could not have ended before its deadline, so the scheduler ended it.",
            "`DEADLINE`",
            None,
            "A later deadline, or a shorter time limit.",
        ),
    }
)
"""Every cause; a test holds it complete, and `docs/reference/causes` is written from it."""
