"""Cold start of each built function under a share of the processor like Lambda's.

Each is imported in a fresh Python of the functions' own version, from the build alone, in turns
with the bare start of what any such function has: Powertools' resolver, boto3 and a client. The
share is the kernel's (a control group's quota); without one nothing is measured here.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.engine import ROOT
from benchmarks.figures import CannotMeasure, Effort, Figure, Told, at_most

AIM = 1.25
SHARE = 0.58
"""Of one processor: what a function of 1,024 MB has."""

PERIOD_US = 20_000
FUNCTIONS = ("intents", "supervisor", "events", "retention")
BARE = """
import boto3
from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver
Logger(service="bare")
APIGatewayHttpResolver()
boto3.client("dynamodb")
"""
OURS = """
import app
app._started()
from dispatch.wiring import from_settings
from_settings().store
"""
LOADED = """
import json, sys
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""
SLURM_ALONE = """
import json
from dispatch.settings import Settings
from dispatch.wiring import Wiring
import app
document = {"schema": "dispatch.clusters.v1", "clusters": [{"name": "hpc", "adapter": "slurm",
  "settings": {"url": "https://slurm.example.com", "user": "u", "default_queue": "q",
    "sign_in": {"kind": "hs256", "secret": "file:/nowhere"}, "queues": {"q": {"partition": "p"}}}}]}
Wiring(Settings(clusters=json.dumps(document))).scheduler("hpc").declare()
"""
WHY = (
    "beside Powertools and boto3 it loads pydantic's compiled core, builds the models' validators"
    " and reads the schedulers' settings; what each module costs is in the JSON. Validators that"
    " are built when they are first used would mend a part"
)


@dataclass(frozen=True, slots=True)
class Built:
    """One built function.

    Attributes:
        name: Which.
        path: Where Python looks, first places first, as in Lambda.
    """

    name: str
    path: str


def measure(effort: Effort) -> list[Told]:
    """Return the import times of the built functions."""
    python = _python()
    built = [_built(name) for name in FUNCTIONS]
    layer = Built("layer", str(ROOT / "build/sam/DispatchLayer/python"))
    took: dict[str, list[float]] = {one.name: [] for one in (layer, *built)}
    with share() as enter:
        for number in range(effort.of(9, 3) + 1):
            for one in (layer, *built):
                code = BARE if one is layer else OURS
                seconds = _import_s(python, one, code, enter)
                if number:  # the first reads the disk
                    took[one.name].append(seconds)
    told: list[Told] = []
    for one in built:
        ratio = median(
            ours / bare for ours, bare in zip(took[one.name], took["layer"], strict=True)
        )
        told.append(
            Figure(
                f"cold start of {one.name}, until its store can be asked",
                "Powertools, boto3 and a client alone",
                ratio,
                at_most(AIM) if one.name == "intents" else None,
                WHY,
                {
                    "share": SHARE,
                    "seconds": median(took[one.name]),
                    "bare_seconds": median(took["layer"]),
                    "most_ms": _costs(python, one),
                },
            )
        )
    told.append(_kubernetes(python, built[1]))
    return told


def _kubernetes(python: Path, supervisor: Built) -> Figure:
    """Return how many modules of kubernetes a supervisor of Slurm alone loads."""
    done = _run(python, supervisor, SLURM_ALONE + LOADED)
    modules = set(json.loads(done.stdout.splitlines()[-1]))
    if not {"app", "dispatch"} <= modules:
        raise AssertionError(f"the supervisor didn't load: {done.stderr[-300:]}")
    loaded = float("kubernetes" in modules)
    return Figure(
        "kubernetes loaded by a supervisor without EKS",
        "once",
        loaded,
        at_most(0),
        "a supervisor that speaks to Slurm alone loads it",
    )


def _python() -> Path:
    done = subprocess.run(
        [ROOT / "scripts/find-python", "3.13"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise CannotMeasure("Python 3.13, which the functions run on, isn't here")
    return Path(done.stdout.strip())


def _built(name: str) -> Built:
    layer = ROOT / "build/sam/DispatchLayer/python"
    code = ROOT / f"build/sam/{name.capitalize()}Function"
    if not (layer / "dispatch").is_dir() or not (code / "app.py").is_file():
        raise CannotMeasure(f"{code.relative_to(ROOT)} isn't built: run `make build`")
    if not list((layer / "dispatch/__pycache__").glob("*.pyc")):
        raise CannotMeasure("the build isn't compiled: run `make build`")
    return Built(name, f"{code}:{layer}")


def _environment(one: Built) -> dict[str, str]:
    return {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": one.path,
        "AWS_DEFAULT_REGION": "us-east-1",
        "POWERTOOLS_TRACE_DISABLED": "1",
        "DISPATCH_TABLE": "dispatch",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _run(python: Path, one: Built, code: str, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [str(python), "-s", *flags, "-c", code]
    done = subprocess.run(
        command, env=_environment(one), capture_output=True, text=True, check=False, cwd="/"
    )
    if done.returncode:
        raise AssertionError(f"{one.name} can't be imported: {done.stderr[-400:]}")
    return done


def _import_s(python: Path, one: Built, code: str, enter: str) -> float:
    """Return how long a fresh process under the share takes to import, seconds."""
    timed = (
        f"open({enter!r}, 'w').write('0')\n"
        "import time; began = time.perf_counter()\n"
        f"{code}\n"
        "print(time.perf_counter() - began)"
    )
    return float(_run(python, one, timed).stdout.splitlines()[-1])


def _costs(python: Path, one: Built) -> dict[str, float]:
    """Return what the dearest imports cost, each with what it brings along, milliseconds."""
    costs: dict[str, float] = {}
    for line in _run(python, one, "import app", "-X", "importtime").stderr.splitlines():
        parts = line.removeprefix("import time:").split("|")
        if len(parts) == 3 and parts[1].strip().isdigit():
            costs[parts[2].strip()] = int(parts[1]) / 1000
    dearest = sorted(costs.items(), key=lambda pair: -pair[1])
    return dict(dearest[:25])


@contextmanager
def share() -> Iterator[str]:
    """Make a control group with Lambda's share; lend the file that a process enters it by."""
    name = f"dispatch-bench-{os.getpid()}"
    for root, make, tasks in (
        (Path("/sys/fs/cgroup/cpu"), _quota_v1, "tasks"),
        (Path("/sys/fs/cgroup"), _quota_v2, "cgroup.procs"),
    ):
        group = root / name
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            make(group)
        except OSError:
            group.rmdir()
            continue
        try:
            yield str(group / tasks)
        finally:
            group.rmdir()
        return
    raise CannotMeasure(
        "no control group can be made here, so no share like Lambda's: it needs root, or a"
        " delegated group"
    )


def _quota_v1(group: Path) -> None:
    _write(group / "cpu.cfs_period_us", PERIOD_US)
    _write(group / "cpu.cfs_quota_us", int(PERIOD_US * SHARE))


def _quota_v2(group: Path) -> None:
    _write(group / "cpu.max", f"{int(PERIOD_US * SHARE)} {PERIOD_US}")


def _write(path: Path, value: Any) -> None:
    if not path.exists():
        raise FileNotFoundError(path)
    path.write_text(str(value))
