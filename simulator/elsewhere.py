"""Actors of another configuration: what they declare and plan isn't what was recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dispatch.operator import Operator, Submit
from dispatch.record.header import Declarations, Plan, Rule
from dispatch.record.names import Action, UnmatchedPolicy
from simulator.chance import Chance
from simulator.faults import NoFaults
from simulator.scenario import REQUEST_S, SPEC
from simulator.stage import Actor
from simulator.wire import Wire

if TYPE_CHECKING:
    from simulator.run import Run

SUBMITTED_AGAIN = 0.15
"""How often a client repeats its submission."""

OTHER_PLAN = Plan(default=Rule(action=Action.FAIL), pending_limit_s=1)
"""What a client of another configuration wants: nothing is ever tried again."""


def other_configuration(declared: Declarations) -> Declarations:
    """Return what an actor of another configuration would declare; the record's word goes."""
    return declared.model_copy(
        update={
            "node_loss_window_s": 0,
            "save_window_s": 0,
            "clock_skew_s": 0,
            "call_bound_s": declared.call_bound_s + 500,
            "capabilities": (),
        }
    )


def submit_again(run: Run, chance: Chance) -> None:
    """Let a client of another configuration, now and then, repeat the first submission.

    It changes nothing.
    """
    if not chance.hits(SUBMITTED_AGAIN):
        return
    actor = Actor(run.stage, "client-2")
    wire = Wire(
        actor,
        NoFaults(),
        chance,
        run.watch.flights,
        timeout_s=REQUEST_S,
        landing_s=run.scenario.declared.landing_bound_s,
        unbounded=False,
    )
    operator = Operator(run.store(wire), actor.clock, lambda tries: None)

    def body() -> None:
        before = run.records.read(run.jobs[0]).header
        submitted = operator.submit(
            Submit(
                idempotency_key="job-1",
                spec=SPEC,
                plan=OTHER_PLAN,
                declarations=other_configuration(run.scenario.declared),
                start_retries=0,
                unmatched=UnmatchedPolicy.RETRY,
            ),
            by="ada",
        )
        if submitted.created or submitted.job_id != run.jobs[0]:
            run.watch.fail("I2", "a repeated submission made another job")
        if run.records.read(run.jobs[0]).header != before:
            run.watch.fail("I2", "a repeated submission changed what was recorded")
        run.stage.counts["submitted again with another plan and other declarations"] += 1

    run.stage.spawn(actor, body, chance.span(0, run.scenario.calm_at))
