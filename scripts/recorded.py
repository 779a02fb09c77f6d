"""The incidents of a real cluster: records that are kept as they were exported."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Recorded:
    """One record of a real cluster, kept as it was exported, and when somebody asks about it.

    Attributes:
        name: Of its files.
        asked: What somebody asks.
        later_s: How long after its last entry it is asked.
    """

    name: str
    asked: str
    later_s: int = 60


# Exported by tests/real/slurm/test_incidents.py, from a Slurm 24.11 with accounting.
RECORDED = (
    Recorded(
        "slurm-held-by-an-admin", "It won't start, and nobody told me why. Who holds it?", 900
    ),
    Recorded("slurm-node-down", "Its node has no power. Why isn't it started elsewhere?", 120),
    Recorded("slurm-cancelled-by-root", "It ran, and somebody ended it. Who was that?", 600),
    Recorded(
        "slurm-submit-lost-in-a-crash",
        "slurmctld died just when we submitted. Is it there twice, or not at all?",
        30,
    ),
    Recorded("slurm-out-of-memory", "It ended with no line in its log. What was it?", 600),
    Recorded(
        "slurm-purged-before-it-was-seen",
        "squeue has never heard of it. Did it run at all?",
        30,
    ),
)
