"""`dispatch clusters` and `dispatch discover`: the clusters themselves."""

from __future__ import annotations

import json
from datetime import datetime
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
from dispatch.errors import Unsupported
from dispatch.schedulers.scheduler import KeepsEvidence, Scheduler
from dispatch.settings import Settings, state_directory

Name = Annotated[str, typer.Argument(metavar="CLUSTER", help="Its configured name.")]


def add(app: typer.Typer) -> None:
    """Add `clusters`, `discover` and `whoami`."""
    group = typer.Typer(
        no_args_is_help=True, rich_markup_mode=None, help="The clusters that jobs run on."
    )
    group.command("list")(list_clusters)
    group.command("check")(check)
    group.command("accept-loss")(accept_loss)
    group.command("free")(free)
    app.add_typer(group, name="clusters")
    app.command()(discover)
    app.command()(whoami)


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
    titles = ("CLUSTER", "ADAPTER", "BRAKES", "LOOKED AFTER", "BY", "TROUBLE")
    shown.table(titles, [_row(one, shown) for one in found])


def _row(one: ClusterAnswer, shown: Screen) -> tuple[str, ...]:
    health = one.health
    brakes = "; ".join(f"{name}: {why}" for name, why in sorted(one.brakes.items()))
    if health is None:
        return (one.name, one.adapter, brakes, "never", "", "")
    last = shown.reader.ago(health.last_tick)
    return (one.name, one.adapter, brakes, last, health.supervisor, trouble_of(one))


def trouble_of(one: ClusterAnswer) -> str:
    """Return what is wrong with a cluster's supervision; empty where nothing is."""
    health = one.health
    if health is None:
        return ""
    trouble = [health.last_error] if health.last_error else []
    return "; ".join((*trouble, *health.escalations.values()))


def accept_loss(
    cluster: Name,
    *,
    reason: Annotated[
        str | None, typer.Option("--reason", help="Why, in your words; it is logged.")
    ] = None,
    url: options.Url = None,
    json_: options.Json = False,
) -> None:
    """Say that what a cluster lost at once, or its new identity, is real."""
    shown = screen(machine=json_)
    with client(url) as to:
        answer = to.accept_loss(cluster, reason=reason)
    if json_:
        shown.json(answer)
        return
    until = shown.reader.time(answer.until)
    shown.line(f"what {answer.cluster} shows is believed until {until}, by the word of {answer.by}")
    shown.note("each job that was lost is now answered by its plan; `dispatch list` shows them")


def whoami(*, url: options.Url = None, json_: options.Json = False) -> None:
    """Say who the endpoint takes you for, and what you may do there."""
    shown = screen(machine=json_)
    with client(url) as to:
        answer = to.rights()
    if json_:
        shown.json(answer)
        return
    shown.line(answer.actor)
    may = answer.may
    if may is None or may.admin:
        ruled = may is not None and may.ruled
        shown.note("you may do everything" + ("" if ruled else ": there are no rules"))
        return
    ways = [
        f"clusters {_names(one.clusters)}, queues {_names(one.queues)}, "
        f"accounts {_names(one.accounts)}, as {_names(one.run_as)}"
        for one in may.submit
    ]
    shown.pairs(
        {
            "teams": ", ".join(may.teams) or "none",
            "submit": "; ".join(ways) or "nothing",
            **{kind: f"{scope} jobs" for kind, scope in sorted(may.intents.items())},
            "read": f"{may.read} jobs" if may.read else "nothing",
            "tombstone": f"{may.tombstone} jobs" if may.tombstone else "nothing",
        }
    )


def _names(patterns: tuple[str, ...]) -> str:
    return ", ".join(patterns)


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


def free(
    cluster: Name,
    *,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do it; without this, only count what would be freed.")
    ] = False,
    clusters: options.ClustersFrom = None,
    json_: options.Json = False,
) -> None:
    """Let go of all evidence that a cluster keeps for Dispatch, when Dispatch is gone for good.

    Pods that go on are let go of as well. It asks the cluster from here, and needs no record,
    no API and no supervisor.
    """
    shown = screen(machine=json_)
    scheduler = _scheduler(cluster, clusters)
    if not isinstance(scheduler, KeepsEvidence):
        raise Unsupported(f"cluster {cluster} keeps no evidence that would have to be let go of")
    asked: list[bool] = []

    def keep(job_id: str, ended_at: datetime | None) -> bool:
        asked.append(ended_at is None)
        return not yes

    freed = scheduler.free(keep)
    alive = sum(asked)
    if json_:
        shown.json({"cluster": cluster, "kept": len(asked), "running": alive, "freed": freed})
        return
    what = f"{len(asked)} objects, {alive} of which go on" if asked else "nothing"
    if yes:
        shown.line(f"{cluster} kept {what}; {freed} were let go of")
    else:
        shown.line(f"{cluster} keeps {what}")
    if asked and not yes:
        shown.note("their ends would be in no record; add --yes to let go of them all")
    elif alive:
        shown.note("end what goes on first: what is started again there is kept again")


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
