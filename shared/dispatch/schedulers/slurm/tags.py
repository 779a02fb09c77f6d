"""The marks that our jobs carry in Slurm, and the identity made of them; pure.

A Slurm id alone identifies nothing: ids are reused after a crash, a state wipe and the wrap at
MaxJobId, and a requeue changes the submit time that Slurm shows. So the time of the Start is
written into the tag, where nothing changes it, and stands in the ref in the submit time's place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Final

from dispatch.schedulers.scheduler import Tag

MAX_BYTES: Final = 1024
"""What Slurm keeps of a comment; a longer one is refused."""

_PREFIX = "dispatch/1 "
_JOB = re.compile(r"^[a-z][a-z0-9]{7,40}\Z")
_DIGEST = re.compile(r"^[0-9a-f]{64}\Z")
_CLUSTER = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_NUMBER = re.compile(r"^(0|[1-9][0-9]{0,14})\Z")
_REF = re.compile(r"^(?P<cluster>[^:@]+):(?P<job_id>[0-9]+)@(?P<at>[0-9]+)\Z")
_NAME_PREFIX = "dispatch-"


@dataclass(frozen=True, slots=True)
class Mark:
    """A tag as it stands in Slurm.

    Attributes:
        tag: Whose object it is.
        cluster: The configured name of the cluster that it was started on.
        at_ms: When the Start was sent, milliseconds since the epoch, by the sender's clock. A
            slurmctld that crashes is back within a second, with the same ids to give.
        stopping: Whether Dispatch asked for its end; written before a Stop, so that a cancel
            without it is somebody else's. No part of the identity.
        beat_s: When its job last said that it goes on, seconds since the epoch. No part of it.
    """

    tag: Tag
    cluster: str
    at_ms: int
    stopping: bool = field(default=False, compare=False)
    beat_s: int | None = field(default=None, compare=False)

    def stopped(self) -> Mark:
        """Return the mark of an object whose end is asked for."""
        return replace(self, stopping=True)


@dataclass(frozen=True, slots=True)
class Identity:
    """What a ref of this adapter names."""

    cluster: str
    job_id: int
    at_ms: int

    def __str__(self) -> str:
        """Return the ref."""
        return f"{self.cluster}:{self.job_id}@{self.at_ms}"


def job_name(job: str) -> str:
    """Return the Slurm name that all attempts of a job share, for the singleton fence."""
    return _NAME_PREFIX + job


def named_job(name: str) -> str | None:
    """Return the job that a Slurm name is made of, or nothing."""
    job = name.removeprefix(_NAME_PREFIX)
    return job if name.startswith(_NAME_PREFIX) and _JOB.match(job) else None


def written(mark: Mark) -> str:
    """Return the mark as the comment carries it; `marked` reads it back."""
    tag = mark.tag
    return (
        f"{_PREFIX}job={tag.job} n={tag.n} a={tag.a} gen={tag.generation} "
        f"of={mark.cluster} at={mark.at_ms} spec={tag.spec_digest}"
        f"{' stop=1' if mark.stopping else ''}"
    )


def beat(mark: Mark) -> str:
    """Return the shell command with which a job says, beside its tag, that it goes on."""
    return f'scontrol update jobid="$SLURM_JOB_ID" extra="{written(mark)} beat=$(date +%s)"'


def marked(*texts: str) -> Mark | None:
    """Return the mark in the first text that carries a whole one, or nothing."""
    for text in texts:
        mark = _read(text)
        if mark is not None:
            return mark
    return None


def identified(ref: str) -> Identity | None:
    """Return what a ref names, or nothing where it isn't one of this adapter's."""
    found = _REF.match(ref)
    if found is None:
        return None
    return Identity(found["cluster"], int(found["job_id"]), int(found["at"]))


def _read(text: str) -> Mark | None:
    if not text.startswith(_PREFIX):
        return None
    fields: dict[str, str] = {}
    for word in text[len(_PREFIX) :].split(" "):
        key, equals, value = word.partition("=")
        if not equals or key in fields:
            return None
        fields[key] = value
    stopping, beat_s = fields.pop("stop", None), fields.pop("beat", None)
    if fields.keys() != {"job", "n", "a", "gen", "of", "at", "spec"} or stopping not in (None, "1"):
        return None
    numbers = [fields[key] for key in ("n", "a", "gen", "at")]
    if beat_s is not None and not _NUMBER.match(beat_s):
        return None
    if not (
        all(_NUMBER.match(number) for number in numbers)
        and _JOB.match(fields["job"])
        and _DIGEST.match(fields["spec"])
        and _CLUSTER.match(fields["of"])
    ):
        return None
    n, a, generation, at = map(int, numbers)
    if not (1 <= n < 1_000_000 and 1 <= a < 1_000_000 and generation < 1_000_000):
        return None
    tag = Tag(job=fields["job"], n=n, a=a, spec_digest=fields["spec"], generation=generation)
    beaten = None if beat_s is None else int(beat_s)
    return Mark(tag, fields["of"], at, stopping is not None, beaten)
