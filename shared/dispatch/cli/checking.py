"""`dispatch init` and `dispatch lint`: a job file to begin with, and what clusters refuse of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from dispatch import jobfile
from dispatch.api import FindingAnswer, Severity, SubmitRequest, lint
from dispatch.cli import options
from dispatch.cli.connect import client
from dispatch.cli.exits import Code, NoEndpoint
from dispatch.cli.files import text_of, write
from dispatch.cli.request import changes_of, request_of
from dispatch.cli.screen import Screen, screen
from dispatch.cli.standins import Kind, declared_of, kind_of, refused_of, stand_in
from dispatch.client import Unreachable
from dispatch.clusters import Cluster, parse_clusters
from dispatch.documents import document
from dispatch.errors import CallerError, InvalidRequest, UnknownCluster
from dispatch.jobfile import Members
from dispatch.jobfile.templates import SCHEMA_FILE, template

_Asked = Callable[[SubmitRequest], Sequence[FindingAnswer]]


def add(app: typer.Typer) -> None:
    """Add `init` and `lint`."""
    app.command()(init)
    app.command("lint")(lint_file)


# --- init -----------------------------------------------------------------------------------


def init(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="What to write: job.yaml unless given.")
    ] = Path("job.yaml"),
    *,
    scheduler: Annotated[
        Kind, typer.Option("--scheduler", "-s", help="Whose fields it shows.")
    ] = Kind.LOCAL,
    array: Annotated[
        bool, typer.Option("--array", help="Make several jobs of it, one for each element.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Write over a file that is there.")
    ] = False,
) -> None:
    """Write a commented job file to begin with, and the schema that editors complete it by."""
    shown = screen()
    if str(file) in {one.value for one in Kind}:
        raise typer.BadParameter(
            f"{file} is a scheduler, and a file is named here: dispatch init --scheduler {file}"
        )
    if file.exists() and not force:
        there = InvalidRequest(f"{file} is there already, and was left alone")
        shown.problem(there, then="name another file, or say --force")
        raise typer.Exit(int(Code.REFUSED))
    write(file, template(scheduler.value, array=array, file=str(file)))
    beside = file.parent / SCHEMA_FILE
    if _ours(beside):
        write(beside, schema_text())
    else:
        shown.note(f"{beside} is another file and was left alone: editors won't complete this one")
    shown.line(f"wrote {file}")
    shown.note(f"edit it, then: dispatch lint {file}")


def schema_text() -> str:
    """Return the schema of job files as a file's text."""
    return json.dumps(jobfile.schema(), indent=2, ensure_ascii=False) + "\n"


def _ours(path: Path) -> bool:
    """Return whether a schema may be written: nothing is there, or what an earlier build wrote."""
    if not path.exists():
        return True
    try:
        found = json.loads(text_of(str(path)))
    except (ValueError, InvalidRequest):
        return False
    return isinstance(found, dict) and found.get("title") == jobfile.SCHEMA_TITLE


# --- lint -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one cluster says of one file.

    Attributes:
        cluster: Which cluster.
        findings: With the jobs of an array that they concern; all, where that is empty.
    """

    cluster: str
    findings: tuple[tuple[FindingAnswer, tuple[str, ...]], ...]

    @property
    def refuses(self) -> bool:
        """Whether a submit would be refused."""
        return any(one.severity is Severity.REFUSED for one, _ in self.findings)


@dataclass(frozen=True, slots=True)
class _Judge:
    """Asks about each job of a file."""

    found: Members
    allow_plain: tuple[str, ...]

    def offline(self, cluster: Cluster) -> Judgement:
        """Return what a cluster says, by its document alone."""

        def asked(request: SubmitRequest) -> Sequence[FindingAnswer]:
            refused = refused_of(cluster, request.spec)
            return lint(request, cluster, declared_of(cluster), refused)

        return self.each(cluster.name, asked)

    def each(self, cluster: str, ask: _Asked) -> Judgement:
        """Return what is found, each thing once, with the jobs of an array that it concerns."""
        met: dict[FindingAnswer, list[str]] = {}
        for one in self.found.jobs:
            request = request_of(one.file, cluster, self.allow_plain)
            try:
                findings = ask(request)
            except CallerError as error:
                if isinstance(error, UnknownCluster):
                    raise
                field = getattr(error, "field", None)
                said = FindingAnswer(
                    code=error.code, field=field, detail=str(error), next="correct it"
                )
                findings = (said,)
            for finding in findings:
                met.setdefault(finding, []).append(one.file.name)
        whole = len(self.found.jobs)
        told = [(one, () if len(jobs) == whole else tuple(jobs)) for one, jobs in met.items()]
        return Judgement(cluster, tuple(told))


def lint_file(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A job file, YAML or JSON (- for stdin).")
    ],
    *,
    cluster: Annotated[
        str | None, typer.Option("--cluster", "-c", help="Only this one; else all, or the file's.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", "-a", help="All clusters, also where the file names one.")
    ] = False,
    scheduler: Annotated[
        Kind | None,
        typer.Option("--scheduler", "-s", help="Ask no endpoint: judge by what any such refuses."),
    ] = None,
    set_: options.Set = None,
    clusters: Annotated[
        str | None,
        typer.Option(
            "--clusters",
            help="Ask no endpoint: judge by this clusters' document (file:PATH, JSON).",
        ),
    ] = None,
    allow_plain: options.AllowPlain = None,
    url: options.Url = None,
    json_: options.Json = False,
) -> None:
    """Say what each cluster would refuse of a job file; nothing is sent."""
    shown = screen(machine=json_)
    found = jobfile.parse_all(text_of(file), name=file, changes=changes_of(set_))
    named = cluster or found.jobs[0].file.cluster
    target = None if every else named
    judge = _Judge(found, tuple(allow_plain or ()))
    if scheduler is not None:
        judged = [judge.offline(stand_in(scheduler, found.jobs[0].file, target))]
    elif clusters is not None:
        judged = [judge.offline(one) for one in _chosen(clusters, target)]
    else:
        judged = list(_online(judge, target, url, shown))
    _tell(found, judged, shown)
    meant = [one for one in judged if named in (None, one.cluster)] or judged
    if meant and all(one.refuses for one in meant):
        raise typer.Exit(int(Code.REFUSED))


def _chosen(source: str, target: str | None) -> list[Cluster]:
    known = parse_clusters(document(source))
    return [known.named(target)] if target is not None else list(known.clusters)


def _online(
    judge: _Judge, target: str | None, url: str | None, shown: Screen
) -> Iterator[Judgement]:
    """Yield what the endpoint's clusters say; without one, what can be said without."""
    try:
        with client(url) as to:
            names = [one.name for one in to.clusters()]
            if target is not None and target not in names:
                known = ", ".join(names) or "none"
                raise UnknownCluster(f"no cluster {target!r} is there (there are: {known})")
            for name in names if target is None else [target]:
                yield judge.each(name, lambda one: to.lint(one).findings)
    except (NoEndpoint, Unreachable) as error:
        kind = kind_of(judge.found.jobs[0].file)
        if url or os.environ.get("DISPATCH_URL"):
            raise
        if kind is None:
            shown.note(f"only the file's own form was judged: {error}")
            shown.note("name a scheduler to judge by: --scheduler slurm, eks or local")
            return
        shown.note(f"judged by what any {kind.value} cluster refuses: {error}")
        yield judge.offline(stand_in(kind, judge.found.jobs[0].file, target))


def _tell(found: Members, judged: Sequence[Judgement], shown: Screen) -> None:
    if shown.machine:
        for one in judged:
            findings = [
                {
                    **finding.model_dump(mode="json", exclude_none=True),
                    "line": found.line(finding.field or ""),
                    "jobs": list(jobs),
                }
                for finding, jobs in one.findings
            ]
            shown.json({"cluster": one.cluster, "refuses": one.refuses, "findings": findings})
        return
    jobs = f", {len(found.jobs)} jobs" if found.is_array else ""
    if not judged:
        shown.line(f"{found.name}: its form is right{jobs}", style="green")
    for one in judged:
        if not one.findings:
            shown.line(f"{one.cluster}: nothing to find fault with{jobs}", style="green")
        for finding, names in one.findings:
            _tell_one(found, one.cluster, finding, names, shown)


def _tell_one(
    found: Members, cluster: str, finding: FindingAnswer, names: tuple[str, ...], shown: Screen
) -> None:
    line = found.line(finding.field) if finding.field else None
    where = found.name if line is None else f"{found.name}:{line}"
    field = f" field '{finding.field}':" if finding.field else ""
    style = "red" if finding.severity is Severity.REFUSED else "yellow"
    shown.line(f"{cluster}: {finding.severity}: {where}:{field} {finding.detail}", style=style)
    if names:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        shown.line(f"    for {', '.join(names[:3])}{more}")
    shown.line(f"    next: {finding.next}")
