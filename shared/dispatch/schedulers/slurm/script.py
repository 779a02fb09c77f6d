"""The batch script of a spec; pure."""

from __future__ import annotations

import math
import re
import shlex

from dispatch.record.header import Spec

_SHELL = re.compile(r"^#!\s*(?:/usr/bin/env\s+(?:-S\s+)?)?(?:\S*/)?(?:ba|da|k|z)?sh(?:\s|\Z)")


def batch_script(spec: Spec, epoch: int) -> str:
    """Return what Slurm runs on the first node.

    A command runs once a task, under srun where there are several. A script runs as it is; a
    shell's gets the same few lines first. Scripts of other interpreters see the environment
    alone, where the epoch is without Slurm's own restarts (protocol §11).
    """
    prologue = _prologue(spec, epoch)
    if spec.script is not None:
        first, newline, rest = spec.script.partition("\n")
        if not _SHELL.match(first):
            return spec.script
        return f"{first}{newline or chr(10)}{prologue}{rest}"
    assert spec.command is not None
    words = shlex.join(spec.command)
    if spec.nodes * spec.tasks_per_node > 1:
        # srun doesn't take it over from the batch script's allocation.
        cpus = math.ceil(spec.cpus_per_node / spec.tasks_per_node)
        words = f"srun --kill-on-bad-exit=1 --export=ALL --cpus-per-task={cpus} -- {words}"
    return f"#!/bin/sh\n{prologue}exec {words}\n"


def _prologue(spec: Spec, epoch: int) -> str:
    lines = [
        "DISPATCH_RESTARTS=${SLURM_RESTART_COUNT:-0}",
        f"DISPATCH_EPOCH=$(({epoch} + DISPATCH_RESTARTS))",
        "export DISPATCH_RESTARTS DISPATCH_EPOCH",
    ]
    for name, reference in spec.secrets.items():
        path = shlex.quote(reference.removeprefix("file:"))
        lines.append(f"{name}=$(cat {path}) || exit 78; export {name}")
    return "\n".join(lines) + "\n"
