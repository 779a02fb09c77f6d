"""Power lost at every change of the file: what was acknowledged is whole, and nothing is half.

A life of two records is written once over a disk that notes every change, and once, undisturbed,
into an ordinary file. After each change the power is cut, in every way that a disk may lose what
wasn't synced, and what is left is opened as a restart would: the tables must be those after the
last acknowledged step, or after the one that was under way.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from itertools import count, groupby, pairwise
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

import pytest

from dispatch.core.fold import fold
from dispatch.record.codec import decode_header, envelope
from dispatch.record.export import export_text, import_text
from dispatch.record.view import View
from dispatch.store.records import ClusterHealth, Lease, NewRecord, Quiet
from dispatch.store.sqlite import SqliteRecords
from simulator.stories import STORIES
from tests.conformance.records.samples import NOW, evidence
from tests.store.power_cut import Disk, Remains, Way, over

WAYS = (*Way, Way.ZEROS, Way.GARBAGE)
"""The ways of chance are tried twice."""

CLOSINGS = 2
"""How often the file is closed in the life: its log is moved into it, and deleted."""

FILE = "records.sqlite"

TABLES = ("records", "entries", "leases", "health", "sqlite_sequence")

FOUND_OUT = "no step that may have been the last|malformed|another program|no SQLite file"
"""What a spoilt disk or store comes to."""

Step = Callable[[SqliteRecords], object]
Dump = dict[str, list[tuple[object, ...]]]


def tokens() -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"t{next(numbers)}"


def a_life(name: str) -> View:
    """The record of a story that the simulator tells, under an id of its own."""
    play = next(story for story in STORIES if story.name == name).play()
    view = play.records.read(play.job_id)
    header = decode_header(view.header, job=view.job_id)
    job_id = "j" + sha256(name.encode()).hexdigest()[:20]
    header = header.model_copy(update={"job_id": job_id, "idempotency_key": name})
    return replace(view, job_id=job_id, header=envelope(header))


def creating(view: View) -> Step:
    header = decode_header(view.header, job=view.job_id)
    new = NewRecord(
        job_id=view.job_id,
        idempotency_key=header.idempotency_key,
        spec_digest=header.spec_digest,
        cluster="hpc",
        header=view.header,
        created_at=header.created_at,
    )
    return lambda store: store.create(new)


def committing(view: View) -> Iterator[Step]:
    """Yield the commits that made a record, one after the other."""
    place = 0
    for _, group in groupby(view.entries, key=lambda one: one.token):
        entries = tuple(group)
        place += len(entries)
        settled = view.settled_at if place == view.revision else None

        def step(
            store: SqliteRecords,
            at: int = place - len(entries),
            entries: tuple[object, ...] = entries,
            settled: object = settled,
        ) -> None:
            store.commit(view.job_id, at, entries, settled_at=settled)  # type: ignore[arg-type]

        yield step


class Leases:
    """Steps about a lease; a term is needed by the next."""

    def __init__(self) -> None:
        self.held: Lease | None = None

    def acquire(self, store: SqliteRecords) -> None:
        self.held = store.acquire("sweep/hpc", "a", now=NOW, ttl_s=60)

    def renew(self, store: SqliteRecords) -> None:
        assert self.held is not None
        self.held = store.renew(self.held, now=NOW, ttl_s=90)

    def release(self, store: SqliteRecords) -> None:
        assert self.held is not None
        store.release(self.held)


def steps() -> list[Step]:
    """What is done to the store: every kind of write, two records side by side."""
    first = a_life("node_loss_requeue_and_cancel")
    second = a_life("it_fails_and_is_submitted_again")
    third = a_life("given_up")
    of_second = list(committing(second))
    leases = Leases()
    wide = [evidence(f"wide.{k}" + "x" * 600) for k in range(40)]
    quiet = Quiet(0, ("hpc/1/1",), "d" * 64, None, "b", ("hpc/1/1",))
    return [
        creating(first),
        leases.acquire,
        *committing(first),
        lambda store: store.put_health(ClusterHealth("hpc", "one", NOW)),
        creating(second),
        lambda store: store.set_quiet(second.job_id, quiet),
        lambda store: store.close(first.job_id),
        leases.renew,
        of_second[0],
        of_second[1],
        lambda store: store.close_file(),
        *of_second[2:],
        lambda store: store.tombstone(first.job_id),
        lambda store: store.remove(first.job_id),
        creating(third),
        lambda store: store.commit(third.job_id, 0, wide),
        leases.release,
        lambda store: store.put_health(ClusterHealth("hpc", "two", NOW)),
        lambda store: store.close_file(),
    ]


class Unsynced(sqlite3.Connection):
    """A restart that isn't cut itself needn't wait for its disk."""

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        return super().execute(sql.replace("synchronous = FULL", "synchronous = OFF"), *values)


def unsynced(*args: Any, **options: Any) -> sqlite3.Connection:
    return sqlite3.connect(*args, factory=Unsynced, **options)


@dataclass(frozen=True)
class Life:
    """A life that was written to a disk.

    Attributes:
        disk: With every change.
        acknowledged: After how many changes each step was acknowledged.
    """

    disk: Disk
    acknowledged: list[int]
    tables: list[Dump]
    found: Mapping[str, bytes]


def dump(file: sqlite3.Connection) -> Dump:
    return {
        table: file.execute(f"SELECT * FROM {table} ORDER BY rowid").fetchall() for table in TABLES
    }


def lived(
    folder: Path,
    doing: Callable[[], list[Step]] = steps,
    found: Mapping[str, bytes] = MappingProxyType({}),
    *,
    lies: bool = False,
    instead: Callable[[str], str] = lambda sql: sql,
) -> Life:
    """Do the steps over a disk that notes every change, and on an ordinary one; both as found."""
    for name in ("plain", "noted"):
        (folder / name).mkdir()
        laid(folder / name, found)
    path = folder / "plain" / FILE
    ordinary = SqliteRecords(path, tokens(), connect=unsynced)
    with closing(sqlite3.connect(path)) as plain:
        tables = [dump(plain)]
        for step in doing():
            step(ordinary)
            tables.append(dump(plain))
    ordinary.close_file()
    disk = Disk(f"disk-{folder}", lies=lies)
    acknowledged = []
    store = SqliteRecords(folder / "noted" / FILE, tokens(), connect=over(disk, instead))
    for step in doing():
        step(store)
        acknowledged.append(len(disk.notes))
    store.close_file()
    return Life(disk, acknowledged, tables, found)


def laid(place: Path, files: Mapping[str, bytes]) -> Path:
    """Put what a cut left where a restart finds it, and return the store's file."""
    for name, data in files.items():
        (place / name).write_bytes(data)
    # What the log's index in memory said is no help, and must be no harm.
    (place / f"{FILE}-shm").write_bytes(b"\x5a" * 32_768)
    return place / FILE


class Broken(Exception):
    """A promise was broken by a cut."""


@dataclass
class Walked:
    """How many cuts there were.

    Attributes:
        points: Places at which the power was cut.
        restarts: Different remains that were opened.
        doubtful: Restarts that found the unacknowledged step done.
    """

    points: int = 0
    restarts: int = 0
    doubtful: int = 0


def cuts(life: Life, ways: Sequence[Way]) -> Iterator[tuple[int, Way, dict[str, bytes]]]:
    """Yield where the power was cut, in which way, and what that left."""
    remains = Remains(life.found)
    for point in range(len(life.disk.notes) + 1):
        if point:
            remains.follow(life.disk.notes[point - 1])
        for number, way in enumerate(ways):
            yield point, way, remains.left(way, Random(f"{point}/{number}"))


def walk(life: Life, folder: Path, ways: Sequence[Way] = WAYS) -> Walked:
    """Cut the power after every change in every way, and judge what a restart finds.

    Raises:
        Broken: What was acknowledged isn't there, or something is half there.
    """
    walked, place = Walked(), folder / "left"
    place.mkdir()
    opened: set[object] = set()
    judged: set[int] = set()
    for point, way, left in cuts(life, ways):
        walked.points = point + 1
        known = sum(at <= point for at in life.acknowledged)
        same = (known, *sorted((name, sha256(data).digest()) for name, data in left.items()))
        if same in opened:
            continue
        opened.add(same)
        walked.restarts += 1
        try:
            store = SqliteRecords(laid(place, left), tokens(), connect=unsynced)
            done = _judge_tables(place / FILE, life.tables[known : known + 2])
            if known + done not in judged:
                _judge_records(store)
            creating(a_new_one())(store)
            assert store.read(a_new_one().job_id).revision == 0
            store.close_file()
        except Exception as error:
            raise Broken(f"cut after change {point}, {way}: {error!r}") from error
        judged.add(known + done)
        walked.doubtful += done
        for file_left in place.iterdir():
            file_left.unlink()
    return walked


def _judge_tables(path: Path, allowed: list[Dump]) -> int:
    """The tables are whole, and one of the two that are allowed; return which."""
    with closing(sqlite3.connect(path)) as file:
        found = dump(file)
        assert found in allowed, "the tables are those of no step that may have been the last"
        assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert file.execute("PRAGMA foreign_key_check").fetchall() == []
    return allowed.index(found)


def _judge_records(store: SqliteRecords) -> None:
    """Each record folds, as does its export, and the index of open ones knows it rightly."""
    listed = store.list(limit=100).items
    open_jobs = {due.job_id: due.revision for due in store.open_jobs("hpc")}
    for one in listed:
        if one.tombstoned:
            assert one.job_id not in open_jobs
            continue
        view = store.read(one.job_id)
        assert view.revision == one.revision
        job = fold(view, NOW)
        assert fold(import_text(export_text(view)), NOW) == job
        if one.settled_at is None:
            assert open_jobs[one.job_id] == view.revision


@cache
def a_new_one() -> View:
    return a_life("a_job_succeeds")


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Life:
    return lived(tmp_path_factory.mktemp("life"))


def test_every_step_but_closing_the_file_leaves_other_tables(life: Life) -> None:
    assert len(life.tables) == len(life.acknowledged) + 1
    assert sum(before == after for before, after in pairwise(life.tables)) == CLOSINGS


@pytest.mark.parametrize("ways", [WAYS[:4], WAYS[4:]], ids=["in order", "in any order"])
def test_f43_a_power_cut_at_any_change_loses_nothing_acknowledged_and_leaves_nothing_half(
    life: Life, tmp_path: Path, ways: Sequence[Way]
) -> None:
    walked = walk(life, tmp_path, ways)
    print(f"{walked.points} cuts, {walked.restarts} restarts, {walked.doubtful} found it done")
    assert walked.points == len(life.disk.notes) + 1
    assert walked.points > 500
    assert walked.restarts > walked.points
    assert walked.doubtful > 0


def test_f43_a_second_cut_while_a_restart_writes_is_no_worse(life: Life, tmp_path: Path) -> None:
    new = a_life("a_crash_right_after_a_start")
    doing: list[Step] = [
        creating(new),
        lambda store: store.commit(new.job_id, 0, [evidence("after the cut")]),
        lambda store: store.close_file(),
    ]
    total = Walked()
    first = list(cuts(life, (Way.NOTHING, Way.ALL, Way.ZEROS)))
    for number, (_, _, left) in enumerate(first[100::300]):
        folder = tmp_path / str(number)
        folder.mkdir()
        walked = walk(lived(folder, lambda: doing, left), folder, (Way.NOTHING, Way.ZEROS))
        total.points += walked.points
        total.restarts += walked.restarts
    print(f"{total.points} cuts after a cut, {total.restarts} restarts")
    assert total.restarts > 200


def test_a_disk_that_lies_about_its_syncs_is_found_out(tmp_path: Path) -> None:
    spoilt = lived(tmp_path, lies=True)
    with pytest.raises(Broken, match=FOUND_OUT):
        walk(spoilt, tmp_path)


@pytest.mark.parametrize("level", ["OFF", "NORMAL"])
def test_a_store_that_does_not_sync_each_commit_is_found_out(tmp_path: Path, level: str) -> None:
    def instead(sql: str) -> str:
        return sql.replace("synchronous = FULL", f"synchronous = {level}")

    with pytest.raises(Broken, match=FOUND_OUT):
        walk(lived(tmp_path, instead=instead), tmp_path)


def test_a_store_that_writes_a_commit_in_pieces_is_found_out(tmp_path: Path) -> None:
    begun = {"BEGIN IMMEDIATE", "COMMIT"}

    with pytest.raises(Broken, match=FOUND_OUT):
        walk(lived(tmp_path, instead=lambda sql: "" if sql in begun else sql), tmp_path)
