"""Many writers on one record at once, in threads of one or of several processes."""

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from threading import Barrier
from typing import Protocol

from dispatch.errors import CommitUnknown, RevisionConflict, StoreUnavailable
from dispatch.store.records import Store
from tests.conformance.records.samples import evidence

WRITERS = 32
_PATIENCE_S = 100


class Opener(Protocol):
    """Opens the same store each time; where writers are processes it is pickled to them."""

    def __call__(self) -> AbstractContextManager[Store]: ...


@dataclass(frozen=True)
class Tried:
    """What became of one commit: `won`, `conflict` or the error, and the body it carried."""

    revision: int
    outcome: str
    body: str


class _Meeting(Protocol):
    def wait(self, timeout: float) -> int: ...


def meet(store: Store, job_id: str, writer: int, times: int, meeting: _Meeting) -> list[Tried]:
    """Commit at revisions 0, 1, … together with all other writers."""
    tried = []
    for revision in range(times):
        stored = evidence(f"{writer}.{revision}")
        meeting.wait(_PATIENCE_S)
        try:
            store.commit(job_id, revision, (stored,))
            outcome = "won"
        except RevisionConflict:
            outcome = "conflict"
        except Exception as error:  # noqa: BLE001 - shown by the test
            outcome = repr(error)
        tried.append(Tried(revision + 1, outcome, stored.body))
    return tried


def persist(store: Store, job_id: str, writer: int, times: int, meeting: _Meeting) -> list[Tried]:
    """Commit so many entries of one's own, reading again until each is acknowledged."""
    tried: list[Tried] = []
    meeting.wait(_PATIENCE_S)
    while len(tried) < times:
        view = store.read(job_id)
        stored = evidence(f"{writer}.{len(tried)}")
        bodies = [entry.body for entry in view.entries]
        if stored.body in bodies:
            tried.append(Tried(bodies.index(stored.body) + 1, "found", stored.body))
            continue
        try:
            revision = store.commit(job_id, view.revision, (stored,))
            tried.append(Tried(revision, "won", stored.body))
        except (RevisionConflict, CommitUnknown, StoreUnavailable):
            continue
    return tried


Writer = Callable[[Store, str, int, int, _Meeting], list[Tried]]


def race(opener: Opener, processes: int, writer: Writer, job_id: str, times: int) -> list[Tried]:
    """Let 32 writers run, spread over so many processes; return all that they tried."""
    if processes == 1:
        with opener() as store:
            return _threads(store, writer, job_id, times, range(WRITERS), Barrier(WRITERS))
    context = multiprocessing.get_context("spawn")
    meeting = context.Barrier(WRITERS)
    results = context.Queue()
    share = WRITERS // processes
    children = [
        context.Process(
            target=_child,
            args=(
                opener,
                writer,
                job_id,
                times,
                range(k * share, (k + 1) * share),
                meeting,
                results,
            ),
        )
        for k in range(processes)
    ]
    for child in children:
        child.start()
    try:
        tried = [one for _ in children for one in results.get(timeout=_PATIENCE_S)]
    finally:
        for child in children:
            child.join(10)
            child.kill()
    return tried


def _child(
    opener: Opener,
    writer: Writer,
    job_id: str,
    times: int,
    numbers: Sequence[int],
    meeting: _Meeting,
    results: "multiprocessing.Queue[list[Tried]]",
) -> None:
    with opener() as store:
        results.put(_threads(store, writer, job_id, times, numbers, meeting))


def _threads(
    store: Store,
    writer: Writer,
    job_id: str,
    times: int,
    numbers: Sequence[int],
    meeting: _Meeting,
) -> list[Tried]:
    with ThreadPoolExecutor(len(numbers)) as pool:
        running = [pool.submit(writer, store, job_id, k, times, meeting) for k in numbers]
        return [tried for one in running for tried in one.result()]
