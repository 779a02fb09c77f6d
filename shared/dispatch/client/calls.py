"""The calls of the API, typed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Self
from urllib.parse import quote
from uuid import uuid4

import httpx
from pydantic import ValidationError

from dispatch.api import (
    IDEMPOTENCY_HEADER,
    NEXT_HEADER,
    AcceptLossRequest,
    ClusterAnswer,
    ClustersAnswer,
    EntryAnswer,
    HistoryAnswer,
    IntentRequest,
    LintAnswer,
    ListedAnswer,
    ListingAnswer,
    LogsAnswer,
    LossAcceptedAnswer,
    ReceiptAnswer,
    StatusAnswer,
    SubmitRequest,
    SubmittedAnswer,
    WhoamiAnswer,
)
from dispatch.client.failures import BadAnswer, WaitedTooLong
from dispatch.client.goals import Until, over, settled
from dispatch.client.transport import Patience, Transport
from dispatch.errors import InvalidRequest, NothingRan, SchedulerUnavailable
from dispatch.record.codec import refusal
from dispatch.record.export import import_text
from dispatch.record.names import IntentKind
from dispatch.record.view import View

PAGE = 100
"""Lines of a listing that are asked for at once."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job that exists.

    Attributes:
        job_id: Which.
        key: The idempotency key it stands under; the same key never makes a second job.
        created: False when the key stood for it already.
        generation: Its place in its lineage.
    """

    job_id: str
    key: str
    created: bool
    generation: int


def new_key() -> str:
    """Return a fresh idempotency key."""
    return f"cli-{uuid4()}"


class Client:
    """Speaks to one endpoint. Not for use from several threads at once.

    Args:
        url: Where the API listens, with its stage if it has one.
        auth: `SigV4`, `Bearer`, or None where the endpoint asks for neither.
        patience: Time-outs and tries.
        transport: In place of the network, for tests.
        sleep: Waits that many seconds.
        monotonic: Seconds that only grow.
        chance: Draws from 0 up to 1, to spread what many clients would else do at once.
        key: Makes keys and ids.
    """

    def __init__(
        self,
        url: str,
        *,
        auth: httpx.Auth | None = None,
        patience: Patience | None = None,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
        key: Callable[[], str] = new_key,
    ) -> None:
        self._to = Transport(
            url, auth=auth, patience=patience, network=transport, sleep=sleep, chance=chance
        )
        self._monotonic = monotonic
        self._key = key

    @property
    def url(self) -> str:
        """Where the API listens."""
        return self._to.url

    def __enter__(self) -> Self:
        """Return the client; leaving the block closes its connections."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._to.close()

    # --- writing ---

    def submit(self, request: SubmitRequest, *, key: str | None = None) -> Submitted:
        """Create a job, or get the one that its key stands for.

        Args:
            request: What to run, and where.
            key: The idempotency key; None for a fresh one, which the answer names.

        Raises:
            InvalidRequest, UnknownCluster, IdempotencyConflict, NotSettled: Nothing was created.
            Unreachable, TryLater: Nothing was created; submit again.
            Unknown: It may exist; submit again with the same key.
        """
        used = key or self._key()
        answer = self._to.answer(
            SubmittedAnswer,
            "POST",
            "/jobs",
            body=request.model_dump_json(exclude_none=True),
            headers={IDEMPOTENCY_HEADER: used},
        )
        return Submitted(answer.job_id, used, answer.created, answer.generation)

    def intend(
        self,
        job: str,
        kind: IntentKind,
        *,
        intent_id: str | None = None,
        reason: str | None = None,
        target: str | None = None,
    ) -> ReceiptAnswer:
        """Record what is wanted of a job; the receipt says what that did.

        Args:
            job: Which job.
            kind: One of the seven.
            intent_id: Sent again, it has no further effect; None for a fresh one.
            reason: Why, for the record.
            target: Only for abandon.

        Raises:
            InvalidRequest, JobNotFound, JobTombstoned: Nothing was recorded.
            Unreachable, TryLater: Nothing was recorded; send it again.
            Unknown: It may be recorded; send it again with the same id.
        """
        try:
            asked = IntentRequest(
                kind=kind, id=intent_id or self._key(), reason=reason, target=target
            )
        except ValidationError as error:
            refused = refusal(error)
            raise InvalidRequest(refused.reason, job=job, field=refused.field) from None
        return self._to.answer(
            ReceiptAnswer,
            "POST",
            f"{_path(job)}/intents",
            body=asked.model_dump_json(exclude_none=True),
        )

    def lint(self, request: SubmitRequest) -> LintAnswer:
        """Return what the request's cluster would refuse of it; nothing is submitted.

        Raises:
            InvalidRequest, UnknownCluster: It can't be judged at all.
            Unreachable, TryLater: Ask again.
        """
        body = request.model_dump_json(exclude_none=True)
        return self._to.answer(LintAnswer, "POST", "/lint", body=body)

    def tombstone(self, job: str) -> None:
        """Mark a settled job's record for removal; its key stays taken.

        Raises:
            JobNotFound, NotSettled: Nothing was changed.
        """
        self._to.send("DELETE", _path(job))

    # --- asking ---

    def get(self, job: str) -> StatusAnswer:
        """Return a job's status.

        Raises:
            JobNotFound, JobTombstoned: There is no such record.
            RecordRefused: The record can't be folded; `history` still shows it.
        """
        return self._to.answer(StatusAnswer, "GET", _path(job))

    def jobs(
        self,
        *,
        settled: bool | None = None,
        cluster: str | None = None,
        summary: bool = False,
        page: int = PAGE,
    ) -> Iterator[ListedAnswer]:
        """Yield all jobs by their settled label, oldest first, page by page.

        Args:
            settled: True, False, or None for both.
            cluster: Only this cluster's.
            summary: Whether each line says what its job is doing, which reads its record.
            page: Lines asked for at once.
        """
        asked: dict[str, str] = {"limit": str(page)}
        if settled is not None:
            asked["settled"] = "true" if settled else "false"
        if cluster is not None:
            asked["cluster"] = cluster
        if summary:
            asked["summary"] = "true"
        while True:
            listing = self._to.answer(ListingAnswer, "GET", "/jobs", query=asked)
            yield from listing.jobs
            if listing.cursor is None:
                return
            _goes_on(asked.get("cursor"), listing.cursor)
            asked["cursor"] = listing.cursor

    def history(self, job: str, *, after: int = 0) -> Iterator[HistoryAnswer]:
        """Yield the pages of a job's history, oldest entries first.

        Args:
            job: Which job.
            after: The number of the last entry that isn't wanted.
        """
        while True:
            asked = {"after": str(after)}
            page = self._to.answer(HistoryAnswer, "GET", f"{_path(job)}/history", query=asked)
            yield page
            if page.next_after is None:
                return
            _goes_on(after, page.next_after)
            after = page.next_after

    def follow_history(
        self, job: str, *, after: int = 0, timeout: timedelta | None = None
    ) -> Iterator[EntryAnswer]:
        """Yield a job's entries, those that stand there and those that come, until it is settled.

        Args:
            job: Which job.
            after: The number of the last entry that isn't wanted.
            timeout: None for as long as it takes.

        Raises:
            RecordRefused: The record can't be folded, so that nobody can tell when it is settled.
            WaitedTooLong: It isn't settled in the time given.
        """
        for status in self.watch(job, timeout=timeout):
            if status.revision > after:
                for page in self.history(job, after=after):
                    yield from page.entries
                    after = page.entries[-1].number if page.entries else after
            if settled(status) and status.revision <= after:
                return

    def export(self, job: str) -> str:
        """Return a job's record as a text that folds to the same job on any machine."""
        parts: list[str] = []
        after: str | None = "0"
        while after is not None:
            reply = self._to.send("GET", f"{_path(job)}/export", query={"after": after})
            parts.append(reply.text)
            before, after = after, reply.headers.get(NEXT_HEADER)
            _goes_on(before, after)
        return "".join(parts)

    def record(self, job: str) -> View:
        """Return a job's record, to be folded here."""
        return import_text(self.export(job))

    def clusters(self) -> tuple[ClusterAnswer, ...]:
        """Return the configured clusters and how their supervision goes."""
        return self._to.answer(ClustersAnswer, "GET", "/clusters").clusters

    def accept_loss(self, cluster: str, *, reason: str | None = None) -> LossAcceptedAnswer:
        """Say that what a cluster lost at once, or its new identity, is real.

        Raises:
            Forbidden: Only an administrator may.
            UnknownCluster: There is none of that name.
            Unreachable, TryLater: Say it again.
        """
        body = AcceptLossRequest(reason=reason).model_dump_json(exclude_none=True)
        path = f"/clusters/{quote(cluster, safe='')}/accept-loss"
        return self._to.answer(LossAcceptedAnswer, "POST", path, body=body)

    def relay(self, target: str) -> httpx.Response:
        """Ask one question as it stands, `path?query`, once; return whatever is answered.

        This one may be called from several threads at once.

        Raises:
            Unreachable, Unanswered: Nothing was.
        """
        return self._to.relay(target)

    def whoami(self) -> str:
        """Return who the endpoint takes the caller for."""
        return self.rights().actor

    def rights(self) -> WhoamiAnswer:
        """Return who the endpoint takes the caller for, and what they may do."""
        return self._to.answer(WhoamiAnswer, "GET", "/whoami")

    def logs(self, job: str, *, offset: int = 0) -> LogsAnswer:
        """Return a piece of a job's output, from a byte offset.

        Raises:
            Unsupported: The cluster can't read output.
            NothingRan: There is none yet.
            SchedulerUnavailable: It can't be read now.
        """
        return self._to.answer(
            LogsAnswer, "GET", f"{_path(job)}/logs", query={"offset": str(offset)}
        )

    def follow(self, job: str, *, offset: int = 0) -> Iterator[str]:
        """Yield a job's output as it comes, of each submission in turn, until the job is over.

        Args:
            job: Which job.
            offset: Bytes of the first object's output to leave out.

        Raises:
            Unsupported: The cluster can't read output.
        """
        ref, pause = "", self._to.patience.first_pause_s
        while True:
            done = over(self.get(job))
            text = ""
            try:
                piece = self.logs(job, offset=offset)
                if ref and piece.ref != ref:
                    piece = self.logs(job)
                ref, offset, text = piece.ref, piece.next_offset, piece.text
            except (NothingRan, SchedulerUnavailable):
                # Nothing has run yet, or it can't be read now.
                text = ""
            if text:
                pause = self._to.patience.first_pause_s
                yield text
                continue
            if done:
                return
            self._to.sleep(self._to.spread(pause))
            pause = min(pause * 1.5, self._to.patience.longest_pause_s)

    # --- waiting ---

    def watch(
        self, job: str, *, timeout: timedelta | None = None, every: bool = False
    ) -> Iterator[StatusAnswer]:
        """Yield a job's status now and whenever its record has changed, with a growing pause.

        Args:
            job: Which job.
            timeout: None for as long as it takes.
            every: Yield it at each look, changed or not.

        Raises:
            WaitedTooLong: The time given is over.
        """
        began = self._monotonic()
        pause = self._to.patience.first_pause_s
        seen: StatusAnswer | None = None
        while True:
            status = self.get(job)
            if seen is None or _changed(seen, status):
                pause = self._to.patience.first_pause_s
                seen = status
                yield status
            elif every:
                yield status
            spent = self._monotonic() - began
            nap = self._to.spread(pause)
            if timeout is not None and spent + nap > timeout.total_seconds():
                raise WaitedTooLong(f"still {status.state} after {spent:.0f} s", job=job)
            self._to.sleep(nap)
            pause = min(pause * 1.5, self._to.patience.longest_pause_s)

    def wait(
        self, job: str, *, until: Until = settled, timeout: timedelta | None = None
    ) -> StatusAnswer:
        """Return a job's status once it is as wanted: settled, over, or one's own predicate.

        Raises:
            WaitedTooLong: It isn't in the time given.
        """
        return next(status for status in self.watch(job, timeout=timeout) if until(status))


def _goes_on(before: object, after: object) -> None:
    if before == after:
        raise BadAnswer(f"the next page is the same again: {after}")


def _path(job: str) -> str:
    return f"/jobs/{quote(job, safe='')}"


def _changed(before: StatusAnswer, after: StatusAnswer) -> bool:
    return _shown(before) != _shown(after)


def _shown(status: StatusAnswer) -> tuple[object, ...]:
    """Return what is a change where it differs."""
    quiet = status.progress is not None and status.progress.quiet
    return status.revision, status.state, status.waiting_for, quiet
