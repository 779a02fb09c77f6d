"""A typed client of the HTTP API: signs, submits idempotently, and raises the API's own errors.

    with Client("http://127.0.0.1:8180") as client:
        job = client.submit(SubmitRequest(spec=spec, cluster="local"))
        status = client.wait(job.job_id)

Every call has an explicit time-out. What may be repeated without harm is: questions, a submit (it
has a key), an intent (it has an id) and a tombstone. Nothing else is sent here.
"""

from __future__ import annotations

from dispatch.client.auth import Bearer, SigV4
from dispatch.client.calls import Client, Submitted, Until, asks, new_key, over, settled
from dispatch.client.failures import (
    BadAnswer,
    ServerFailed,
    Unanswered,
    Unreachable,
    WaitedTooLong,
)
from dispatch.client.transport import Patience

__all__ = [
    "BadAnswer",
    "Bearer",
    "Client",
    "Patience",
    "ServerFailed",
    "SigV4",
    "Submitted",
    "Unanswered",
    "Unreachable",
    "Until",
    "WaitedTooLong",
    "asks",
    "new_key",
    "over",
    "settled",
]
