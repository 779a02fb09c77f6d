"""What needs no endpoint: `next`, `schema` and `explain`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer
from pydantic import TypeAdapter

from dispatch import jobfile
from dispatch.cli import options
from dispatch.cli.discovery import DiscoveryFile, parse_found
from dispatch.cli.files import text_of
from dispatch.cli.screen import Screen, plain, screen
from dispatch.core.fold import fold
from dispatch.core.next import next_steps
from dispatch.core.project import project
from dispatch.core.steps import Alert, Append, Hold, Lookup, Release, Requeue, Start, Step, Stop
from dispatch.errors import InvalidRequest, RecordRefused
from dispatch.narrate.story import headline, waiting_words
from dispatch.narrate.words import Reader
from dispatch.record.codec import parse_strict
from dispatch.record.control import Control
from dispatch.record.export import import_text
from dispatch.record.fact import Fact
from dispatch.record.header import Header


class Adapter(StrEnum):
    """Whose raw answers can be explained."""

    SLURM = "slurm"
    EKS = "eks"


class Schema(StrEnum):
    """What has a JSON schema."""

    JOB_FILE = "job-file"
    HEADER = "header"
    CONTROL = "control"
    FACT = "fact"
    DISCOVERY = "discovery"


def add(app: typer.Typer) -> None:
    """Add `next`, `schema` and `explain`."""
    app.command("next")(show_next)
    app.command()(schema)
    app.command()(explain)


# --- next -----------------------------------------------------------------------------------


def show_next(
    file: options.File,
    *,
    discovery: Annotated[
        str, typer.Option("--discovery", "-d", help="A look at the cluster: `dispatch discover`.")
    ],
    now: Annotated[str, typer.Option("--now", help="The time to judge at: 2026-01-31T12:00:00Z.")],
    json_: options.Json = False,
    utc: options.Utc = False,
) -> None:
    """Say what would happen next to a record, and why; nothing is done."""
    shown = screen(machine=json_, utc=utc)
    at = options.instant(now)
    found = parse_found(text_of(discovery), name=discovery)
    view = import_text(text_of(file))
    job = fold(view, at)
    if found.cluster != job.declarations.cluster:
        reason = f"{discovery} shows {found.cluster}, the job is on {job.declarations.cluster}"
        raise InvalidRequest(reason, job=job.job_id, field="cluster")
    seen = found.discovery(job.job_id)
    told = next_steps(job, seen, at)
    if json_:
        shown.json(
            {
                "job_id": job.job_id,
                "revision": job.revision,
                "now": at,
                "steps": [{"kind": type(one).__name__.lower(), **plain(one)} for one in told.steps],
                "waiting": told.waiting,
                "wait_until": told.wait_until,
            }
        )
        return
    reader = Reader(at, shown.reader.zone)
    shown.line(headline(project(job, seen, at)), style="bold")
    if told.steps:
        shown.table(("ROW", "STEP", "WHY"), [_step(one) for one in told.steps])
    else:
        shown.line("nothing is to be done")
    for one in told.waiting:
        shown.line(f"waiting: {waiting_words(one, reader)}")


def _step(step: Step) -> tuple[str, str, str]:
    match step:
        case Append():
            facts = ", ".join(_fact(one) for one in step.facts)
            return step.row, f"commit {facts}", step.why
        case Start():
            return step.row, f"commit attempt {step.fact.n}.{step.fact.a}, then Start", step.why
        case Hold():
            return step.row, f"commit the call, then Hold {step.fact.ref}", step.why
        case Requeue():
            return step.row, f"commit the call, then Requeue {step.fact.ref}", step.why
        case Release():
            first = "commit released, then " if step.fact is not None else ""
            return step.row, f"{first}Release {step.ref}", step.why
        case Lookup():
            asked = [*step.refs, *(f"{n}.{a}" for n, a in step.attempts)]
            return step.row, f"Lookup {', '.join(asked)}", step.why
        case Stop() | Alert():
            return step.row, f"{type(step).__name__} {step.ref}", step.why


def _fact(fact: Fact) -> str:
    detail = plain(fact)
    for name in ("at", "by", "fact", "objects", "taken_at", "seen_at"):
        detail.pop(name, None)
    told = " ".join(f"{name}={value}" for name, value in detail.items())
    return f"{fact.fact} {told}".strip()


# --- schema ---------------------------------------------------------------------------------


def schema(
    which: Annotated[Schema | None, typer.Argument(help="One of them; all, unless given.")] = None,
) -> None:
    """Print the JSON schemas: of job files, of what a record holds, of a discovery."""
    shown = screen(machine=True)
    found = {name: _schema(name) for name in ([which] if which else list(Schema))}
    value: Any = found[which] if which else {name.value: one for name, one in found.items()}
    shown.out.file.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def _schema(name: Schema) -> dict[str, Any]:
    match name:
        case Schema.JOB_FILE:
            found = jobfile.schema()
        case Schema.HEADER:
            found = Header.model_json_schema()
        case Schema.CONTROL:
            found = Control.model_json_schema()
        case Schema.FACT:
            found = TypeAdapter(Fact).json_schema()
        case _:
            found = DiscoveryFile.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found}


# --- explain --------------------------------------------------------------------------------


def explain(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A scheduler's raw JSON (- for stdin).")
    ],
    *,
    adapter: Annotated[Adapter, typer.Option("--adapter", "-a")],
    json_: options.Json = False,
) -> None:
    """Say what a scheduler's raw answer is worth as evidence, and what it shows."""
    shown = screen(machine=json_)
    text = text_of(file)
    match adapter:
        case Adapter.SLURM:
            from dispatch.schedulers.slurm.explain import explain as of_slurm

            try:
                document = parse_strict(text)
            except RecordRefused as refused:
                raise InvalidRequest(f"{file}: {refused.reason}", field=refused.field) from None
            if not isinstance(document, Mapping):
                raise InvalidRequest(f"{file}: it isn't a JSON object")
            told: object = of_slurm(document)
        case _:
            from dispatch.schedulers.eks.explain import explain as of_eks

            told = of_eks(text)  # a proxy's page is an answer too: it is no evidence
    if json_:
        shown.json(told)
    else:
        _tell(plain(told), shown)


def _tell(told: dict[str, Any], shown: Screen) -> None:
    lists = {name: one for name, one in told.items() if isinstance(one, list) and one}
    shown.pairs(
        {
            name.replace("_", " "): _word(one)
            for name, one in told.items()
            if name not in lists and one not in (None, [], {}, "", False)
        }
    )
    for name, many in lists.items():
        shown.line(f"{name.replace('_', ' ')}:", style="bold")
        for one in many:
            if isinstance(one, dict):
                words = [f"{k}={_word(v)}" for k, v in one.items() if v not in (None, [], {}, "")]
                shown.line("  " + ", ".join(words))
            else:
                shown.line(f"  {one}")


def _word(value: Any) -> str:
    match value:
        case True:
            return "yes"
        case False:
            return "no"
        case dict() | list():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return str(value)
