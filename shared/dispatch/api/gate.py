"""The gate: who calls, and whether they may. Decisions are `dispatch.access`'s; refusals are told.

The rules are those of the clusters' document in force. Where there is none to be had, nobody is
let through: an outage of the configuration is no reason to let anybody do anything.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

from dispatch.access import Caller, Owned, Reach, Rights, Wanted, rights_of
from dispatch.api.gateway import claims_of
from dispatch.clusters import Clusters
from dispatch.errors import (
    Forbidden,
    InvalidRequest,
    JobNotFound,
    JobTombstoned,
    RecordRefused,
)
from dispatch.record.codec import parse_strict
from dispatch.record.names import IntentKind
from dispatch.record.view import View
from dispatch.screening import findings
from dispatch.signals import Signal
from dispatch.store.records import Records


class Gate:
    """Lets a caller through to one action, or raises `Forbidden`.

    Args:
        clusters: Reads the clusters' document in force.
        records: Tells whose a job is.
        actor: Tells who calls from an event.
        log: Told of every refusal, with the actor.
    """

    def __init__(
        self,
        clusters: Callable[[], Clusters],
        records: Callable[[], Records],
        actor: Callable[[Mapping[str, Any]], str],
        log: logging.Logger,
    ) -> None:
        self._clusters = clusters
        self._records = records
        self._actor = actor
        self._log = log

    def rights(self, event: Mapping[str, Any]) -> Rights:
        """Return what the caller of an event may do.

        Raises:
            Forbidden: The authorizer named nobody.
            BadConfiguration, TryLater: The rules can't be had.
        """
        caller = Caller(self._actor(event), claims_of(event))
        return rights_of(self._clusters().access, caller)

    def submit(self, rights: Rights, wanted: Wanted) -> None:
        """Let a submission through."""
        refused = rights.refuses_submit(wanted)
        if refused is not None:
            raise self._refused(rights, refused)

    def plain(self, rights: Rights, env: Mapping[str, str], insisted: Collection[str]) -> None:
        """Let plain environment variables through that don't look like secrets, or are insisted on.

        Raises:
            InvalidRequest: names the variable, never its value.
        """
        for name in insisted:
            if name not in env:
                raise InvalidRequest(f"{name} isn't in spec.env", field="allow_plain")
        actor = rights.caller.principal
        for one in findings(env):
            if one.name not in insisted:
                raise InvalidRequest(
                    f"its value looks like {one.looks_like}, and a record is kept for ever: give "
                    f"a reference in spec.secrets, or insist with allow_plain: [{one.name}]",
                    field=f"spec.env.{one.name}",
                )
            told = {**Signal.SECRET_INSISTED.extra, "actor": actor}
            said = "%s insists on a plain %s that looks like %s"
            self._log.warning(said, actor, one.name, one.looks_like, extra=told)

    def intend(self, rights: Rights, kind: IntentKind, job_id: str) -> str:
        """Let an intent through, and return who sends it."""
        self._of_a_job(rights, rights.intents[kind], f"send {kind} to", job_id)
        return rights.caller.principal

    def read(self, rights: Rights, job_id: str) -> None:
        """Let a reader of one job through."""
        self._of_a_job(rights, rights.read, "read", job_id)

    def tombstone(self, rights: Rights, job_id: str) -> None:
        """Let a removal of one job through."""
        reach = rights.tombstone
        if not (reach.none or reach.all) and self._owned(job_id) is None:
            return  # it is marked already, or never was; whose it was can't be told any more
        self._of_a_job(rights, rights.tombstone, "tombstone", job_id)

    def admin(self, rights: Rights, what: str) -> None:
        """Let an administrator through."""
        if not rights.admin:
            raise self._refused(rights, what)

    def anyone(self, rights: Rights, what: str) -> None:
        """Let everybody through whom any rule grants anything."""
        if not rights.anything:
            raise self._refused(rights, what)

    def lists(self, rights: Rights) -> None:
        """Let a listing through; `shows` then says of each job whether it is on it."""
        if rights.read.none:
            raise self._refused(rights, "list jobs")

    def shows(self, rights: Rights, job_id: str) -> bool:
        """Return whether a job may stand on a caller's listing."""
        if rights.read.all:
            return True
        owned = self._owned(job_id)
        return owned is not None and rights.reaches(rights.read, owned)

    def _of_a_job(self, rights: Rights, reach: Reach, verb: str, job_id: str) -> None:
        if reach.all:
            return
        owned = None if reach.none else self._owned(job_id)
        if owned is None and not reach.none:
            self._records().read(job_id)  # says whether it is gone, or never was
        if owned is None or not rights.reaches(reach, owned):
            raise self._refused(rights, f"{verb} job {job_id}", job=job_id)

    def _owned(self, job_id: str) -> Owned | None:
        """Return whose a job is; None where there is nothing to be read."""
        try:
            return owner_of(self._records().read(job_id))
        except (JobNotFound, JobTombstoned):
            return None
        except RecordRefused:
            return Owned(None)

    def _refused(self, rights: Rights, what: str, *, job: str | None = None) -> Forbidden:
        actor = rights.caller.principal
        told = {**Signal.ACCESS_REFUSED.extra, "actor": actor, "action": what}
        self._log.warning("refused: %s may not %s", actor, what, extra=told)
        return Forbidden(f"{actor} may not {what}; `GET /whoami` says what you may", job=job)


def owner_of(view: View) -> Owned:
    """Return whose a job is, also where this build can't decode its header."""
    try:
        body = parse_strict(view.header.body)
    except RecordRefused:
        return Owned(None)
    if not isinstance(body, dict):
        return Owned(None)
    creator, spec = body.get("created_by"), body.get("spec")
    labels = spec.get("labels") if isinstance(spec, dict) else None
    return Owned(
        creator if isinstance(creator, str) else None,
        {name: one for name, one in labels.items() if isinstance(one, str)}
        if isinstance(labels, dict)
        else {},
    )
