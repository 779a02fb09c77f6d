"""Looking at a cluster: one Find a namespace and tick, whole or honest about not being whole.

The lists are read in one order: Jobs first, then pods, then what explains them. A pod whose Job
isn't in the list is asked about by name, since the Job may be younger than its list.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime

from dispatch.errors import SchedulerUnavailable
from dispatch.record.evidence import Found, Glance, Sighting
from dispatch.schedulers.eks.around import read_event, read_node, read_workload
from dispatch.schedulers.eks.client import (
    METADATA_ONLY,
    KubeClient,
    NoAnswer,
    NoEvidence,
    NotSent,
    core,
    jobs,
    path,
)
from dispatch.schedulers.eks.marks import (
    LIVE_SELECTOR,
    RECORDED,
    TRAINJOBS,
    Identity,
    tag_selector,
)
from dispatch.schedulers.eks.objects import (
    JOB_NAME,
    JOBSET_NAME,
    JsonMap,
    Unreadable,
    mapping,
    read_job,
    read_meta,
    read_pod,
    text,
)
from dispatch.schedulers.eks.response import (
    AnswerClass,
    Gathered,
    listed,
    next_page,
    read_refusal,
    sightings,
)
from dispatch.schedulers.eks.settings import EksSettings
from dispatch.schedulers.eks.shapes import Shape, Top
from dispatch.schedulers.eks.train_look import TrainLook, token_of
from dispatch.schedulers.scheduler import Tag

MAX_PAGES = 10_000
WORKLOADS = ("apis", "kueue.x-k8s.io", "v1beta1")


class Look:
    """The questions that supervision asks of one cluster."""

    def __init__(
        self, client: KubeClient, settings: EksSettings, clock: Callable[[], datetime]
    ) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._trains = TrainLook(self)

    def find(self) -> Found:
        """Return every object of Dispatch here, as `Scheduler.find` promises."""
        taken_at = self._clock()
        try:
            identity = self.identity()
        except (NoEvidence, Unreadable) as error:
            raise SchedulerUnavailable(f"cluster {self._settings.name}: {error}") from error
        by_job: dict[str, tuple[Sighting, ...]] = {}
        troubles: list[str] = []
        for namespace in self._settings.namespaces:
            try:
                shown = sightings(self.gather(namespace))
            except (NoEvidence, Unreadable) as error:
                troubles.append(f"namespace {namespace}: {error}")
                continue
            for job, seen in shown.items():
                by_job[job] = by_job.get(job, ()) + seen
        return Found(
            cluster=self._settings.name,
            identity=identity,
            taken_at=taken_at,
            seen_at=self._clock(),
            complete=not troubles,
            by_job=by_job,
            error="; ".join(troubles) or None,
        )

    def glance(self) -> Glance:
        """Return a token for each object that hasn't ended: its own version and its pods'."""
        taken_at = self._clock()
        tokens: dict[str, str] = {}
        try:
            identity = self.identity()
            for namespace in self._settings.namespaces:
                tokens |= self._tokens(namespace)
        except (NoEvidence, Unreadable) as error:
            raise SchedulerUnavailable(f"cluster {self._settings.name}: {error}") from error
        return Glance(
            cluster=self._settings.name,
            identity=identity,
            taken_at=taken_at,
            seen_at=self._clock(),
            tokens=tokens,
        )

    def _tokens(self, namespace: str) -> dict[str, str]:
        live = [read_job(body) for body in self._list_jobs(namespace, self._own(LIVE_SELECTOR))]
        versions: dict[str, list[str]] = defaultdict(list)
        where, query = core(namespace, "pods"), {"labelSelector": self._own(LIVE_SELECTOR)}
        for body in self.pages(where, query, "PartialObjectMetadataList", METADATA_ONLY):
            meta = read_meta(body)
            versions[next(iter(meta.owners), "")].append(f"{meta.uid}:{meta.version}")
        trains = {} if self._settings.trainer is None else self._trains.tokens(namespace)
        return trains | {
            Identity(namespace, job.meta.name, job.meta.uid).ref: token_of(
                job.meta.version, versions.get(job.meta.uid, [])
            )
            for job in live
            if job.finished is None
        }

    # --- the parts of a look ---

    def identity(self) -> str:
        """Return the uid of kube-system, which names a cluster for as long as it lives."""
        uid = read_meta(self.ask(path("api", "v1", "namespaces", "kube-system"))).uid
        if not uid:
            raise Unreadable("kube-system has no uid")
        return uid

    def gather(self, namespace: str) -> Gathered:
        """Return everything of ours in a namespace, all of it or nothing.

        Raises:
            NoEvidence: A question failed, or the namespace isn't there, where every list is
                empty and whole.
        """
        self.ask(path("api", "v1", "namespaces", namespace))
        gathered = self._objects(namespace, self._own(LIVE_SELECTOR))
        if self._settings.trainer is not None:
            self._trains.gather(namespace, gathered)
        return self._explained(namespace, gathered)

    def gather_one(self, identity: Identity, tag: Tag) -> Gathered:
        """Return everything that concerns one object, recorded or not."""
        if identity.plural == TRAINJOBS:
            trains = self._trains.gather_one(identity, tag)
            return self._explained(identity.namespace, trains)
        gathered = self._objects(identity.namespace, tag_selector(tag))
        for uid in [uid for uid in gathered.pods if uid != identity.uid]:
            del gathered.pods[uid]
        gathered.jobs = {u: j for u, j in gathered.jobs.items() if u == identity.uid}
        return self._explained(identity.namespace, gathered)

    def _objects(self, namespace: str, selector: str) -> Gathered:
        gathered = Gathered()
        for body in self._list_jobs(namespace, selector):
            job = read_job(body)
            gathered.jobs[job.meta.uid] = job
        where, query = core(namespace, "pods"), {"labelSelector": selector}
        for body in self.pages(where, query, "PodList"):
            pod = read_pod(body)
            gathered.pods[pod.owner_uid].append(pod)
        return gathered

    def _explained(self, namespace: str, gathered: Gathered) -> Gathered:
        for uid in sorted(gathered.orphans):
            name = gathered.pods[uid][0].meta.labels.get(JOB_NAME, "")
            body = self.ask_for(jobs(namespace, name)) if name else None
            job = None if body is None else read_job(body)
            if job is None or job.meta.uid != uid:
                continue
            if RECORDED in job.meta.labels:
                del gathered.pods[uid]
            else:
                gathered.jobs[uid] = job
        for name in sorted(gathered.doubtful_nodes):
            body = self.ask_for(path("api", "v1", "nodes", name))
            gathered.nodes[name] = None if body is None else read_node(body)
        if gathered.unexplained:
            query = {"fieldSelector": "type=Warning"}
            for body in self.pages(core(namespace, "events"), query, "EventList"):
                event = read_event(body)
                gathered.events[event.uid].append(event)
        if self._settings.kueue_queue is not None:
            where = path(*WORKLOADS, "namespaces", namespace, "workloads")
            for body in self.pages(where, {}, "WorkloadList"):
                workload = read_workload(body)
                gathered.workloads |= dict.fromkeys(workload.meta.owners, workload)
        return gathered

    def top(self, shape: Shape, namespace: str, name: str) -> Top | None:
        """Return an attempt's object by its name, None where the server doesn't know it."""
        body = self.ask_for(shape.where(namespace, name))
        return None if body is None else shape.read(body)

    def _own(self, selector: str) -> str:
        """Return what selects the shape of Jobs alone; what a JobSet made is asked for apart."""
        return selector if self._settings.trainer is None else f"{selector},!{JOBSET_NAME}"

    def _list_jobs(self, namespace: str, selector: str) -> Iterator[JsonMap]:
        return self.pages(jobs(namespace), {"labelSelector": selector}, "JobList")

    # --- questions ---

    def pages(
        self, where: str, query: dict[str, str], kind: str, accept: str = ""
    ) -> Iterator[JsonMap]:
        """Yield the objects of a whole list, page by page.

        Raises:
            NoEvidence: A page is missing, so that nothing is known to be absent.
        """
        token, seen = "", set[str]()
        for _ in range(MAX_PAGES):
            asked = {**query, "limit": str(self._settings.page_size)}
            if token:
                asked["continue"] = token
            body = self.ask(where, asked, accept)
            yield from listed(body, kind)
            token = next_page(body)
            if not token:
                return
            if token in seen:
                raise NoEvidence(f"{kind}: the same page came twice")
            seen.add(token)
        raise NoEvidence(f"{kind}: more than {MAX_PAGES} pages")

    def ask(self, where: str, query: dict[str, str] | None = None, accept: str = "") -> JsonMap:
        """Return the answer to one question.

        Raises:
            NoEvidence: There was none, or an error.
        """
        body = self.ask_for(where, query, accept)
        if body is None:
            raise NoEvidence(f"{where} isn't there")
        return body

    def document(self, where: str) -> JsonMap:
        """Return a document that is no object of the API.

        Raises:
            NoEvidence: There was no answer, or an error.
        """
        try:
            answer = self._client.get(where)
        except (NotSent, NoAnswer) as error:
            raise NoEvidence(str(error)) from error
        if not answer.ok:
            raise NoEvidence(f"HTTP {answer.status}")
        return mapping(answer.body, "answer")

    def ask_for(
        self, where: str, query: dict[str, str] | None = None, accept: str = ""
    ) -> JsonMap | None:
        """Return the answer to one question, None where the server knows no such object.

        Raises:
            NoEvidence: There was no answer, or an error.
        """
        try:
            answer = self._client.get(where, query, accept=accept)
        except (NotSent, NoAnswer) as error:
            raise NoEvidence(str(error)) from error
        if not answer.ok:
            refusal = read_refusal(answer.status, answer.body)
            if refusal.kind is AnswerClass.NOT_KNOWN:
                return None
            raise NoEvidence(f"{refusal.code} {refusal.reason} {refusal.message}")
        body = mapping(answer.body, "answer")
        if not body or text(body.get("kind"), "kind") in ("", "Status"):
            raise NoEvidence(f"{where}: the answer isn't one")
        return body
