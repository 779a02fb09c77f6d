"""The options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Job = Annotated[str, typer.Argument(metavar="JOB", help="The job's id.")]
Jobs = Annotated[list[str], typer.Argument(metavar="JOB…", help="One job's id, or several.")]
Source = Annotated[
    str, typer.Argument(metavar="JOB|FILE", help="A job's id, or an exported record (- for stdin).")
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
ClustersFrom = Annotated[
    str | None,
    typer.Option(
        "--clusters",
        envvar="DISPATCH_CLUSTERS",
        help="The clusters' document: file:PATH, ssm:PARAMETER or JSON. Default: the stack's here.",
    ),
]
