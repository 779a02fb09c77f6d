"""`dispatch submit`: a job file, or a command after `--`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from dispatch import jobfile
from dispatch.api import SubmitRequest
from dispatch.cli import options
from dispatch.cli.connect import client
from dispatch.cli.exits import code_of
from dispatch.cli.files import text_of
from dispatch.cli.screen import Screen, screen
from dispatch.client import Client, new_key
from dispatch.errors import TryLater, Unknown, UnknownCluster
from dispatch.jobfile import JobFile

_COMMAND = "dispatch.command"
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")


class TakesCommand(TyperCommand):
    """A command that keeps what stands behind `--` apart from its own arguments."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put what is behind `--` aside, and parse the rest."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_COMMAND] = args[at + 1 :]
            args = args[:at]
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed


def add(app: typer.Typer) -> None:
    """Add `submit`."""
    app.command(cls=TakesCommand, options_metavar="[OPTIONS] (FILE | -- COMMAND…)")(submit)


def submit(
    ctx: typer.Context,
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="A job file, YAML or JSON (- for stdin).")
    ] = None,
    *,
    name: Annotated[str | None, typer.Option("--name", help="A short name for people.")] = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", "-c", help="Which cluster; needless if there's one.")
    ] = None,
    nodes: Annotated[int | None, typer.Option("--nodes", "-N")] = None,
    cpus: Annotated[int | None, typer.Option("--cpus", help="CPUs on each node.")] = None,
    memory: Annotated[int | None, typer.Option("--memory", help="Memory on each node, MB.")] = None,
    gpus: Annotated[int | None, typer.Option("--gpus", help="GPUs on each node.")] = None,
    time_limit: Annotated[int | None, typer.Option("--time-limit", help="Seconds.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", "-q")] = None,
    env: Annotated[list[str] | None, typer.Option("--env", "-e", metavar="NAME=VALUE")] = None,
    label: Annotated[list[str] | None, typer.Option("--label", "-l", metavar="NAME=VALUE")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="Any field of a job file, dotted; YAML."),
    ] = None,
    supersedes: Annotated[
        str | None, typer.Option("--supersedes", metavar="JOB", help="The settled job it replaces.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", help="The idempotency key: the same key never makes a second job."),
    ] = None,
    allow_plain: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-plain", metavar="NAME", help="Let this variable stand though it looks secret."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the request and send nothing.")
    ] = False,
    url: options.Url = None,
    json_: options.Json = False,
) -> None:
    """Submit a job: a job file, or a command after `--`."""
    command: list[str] = ctx.meta.get(_COMMAND, [])
    given: dict[str, Any] = {
        "name": name,
        "cluster": cluster,
        "nodes": nodes,
        "cpus_per_node": cpus,
        "memory_mb_per_node": memory,
        "gpus_per_node": gpus,
        "time_limit_s": time_limit,
        "queue": queue,
        "supersedes": supersedes,
        "idempotency_key": key,
    }
    changes = {field: json.dumps(value) for field, value in given.items() if value is not None}
    changes |= {f"env.{n}": json.dumps(v) for n, v in _pairs("--env", env)}
    changes |= {f"labels.{n}": json.dumps(v) for n, v in _pairs("--label", label)}
    changes |= dict(_pairs("--set", set_))
    wanted = _wanted(file, command, changes)
    shown = screen(machine=json_)
    if dry_run:
        request = _request(wanted, lambda: _only_cluster(url), allow_plain or ())
        shown.out.print_json(request.model_dump_json(exclude_none=True))
        return
    with client(url) as to:
        _send(to, wanted, shown, allow_plain or ())


def _send(to: Client, wanted: JobFile, shown: Screen, allow_plain: Sequence[str]) -> None:
    used = wanted.idempotency_key or new_key()
    request = _request(wanted, lambda: _only(to), allow_plain)
    try:
        made = to.submit(request, key=used)
    except (Unknown, TryLater) as error:
        again = f"submit exactly the same with --key {used}: it makes no second job"
        shown.problem(error, then=again)
        raise typer.Exit(int(code_of(error))) from None
    if shown.machine:
        shown.json(made)
        return
    verb = "submitted" if made.created else "there already"
    shown.line(f"{made.job_id} {verb} on {request.cluster} (key {made.key})")
    shown.note(f"follow it with: dispatch watch {made.job_id}")


def _wanted(file: str | None, command: Sequence[str], changes: dict[str, str]) -> JobFile:
    if (file is None) == (not command):
        raise typer.BadParameter("give a job file, or a command after --; not both")
    if file is not None:
        return jobfile.parse(text_of(file), name=file, changes=changes)
    name = _NOT_IN_A_NAME.sub("-", Path(command[0]).name).strip("-") or "job"
    text = json.dumps({"name": name, "command": list(command)})
    return jobfile.parse(text, name="the command line", changes=changes)


def _pairs(option: str, given: Sequence[str] | None) -> list[tuple[str, str]]:
    pairs = []
    for one in given or ():
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{option} {one}: NAME=VALUE is wanted")
        pairs.append((name, value))
    return pairs


def _request(
    wanted: JobFile, only_cluster: Callable[[], str], allow_plain: Sequence[str]
) -> SubmitRequest:
    return SubmitRequest(
        spec=wanted.spec,
        cluster=wanted.cluster or only_cluster(),
        plan=wanted.plan,
        start_retries=wanted.start_retries,
        unmatched=wanted.unmatched,
        supersedes=wanted.supersedes,
        allow_plain=tuple(allow_plain) or None,
    )


def _only_cluster(url: str | None) -> str:
    with client(url) as to:
        return _only(to)


def _only(to: Client) -> str:
    names = [one.name for one in to.clusters()]
    if len(names) == 1:
        return names[0]
    raise UnknownCluster(f"which cluster? say --cluster: {', '.join(names) or 'there is none'}")
