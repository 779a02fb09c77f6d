"""A small world around the four handlers: a store in memory, made-up clusters, a set clock."""

import base64
import copy
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from dispatch.clusters import Cluster
from dispatch.errors import CallRefused, SchedulerUnavailable
from dispatch.event_details import DETAILS
from dispatch.events import Event
from dispatch.messages import Work
from dispatch.record.evidence import Found, Glance, Sighting
from dispatch.record.header import Declarations, Spec
from dispatch.record.names import Capability, Cause, ObjectState
from dispatch.schedulers.scheduler import (
    CheckLine,
    LookedUp,
    Output,
    Scheduler,
    Sent,
    Started,
    StartOrder,
    Tag,
    Target,
)
from dispatch.settings import Settings
from dispatch.signals import Signal
from dispatch.store.memory import MemoryRecords
from dispatch.store.records import Store
from dispatch.wiring import Edges, Wiring
from functions.events import app as events_function
from functions.intents import app as intents_function
from functions.retention import app as retention_function
from functions.supervisor import app as supervisor_function

FIXTURES = Path(__file__).parent / "fixtures"
START = datetime(2026, 11, 29, 12, tzinfo=UTC)
ADA = "iam:arn:aws:iam::111122223333:user/ada"
CLUSTERS = json.dumps(
    {
        "schema": "dispatch.clusters.v1",
        "clusters": [
            {"name": "main", "adapter": "local", "settings": {"spool": "/nowhere"}},
            {"name": "wide", "adapter": "local", "settings": {"spool": "/nowhere"}, "shards": 4},
        ],
    }
)
SPEC = {"name": "train", "command": ["true"]}


def fixture(name: str, **values: str) -> dict[str, Any]:
    """An event as recorded, with `{name}` replaced."""
    text = (FIXTURES / f"{name}.json").read_text()
    for key, value in values.items():
        text = text.replace("{" + key + "}", value)
    loaded: dict[str, Any] = json.loads(text)
    return loaded


@dataclass
class HandSetClock:
    """Goes on by a millisecond whenever it is read, and otherwise when it is told to."""

    now: datetime = START

    def __call__(self) -> datetime:
        self.now += timedelta(milliseconds=1)
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class MadeUpCluster:
    """Objects wait behind their gate; what is released has run to its end by the next look."""

    def __init__(self, name: str, clock: Callable[[], datetime]) -> None:
        self.name = name
        self.clock = clock
        self.objects: dict[str, tuple[Tag, str]] = {}
        self.looks = 0
        self.starts: list[Tag] = []
        self.stops: list[str] = []
        self.down = False
        self.refuses: list[str] = []
        self.ends = ObjectState.SUCCEEDED

    def declare(self) -> Declarations:
        return Declarations(
            adapter="local",
            cluster=self.name,
            capabilities=(Capability.GATED_START, Capability.HOLD_PENDING, Capability.OUTPUT),
            node_loss_window_s=0,
            call_bound_s=5,
            landing_bound_s=1,
            request_timeout_s=1,
            retention_s=600,
        )

    def check(self) -> Sequence[CheckLine]:
        return ()

    def lint(self, spec: Spec) -> Sequence[str]:
        return list(self.refuses)

    def glance(self) -> Glance:
        self._answers()
        live = {r: s for r, (_, s) in self.objects.items() if self._lives(s)}
        return Glance(self.name, "made-up", self.clock(), self.clock(), live)

    def find(self) -> Found:
        self._answers()
        self.looks += 1
        by_job: dict[str, tuple[Sighting, ...]] = {}
        for ref, (tag, state) in self.objects.items():
            by_job[tag.job] = (*by_job.get(tag.job, ()), self._sighting(ref, tag, state))
        return Found(self.name, "made-up", self.clock(), self.clock(), True, by_job)

    def _lives(self, state: str) -> bool:
        return state == "gate" or (state == "released" and self.ends is ObjectState.RUNNING)

    def _answers(self) -> None:
        if self.down:
            raise SchedulerUnavailable(f"cluster {self.name}: no answer")

    def _sighting(self, ref: str, tag: Tag, state: str) -> Sighting:
        shown = {
            "gate": ObjectState.PENDING,
            "released": self.ends,
            "stopped": ObjectState.FAILED,
        }[state]
        causes = {"stopped": Cause.STOPPED, "released": Cause.APP_ERROR}
        return Sighting(
            ref=ref,
            n=tag.n,
            a=tag.a,
            spec_digest=tag.spec_digest,
            generation=tag.generation,
            state=shown,
            cause=causes[state] if shown is ObjectState.FAILED else None,
            held=state == "gate",
            source="made-up",
        )

    def start(self, order: StartOrder) -> Started:
        self.starts.append(order.tag)
        ref = f"{self.name}/{order.tag.job}.{order.tag.n}.{order.tag.a}"
        self.objects[ref] = (order.tag, "gate")
        return Started(ref)

    def stop(self, target: Target) -> None:
        self.stops.append(target.ref)
        self._to(target, "stopped")

    def hold(self, target: Target) -> None:
        self._to(target, "gate")

    def release(self, target: Target) -> None:
        self._to(target, "released")

    def requeue(self, target: Target) -> None:
        raise AssertionError("not declared")

    def _to(self, target: Target, state: str) -> None:
        if target.ref not in self.objects:
            raise CallRefused(f"{target.ref} isn't there")
        tag, _ = self.objects[target.ref]
        self.objects[target.ref] = (tag, state)

    def lookup(self, targets: Sequence[Target], attempts: Sequence[Sent]) -> LookedUp:
        raise AssertionError("not declared")

    def output(self, target: Target, *, offset: int, limit: int) -> Output:
        text = f"output of {target.ref}\n".encode()
        piece = text[offset : offset + limit]
        return Output(piece.decode(), offset + len(piece), offset + len(piece) >= len(text))


@dataclass
class KeptQueue:
    """Takes messages and shows them."""

    sent: list[Work] = field(default_factory=list)

    def send(self, messages: Sequence[Work]) -> None:
        self.sent += messages

    def take(self) -> list[Work]:
        taken, self.sent = self.sent, []
        return taken


@dataclass
class KeptBus:
    """Takes events and shows them; may be told to fail."""

    put_: list[Event] = field(default_factory=list)
    failure: Exception | None = None

    def put(self, events: Sequence[Event]) -> None:
        if self.failure is not None:
            raise self.failure
        for event in events:
            # Whatever is published in any test is as its schema says, and nothing more.
            model = DETAILS[event.detail_type]
            model.model_validate_json(event.detail)
            assert json.loads(event.detail).keys() <= model.model_fields.keys()
        self.put_ += events


@dataclass
class Context:
    """A call of a function with so much time left."""

    seconds: float = 60.0
    aws_request_id: str = "request-1"

    def get_remaining_time_in_millis(self) -> int:
        return int(self.seconds * 1000)


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    text: str

    @property
    def body(self) -> Any:
        return json.loads(self.text)


class World:
    """Everything around the handlers; `http` speaks to the API as Ada."""

    def __init__(self, store: Store | None = None, clusters: str = CLUSTERS) -> None:
        tokens: Iterator[int] = count(1)
        self.clock = HandSetClock()
        self.clusters: dict[str, MadeUpCluster] = {}
        self.queue, self.bus = KeptQueue(), KeptBus()
        edges = Edges(self.clock, lambda: f"t-{next(tokens)}", self._pause)
        self.store: Store = store or MemoryRecords(edges.tokens)
        settings = Settings(clusters=clusters, supervisor="supervisor-test")
        self.wiring = Wiring(
            settings,
            edges,
            store=self.store,
            queue=self.queue,
            bus=self.bus,
            opened=self._opened,
        )
        self.log = logging.getLogger("tests.functions")
        self.intents = intents_function.make_handler(self.wiring, self.log)
        self.measured: list[tuple[str, int, str | None]] = []
        self.supervisor = supervisor_function.make_handler(
            self.wiring, self.log, meter=self._measure
        )
        self.events = events_function.make_handler(self.wiring, self.log)
        self.retention = retention_function.make_handler(self.wiring, self.log)

    def _measure(self, signal: Signal, value: int, cluster: str | None = None) -> None:
        self.measured.append((signal.metric, value, cluster))

    def _pause(self, k: int) -> None:
        self.clock.forward(0.5)

    def _opened(self, cluster: Cluster, edges: Edges) -> Scheduler:
        return self.cluster(cluster.name)

    def cluster(self, name: str = "main") -> MadeUpCluster:
        return self.clusters.setdefault(name, MadeUpCluster(name, self.clock))

    # --- the API ------------------------------------------------------------------------------

    def request(self, event: Mapping[str, Any]) -> Reply:
        answer = self.intents(dict(event), Context())
        text = answer.get("body") or ""
        if answer.get("isBase64Encoded"):
            text = base64.b64decode(text).decode()
        headers = {name.lower(): str(value) for name, value in answer.get("headers", {}).items()}
        return Reply(answer["statusCode"], headers, text)

    def http(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        query: str = "",
    ) -> Reply:
        return self.request(http_event(method, path, body, headers=headers, query=query))

    def submit(self, key: str = "key-1", **fields: Any) -> Reply:
        body = {"cluster": "main", "spec": SPEC, **fields}
        return self.http("POST", "/jobs", body, headers={"idempotency-key": key})

    def job(self, key: str = "key-1", **fields: Any) -> str:
        job_id: str = self.submit(key, **fields).body["job_id"]
        return job_id

    def intend(self, job: str, kind: str, id_: str = "i-1", **fields: Any) -> Reply:
        return self.http("POST", f"/jobs/{job}/intents", {"kind": kind, "id": id_, **fields})

    # --- supervision --------------------------------------------------------------------------

    def work(self, *bodies: str, context: Context | None = None) -> list[str]:
        """Deliver these message bodies at once; return the places of those that come again."""
        event = {"Records": [self.message(str(k), body) for k, body in enumerate(bodies)]}
        answer = self.supervisor(event, context or Context())
        return [one["itemIdentifier"] for one in answer["batchItemFailures"]]

    def message(self, id_: str, body: str) -> dict[str, Any]:
        record: dict[str, Any] = copy.deepcopy(fixture("sqs")["Records"][0])
        return {**record, "messageId": id_, "body": body}

    def settle(self, job: str, passes: int = 10) -> dict[str, Any]:
        """Let ticks pass until a job is settled; return its status."""
        status: dict[str, Any] = {}
        for _ in range(passes):
            self.work('{"cluster":"main"}')
            self.clock.forward(2)
            status = self.http("GET", f"/jobs/{job}").body
            if status.get("settled_at"):
                return status
        raise AssertionError(f"not settled after {passes} passes: {status}")


def http_event(
    method: str,
    path: str,
    body: Any = None,
    *,
    headers: Mapping[str, str] | None = None,
    query: str = "",
    like: str = "http-iam",
) -> dict[str, Any]:
    event = fixture(like)
    event["rawPath"] = event["requestContext"]["http"]["path"] = path
    event["requestContext"]["http"]["method"] = method
    event["rawQueryString"] = query
    if query:
        event["queryStringParameters"] = dict(one.split("=", 1) for one in query.split("&"))
    if body is not None:
        event["body"] = body if isinstance(body, str) else json.dumps(body)
    event["headers"] = {**event["headers"], **(headers or {})}
    return event
