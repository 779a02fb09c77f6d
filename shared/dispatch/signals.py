"""What a deployment measures of itself: the names of log signals and metrics. Pure.

A signal is the field `signal` of a log line, on which alarms are raised; the metric of the same
name tells of which cluster. docs/reference/metrics.md says what each means.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol


class Signal(StrEnum):
    """What a log line, or a metric, tells of."""

    TICK = "tick"
    CLUSTER_UNREACHABLE = "cluster_unreachable"
    OWN_OUTAGE = "own_outage"
    MASS_LOSS = "mass_loss"
    ESCALATION_OPEN = "escalation_open"
    RECORD_REFUSED = "record_refused"
    STORE_TROUBLE = "store_trouble"
    CLUSTERS_REFUSED = "clusters_refused"
    WITHHELD = "withheld"
    LEASE_HELD = "lease_held"
    ACCESS_REFUSED = "access_refused"
    SECRET_INSISTED = "secret_insisted"  # noqa: S105 - a name, no secret
    LOSS_ACCEPTED = "loss_accepted"

    @property
    def metric(self) -> str:
        """The metric's name: `ClusterUnreachable` for `cluster_unreachable`."""
        return "".join(part.capitalize() for part in self.value.split("_"))

    @property
    def extra(self) -> dict[str, str]:
        """What a log line bears that tells of it."""
        return {"signal": self.value}


class Meter(Protocol):
    """Where metrics go."""

    def __call__(self, signal: Signal, value: int, cluster: str | None = None) -> None:
        """Count or gauge something once, of a cluster or of the whole."""
        ...


def unmeasured(signal: Signal, value: int, cluster: str | None = None) -> None:
    """Measure nothing: for a stack that nobody collects metrics of."""
