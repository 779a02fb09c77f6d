"""A settled job again, changed: a new job that supersedes it, since a spec never changes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256

from dispatch import jobfile
from dispatch.api import SubmitRequest
from dispatch.client.calls import Client, Submitted
from dispatch.record.codec import canonical, decode_header
from dispatch.record.header import Header


def again(
    header: Header, changes: Mapping[str, str], *, allow_plain: Sequence[str] = ()
) -> SubmitRequest:
    """Return the request for a job like another, with what is changed in place.

    Args:
        header: The other job's.
        changes: Values by dotted field of a job file, each written as YAML: `{"nodes": "4"}`.
        allow_plain: Variables that may stand in the record though they look like secrets.

    Raises:
        JobFileRefused: A change isn't one; names the field and the reason.
    """
    fields = header.spec.model_dump(mode="json", exclude_none=True)
    fields |= {
        "cluster": header.declarations.cluster,
        "plan": header.plan.model_dump(mode="json", exclude_none=True),
        "start_retries": header.start_retries,
        "unmatched": header.unmatched.value,
    }
    wanted = jobfile.parse(json.dumps(fields), name=header.job_id, changes=changes)
    return SubmitRequest(
        spec=wanted.spec,
        cluster=wanted.cluster or header.declarations.cluster,
        plan=wanted.plan,
        start_retries=wanted.start_retries,
        unmatched=wanted.unmatched,
        supersedes=header.job_id,
        allow_plain=tuple(allow_plain) or None,
    )


def resubmit(
    client: Client,
    job: str,
    changes: Mapping[str, str],
    *,
    key: str | None = None,
    allow_plain: Sequence[str] = (),
) -> Submitted:
    """Submit a settled job anew, with changes, as one that supersedes it.

    Args:
        client: Whom to ask.
        job: The settled job.
        changes: As for `again`; none runs it as it was.
        key: The idempotency key; None makes it of the job and the changes, so that the same said
            twice makes one job.
        allow_plain: As for `again`.

    Raises:
        NotSettled: Something of it may be left; watch it until it is settled.
        JobFileRefused, InvalidRequest, IdempotencyConflict: Nothing was created.
        Unknown: It may exist; say the same again.
    """
    header = decode_header(client.record(job).header, job=job)
    request = again(header, changes, allow_plain=allow_plain)
    digest = sha256(canonical(dict(changes)).encode()).hexdigest()[:16]
    return client.submit(request, key=key or f"again.{job}.{digest}")
