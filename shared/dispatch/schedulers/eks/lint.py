"""What a cluster would refuse of a spec, or drop without a word, said before it is sent; pure.

A validator of schemas misses names, lengths and enumerations, so they are judged here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from dispatch.record.header import EksSpec, Spec
from dispatch.schedulers.eks.settings import EksSettings, Team
from dispatch.schedulers.eks.shapes import TRAINJOB, shape_of
from dispatch.schedulers.eks.train_manifest import runtime_of
from dispatch.schedulers.scheduler import StartOrder, Tag

MAX_OBJECT_BYTES = 1_000_000
"""A little less than what etcd takes; the server adds defaults and its own book-keeping."""
MAX_WORDS, MAX_WORD, MAX_VARIABLES, MAX_IMAGE = 128, 32_768, 100, 500
"""What a TrainJob takes at most; `$` is written twice, and Dispatch adds variables of its own."""
TRAINERS_OWN = frozenset(
    {"PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE"}
)
"""What torchrun is told by Trainer, whose webhook refuses a TrainJob that says it, too."""
MAX_ARGUMENT_BYTES = 131_072 - 64
"""What Linux takes as one argument or one variable, its name included."""

_LABEL_PART = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z")
_DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
_SECRET_KEY = re.compile(r"[-._a-zA-Z0-9]+\Z")
_IMAGE = re.compile(r"\S+\Z")
_PREFERRED_HOSTS = "field 'priority': a cluster has classes: name one in eks.priority_class"


def lint(spec: Spec, settings: EksSettings) -> list[str]:
    """Return what this cluster would refuse of a spec, each a sentence that names the field."""
    found = [*_shape(spec), *_what_isnt_here(spec), *_secrets(spec), *_sizes(spec)]
    if spec.eks is not None:
        found += _eks(spec.eks)
    if shape_of(spec) is TRAINJOB:
        found += _trainjob(spec, settings)
    found += _queue(spec, settings)
    if not found:
        found += _weight(spec, settings)
    return found


def _shape(spec: Spec) -> Iterator[str]:
    of_job = shape_of(spec) is not TRAINJOB
    if spec.image is None:
        if of_job:
            yield "field 'image': a container image is needed"
    elif not _IMAGE.match(spec.image):
        yield f"field 'image': {spec.image!r} is no image name"
    if spec.tasks_per_node > 1 and of_job:
        yield (
            f"field 'tasks_per_node': {spec.tasks_per_node}: a pod runs one task; let it start "
            "the processes of its node"
        )
    if spec.workdir is not None and not spec.workdir.startswith("/"):
        yield f"field 'workdir': {spec.workdir!r} isn't absolute"
    if spec.workdir is not None and ":" in spec.workdir:
        yield "field 'workdir': a colon can't stand in it"


def _trainjob(spec: Spec, settings: EksSettings) -> Iterator[str]:
    """Yield what Kubeflow's Trainer takes from the runtime alone, and what this release lacks."""
    trainer = settings.trainer
    if trainer is None:
        yield "field 'eks.kind': Kubeflow's Trainer isn't used on this cluster"
        return
    if len(set(runtime_of(spec).jobs)) < len(runtime_of(spec).jobs):
        yield "field 'eks.runtime.jobs': a name stands in it twice"
    if spec.tasks_per_node > 1:
        yield "field 'tasks_per_node': say it in eks.trainer.processes_per_node"
    if spec.workdir is not None:
        yield "field 'workdir': the runtime says where it runs; change the folder in the command"
    if spec.eks is not None and spec.eks.priority_class is not None:
        yield "field 'eks.priority_class': the runtime says it"
    if spec.time_limit_s is not None and trainer.release in ("2.0", "2.1"):
        yield f"field 'time_limit_s': Trainer {trainer.release} has no deadline; 2.2 has"
    if spec.image is not None and len(spec.image) > MAX_IMAGE:
        yield f"field 'image': longer than {MAX_IMAGE} characters"
    if len(spec.command or ()) > MAX_WORDS:
        yield f"field 'command': more than {MAX_WORDS} words; write a script"
    if any(len(word) > MAX_WORD for word in spec.command or ()):
        yield f"field 'command': a word is longer than {MAX_WORD} characters; write a script"
    if len(spec.env) + len(spec.secrets) > MAX_VARIABLES:
        yield f"field 'env': more than {MAX_VARIABLES} variables"
    for name in sorted(TRAINERS_OWN & (spec.env.keys() | spec.secrets.keys())):
        yield f"field 'env.{name}': Trainer sets it itself"


def _what_isnt_here(spec: Spec) -> Iterator[str]:
    if spec.account is not None:
        yield "field 'account': nobody is charged on this cluster"
    if spec.output is not None:
        yield "field 'output': no file is written on this cluster; its output is kept as a log"
    if spec.priority is not None:
        yield _PREFERRED_HOSTS


def _secrets(spec: Spec) -> Iterator[str]:
    for name, reference in spec.secrets.items():
        kind, _, rest = reference.partition(":")
        secret, _, key = rest.partition("/")
        if kind != "kubernetes":
            yield f"field 'secrets.{name}': {kind}: can't be read here, only kubernetes:SECRET/KEY"
        elif not _DNS_NAME.match(secret) or len(secret) > 253:
            yield f"field 'secrets.{name}': {secret!r} is no Secret's name"
        elif not _SECRET_KEY.match(key) or len(key) > 253:
            yield f"field 'secrets.{name}': {key!r} is no key of a Secret"


def _sizes(spec: Spec) -> Iterator[str]:
    for number, word in enumerate(spec.command or ()):
        if len(word.encode()) > MAX_ARGUMENT_BYTES:
            yield f"field 'command': word {number + 1} is longer than an argument may be"
    if spec.command is not None and not spec.command[0]:
        yield "field 'command': its first word is empty"
    if spec.script is not None and len(spec.script.encode()) > MAX_ARGUMENT_BYTES:
        yield "field 'script': longer than a variable may be; put it into the image"


def _qualified(name: str) -> bool:
    prefix, slash, last = name.rpartition("/")
    if slash and (not _DNS_NAME.match(prefix) or len(prefix) > 253):
        return False
    return bool(_LABEL_PART.match(last))


def _eks(eks: EksSpec) -> Iterator[str]:
    for key, value in eks.node_selector.items():
        if not _qualified(key):
            yield f"field 'eks.node_selector': {key!r} is no label's name"
        if value and not _LABEL_PART.match(value):
            yield f"field 'eks.node_selector.{key}': {value!r} is no label's value"
    if eks.priority_class is not None and not _DNS_NAME.match(eks.priority_class):
        yield f"field 'eks.priority_class': {eks.priority_class!r} is no class's name"
    if "/" not in eks.gpu_resource or not _qualified(eks.gpu_resource):
        yield f"field 'eks.gpu_resource': {eks.gpu_resource!r} is no extended resource"
    if eks.kueue_queue is not None and not _is_label(eks.kueue_queue):
        yield f"field 'eks.kueue_queue': {eks.kueue_queue!r} is no queue's name"


def _is_label(name: str) -> bool:
    return len(name) <= 63 and bool(_DNS_LABEL.match(name))


def _queue(spec: Spec, settings: EksSettings) -> Iterator[str]:
    asked = spec.eks.kueue_queue if spec.eks is not None else None
    if settings.kueue_queue is None:
        if asked is not None:
            yield "field 'eks.kueue_queue': Kueue isn't used on this cluster"
        if spec.queue is not None:
            yield "field 'queue': this cluster has no queues"
    elif asked is None and spec.queue is not None and not _is_label(spec.queue):
        yield f"field 'queue': {spec.queue!r} is no queue's name"


def _weight(spec: Spec, settings: EksSettings) -> Iterator[str]:
    tag = Tag("j" * 41, 999_999, 999_999, "0" * 64, 0)
    order = StartOrder(tag=tag, spec=spec, adjust=None, owner="o" * 256, in_place=False)
    team: Team = settings.teams[0]
    size = len(json.dumps(shape_of(spec).manifest(order, team, settings)).encode())
    if size > MAX_OBJECT_BYTES:
        yield f"field 'command': the whole is {size} bytes, more than a cluster keeps of one object"
