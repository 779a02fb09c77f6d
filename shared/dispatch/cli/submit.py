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
from dispatch.cli import options
from dispatch.cli.connect import client
from dispatch.cli.exits import Code, code_of
from dispatch.cli.files import text_of
from dispatch.cli.manifests import show_manifests
from dispatch.cli.request import changes_of, pairs_of, request_of
from dispatch.cli.screen import Screen, plain, screen
from dispatch.client import Client, new_key
from dispatch.clusters import parse_clusters
from dispatch.errors import DispatchError, InvalidRequest, TryLater, Unknown, UnknownCluster
from dispatch.jobfile import JobFile, Members

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
    set_: options.Set = None,
    supersedes: Annotated[
        str | None, typer.Option("--supersedes", metavar="JOB", help="The settled job it replaces.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", help="The idempotency key: the same key never makes a second job."),
    ] = None,
    allow_plain: options.AllowPlain = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the request and send nothing.")
    ] = False,
    clusters: Annotated[
        str | None,
        typer.Option(
            "--clusters",
            metavar="FILE",
            help="With --dry-run: the clusters' document; print the manifests instead.",
        ),
    ] = None,
    url: options.Url = None,
    json_: options.Json = False,
) -> None:
    """Submit a job, or one for each element of an array: a job file, or a command after `--`."""
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
    wanted = _wanted(file, command, _changes(given, env, label, set_))
    shown = screen(machine=json_)
    if clusters is not None and not dry_run:
        raise typer.BadParameter("--clusters goes with --dry-run")
    if clusters is not None:
        show_manifests(wanted, parse_clusters(text_of(clusters.removeprefix("file:"))), shown)
        return
    if dry_run:
        _show(wanted, lambda: _only_cluster(url), allow_plain or (), shown)
        return
    with client(url) as to:
        if wanted.is_array:
            _send_all(to, wanted, shown, allow_plain or ())
        else:
            _send(to, wanted.jobs[0].file, shown, allow_plain or (), file)


def _changes(
    given: dict[str, Any],
    env: Sequence[str] | None,
    label: Sequence[str] | None,
    set_: Sequence[str] | None,
) -> dict[str, str]:
    """Return what the options put in place of a file's fields."""
    changes = {field: json.dumps(value) for field, value in given.items() if value is not None}
    changes |= {f"env.{n}": json.dumps(v) for n, v in pairs_of("--env", env)}
    changes |= {f"labels.{n}": json.dumps(v) for n, v in pairs_of("--label", label)}
    return changes | changes_of(set_)


def _show(
    wanted: Members, only_cluster: Callable[[], str], allow_plain: Sequence[str], shown: Screen
) -> None:
    """Print what would be sent: one request, or one a line."""
    cluster = wanted.jobs[0].file.cluster or only_cluster()
    requests = [
        request_of(one.file, one.file.cluster or cluster, allow_plain) for one in wanted.jobs
    ]
    for request in requests:
        if wanted.is_array:
            shown.out.file.write(request.model_dump_json(exclude_none=True) + "\n")
        else:
            shown.out.print_json(request.model_dump_json(exclude_none=True))


def _send(
    to: Client, wanted: JobFile, shown: Screen, allow_plain: Sequence[str], file: str | None
) -> None:
    used = wanted.idempotency_key or new_key()
    request = request_of(wanted, wanted.cluster or _only(to), allow_plain)
    try:
        made = to.submit(request, key=used)
    except (Unknown, TryLater) as error:
        again = f"submit exactly the same with --key {used}: it makes no second job"
        shown.problem(error, then=again)
        raise typer.Exit(int(code_of(error))) from None
    except InvalidRequest as error:
        if file in (None, "-"):
            raise
        shown.problem(error, then=f"dispatch lint {file} names each field and its line")
        raise typer.Exit(int(code_of(error))) from None
    if shown.machine:
        shown.json(made)
        return
    verb = "submitted" if made.created else "there already"
    shown.line(f"{made.job_id} {verb} on {request.cluster} (key {made.key})")
    shown.note(f"follow it with: dispatch watch {made.job_id}")


def _send_all(to: Client, wanted: Members, shown: Screen, allow_plain: Sequence[str]) -> None:
    """Submit each job of an array; one that fails stops no other."""
    cluster = wanted.jobs[0].file.cluster or _only(to)
    worst, done, new = Code.OK, 0, 0
    for one in wanted.jobs:
        request = request_of(one.file, one.file.cluster or cluster, allow_plain)
        try:
            made = to.submit(request, key=one.key)
        except DispatchError as error:
            shown.problem(error, about=one.file.name, then=_THE_SAME_AGAIN)
            worst = worst or code_of(error)
            continue
        done, new = done + 1, new + made.created
        if shown.machine:
            shown.json({**plain(made), "name": one.file.name, "parameters": one.parameters})
        else:
            verb = "submitted" if made.created else "there already"
            shown.line(f"{made.job_id} {verb} on {request.cluster} as {one.file.name}")
    left = len(wanted.jobs) - done
    failed = f"; {left} failed" if left else ""
    shown.note(f"{new} submitted, {done - new} there already{failed}")
    if worst:
        raise typer.Exit(int(worst))


_THE_SAME_AGAIN = "submit the same file again: what was made already is made no second time"


def _wanted(file: str | None, command: Sequence[str], changes: dict[str, str]) -> Members:
    if (file is None) == (not command):
        raise typer.BadParameter("give a job file, or a command after --; not both")
    if file is not None:
        return jobfile.parse_all(text_of(file), name=file, changes=changes)
    name = _NOT_IN_A_NAME.sub("-", Path(command[0]).name).strip("-") or "job"
    text = json.dumps({"name": name, "command": list(command)})
    return jobfile.parse_all(text, name="the command line", changes=changes)


def _only_cluster(url: str | None) -> str:
    with client(url) as to:
        return _only(to)


def _only(to: Client) -> str:
    names = [one.name for one in to.clusters()]
    if len(names) == 1:
        return names[0]
    raise UnknownCluster(f"which cluster? say --cluster: {', '.join(names) or 'there is none'}")
