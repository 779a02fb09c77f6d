"""Whether a cluster serves what TrainJobs need, in the version and release that are expected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dispatch.schedulers.eks.client import NoEvidence, path
from dispatch.schedulers.eks.look import Look
from dispatch.schedulers.eks.objects import JsonMap, Unreadable, mapping, sequence, text
from dispatch.schedulers.eks.settings import TrainerSettings
from dispatch.schedulers.eks.train_look import JOBSET_VERSION
from dispatch.schedulers.eks.train_objects import JOBSET_GROUP, TRAINER_GROUP
from dispatch.schedulers.scheduler import CheckLine

_SERVED = (
    ("trainer", TRAINER_GROUP, "v1alpha1", "trainjobs"),
    ("jobset", JOBSET_GROUP, JOBSET_VERSION, "jobsets"),
)
_TOLD_BY = {
    "runtimePatches": "2.2",
    "podTemplateOverrides": "2.1",
    "podSpecOverrides": "2.0",
}
"""The field of a TrainJob that tells a release from the one before it."""

_EVIDENCE = {
    "trainjob": "each TrainJob puts the finalizer on its pods",
    "runtime": "the runtimes' pod templates must bear the finalizer dispatch/evidence",
    "none": (
        "nobody keeps a TrainJob's pods: one that goes between two looks is lost, "
        "and a hold of what runs ends it"
    ),
}


def trainer_lines(look: Look, settings: TrainerSettings) -> Iterator[CheckLine]:
    """Yield one line for each thing that TrainJobs need; nothing is raised."""
    for what, group, version, plural in _SERVED:
        yield _served(look, what, (group, version, plural))
    yield _release(look, settings)
    yield CheckLine("evidence of TrainJobs", True, _EVIDENCE[settings.evidence])


def _served(look: Look, what: str, api: tuple[str, str, str]) -> CheckLine:
    group, version, plural = api
    try:
        versions = _versions(look.ask(path("apis", group)))
        if version not in versions:
            others = ", ".join(versions)
            return CheckLine(what, False, f"{group} is served as {others}, not as {version}")
        listed = sequence(look.ask(path("apis", group, version)).get("resources"), "resources")
    except (NoEvidence, Unreadable) as error:
        return CheckLine(what, False, f"{group}/{version} isn't served: {error}")
    names = [text(mapping(one, "resource").get("name"), "name") for one in listed]
    if plural not in names:
        return CheckLine(what, False, f"{group}/{version} serves no {plural}")
    return CheckLine(what, True, f"{group}/{version} serves {plural}")


def _versions(group: JsonMap) -> list[str]:
    listed = sequence(group.get("versions"), "versions")
    return [text(mapping(one, "version").get("version"), "version") for one in listed]


def _release(look: Look, settings: TrainerSettings) -> CheckLine:
    what, said = "trainer release", settings.release
    try:
        body = look.document(path("openapi", "v3", "apis", TRAINER_GROUP, "v1alpha1"))
    except (NoEvidence, Unreadable) as error:
        return CheckLine(what, True, f"the settings say {said}; the server doesn't show: {error}")
    found = release_of(body)
    if found is None:
        return CheckLine(what, True, f"the settings say {said}; its schema tells no release")
    if found != said:
        wrong = f"the settings say {said}, its TrainJob is that of {found}"
        return CheckLine(what, False, f"{wrong}: set trainer.release to {found}")
    return CheckLine(what, True, f"its TrainJob is that of {found}")


def release_of(document: JsonMap) -> str | None:
    """Return the release whose TrainJob an OpenAPI document describes, None where none shows."""
    schemas = mapping(mapping(document.get("components"), "components").get("schemas"), "schemas")
    for name, schema in schemas.items():
        if not name.endswith(".TrainJob"):
            continue
        spec = _properties(_properties(mapping(schema, name)).get("spec"))
        for field, release in _TOLD_BY.items():
            if field in spec:
                return release
    return None


def _properties(schema: object) -> Mapping[str, object]:
    return mapping(mapping(schema, "schema").get("properties"), "properties")
