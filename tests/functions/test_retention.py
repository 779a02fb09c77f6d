"""Retention: what is tombstoned goes, what is old is archived first, and all else stays."""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from typer.testing import CliRunner

from dispatch.archive import Archive, FolderArchive, keep
from dispatch.aws import S3Archive
from dispatch.cli.app import app
from dispatch.core.fold import fold
from dispatch.errors import (
    BadConfiguration,
    DispatchError,
    JobTombstoned,
    StoreUnavailable,
    TryLater,
)
from dispatch.record.codec import envelope
from dispatch.record.control import Control
from dispatch.record.export import export_text, import_text
from dispatch.record.names import IntentKind
from dispatch.record.view import Envelope
from dispatch.settings import Settings, from_environment
from dispatch.store.records import Store
from dispatch.wiring import Edges, Wiring
from functions.retention.app import make_handler
from tests.functions.world import CLUSTERS, Context, World

DAY_S = 86_400
AT = datetime(2027, 6, 1, tzinfo=UTC)


@dataclass
class KeptArchive:
    """Keeps archives in memory; may lose or damage what it is given, and shows what was asked."""

    kept: dict[str, bytes] = field(default_factory=dict)
    damaged: bool = False
    failure: Exception | None = None
    puts: list[str] = field(default_factory=list)
    gets: list[str] = field(default_factory=list)

    def put(self, name: str, data: bytes) -> None:
        self.puts.append(name)
        if self.failure is not None:
            raise self.failure
        self.kept[name] = data[:-2] if self.damaged else data

    def get(self, name: str) -> bytes | None:
        self.gets.append(name)
        return self.kept.get(name)


class Watched:
    """A store that counts its calls and may die before one of them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.dies_at: str | None = None
        self.before: dict[str, Callable[[], object]] = {}

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            if name == self.dies_at:
                raise Died
            self.before.pop(name, lambda: None)()
            self.calls.append((name, args))
            return getattr(self._store, name)(*args, **named)

        return call


class Died(BaseException):
    """The process was killed here."""


class Shelf:
    """A world with an archive; retention runs on it `days` after things settle."""

    def __init__(self, days: int = 30, archive: Archive | None = None) -> None:
        self.world = World()
        self.archive = KeptArchive()
        self.store: Any = Watched(self.world.store)
        settings = Settings(clusters=CLUSTERS, archive_after_days=days)
        self.wiring = Wiring(
            settings,
            Edges(self.world.clock),
            store=self.store,
            archive=self.archive if archive is None else archive,
        )
        self.run = make_handler(self.wiring, logging.getLogger("tests.retention"))

    def closed(self, key: str = "key-1") -> str:
        """A job that is settled, and that no look covers any more."""
        job = self.world.job(key)
        self.world.settle(job)
        self.world.clock.forward(3600)
        for _ in range(3):
            self.world.work('{"cluster":"main"}')
        return job

    def retained(self, seconds: float = 60.0) -> Mapping[str, Any]:
        self.store.calls.clear()
        return self.run({}, Context(seconds))

    def days_pass(self, days: float) -> None:
        self.world.clock.forward(days * DAY_S)


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


def gone(store: Store, job: str) -> bool:
    try:
        store.read(job)
    except JobTombstoned:
        return True
    return False


# --- removal ----------------------------------------------------------------------------------


def test_what_is_tombstoned_is_removed_and_nothing_else(world: World) -> None:
    job, kept, open_ = world.job("a"), world.job("b"), world.job("c")
    for one in (job, kept):
        world.settle(one)
    world.intend(open_, "hold")
    world.http("DELETE", f"/jobs/{job}")
    assert world.retention({}, Context()) == {"removed": 1, "archived": 0, "complete": True}
    assert world.store.read_tombstoned(job) is None
    assert world.store.read(kept).revision > 0
    assert world.store.read(open_).revision > 0


def test_what_was_removed_is_never_visited_again(shelf: Shelf) -> None:
    jobs = [shelf.closed(f"k{number}") for number in range(4)]
    for job in jobs:
        shelf.world.store.tombstone(job)
    assert shelf.retained()["removed"] == 4
    shelf.days_pass(100)
    assert shelf.retained() == {"removed": 0, "archived": 0, "complete": True}
    assert [name for name, _ in shelf.store.calls] == ["removable", "archivable"]


def test_without_time_nothing_is_begun(shelf: Shelf) -> None:
    removed, archived = shelf.closed("a"), shelf.closed("b")
    shelf.world.store.tombstone(removed)
    shelf.days_pass(31)
    assert shelf.retained(seconds=1) == {"removed": 0, "archived": 0, "complete": False}
    assert shelf.world.store.read_tombstoned(removed) is not None
    assert not gone(shelf.world.store, archived)


def test_a_record_that_a_person_tombstoned_is_archived_before_it_is_removed(shelf: Shelf) -> None:
    job = shelf.closed()
    text = export_text(shelf.world.store.read(job))
    shelf.world.http("DELETE", f"/jobs/{job}")
    assert shelf.retained()["removed"] == 1
    assert shelf.archive.kept[f"{job}.jsonl"].decode() == text


def test_a_removal_that_was_interrupted_is_ended_and_leaves_the_archive_alone(
    shelf: Shelf,
) -> None:
    job = shelf.closed()
    shelf.world.store.tombstone(job)
    shelf.store.dies_at = "remove"
    with pytest.raises(Died):
        shelf.retained()
    before = dict(shelf.archive.kept)
    shelf.store.dies_at = None
    # As if half of the entries were gone with the process.
    shelf.world.store.remove(job)
    shelf.world.store.tombstone(job)
    assert shelf.retained()["removed"] == 1
    assert shelf.archive.kept == before


# --- by age -----------------------------------------------------------------------------------


def test_it_is_off_unless_it_is_asked_for(world: World) -> None:
    assert Settings().archive_after_days == 0
    job = world.job()
    world.settle(job)
    world.clock.forward(10_000 * DAY_S)
    world.work('{"cluster":"main"}')
    assert world.retention({}, Context())["archived"] == 0
    assert not gone(world.store, job)


def test_a_record_is_archived_and_tombstoned_once_it_is_old_enough(shelf: Shelf) -> None:
    job = shelf.closed()
    shelf.days_pass(29)
    assert shelf.retained()["archived"] == 0
    shelf.days_pass(1.1)
    assert shelf.retained()["archived"] == 1
    assert gone(shelf.world.store, job)
    assert shelf.retained() == {"removed": 1, "archived": 0, "complete": True}
    assert shelf.world.store.read_tombstoned(job) is None
    assert shelf.world.submit("key-1").body["job_id"] == job


def test_an_archive_folds_to_the_same_job(shelf: Shelf) -> None:
    job = shelf.closed()
    shelf.world.intend(job, "hold", "late", reason="after the end")
    before = fold(shelf.world.store.read(job), AT)
    shelf.days_pass(31)
    shelf.retained()
    view = import_text(shelf.archive.kept[f"{job}.jsonl"].decode())
    assert fold(view, AT) == before
    assert fold(view, AT).settled_at is not None


def test_only_settled_records_that_nothing_covers_any_more_are_archived(shelf: Shelf) -> None:
    running = shelf.world.job("open")
    shelf.world.intend(running, "hold")
    covered = shelf.world.job("covered")
    shelf.world.settle(covered)
    shelf.days_pass(400)
    assert shelf.retained()["archived"] == 0
    assert shelf.archive.puts == []
    for job in (running, covered):
        assert not gone(shelf.world.store, job)


def test_a_cluster_that_shows_ended_objects_for_longer_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shelf = Shelf(days=1)
    declared = shelf.world.cluster().declare().model_copy(update={"retention_s": 10 * DAY_S})
    monkeypatch.setattr(shelf.world.cluster(), "declare", lambda: declared)
    job = shelf.closed()
    shelf.world.store.close(job)
    shelf.days_pass(9)
    assert shelf.retained()["archived"] == 0
    shelf.days_pass(2)
    assert shelf.retained()["archived"] == 1


def test_a_record_that_bears_the_label_and_does_not_fold_to_settled_is_left_alone(
    shelf: Shelf,
) -> None:
    store = shelf.world.store
    job = shelf.world.job()
    hold = Control(kind=IntentKind.HOLD, id="i", by="ada", at=shelf.world.clock())
    store.commit(job, 0, [envelope(hold)], settled_at=shelf.world.clock())
    store.close(job)
    shelf.days_pass(400)
    assert shelf.retained()["archived"] == 0
    assert shelf.archive.puts == []
    assert not gone(store, job)


def test_a_record_that_this_build_cannot_fold_is_left_alone_and_said_so(
    shelf: Shelf, caplog: pytest.LogCaptureFixture
) -> None:
    newer, other = shelf.closed("newer"), shelf.closed("other")
    store = shelf.world.store
    store.commit(newer, store.read(newer).revision, [Envelope("dispatch.fact.v9", "{}")])
    shelf.days_pass(31)
    assert shelf.retained()["archived"] == 1
    assert not gone(store, newer)
    assert gone(store, other)
    assert [one.signal for one in caplog.records if hasattr(one, "signal")] == ["record_refused"]


def test_an_intent_that_comes_between_archive_and_mark_is_never_lost(shelf: Shelf) -> None:
    job = shelf.closed()
    shelf.days_pass(31)
    shelf.store.before["tombstone"] = lambda: shelf.world.intend(job, "cancel", "late")
    assert shelf.retained()["archived"] == 0
    assert not gone(shelf.world.store, job)
    assert shelf.retained()["archived"] == 1
    assert b'"id":"late"' in shelf.archive.kept[f"{job}.jsonl"]


@pytest.mark.parametrize("moment", ["tombstone", "remove"])
def test_a_death_at_any_moment_is_made_up_for_by_the_next_run(shelf: Shelf, moment: str) -> None:
    job = shelf.closed()
    text = export_text(shelf.world.store.read(job))
    shelf.days_pass(31)
    shelf.store.dies_at = moment
    for _ in range(3):
        try:
            shelf.retained()
        except Died:
            assert shelf.archive.kept[f"{job}.jsonl"].decode() == text
    shelf.store.dies_at = None
    shelf.retained()
    shelf.retained()
    assert shelf.world.store.read_tombstoned(job) is None
    assert shelf.archive.kept == {f"{job}.jsonl": text.encode()}
    assert len(shelf.archive.puts) == 1


# --- an archive that fails --------------------------------------------------------------------


@pytest.mark.parametrize("failure", [TryLater("slow"), BadConfiguration("no bucket"), None])
def test_nothing_is_marked_or_removed_that_could_not_be_archived(
    shelf: Shelf, failure: DispatchError | None
) -> None:
    old, marked = shelf.closed("old"), shelf.closed("marked")
    shelf.world.store.tombstone(marked)
    shelf.days_pass(31)
    shelf.archive.failure, shelf.archive.damaged = failure, failure is None
    with pytest.raises(type(failure) if failure else TryLater):
        shelf.retained()
    assert not gone(shelf.world.store, old)
    assert shelf.world.store.read_tombstoned(marked) is not None
    shelf.archive.failure, shelf.archive.damaged = None, False
    assert shelf.retained() == {"removed": 1, "archived": 1, "complete": True}


def test_a_run_gives_up_after_a_few_archives_that_fail(shelf: Shelf) -> None:
    for number in range(8):
        shelf.closed(f"k{number}")
    shelf.days_pass(31)
    shelf.archive.failure = TryLater("slow")
    with pytest.raises(TryLater):
        shelf.retained()
    assert len(shelf.archive.puts) == 5


def test_a_store_that_does_not_answer_ends_the_run_at_once(shelf: Shelf) -> None:
    shelf.closed("a"), shelf.closed("b")
    shelf.days_pass(31)

    def silent() -> None:
        raise StoreUnavailable("no answer")

    shelf.store.before["read"] = silent
    with pytest.raises(StoreUnavailable):
        shelf.retained()
    assert shelf.archive.puts == []


def test_by_age_alone_without_an_archive_is_refused(world: World) -> None:
    wiring = Wiring(Settings(clusters=CLUSTERS, archive_after_days=1), store=world.store)
    with pytest.raises(BadConfiguration, match="DISPATCH_ARCHIVE_AFTER_DAYS"):
        make_handler(wiring, logging.getLogger("tests.retention"))({}, Context())


def test_what_is_there_already_and_equal_is_not_written_again(shelf: Shelf) -> None:
    view = shelf.world.store.read(shelf.closed())
    first = keep(shelf.archive, view)
    assert keep(shelf.archive, view) == first
    assert len(shelf.archive.puts) == 1


# --- where archives are -----------------------------------------------------------------------


@pytest.fixture
def bucket() -> Iterator[str]:
    with mock_aws():
        boto3.client("s3", region_name="us-east-1").create_bucket(Bucket="archive")
        yield "archive"


def test_the_bucket_keeps_exports_with_their_checksum(bucket: str) -> None:
    shelf = Shelf(archive=S3Archive(bucket))
    job = shelf.closed()
    text = export_text(shelf.world.store.read(job))
    shelf.days_pass(31)
    assert shelf.retained()["archived"] == 1
    told = boto3.client("s3").get_object(
        Bucket=bucket, Key=f"records/{job}.jsonl", ChecksumMode="ENABLED"
    )
    assert told["Body"].read().decode() == text
    assert told["ChecksumSHA256"]
    assert told["ContentType"] == "application/x-ndjson"


def test_a_bucket_that_is_not_there_is_the_configuration_s_fault(bucket: str) -> None:
    with pytest.raises(BadConfiguration, match="nowhere"):
        S3Archive("nowhere").put("a", b"b")
    with pytest.raises(BadConfiguration, match="nowhere"):
        S3Archive("nowhere").get("a")
    assert S3Archive(bucket).get("a") is None


class Refusing:
    """A client of S3 that answers every call with one error."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __getattr__(self, name: str) -> Any:
        def call(**asked: Any) -> Any:
            raise ClientError({"Error": {"Code": self.code, "Message": "no"}}, name)

        return call


def test_who_may_not_list_is_told_of_a_missing_object_as_of_a_forbidden_one() -> None:
    refused = S3Archive("archive", Refusing("AccessDenied"))
    assert refused.get("a") is None
    with pytest.raises(BadConfiguration):
        refused.put("a", b"b")
    with pytest.raises(TryLater):
        S3Archive("archive", Refusing("SlowDown")).get("a")


def test_a_folder_keeps_whole_files_for_their_owner_alone(tmp_path: Path) -> None:
    archive = FolderArchive(tmp_path / "deep" / "archive")
    assert archive.get("a.jsonl") is None
    archive.put("a.jsonl", b"first")
    archive.put("a.jsonl", b"second")
    assert archive.get("a.jsonl") == b"second"
    (only,) = (tmp_path / "deep" / "archive").iterdir()
    assert only.stat().st_mode & 0o777 == 0o600


def test_a_folder_that_cannot_be_made_or_written_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(BadConfiguration):
        FolderArchive(tmp_path / "file" / "archive")
    archive = FolderArchive(tmp_path / "archive")
    (tmp_path / "archive" / "a").mkdir()
    with pytest.raises(TryLater):
        archive.put("a", b"b")
    assert [one.name for one in (tmp_path / "archive").iterdir()] == ["a"]
    with pytest.raises(TryLater):
        archive.get("a")


def test_an_archive_is_read_by_verify_why_and_history_as_it_lies_there(tmp_path: Path) -> None:
    shelf = Shelf(archive=FolderArchive(tmp_path))
    job = shelf.closed()
    shelf.days_pass(31)
    shelf.retained()
    file = str(tmp_path / f"{job}.jsonl")
    for words in (["verify", file, "--json"], ["why", file], ["history", file]):
        done = CliRunner().invoke(app, words, env={"COLUMNS": None, "DISPATCH_URL": "http://no"})
        assert done.exit_code == 0, done.output
        assert job in done.output or "succeeded" in done.output
    status = json.loads(CliRunner().invoke(app, ["verify", file, "--json"]).output)["status"]
    assert status["outcome"] == "succeeded"


def test_a_stack_is_not_started_that_would_archive_nowhere(tmp_path: Path) -> None:
    words = ["up", "--state", str(tmp_path / "state"), "--archive-after", "5"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "--archive" in done.stderr
    assert not (tmp_path / "state").exists()


# --- settings ---------------------------------------------------------------------------------


def test_a_deployment_says_where_and_when_by_its_environment() -> None:
    told = {"DISPATCH_TABLE": "t"}
    assert from_environment(told).archive_bucket is None
    settings = from_environment(
        {**told, "DISPATCH_ARCHIVE_BUCKET": "b", "DISPATCH_ARCHIVE_AFTER_DAYS": "90"}
    )
    assert (settings.archive_bucket, settings.archive_after_days) == ("b", 90)
    with pytest.raises(BadConfiguration, match="days"):
        from_environment({**told, "DISPATCH_ARCHIVE_AFTER_DAYS": "soon"})


def test_the_bucket_of_the_settings_is_the_archive(bucket: str) -> None:
    assert Wiring(Settings(table="t")).archive is None
    assert isinstance(Wiring(Settings(table="t", archive_bucket=bucket)).archive, S3Archive)
