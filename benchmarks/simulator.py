"""Seeds a second and core: how many whole runs of one job the simulator plays."""

from __future__ import annotations

from itertools import count, islice
from statistics import median
from time import process_time

from benchmarks.figures import Effort, Figure, Told, at_least
from simulator.batch import seldom_collected
from simulator.run import Run
from simulator.scenario import Shape

AIM = 100.0
WHY = (
    "every run takes the real codec, fold, next and supervisor through its passes, and a busy"
    " neighbour on the core makes a second of the processor worth less. A profile is flat: a fifth"
    " is deciding, a sixth encoding and decoding, a quarter the simulated world and its judge"
)


def measure(effort: Effort) -> list[Told]:
    """Return the rate of each shape of cluster, in seconds of the processor."""
    with seldom_collected():  # as the command plays them
        return [_rate(shape, effort) for shape in Shape]


def _rate(shape: Shape, effort: Effort) -> Figure:
    seeds, rounds = effort.of(60, 20), effort.of(5, 3)
    rates, steps = [], 0
    of_one_job = (seed for seed in count() if Run(seed, shape).scenario.jobs == 1)
    for _ in range(rounds):
        chosen = [*islice(of_one_job, seeds)]
        began = process_time()
        for seed in chosen:
            run = Run(seed, shape)
            run.play()
            steps += run.stage.step
        rates.append(seeds / (process_time() - began))
    return Figure(
        f"one-job runs of {shape.value} a second and core",
        "one a second",
        median(rates),
        at_least(AIM),
        WHY,
        {"seeds": seeds * rounds, "rates": rates, "steps_a_run": steps / seeds / rounds},
    )
