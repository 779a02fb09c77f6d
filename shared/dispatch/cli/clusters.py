"""`dispatch clusters` and `dispatch discover`: the clusters themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from dispatch.api import ClusterAnswer
from dispatch.cli import options
from dispatch.cli.connect import client
from dispatch.cli.discovery import text_of_found
from dispatch.cli.exits import Code, NoEndpoint
from dispatch.cli.files import write
from dispatch.cli.screen import Screen, screen
from dispatch.clusters import CLUSTERS_SCHEMA
from dispatch.schedulers.scheduler import Scheduler
from dispatch.settings import Settings, state_directory

Name = Annotated[str, typer.Argument(metavar="CLUSTER", help="Its configured name.")]


def add(app: typer.Typer) -> None:
    """Add `clusters` and `discover`."""
    group = typer.Typer(
        no_args_is_help=True, rich_markup_mode=None, help="The clusters that jobs run on."
    )
    group.command("list")(list_clusters)
    group.command("check")(check)
    app.add_typer(group, name="clusters")
    app.command()(discover)


def list_clusters(
    *,
    url: options.Url = None,
    json_: options.Json = False,
    utc: options.Utc = False,
) -> None:
    """List the configured clusters and how their supervision goes."""
    shown = screen(machine=json_, utc=utc)
    with client(url) as to:
        found = to.clusters()
    if json_:
        for one in found:
            shown.json(one)
        return
    if not found:
        shown.note("no cluster is configured")
        return
    titles = ("CLUSTER", "ADAPTER", "LOOKED AFTER", "BY", "TROUBLE")
    shown.table(titles, [_row(one, shown) for one in found])


def _row(one: ClusterAnswer, shown: Screen) -> tuple[str, ...]:
    health = one.health
    if health is None:
        return (one.name, one.adapter, "never", "", "")
    trouble = [health.last_error] if health.last_error else []
    trouble += list(health.escalations.values())
    last = shown.reader.ago(health.last_tick)
    return (one.name, one.adapter, last, health.supervisor, "; ".join(trouble))


def check(
    cluster: Name,
    *,
    clusters: options.ClustersFrom = None,
    json_: options.Json = False,
) -> None:
    """Try from here what supervising a cluster needs, and say what was seen."""
    shown = screen(machine=json_)
    lines = _scheduler(cluster, clusters).check()
    if json_:
        for line in lines:
            shown.json(line)
    else:
        rows = [("ok" if one.ok else "FAILED", one.what, one.detail) for one in lines]
        shown.table(("", "WHAT", "SEEN"), rows)
    if not all(one.ok for one in lines):
        raise typer.Exit(int(Code.REFUSED))


def discover(
    cluster: Name,
    *,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file, instead of standard output.")
    ] = None,
    clusters: options.ClustersFrom = None,
) -> None:
    """Take one whole look at a cluster, as a file for `dispatch next`."""
    shown = screen()
    found = _scheduler(cluster, clusters).find()
    text = text_of_found(found)
    if output is None:
        shown.out.file.write(text)
    else:
        write(output, text)
    jobs = sum(1 for seen in found.by_job.values() if seen)
    whole = "complete" if found.complete else f"incomplete: {found.error}"
    shown.note(f"objects of {jobs} jobs, {whole}")


def _scheduler(cluster: str, source: str | None) -> Scheduler:
    from dispatch.wiring import Wiring

    return Wiring(Settings(clusters=source or _clusters_here())).scheduler(cluster)


def _clusters_here() -> str:
    """Return the clusters' document of the stack that was last started here."""
    state = state_directory()
    path, spool = state / "clusters.json", state / "local"
    if path.exists():
        return f"file:{path}"
    if not spool.is_dir():
        raise NoEndpoint(
            f"no stack has left its clusters in {state}: name their document with --clusters "
            "or DISPATCH_CLUSTERS"
        )
    local = {"name": "local", "adapter": "local", "settings": {"spool": str(spool.absolute())}}
    return json.dumps({"schema": CLUSTERS_SCHEMA, "clusters": [local]})
