"""What one seed stands for: a cluster, a job and its plan, those who act, and what befalls them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from dispatch.record.header import Declarations, Plan, Rule, Spec
from dispatch.record.names import Action, Capability, Cause, IntentKind, UnmatchedPolicy
from simulator.chance import Chance
from simulator.store import Dialect
from simulator.worlds.rows import Event

_T = TypeVar("_T")

SPEC = Spec(name="train", command=("python", "train.py"), memory_mb_per_node=1000)

REQUEST_S = 10
"""How long a client waits for the answer to one request, seconds."""


class Shape(StrEnum):
    """What kind of cluster."""

    SLURM = "slurm"
    KUBERNETES = "kubernetes"
    TRAINJOB = "trainjob"


BOTH = (Shape.SLURM, Shape.KUBERNETES)
"""The kinds of cluster that are meant where nothing else is said."""


@dataclass(frozen=True, slots=True)
class Happening:
    """One event and when it comes.

    Attributes:
        at: True time.
        event: What.
        seconds: How long it lasts, or how much is lost.
    """

    at: float
    event: Event
    seconds: float


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything that a seed decides before the run begins.

    Attributes:
        shape: What kind of cluster.
        declared: What its adapter declares.
        save_lag_s: How much a crash of the controller loses, at most.
        clock_offset_s: Of the controller's clock.
        start_refusal: How often a Start is refused.
        queue_s: How long an object waits for its place, at most.
        lasting_s: How long a run lasts, at most.
        keeps_evidence: Whether what was deleted stays visible until it is recorded.
        causes_vanish: How often the cause of an end can't be told any more.
        counts_resumes: Whether a resume after a hold of what ran is counted as a restart.
        requeue_guarded: Whether a requeue that comes late leaves a success alone.
        plan: The job's.
        start_retries: Starts allowed beyond the first.
        unmatched: What follows a Start that was never seen.
        offsets: The clocks of the supervisors, one for each.
        pace_s: How long their calls take, at most.
        tick_s: Seconds between their ticks.
        sweeping: Whether they sweep, or take whole passes.
        beat_s: How often a sweep looks closely though nothing seems to have changed.
        fault_rate: How often a call goes wrong.
        calm_at: From when on nothing goes wrong any more.
        intents: How many random intents a person has.
        failing: How often a run fails by itself while things go wrong.
        narrow: Whether only a few calls go wrong, in a few ways.
        kinds: Which intents a person has, each with its weight.
        events: What befalls, each with its weight.
        focus: How often something befalls right where a call is under way or a run has ended.
        requeued_by_site: Whether the scheduler requeues by itself what it can.
        jobs: How many jobs there are.
        dialects: Of which build each supervisor is.
        doubled: Whether all supervisors are one: the same tick, twice.
        hurry: How often a process has hardly any time left.
        paused_until_s: Until when the cluster is paused by hand.
        happenings: What befalls the cluster.
        faulted: The calls that go wrong, where it isn't all of them.
    """

    shape: Shape
    declared: Declarations
    save_lag_s: float
    clock_offset_s: float
    start_refusal: float
    queue_s: float
    lasting_s: float
    requeue_guarded: bool
    keeps_evidence: bool
    causes_vanish: float
    counts_resumes: bool
    plan: Plan
    start_retries: int
    unmatched: UnmatchedPolicy
    offsets: tuple[float, ...]
    pace_s: float
    tick_s: float
    sweeping: bool
    beat_s: int
    fault_rate: float
    calm_at: float
    intents: int
    failing: float
    narrow: bool
    kinds: tuple[tuple[float, IntentKind], ...]
    events: tuple[tuple[float, Event], ...]
    focus: float
    requeued_by_site: bool
    jobs: int
    dialects: tuple[Dialect, ...]
    doubled: bool
    hurry: float
    paused_until_s: float
    happenings: tuple[Happening, ...]
    faulted: frozenset[str] = frozenset()


_SLURM = (Capability.GATED_START, Capability.HOLD_PENDING, Capability.EXIT_CODES)


def slurm(chance: Chance) -> Scenario:
    """Return a scenario on a cluster of Slurm's shape."""
    capabilities = list(_SLURM)
    if chance.hits(0.6):
        capabilities.append(Capability.LOOKUP)
    in_place = chance.hits(0.5)
    if in_place:
        capabilities += [Capability.REQUEUE_LIVE, Capability.REQUEUE_ENDED]
        if chance.hits(0.3):
            capabilities.append(Capability.HOLD_RUNNING)
    skew = chance.pick((1, 2, 5))
    save_lag = chance.pick((0, 5, 10))
    landing = chance.pick((5, 20, 60))
    declared = Declarations(
        adapter="slurm",
        cluster="hpc",
        capabilities=tuple(capabilities),
        node_loss_window_s=chance.pick((40, 120)),
        call_bound_s=10 + landing + chance.pick((5, 30)),
        landing_bound_s=landing,
        request_timeout_s=10,
        retention_s=chance.pick((60, 300)),
        save_window_s=save_lag + skew,
        clock_skew_s=skew,
        lookup_lag_s=chance.pick((0, 0, 10, 150)),
    )
    return _rest(chance, Shape.SLURM, declared, float(save_lag), in_place)


def kubernetes(chance: Chance) -> Scenario:
    """Return a scenario on a cluster of Kubernetes' shape; Kueue rules some of them."""
    capabilities = [Capability.UNIQUE_NAMES, Capability.EXIT_CODES]
    if chance.hits(0.85):
        capabilities += [Capability.GATED_START, Capability.HOLD_PENDING]
        if chance.hits(0.8):
            # Taken back where nothing is kept: see `_told_of_losses`.
            capabilities.append(Capability.HOLD_RUNNING)
        if chance.hits(0.6):
            capabilities.append(Capability.REQUEUE_LIVE)
    skew = chance.pick((1, 2, 5))
    save_lag = chance.pick((0, 0, 0, 5))
    landing = chance.pick((5, 20, 60))
    # A requeue is two requests with a wait between them.
    whole = 2 * REQUEST_S + 10
    declared = Declarations(
        adapter="eks",
        cluster="eks",
        capabilities=tuple(capabilities),
        node_loss_window_s=chance.pick((40, 120)),
        call_bound_s=whole + landing + chance.pick((5, 30)),
        landing_bound_s=landing,
        request_timeout_s=whole,
        retention_s=chance.pick((60, 300)),
        save_window_s=save_lag + skew,
        clock_skew_s=skew,
    )
    in_place = declared.can(Capability.REQUEUE_LIVE)
    return _told_of_losses(_rest(chance, Shape.KUBERNETES, declared, float(save_lag), in_place))


def _told_of_losses(scenario: Scenario) -> Scenario:
    """Return the scenario without holds of what runs where no pod is kept (ADR 19).

    What is suspended and shows no pod tells of no node that was lost meanwhile.
    """
    if scenario.keeps_evidence:
        return scenario
    left = tuple(one for one in scenario.declared.capabilities if one != Capability.HOLD_RUNNING)
    declared = scenario.declared.model_copy(update={"capabilities": left})
    return replace(scenario, declared=declared)


def trainjob(chance: Chance) -> Scenario:
    """Return a scenario on a cluster of Kubernetes' shape whose objects are TrainJobs.

    Its supervisors sweep: only a sweep lets go of the runs before, which a restart waits for.
    """
    return replace(kubernetes(chance), shape=Shape.TRAINJOB, sweeping=True)


SHAPES = {Shape.SLURM: slurm, Shape.KUBERNETES: kubernetes, Shape.TRAINJOB: trainjob}


def _rest(
    chance: Chance, shape: Shape, declared: Declarations, save_lag: float, in_place: bool
) -> Scenario:
    half = max(0.0, (declared.clock_skew_s - 1) / 2)
    calm_at = chance.span(60, 350)
    narrow = chance.hits(0.5)
    jobs = chance.weighted(((44, 1), (4, 2), (2, 9)))
    events = _some(chance, _EVENTS if shape is Shape.SLURM else _KUBERNETES_EVENTS)
    if jobs >= 7:
        events = (*events, (2, Event.LIE))
    supervisors = chance.weighted(((5, 1), (4, 2), (1, 3)))
    return Scenario(
        shape=shape,
        declared=declared,
        save_lag_s=save_lag,
        clock_offset_s=chance.span(-half, half),
        start_refusal=chance.pick((0.0, 0.0, 0.2)),
        queue_s=chance.pick((2.0, 30.0)),
        lasting_s=chance.pick((15.0, 90.0)),
        requeue_guarded=chance.hits(0.5),
        keeps_evidence=shape is Shape.KUBERNETES and chance.hits(0.5),
        causes_vanish=chance.pick((0.0, 0.5)),
        counts_resumes=shape is Shape.KUBERNETES and chance.hits(0.5),
        plan=_plan(chance, in_place),
        start_retries=chance.pick((0, 1, 2)),
        unmatched=UnmatchedPolicy.MANUAL if chance.hits(0.15) else UnmatchedPolicy.RETRY,
        offsets=tuple(chance.span(-half, half) for _ in range(supervisors)),
        pace_s=chance.pick((0.1, 0.5, 3.0)),
        tick_s=chance.pick((6.0, 15.0, 40.0)),
        sweeping=jobs >= 7 or chance.hits(0.6),
        beat_s=chance.pick((30, 600)),
        fault_rate=chance.pick((0.1, 0.3, 0.6) if narrow else (0.0, 0.03, 0.1, 0.2)),
        calm_at=calm_at,
        intents=chance.weighted(((5, 0), (3, 1), (2, 2), (1, 4))),
        failing=chance.pick((0.0, 0.3, 0.9)),
        narrow=narrow,
        kinds=_some(chance, _INTENTS),
        events=events,
        focus=chance.pick((0.0, 0.2, 0.5)),
        requeued_by_site=in_place and chance.hits(0.5),
        jobs=jobs,
        dialects=chance.weighted(
            ((9, (Dialect.OWN,)), (1, (Dialect.NEWER, Dialect.OLDER)), (0.5, (Dialect.NEWER,)))
        ),
        doubled=chance.hits(0.1),
        hurry=chance.pick((0.0, 0.0, 0.0, 0.1)),
        paused_until_s=chance.weighted(((19, 0.0), (1, calm_at / 2))),
        happenings=_happenings(chance, calm_at, save_lag, events),
    )


LEANS = 0.15
"""How many scenarios are made for what is rare in the others."""

_RARE = frozenset({"hold", "requeue"})


def leaning(scenario: Scenario, chance: Chance) -> Scenario:
    """Return the scenario, or, now and then, one made for what is rare in the others."""
    if not chance.hits(LEANS):
        return scenario
    return _together(scenario) if chance.hits(0.15) else _in_place(scenario, chance)


def _in_place(scenario: Scenario, chance: Chance) -> Scenario:
    """Return one in which holds and requeues come often, and go wrong."""
    capabilities = [Capability.GATED_START, Capability.HOLD_PENDING, Capability.EXIT_CODES]
    capabilities.append(Capability.REQUEUE_LIVE)
    if scenario.shape is not Shape.SLURM:
        capabilities.append(Capability.UNIQUE_NAMES)
        if scenario.keeps_evidence:
            capabilities.append(Capability.HOLD_RUNNING)
    else:
        capabilities.append(Capability.REQUEUE_ENDED)
        rest = (Capability.HOLD_RUNNING, Capability.LOOKUP)
        capabilities += [one for one in rest if chance.hits(0.6)]
    again = Rule(
        action=Action.REQUEUE,
        limit=3,
        after_limit=chance.pick((Action.HOLD, Action.FAIL)),
        in_place=True,
    )
    declared = scenario.declared.model_copy(update={"capabilities": tuple(capabilities)})
    kinds = (IntentKind.HOLD, IntentKind.RELEASE, IntentKind.REQUEUE, IntentKind.CANCEL)
    return replace(
        scenario,
        declared=declared,
        plan=Plan(default=again, start_backoff_s=0),
        queue_s=chance.pick((2.0, 30.0)),
        lasting_s=300.0,
        tick_s=6.0,
        failing=chance.pick((0.3, 0.9)),
        intents=6,
        kinds=tuple(zip((3, 3, 3, 0.3), kinds, strict=True)),
        fault_rate=0.5,
        narrow=False,
        faulted=chance.pick((_RARE, _RARE | {"commit", "release"})),
    )


def _together(scenario: Scenario) -> Scenario:
    """Return one in which many jobs run at once, so that a whole list can lie."""
    return replace(
        scenario,
        jobs=10,
        sweeping=True,
        beat_s=30,
        tick_s=6.0,
        queue_s=2.0,
        lasting_s=600.0,
        failing=0.0,
        fault_rate=min(scenario.fault_rate, 0.1),
        intents=min(scenario.intents, 1),
    )


def _plan(chance: Chance, in_place: bool) -> Plan:
    def rule() -> Rule:
        action = chance.weighted(
            (
                (4, Action.RESUBMIT),
                (3, Action.REQUEUE),
                (2, Action.HOLD),
                (1, Action.FAIL),
            )
        )
        return Rule(
            action=action,
            limit=chance.count(0, 3),
            after_limit=chance.pick((Action.HOLD, Action.FAIL)),
            backoff_s=chance.pick((0, 0, 20)),
            in_place=in_place and chance.hits(0.7),
            memory_factor=chance.pick((None, 1.5)),
            avoid_node=chance.hits(0.3),
        )

    return Plan(
        default=rule(),
        causes={
            cause: rule()
            for cause in (Cause.PREEMPTED, Cause.NODE_LOST, Cause.APP_ERROR)
            if chance.hits(0.5)
        },
        pending_limit_s=chance.pick((None, 120)),
        start_backoff_s=chance.pick((0, 10)),
    )


_EVENTS = (
    (3, Event.PREEMPT),
    (3, Event.LOSE_NODE),
    (2, Event.CUT_NODE),
    (1, Event.CANCEL),
    (1, Event.HOLD),
    (2, Event.REQUEUE),
    (1, Event.WAIT),
    (3, Event.CRASH),
    (0.5, Event.FOREIGN),
    (1, Event.STRANGER),
    (0.5, Event.STUCK),
)


_KUBERNETES_EVENTS = (*_EVENTS, (1, Event.RESTORE))


_INTENTS = (
    (3, IntentKind.CANCEL),
    (3, IntentKind.HOLD),
    (3, IntentKind.RELEASE),
    (3, IntentKind.REQUEUE),
    (2, IntentKind.RESUBMIT),
    (1, IntentKind.GIVE_UP),
    (1, IntentKind.ABANDON),
)


def _some(chance: Chance, options: tuple[tuple[float, _T], ...]) -> tuple[tuple[float, _T], ...]:
    """Return all of the options, or a few: what happens alone happens more often."""
    if chance.hits(0.5):
        return options
    return tuple(one for one in options if chance.hits(0.3)) or options


def _happenings(
    chance: Chance, calm_at: float, save_lag: float, events: tuple[tuple[float, Event], ...]
) -> tuple[Happening, ...]:
    found = [
        happening(chance, events, chance.span(1, calm_at), save_lag)
        for _ in range(chance.weighted(((2, 0), (3, 1), (3, 2), (2, 4), (1, 8))))
    ]
    return tuple(sorted(found, key=lambda one: one.at))


def happening(
    chance: Chance, events: tuple[tuple[float, Event], ...], at: float, save_lag: float
) -> Happening:
    """Return something that befalls at a time."""
    event = chance.weighted(events)
    most = save_lag if event is Event.CRASH else 40.0
    return Happening(at, event, chance.span(0, most))
