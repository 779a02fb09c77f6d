"""`dispatch simulate`: play seeds, revert rules, replay a seed as a story, or test a plan."""

from __future__ import annotations

import json
import os
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from datetime import UTC
from pathlib import Path
from random import SystemRandom

import yaml
from pydantic import ValidationError

from dispatch.narrate.history import history
from dispatch.narrate.words import Reader
from dispatch.record.header import Plan
from simulator.batch import Played, Sum, many, named
from simulator.corner import walk
from simulator.mutants import MUTANTS, Mutant, applied
from simulator.run import Run
from simulator.scenario import BOTH, Shape
from simulator.stage import Halted, instant
from simulator.stories import STORIES
from simulator.watch import Violation

ALL_SWITCHES = 1000
"""More than two passes have calls."""

EXHAUSTIVE_PAIRED = 8
"""Among so many first calls every pair of faults is played."""

STORIES_SHOWN = 3
"""Failing seeds whose story is told with --explain."""

PROGRESS_EVERY_S = 5.0


def main(argv: Sequence[str]) -> int:
    """Run the command; 0 if no rule was broken (with --mutant: if each was found), else 1, or 2."""
    arguments = _parser().parse_args(list(argv))
    try:
        plan = _plan(arguments.plan)
        if arguments.mutant not in (None, "all"):
            named(arguments.mutant)
    except KeyError:
        names = ", ".join(one.name for one in MUTANTS)
        print(f"there is no mutant {arguments.mutant!r}; there are: {names}", file=sys.stderr)
        return 2
    except ValueError as error:
        print(f"{arguments.plan}: {error}", file=sys.stderr)
        return 2
    if arguments.start is None:
        arguments.start = SystemRandom().randrange(1, 2**40)
    if arguments.stop_at is not None:
        return _stop_at(arguments, plan)
    if arguments.mutant is not None:
        return _hunt(arguments)
    if arguments.exhaustive:
        return _walk(arguments)
    return _prove(arguments, plan)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="dispatch simulate",
        description="Play random worlds that fail in every way against the real core, supervisor "
        "and operator, and check after every step that no job runs twice, is lost or misreported.",
    )
    parser.add_argument("--seeds", type=_positive, default=1000, help="how many (default 1000)")
    parser.add_argument("--start", type=int, help="the first seed (default: a fresh one)")
    parser.add_argument(
        "--shape",
        choices=[*(one.value for one in Shape), "both", "all"],
        default="both",
        help="of cluster",
    )
    parser.add_argument(
        "--jobs",
        type=_positive,
        default=os.cpu_count() or 1,
        help="processes (default: one for each core)",
    )
    parser.add_argument(
        "--mutant", help="revert this rule and count the seeds until it is missed; or `all`"
    )
    parser.add_argument(
        "--exhaustive",
        action="store_true",
        help="walk every fault at every place of one job's life, and every pair at the first ones",
    )
    parser.add_argument(
        "--switches",
        type=_positive,
        default=ALL_SWITCHES,
        help="with --exhaustive: how often two supervisors' passes change over, at most "
        "(default: every way there is)",
    )
    parser.add_argument(
        "--explain", action="store_true", help="tell a failing seed, or a single one, as a story"
    )
    parser.add_argument(
        "--stop-at", type=_positive, metavar="STEP", help="stop one seed there and show everything"
    )
    parser.add_argument(
        "--plan", type=Path, help="a plan, or a job file with one, to test (YAML or JSON)"
    )
    parser.add_argument(
        "--census", action="store_true", help="say how often each fault came, and what never did"
    )
    parser.add_argument("--json", action="store_true", help="print the sum as JSON")
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def _plan(path: Path | None) -> Plan | None:
    """Return the plan in a file.

    Raises:
        ValueError: It can't be read, or has no plan, or not one that this build knows.
    """
    if path is None:
        return None
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(str(error)) from None
    if isinstance(content, dict) and "plan" in content:
        content = content["plan"]
    try:
        return Plan.model_validate_json(json.dumps(content))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "plan"
        raise ValueError(f"field {field!r}: {first['msg']}") from None


def _shapes(arguments: Namespace) -> list[Shape]:
    several = {"both": list(BOTH), "all": list(Shape)}
    return several.get(arguments.shape) or [Shape(arguments.shape)]


def _prove(arguments: Namespace, plan: Plan | None) -> int:
    start, count = arguments.start, arguments.seeds
    shapes = _shapes(arguments)
    each = max(1, count // len(shapes))
    total, began = Sum(), time.monotonic()
    progress = _Progress(each * len(shapes))
    played = many(range(start, start + each), shapes, processes=arguments.jobs, plan=plan)
    for one in played:
        total.add(one)
        progress.at(total, one)
    seconds = time.monotonic() - began
    if arguments.json:
        print(json.dumps(_as_data(total, start)))
    else:
        _print_sum(total, start, seconds, arguments.jobs, plan)
        if arguments.census:
            print("", *total.census.table(), sep="\n")
    if arguments.explain and total.broken:
        for one in total.broken[:STORIES_SHOWN]:
            _tell(one.seed, one.shape, plan)
    elif arguments.explain and count == 1:
        for shape in shapes:
            _tell(start, shape, plan)
    return 1 if total.broken else 0


def _as_data(total: Sum, start: int) -> dict[str, object]:
    return {
        "start": start,
        "seeds": {shape.value: count for shape, count in total.seeds.items()},
        "steps": total.steps,
        "outcomes": dict(total.outcomes),
        "submissions": total.submissions,
        "runs": total.runs,
        "lost_s": round(total.lost_s),
        "escalations": total.escalations,
        "broken": [
            {"seed": one.seed, "shape": one.shape, "rule": one.broken} for one in total.broken
        ],
    }


def _print_sum(total: Sum, start: int, seconds: float, processes: int, plan: Plan | None) -> None:
    shapes = ", ".join(f"{count:,} {shape}" for shape, count in sorted(total.seeds.items()))
    rate = total.played / seconds / processes if seconds else 0.0
    print(f"{total.played:,} seeds from {start} on ({shapes}), {total.steps:,} steps")
    print(f"{seconds:,.0f} s with {processes} processes: {rate:,.0f} seeds a second and process")
    ends = ", ".join(f"{count:,} {name}" for name, count in total.outcomes.most_common())
    print(f"outcomes: {ends or 'none'}")
    label = "your plan" if plan is not None else "random plans"
    good = max(1, total.played - len(total.broken))
    print(
        f"with {label}, a job took on average {total.submissions / good:.2f} submissions and "
        f"{total.runs / good:.2f} runs, lost {total.lost_s / good / 3600:.4f} hours of runs that "
        f"didn't succeed, and asked a person {total.escalations / good:.2f} times"
    )
    print(f"violations: {len(total.broken)}")
    for one in total.broken[:20]:
        print(f"  {one.shape} seed {one.seed}: {one.broken}")
        print(
            f"    again: dispatch simulate --shape {one.shape} --start {one.seed} "
            "--seeds 1 --explain"
        )


def _hunt(arguments: Namespace) -> int:
    """Revert rules, and count the seeds until each is missed."""
    mutants = [one for one in MUTANTS if arguments.mutant in ("all", one.name)]
    start, count = arguments.start, arguments.seeds
    shapes = _shapes(arguments)
    missing = 0
    print(f"{'mutant':<34} {'found by':<38} after")
    for mutant in mutants:
        tried, found = 0, None
        for one in many(
            range(start, start + count),
            shapes,
            processes=arguments.jobs,
            mutant=mutant.name,
        ):
            tried += 1
            if one.broken is not None:
                found = one
                break
        if found is None:
            by_story = _missed_by_a_story(mutant)
            missing += by_story is None
            print(f"{mutant.name:<34} {by_story or 'nothing':<50} {tried:,} seeds without")
            continue
        rule = (found.broken or "").split(":")[0]
        print(
            f"{mutant.name:<34} {rule + f' ({found.shape} seed {found.seed})':<38} {tried:,} seeds"
        )
        if arguments.explain:
            with applied(mutant):
                _tell(found.seed, found.shape, None)
    return 1 if missing else 0


def _missed_by_a_story(mutant: Mutant) -> str | None:
    """Return which story breaks a rule once this one is reverted."""
    with applied(mutant):
        for story in STORIES:
            try:
                story.play()
            except Exception as error:  # noqa: BLE001 - a reverted rule may break anything
                rule = str(error).split(":")[0] if isinstance(error, Violation) else "error"
                return f"{rule} ({story.name})"
    return None


def _walk(arguments: Namespace) -> int:
    """Walk the exhaustive corner, and say how many states it has."""
    for shape in _shapes(arguments):
        try:
            walked = walk(shape, paired=EXHAUSTIVE_PAIRED, switches=arguments.switches, across=True)
        except Violation as violation:
            print(f"{shape}: BROKEN {violation}")
            return 1
        most = "" if arguments.switches == ALL_SWITCHES else f" with {arguments.switches} switches"
        print(
            f"{shape}: {walked.runs:,} lives, {walked.states:,} states, 0 violations; two passes "
            f"lie across each other in {walked.interleavings:,} ways{most}"
        )
    return 0


def _tell(seed: int, shape: Shape, plan: Plan | None) -> None:
    run = Run(seed, shape, tell=True, plan=plan)
    end = "nothing was broken"
    try:
        run.play()
    except Violation as violation:
        end = f"BROKEN {violation}"
    print(f"\n--- {shape} seed {seed}")
    for line in run.stage.told or ():
        print(line)
    print(f"--- {end}")


def _stop_at(arguments: Namespace, plan: Plan | None) -> int:
    """Play one seed up to a step, and show the record, the world and the calls on their way."""
    if arguments.shape in ("both", "all"):
        print("--stop-at needs --shape", file=sys.stderr)
        return 2
    run = Run(
        arguments.start, Shape(arguments.shape), tell=True, halt_at=arguments.stop_at, plan=plan
    )
    try:
        run.play()
    except Halted:
        pass
    except Violation as violation:
        print(f"BROKEN {violation}")
    for line in run.stage.told or ():
        print(line)
    print(f"\nstopped at step {run.stage.step}, {run.stage.now:.1f} s")
    for job_id in run.jobs:
        print(f"\nrecord of {job_id}")
        for entry in history(run.records.read(job_id), Reader(instant(run.stage.now), UTC)).lines:
            why = f"  ({entry.why})" if entry.why else ""
            print(f"  {entry.entry:>4}  {entry.by or '':<14} {entry.what}{why}")
    print("\nworld")
    for row in run.world.rows.values():
        print(f"  {row}")
    print("\ncalls on their way")
    for flight in run.watch.flights.under_way:
        print(f"  {flight}")
    return 0


class _Progress:
    """Says at once what was broken, and on a terminal how far it is."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._next = time.monotonic() + PROGRESS_EVERY_S

    def at(self, total: Sum, newest: Played) -> None:
        """Say it, if it is time."""
        if newest.broken is not None:
            print(f"{newest.shape} seed {newest.seed}: {newest.broken}", file=sys.stderr)
        if time.monotonic() < self._next or not sys.stderr.isatty():
            return
        self._next = time.monotonic() + PROGRESS_EVERY_S
        said = f"{total.played:,} of {self._total:,} seeds, {len(total.broken)} broken"
        print(said, file=sys.stderr)
