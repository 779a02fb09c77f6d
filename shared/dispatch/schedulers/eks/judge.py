"""One reading of all that a look gathered about an object, whatever its shape."""

from __future__ import annotations

from dispatch.schedulers.eks.ranks import Reading
from dispatch.schedulers.eks.train_verdict import read_train
from dispatch.schedulers.eks.verdict import Evidence, read_job_object


def read_object(evidence: Evidence) -> Reading:
    """Return what an attempt's object and its pods show."""
    if evidence.train is not None:
        return read_train(evidence, evidence.train)
    return read_job_object(evidence)
