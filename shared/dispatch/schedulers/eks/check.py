"""Trying a cluster before work depends on it: reach, identity, version, rights, clock."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from email.utils import parsedate_to_datetime

from dispatch.schedulers.eks.client import KubeClient, NoAnswer, NoEvidence, NotSent, path
from dispatch.schedulers.eks.look import WORKLOADS, Look
from dispatch.schedulers.eks.objects import Unreadable, mapping, text
from dispatch.schedulers.eks.response import read_refusal
from dispatch.schedulers.eks.settings import EksSettings
from dispatch.schedulers.eks.train_check import trainer_lines
from dispatch.schedulers.scheduler import CheckLine

OLDEST, NEWEST = (1, 33), (1, 37)
_REVIEW = path("apis", "authorization.k8s.io", "v1", "selfsubjectaccessreviews")

Right = tuple[str, str, str]
"""An API group, a resource and a verb."""

_TOP_VERBS = ("get", "list", "create", "patch", "delete")
RIGHTS: tuple[Right, ...] = (
    *(("batch", "jobs", verb) for verb in _TOP_VERBS),
    *(("", "pods", verb) for verb in ("get", "list", "patch", "delete")),
    ("", "pods/log", "get"),
    ("", "events", "list"),
    *(("", "services", verb) for verb in ("get", "create", "delete")),
)
"""What supervision needs in each namespace; `infra/eks/rbac.yaml` grants the same."""

TRAINER_RIGHTS: tuple[Right, ...] = (
    *(("trainer.kubeflow.org", "trainjobs", verb) for verb in _TOP_VERBS),
    *(("jobset.x-k8s.io", "jobsets", verb) for verb in ("list", "patch")),
)
KUEUE_RIGHTS: tuple[Right, ...] = (("kueue.x-k8s.io", "workloads", "list"),)


class Check:
    """The questions of `dispatch clusters check`; they change nothing."""

    def __init__(
        self,
        client: KubeClient,
        look: Look,
        settings: EksSettings,
        clock: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._look = look
        self._settings = settings
        self._clock = clock

    def lines(self) -> list[CheckLine]:
        """Return one line for each thing that was tried; nothing is raised."""
        reach = self._reach()
        if not reach[0].ok:
            return reach
        found = [*reach, self._identity()]
        for namespace in self._settings.namespaces:
            found += [self._namespace(namespace), *self._rights(namespace)]
        found.append(self._cluster_right("nodes"))
        if self._settings.kueue_queue is not None:
            found.append(self._kueue())
        if self._settings.trainer is not None:
            found += trainer_lines(self._look, self._settings.trainer)
        return found

    def _reach(self) -> list[CheckLine]:
        try:
            answer = self._client.get("/version")
        except (NotSent, NoAnswer) as error:
            return [CheckLine("reach", False, f"no answer: {error}")]
        if not answer.ok:
            refusal = read_refusal(answer.status, answer.body)
            return [CheckLine("reach", False, f"{refusal.code} {refusal.message}")]
        return [
            CheckLine("reach", True, "the API server answers"),
            _version(answer.body),
            self._date(answer.date),
        ]

    def _date(self, date: str) -> CheckLine:
        try:
            theirs = parsedate_to_datetime(date)
        except ValueError:
            return CheckLine("clock", True, "the server's clock isn't shown")
        off = abs((self._clock() - theirs).total_seconds())
        # The header has whole seconds.
        fits = off <= self._settings.clock_skew_s + 1
        return CheckLine("clock", fits, f"{off:.0f} s from this one")

    def _identity(self) -> CheckLine:
        try:
            return CheckLine("identity", True, f"kube-system is {self._look.identity()}")
        except (NoEvidence, Unreadable) as error:
            return CheckLine("identity", False, f"kube-system can't be read: {error}")

    def _namespace(self, namespace: str) -> CheckLine:
        what = f"namespace {namespace}"
        try:
            body = self._look.ask(path("api", "v1", "namespaces", namespace))
            phase = text(mapping(body.get("status"), "status").get("phase"), "phase")
        except (NoEvidence, Unreadable) as error:
            return CheckLine(what, False, str(error))
        if phase == "Terminating":
            return CheckLine(what, False, "it is being deleted: nothing can be started in it")
        return CheckLine(what, True, "it is there")

    def _rights(self, namespace: str) -> Iterator[CheckLine]:
        rights = RIGHTS + (KUEUE_RIGHTS if self._settings.kueue_queue is not None else ())
        rights += TRAINER_RIGHTS if self._settings.trainer is not None else ()
        missing = [right for right in rights if self._may(namespace, right) is not None]
        for group, resource, verb in missing:
            said = f"{verb} {resource}.{group}".rstrip(".")
            yield CheckLine(f"rights in {namespace}", False, f"may not {said}")
        if not missing:
            yield CheckLine(f"rights in {namespace}", True, f"all {len(rights)} verbs")

    def _cluster_right(self, resource: str) -> CheckLine:
        refused = self._may("", ("", resource, "get"))
        said = "may get them" if refused is None else f"may not get them: {refused}"
        return CheckLine(f"rights on {resource}", refused is None, said)

    def _may(self, namespace: str, right: Right) -> str | None:
        """Return why a call isn't allowed, None where it is."""
        group, resource, verb = right
        plural, _, sub = resource.partition("/")
        asked = {"group": group, "resource": plural, "verb": verb}
        asked |= {"namespace": namespace} if namespace else {}
        asked |= {"subresource": sub} if sub else {}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": asked},
        }
        try:
            answer = self._client.post(_REVIEW, body)
            if not answer.ok:
                return read_refusal(answer.status, answer.body).message
            status = mapping(mapping(answer.body, "review").get("status"), "status")
        except (NotSent, NoAnswer, Unreadable) as error:
            return str(error)
        if status.get("allowed") is True:
            return None
        return text(status.get("reason"), "reason") or "not allowed"

    def _kueue(self) -> CheckLine:
        where = path(*WORKLOADS, "namespaces", self._settings.namespaces[0], "workloads")
        try:
            self._look.ask(where, {"limit": "1"})
        except (NoEvidence, Unreadable) as error:
            return CheckLine("kueue", False, f"its Workloads can't be listed: {error}")
        return CheckLine("kueue", True, "it answers; no gate, hold or requeue is ours here")


def _version(body: object) -> CheckLine:
    try:
        answer = mapping(body, "version")
        minor = re.match(r"\d+", text(answer.get("minor"), "minor"))
        found = (int(text(answer.get("major"), "major")), int(minor.group() if minor else ""))
    except (Unreadable, ValueError):
        return CheckLine("version", False, "the server doesn't say its version")
    said = f"{found[0]}.{found[1]}"
    if found < OLDEST:
        return CheckLine("version", False, f"{said} is older than {OLDEST[0]}.{OLDEST[1]}")
    note = "" if found <= NEWEST else ", newer than any this was tried on"
    return CheckLine("version", True, f"{said}{note}")
