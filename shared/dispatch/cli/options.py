"""The options that several commands share."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from dispatch.cli.completing import open_jobs
from dispatch.core.project import State
from dispatch.errors import InvalidRequest
from dispatch.record.model import Instant

Job = Annotated[str, typer.Argument(metavar="JOB", help="The job's id.", autocompletion=open_jobs)]
Jobs = Annotated[
    list[str],
    typer.Argument(metavar="JOB…", help="One job's id, or several.", autocompletion=open_jobs),
]
SomeJobs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="JOB", help="Jobs' ids; or choose them by options.", autocompletion=open_jobs
    ),
]
Source = Annotated[
    str,
    typer.Argument(
        metavar="JOB|FILE",
        help="A job's id, or an exported record (- for stdin).",
        autocompletion=open_jobs,
    ),
]
File = Annotated[str, typer.Argument(metavar="FILE", help="An exported record (- for stdin).")]
Url = Annotated[
    str | None,
    typer.Option(
        "--url", envvar="DISPATCH_URL", help="Where the API listens. Default: the stack run here."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Utc = Annotated[bool, typer.Option("--utc", help="Show times in UTC, not in your own zone.")]
Reason = Annotated[
    str | None, typer.Option("--reason", "-m", help="Why, in your words; kept in the record.")
]
IntentId = Annotated[
    str | None,
    typer.Option("--id", help="The intent's id; sent again it has no further effect."),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="Any field of a job file, dotted; YAML."),
]
AllowPlain = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-plain", metavar="NAME", help="Let this variable stand though it looks secret."
    ),
]
Labels = Annotated[
    list[str] | None,
    typer.Option("--label", "-l", metavar="NAME=VALUE", help="Those with this label; all of them."),
]
ThisCluster = Annotated[str | None, typer.Option("--cluster", "-c", help="Those of this cluster.")]
States = Annotated[
    list[State] | None, typer.Option("--state", help="Those that do this; any of several.")
]
Owner = Annotated[str | None, typer.Option("--owner", help="Those that this principal submitted.")]
Name = Annotated[str | None, typer.Option("--name", help="Those of this name.")]
ClustersFrom = Annotated[
    str | None,
    typer.Option(
        "--clusters",
        envvar="DISPATCH_CLUSTERS",
        help="The clusters' document: file:PATH, ssm:PARAMETER or JSON. Default: the stack's here.",
    ),
]
AsOf = Annotated[
    str | None,
    typer.Option("--now", help="Tell it as of this time, 2026-01-31T12:00:00Z, instead of now."),
]

_INSTANT: TypeAdapter[datetime] = TypeAdapter(Instant)


def instant(text: str) -> datetime:
    """Return the time that `--now` names.

    Raises:
        InvalidRequest: It is no time with a zone.
    """
    try:
        return _INSTANT.validate_python(text)
    except ValidationError as error:
        raise InvalidRequest(error.errors()[0]["msg"], field="--now") from None
