"""Small true records and entries, for the tests of stores."""

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from uuid import uuid4

from dispatch.record.codec import envelope, spec_digest
from dispatch.record.control import Control
from dispatch.record.fact import FACT_SCHEMA, Escalated, OutcomeFact
from dispatch.record.header import Declarations, Header, Plan, Rule, Spec
from dispatch.record.names import Action, IntentKind, Outcome
from dispatch.record.view import Envelope
from dispatch.store.records import NewRecord

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def token() -> str:
    return uuid4().hex


def new_record(
    name: str = "a", *, cluster: str = "alpha", minutes: int = 0, command: str = "true"
) -> NewRecord:
    """A record whose key and id derive from its name, and whose digest from its command."""
    key = f"key-{name}"
    spec = Spec(name="sample", command=(command,))
    header = Header(
        job_id="j" + sha256(key.encode()).hexdigest()[:20],
        idempotency_key=key,
        spec=spec,
        spec_digest=spec_digest(spec),
        plan=Plan(default=Rule(action=Action.HOLD)),
        declarations=Declarations(
            adapter="local",
            cluster=cluster,
            node_loss_window_s=0,
            call_bound_s=10,
            landing_bound_s=1,
            request_timeout_s=5,
            retention_s=3600,
        ),
        created_by="ada",
        created_at=NOW + timedelta(minutes=minutes),
    )
    return NewRecord(
        job_id=header.job_id,
        idempotency_key=key,
        spec_digest=header.spec_digest,
        cluster=cluster,
        header=envelope(header),
        created_at=header.created_at,
    )


def evidence(key: str = "k", at: datetime = NOW) -> Envelope:
    return envelope(Escalated(at=at, by="supervisor", key=key, code="sample", detail="looked"))


def succeeded(at: datetime = NOW) -> Envelope:
    return envelope(OutcomeFact(at=at, by="supervisor", state=Outcome.SUCCEEDED))


def padded(size: int) -> Envelope:
    """A fact's envelope whose body has exactly this many bytes."""
    return Envelope(FACT_SCHEMA, '"' + "x" * (size - 2) + '"')


def cancel(intent_id: str = "c-1", reason: str | None = None) -> Control:
    return Control(kind=IntentKind.CANCEL, id=intent_id, by="ada", at=NOW, reason=reason)
