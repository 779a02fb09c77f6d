"""Questions to one cluster: the version, the signs of life, the back-off and the tokens' user."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from dispatch.errors import SchedulerUnavailable
from dispatch.schedulers.slurm import request
from dispatch.schedulers.slurm.numbers import number
from dispatch.schedulers.slurm.request import Question
from dispatch.schedulers.slurm.response import SUPPORTED, Answer, Kind, Reply, read
from dispatch.schedulers.slurm.rest import NoReply, Rest
from dispatch.schedulers.slurm.settings import SlurmCluster

_QUIET_AFTER = 3
"""So many looks in a row without an answer, and the next ones are spaced out."""

_LONGEST_QUIET_S = 60
_FRESH_S = 5
"""A sign of life younger than this makes a ping needless, seconds."""

_READ_LIFETIME_S = 120


class Doubt(Exception):
    """No answer that anything can be concluded from.

    Attributes:
        sent: Whether the question may have taken effect.
        begun: Whether an answer had begun to arrive.
    """

    def __init__(self, reason: str, *, sent: bool = True, begun: bool = False) -> None:
        super().__init__(reason)
        self.sent = sent
        self.begun = begun


class Cut(SchedulerUnavailable):
    """The answer to a look began and wasn't whole."""


class Session:
    """One cluster's conversation. What it keeps saves requests; no promise rests on it."""

    def __init__(self, cluster: SlurmCluster, rest: Rest, clock: Callable[[], datetime]) -> None:
        self._cluster = cluster
        self._rest = rest
        self._clock = clock
        self._api: str | None = cluster.api
        self._failures = 0
        self._quiet_until: datetime | None = None
        self._alive_at: datetime | None = None

    def read(self, question: Question) -> Answer:
        """Return the answer to a look at the whole cluster.

        Raises:
            SchedulerUnavailable: None came, or the cluster is left alone for a while.
        """
        now = self._clock()
        if self._quiet_until is not None and now < self._quiet_until:
            raise SchedulerUnavailable(
                f"cluster {self._cluster.name} didn't answer {self._failures} times; "
                f"asked again at {self._quiet_until:%H:%M:%S} UTC"
            )
        try:
            answer = self.ask(question)
        except Doubt as doubt:
            self._failed()
            error = Cut if doubt.begun else SchedulerUnavailable
            raise error(f"cluster {self._cluster.name}: {doubt}") from None
        if answer.kind is Kind.UNKNOWN:
            self._failed()
        else:
            self._failures, self._quiet_until = 0, None
        return answer

    def ask(self, question: Question, *, user: str | None = None) -> Answer:
        """Return the answer to a read, whatever it is.

        Raises:
            Doubt: None came.
        """
        return self._send(question, user or self._cluster.user, _READ_LIFETIME_S)

    def call(self, question: Question, *, user: str) -> Answer:
        """Return the answer to a call, sent once, whose token ends with the landing bound.

        Raises:
            Doubt: None came; it may have taken effect.
        """
        sign_in = self._cluster.sign_in
        lifetime_s = sign_in.lifetime_s if sign_in.kind == "hs256" else _READ_LIFETIME_S
        return self._send(question, user, lifetime_s)

    def alive(self) -> None:
        """Ping slurmctld unless it answered a moment ago.

        Without it, a call to a dead slurmctld takes up to 20 s to fail, in doubt.

        Raises:
            Doubt: It doesn't answer; nothing was sent to it.
        """
        now = self._clock()
        if self._alive_at is not None and now - self._alive_at < timedelta(seconds=_FRESH_S):
            return
        try:
            answer = self.ask(request.ping())
        except Doubt as doubt:
            raise Doubt(f"nothing was sent: {doubt}", sent=False) from None
        if answer.kind is not Kind.ACCEPTED:
            raise Doubt(f"nothing was sent: {answer.detail}", sent=False)

    def fetch(self, method: str, path: str) -> Reply:
        """Return the raw reply to a whole path, for the check.

        Raises:
            Doubt: None came.
        """
        try:
            return self._rest.fetch(
                method, path, user=self._cluster.user, lifetime_s=_READ_LIFETIME_S
            )
        except (NoReply, SchedulerUnavailable) as reason:
            raise Doubt(str(reason)) from None

    def began(self) -> datetime | None:
        """Return since when slurmctld has been running, at the earliest; None if it can't be told.

        Its statistics begin with it, and again at midnight and whenever somebody resets them.
        """
        try:
            reply = self.fetch("GET", f"/slurm/{self.api()}/diag/")
        except Doubt:
            return None
        statistics = reply.body.get("statistics") if isinstance(reply.body, Mapping) else None
        stamp = statistics.get("req_time_start") if isinstance(statistics, Mapping) else None
        seconds = number(stamp)
        return None if not seconds else datetime.fromtimestamp(seconds, UTC)

    def api(self) -> str:
        """Return the version that is spoken: the configured one, or the newest both know.

        Raises:
            Doubt: None of ours is served, or no answer came.
        """
        if self._api is None:
            for version in SUPPORTED:
                answer = self._once(version, request.ping(), self._cluster.user, _READ_LIFETIME_S)
                if answer.kind is not Kind.WRONG_VERSION:
                    self._api = version
                    break
            else:
                raise Doubt(self._wrong_version("none of " + ", ".join(SUPPORTED)), sent=False)
        return self._api

    def close(self) -> None:
        """Close the kept connections."""
        self._rest.close()

    def _send(self, question: Question, user: str, lifetime_s: int) -> Answer:
        version = self.api()
        answer = self._once(version, question, user, lifetime_s)
        if answer.kind is Kind.WRONG_VERSION:
            if self._cluster.api is None:
                self._api = None
            raise Doubt(self._wrong_version(version), sent=False)
        if answer.kind is Kind.CREDENTIALS:
            self._rest.forget_token()
            raise Doubt(f"configuration: {user}'s token isn't taken: {answer.detail}", sent=False)
        if answer.kind not in (Kind.UNKNOWN,):
            self._alive_at = self._clock()
        else:
            self._alive_at = None
        return answer

    def _once(self, version: str, question: Question, user: str, lifetime_s: int) -> Answer:
        try:
            return read(self._rest.send(version, question, user=user, lifetime_s=lifetime_s))
        except NoReply as reason:
            self._alive_at = None
            raise Doubt(str(reason), sent=reason.sent, begun=reason.begun) from None
        except SchedulerUnavailable as reason:
            raise Doubt(str(reason), sent=False) from None

    def _wrong_version(self, version: str) -> str:
        return (
            f"configuration: the server doesn't serve API {version}; Dispatch speaks "
            f"{' and '.join(reversed(SUPPORTED))}. This says nothing about any job"
        )

    def _failed(self) -> None:
        self._failures += 1
        if self._failures >= _QUIET_AFTER:
            seconds = min(2 ** (self._failures - _QUIET_AFTER), _LONGEST_QUIET_S)
            self._quiet_until = self._clock() + timedelta(seconds=seconds)
