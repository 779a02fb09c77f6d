"""What a person can do next about a job, as exact commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from dispatch.core import rules
from dispatch.core.job import Job
from dispatch.core.parts import AttemptState, SchedulerObject
from dispatch.record.names import Capability, UnmatchedPolicy


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing a person can do.

    Attributes:
        command: To be typed as it stands, but for words in capitals.
        purpose: What it does, and what to know before.
    """

    command: str
    purpose: str


def advice(job: Job) -> Iterator[Advice]:
    """Yield what a person can do, most pressing first."""
    name = job.job_id
    yield from _questions(job)
    if job.settled_at is not None:
        yield Advice(
            f"dispatch resubmit {name} --anew",
            "run it again as it was, as a new job; --set FIELD=VALUE in its place changes a field",
        )
        yield Advice(
            f"dispatch submit FILE --supersedes {name}",
            "the same from a file of your own, changed as you like",
        )
        yield Advice(f"dispatch export {name}", "keep the record as a file")
        yield Advice(f"dispatch tombstone {name}", "remove the record; its key is kept")
    elif job.ending is not None:
        yield Advice(
            f"dispatch watch {name}", "nothing need be done: the clean-up goes on by itself"
        )
    elif job.recovery is not None:
        yield from _recovery(name)
    elif job.user_hold is not None:
        yield Advice(f"dispatch release {name}", "let it run")
        yield Advice(f"dispatch cancel {name}", "end it for good")
    else:
        yield Advice(f"dispatch hold {name}", "keep it from running until it is released")
        yield Advice(f"dispatch requeue {name}", "run it again from the start")
        yield Advice(f"dispatch cancel {name}", "end it for good")
    if job.objects and job.declarations.can(Capability.OUTPUT):
        yield Advice(f"dispatch logs {name}", "read what it wrote")
    yield Advice(f"dispatch history {name}", "every entry of the record")


def _recovery(name: str) -> Iterator[Advice]:
    yield Advice(
        f"dispatch resubmit {name}",
        "run it again: safe at any time, as the next submission starts only once everything of "
        "the last is verified stopped",
    )
    yield Advice(f"dispatch give-up {name} --reason WHY", "end it as failed")
    yield Advice(f"dispatch cancel {name}", "end it as cancelled")


def _questions(job: Job) -> Iterator[Advice]:
    if job.settled_at is not None:
        return
    name = job.job_id
    for known in rules.undisposed_foreign(job):
        yield _vouch(name, known.ref, "only if you know whose it is: it then blocks no start")
    if job.header.unmatched is UnmatchedPolicy.MANUAL:
        for one in job.attempts.values():
            if one.state is AttemptState.UNMATCHED:
                yield Advice(
                    f"dispatch resubmit {name}", f"start {one.n}.{one.a} was never seen: start anew"
                )
                yield _vouch(name, f"{one.n}.{one.a}", "only if you know that it never ran")
    for known in job.objects.values():
        if not known.foreign and not known.abandoned and _wont_stop(job, known):
            yield _vouch(name, known.ref, "only if you know that nothing of it runs")


def _wont_stop(job: Job, known: SchedulerObject) -> bool:
    told = {f"stop_failing/{known.ref}", f"hit_other/{known.ref}"}
    return not known.ended and not told.isdisjoint(job.escalations)


def _vouch(name: str, target: str, purpose: str) -> Advice:
    return Advice(
        f"dispatch abandon {name} {shlex.quote(target)} --reason WHY", f"vouch for it, {purpose}"
    )


def advice_on_refused(name: str) -> Iterator[Advice]:
    """Yield what still works on a record that can't be folded."""
    yield Advice(f"dispatch history {name}", "the entries that can be read")
    yield Advice(f"dispatch export {name}", "keep the record as a file, to be looked into")
    yield Advice(
        f"dispatch cancel {name}",
        "is recorded, and carried out by a build that can read the record",
    )
