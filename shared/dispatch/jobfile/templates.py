"""Job files to begin with: one for each scheduler, commented, and right as it stands."""

from __future__ import annotations

from typing import Literal, get_args

Kind = Literal["local", "slurm", "eks"]
KINDS: tuple[Kind, ...] = get_args(Kind)

SCHEMA_FILE = "job.schema.json"
"""What the first line of a job file expects beside it, for editors."""


def template(kind: Kind, *, array: bool = False, file: str = "job.yaml") -> str:
    """Return a commented job file.

    Args:
        kind: Whose fields it shows.
        array: Whether it makes several jobs.
        file: What it will be called, for the commands in its comments.
    """
    parts = (
        _HEAD.format(file=file),
        _NAME["array" if array else "one"],
        _RUNS[kind, array],
        _NEEDS[kind],
        _ARRAY if array else "",
        _PLAN[kind],
        _KEY["array" if array else "one"],
    )
    return "\n".join(part for part in parts if part)


_HEAD = """\
# yaml-language-server: $schema=job.schema.json
#
# A job file: what to run, where, and what follows when it doesn't go well.
#   dispatch lint {file}      says what a cluster would refuse; nothing is sent
#   dispatch submit {file}    submits it
# Every field is explained in docs/reference/job-file.md, and by your editor.
"""

_NAME = {
    "one": """\
# A short name for people.
name: train

# Labels find it again: dispatch cancel --label team=vision --preview
labels:
  team: vision
""",
    "array": """\
# A short name for people; each job of the array adds its own values to it.
name: sweep

# Labels find them again, all at once: dispatch cancel --label sweep=rates --preview
labels:
  team: vision
  sweep: rates
""",
}

_CLUSTER = """\
# Which cluster, by its configured name; `dispatch clusters list` shows them. Needless if
# there is only one.
# cluster: NAME
"""

_CODE = "    for n in 1 2 3 4 5; do echo step $n of epoch $DISPATCH_EPOCH; sleep 1; done"
_CODE_ARRAY = "    echo rate {{rate}} seed {{seed}} epoch $DISPATCH_EPOCH; sleep 5"

_COMMAND = """\
# What each task runs: an argument vector, no shell of its own. What it prints is its log.
# DISPATCH_EPOCH grows with every run: use it to fence checkpoints.
command:
  - sh
  - -c
  - |
"""

_SCRIPT = """\
# A whole script, as for sbatch but without #SBATCH lines: what it needs is asked for below.
# DISPATCH_EPOCH grows with every run: use it to fence checkpoints.
script: |
  #!/bin/sh
  set -eu
"""

_ENV = """\
# Plain variables; they stand in the record for ever. A secret goes under `secrets`, by reference.
env:
  EPOCHS: "3"
"""

_RUNS: dict[tuple[Kind, bool], str] = {
    ("local", False): f"{_CLUSTER}\n{_COMMAND}{_CODE}\n\n{_ENV}",
    ("local", True): f"{_CLUSTER}\n{_COMMAND}{_CODE_ARRAY}\n\n{_ENV}",
    ("slurm", False): f"{_CLUSTER}\n{_SCRIPT}  srun python train.py --epochs 3\n\n{_ENV}",
    ("slurm", True): (
        f"{_CLUSTER}\n{_SCRIPT}"
        "  srun python train.py --rate {{rate}} --seed {{seed}}\n\n" + _ENV
    ),
    ("eks", False): (
        f"{_CLUSTER}\n"
        "# The container image; on Kubernetes it must be given.\n"
        "image: registry.example.com/train:1.0\n\n"
        f"{_COMMAND}    exec python train.py --epochs 3\n\n{_ENV}"
    ),
    ("eks", True): (
        f"{_CLUSTER}\n"
        "# The container image; on Kubernetes it must be given.\n"
        "image: registry.example.com/train:1.0\n\n"
        f"{_COMMAND}"
        "    exec python train.py --rate {{rate}} --seed {{seed}}\n\n" + _ENV
    ),
}

_NEEDS: dict[Kind, str] = {
    "local": """\
# What it needs. On one machine nodes are processes side by side.
nodes: 1
time_limit_s: 3600
# memory_mb_per_node: 2048

# Variables whose value is read from a file when it starts, and never enters the record.
# secrets:
#   TOKEN: file:/home/me/.config/train/token

# Only on this kind of cluster: seconds between the polite and the hard signal.
local:
  grace_s: 5
""",
    "slurm": """\
# What it needs, on each node.
nodes: 1
tasks_per_node: 1
cpus_per_node: 8
memory_mb_per_node: 32000
gpus_per_node: 1
time_limit_s: 86400

# The queue as the cluster's document names it; its own default unless given. Who is charged.
# queue: gpu
# account: vision

# Where on the nodes it starts, and where its output goes.
# workdir: /home/me/train
# output: /home/me/train/out.log

# Variables whose value is read from a file on the node, and never enters the record.
# secrets:
#   TOKEN: file:/home/me/.config/train/token

# Only on Slurm.
slurm:
  nice: 0
  # qos: high
  # constraint: a100
  # exclude: [node7]
""",
    "eks": """\
# What it needs, on each node; a node is a pod.
nodes: 1
cpus_per_node: 8
memory_mb_per_node: 32000
gpus_per_node: 1
time_limit_s: 86400

# Variables from a Secret of the team's namespace; the value never enters the record.
# secrets:
#   TOKEN: kubernetes:train/token

# Only on Kubernetes.
eks:
  shared_memory_mb: 1024
  # node_selector: {accelerator: a100}
  # priority_class: research
  # kueue_queue: gpu
""",
}

_ARRAY = """\
# One job for every combination: here four. {{rate}} and {{seed}} stand for the values. Submitting
# the file again makes no job twice; a value more makes only the new ones.
array:
  parameters:
    rate: [0.1, 0.01]
    seed: [1, 2]
"""

_RULES = """\
# What follows when a run ends other than well: the first rule that fits its cause, else `default`.
#   requeue, resubmit  run it again, at most `limit` times for this cause
#   hold               stop and ask a person
#   fail               that was it
plan:
  default: {action: hold}
  causes:
    preempted: {action: resubmit, limit: 5, backoff_s: 30}
    node_lost: {action: resubmit, limit: 3}
    out_of_memory: {action: resubmit, limit: 1, memory_factor: 1.5}
    app_error: {action: fail}
    timeout: {action: fail}
"""

_PLAN: dict[Kind, str] = {
    "local": _RULES.replace(
        "    out_of_memory: {action: resubmit, limit: 1, memory_factor: 1.5}\n", ""
    )
    + """\
  # A run that writes nothing for so long is shown as without progress; nothing is done about it.
  progress_limit_s: 600
""",
    "slurm": _RULES
    + """\
  # Give up waiting after a day for what doesn't come by itself (a queue that is down, say).
  pending_limit_s: 86400
""",
    "eks": _RULES
    + """\
    image_pull_failed: {action: hold}
  # Give up waiting after a day for what doesn't come by itself (an image that isn't there, say).
  pending_limit_s: 86400
""",
}

_KEY = {
    "one": """\
# The same key and spec is the same job, for ever: a submit that got no answer may be repeated.
# Without one, each submit makes a new job.
# idempotency_key: train-2026-03
""",
    "array": """\
# The jobs' keys are made of this one and their values; without it, of all that they run.
# idempotency_key: sweep-2026-03
""",
}
