"""What would be created on a cluster, without asking it: the very manifests that a Start sends."""

from __future__ import annotations

from dispatch.errors import InvalidRequest
from dispatch.schedulers.eks.lint import lint
from dispatch.schedulers.eks.manifest import Manifest, service_manifest
from dispatch.schedulers.eks.settings import EksSettings
from dispatch.schedulers.eks.shapes import shape_of
from dispatch.schedulers.scheduler import StartOrder


def preview(order: StartOrder, settings: EksSettings) -> list[Manifest]:
    """Return an attempt's manifests in the order in which they would be created.

    Who has no team yet is shown in the first one's namespace. The Service of a Job's ranks is
    shown without its owner, whose uid only the cluster knows.

    Raises:
        InvalidRequest: The cluster would refuse the spec; it names the fields.
    """
    found = lint(order.spec, settings)
    shape = shape_of(order.spec)
    too_long = None if found else shape.refuses(order.tag, order.spec)
    if found or too_long:
        raise InvalidRequest("; ".join([*found, *([too_long] if too_long else [])]))
    team = settings.team_of(order.owner) or settings.teams[0]
    made = [shape.manifest(order, team, settings)]
    if shape.names_ranks(order.spec):
        made.append(service_manifest(order.tag, team.namespace, None))
    return made
