"""How the one-machine cluster is configured: strict, so that a typing mistake is refused."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from dispatch.record.model import Model, Name, Seconds, Text


class LocalCluster(Model):
    """This machine as a cluster.

    Attributes:
        name: Its configured name.
        spool: Where it keeps its objects: a folder on a local disk, an absolute path.
        retention_s: How long an ended object stays visible.
        processes: The most tasks that one object may have.
        gpus: Whether a spec may ask for GPUs; they are neither counted nor kept apart.
        cgroups: Whether control groups may be made.
    """

    adapter: Literal["local"] = "local"
    name: Name
    spool: Annotated[Text, Field(pattern=r"^/")]
    retention_s: Seconds = 600
    processes: Annotated[int, Field(ge=1, le=100_000)] = 256
    gpus: bool = False
    cgroups: bool = True
