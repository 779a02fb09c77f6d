"""What befalls in the seeds is counted where it strikes, and what never comes is said."""

from __future__ import annotations

import pytest

from scripts.proof import put
from simulator.batch import play
from simulator.census import LINES, Census
from simulator.chance import Chance
from simulator.command import main
from simulator.faults import MENUS, Fault
from simulator.scenario import BOTH, SHAPES, Shape, leaning

COMMON = (
    "a call lands late, within its bound or beyond",
    "two supervisors' passes over one job overlap",
    "the same tick comes twice",
    "a process freezes for 15 minutes and goes on",
    "clocks differ, within the declared skew",
    "a pass by another configuration",
    "submitted again with another plan and other declarations",
    "a person's random intent",
    "an ended job is requeued by somebody else",
    "a controller crashes and loses its last seconds",
)


def census(seeds: int) -> Census:
    counted = Census()
    for shape in BOTH:
        for seed in range(seeds):
            counted.add(shape, play(seed, shape).counts)
    return counted


def test_what_is_common_comes_within_sixty_seeds_of_each_shape() -> None:
    counted = census(60)
    lines = {line.what: line for line in LINES}
    assert [
        (what, shape) for what in COMMON for shape in BOTH if not counted.times(lines[what], shape)
    ] == []
    for call in ("read", "find", "commit", "start"):
        for fault in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER):
            assert counted.of_calls(call, fault), (call, fault)


def test_what_never_came_is_said_by_name() -> None:
    counted = Census()
    counted.add(Shape.KUBERNETES, {})
    counted.add(Shape.SLURM, {"preempted": 2, "find: refused": 1, "start: refused": 0})
    missing = counted.missing()
    assert "preempted (slurm)" not in missing
    assert "preempted (kubernetes)" in missing
    assert "a job that was accepted vanishes (kubernetes)" not in missing
    assert f"requeue: {Fault.LOST.value}" in missing
    assert any(line.startswith("preempted") and "2 (1)" in line for line in counted.table())


def test_every_line_says_something_of_its_own() -> None:
    assert len({line.what for line in LINES}) == len(LINES)
    assert all(fault in {one for menu in MENUS.values() for _, one in menu} or fault is Fault.TWICE
               for fault in Fault)  # fmt: skip


@pytest.mark.parametrize("shape", list(Shape))
def test_some_scenarios_lean_towards_what_is_rare(shape: Shape) -> None:
    leant = []
    for seed in range(300):
        plain = SHAPES[shape](Chance(seed))
        leant.append((plain, leaning(plain, Chance(f"lean/{seed}"))))
    assert any(after is before for before, after in leant)
    assert any(after.faulted for _, after in leant)
    assert any(after.jobs > before.jobs and not after.faulted for before, after in leant)


def test_the_command_prints_the_census(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "4", "--start", "1", "--jobs", "1", "--census"]) == 0
    out = capsys.readouterr().out
    assert "how often a call met a fault" in out
    assert "what befell, times (seeds)" in out
    assert "never came: " in out


PAGE = """# Proof

## Seeds
`dispatch simulate --seeds 8`, on two cores:

```text
old
```

## Other
`dispatch simulate --x`

```text
kept
```
"""


def test_a_part_of_the_proof_is_put_in_its_place() -> None:
    page = put(PAGE, "Seeds", "dispatch simulate --seeds 9", "new\nlines\n")
    assert "`dispatch simulate --seeds 9`, on two cores:\n\n```text\nnew\nlines\n```\n" in page
    assert "old" not in page
    assert page.endswith("```text\nkept\n```\n")
    with pytest.raises(ValueError, match="Nothing"):
        put(PAGE, "Nothing", "dispatch simulate", "")
