"""Records for the benchmarks: a job that is preempted again and again, as it is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import count, islice

from dispatch.core.fold import fold
from dispatch.record import fact as facts
from dispatch.record.codec import envelope, spec_digest
from dispatch.record.evidence import Sighting
from dispatch.record.header import Declarations, Header, Plan, Rule, Spec
from dispatch.record.names import Action, Capability, Cause, ObjectState, ReplyResult
from dispatch.record.view import Envelope, View
from dispatch.store.records import NewRecord

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
BY = "supervisor@control-1"
CLUSTER = "hpc"
SPEC = Spec(
    name="train-large",
    command=("python", "-m", "train", "--config", "configs/large.yaml"),
    nodes=2,
    memory_mb_per_node=480_000,
    env={"NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": "8"},
)


def declared(cluster: str = CLUSTER) -> Declarations:
    """Return the declarations of a cluster of Slurm's shape."""
    return Declarations(
        adapter="slurm",
        cluster=cluster,
        capabilities=(Capability.GATED_START, Capability.HOLD_PENDING, Capability.EXIT_CODES),
        node_loss_window_s=300,
        call_bound_s=120,
        landing_bound_s=60,
        request_timeout_s=20,
        retention_s=300,
        save_window_s=20,
        clock_skew_s=2,
    )


def job_id_of(name: str) -> str:
    """Return the job's id, without making its header."""
    return "j" + sha256(f"key-{name}".encode()).hexdigest()[:20]


def header_of(name: str, *, cluster: str = CLUSTER, created_at: datetime = T0) -> Header:
    """Return the header of a job whose plan runs it again whenever it is preempted."""
    again = Rule(action=Action.RESUBMIT, limit=10_000)
    return Header(
        job_id=job_id_of(name),
        idempotency_key=f"key-{name}",
        spec=SPEC,
        spec_digest=spec_digest(SPEC),
        plan=Plan(
            default=Rule(action=Action.HOLD),
            causes={Cause.PREEMPTED: again, Cause.NODE_LOST: again},
        ),
        declarations=declared(cluster),
        start_retries=2,
        created_by="iam:arn:aws:iam::111122223333:user/ada",
        created_at=created_at,
    )


def record_of(header: Header) -> NewRecord:
    """Return a record about to be created."""
    return NewRecord(
        job_id=header.job_id,
        idempotency_key=header.idempotency_key,
        spec_digest=header.spec_digest,
        cluster=header.declarations.cluster,
        header=envelope(header),
        created_at=header.created_at,
    )


def sighting(header: Header, n: int, state: ObjectState, at: datetime, ref: str) -> Sighting:
    """Return the object of submission `n` as a list shows it."""
    running = state is ObjectState.RUNNING
    pending = state is ObjectState.PENDING
    began = None if pending else at - timedelta(seconds=5 if running else 305)
    ended = state in (ObjectState.FAILED, ObjectState.SUCCEEDED)
    return Sighting(
        ref=ref,
        n=n,
        a=1,
        spec_digest=header.spec_digest,
        generation=0,
        state=state,
        cause=Cause.PREEMPTED if state is ObjectState.FAILED else None,
        held=pending,
        nodes=() if pending else ("node-017", "node-018"),
        started_at=began,
        ended_at=at - timedelta(seconds=1) if ended else None,
        reason="Preempted" if state is ObjectState.FAILED else None,
        source="slurmctld",
    )


def ref_of(header: Header, n: int, at: datetime) -> str:
    """Return the identity of submission `n`'s object, another for each job."""
    number = int(header.job_id[1:9], 16) + n
    return f"{header.declarations.cluster}/{number}@{int(at.timestamp())}"


def history(header: Header) -> Iterator[facts.Fact]:
    """Yield what is written about the job, for ever: eight entries a submission."""
    at = header.created_at
    for n in count(1):
        at += timedelta(seconds=60)
        ref = ref_of(header, n, at)
        trigger = "initial" if n == 1 else f"rec:{n - 1}.1"
        cause = None if n == 1 else Cause.PREEMPTED
        yield facts.Authorized(at=at, by=BY, n=n, trigger=trigger, taken_at=at, cause=cause)
        yield facts.Attempt(at=at, by=BY, n=n, a=1, deadline=at + timedelta(seconds=120))
        yield facts.Replied(at=at, by=BY, n=n, a=1, result=ReplyResult.STARTED, ref=ref)
        yield facts.Canonical(at=at, by=BY, n=n, ref=ref)
        yield facts.Released(at=at, by=BY, ref=ref)
        for state, after in (
            (ObjectState.PENDING, 30),
            (ObjectState.RUNNING, 60),
            (ObjectState.FAILED, 300),
        ):
            at += timedelta(seconds=after)
            seen = sighting(header, n, state, at, ref)
            if state is ObjectState.PENDING:
                seen = seen.model_copy(update={"held": False})
            yield facts.Observed(at=at, by=BY, taken_at=at, seen_at=at, objects=(seen,))


def entries_of(header: Header, number: int) -> tuple[Envelope, ...]:
    """Return the first entries of the job's history, as stored."""
    return tuple(envelope(one, "token-0001") for one in islice(history(header), number))


def view_of(number: int, name: str = "fold") -> View:
    """Return a record of so many entries, which folds."""
    header = header_of(name)
    view = View(header.job_id, envelope(header), entries_of(header, number))
    fold(view, T0)
    return view


def batched(entries: Sequence[Envelope], size: int) -> Iterator[tuple[Envelope, ...]]:
    """Yield the entries in commits of at most so many."""
    for start in range(0, len(entries), size):
        yield tuple(entries[start : start + size])
