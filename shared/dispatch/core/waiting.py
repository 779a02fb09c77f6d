"""What a job waits for, and until when: the reasons behind `wait_until` and the status."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from dispatch.core import news, rules
from dispatch.core.job import Job
from dispatch.core.parts import AttemptState, SchedulerObject
from dispatch.core.recover import back_off_until, over_because
from dispatch.core.steps import Waiting
from dispatch.core.stopping import stop_because
from dispatch.record.evidence import Discovery
from dispatch.record.names import Capability, ObjectState, UnmatchedPolicy


def waits(job: Job, discovery: Discovery | None, now: datetime) -> list[Waiting]:
    """Return what a job waits for; those with a time end by themselves."""
    if job.settled_at is not None:
        covered = job.declarations.retention_s + job.declarations.save_window_s
        until = rules.skewed(job.settled_at + timedelta(seconds=covered), job.declarations)
        if now >= until:
            return []
        return [Waiting("retention", "it is settled; late arrivals are still looked for", until)]
    found = list(_people(job))
    if discovery is not None and not discovery.complete:
        found.append(Waiting("find", discovery.error or "the last look wasn't complete"))
    found += _starts(job, now)
    found += _calls(job, now)
    for known in job.objects.values():
        found += _object(job, known, now)
    if discovery is not None:
        found += news.lookup_waits(job, discovery)
    return found


def _people(job: Job) -> Iterator[Waiting]:
    if job.user_hold is not None and job.ending is None:
        yield Waiting("person", f"held by {job.user_hold.by}: release or cancel it")
    if job.recovery is not None:
        detail = f": {job.recovery.detail}" if job.recovery.detail else ""
        yield Waiting(
            "person",
            f"the plan asks what to do about {job.recovery.cause}{detail}: "
            "resubmit, give up or cancel",
        )
    for known in rules.undisposed_foreign(job):
        yield Waiting("person", f"foreign object {known.ref} blocks every start: abandon or end it")
    if job.header.unmatched is UnmatchedPolicy.MANUAL:
        for one in job.attempts.values():
            if one.state is AttemptState.UNMATCHED:
                name = f"{one.n}.{one.a}"
                yield Waiting("person", f"attempt {name} was never seen: resubmit or abandon it")


def _starts(job: Job, now: datetime) -> Iterator[Waiting]:
    waits = job.ending is not None or not job.declarations.can(Capability.GATED_START)
    for one in job.attempts.values():
        vouched = waits and rules.may_land_vouched_for(one, now, job.declarations)
        if one.state is AttemptState.UNKNOWN or vouched:
            yield Waiting(
                "deadline",
                f"attempt {one.n}.{one.a} may still land",
                rules.skewed(one.deadline, job.declarations),
            )
    latest = job.latest
    if latest is None or latest.last_a == 0 or latest.canonical is not None:
        return
    if job.ending is not None or job.held:
        return
    last = job.attempts[latest.n, latest.last_a]
    if last.state is AttemptState.REFUSED:
        due = rules.skewed(last.at + timedelta(seconds=job.plan.start_backoff_s), job.declarations)
        if now < due:
            yield Waiting("back_off", f"the last start was refused: {last.detail}", due)


def _calls(job: Job, now: datetime) -> Iterator[Waiting]:
    open_calls = rules.open_calls(job)
    over = job.ending is not None or (job.canonical is not None and job.canonical.ended)
    for call in job.calls:
        delays = over and rules.may_land_after(call, now, job.declarations)
        if call in open_calls or delays:
            yield Waiting(
                "deadline",
                f"the {call.kind} call on {call.ref} may still land",
                rules.skewed(call.deadline, job.declarations),
            )


def _object(job: Job, known: SchedulerObject, now: datetime) -> Iterator[Waiting]:
    if known.foreign or known.abandoned:
        return
    why = stop_because(job, known)
    if why is not None:
        yield Waiting("stop", f"{known.ref} is being stopped: {why}")
    run = known.run
    if known.ended:
        yield from _end(job, known, now)
    elif run.state is ObjectState.PENDING and job.is_canonical(known) and why is None:
        limit = job.plan.pending_limit_s
        until = None
        if run.waiting_since is not None and limit is not None:
            until = rules.skewed(run.waiting_since + timedelta(seconds=limit), job.declarations)
        if run.held and run.holder is None and not known.ours_held:
            yield Waiting("person", f"{known.ref} is held at the scheduler, not by Dispatch", until)
        elif not run.held or run.holder is not None:
            yield Waiting("capacity", run.reason or "the scheduler hasn't started it", until)
    live = why is None and job.is_canonical(known) and not known.ended
    over = rules.earlier_run_until(job, known)
    wanted = job.requeue is not None or (run.held and known.ours_held)
    if live and wanted and not job.held and over is not None and now < over:
        yield Waiting("window", f"an earlier run of {known.ref} may still execute", over)
    if live and known.ours_held and known.opened_at is not None:
        saved = known.opened_at + timedelta(seconds=job.declarations.save_window_s)
        if now < saved:
            yield Waiting("save", f"a crash of the scheduler could close {known.ref} again", saved)


def _end(job: Job, known: SchedulerObject, now: datetime) -> Iterator[Waiting]:
    declared = job.declarations
    for end in rules.windows_until(known, declared):
        if now < end:
            yield Waiting("window", f"{known.ref} may still execute on a lost node", end)
    rerun = rules.rerun_until(job, known)
    if rerun is not None and now < rerun:
        yield Waiting("window", f"a run of {known.ref} that nobody saw may still execute", rerun)
    saved = rules.saved_from(known, declared)
    if saved is not None and now < saved:
        yield Waiting("save", f"a crash of the scheduler could undo the end of {known.ref}", saved)
    if not job.is_canonical(known) or job.ending is not None or job.held:
        return
    if known.n != len(job.submissions):
        return
    cause = over_because(known)
    until = None if cause is None else back_off_until(job, known, cause)
    if until is not None and now < until:
        yield Waiting("back_off", f"the plan waits before it answers {cause}", until)
