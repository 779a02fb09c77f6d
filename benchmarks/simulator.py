"""Seeds a second and core: how many whole runs of one job the simulator plays."""

from __future__ import annotations

from statistics import median
from time import process_time

from benchmarks.figures import Effort, Figure, Told, at_least
from simulator.run import Run
from simulator.scenario import Shape

AIM = 100.0
WHY = (
    "every run takes the real fold, next and supervisor through its passes: a third of it is"
    " deciding, nearly all of that next_steps; parts of a job made anew are a seventh. Fewer"
    " whole evaluations of next in one decision would mend a part"
)


def measure(effort: Effort) -> list[Told]:
    """Return the rate of each shape of cluster, in seconds of the processor."""
    return [_rate(shape, effort) for shape in Shape]


def _rate(shape: Shape, effort: Effort) -> Figure:
    seeds, rounds = effort.of(60, 20), effort.of(5, 3)
    rates = []
    for number in range(rounds):
        began = process_time()
        for seed in range(number * seeds, (number + 1) * seeds):
            Run(seed, shape).play()
        rates.append(seeds / (process_time() - began))
    return Figure(
        f"one-job runs of {shape.value} a second and core",
        "one a second",
        median(rates),
        at_least(AIM),
        WHY,
        {"seeds": seeds * rounds, "rates": rates},
    )
