"""A typed client of the HTTP API: signs, submits idempotently, and raises the API's own errors.

    with Client("http://127.0.0.1:8180") as client:
        job = client.submit(SubmitRequest(spec=spec, cluster="local"))
        status = client.wait(job.job_id)

Many jobs at once are chosen with `select` and told with `intend_each`; `resubmit` runs a settled
job anew, changed. Every call has an explicit time-out. What may be repeated without harm is:
questions, a submit (it has a key), an intent (it has an id) and a tombstone. Nothing else is sent.
"""

from __future__ import annotations

from dispatch.client.again import resubmit
from dispatch.client.auth import Bearer, SigV4
from dispatch.client.calls import Client, Submitted, new_key
from dispatch.client.failures import (
    BadAnswer,
    ServerFailed,
    Unanswered,
    Unreachable,
    WaitedTooLong,
)
from dispatch.client.goals import Until, asks, over, settled
from dispatch.client.many import Choice, Read, Told, intend_each, records_between, select
from dispatch.client.transport import Patience

__all__ = [
    "BadAnswer",
    "Bearer",
    "Choice",
    "Client",
    "Patience",
    "Read",
    "ServerFailed",
    "SigV4",
    "Submitted",
    "Told",
    "Unanswered",
    "Unreachable",
    "Until",
    "WaitedTooLong",
    "asks",
    "intend_each",
    "new_key",
    "over",
    "records_between",
    "resubmit",
    "select",
    "settled",
]
