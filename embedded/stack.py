"""The whole of a deployment on one machine: the same handlers, fed by threads of one process.

A clock plays EventBridge Scheduler, a reader plays the table's stream, a queue plays SQS and a
listener plays API Gateway. Everything that must not be lost is in the state folder; the rest is
made anew by the next tick, so the process may die at any moment.
"""

from __future__ import annotations

import json
import logging
import logging.handlers
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import Any, Literal

from waitress import wasyncore
from waitress.server import TcpWSGIServer, create_server

from dispatch.archive import FolderArchive
from dispatch.clusters import CLUSTERS_SCHEMA
from dispatch.errors import BadConfiguration, TryLater
from dispatch.events import Event
from dispatch.settings import STACK_PORT, Settings
from dispatch.store.records import Store
from dispatch.wiring import Edges, Wiring
from embedded.bus import FileBus
from embedded.context import FunctionContext
from embedded.listener import HOST, Listener, local_actor, local_user
from embedded.peer import can_tell
from embedded.queue import Batch, LocalQueue
from embedded.state import StateFolder
from embedded.stream import FeedSource, Source, StreamReader, TableSource
from functions.events import app as events_function
from functions.intents import app as intents_function
from functions.retention import app as retention_function
from functions.supervisor import app as supervisor_function

FUNCTION_TIME_S = 60.0
STREAM_EVERY_S = {"sqlite": 0.1, "dynamodb": 0.5}
RETENTION_EVERY_S = 3_600.0
AFTER_TROUBLE_S = 1.0
STOP_WITHIN_S = 20.0


@dataclass(frozen=True, slots=True)
class StackSettings:
    """How a stack runs.

    Attributes:
        state: The folder that holds everything it must not lose.
        port: Where it listens on the loopback interface; 0 for any free port.
        tick_s: Seconds between two ticks.
        store: Where records are kept: in a file of the state folder, or in a DynamoDB table.
        endpoint: The DynamoDB endpoint; None for AWS's own.
        table: The DynamoDB table; it is made if it isn't there.
        workers: How many clusters are looked after at once.
        archive: The folder that records are archived in before they are removed; None: nowhere.
        archive_after_days: Days after which a settled record is archived and tombstoned; 0: never.
    """

    state: Path
    port: int = STACK_PORT
    tick_s: float = 1.0
    store: Literal["sqlite", "dynamodb"] = "sqlite"
    endpoint: str | None = None
    table: str = "dispatch"
    workers: int = 2
    archive: Path | None = None
    archive_after_days: int = 0


class Stack:
    """A running stack; `start` it, later `stop` it.

    Args:
        settings: How it runs.
        edges: Where time and chance come in.
        told: Called with each event that is published.

    Raises:
        BadConfiguration: Another stack has the state folder, the port is taken, or the clusters'
            document is refused.
        StoreUnavailable: The store can't be opened.
    """

    def __init__(
        self,
        settings: StackSettings,
        *,
        edges: Edges | None = None,
        told: Callable[[Event], None] = lambda _: None,
    ) -> None:
        self.settings = settings
        self.folder = StateFolder(settings.state)
        try:
            self.log, self._log_file = _log(self.folder.log)
            edges = edges or Edges()
            self.queue = LocalQueue(edges.monotonic)
            self.wiring = _wiring(settings, self.folder, edges, self.queue, told)
            for one in self.wiring.clusters.clusters:
                if one.adapter == "local":
                    self.wiring.scheduler(one.name)
            self._source = _source(settings, self.wiring.store)
            self._connections: dict[int, Any] = {}
            application = _listener(self.wiring, self.log)
            self._server = _server(settings.port, application, self._connections)
        except BaseException:
            self.folder.close()
            raise
        self._stopping = Flag()
        self._threads: list[Thread] = []
        self._supervise = supervisor_function.make_handler(self.wiring, self.log)

    @property
    def url(self) -> str:
        """Where it listens."""
        listening = self._server.socket
        assert listening is not None
        return f"http://{HOST}:{listening.getsockname()[1]}"

    def start(self) -> None:
        """Begin to listen and to supervise."""
        publish = events_function.make_handler(self.wiring, self.log)
        reader = StreamReader(
            self._source,
            self.folder.position("stream"),
            lambda event: self._supervise(event, FunctionContext("supervisor", FUNCTION_TIME_S)),
            lambda event: publish(event, FunctionContext("events", FUNCTION_TIME_S)),
        )
        retain = retention_function.make_handler(self.wiring, self.log)
        tick = {"source": supervisor_function.TICK}

        def ticked() -> None:
            self._supervise(tick, FunctionContext("supervisor", FUNCTION_TIME_S))

        def retained() -> None:
            retain({}, FunctionContext("retention", FUNCTION_TIME_S))

        self._run("listener", self._listen)
        self._run("clock", lambda: self._repeated(ticked, self.settings.tick_s))
        self._run(
            "stream", lambda: self._repeated(reader.step, STREAM_EVERY_S[self.settings.store])
        )
        self._run("retention", lambda: self._repeated(retained, RETENTION_EVERY_S))
        for number in range(1, self.settings.workers + 1):
            self._run(f"worker-{number}", self._work)
        self.folder.listening(self.url)
        self.log.info("listening on %s, process %d", self.url, os.getpid())

    def stop(self) -> None:
        """End what is under way and let go of the state folder; jobs run on."""
        self._stopping.set()
        self.queue.close()
        self._server.pull_trigger()
        for thread in self._threads:
            thread.join(STOP_WITHIN_S)
        # With the connections that clients keep open; the server's own close leaves those to them.
        wasyncore.close_all(self._connections)
        self.log.info("stopped")
        for log in (self.log, _server_log()):
            log.removeHandler(self._log_file)
        self._log_file.close()
        self.folder.close()

    def _listen(self) -> None:
        """Serve until the stack stops, and then send what is answered already."""
        while not self._stopping.is_set():
            wasyncore.loop(timeout=1.0, map=self._connections, count=1)
        self._server.task_dispatcher.shutdown()
        wasyncore.loop(timeout=0.1, map=self._connections, count=2)

    def _run(self, name: str, work: Callable[[], object]) -> None:
        thread = Thread(target=work, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _repeated(self, work: Callable[[], object], every_s: float) -> None:
        """Do something again and again; what fails is told and done again."""
        while not self._stopping.is_set():
            wait_s = every_s
            try:
                work()
            except TryLater as error:
                self.log.warning("%s", error)
                wait_s = max(every_s, AFTER_TROUBLE_S)
            except Exception as error:
                self.log.error("a part of the stack failed: %s", error, exc_info=error)
                wait_s = max(every_s, AFTER_TROUBLE_S)
            self._stopping.wait(wait_s)

    def _work(self) -> None:
        while (batch := self.queue.take()) is not None:
            failed = self._served(batch)
            self.queue.done(batch, failed)

    def _served(self, batch: Batch) -> list[str]:
        context = FunctionContext("supervisor", FUNCTION_TIME_S)
        try:
            answer = self._supervise(batch.event(), context)
        except Exception as error:
            self.log.error("a batch failed: %s", error, exc_info=error)
            return [one.id for one in batch.messages]
        return [str(one["itemIdentifier"]) for one in answer["batchItemFailures"]]


def _wiring(
    settings: StackSettings,
    folder: StateFolder,
    edges: Edges,
    queue: LocalQueue,
    told: Callable[[Event], None],
) -> Wiring:
    document = f"file:{folder.clusters}" if folder.clusters.exists() else _default(folder)
    dynamodb = settings.store == "dynamodb"
    return Wiring(
        Settings(
            table=settings.table if dynamodb else None,
            endpoint=settings.endpoint if dynamodb else None,
            sqlite=None if dynamodb else folder.records,
            clusters=document,
            supervisor=f"supervisor@{socket.gethostname()}"[:200],
            clusters_every_s=5,
            archive_after_days=settings.archive_after_days,
        ),
        edges,
        queue=queue,
        bus=FileBus(folder.events, told),
        archive=None if settings.archive is None else FolderArchive(settings.archive),
    )


def _default(folder: StateFolder) -> str:
    """Return the document of a stack that nobody configured: this machine as `local`."""
    local = {"name": "local", "adapter": "local", "settings": {"spool": str(folder.spool)}}
    return json.dumps({"schema": CLUSTERS_SCHEMA, "clusters": [local]})


def _source(settings: StackSettings, store: Store) -> Source:
    """Return the stream of what the store takes, the table being made if it isn't there."""
    if settings.store == "dynamodb":
        import boto3

        from dispatch.aws import dynamodb_client
        from dispatch.store.dynamodb_table import create_table

        client = dynamodb_client(settings.endpoint)
        create_table(client, settings.table)
        streams: Any = boto3.client("dynamodbstreams", endpoint_url=settings.endpoint)
        return TableSource(client, streams, settings.table)
    from dispatch.store.sqlite import SqliteRecords

    assert isinstance(store, SqliteRecords)
    return FeedSource(store)


def _listener(wiring: Wiring, log: logging.Logger) -> Listener:
    known = can_tell()
    if not known:
        log.warning("this machine doesn't tell its users apart: all of them may use this stack")
    handler = intents_function.make_handler(wiring, log, actor=local_actor)
    return Listener(handler, local_user(), known_peer=known)


def _server(port: int, application: Listener, connections: dict[int, Any]) -> TcpWSGIServer:
    try:
        server = create_server(
            application,
            map=connections,
            host=HOST,
            port=port,
            threads=4,
            ident=None,
            clear_untrusted_proxy_headers=True,
        )
    except OSError as error:
        raise BadConfiguration(
            f"port {port} of {HOST}: {error.strerror}; give another with --port (0: any free one)"
        ) from None
    assert isinstance(server, TcpWSGIServer)
    return server


def _log(path: Path) -> tuple[logging.Logger, logging.Handler]:
    """Return a log of its own for this stack: 5 MB at most, and one file that came before."""
    log = logging.getLogger(f"dispatch.stack.{path}")
    log.setLevel(logging.INFO)
    log.propagate = False
    file = logging.handlers.RotatingFileHandler(path, maxBytes=5_000_000, backupCount=1)
    line = logging.Formatter("%(asctime)s %(levelname)s %(threadName)s %(message)s")
    line.converter = time.gmtime
    file.setFormatter(line)
    for one in (log, _server_log()):
        one.addHandler(file)
    return log, file


def _server_log() -> logging.Logger:
    """Return where the HTTP server tells what went wrong; it is no matter for a terminal."""
    log = logging.getLogger("waitress")
    log.propagate = False
    return log


# --- for `dispatch up` ------------------------------------------------------------------------


def run(settings: StackSettings, *, say: Callable[[str], None]) -> None:
    """Run a stack in the main thread until SIGINT or SIGTERM, and say how to use it.

    Args:
        settings: How it runs.
        say: Given each line for people.

    Raises:
        BadConfiguration, StoreUnavailable: It can't run; see `Stack`.
    """
    stopped = Flag()
    stack = Stack(settings, told=lambda event: say(_told(event)))
    before = {
        number: signal.signal(number, lambda *_: stopped.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        for line in introduction(stack):
            say(line)
        stack.start()
        stopped.wait()
        say("stopping; jobs run on, and the next `dispatch up` takes them over")
    finally:
        stack.stop()
        for number, handler in before.items():
            signal.signal(number, handler)


def introduction(stack: Stack) -> list[str]:
    """Return what a person should know about a stack that just started."""
    command = f"{Path(sys.executable).parent}/dispatch"
    state = stack.folder.root
    return [
        f"Dispatch listens on {stack.url} and keeps its records in {state}",
        f"clusters: {', '.join(one.name for one in stack.wiring.clusters.clusters)}",
        f"try: {command} submit -- echo hello     then: {command} list",
        f"or look at it in a browser: {stack.url}/ui",
        f"what went wrong is in {stack.folder.log}; stop with Ctrl-C",
    ]


def _told(event: Event) -> str:
    detail: Mapping[str, Any] = json.loads(event.detail)
    what = event.detail_type.split(".")[1].replace("_", " ")
    fields = ("outcome", "cause", "code", "kind", "state", "detail")
    words = [str(detail[name]) for name in fields if name in detail]
    if "job_id" in detail:
        about = f"job {detail['job_id']} {detail.get('name', '')}"
    else:
        about = f"cluster {detail['cluster']}"
    return f"{event.at:%H:%M:%S} {about}: {what} {'; '.join(words)}".rstrip()
