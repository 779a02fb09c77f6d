"""The API: an HTTP API's events in, records read and intents appended, answers and problems out.

The actor comes from the authorizer, never from the body. No fact is written here and no scheduler
is asked about jobs; only output is read from one, where it can be.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import cache, partial
from http import HTTPStatus
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from pydantic import BaseModel

from dispatch import api
from dispatch.access import Rights, Wanted
from dispatch.api import console
from dispatch.api.gate import Gate
from dispatch.api.gateway import Query, Refused, actor_of, body_of, header_of, query_of
from dispatch.api.routes import HTML_TYPE, ROUTES, Route, allowed
from dispatch.api.sign_in import sign_in_of
from dispatch.clusters import Brakes
from dispatch.core.fold import fold
from dispatch.core.job import Job
from dispatch.core.project import project
from dispatch.errors import (
    CallerError,
    ClusterDrained,
    DispatchError,
    Forbidden,
    IdempotencyConflict,
    InvalidRequest,
    RecordRefused,
    Unsupported,
)
from dispatch.narrate.words import Reader
from dispatch.operator import Submit
from dispatch.signals import Signal
from dispatch.store.records import Listed
from dispatch.supervisor.execute import target_of
from dispatch.supervisor.health import accept_loss, loss_accepted_at
from dispatch.supervisor.progress import Progress, progress_of
from dispatch.supervisor.sweep import Beat
from dispatch.wiring import Wiring, from_settings

Event = dict[str, Any]
Handler = Callable[[Event, Any], dict[str, Any]]

MAX_SUMMARIES = 100
_PATHS = tuple((route, route.path.replace("{", "<").replace("}", ">")) for route in ROUTES)


class Api:
    """What each route does; one instance serves a whole process.

    Args:
        wiring: Where store, clusters and operator come from.
        actor: Tells who calls from an event.
        log: For what people who run this should see.
    """

    def __init__(
        self,
        wiring: Wiring,
        actor: Callable[[Mapping[str, Any]], str],
        log: logging.Logger,
    ) -> None:
        self._wiring = wiring
        self._log = log
        self._gate = Gate(lambda: wiring.clusters, lambda: wiring.store, actor, log)

    # --- writing ------------------------------------------------------------------------------

    def submit(self, event: Event, query: Query) -> Response[str]:
        """Create a job, or give back the one that the key stands for."""
        rights = self._gate.rights(event)
        key = header_of(event, api.IDEMPOTENCY_HEADER)
        if not key:
            raise InvalidRequest("the header is missing", field=api.IDEMPOTENCY_HEADER)
        request = api.parse_submit(body_of(event))
        self._gate.submit(rights, Wanted(request.cluster))
        try:
            self._admitted(rights, request)
            wanted = self._wanted(key, request)
            made = self._wiring.operator.submit(wanted, by=rights.caller.principal)
        except (IdempotencyConflict, Forbidden):
            raise
        except CallerError:
            # The same key gives the same job back, whatever became of clusters and ancestors.
            standing = self._wiring.operator.standing(key, request.spec)
            if standing is None:
                raise
            made = standing
        answer = api.SubmittedAnswer(
            job_id=made.job_id, created=made.created, generation=made.generation
        )
        where = {"Location": f"/jobs/{made.job_id}"}
        return _json(answer, HTTPStatus.CREATED if made.created else HTTPStatus.OK, where)

    def _admitted(self, rights: Rights, request: api.SubmitRequest) -> None:
        """Refuse what the caller may not ask for, and what looks like a secret."""
        actor, spec = rights.caller.principal, request.spec
        if not rights.admin:
            self._gate.submit(rights, self._wiring.wanted(request.cluster, spec, actor))
        if request.supersedes is not None:
            self._gate.read(rights, request.supersedes)
        self._gate.plain(rights, spec.env, request.allow_plain or ())

    def _wanted(self, key: str, request: api.SubmitRequest) -> Submit:
        cluster = self._wiring.clusters.named(request.cluster)
        if cluster.brakes.drained is not None:
            raise ClusterDrained(f"cluster {cluster.name}: {cluster.brakes.drained}")
        refused = self._wiring.lint(cluster.name, request.spec)
        if refused:
            raise InvalidRequest("; ".join(refused), field="spec")
        retries, unmatched = request.start_retries, request.unmatched
        return Submit(
            idempotency_key=key,
            spec=request.spec,
            plan=request.plan or cluster.plan,
            declarations=self._wiring.declarations(cluster.name),
            start_retries=cluster.start_retries if retries is None else retries,
            unmatched=unmatched or cluster.unmatched,
            supersedes=request.supersedes,
        )

    def lint(self, event: Event, query: Query) -> Response[str]:
        """Say what would be refused of a submission, and submit nothing."""
        rights, wiring = self._gate.rights(event), self._wiring
        self._gate.anyone(rights, "have a submission judged")
        request = api.parse_submit(body_of(event))
        cluster = wiring.clusters.named(request.cluster)
        refused = wiring.lint(cluster.name, request.spec)
        found = api.lint(request, cluster, wiring.declarations(cluster.name), refused)
        asked = wiring.wanted(cluster.name, request.spec, rights.caller.principal)
        barred = api.lint_rights(rights.refuses_submit(asked))
        return _json(api.LintAnswer(cluster=cluster.name, findings=(*barred, *found)))

    def intend(self, event: Event, query: Query, job_id: str) -> Response[str]:
        """Record what a person wants."""
        rights = self._gate.rights(event)
        request = api.parse_intent(body_of(event), job=job_id)
        by = self._gate.intend(rights, request.kind, job_id)
        receipt = self._wiring.operator.intend(
            job_id,
            request.kind,
            intent_id=request.id,
            by=by,
            reason=request.reason,
            target=request.target,
        )
        return _json(api.ReceiptAnswer.model_validate(receipt))

    def tombstone(self, event: Event, query: Query, job_id: str) -> Response[str]:
        """Mark a settled record for removal."""
        self._gate.tombstone(self._gate.rights(event), job_id)
        self._wiring.operator.tombstone(job_id)
        return Response(status_code=HTTPStatus.NO_CONTENT, content_type=None, body="")

    # --- reading ------------------------------------------------------------------------------

    def status(self, event: Event, query: Query, job_id: str) -> Response[str]:
        """Fold the record and project it without a discovery."""
        self._reader(event, job_id)
        now = self._wiring.edges.clock()
        job = fold(self._wiring.store.read(job_id), now)
        cluster = job.declarations.cluster
        health = self._wiring.store.get_health(cluster)
        status = project(job, None, now, staleness=api.staleness_of(health))
        brakes, progress = self._brakes(cluster), self._progress(job, now)
        return _json(api.status_of(status, job.header, now, brakes, progress))

    def _brakes(self, cluster: str) -> Brakes | None:
        known = {one.name: one.brakes for one in self._wiring.clusters.clusters}
        return known.get(cluster)

    def _progress(self, job: Job, now: datetime) -> Progress | None:
        return progress_of(job, self._wiring.scheduler, now)

    def _reader(self, event: Event, job_id: str) -> None:
        self._gate.read(self._gate.rights(event), job_id)

    def history(self, event: Event, query: Query, job_id: str) -> Response[str]:
        """Show a page of the entries as they are stored."""
        self._reader(event, job_id)
        after = query.number("after", 0, most=10**9)
        limit = query.number("limit", 1000, least=1, most=1000)
        view = self._wiring.store.read(job_id)
        refused: RecordRefused | None = None
        try:
            fold(view, self._wiring.edges.clock())
        except RecordRefused as error:
            refused = error
        return _json(api.history_of(view, refused, after=after, limit=limit))

    def why(self, event: Event, query: Query, job_id: str) -> Response[str]:
        """Tell a record's story."""
        self._reader(event, job_id)
        view, reader = self._wiring.store.read(job_id), self._told_to(query)
        try:
            job = fold(view, reader.now)
        except RecordRefused:
            return _json(api.story_of(view, reader, None))
        health = self._wiring.store.get_health(job.declarations.cluster)
        brakes, progress = self._brakes(job.declarations.cluster), self._progress(job, reader.now)
        return _json(api.story_of(view, reader, health, api.around_of(brakes, progress)))

    def timeline(self, event: Event, query: Query, job_id: str) -> Response[str]:
        """Show a record along time."""
        self._reader(event, job_id)
        view = self._wiring.store.read(job_id)
        return _json(api.timeline_of(view, self._told_to(query)))

    def _told_to(self, query: Query) -> Reader:
        offset = query.number("utc_offset_min", 0, least=-1439, most=1439)
        return api.reader_of(self._wiring.edges.clock(), offset)

    def export(self, event: Event, query: Query, job_id: str) -> Response[str]:
        """Give the record as JSON lines, cut where an answer would grow too large."""
        self._reader(event, job_id)
        after = query.number("after", 0, most=10**9)
        view = self._wiring.store.read(job_id)
        text, next_after = api.export_piece(view, after, most=api.MAX_ANSWER_BYTES)
        headers = {"Dispatch-Revision": str(view.revision)}
        if next_after is not None:
            headers[api.NEXT_HEADER] = str(next_after)
        return Response(HTTPStatus.OK, api.EXPORT_TYPE, text, headers=dict(headers))

    def list(self, event: Event, query: Query) -> Response[str]:
        """List jobs from the index, with summaries from their records where asked."""
        rights = self._gate.rights(event)
        self._gate.lists(rights)
        summary = query.flag("summary") or False
        most = 1000 if rights.read.all and not summary else MAX_SUMMARIES
        page = self._wiring.store.list(
            settled=query.flag("settled"),
            cluster=query.text("cluster"),
            limit=query.number("limit", 100, least=1, most=most),
            cursor=query.text("cursor"),
            newest_first=query.one_of("order", "oldest", "newest") == "newest",
        )
        lines = tuple(
            api.ListedAnswer.model_validate(one).model_copy(
                update={"summary": self._summary(one) if summary else None}
            )
            for one in page.items
            if self._gate.shows(rights, one.job_id)
        )
        return _json(api.ListingAnswer(jobs=lines, cursor=page.cursor))

    def _summary(self, line: Listed) -> api.SummaryAnswer | None:
        if line.tombstoned:
            return None
        store, now = self._wiring.store, self._wiring.edges.clock()
        progress = partial(self._progress, now=now)
        return api.summary_of(lambda: store.read(line.job_id), now, progress)

    def logs(self, event: Event, query: Query, job_id: str) -> Response[str]:
        """Read a piece of an object's output from its cluster."""
        self._reader(event, job_id)
        offset = query.number("offset", 0, most=2**53)
        limit = query.number("limit", 65_536, least=1, most=api.MAX_LOG_BYTES)
        job = fold(self._wiring.store.read(job_id), self._wiring.edges.clock())
        ref = query.text("ref") or api.latest_ref(job)
        if ref not in job.objects:
            raise InvalidRequest(f"no object {ref!r} is recorded", job=job_id, field="ref")
        cluster = job.declarations.cluster
        try:
            piece = self._wiring.scheduler(cluster).output(
                target_of(job, ref), offset=offset, limit=limit
            )
        except ImportError as error:
            # Only the worker carries the client of every cluster.
            raise Unsupported(f"the API can't speak to cluster {cluster}: {error}") from error
        return _json(
            api.LogsAnswer(
                job_id=job_id,
                ref=ref,
                text=piece.text,
                next_offset=piece.next_offset,
                ended=piece.ended,
            )
        )

    def clusters(self, event: Event, query: Query) -> Response[str]:
        """Name the clusters and say how their supervision goes."""
        self._gate.anyone(self._gate.rights(event), "see the clusters")
        wiring, answers = self._wiring, []
        for one in wiring.clusters.clusters:
            health = wiring.store.get_health(one.name)
            accepted = loss_accepted_at(wiring.store, one.name, health)
            shown = api.health_of(health, accepted)
            answers.append(api.cluster_of(one, wiring.declarations(one.name), shown))
        refused = wiring.clusters_refused
        told = None if refused is None else str(refused)
        return _json(api.ClustersAnswer(clusters=tuple(answers), refused=told))

    def accept_loss(self, event: Event, query: Query, name: str) -> Response[str]:
        """Keep a person's word that what a cluster lost at once is real."""
        rights = self._gate.rights(event)
        request = api.parse_accept_loss(body_of(event))
        self._gate.admin(rights, f"accept a loss of cluster {name}")
        cluster = self._wiring.clusters.named(name).name
        by, at = rights.caller.principal, self._wiring.edges.clock()
        accept_loss(self._wiring.store, cluster, by=by, at=at)
        told = {**Signal.LOSS_ACCEPTED.extra, "actor": by, "cluster": cluster}
        said = "%s says that what cluster %s lost is real: %s"
        self._log.warning(said, by, cluster, request.reason or "no reason given", extra=told)
        until = at + timedelta(seconds=Beat().accepted_s)
        return _json(api.LossAcceptedAnswer(cluster=cluster, by=by, at=at, until=until))

    def whoami(self, event: Event, query: Query) -> Response[str]:
        """Say who the authorizer takes the caller for, and what they may do."""
        rights = self._gate.rights(event)
        may = api.rights_answer(rights)
        return _json(api.WhoamiAnswer(actor=rights.caller.principal, may=may))

    # --- the document -------------------------------------------------------------------------

    def openapi(self, event: Event, query: Query) -> Response[str]:
        """Give the OpenAPI document."""
        from dispatch.api.openapi import document_text

        return Response(HTTPStatus.OK, api.JSON_TYPE, document_text())

    def page(self, event: Event, query: Query) -> Response[str]:
        """Give the document as a page."""
        from dispatch.api.openapi import PAGE_HEADERS, page

        return Response(HTTPStatus.OK, HTML_TYPE, page(), headers=dict(PAGE_HEADERS))

    def console(self, event: Event, query: Query) -> Response[str]:
        """Give the console's page."""
        return self.console_asset(event, query, console.PAGE)

    def console_asset(self, event: Event, query: Query, asset: str) -> Response[str]:
        """Give one of the console's files, or say that it hasn't changed."""
        file = console.asset(asset, sign_in_of(event))
        if file is None:
            raise Refused(api.http_problem(404, f"the console has no file {asset!r}"))
        if file.unchanged(header_of(event, "if-none-match")):
            return Response(HTTPStatus.NOT_MODIFIED, None, "", headers=dict(file.headers))
        return Response(HTTPStatus.OK, file.content_type, file.text, headers=dict(file.headers))


def _json(
    answer: BaseModel, status: HTTPStatus = HTTPStatus.OK, headers: dict[str, str] | None = None
) -> Response[str]:
    return Response(
        status_code=status,
        content_type=api.JSON_TYPE,
        body=api.answer_text(answer),
        headers=dict(headers or {}),
    )


def _problem(problem: api.Problem, log: logging.Logger) -> Response[str]:
    if problem.status >= 500:
        log.warning("problem %s: %s", problem.code, problem.detail)
    headers = {"Retry-After": str(api.RETRY_AFTER_S)} if problem.status in (503, 504) else {}
    return Response(
        status_code=problem.status,
        content_type=api.PROBLEM_TYPE,
        body=api.answer_text(problem),
        headers=dict(headers),
    )


# --- the handler ------------------------------------------------------------------------------


def make_handler(
    wiring: Wiring,
    log: logging.Logger,
    *,
    actor: Callable[[Mapping[str, Any]], str] = actor_of,
) -> Handler:
    """Return the handler of HTTP API events.

    Args:
        wiring: Where store, clusters and operator come from.
        log: For what people who run this should see.
        actor: Tells who calls; the authorizer's word by default.
    """
    resolver = APIGatewayHttpResolver()
    routes = Api(wiring, actor, log)
    for route, path in _PATHS:
        _register(resolver, route, path, getattr(routes, route.name))

    def broke(error: Exception) -> Response[str]:
        log.error("a request failed in a way that nobody foresaw", exc_info=error)
        return _problem(api.http_problem(500, "something failed here; it was logged"), log)

    on = resolver.exception_handler
    on(Refused)(lambda refused: _problem(refused.problem, log))
    on(DispatchError)(lambda error: _problem(api.problem_of(error), log))
    on(Exception)(broke)

    @resolver.not_found
    def _lost(_: Exception) -> Response[str]:
        event = resolver.current_event
        return _no_route(event.http_method, event.path, log)

    def handle(event: Event, context: Any) -> dict[str, Any]:
        answer: dict[str, Any] = resolver.resolve(event, context)
        return answer

    return handle


def _register(
    resolver: APIGatewayHttpResolver, route: Route, path: str, action: Callable[..., Response[str]]
) -> None:
    known = None if route.console else frozenset(route.query)

    def answer(**parts: str) -> Response[str]:
        event: Event = resolver.current_event.raw_event
        return action(event, query_of(event, known), **parts)

    resolver.route(path, method=route.method)(answer)


def _no_route(method: str, path: str, log: logging.Logger) -> Response[str]:
    """Say why no route answers: the path is wrong, or only the method is."""
    methods = allowed(path)
    path = path.encode(errors="replace").decode()
    # Where the method is right, a name in the path has characters that no name has.
    if not methods or method in methods:
        return _problem(api.http_problem(404, f"there is no {path}"), log)
    detail = f"{path} answers {', '.join(methods)}, not {method}"
    answer = _problem(api.http_problem(405, detail), log)
    answer.headers["Allow"] = ", ".join(methods)
    return answer


@cache
def _started() -> Handler:
    from aws_lambda_powertools import Logger

    logger: Any = Logger(service="intents")
    return make_handler(from_settings(), logger)


def handler(event: Event, context: Any) -> dict[str, Any]:
    """Answer one request; the dependencies are made at the first."""
    return _started()(event, context)
