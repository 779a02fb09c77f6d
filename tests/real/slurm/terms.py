"""What a chaos runs with: what is declared, what plans say, and what its jobs do."""

from __future__ import annotations

from dispatch.record.header import Plan, Rule
from dispatch.record.names import Action, Cause
from dispatch.schedulers.slurm.settings import Bounds

MIN_JOB_AGE_S = 5
CUT_OFF_S = 45.0
"""How long a node is cut off: Slurm gives it up after 27 to 30 s."""

BOUNDS = Bounds(
    request_timeout_s=25,
    landing_bound_s=4,
    call_bound_s=30,
    retention_s=MIN_JOB_AGE_S,
    save_window_s=12,
    node_loss_window_s=40,
    clock_skew_s=1,
    lookup_lag_s=30,
)
PATIENT = Plan(
    default=Rule(action=Action.RESUBMIT, limit=100),
    causes={Cause.APP_ERROR: Rule(action=Action.FAIL)},
    start_backoff_s=1,
)
FORGIVING = Plan(default=Rule(action=Action.RESUBMIT, limit=100), start_backoff_s=1)
KINDS = ("good", "good", "good", "good", "flaky", "bad", "stubborn")
"""What jobs do: they succeed; fail once; always fail; or run until they are cancelled."""
